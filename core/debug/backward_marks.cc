// Names the place where the group stands by a mark, and goes to a mark.
//
// Between two events of a node, a mark counts how often the node comes by an instruction. Nobody counts that while the
// group runs. To name a place, the group goes back to before the last event of the node and runs to the place again,
// with a breakpoint at its instruction, or by code in the node that counts (core/stop/passage_counter.h).
#include "core/debug/backward.h"

namespace friday {

// The checkpoint from which the group reaches the place before this event of a node soonest; without an event, the
// start. Null if there is none. `done`: as for History::before().
std::shared_ptr<const GroupCheckpoint> Backward::last_before(NodeId node, std::optional<EventIndex> event,
                                                             uint64_t done) {
  return event ? history_.before(session_.schedule().position_of(node, *event) + 1, done) : history_.start();
}

// Counts how often the node of the place has come by its instruction.
Result<uint64_t> Backward::count_passages() {
  const auto& [id, event, passage] = place_.mark;
  const auto last_event = event.value > 0 ? std::optional(EventIndex{event.value - 1}) : std::nullopt;
  const auto from = last_before(id, last_event);
  const Wanted nothing{[](const Stop&) { return false; }, [](ReplayNode&) {}};
  wanted_ = &nothing;
  std::optional<Found> last;
  const auto ending = run_to_place_from(from.get(), last);
  wanted_ = nullptr;
  forget_place();
  if (!ending) return std::unexpected(ending.error());
  if (*ending == Ending::interrupted)
    return fail(ErrorCode::interrupted,
                "counting how often node {} came by {} was interrupted; the group stands where it stood", id,
                Addr{place_.registers.rip});
  return passages_then_;
}

Result<Position> Backward::position() {
  FRIDAY_TRY(place, here());
  place_ = place;
  const auto& [id, event, passage] = place_.mark;
  switch (place_.how) {
    case Place::How::start: return Position{};
    case Place::How::waiting:
    case Place::How::ended:
    case Place::How::over: return place_.mark;
    case Place::How::calling:
      if (const auto behind = Runner::mark_behind_call(*session_.find(id), place_.thread)) return *behind;
      return fail(ErrorCode::unsupported,
                  "node {} stands in a call, and the recording does not tell when its thread comes out of it: continue "
                  "to a stop behind the call, and ask there",
                  id);
    case Place::How::inside: break;
  }
  FRIDAY_TRY_VOID(check_can_go_back());
  const auto kept = session_.checkpoint();
  const auto count = count_passages();
  FRIDAY_TRY_VOID(return_to_place(kept ? kept->get() : nullptr));
  if (!count) return std::unexpected(count.error());
  return Mark{id, event, Passage{Addr{place_.registers.rip}, *count}};
}

// Runs until the node has ended.
Result<DebugStop> Backward::run_to_end_of(NodeId node) {
  for (;;) {
    FRIDAY_TRY(stop, runner_.run_to(std::nullopt, std::nullopt));
    if (stop.kind != Stop::Kind::exit || stop.node == node) return std::move(stop);
  }
}

// Runs until the node comes by the instruction of the mark, or changes its bytes. The node must not have completed the
// mark's last event yet.
Result<DebugStop> Backward::run_to_passage(const Mark& mark) {
  const auto& [id, event, passage] = mark;
  const WatchRange bytes{.id = kMarkId, .low = passage->at, .size = passage->size};
  const auto insert = [&](ReplayNode& node) {
    if (node.id() != id || !node.has_process()) return;
    if (passage->size) (void)node.watches().arm(bytes, false, true);
    else stop_at_passage(node, passage->at, {.nth = passage->nth, .registers = {}});
  };
  place_.mark.node = id;
  const Wanted arrival{[](const Stop&) { return false; }, insert};
  wanted_ = &arrival;
  insert(*session_.find(id));
  uint64_t count = 0;
  const auto changes = [&](Stop& stop) {
    const size_t hits = std::erase_if(stop.hits, [](const WatchHit& hit) { return hit.id == kMarkId; });
    return hits > 0 && stop.node == id && !session_.find(id)->call_site(stop.thread);
  };
  const auto ends = [&](Stop& stop) {
    if (passage->size) return changes(stop) && session_.mark(id).event == event && ++count == passage->nth;
    if (!is_at_mark(stop) && !is_at_breakpoint(stop, passage->at)) return false;
    if (by_counter_) count = passage->nth;
    else if (session_.mark(id).event == event) count++;
    return count == passage->nth;
  };
  Result<DebugStop> stop = runner_.search(event_of(id, event.value), ends, Hits::passed_over);
  while (stop && stop->kind == Stop::Kind::exit && stop->node != id)
    stop = runner_.search(event_of(id, event.value), ends, Hits::passed_over);
  wanted_ = nullptr;
  if (ReplayNode* node = session_.find(id); node->has_process()) {
    if (counting_) count = node->passages().count().value_or(count);
    node->watches().disarm(kMarkId);
  }
  forget_place();
  FRIDAY_TRY_VOID(runner_.disarm_events());
  if (!stop || count == passage->nth || stop->kind == Stop::Kind::interrupt) return stop;
  const char* what = passage->size ? "changes the bytes at" : "comes by";
  return fail(ErrorCode::not_found, "there is no place {} in this recording: node {} {} {} {} {} its event {}",
              text_of(mark), id, what, passage->at, count == 0 ? "not once" : fmt::format("only {} times", count),
              event.value == 0 ? "before" : fmt::format("between its event {} and", event.value - 1), event.value);
}

uint64_t Backward::events_begun(ReplayNode& node) const {
  const bool in_call = runner_.last_kind() == Stop::Kind::watch && focus_.moved_last() == node.id() &&
                       node.has_process() && node.call_site(node.current());
  return node.events_done() + in_call;
}

Result<DebugStop> Backward::go_to(const Mark& mark) {
  const auto& [id, event, passage] = mark;
  FRIDAY_TRY(node, session_.node(id));
  const uint64_t count = session_.schedule().event_count(id);
  if (event.value > count)
    return fail(ErrorCode::not_found, "there is no place {} in this recording: node {} has {} events", text_of(mark),
                id, count);
  if (session_.sync() != SyncMode::clock)
    return fail(ErrorCode::unsupported, "going to a mark needs the order clock: `set sync clock`");
  const bool waits = !passage && event.value < count;
  std::optional<EventIndex> last;  // the event before which the group waits on its way
  if (waits) last = event;
  else if (event.value > 0) last = EventIndex{event.value - 1};
  const bool is_before = (last ? events_begun(*node) <= last->value : session_.is_at_start()) && check_can_go_back();
  const auto from = last_before(id, last, is_before ? session_.events_done() : 0);
  if (!is_before || (from && from->events() > session_.events_done())) FRIDAY_TRY_VOID(return_to(from.get()));
  if (last) {
    FRIDAY_TRY(stop, run_to_event(Mark{id, *last}));
    if (waits || stop.kind != Stop::Kind::reached) return std::move(stop);
  }
  if (!passage) return run_to_end_of(id);
  const size_t uncountable = uncountable_.size();
  auto there = run_to_passage(mark);
  const bool is_lost = uncountable_.size() > uncountable && !(there && there->kind == Stop::Kind::interrupt);
  return is_lost ? go_to(mark) : std::move(there);  // the second time by breakpoints
}

Result<Backward::Remembered> Backward::remember() {
  if (session_.sync() != SyncMode::clock)
    return fail(ErrorCode::unsupported, "only in the order clock all nodes stand");
  auto kept = session_.checkpoint();
  FRIDAY_TRY(place, here(!kept));
  Remembered remembered;
  remembered.place_ = place;
  if (kept) remembered.kept_ = std::move(*kept);
  return remembered;
}

Result<DebugStop> Backward::go_back_to(const Remembered& remembered) {
  place_ = remembered.place_;
  const bool at_start = place_.how == Place::How::start;
  if (!remembered.kept_ && !at_start) FRIDAY_TRY_VOID(return_to_place(nullptr));
  else FRIDAY_TRY_VOID(return_to(remembered.kept_.get()));
  if (!at_start) stand_at_place();
  Stop stop{.node = place_.mark.node, .thread = place_.thread};
  if (at_start) stop.message = "this is the start of the recording";
  return with_kind(std::move(stop), Stop::Kind::step);
}

}  // namespace friday
