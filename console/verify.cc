#include "console/verify.h"

#include <unistd.h>

#include <chrono>
#include <memory>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/options.h"
#include "console/paths.h"
#include "console/say.h"
#include "console/slices.h"
#include "core/base/counted.h"
#include "core/infer/inference.h"
#include "core/replay/cuts.h"
#include "core/replay/session.h"
#include "core/replay/verdict.h"
#include "core/trace/node_list.h"

namespace friday {
namespace {

struct VerifyOptions {
  std::string recording, nodes, sync = "clock", from;
  bool hash = false, json = false, unconfined = false;
  uint64_t times = 1, slices = 1;
};

using nlohmann::json;

json to_json(const NodeVerdict& node) {
  json entry = {{"id", node.id.value},
                {"name", node.name},
                {"events", node.events},
                {"end", name_of(node.outcome.how)},
                {"detail", node.outcome.detail}};
  if (node.cut_off) entry["cut_off"] = *node.cut_off;
  if (!node.notice.empty()) entry["notice"] = node.notice;
  if (node.hash) entry["hash"] = *node.hash;
  if (node.problem) entry["problem"] = *node.problem;
  return entry;
}

// What was replayed, how often, and how long it took.
struct Done {
  uint64_t runs = 0, from = 0;  // from: events of the checkpoint at which it began; 0: the start
  double seconds = 0;
};

json to_json(const ReplayVerdict& verdict, const VerifyOptions& options, const Done& done) {
  json nodes = json::array();
  for (const NodeVerdict& node : verdict.nodes) nodes.push_back(to_json(node));
  json all = {{"held", verdict.held()},  {"sync", options.sync}, {"events", verdict.events},
              {"seconds", done.seconds}, {"runs", done.runs},    {"nodes", std::move(nodes)}};
  if (!options.from.empty()) all["from"] = done.from;
  if (verdict.divergence) all["divergence"] = to_json(*verdict.divergence);
  if (!verdict.problems.empty()) all["problem"] = verdict.problems;
  if (!verdict.failure.empty()) all["failed"] = verdict.failure;
  return all;
}

void print_result(const ReplayVerdict& verdict, const VerifyOptions& options, const Done& done) {
  if (options.json) {
    say_json(to_json(verdict, options, done));
    return;
  }
  if (!verdict.failure.empty()) {
    fmt::print("failed: {}\nThis says nothing of the recording: replay it again.\n", printable_lines(verdict.failure));
    return;
  }
  if (!verdict.held()) {
    if (options.times > 1) say("run {} of {} differs:\n", done.runs, options.times);
    fmt::print("{}", printable_lines(verdict.problems));
    return;
  }
  const std::string times = options.times > 1 ? fmt::format("{} times alike, ", done.runs) : "";
  const std::string from = done.from ? fmt::format(" from the checkpoint after {}", counted(done.from, "event")) : "";
  say("verified: {}{}, {}{}, {:.3f} s ({} order)\n", times, counted(verdict.nodes.size(), "node"),
      counted(verdict.events - done.from, "event"), from, done.seconds, options.sync);
  for (const NodeVerdict& node : verdict.nodes)
    if (node.cut_off) say("node {} {}: as far as it was recorded: {}\n", node.id, node.name, *node.cut_off);
  if (options.hash)
    for (const NodeVerdict& node : verdict.nodes)
      say("node {} {}: state {}\n", node.id, node.name, node.hash.value_or("?"));
}

Result<ReplayOptions> replay_options(const VerifyOptions& options) {
  ReplayOptions replay;
  replay.library_directory = library_directory();
  replay.infer = infer::make_infer(library_directory());
  replay.sync = *sync_mode_named(options.sync);  // the option takes no other names
  replay.unconfined = options.unconfined;
  if (options.nodes.empty()) return replay;
  FRIDAY_TRY(recording, Recording::open(options.recording));
  FRIDAY_TRY(list, parse_node_list(recording, options.nodes));
  replay.nodes = std::move(list);
  return replay;
}

int run_verify(const VerifyOptions& options) {
  auto replay = replay_options(options);
  if (!replay) return complain("verify", replay.error());
  if (options.slices > 1) return verify_slices(options.recording, *replay, options.slices, options.json);
  auto session = ReplaySession::open(options.recording, *replay);
  if (!session) return complain("verify", session.error());
  auto from = options.from.empty() ? Result<uint64_t>(0) : cut_named((*session)->schedule(), options.from);
  if (!from) return complain("verify", from.error());
  const bool show = options.times > 1 && isatty(STDERR_FILENO);
  const auto start = std::chrono::steady_clock::now();
  ReplayVerdict first, now;
  Done done;
  for (bool held = true; held && done.runs < options.times; held = now.held()) {
    if (done.runs++ > 0)
      if (auto again = (*session)->restart(); !again) return complain("verify", again.error());
    auto began = *from ? begin_near(**session, *from) : Result<uint64_t>(0);
    if (!began) return complain("verify", began.error());
    done.from = *began;
    if (auto replayed = replay_to_end(**session); !replayed) return complain("verify", replayed.error());
    now = judge_replay(**session, options.hash || options.times > 1);
    if (done.runs == 1) first = now;
    else if (now.failure.empty()) now.problems += difference(first, now);
    for (const std::string& notice : (*session)->take_notices()) say(stderr, "friday verify: {}\n", notice);
    if (show) say(stderr, "\r{} of {} replayed", done.runs, options.times);
  }
  if (show) fmt::print(stderr, "\r\033[K");
  if (*from && !done.from)
    say(stderr,
        "friday verify: the recording holds no checkpoint before {}, so all of it was replayed; `friday "
        "checkpoint` makes some\n",
        options.from);
  done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_result(now, options, done);
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
  command->add_option("--times", options->times, "Replay so many times; all must end with the same memory")
      ->check(CLI::Range(1ul, 1000000000ul));
  auto* from =
      command->add_option("--from", options->from,
                          "Begin at the last checkpoint of the recording before this place: a mark or a time in "
                          "seconds (friday checkpoint)");
  command
      ->add_option("--slices", options->slices,
                   "Replay so many parts at once, each from a checkpoint of the recording to the next one, whose state "
                   "must be the same")
      ->check(CLI::Range(1ul, 1024ul))
      ->excludes(from)
      ->excludes("--times")
      ->excludes("--hash");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->footer("Examples:\n  friday verify REC --sync causal --node 0-3\n  friday verify REC --slices 2");
  command->callback([options, status] { *status = run_verify(*options); });
}

}  // namespace friday
