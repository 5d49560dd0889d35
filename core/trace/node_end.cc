#include "core/trace/node_end.h"

#include <sys/wait.h>

#include <algorithm>

#include "core/trace/index.h"
#include "core/trace/told.h"

namespace friday {

namespace {

// The wait status of child `pid` that the parent learnt from this event, if it did.
std::optional<int> status_in(const Recording& recording, NodeId parent, uint64_t event, uint32_t pid) {
  auto reader = TraceReader::open(recording, parent, TraceReader::Gaps::allow);
  if (!reader) return std::nullopt;
  auto index = TraceIndex::load_or_build(recording, *reader);
  if (!index || event >= index->event_count()) return std::nullopt;
  auto view = index->event(*reader, event);
  if (!view) return std::nullopt;
  if (const auto status = status_told(*view)) return status;
  for (const ToldSignal& told : signals_told(*view))
    if (told.sender == pid)
      if (const auto status = told.ended_with()) return status;
  return std::nullopt;
}

// Whether the process, or its recording, was ended from outside between two events.
bool was_killed(const TraceReader& reader, const NodeEnd& end) {
  if (reader.header().running == format::kFaulted) return false;
  return end.how == NodeEnd::How::signal || end.how == NodeEnd::How::collector || end.how == NodeEnd::How::unknown;
}

}  // namespace

NodeEnd end_of(const Recording& recording, const Schedule& schedule, const NodeInfo& node) {
  if (node.end.how != NodeEnd::How::unknown) return node.end;
  for (const Edge& edge : schedule.edges()) {
    if (edge.kind != EdgeKind::wait || edge.from != node.id) continue;
    const auto status = status_in(recording, edge.to, edge.to_event, node.pid);
    if (status && WIFSIGNALED(*status)) return {NodeEnd::How::signal, WTERMSIG(*status), ""};
    if (status && WIFEXITED(*status)) return {NodeEnd::How::exit, WEXITSTATUS(*status), ""};
  }
  return node.end;
}

std::map<NodeId, EndPlace> places_of_ends(const Recording& recording, const Schedule& schedule) {
  std::map<NodeId, EndPlace> places;
  std::map<NodeId, uint64_t> told;  // by node: the position of the first event that reports the node's end
  for (const Edge& edge : schedule.edges()) {
    if (edge.kind != EdgeKind::wait) continue;
    const uint64_t position = schedule.position_of(edge.to, {edge.to_event});
    const auto [found, first] = told.try_emplace(edge.from, position);
    if (!first) found->second = std::min(found->second, position);
  }
  for (NodeId id : schedule.nodes()) {
    const uint64_t count = schedule.event_count(id);
    if (count == 0) continue;
    EndPlace& place = places[id] = {schedule.position_of(id, {count - 1}) + 1, schedule.time_of(id, {count - 1})};
    const NodeInfo* info = recording.find(id);
    if (!info || !info->ended_ns) continue;
    auto reader = TraceReader::open(recording, id, TraceReader::Gaps::allow);
    if (!reader || !was_killed(*reader, end_of(recording, schedule, *info))) continue;
    const LogicalTime seen{schedule.hosts()[schedule.host_of(id)].map(info->ended_ns), 0, id, count};
    uint64_t position = schedule.position_at(seen);
    if (auto bound = told.find(id); bound != told.end()) position = std::min(position, bound->second);
    if (position <= place.position) continue;
    const Mark last = schedule.at_position(position - 1);
    const LogicalTime before = schedule.time_of(last.node, last.event);
    const bool later = seen > before && (position == schedule.event_count() || position == schedule.position_at(seen));
    place = {position, later ? seen : LogicalTime{before.l, before.c + 1, id, count}};
  }
  return places;
}

}  // namespace friday
