// Goes back over the last instruction of a thread. A processor does not run backward, so the group goes to a checkpoint
// shortly before and lets the thread execute one instruction fewer than led to where it stands.
//
// Such a checkpoint is found in the code that the thread runs since its last event. If that is more than some hundred
// instructions, their jumps are looked at: breakpoints at the targets, and a run that counts how often the thread comes
// by them, lead to the last one before the place. From there the same is done again, until few instructions are left.
#include <algorithm>
#include <array>

#include "core/debug/backward.h"

namespace friday {
namespace {

constexpr BreakpointOwner kHeadOwner{BreakpointOwner::Kind::internal, 5};

constexpr uint64_t kMostSteps = 400;  // from a checkpoint to the place; a step takes some 25 us
constexpr uint64_t kFewSteps = 32;    // from a nearer one, for the instructions before
constexpr uint64_t kLongest = 15;     // bytes of an instruction
constexpr uint64_t kFewHits = 64;     // from one checkpoint of a pass to the next, at first
constexpr uint64_t kSpareHeads = 16;  // jumps before the last one, for more instructions
constexpr size_t kMostKept = 16;      // checkpoints of a pass
constexpr int kMostRounds = 200;

}  // namespace

Result<std::shared_ptr<const GroupCheckpoint>> Backward::keep() {
  FRIDAY_TRY(made, session_.checkpoint());
  return std::shared_ptr<const GroupCheckpoint>(std::move(made));
}

// The last event of the thread before this one of its node.
std::optional<uint64_t> Backward::event_before(uint64_t index) {
  const auto known = indexes_.find(place_.mark.node);
  const TraceIndex::Thread* thread = known == indexes_.end() ? nullptr : known->second.thread(place_.thread.value);
  if (!thread) return std::nullopt;
  const auto behind = std::ranges::lower_bound(thread->events, index);
  return behind == thread->events.begin() ? std::nullopt : std::optional(*std::prev(behind));
}

// Whether the thread stands between two repetitions of a string instruction, whose address is `before`, and not at the
// place. A place in there has no mark, so one step is the whole instruction.
bool Backward::is_repeating(ReplayNode& node, uint64_t before) {
  const auto now = node.program_counter(place_.thread);
  if (!now || *now != before || !node.repeats_at(Addr{before})) return false;
  return place_.registers.rip != before || !has_registers_of_place();
}

// Has the program's stores executed where they stand. In the copy of a patched store a thread can stop between two
// instructions of the copy, and a store is patched when it has become hot: the same way would have another number of
// steps each time.
Result<void> Backward::unpatch(ReplayNode& node) {
  if (!stop_points_.patches_stores() || node.state() != NodeState::live) return {};
  FRIDAY_TRY_VOID(node.stop_threads());
  return node.watches().stores().enable(false);
}

// Accounts for a stop at a stop point of the user's that going back passes. False if the stop is another one.
bool Backward::pass_over(const Stop& stop) {
  if (stop.kind == Stop::Kind::watch) (void)stop_points_.judge_watch(stop, Hits::passed_over);
  else if (stop.kind == Stop::Kind::breakpoint) (void)stop_points_.judge_breakpoint(stop, Hits::passed_over);
  else return false;
  return true;
}

// Lets the thread execute one instruction; of a system call, until it has returned. False if its node has ended with
// that.
Result<bool> Backward::step_once() {
  const NodeId id = place_.mark.node;
  FRIDAY_TRY_VOID(unpatch(*session_.find(id)));
  FRIDAY_TRY(before, session_.find(id)->program_counter(place_.thread));
  for (;;) {
    // A long call may run past many stop points of other nodes.
    FRIDAY_TRY(stop, runner_.step_unstopped(id, place_.thread, [&](const Stop& passed) { return pass_over(passed); }));
    const bool mine = stop.node == id && stop.thread == place_.thread;
    ReplayNode& node = *session_.find(id);
    if (node.state() == NodeState::ended) return false;
    switch (stop.kind) {
      case Stop::Kind::watch:
      case Stop::Kind::breakpoint: (void)pass_over(stop); break;
      case Stop::Kind::end: return false;
      case Stop::Kind::interrupt: return fail(ErrorCode::interrupted, "going back was interrupted");
      case Stop::Kind::event:
        return fail(ErrorCode::component_died, "node {} waits before its event {} although nothing stops it there",
                    stop.node, session_.mark(stop.node).event.value);
      case Stop::Kind::failure: return fail(ErrorCode::component_died, "{}", stop.message);
      case Stop::Kind::divergence: return fail(ErrorCode::diverged, "node {} diverged on the way", stop.node);
      default: break;
    }
    if (mine && !node.call_site(place_.thread) && !is_repeating(node, before)) return true;
  }
}

// Steps from where the thread stands to the place, at most kMostSteps.
Result<Backward::Walk> Backward::walk() {
  Walk walk;
  ReplayNode& node = *session_.find(place_.mark.node);
  const bool in_call = place_.how != Place::How::inside;
  for (;; walk.steps++) {
    if (!in_call && has_registers_of_place()) {
      FRIDAY_TRY(hash, session_.state_hash(node.id()));
      if (hash == place_.hash) {
        walk.arrived = true;
        return walk;
      }
    }
    if (walk.steps == kMostSteps) return walk;
    FRIDAY_TRY(before, node.program_counter(place_.thread));
    FRIDAY_TRY(goes_on, step_once());
    if (!goes_on || node.events_done() > place_.mark.event.value) {
      // The last step was the call in which the thread stood.
      walk.steps++;
      walk.arrived = in_call;
      if (in_call) return walk;
      return fail(ErrorCode::unsupported, "node {} does not come by the place at which it stood", node.id());
    }
    FRIDAY_TRY(after, node.program_counter(place_.thread));
    if (after <= before || after > before + kLongest) walk.heads.insert(after);
  }
}

// Brings the group to the thread's first instruction after this event of its node; without an event, to the first
// instruction of the thread. False if there is no such instruction.
Result<bool> Backward::go_behind(std::optional<uint64_t> event) {
  const NodeId id = place_.mark.node;
  const uint64_t position = event ? session_.schedule().position_of(id, {*event}) : 0;
  FRIDAY_TRY_VOID(return_to(history_.before(position).get()));
  if (!event) {
    const ReplayNode& node = *session_.find(id);
    if (!session_.is_at_start() || !node.has_process() || node.info().forked || place_.thread != node.current())
      return false;
  } else {
    FRIDAY_TRY(stop, run_to_event(Mark{id, {*event}}));
    if (stop.kind != Stop::Kind::reached)
      return fail(ErrorCode::interrupted, "going back was interrupted ({})", name_of(stop.kind));
  }
  return step_once();
}

// Runs from a checkpoint to the place, or to hit number `most` of the heads.
Result<Backward::Pass> Backward::pass_heads(const GroupCheckpoint& from, const std::set<uint64_t>& heads,
                                            uint64_t most) {
  const NodeId id = place_.mark.node;
  FRIDAY_TRY_VOID(return_to(&from));
  ReplayNode& node = *session_.find(id);
  FRIDAY_TRY_VOID(node.make_pad_areas());
  for (uint64_t head : heads) (void)node.breakpoints().insert(Addr{head}, kHeadOwner);
  near_ = true;
  mark_place(node);
  Pass pass;
  uint64_t between = kFewHits;
  bool at_place = false;
  const auto ends = [&](Stop& stop) {
    const bool at_mark = is_at_mark(stop), at_head = std::erase(stop.owners, kHeadOwner) > 0;
    at_place = (at_mark || at_head) && is_place(stop, std::nullopt);
    if (at_place) return true;
    if (!at_head || stop.node != id || stop.thread != place_.thread) return false;
    return ++pass.hits == most || pass.hits % between == 0;
  };
  for (;;) {
    const uint64_t hits = pass.hits;
    FRIDAY_TRY(stop, runner_.search(event_of(id, place_.mark.event.value), ends, Hits::passed_over));
    if (stop.kind == Stop::Kind::interrupt) return fail(ErrorCode::interrupted, "going back was interrupted");
    if (at_place || pass.hits == most || (stop.kind == Stop::Kind::reached && pass.hits == hits)) break;
    if (stop.kind == Stop::Kind::exit && node.state() != NodeState::ended) continue;
    if (stop.kind != Stop::Kind::reached) break;
    if (pass.hits % between != 0) break;  // the target
    auto kept = keep();
    if (!kept) continue;
    pass.kept.emplace_back(pass.hits, std::move(*kept));
    if (pass.kept.size() < kMostKept) continue;
    between *= 2;
    std::erase_if(pass.kept, [&](const auto& each) { return each.first % between != 0; });
  }
  forget_place();
  (void)node.breakpoints().remove_all(kHeadOwner);
  FRIDAY_TRY_VOID(runner_.disarm_events());
  return pass;
}

// Lays the trail from a later checkpoint, since there are too many steps from where it begins. It begins so many jumps
// before the last one as `spare_heads` says, if the place is not too far from there.
Result<void> Backward::shorten_trail(Walk walked, uint64_t spare_heads) {
  std::set<uint64_t> heads = std::move(walked.heads);
  for (int round = 0; round < kMostRounds; round++) {
    FRIDAY_TRY(pass, pass_heads(*trail_->from, heads, ~uint64_t{0}));
    if (pass.hits > 0) {
      const uint64_t head = pass.hits - std::min(spare_heads, pass.hits - 1);
      std::pair<uint64_t, std::shared_ptr<const GroupCheckpoint>> near{0, trail_->from};
      for (auto& each : pass.kept)
        if (each.first <= head) near = each;
      if (near.first == head) FRIDAY_TRY_VOID(return_to(near.second.get()));
      else FRIDAY_TRY_VOID(pass_heads(*near.second, heads, head - near.first));
      spare_heads /= 2;  // so far the place may be too many steps away
    } else {
      FRIDAY_TRY_VOID(return_to(trail_->from.get()));
      for (uint64_t i = 0; i < kMostSteps; i++) FRIDAY_TRY_VOID(step_once());
    }
    FRIDAY_TRY(from, keep());
    trail_->from = std::move(from);
    FRIDAY_TRY(more, walk());
    if (more.arrived) {
      trail_->steps = more.steps;
      return {};
    }
    heads.merge(more.heads);
  }
  return fail(ErrorCode::unsupported, "node {}: no place shortly before the last instruction was found",
              place_.mark.node);
}

// Finds a way by single steps to the place. False if the thread has executed nothing before.
Result<bool> Backward::lay_trail(uint64_t spare_heads) {
  const NodeId id = place_.mark.node;
  if (!indexes_.contains(id)) {
    FRIDAY_TRY(index, TraceIndex::load_or_build(session_.recording(), session_.find(id)->reader()));
    indexes_.emplace(id, std::move(index));
  }
  for (auto event = event_before(place_.mark.event.value);; event = event_before(*event)) {
    FRIDAY_TRY(stands, go_behind(event));
    // The last call of a node that has ended does not return: the way to it begins behind the event before.
    if (!stands && event && place_.how == Place::How::ended && session_.find(id)->state() == NodeState::ended) continue;
    if (!stands) return false;
    FRIDAY_TRY(from, keep());
    trail_ = Trail{std::move(from), id, place_.thread};
    FRIDAY_TRY(walked, walk());
    trail_->steps = walked.steps;
    if (!walked.arrived) FRIDAY_TRY_VOID(shorten_trail(std::move(walked), spare_heads));
    if (trail_->steps > 0) return true;
    if (!event) return false;
  }
}

bool Backward::is_on_trail(NodeId node, ThreadId thread) const {
  return trail_ && trail_->node == node && trail_->thread == thread && trail_->steps > 0 &&
         trail_->moves == session_.moves();
}

// Lays a trail to where the thread stands, if there is none. False if it has executed nothing before; the group stands
// where it stood then, as it does after an error.
Result<bool> Backward::trail_to_here(NodeId id, ThreadId thread, uint64_t spare_heads) {
  if (is_on_trail(id, thread)) {
    place_.mark.node = id;
    place_.thread = thread;
    return true;
  }
  trail_.reset();
  FRIDAY_TRY(place, place_of(id, thread));
  place_ = place;
  if (place_.how == Place::How::start) return false;
  const auto kept = session_.checkpoint();
  const auto found = lay_trail(spare_heads);
  if (found && *found) return true;
  trail_.reset();
  FRIDAY_TRY_VOID(return_to_place(kept ? kept->get() : nullptr));
  return found;
}

// Call when the group stands at the end of the trail.
void Backward::stand_on_trail() {
  ReplayNode& node = *session_.find(trail_->node);
  if (node.state() == NodeState::live) (void)node.watches().stores().enable(stop_points_.patches_stores());
  runner_.stand(session_.mark(trail_->node), trail_->thread, Stop::Kind::step);
  trail_->moves = session_.moves();
}

// Goes to the place before the one to which the trail leads, and shortens it.
Result<DebugStop> Backward::follow_trail() {
  const uint64_t steps = trail_->steps - 1;
  FRIDAY_TRY_VOID(return_to(trail_->from.get()));
  uint64_t done = 0;
  for (; done < steps; done++) {
    if (steps - done == kFewSteps && done >= kFewSteps)
      if (auto nearer = keep()) {
        trail_->from = std::move(*nearer);
        trail_->steps -= done;
      }
    FRIDAY_TRY_VOID(step_once());
  }
  trail_->steps--;
  stand_on_trail();
  DebugStop stop;
  stop.kind = Stop::Kind::step;
  stop.node = trail_->node;
  stop.thread = trail_->thread;
  FRIDAY_TRY(pc, session_.find(stop.node)->program_counter(stop.thread));
  stop.pc = Addr{pc};
  return stop;
}

Result<std::optional<DebugStop>> Backward::step(NodeId id, ThreadId thread) {
  FRIDAY_TRY_VOID(check_can_go_back());
  FRIDAY_TRY(found, trail_to_here(id, thread));
  if (!found) return std::optional<DebugStop>{};
  return follow_trail();
}

Result<std::vector<user_regs_struct>> Backward::last_executed(NodeId id, ThreadId thread, size_t least) {
  FRIDAY_TRY_VOID(check_can_go_back());
  std::vector<user_regs_struct> executed;
  ReplayNode* node = session_.find(id);
  if (node->call_site(thread)) {
    FRIDAY_TRY(out_of_call, step(id, thread));
    if (!out_of_call) return executed;
  }
  if (is_on_trail(id, thread) && trail_->steps < least) trail_.reset();  // it leads here from a near place
  FRIDAY_TRY(found, trail_to_here(id, thread, least > 1 ? kSpareHeads : 0));
  if (!found) return executed;
  const uint64_t steps = trail_->steps;
  FRIDAY_TRY_VOID(return_to(trail_->from.get()));
  node = session_.find(id);
  while (executed.size() < steps) {
    FRIDAY_TRY(before, node->registers(thread));
    executed.push_back(before);
    FRIDAY_TRY_VOID(step_once());
  }
  stand_on_trail();
  return executed;
}

Result<void> Backward::go_to_executed(size_t index) {
  FRIDAY_TRY_VOID(return_to(trail_->from.get()));
  for (size_t i = 0; i < index; i++) FRIDAY_TRY_VOID(step_once());
  trail_->steps = index;
  stand_on_trail();
  return {};
}

}  // namespace friday
