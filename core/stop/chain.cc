#include "core/stop/chain.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"

namespace friday {

namespace {

constexpr uint64_t kLowestMapping = 65536;  // vm.mmap_min_addr

}  // namespace

ChainWatch::ChainWatch(StopPointId id, std::shared_ptr<const ExpressionPlan> plan, uint32_t first_index, bool any_write,
                       WatchAccess access)
    : id_(id), plan_(std::move(plan)), first_index_(first_index), any_write_(any_write), access_(access) {
  FRIDAY_CHECK(plan_) << "stop point " << id.value;
}

bool ChainWatch::owns(const WatchHit& hit) const {
  return hit.id == id_ && hit.index >= first_index_ && hit.index <= first_index_ + most_links;
}

Result<void> ChainWatch::arm(NodeControl& node, ThreadId thread, WatchSet& watches, bool allow_any_page) {
  allow_any_page_ = allow_any_page;
  disarm(watches);
  if (access_ != WatchAccess::write && !plan_->place)
    return fail(ErrorCode::unsupported, "reads of {} cannot be watched: it has no place in memory", plan_->expression);
  FRIDAY_TRY(way, find(node, thread));
  if (!way.place && way.links.empty())
    return fail(ErrorCode::unsupported, "{} cannot be watched: it has no place in memory, and reads none",
                plan_->expression);
  if (way.links.empty() && way.place->address.value < kLowestMapping)
    return fail(ErrorCode::bad_address, "{} cannot be watched: it is at {}, where no program can have memory",
                plan_->expression, way.place->address);
  return follow(std::move(way), watches);
}

// Evaluates the expression. If memory cannot be read, the chain ends there: the value is undefined until an earlier
// link changes.
Result<ChainWatch::Way> ChainWatch::find(NodeControl& node, ThreadId thread) const {
  Way way;
  std::optional<Error> error;
  if (plan_->place) {
    auto place = evaluate_place(*plan_, node, thread, &way.links);
    if (place) way.place = *place;
    else error = place.error();
  } else {
    auto value = evaluate(*plan_, node, thread, &way.links);
    if (value) way.computed = std::move(value->bytes);
    else error = value.error();
  }
  if (error && error->code != ErrorCode::bad_address) return std::unexpected(std::move(*error));
  way.settled = !error || !is_inconsistent(*error);
  // Keep the first occurrence of each cell, in the order of evaluation.
  std::vector<MemoryCell> once;
  for (const MemoryCell& cell : way.links)
    if (std::ranges::find(once, cell) == once.end()) once.push_back(cell);
  way.links = std::move(once);
  if (way.links.size() > most_links)
    return fail(ErrorCode::unsupported, "`{}` reads memory in {} places; at most {} can be followed", plan_->expression,
                way.links.size(), most_links);
  return way;
}

// Returns false if the memory is not mapped and a link would have to change before the expression has a value. If there
// are no links, the place never changes, so the watch waits until the program maps it.
Result<bool> ChainWatch::arm_range(uint32_t index, MemoryCell cell, WatchSet& watches) {
  const bool may_wait = index == 0 && links_.empty(), last = index == 0;
  auto armed = watches.arm(
      {id_, first_index_ + index, cell.address, cell.size, last && any_write_, last ? access_ : WatchAccess::write},
      allow_any_page_, may_wait);
  if (!armed && armed.error().code == ErrorCode::bad_address) return false;
  if (!armed) return std::unexpected(armed.error());
  return true;
}

// Arms the cells of `way`; cells that are the same as before stay armed.
Result<void> ChainWatch::follow(Way way, WatchSet& watches) {
  for (uint32_t i = 0; i < std::max(way.links.size(), links_.size()); ++i) {
    if (i < way.links.size() && i < links_.size() && way.links[i] == links_[i]) continue;
    if (i < links_.size()) watches.disarm(id_, first_index_ + 1 + i);
    if (i < way.links.size()) FRIDAY_TRY_VOID(arm_range(i + 1, way.links[i], watches));
  }
  links_ = std::move(way.links);
  const bool same = place_ && way.place && place_->address == way.place->address && place_->size == way.place->size;
  if (place_ && !same) watches.disarm(id_, first_index_);
  if (!same) place_.reset();
  if (way.place && !same) {
    FRIDAY_TRY(armed, arm_range(0, {way.place->address, way.place->size}, watches));
    if (armed) place_ = way.place;
  }
  if (plan_->place) take_value(watches);
  else value_ = std::move(way.computed);
  return {};
}

void ChainWatch::take_value(const WatchSet& watches) {
  const std::vector<std::byte>* bytes = place_ ? watches.bytes_of(id_, first_index_) : nullptr;
  value_ = bytes && !bytes->empty() ? std::optional(*bytes) : std::nullopt;
  if (!value_ || place_->bits == 0) return;
  // For a bit-field, the value in as many bytes as its declared type has.
  const PlanType& type = plan_->result_type();
  uint64_t bits = 0;
  for (size_t bit = 0; bit < std::min<uint64_t>(place_->bits, 64); ++bit) {
    const size_t from = place_->bit + bit;
    bits |= (static_cast<uint64_t>((*value_)[from / 8]) >> from % 8 & 1) << bit;
  }
  if (type.is_signed && place_->bits < 64 && bits >> (place_->bits - 1) & 1) bits |= ~uint64_t{0} << place_->bits;
  value_->assign(std::min<uint64_t>(type.size, sizeof bits), std::byte{0});
  std::memcpy(value_->data(), &bits, value_->size());
}

Result<std::optional<ChainChange>> ChainWatch::update(std::span<const WatchHit> hits, NodeControl& node,
                                                      ThreadId thread, WatchSet& watches) {
  bool any = false, link = false;
  for (const WatchHit& hit : hits)
    if (owns(hit)) any = true, link = link || hit.index != first_index_;
  if (!any) return std::nullopt;
  ChainChange change;
  change.old_value = value_;
  if (link) {
    FRIDAY_TRY(way, find(node, thread));
    const bool settled = way.settled;
    FRIDAY_TRY_VOID(follow(std::move(way), watches));
    if (!settled)
      value_ = change.old_value;  // the program is in the middle of a change; the value behind it is reported later
  } else {
    take_value(watches);
  }
  change.new_value = value_;
  change.accessed = access_ != WatchAccess::write && !link;
  if (access_ == WatchAccess::read)
    change.old_value = change.new_value;  // a watch on reads does not report earlier stores as a change
  if (value_ && place_) change.address = place_->address;
  change.value_changed = change.old_value != change.new_value;
  return change;
}

void ChainWatch::disarm(WatchSet& watches) {
  if (place_) watches.disarm(id_, first_index_);
  for (uint32_t i = 0; i < links_.size(); ++i) watches.disarm(id_, first_index_ + 1 + i);
  links_.clear();
  place_.reset();
  value_.reset();
}

}  // namespace friday
