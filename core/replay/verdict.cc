#include "core/replay/verdict.h"

#include "core/base/counted.h"
#include "core/base/printable.h"
#include "core/trace/node_end.h"

namespace friday {
std::optional<std::string> judge_node(const NodeEnd& recorded, uint64_t recorded_events, const NodeOutcome& replayed,
                                      uint64_t events) {
  using How = NodeOutcome::How;
  if (replayed.how == How::failed) return replayed.text;
  if (replayed.how == How::none) return "it never ran";
  if (replayed.how == How::exited && recorded.how == NodeEnd::How::exit && replayed.detail != recorded.detail)
    return fmt::format("it was recorded with exit code {} and replayed with {}", recorded.detail, replayed.detail);
  if (events < recorded_events)
    return fmt::format("it replayed only {} of {}", events, counted(recorded_events, "event"));
  return std::nullopt;
}

const char* name_of(NodeOutcome::How how) {
  switch (how) {
    case NodeOutcome::How::exited: return "exit";
    case NodeOutcome::How::end_of_recording: return "end of recording";
    case NodeOutcome::How::signal: return "signal";
    case NodeOutcome::How::diverged: return "diverged";
    case NodeOutcome::How::failed: return "failed";
    case NodeOutcome::How::none: return "not reached";
  }
  return "?";
}

Result<void> replay_to_end(ReplaySession& session) {
  for (;;) {
    FRIDAY_TRY(stop, session.run());
    using Kind = Stop::Kind;
    if (stop.kind == Kind::end || stop.kind == Kind::divergence || stop.kind == Kind::failure) return {};
    if (stop.kind == Kind::signal && session.all_ended()) return {};
  }
}

ReplayVerdict judge_replay(ReplaySession& session, bool hash) {
  ReplayVerdict out;
  // After a divergence or a failure the other nodes were only stopped.
  const bool cut_short = session.divergence() || session.failure();
  for (NodeId id : session.nodes()) {
    ReplayNode& node = *session.find(id);
    const uint64_t recorded = session.schedule().event_count(id);
    NodeVerdict verdict{.id = id,
                        .name = node.info().name,
                        .events = node.state() == NodeState::waiting ? 0 : node.events_done(),
                        .outcome = node.outcome(),
                        .cut_off = {},
                        .notice = node.info().notice,
                        .hash = {},
                        .problem = {}};
    out.events += verdict.events;
    if (is_cut_off(node.info().end)) verdict.cut_off = describe(node.info().end);
    if (hash) {
      if (auto state = session.state_hash(id)) verdict.hash = fmt::format("{:016x}", *state);
      else if (state.error().code == ErrorCode::component_died) out.failure = describe(state.error());
    }
    if (!cut_short) verdict.problem = judge_node(node.info().end, recorded, verdict.outcome, verdict.events);
    if (verdict.problem)
      out.problems += fmt::format("{}: node {} ({}), event {}: {}\n",
                                  verdict.outcome.how == NodeOutcome::How::failed ? "not replayed" : "divergence", id,
                                  printable(verdict.name), verdict.events, *verdict.problem);
    out.nodes.push_back(std::move(verdict));
  }
  if (session.failure()) out.failure = session.failure()->message;
  if (const Divergence* divergence = session.divergence()) {
    out.problems += describe(*divergence);
    out.divergence = std::make_shared<const Divergence>(*divergence);
  }
  return out;
}

std::string difference(const ReplayVerdict& first, const ReplayVerdict& other) {
  const auto say = [](const NodeVerdict& node, const char* what, const auto& is, const auto& was) {
    return fmt::format("node {} ({}): {} is {}; in the first replay it was {}\n", node.id, printable(node.name), what,
                       is, was);
  };
  for (size_t n = 0; n < first.nodes.size(); n++) {
    const NodeVerdict &was = first.nodes[n], &is = other.nodes[n];
    if (was.events != is.events) return say(was, "the number of its events", is.events, was.events);
    if (was.outcome.how != is.outcome.how)
      return say(was, "its end", name_of(is.outcome.how), name_of(was.outcome.how));
    if (was.outcome.detail != is.outcome.detail)
      return say(was, "its exit code or signal", is.outcome.detail, was.outcome.detail);
    if (was.hash != is.hash)
      return say(was, "the hash of its memory", is.hash.value_or("unknown"), was.hash.value_or("unknown"));
  }
  return {};
}

}  // namespace friday
