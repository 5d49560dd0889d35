#include "console/restore.h"

#include <chrono>
#include <memory>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/options.h"
#include "console/paths.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/replay/restoring.h"

namespace friday {
namespace {

struct RestoreArguments {
  std::string recording;
  bool unconfined = false, as_json = false;
};

int run_restore(const RestoreArguments& arguments) {
  auto recording = Recording::open(arguments.recording);
  if (!recording) return complain("restore", recording.error());
  const auto start = std::chrono::steady_clock::now();
  auto restored = restore_payload(*recording, {library_directory(), arguments.unconfined});
  if (!restored) return complain("restore", restored.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (arguments.as_json)
    say_json(
        {{"path", arguments.recording}, {"nodes", restored->nodes}, {"bytes", restored->bytes}, {"seconds", seconds}});
  else if (restored->nodes == 0) say("{} lacks nothing\n", arguments.recording);
  else say("restored: {} of {}, {:.3f} s\n", size_text(restored->bytes), counted(restored->nodes, "node"), seconds);
  return 0;
}

}  // namespace

void add_restore_command(CLI::App& app, int* status) {
  auto options = std::make_shared<RestoreArguments>();
  auto* command = app.add_subcommand(
      "restore", "Make again what a recording leaves out (pack --lean); other commands do so by themselves");
  command->add_option("recording", options->recording, "The recording")->required();
  add_unconfined_flag(*command, options->unconfined);
  command->add_flag("--json", options->as_json, "Print the result as JSON");
  command->footer("Example:\n  friday restore REC");
  command->callback([options, status] { *status = run_restore(*options); });
}

}  // namespace friday
