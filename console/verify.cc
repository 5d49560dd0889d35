#include "console/verify.h"

#include <chrono>
#include <memory>

#include <nlohmann/json.hpp>

#include "console/options.h"
#include "console/paths.h"
#include "core/replay/session.h"
#include "core/trace/node_list.h"

namespace friday {
namespace {

struct VerifyOptions {
  std::string recording, nodes, sync = "clock";
  bool hash = false, json = false;
};

constexpr int kBadInput = 2, kDiverged = 3, kDied = 4;

int complain(const Error& error) {
  fmt::print(stderr, "friday verify: {}\n", describe(error));
  return error.code == ErrorCode::component_died ? kDied : kBadInput;
}

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

// A node that was recorded to its end must come to the same end; one whose recording was cut may end anywhere behind it.
std::optional<std::string> wrong_end(const ReplayNode& node) {
  const NodeEnd& recorded = node.info().end;
  const NodeOutcome& replayed = node.outcome();
  if (replayed.how == NodeOutcome::How::none) return "never ran";
  if (replayed.how == NodeOutcome::How::exited && recorded.how == NodeEnd::How::exit && replayed.detail != recorded.detail)
    return fmt::format("exit code {} recorded, {} replayed", recorded.detail, replayed.detail);
  if (replayed.how == NodeOutcome::How::signal && !(recorded.how == NodeEnd::How::signal && recorded.detail == replayed.detail) &&
      recorded.how != NodeEnd::How::unknown)
    return fmt::format("the program died of signal {} ({}), which is not in the recording", replayed.detail, replayed.text);
  return std::nullopt;
}

int report(ReplaySession& session, const VerifyOptions& options, double seconds) {
  nlohmann::json nodes = nlohmann::json::array();
  uint64_t events = 0;
  int status = 0;
  for (NodeId id : session.nodes()) {
    ReplayNode& node = *session.find(id);
    const uint64_t done = node.has_process() ? node.events_done() : 0;
    const uint64_t recorded = session.schedule().event_count(id);
    events += done;
    nlohmann::json entry = {{"id", id.value}, {"name", node.info().name}, {"events", done}, {"end", outcome_text(node.outcome())}, {"detail", node.outcome().detail}};
    if (options.hash)
      if (auto hash = session.state_hash(id)) entry["hash"] = fmt::format("{:016x}", *hash);
    // After a divergence the others were only stopped.
    auto wrong = session.divergence() ? std::nullopt : wrong_end(node);
    if (!wrong && !session.divergence() && done < recorded && node.outcome().how != NodeOutcome::How::diverged)
      wrong = fmt::format("{} of {} events were replayed", done, recorded);
    if (wrong) {
      status = kDiverged;
      entry["problem"] = *wrong;
      if (!options.json) fmt::print("divergence: node {} ({}), event {}: {}\n", id, node.info().name, done, *wrong);
    }
    nodes.push_back(std::move(entry));
  }
  if (session.divergence()) {
    status = kDiverged;
    if (!options.json) fmt::print("{}", describe(*session.divergence()));
  }
  if (options.json) {
    nlohmann::json all = {{"held", status == 0}, {"sync", options.sync}, {"events", events}, {"seconds", seconds}, {"nodes", nodes}};
    if (session.divergence()) all["divergence"] = describe(*session.divergence());
    fmt::print("{}\n", all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (status == 0) {
    fmt::print("verified: {} nodes, {} events, {:.3f} s ({} order)\n", session.nodes().size(), events, seconds, options.sync);
    if (options.hash)
      for (const auto& node : nodes) fmt::print("node {} {}: state {}\n", node["id"].get<int>(), node["name"].get<std::string>(), node.value("hash", "?"));
  }
  return status;
}

int run_verify(const VerifyOptions& options) {
  ReplayOptions replay;
  replay.library_directory = library_directory();
  replay.sync = options.sync == "clock" ? SyncMode::clock : options.sync == "causal" ? SyncMode::causal : SyncMode::free;
  if (!options.nodes.empty()) {
    auto recording = Recording::open(options.recording);
    if (!recording) return complain(recording.error());
    auto list = parse_node_list(*recording, options.nodes);
    if (!list) return complain(list.error());
    replay.nodes = std::move(*list);
  }
  auto session = ReplaySession::open(options.recording, replay);
  if (!session) return complain(session.error());
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    auto stop = (*session)->run();
    if (!stop) return complain(stop.error());
    if (stop->kind == ReplayStop::Kind::ended || stop->kind == ReplayStop::Kind::diverged) break;
    if (stop->kind == ReplayStop::Kind::failed) {
      fmt::print("failed: node {}: {}\n", stop->node, stop->text);
      return kDied;
    }
    if (stop->kind == ReplayStop::Kind::signal && (*session)->all_ended()) break;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report(**session, options, seconds);
}

}  // namespace

void add_verify_command(CLI::App& app, int* status) {
  auto options = std::make_shared<VerifyOptions>();
  auto* command = app.add_subcommand("verify", "Replay without a debugger: exit 0 if everything repeats, 3 with the first divergence");
  add_recording_options(*command, options->recording, options->nodes, options->sync);
  command->add_flag("--hash", options->hash, "Print a hash of each node's final memory");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->footer("Example:\n  friday verify REC --sync causal --node 0-3");
  command->callback([options, status] { *status = run_verify(*options); });
}

}  // namespace friday
