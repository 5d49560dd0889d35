// Judges hits: which stop points were hit, whether their conditions hold, and which values changed.
#include <algorithm>
#include <chrono>

#include "core/base/counted.h"
#include "core/debug/group_stop_points.h"

namespace friday {
namespace {

// At a stop with many conditions that cannot be evaluated, gdb is asked for no longer than this.
constexpr auto kConditionsTime = std::chrono::seconds(2);

}  // namespace

// Evaluates the condition of a stop point. One that cannot be evaluated counts as true. The group stops after the first
// such failure in any case, so after kConditionsTime gdb is not asked about the other conditions. If the user
// interrupts it, nothing is known of any condition of this stop.
bool GroupStopPoints::condition_holds(const StopPoint& point, NodeId node, Judgement& judgement) {
  if (point.condition.empty()) return true;
  if (judgement.interrupted_at) return false;
  const bool ask = judgement.failure.empty() || std::chrono::steady_clock::now() - judgement.start < kConditionsTime;
  std::optional<RawValue> value;
  if (ask) {
    auto read_now = expressions_.read(node, point.condition);
    if (!read_now && read_now.error().code == ErrorCode::component_died)
      read_now = expressions_.read(node, point.condition);  // the gdb has died and is replaced by the second attempt
    if (!read_now && read_now.error().code == ErrorCode::interrupted) {
      judgement.interrupted_at = point.id;
      return false;
    }
    if (!read_now && read_now.error().code == ErrorCode::component_died)
      lost_part_ = fmt::format("node {}: the condition of stop point {} could not be evaluated: {}", node,
                               point.id.value, read_now.error().message);
    if (!read_now) {
      if (judgement.failure.empty())
        judgement.failure = fmt::format("the condition of stop point {} could not be evaluated: {}", point.id.value,
                                        read_now.error().message);
      else judgement.more_failed++;
      return true;
    }
    value = std::move(*read_now);
  } else if (auto quick = expressions_.read_quickly(node, point.condition)) {
    value = std::move(*quick);
  }
  if (!value) {
    judgement.more_failed++;
    return true;
  }
  const auto truth = symbols_.types().truth_of(value->type, value->bytes);
  if (truth) return *truth;
  if (judgement.failure.empty())
    judgement.failure = fmt::format("the condition of stop point {} is neither true nor false: `{}` is a {}",
                                    point.id.value, point.condition, symbols_.types().name_of(value->type));
  else judgement.more_failed++;
  return true;
}

std::string GroupStopPoints::Judgement::note() const {
  return more_failed
             ? fmt::format("{}; {} could not be evaluated either", failure, counted(more_failed, "other condition"))
             : failure;
}

bool GroupStopPoints::pass_over_own(Stop& stop, bool may_ask) {
  return follow_loader(stop, may_ask) || follow_frames(stop, may_ask);
}

// Counts a hit whose condition held. Returns whether it is reported, which it is not while its ignore count lasts.
bool GroupStopPoints::count_hit(StopPoint& point) {
  if (search_) return !search_->contains(point.id.value);
  return points_.count_hit(point.id) == HitVerdict::run_handlers;
}

void GroupStopPoints::count_found(const std::vector<uint32_t>& ids) {
  for (uint32_t id : ids)
    if (StopPoint* point = points_.find({id})) point->hit_count++;
}

// Leaves those of the stop's points that were hit, and counts their hits. If the user interrupts a condition, nothing
// is counted.
GroupStopPoints::Verdict GroupStopPoints::keep_hits(DebugStop& stop, bool may_ask) {
  Judgement judgement;
  std::vector<uint32_t> hit;
  for (uint32_t id : stop.ids) {
    const StopPoint* point = points_.find({id});
    if (!point || !point->enabled) continue;
    if (may_ask ? condition_holds(*point, stop.node, judgement) : !is_known_false(*point, stop.node)) hit.push_back(id);
  }
  if (judgement.interrupted_at) {
    session_.clear_interrupt();
    stop.message = fmt::format(
        "the condition of stop point {} was being evaluated on node {} ({}): this is no hit; going on evaluates it "
        "again",
        judgement.interrupted_at->value, stop.node, session_.find(stop.node)->info().name);
    return Verdict::interrupted;
  }
  std::erase_if(hit, [&](uint32_t id) { return !count_hit(*points_.find({id})); });
  const auto was_hit = [&](uint32_t id) { return std::ranges::find(hit, id) != hit.end(); };
  std::erase_if(stop.changes, [&](const WatchChange& change) { return !was_hit(change.id); });
  stop.ids = std::move(hit);
  if (!judgement.failure.empty()) stop.message += (stop.message.empty() ? "" : "\n") + judgement.note();
  return stop.ids.empty() ? Verdict::none : Verdict::hit;
}

std::optional<DebugStop> GroupStopPoints::decide(DebugStop stop) {
  const DebugStop whole = stop;
  switch (keep_hits(stop, true)) {
    case Verdict::none: return std::nullopt;
    case Verdict::hit: return stop;
    case Verdict::interrupted: break;
  }
  undecided_ = whole;
  stop = with_kind(std::move(stop), Stop::Kind::interrupt);
  return stop;
}

std::optional<DebugStop> GroupStopPoints::judge_breakpoint(Stop stop, Hits hits) {
  if (pass_over_own(stop, true) || hits == Hits::passed_over) return std::nullopt;
  DebugStop out{std::move(stop), {}, {}};
  for (const auto& owner : out.owners)
    if (owner.kind == BreakpointOwner::Kind::stop_point) out.ids.push_back(owner.id);
  std::sort(out.ids.begin(), out.ids.end());
  return decide(std::move(out));
}

std::optional<DebugStop> GroupStopPoints::judge_watch(Stop stop, Hits hits) {
  DebugStop out{std::move(stop), {}, {}};
  ReplayNode& node = *session_.find(out.node);
  for (auto& [number, watched] : nodes_[out.node].watches) {
    StopPoint* point = points_.find({number});
    if (!point || !point->enabled) continue;
    // Update every chain. The first one that changed is reported.
    std::optional<ChainChange> told;
    size_t which = 0;
    std::erase_if(watched, [&](Watched& each) {
      if (!each.frame) return false;
      const bool alive = lives(node, *each.frame);
      if (alive && each.dormant) each.dormant = !is_within(node, *each.frame);
      each.dormant |= !alive && search_.has_value();
      if (alive || each.dormant) return false;
      each.chain->disarm(node.watches());
      return true;
    });
    for (size_t i = 0; i < watched.size(); i++) {
      auto change = watched[i].chain->update(out.hits, watched[i].seen_from(node), out.thread, node.watches());
      if (watched[i].dormant || !change || !*change ||
          !((*change)->value_changed || (*change)->accessed || point->any_write) || told ||
          std::ranges::find(out.told, point->id) != out.told.end())
        continue;
      told = std::move(**change);
      which = i;
    }
    if (!told || hits == Hits::passed_over) continue;
    out.ids.push_back(number);
    WatchChange change{number, watched[which].expression, std::nullopt, std::nullopt};
    const auto address = told->address ? std::optional(told->address->value) : std::nullopt;
    if (told->old_value) change.old_value = RawValue{watched[which].type, *told->old_value, address};
    if (told->new_value) change.new_value = RawValue{watched[which].type, *told->new_value, address};
    out.changes.push_back(std::move(change));
  }
  return decide(std::move(out));
}

// Whether the condition is false, as far as that can be told without gdb.
bool GroupStopPoints::is_known_false(const StopPoint& point, NodeId node) {
  if (point.condition.empty()) return false;
  auto value = expressions_.read_quickly(node, point.condition);
  return value && *value && !symbols_.types().truth_of((*value)->type, (*value)->bytes).value_or(true);
}

bool GroupStopPoints::is_refused(const Stop& stop) {
  if (stop.kind != Stop::Kind::breakpoint) return false;
  for (const auto& owner : stop.owners) {
    const StopPoint* point = points_.find({owner.id});
    if (owner.kind != BreakpointOwner::Kind::stop_point || !point || !point->enabled) continue;
    if (!is_known_false(*point, stop.node)) return false;
  }
  return true;
}

// ---- MemoryObserver

void GroupStopPoints::memory_hit(ReplayNode& node, ThreadId thread, const Stop& stop) {
  for (auto& [number, chains] : nodes_[node.id()].watches)
    for (auto& watched : chains)
      (void)watched.chain->update(stop.hits, watched.seen_from(node), thread, node.watches());
}

void GroupStopPoints::memory_changed(ReplayNode& node) {
  for (auto& [number, watched] : nodes_[node.id()].watches) {
    const StopPoint* point = points_.find({number});
    for (auto& each : watched)
      (void)each.chain->arm(each.seen_from(node), focus_.selected_thread(node.id()), node.watches(),
                            point && point->any_page);
  }
}

}  // namespace friday
