#include "core/stop/chain.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"

namespace friday {

ChainWatch::ChainWatch(StopPointId id, std::vector<std::shared_ptr<const ExpressionPlan>> links, uint32_t first_index,
                       bool any_write)
    : id_(id), links_(std::move(links)), first_index_(first_index), any_write_(any_write) {
  FRIDAY_CHECK(!links_.empty()) << "stop point " << id.value;
}

bool ChainWatch::owns(const WatchHit& hit) const {
  return hit.id == id_ && hit.index >= first_index_ && hit.index < first_index_ + links_.size();
}

Result<void> ChainWatch::arm(NodeControl& node, ThreadId thread, WatchSet& watches, bool allow_any_page) {
  allow_any_page_ = allow_any_page;
  return arm_from(0, node, thread, watches);
}

// Memory that cannot be reached ends the chain there: the value is undefined until an earlier link changes.
Result<void> ChainWatch::arm_from(size_t link, NodeControl& node, ThreadId thread, WatchSet& watches) {
  for (size_t i = link; i < links_.size(); ++i) watches.disarm(id_, first_index_ + static_cast<uint32_t>(i));
  armed_ = link;
  value_.reset();
  place_.reset();
  for (; armed_ < links_.size(); ++armed_) {
    bool last = armed_ + 1 == links_.size();
    auto place = evaluate_place(*links_[armed_], node, thread);
    if (!place && place.error().code == ErrorCode::bad_address) return {};
    if (!place) return std::unexpected(place.error());
    WatchRange range{id_, first_index_ + static_cast<uint32_t>(armed_), place->address, place->size, last && any_write_};
    auto armed = watches.arm(range, allow_any_page_);
    if (!armed && armed.error().code == ErrorCode::bad_address) return {};
    if (!armed) return armed;
    if (last) place_ = *place;
  }
  take_value(watches);
  return {};
}

void ChainWatch::take_value(const WatchSet& watches) {
  auto bytes = watches.bytes_of(id_, first_index_ + static_cast<uint32_t>(links_.size()) - 1);
  value_ = place_ && bytes && !bytes->empty() ? std::optional(*bytes) : std::nullopt;
  if (!value_ || place_->bits == 0) return;
  // A bit-field: its value, in as many bytes as its type has.
  const PlanType& type = links_.back()->result_type();
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
  size_t first = links_.size();
  for (const WatchHit& hit : hits)
    if (owns(hit)) first = std::min<size_t>(first, hit.index - first_index_);
  if (first == links_.size()) return std::nullopt;
  ChainChange change;
  change.link = static_cast<uint32_t>(first);
  change.old_value = value_;
  if (first + 1 < links_.size()) {
    FRIDAY_TRY_VOID(arm_from(first + 1, node, thread, watches));
  } else {
    take_value(watches);
  }
  change.new_value = value_;
  if (value_ && place_) change.address = place_->address;
  change.value_changed = change.old_value != change.new_value;
  return change;
}

void ChainWatch::disarm(WatchSet& watches) {
  for (size_t i = 0; i < links_.size(); ++i) watches.disarm(id_, first_index_ + static_cast<uint32_t>(i));
  armed_ = 0;
}

}  // namespace friday
