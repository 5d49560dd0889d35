#include "core/replay/cuts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/replay/saved_checkpoint.h"
#include "core/trace/mark.h"

namespace friday {

Result<void> run_to_cut(ReplaySession& session, uint64_t events) {
  const Mark next = session.schedule().at_position(events);
  // The node may have no process before it is forked on the way.
  const auto wait = [&](ReplayNode& node) {
    if (node.id() == next.node) (void)session.stop_at(next.node, next.event.value);
  };
  const auto before = std::exchange(session.on_node_started, [&](ReplayNode& node) { wait(node); });
  if (session.find(next.node)->has_process()) wait(*session.find(next.node));
  Result<Stop> stop = Stop{};
  using Kind = Stop::Kind;
  do stop = session.run();
  while (stop && (stop->kind == Kind::exit || (stop->kind == Kind::signal && !session.all_ended())));
  session.on_node_started = before;
  if (session.find(next.node)->state() == NodeState::live) FRIDAY_TRY_VOID(session.stop_at(next.node, ~uint64_t{0}));
  if (!stop) return std::unexpected(stop.error());
  if (stop->kind == Kind::event) return {};
  if (stop->kind == Kind::divergence) return fail(ErrorCode::diverged, "{}", describe(*stop->divergence));
  if (stop->kind == Kind::interrupt) return fail(ErrorCode::interrupted, "interrupted before event {}", events);
  return fail(ErrorCode::component_died, "the replay ended before event {}: {}", events,
              stop->message.empty() ? name_of(stop->kind) : stop->message);
}

Result<std::vector<uint64_t>> cuts_of_parts(const Recording& recording, uint64_t events, uint64_t count) {
  FRIDAY_TRY(saved, saved_checkpoints(recording));
  std::erase_if(saved, [&](uint64_t each) { return each == 0 || each >= events; });
  std::vector<uint64_t> cuts;
  for (uint64_t i = 1; i < count && !saved.empty(); i++) {
    const uint64_t ideal = events / count * i;
    const auto distance = [&](uint64_t each) { return each > ideal ? each - ideal : ideal - each; };
    cuts.push_back(*std::ranges::min_element(saved, {}, distance));
  }
  const auto again = std::ranges::unique(cuts);
  cuts.erase(again.begin(), again.end());
  return cuts;
}

Result<uint64_t> begin_near(ReplaySession& session, uint64_t events) {
  FRIDAY_TRY(saved, saved_checkpoints(session.recording()));
  std::erase_if(saved, [&](uint64_t each) { return each > events; });
  if (saved.empty() || session.sync() != SyncMode::clock) return 0;
  FRIDAY_TRY(start, session.checkpoint());
  for (; !saved.empty(); saved.pop_back()) {
    const auto loaded = SavedCheckpoint::load(session, saved.back(), *start);
    if (loaded) {
      FRIDAY_TRY_VOID(session.restore(**loaded));
      return saved.back();
    }
    session.add_notice(fmt::format("a checkpoint of the recording cannot be used: {}", describe(loaded.error())));
  }
  return 0;
}

Result<uint64_t> cut_named(const Schedule& schedule, std::string_view place) {
  const uint64_t all = schedule.event_count();
  double seconds = 0;
  const auto [end, error] = std::from_chars(place.data(), place.data() + place.size(), seconds);
  if (error == std::errc{} && end == place.data() + place.size()) {
    if (!(seconds >= 0)) return fail(ErrorCode::usage, "{} is no time: it must not be negative", place);
    return schedule.position_at(seconds);
  }
  FRIDAY_TRY(position, parse_position(place));
  if (!position) return 0;
  const auto& [node, event, passage] = *position;
  if (!std::ranges::binary_search(schedule.nodes(), node) || event.value > schedule.event_count(node))
    return fail(ErrorCode::usage, "there is no place {} in this recording", place);
  if (event.value < schedule.event_count(node)) return schedule.position_of(node, event);
  return event.value == 0 ? all : schedule.position_of(node, {event.value - 1}) + 1;
}

}  // namespace friday
