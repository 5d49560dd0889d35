#include "core/stop/stop_points.h"

namespace friday {

Result<StopPointId> StopPoints::add(StopPoint point) {
  bool placed = point.kind == StopKind::watchpoint ? !point.expressions.empty() : !point.location.empty();
  if (!placed)
    return fail(
        ErrorCode::usage, "{}",
        point.kind == StopKind::breakpoint ? "a breakpoint needs a location" : "a watchpoint needs an expression");
  point.id = StopPointId{++last_id_};
  StopPointId id = point.id;
  points_.emplace(id, std::move(point));
  return id;
}

Result<void> StopPoints::remove(StopPointId id) {
  if (points_.erase(id) == 0) return fail(ErrorCode::not_found, "no breakpoint or watchpoint number {}", id.value);
  return {};
}

void StopPoints::withdraw(StopPointId id) {
  if (points_.erase(id) > 0 && id.value == last_id_) last_id_--;
}

StopPoint* StopPoints::find(StopPointId id) {
  auto it = points_.find(id);
  return it == points_.end() ? nullptr : &it->second;
}

const StopPoint* StopPoints::find(StopPointId id) const {
  auto it = points_.find(id);
  return it == points_.end() ? nullptr : &it->second;
}

Result<StopPoint*> StopPoints::get(StopPointId id) {
  if (StopPoint* point = find(id)) return point;
  return fail(ErrorCode::not_found, "no breakpoint or watchpoint number {}", id.value);
}

std::vector<StopPointId> StopPoints::ids() const {
  std::vector<StopPointId> ids;
  for (const auto& [id, point] : points_) ids.push_back(id);
  return ids;
}

HitVerdict StopPoints::count_hit(StopPointId id) {
  StopPoint* point = find(id);
  if (!point || !point->enabled) return HitVerdict::disabled;
  ++point->hit_count;
  if (point->ignore_count == 0) return HitVerdict::run_handlers;
  --point->ignore_count;
  return HitVerdict::ignored;
}

}  // namespace friday
