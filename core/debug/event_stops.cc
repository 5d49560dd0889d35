#include "core/debug/event_stops.h"

#include <algorithm>
#include <utility>

#include "core/trace/event_text.h"

namespace friday {
namespace {

constexpr uint64_t kNever = ~uint64_t{0};

}  // namespace

Result<uint32_t> EventStops::add_timer(double seconds) {
  if (!(seconds > 0)) return fail(ErrorCode::usage, "the period of a timer must be greater than 0 s, not {}", seconds);
  FRIDAY_TRY(id, stop_points_.add_timer(fmt::format("every {} s", seconds)));
  timers_[id] = Timer{static_cast<int64_t>(seconds * 1e9), 0};
  return id;
}

Result<uint32_t> EventStops::add_catch(const std::vector<NodeId>& nodes, const std::string& text,
                                       const std::string& condition) {
  FRIDAY_TRY(filter, EventFilter::parse(text));
  FRIDAY_TRY(id, stop_points_.add_catch(nodes, text, condition));
  catches_.emplace(id, std::move(filter));
  forget_catches();
  return id;
}

void EventStops::forget(uint32_t id) {
  timers_.erase(id);
  if (catches_.erase(id)) forget_catches();
}

void EventStops::restart() {
  for (auto& [id, timer] : timers_) timer.next = 0;
  timer_.reset();
  nodes_.clear();
  armed_nodes_ = 0;
}

void EventStops::forget_catches() {
  for (auto& [id, node] : nodes_) node.next_catch.reset();
}

bool EventStops::is_enabled(uint32_t id) const {
  const StopPoint* point = stop_points_.table().find({id});
  return point && point->enabled;
}

bool EventStops::covers(uint32_t id, NodeId node) const {
  const StopPoint* point = stop_points_.table().find({id});
  return point && point->enabled && std::ranges::find(point->nodes, node) != point->nodes.end();
}

// ---- Before a run

// The first event at or after the time at which a timer is due first. A timer is due at multiples of its period since
// the recording's start, wherever the group was when it was set or has come back to.
std::optional<Mark> EventStops::next_timer() {
  int64_t due = INT64_MAX;
  const Schedule& order = session_.schedule();
  for (auto& [id, timer] : timers_) {
    if (!is_enabled(id)) continue;
    if (!timer.next) {
      const int64_t start = order.time_of(order.turns().front().node, {order.turns().front().first}).l;
      timer.next = start + timer.period * (std::max<int64_t>(focus_.group_time().l - start, 0) / timer.period + 1);
    }
    due = std::min(due, timer.next);
  }
  if (due == INT64_MAX) return std::nullopt;
  // A node that has no process yet cannot be told to wait; use the next event of a node that has one.
  for (uint64_t position = order.position_at({due, 0, {}, 0}); position < order.event_count(); position++) {
    const Mark mark = order.at_position(position);
    ReplayNode* node = session_.find(mark.node);
    if (node->has_process() && node->state() == NodeState::live && node->events_done() <= mark.event.value) return mark;
  }
  return std::nullopt;
}

std::vector<uint32_t> EventStops::caught_at(const TraceReader& trace, NodeId node, uint64_t offset,
                                            const EventView& event) const {
  std::vector<uint32_t> ids;
  for (const auto& [id, filter] : catches_)
    if (covers(id, node) && filter.matches(trace, offset, event)) ids.push_back(id);
  return ids;
}

// The next event of the node that a catchpoint wants. Each part of a trace is looked at once as the node goes on.
Result<uint64_t> EventStops::next_catch(ReplayNode& node) {
  NodeEvents& at = nodes_[node.id()];
  if (at.next_catch) return *at.next_catch;
  const bool wanted = std::ranges::any_of(catches_, [&](const auto& each) { return covers(each.first, node.id()); });
  if (!wanted) return *(at.next_catch = kNever);
  if (!node.refresh_control()) return fail(ErrorCode::component_died, "node {}: its process is gone", node.id());
  const TraceReader& trace = node.reader();
  for (uint64_t offset = node.control().cursor; offset < trace.end_offset();) {
    FRIDAY_TRY(record, trace.record_at(offset));
    if (record.is_event() && record.event()->index != at.told &&
        !caught_at(trace, node.id(), offset, record.event()).empty())
      return *(at.next_catch = record.event()->index);
    offset += record.header().size;
  }
  return *(at.next_catch = kNever);
}

// The event before which the node must wait.
Result<uint64_t> EventStops::next_event(ReplayNode& node, const std::optional<Mark>& timer) {
  const bool is_target = target_ && target_->mark && target_->mark->node == node.id();
  const uint64_t wanted = is_target ? target_->mark->event.value : kNever;
  if (is_passing()) return wanted;
  FRIDAY_TRY(caught, next_catch(node));
  return std::min({wanted, caught, timer && timer->node == node.id() ? timer->event.value : kNever});
}

void EventStops::arm(ReplayNode& node, uint64_t event) {
  NodeEvents& at = nodes_[node.id()];
  if (at.armed == event || !session_.stop_at(node.id(), event)) return;
  if (at.armed == kNever) armed_nodes_++;
  if (event == kNever) armed_nodes_--;
  at.armed = event;
}

void EventStops::forget_armed(NodeId id) {
  if (std::exchange(nodes_[id].armed, kNever) != kNever) armed_nodes_--;
}

Result<void> EventStops::prepare() {
  // Which catchpoints are enabled may have changed.
  std::vector<uint32_t> enabled;
  for (const auto& [id, filter] : catches_)
    if (is_enabled(id)) enabled.push_back(id);
  if (std::exchange(enabled_, enabled) != enabled) forget_catches();
  if (enabled_.empty() && timers_.empty() && !target_ && !armed_nodes_) return {};  // as at most stops
  timer_ = is_passing() ? std::nullopt : next_timer();
  for (NodeId id : session_.nodes()) {
    ReplayNode* node = session_.find(id);
    if (node->state() == NodeState::ended) forget_armed(id);
    if (!node->has_process() || node->state() != NodeState::live) continue;
    FRIDAY_TRY(event, next_event(*node, timer_));
    arm(*node, event);
  }
  return {};
}

void EventStops::node_started(ReplayNode& node) {
  forget_armed(node.id());
  nodes_[node.id()] = {};
  // The node may have an event nearer to the time at which a timer is due than the nodes that had a process before, of
  // which none may have such an event at all.
  if (!is_passing()) timer_ = next_timer();
  if (auto event = next_event(node, timer_)) arm(node, *event);
}

// ---- After a stop

std::optional<DebugStop> EventStops::judge(Stop stop, bool may_ask) {
  const uint64_t event = session_.mark(stop.node).event.value;
  const bool hits_first = target_ && !target_->passing && target_->hits_first;
  if (!hits_first)
    if (auto reached = judge_target(stop); reached || is_passing()) return reached;
  if (auto due = judge_timers(stop, event)) return due;
  if (auto caught = judge_catches(stop, event, may_ask)) return caught;
  return hits_first ? judge_target(std::move(stop)) : std::nullopt;
}

std::optional<DebugStop> EventStops::judge_target(Stop stop) {
  if (!target_ || !target_->mark) return std::nullopt;
  const auto& mark = target_->mark;
  if (stop.node != mark->node || session_.mark(stop.node).event < mark->event) return std::nullopt;
  stand_before(*mark);
  return with_kind(std::move(stop), Stop::Kind::reached);
}

void EventStops::stand_before(const Mark& mark) {
  // Timers that were due on the way are skipped.
  const int64_t now = session_.schedule().time_of(mark.node, mark.event).l;
  for (auto& [id, timer] : timers_)
    while (timer.next && timer.next <= now) timer.next += timer.period;
  nodes_[mark.node].told = mark.event.value;
  focus_.set_reached(mark);
}

std::optional<DebugStop> EventStops::judge_timers(const Stop& stop, uint64_t event) {
  const Schedule& order = session_.schedule();
  if (timers_.empty() || event >= order.event_count(stop.node)) return std::nullopt;
  const int64_t now = order.time_of(stop.node, {event}).l;
  DebugStop out = with_kind(stop, Stop::Kind::timer);
  for (auto& [id, timer] : timers_) {
    if (!is_enabled(id) || timer.next > now) continue;
    out.ids.push_back(id);
    while (timer.next <= now) timer.next += timer.period;
  }
  if (out.ids.empty()) return std::nullopt;
  focus_.set_reached(session_.mark(stop.node));
  return out;
}

std::optional<DebugStop> EventStops::judge_catches(Stop stop, uint64_t event, bool may_ask) {
  NodeEvents& at = nodes_[stop.node];
  ReplayNode& node = *session_.find(stop.node);
  if (at.next_catch && *at.next_catch < event) at.next_catch.reset();  // never wait for what is over
  if (at.next_catch != event || !node.refresh_control()) return std::nullopt;
  at.next_catch.reset();
  at.told = event;
  const uint64_t offset = node.control().cursor;
  auto found = node.reader().event_at(offset);
  if (!found) return std::nullopt;
  DebugStop out = with_kind(std::move(stop), Stop::Kind::caught);
  out.ids = caught_at(node.reader(), out.node, offset, *found);
  out.caught = event_text(*found);
  const Mark mark = session_.mark(out.node);
  std::optional<DebugStop> decided;
  if (may_ask) decided = stop_points_.decide(std::move(out));
  else if (stop_points_.keep_hits(out, false) == GroupStopPoints::Verdict::hit) decided = std::move(out);
  if (decided) focus_.set_reached(mark);
  return decided;
}

std::vector<uint32_t> EventStops::catching_death(NodeId node, int signal) const {
  std::vector<uint32_t> ids;
  if (is_passing()) return ids;
  for (const auto& [id, filter] : catches_)
    if (covers(id, node) && filter.takes_death(signal)) ids.push_back(id);
  return ids;
}

}  // namespace friday
