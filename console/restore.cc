#include "console/restore.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/options.h"
#include "console/paths.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/infer/inference.h"
#include "core/replay/restoring.h"
#include "core/trace/node_list.h"

namespace friday {
namespace {

struct RestoreArguments {
  std::string recording, nodes;
  bool unconfined = false, as_json = false;
};

int run_restore(const RestoreArguments& arguments) {
  auto recording = Recording::open(arguments.recording);
  if (!recording) return complain("restore", recording.error());
  std::set<NodeId> wanted = all_readable(*recording);
  if (!arguments.nodes.empty()) {
    const auto chosen = parse_node_list(*recording, arguments.nodes);
    if (!chosen) return complain("restore", chosen.error());
    wanted = std::set<NodeId>(chosen->begin(), chosen->end());
  }
  const auto start = std::chrono::steady_clock::now();
  auto restored = restore_payload(*recording, wanted,
                                  {library_directory(), arguments.unconfined, infer::make_infer(library_directory())});
  if (!restored) return complain("restore", restored.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (arguments.as_json)
    say_json({{"path", arguments.recording},
              {"nodes", restored->nodes},
              {"bytes", restored->bytes},
              {"proved", restored->inferred[static_cast<size_t>(Sureness::received)]},
              {"determined", restored->inferred[static_cast<size_t>(Sureness::determined)]},
              {"inferred", restored->inferred[static_cast<size_t>(Sureness::inferred)]},
              {"unknown", restored->inferred[static_cast<size_t>(Sureness::free)]},
              {"seconds", seconds}});
  else if (restored->nodes == 0)
    say("{} lacks nothing\n", arguments.nodes.empty() ? arguments.recording : "node " + arguments.nodes);
  else say("restored: {} of {}, {:.3f} s\n", size_text(restored->bytes), counted(restored->nodes, "node"), seconds);
  if (const std::string text = inferred_text(*restored); !text.empty() && !arguments.as_json) say("{}\n", text);
  return 0;
}

}  // namespace

void add_restore_command(CLI::App& app, int* status) {
  auto options = std::make_shared<RestoreArguments>();
  auto* command = app.add_subcommand(
      "restore", "Make again what a recording leaves out (pack --lean); other commands do so by themselves");
  add_recording(*command, options->recording);
  command->add_option("--node", options->nodes, "Only what these nodes lack, e.g. 0-3,!2 or redis-*");
  add_unconfined_flag(*command, options->unconfined);
  command->add_flag("--json", options->as_json, "Print the result as JSON");
  command->footer("Example:\n  friday restore REC");
  command->callback([options, status] { *status = run_restore(*options); });
}

}  // namespace friday
