#include "console/verify.h"

#include <unistd.h>

#include <chrono>
#include <memory>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/options.h"
#include "console/paths.h"
#include "console/say.h"
#include "core/replay/session.h"
#include "core/trace/node_list.h"

namespace friday {
namespace {

struct VerifyOptions {
  std::string recording, nodes, sync = "clock";
  bool hash = false, json = false, unconfined = false;
  uint64_t times = 1;
};

using nlohmann::json;

const char* outcome_text(const NodeOutcome& outcome) {
  switch (outcome.how) {
    case NodeOutcome::How::exited: return "exit";
    case NodeOutcome::How::end_of_recording: return "end of recording";
    case NodeOutcome::How::signal: return "signal";
    case NodeOutcome::How::diverged: return "diverged";
    case NodeOutcome::How::failed: return "failed";
    case NodeOutcome::How::none: return "not reached";
  }
  return "?";
}

// Checks the end of a node. A node that was recorded to its end must end in the same way; a node whose recording was
// cut off may end in any way after that point.
std::optional<std::string> wrong_end(const ReplayNode& node) {
  const NodeEnd& recorded = node.info().end;
  const NodeOutcome& replayed = node.outcome();
  if (replayed.how == NodeOutcome::How::none) return "never ran";
  if (replayed.how == NodeOutcome::How::exited && recorded.how == NodeEnd::How::exit &&
      replayed.detail != recorded.detail)
    return fmt::format("exit code {} recorded, {} replayed", recorded.detail, replayed.detail);
  return std::nullopt;
}

// The result of one replay.
struct Outcome {
  json nodes = json::array();
  uint64_t events = 0;
  std::string problems;  // text to print; empty if all nodes repeated
  json divergence;       // null: none
  // why the replay could not be completed, which says nothing about the recording; empty if it was
  std::string failure;
};

Outcome outcome_of(ReplaySession& session, bool hash) {
  Outcome out;
  for (NodeId id : session.nodes()) {
    ReplayNode& node = *session.find(id);
    const uint64_t done = node.has_process() ? node.events_done() : 0;
    const uint64_t recorded = session.schedule().event_count(id);
    out.events += done;
    json entry = {{"id", id.value},
                  {"name", node.info().name},
                  {"events", done},
                  {"end", outcome_text(node.outcome())},
                  {"detail", node.outcome().detail}};
    if (is_cut_off(node.info().end)) entry["cut_off"] = describe(node.info().end);
    if (hash) {
      if (auto state = session.state_hash(id)) entry["hash"] = fmt::format("{:016x}", *state);
      else if (state.error().code == ErrorCode::component_died) out.failure = describe(state.error());
    }
    // After a divergence or a failure the other nodes were merely stopped.
    const bool cut_short = session.divergence() || session.failure();
    auto wrong = cut_short ? std::nullopt : wrong_end(node);
    if (!wrong && !cut_short && done < recorded) wrong = fmt::format("{} of {} events were replayed", done, recorded);
    if (wrong) {
      entry["problem"] = *wrong;
      out.problems +=
          fmt::format("divergence: node {} ({}), event {}: {}\n", id, printable(node.info().name), done, *wrong);
    }
    out.nodes.push_back(std::move(entry));
  }
  if (session.failure()) out.failure = session.failure()->message;
  if (session.divergence()) {
    out.problems += describe(*session.divergence());
    out.divergence = to_json(*session.divergence());
  }
  return out;
}

// Replays once, until the end, a divergence or a failure.
Result<void> replay_once(ReplaySession& session) {
  for (;;) {
    FRIDAY_TRY(stop, session.run());
    using Kind = Stop::Kind;
    if (stop.kind == Kind::end || stop.kind == Kind::divergence || stop.kind == Kind::failure) return {};
    if (stop.kind == Kind::signal && session.all_ended()) return {};
  }
}

// Describes where the final states of two replays of one recording differ.
std::string difference(const Outcome& first, const Outcome& other) {
  for (size_t n = 0; n < first.nodes.size(); n++)
    for (const char* key : {"events", "end", "detail", "hash"})
      if (first.nodes[n].value(key, json()) != other.nodes[n].value(key, json()))
        return fmt::format("node {} ({}): {} is {}, in the first run it was {}\n", first.nodes[n]["id"].dump(),
                           printable(first.nodes[n]["name"].get<std::string>()),
                           std::string_view(key) == "hash" ? "the hash of its memory" : key,
                           other.nodes[n].value(key, json()).dump(), first.nodes[n].value(key, json()).dump());
  return {};
}

void print_result(const Outcome& outcome, const VerifyOptions& options, uint64_t runs, double seconds) {
  const bool held = outcome.problems.empty() && outcome.failure.empty();
  if (options.json) {
    json all = {{"held", held},       {"sync", options.sync}, {"events", outcome.events},
                {"seconds", seconds}, {"runs", runs},         {"nodes", outcome.nodes}};
    if (!outcome.divergence.is_null()) all["divergence"] = outcome.divergence;
    if (!outcome.problems.empty()) all["problem"] = outcome.problems;
    if (!outcome.failure.empty()) all["failed"] = outcome.failure;
    say_json(all);
    return;
  }
  if (!outcome.failure.empty()) {
    fmt::print("failed: {}\nThis says nothing of the recording: replay it again.\n", printable_lines(outcome.failure));
    return;
  }
  if (!held) {
    if (options.times > 1) say("run {} of {} differs:\n", runs, options.times);
    fmt::print("{}", printable_lines(outcome.problems));
    return;
  }
  const std::string times = options.times > 1 ? fmt::format("{} times alike, ", runs) : "";
  say("verified: {}{} nodes, {} events, {:.3f} s ({} order)\n", times, outcome.nodes.size(), outcome.events, seconds,
      options.sync);
  for (const auto& node : outcome.nodes)
    if (node.contains("cut_off"))
      say("node {} {}: as far as it was recorded: {}\n", node["id"].get<int>(), node["name"].get<std::string>(),
          node["cut_off"].get<std::string>());
  if (options.hash)
    for (const auto& node : outcome.nodes)
      say("node {} {}: state {}\n", node["id"].get<int>(), node["name"].get<std::string>(), node.value("hash", "?"));
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
  Outcome first, now;
  uint64_t run = 0;
  for (bool held = true; held && run < options.times; held = now.problems.empty() && now.failure.empty()) {
    if (run++ > 0)
      if (auto again = (*session)->restart(); !again) return complain("verify", again.error());
    if (auto replayed = replay_once(**session); !replayed) return complain("verify", replayed.error());
    now = outcome_of(**session, options.hash || options.times > 1);
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
