#include "core/debug/backward.h"

#include <utility>

namespace friday {
namespace {

// Flags that a single step and a breakpoint leave behind: the trap flag and the resume flag.
constexpr uint64_t kStepFlags = 0x10100;

bool equal(user_regs_struct a, user_regs_struct b) {
  a.eflags &= ~kStepFlags;
  b.eflags &= ~kStepFlags;
  return same_registers(a, b);
}

}  // namespace

// ---- Where the group stands

Result<Backward::Place> Backward::here(bool with_hash) {
  if (session_.all_ended()) {
    // The group has ended when the node that has the last event of all has ended.
    const uint64_t events = session_.schedule().event_count();
    Place place;
    place.how = Place::How::over;
    place.events = session_.events_done();
    place.mark = session_.mark(events ? session_.schedule().at_position(events - 1).node : focus_.moved_last());
    return place;
  }
  const NodeId id = focus_.moved_last();
  FRIDAY_TRY(node, session_.readable(id));
  return place_of(id, node->current(), with_hash);
}

// With `with_hash`, the place also gets a hash of the node's memory, by which it differs from other places with the
// same registers. Making the hash takes time in proportion to the size of the memory.
Result<Backward::Place> Backward::place_of(NodeId id, ThreadId thread, bool with_hash) {
  Place place;
  place.events = session_.events_done();
  place.mark = session_.mark(id);
  place.thread = thread;
  if (!focus_.has_started(id) && place.events == 0) return place;
  FRIDAY_TRY(node, session_.readable(id));
  if (node->state() == NodeState::ended) {
    place.how = Place::How::ended;
    return place;
  }
  FRIDAY_TRY(registers, node->registers(thread));
  place.registers = registers;
  place.how = Place::How::inside;
  if (node->call_site(thread))
    place.how = runner_.last_kind() == Stop::Kind::watch ? Place::How::calling : Place::How::waiting;
  if (with_hash && place.how != Place::How::waiting) {
    FRIDAY_TRY(hash, session_.state_hash(id));
    place.hash = hash;
  }
  return place;
}

// Whether the node of the place stands after the same event as there, with the same current thread and the same
// registers. Its memory is not compared.
bool Backward::has_registers_of_place() {
  ReplayNode& node = *session_.find(place_.mark.node);
  if (session_.mark(node.id()) != place_.mark || node.current() != place_.thread) return false;
  const auto registers = node.registers(place_.thread);
  return registers && equal(*registers, place_.registers);
}

// Whether a watch has stopped the node of the place in front of this instruction. When it goes on, it will pass over
// the breakpoint there without a stop. Only a watch by a debug register stops a thread at this point: one by page
// protection stops it before it comes to the breakpoint.
bool Backward::is_at_breakpoint(const Stop& stop, Addr pc) {
  if (stop.kind != Stop::Kind::watch || mover(stop) != place_.mark.node) return false;
  ReplayNode& node = *session_.find(place_.mark.node);
  const ReplayNode::Thread* thread = node.thread_of(stop.writer ? stop.writer->thread : stop.thread);
  if (!thread || !thread->at_breakpoint) return false;
  const auto here = node.program_counter(ThreadId{thread->number});
  return here && *here == pc.value;
}

// Whether the search itself has stopped the node, at the instruction of the place: by its breakpoint or by the
// PassageCounter. Removes the search from the owners of the stop.
bool Backward::is_at_mark(Stop& stop) {
  by_counter_ = std::erase(stop.owners, kPassageOwner) > 0;
  return std::erase(stop.owners, kPlaceOwner) > 0 || by_counter_;
}

// Whether the stop that has just happened is at the place.
bool Backward::is_place(const Stop& stop, const std::optional<Found>& last) {
  if (is_recognised(stop, last)) return true;
  if (by_counter_) (void)session_.find(stop.node)->passages().pass(stop.thread);
  return false;
}

bool Backward::is_recognised(const Stop& stop, const std::optional<Found>& last) {
  if (!near_ || mover(stop) != place_.mark.node || !has_registers_of_place()) return false;
  const auto hash = session_.state_hash(place_.mark.node);
  arrived_ = hash && *hash == place_.hash;
  // While the PassageCounter counts, a stop that it has not made is that of a watch, in front of the instruction. If
  // the memory is not that of the place, this passage counts as similar at the stop of the counter, which follows when
  // the thread goes on.
  const bool is_in_front = counting_ && !by_counter_;
  const auto in_front = std::exchange(in_front_, std::nullopt);
  if (is_in_front && !arrived_) {
    in_front_ = InFront{last};
    return false;
  }
  similar_++;
  before_similar_ = in_front && by_counter_ ? in_front->before : last;
  if (counting_) passages_then_ = session_.find(place_.mark.node)->passages().count().value_or(0) + is_in_front;
  else passages_then_ = passages_ + (counted_ ? 0 : 1);  // 1: this passage has not hit the breakpoint yet
  return arrived_;
}

void Backward::node_started(ReplayNode& node) {
  if (wanted_) wanted_->arm(node);
  if (near_ && node.id() == place_.mark.node) mark_place(node);
}

// Makes the node's process count by itself how often it passes the instruction at `at`, and stop at the passages that
// are wanted. If it cannot, a breakpoint stops it at each passage. The count is lost when a thread must stop among the
// instructions that are displaced for counting; the callers then repeat the run, with the breakpoint.
void Backward::stop_at_passage(ReplayNode& node, Addr at, const PassageCounter::Wanted& wanted) {
  const bool has_stops = node.watches().size() > 0 || node.breakpoints().bounds().second > 0;
  counted_at_ = at;
  const bool counts = !uncountable_.contains(at) && !(each_ && has_stops) && node.make_pad_areas();
  const auto started = counts ? node.passages().start(at, wanted) : Result<bool>(false);
  counting_ = started && *started;
  if (!counting_) (void)node.breakpoints().insert(at, kPlaceOwner);
}

// Makes the node stop whenever it comes to the instruction of the place; if its process counts by itself, only with the
// registers of the place.
void Backward::mark_place(ReplayNode& node) {
  if (place_.how != Place::How::inside) return;
  stop_at_passage(node, Addr{place_.registers.rip}, {.registers = place_.registers});
}

void Backward::forget_place() {
  near_ = counting_ = by_counter_ = false;
  ReplayNode* node = session_.find(place_.mark.node);
  if (!node || !node->has_process()) return;
  if (node->passages().is_lost()) uncountable_.insert(counted_at_);
  (void)node->breakpoints().remove_all(kPlaceOwner);
  (void)node->passages().stop();
}

// ---- Runs of a search

Result<void> Backward::return_to(const GroupCheckpoint* checkpoint) {
  counts_.clear();
  return checkpoint ? returner_.go_back(*checkpoint) : returner_.go_to_start();
}

Backward::Found Backward::count(const Stop& stop) {
  const Mark mark = session_.mark(mover(stop));
  Count& count = counts_[mark.node];
  if (count.event != mark.event.value) count = {mark.event.value, 0};
  return {session_.events_done(), mark, ++count.hits};
}

// Runs forward to the next hit, but not beyond `target`; without a target, not beyond the place from which the search
// goes back, or the end of the recording. `is_hit` becomes whether the stop is a hit; if it is none, the kind of the
// stop says what ended the run, such as `reached` at the target. `last` is the last hit so far. With `hits_first`, hits
// at the target itself are found, too.
Result<DebugStop> Backward::run_on(std::optional<Mark> target, const std::optional<Found>& last, bool& is_hit,
                                   bool hits_first) {
  is_hit = false;
  Stop::Kind kind{};
  const auto ends = [&](Stop& stop) {
    const bool mine = is_at_mark(stop);
    counted_ = mine || is_at_breakpoint(stop, Addr{place_.registers.rip});
    if (counted_ && session_.mark(place_.mark.node) == place_.mark) passages_++;
    const bool watched = stop.kind == Stop::Kind::watch || stop.kind == Stop::Kind::breakpoint;
    const bool at_place = (mine || watched) && is_place(stop, last);
    // Going back, gdb shows a hit of a watchpoint in front of the store. So the store that has led to this place counts
    // as a hit, though the place is behind it; other hits at the place do not count.
    is_hit = wanted_ && (!at_place || stop.kind == Stop::Kind::watch) && wanted_->is_hit(stop);
    kind = stop.kind;
    return at_place || is_hit;
  };
  FRIDAY_TRY(stop, runner_.search(target, ends, wanted_ ? Hits::passed_over : Hits::judged, hits_first));
  if (is_hit) stop.kind = kind;
  else is_hit = !stop.ids.empty();
  return std::move(stop);
}

// Runs as far as run_on() may, past all hits on the way. `last` becomes the last of them that counts (accepts_), and
// stays as it is if none does.
Result<Backward::Ending> Backward::run_to(std::optional<Mark> target, std::optional<Found>& last, bool hits_first) {
  for (bool is_hit = false;;) {
    FRIDAY_TRY(stop, run_on(target, last, is_hit, hits_first));
    if (each_ && (is_hit || stop.kind == Stop::Kind::exit)) (*each_)(stop);
    if (stop.kind == Stop::Kind::exit && place_.how == Place::How::ended && stop.node == place_.mark.node)
      return Ending::arrived;
    if (is_hit) {
      const Found hit = count(stop);
      FRIDAY_TRY(counts, accepts_ ? (*accepts_)(stop) : Result<bool>(true));
      if (counts) last = hit;
      if (arrived_) return Ending::arrived;
      continue;
    }
    switch (stop.kind) {
      case Stop::Kind::reached:
      case Stop::Kind::end:
      case Stop::Kind::divergence: return Ending::arrived;
      case Stop::Kind::interrupt: return Ending::interrupted;
      case Stop::Kind::failure: return fail(ErrorCode::component_died, "{}", stop.message);
      default: break;
    }
  }
}

// Returns to the checkpoint `from`, or to the start if it is null, and runs from there to the place. If the
// PassageCounter has lost its count on the way, does so again, with a stop at each passage.
Result<Backward::Ending> Backward::run_to_place_from(const GroupCheckpoint* from, std::optional<Found>& last) {
  for (const auto before = last;; last = before) {
    const size_t uncountable = uncountable_.size();
    FRIDAY_TRY_VOID(return_to(from));
    auto ending = run_to_place(last);
    const bool is_lost = uncountable_.size() > uncountable;
    if (!is_lost || (ending && *ending == Ending::interrupted)) return ending;
  }
}

// Runs to the place from where the group stands.
Result<Backward::Ending> Backward::run_to_place(std::optional<Found>& last) {
  const auto& [id, event, passage] = place_.mark;
  if (place_.how == Place::How::ended || place_.how == Place::How::over) return run_to(std::nullopt, last);
  if (place_.how == Place::How::waiting) return run_to(event_of(id, event.value), last);
  const uint64_t from = place_.how == Place::How::calling ? event.value : event.value - 1;
  if (from != ~uint64_t{0} && session_.mark(id).event.value <= from) {
    FRIDAY_TRY(ending, run_to(event_of(id, from), last, true));
    if (ending == Ending::interrupted) return ending;
  }
  arrived_ = false;
  similar_ = 0;
  passages_ = passages_then_ = 0;
  near_ = true;
  const auto before_call = last;
  if (ReplayNode* node = session_.find(id); node->has_process()) mark_place(*node);
  auto ending = run_to(event_of(id, from + 1), last);
  forget_place();
  if (!ending || *ending == Ending::interrupted || arrived_) return ending;
  if (similar_ == 0 && place_.how == Place::How::calling) {
    // The watch that had stopped the node in the call is no longer set, so this run did not stop there. Nothing can be
    // hit between the entry of the call and the place in it, so the last hit is that before the call.
    last = before_call;
    return ending;
  }
  // The run has gone past the place: the memory was nowhere the same, perhaps in bytes that the program does not use.
  // If the registers were the same exactly once, that was the place.
  if (similar_ == 1) {
    last = before_similar_;
    return ending;
  }
  return fail(ErrorCode::unsupported,
              "node {} does not come by the place at which it stood: its state there was seen {} times by its "
              "registers and never by its memory. Continue to a stop point, or use goto, and go back from there",
              id, similar_);
}

std::optional<Mark> Backward::event_of(NodeId node, uint64_t index) const {
  return index < session_.schedule().event_count(node) ? std::optional(Mark{node, {index}}) : std::nullopt;
}

// Searches from the last checkpoint to the place, then from the one before to that one, and so on. `from` becomes the
// checkpoint behind which the hit lies, null for the start.
Result<Backward::Ending> Backward::search(std::shared_ptr<const GroupCheckpoint>& from, std::optional<Found>& last) {
  arrived_ = false;
  from = history_.before(place_.events);
  FRIDAY_TRY(ending, run_to_place_from(from.get(), last));
  while (ending == Ending::arrived && !last && from && !from->is_start()) {
    const uint64_t end = from->events();
    from = history_.before(end);
    arrived_ = false;
    FRIDAY_TRY_VOID(return_to(from.get()));
    FRIDAY_TRY(next, run_to(session_.schedule().at_position(end), last));
    ending = next;
  }
  return ending;
}

// Runs until the node waits before this event, past all stop points and ends of nodes. Then the stop is of the kind
// `reached`; any other kind says what has stopped the group before.
Result<DebugStop> Backward::run_to_event(const Mark& event) {
  for (;;) {
    FRIDAY_TRY(stop, runner_.run_to(event, std::nullopt));
    if (stop.kind != Stop::Kind::exit) return std::move(stop);
  }
}

// The checkpoint from which a hit is reached soonest: `from`, behind which the search has found it, or a later one. A
// hit is known by its number since the last event of its node, so a checkpoint behind this event cannot be used: a run
// from there would not count the hits between the event and the checkpoint.
std::shared_ptr<const GroupCheckpoint> Backward::nearest(const Found& hit,
                                                         const std::shared_ptr<const GroupCheckpoint>& from) {
  const auto counts_from_event = [&](const std::shared_ptr<const GroupCheckpoint>& checkpoint) {
    return (checkpoint ? checkpoint->events_of(hit.mark.node) : 0) < hit.mark.event.value;
  };
  const auto last = history_.before(hit.events);
  const bool nearer = last && (!from || last->events() > from->events());
  return nearer && counts_from_event(from) && counts_from_event(last) ? last : from;
}

// Brings the group to a hit that the search has found. None if the run does not come by the hit again.
Result<std::optional<DebugStop>> Backward::go_to_hit(const Found& hit,
                                                     const std::shared_ptr<const GroupCheckpoint>& from) {
  const auto& [id, event, passage] = hit.mark;
  FRIDAY_TRY_VOID(return_to(nearest(hit, from).get()));
  if (event.value > 0 && session_.mark(id).event.value < event.value) {
    FRIDAY_TRY(stop, run_to_event(Mark{id, {event.value - 1}}));
    if (stop.kind != Stop::Kind::reached) return std::optional(std::move(stop));
  }
  for (bool is_hit = false;;) {
    FRIDAY_TRY(stop, run_on(event_of(id, event.value + 1), std::nullopt, is_hit));
    if (!is_hit) {
      if (stop.kind == Stop::Kind::exit) continue;
      if (stop.kind == Stop::Kind::reached || stop.kind == Stop::Kind::end) return std::optional<DebugStop>{};
      return stop;
    }
    const Found now = count(stop);
    if (now.mark != hit.mark || now.ordinal != hit.ordinal) continue;
    stop_points_.count_found(stop.ids);
    return runner_.marked(std::move(stop));
  }
}

// Tells the Runner where the group stands. To be called when a checkpoint has brought the group back to the place.
void Backward::stand_at_place() {
  const auto kind = place_.how == Place::How::waiting   ? Stop::Kind::event
                    : place_.how == Place::How::calling ? Stop::Kind::watch
                                                        : Stop::Kind::step;
  runner_.stand(place_.mark, place_.thread, kind);
}

// Brings the group back to where it stood before a search, which has found nothing.
Result<void> Backward::return_to_place(const GroupCheckpoint* kept) {
  if (kept && return_to(kept)) {  // this fails if a return to the start has rebuilt the processes meanwhile
    stand_at_place();
    return {};
  }
  std::optional<Found> last;
  FRIDAY_TRY_VOID(run_to_place_from(history_.before(place_.events).get(), last));
  return {};
}

Result<void> Backward::check_can_go_back() const {
  if (session_.sync() != SyncMode::clock)
    return fail(ErrorCode::unsupported,
                "going back needs the order clock, in which all nodes stand at one time: `set sync clock`");
  if (!history_.is_unaltered())
    return fail(
        ErrorCode::unsupported,
        "the group is no longer what was recorded, because it was altered, so it has no past to search: `undo`, `goto` "
        "or `restart` first");
  return {};
}

Result<std::optional<DebugStop>> Backward::run_to_wanted(const Wanted& wanted) {
  wanted_ = &wanted;
  auto found = run({});
  wanted_ = nullptr;
  return found;
}

Result<void> Backward::come_again(const std::shared_ptr<const GroupCheckpoint>& from,
                                  const std::function<void(const DebugStop&)>& each) {
  FRIDAY_TRY_VOID(check_can_go_back());
  FRIDAY_TRY(place, here());
  place_ = place;
  const auto kept = session_.checkpoint();
  const GroupStopPoints::Search searching(stop_points_, {});
  FRIDAY_TRY_VOID(return_to(from.get()));
  arrived_ = false;
  each_ = &each;
  std::optional<Found> last;
  const auto ending = run_to_place(last);
  each_ = nullptr;
  forget_place();
  FRIDAY_TRY_VOID(return_to_place(kept ? kept->get() : nullptr));
  if (!ending) return std::unexpected(ending.error());
  if (*ending == Ending::interrupted)
    return fail(ErrorCode::interrupted, "running again what lies before was interrupted");
  return {};
}

Result<std::optional<DebugStop>> Backward::run(std::set<uint32_t> passed, const Accepts& accepts) {
  FRIDAY_TRY_VOID(check_can_go_back());
  FRIDAY_TRY(place, here());
  place_ = place;
  if (place_.how == Place::How::start) return std::optional<DebugStop>{};
  const auto kept = session_.checkpoint();
  const GroupCheckpoint* back = kept ? kept->get() : nullptr;
  const GroupStopPoints::Search searching(stop_points_, std::move(passed));
  std::shared_ptr<const GroupCheckpoint> from;
  std::optional<Found> last;
  accepts_ = accepts ? &accepts : nullptr;
  const auto ending = search(from, last);
  accepts_ = nullptr;
  Result<std::optional<DebugStop>> found;
  if (ending && *ending == Ending::arrived && last) found = go_to_hit(*last, from);
  if (found && *found && (*found)->kind != Stop::Kind::interrupt) return found;
  forget_place();
  FRIDAY_TRY_VOID(return_to_place(back));
  if (!ending) return std::unexpected(ending.error());
  if (!found) return found;
  if (*found || *ending == Ending::interrupted)
    return with_kind({.node = place_.mark.node,
                      .thread = place_.thread,
                      .message = "the search was interrupted; the group stands where it stood"},
                     Stop::Kind::interrupt);
  if (last)
    return fail(ErrorCode::unsupported,
                "the search found a hit on node {}, the {}. of its kind since the node's event {}, and the run to that "
                "place did not come by it again. This is a mistake of Friday's. Ask once more, and keep the recording",
                last->mark.node, last->ordinal, last->mark.event.value);
  return std::optional<DebugStop>{};
}

}  // namespace friday
