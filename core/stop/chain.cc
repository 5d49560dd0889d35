#include "core/stop/chain.h"

#include <algorithm>

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
  address_.reset();
  for (; armed_ < links_.size(); ++armed_) {
    const ExpressionPlan& plan = *links_[armed_];
    auto index = first_index_ + static_cast<uint32_t>(armed_);
    auto address = evaluate_address(plan, node, thread);
    if (!address && address.error().code == ErrorCode::bad_address) return {};
    if (!address) return std::unexpected(address.error());
    bool last = armed_ + 1 == links_.size();
    auto armed = watches.arm({.id = id_, .index = index, .low = *address, .size = plan.result_type().size,
                              .any_write = last && any_write_},
                             allow_any_page_);
    if (!armed && armed.error().code == ErrorCode::bad_address) return {};
    if (!armed) return armed;
    if (last) {
      address_ = *address;
      value_ = *watches.bytes_of(id_, index);
    }
  }
  return {};
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
    auto bytes = watches.bytes_of(id_, first_index_ + static_cast<uint32_t>(first));
    value_ = bytes && !bytes->empty() ? std::optional(*bytes) : std::nullopt;
  }
  change.new_value = value_;
  change.address = address_;
  change.value_changed = change.old_value != change.new_value;
  return change;
}

void ChainWatch::disarm(WatchSet& watches) {
  for (size_t i = 0; i < links_.size(); ++i) watches.disarm(id_, first_index_ + static_cast<uint32_t>(i));
  armed_ = 0;
}

}  // namespace friday
