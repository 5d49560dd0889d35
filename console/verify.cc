#include "console/verify.h"

#include <unistd.h>

#include <chrono>
#include <memory>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/options.h"
#include "console/paths.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/replay/session.h"
#include "core/replay/verdict.h"
#include "core/trace/node_list.h"

namespace friday {
namespace {

struct VerifyOptions {
  std::string recording, nodes, sync = "clock";
  bool hash = false, json = false, unconfined = false;
  uint64_t times = 1;
};

using nlohmann::json;

json to_json(const NodeVerdict& node) {
  json entry = {{"id", node.id.value},
                {"name", node.name},
                {"events", node.events},
                {"end", name_of(node.outcome.how)},
                {"detail", node.outcome.detail}};
  if (node.cut_off) entry["cut_off"] = *node.cut_off;
  if (node.hash) entry["hash"] = *node.hash;
  if (node.problem) entry["problem"] = *node.problem;
  return entry;
}

json to_json(const ReplayVerdict& verdict, const VerifyOptions& options, uint64_t runs, double seconds) {
  json nodes = json::array();
  for (const NodeVerdict& node : verdict.nodes) nodes.push_back(to_json(node));
  json all = {{"held", verdict.held()}, {"sync", options.sync}, {"events", verdict.events},
              {"seconds", seconds},     {"runs", runs},         {"nodes", std::move(nodes)}};
  if (verdict.divergence) all["divergence"] = to_json(*verdict.divergence);
  if (!verdict.problems.empty()) all["problem"] = verdict.problems;
  if (!verdict.failure.empty()) all["failed"] = verdict.failure;
  return all;
}

void print_result(const ReplayVerdict& verdict, const VerifyOptions& options, uint64_t runs, double seconds) {
  if (options.json) {
    say_json(to_json(verdict, options, runs, seconds));
    return;
  }
  if (!verdict.failure.empty()) {
    fmt::print("failed: {}\nThis says nothing of the recording: replay it again.\n", printable_lines(verdict.failure));
    return;
  }
  if (!verdict.held()) {
    if (options.times > 1) say("run {} of {} differs:\n", runs, options.times);
    fmt::print("{}", printable_lines(verdict.problems));
    return;
  }
  const std::string times = options.times > 1 ? fmt::format("{} times alike, ", runs) : "";
  say("verified: {}{}, {}, {:.3f} s ({} order)\n", times, counted(verdict.nodes.size(), "node"),
      counted(verdict.events, "event"), seconds, options.sync);
  for (const NodeVerdict& node : verdict.nodes)
    if (node.cut_off) say("node {} {}: as far as it was recorded: {}\n", node.id, node.name, *node.cut_off);
  if (options.hash)
    for (const NodeVerdict& node : verdict.nodes)
      say("node {} {}: state {}\n", node.id, node.name, node.hash.value_or("?"));
}

int run_verify(const VerifyOptions& options) {
  ReplayOptions replay;
  replay.library_directory = library_directory();
  replay.sync = *sync_mode_named(options.sync);  // the option takes no other names
  replay.unconfined = options.unconfined;
  if (!options.nodes.empty()) {
    auto recording = Recording::open(options.recording);
    if (!recording) return complain("verify", recording.error());
    auto list = parse_node_list(*recording, options.nodes);
    if (!list) return complain("verify", list.error());
    replay.nodes = std::move(*list);
  }
  auto session = ReplaySession::open(options.recording, replay);
  if (!session) return complain("verify", session.error());
  const bool show = options.times > 1 && isatty(STDERR_FILENO);
  const auto start = std::chrono::steady_clock::now();
  ReplayVerdict first, now;
  uint64_t run = 0;
  for (bool held = true; held && run < options.times; held = now.held()) {
    if (run++ > 0)
      if (auto again = (*session)->restart(); !again) return complain("verify", again.error());
    if (auto replayed = replay_to_end(**session); !replayed) return complain("verify", replayed.error());
    now = judge_replay(**session, options.hash || options.times > 1);
    if (run == 1) first = now;
    else if (now.failure.empty()) now.problems += difference(first, now);
    for (const std::string& notice : (*session)->take_notices()) say(stderr, "friday verify: {}\n", notice);
    if (show) say(stderr, "\r{} of {} replayed", run, options.times);
  }
  if (show) fmt::print(stderr, "\r\033[K");
  print_result(now, options, run, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return !now.failure.empty() ? kDied : now.problems.empty() ? 0 : kDiverged;
}

}  // namespace

void add_verify_command(CLI::App& app, int* status) {
  auto options = std::make_shared<VerifyOptions>();
  auto* command = app.add_subcommand("verify",
                                     "Replay without a debugger: exit 0 if everything repeats, 3 with the first "
                                     "divergence, 4 if the replay itself failed");
  add_recording_options(*command, options->recording, options->nodes, options->sync, options->unconfined);
  command->add_flag("--hash", options->hash, "Print a hash of each node's final memory");
  command->add_option("--times", options->times, "Replay so often; all must come to the same end, also in memory")
      ->check(CLI::Range(1ul, 1000000000ul));
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->footer("Example:\n  friday verify REC --sync causal --node 0-3");
  command->callback([options, status] { *status = run_verify(*options); });
}

}  // namespace friday
