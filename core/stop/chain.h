// A watch on an expression, including everything that is read to evaluate it: `a->b->c`, `table[i].count` and `*(T*)p`
// denote the object that they refer to now, plus the memory cells (*links*) that lead there: a and a->b; i; p. When a
// link changes, the expression is evaluated again, and its new cells are armed before the node resumes. If a link
// cannot be followed (NULL, unmapped memory, an index outside of a container) the value is undefined, which is no
// error. While a container is not consistent, because the program changes several of its members one after another, the
// value counts as unchanged. An expression that is computed, such as `a + b`, has links only.
//
// Owned by the session, together with the node's WatchSet.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/stop/plan.h"
#include "core/stop/watch.h"

namespace friday {

// What a hit means for the whole expression.
struct ChainChange {
  bool value_changed = false;                                  // also true when it became defined or undefined
  bool accessed = false;                                       // for a watch on reads: the value itself was accessed
  std::optional<std::vector<std::byte>> old_value, new_value;  // none: undefined
  std::optional<Addr> address;                                 // the current place of the value
  // Both values are the bytes of the object; for a bit-field, its value in as many bytes as its declared type has.
};

class ChainWatch {
 public:
  static constexpr uint32_t most_links = 64;

  // In the WatchSet, the ranges of the value and of its links use the indexes first_index to first_index + most_links
  // of `id`.
  ChainWatch(StopPointId id, std::shared_ptr<const ExpressionPlan> plan, uint32_t first_index = 0,
             bool any_write = false, WatchAccess access = WatchAccess::write);

  StopPointId id() const { return id_; }
  const std::shared_ptr<const ExpressionPlan>& plan() const { return plan_; }
  bool owns(const WatchHit& hit) const;

  // Evaluates the expression and arms all memory that was read for it. An undefined value is no error. Fails if a page
  // must not be protected, and if the expression reads no memory.
  Result<void> arm(NodeControl& node, ThreadId thread, WatchSet& watches, bool allow_any_page = false);
  // Processes the hits of one store or fault; hits of other stop points are ignored. Returns none if no hit belongs to
  // this expression.
  Result<std::optional<ChainChange>> update(std::span<const WatchHit> hits, NodeControl& node, ThreadId thread,
                                            WatchSet& watches);
  void disarm(WatchSet& watches);

  const std::optional<std::vector<std::byte>>& value() const { return value_; }
  size_t armed_links() const { return links_.size() + (place_ ? 1 : 0); }  // counts the value's own range as one

 private:
  struct Way {  // how the expression led to its value, at one moment
    std::vector<MemoryCell> links;
    std::optional<PlaceValue> place;
    std::optional<std::vector<std::byte>> computed;
    bool settled = true;  // no: a container on the way is not consistent, as while it grows
  };
  Result<Way> find(NodeControl& node, ThreadId thread) const;
  Result<void> follow(Way way, WatchSet& watches);
  Result<bool> arm_range(uint32_t index, MemoryCell cell, WatchSet& watches);
  void take_value(const WatchSet& watches);

  StopPointId id_;
  std::shared_ptr<const ExpressionPlan> plan_;
  uint32_t first_index_;
  bool any_write_;
  WatchAccess access_;
  bool allow_any_page_ = false;
  // armed links; link i has the index first_index_ + 1 + i, and the value has first_index_
  std::vector<MemoryCell> links_;
  std::optional<PlaceValue> place_;  // of the value, if it is armed
  std::optional<std::vector<std::byte>> value_;
};

}  // namespace friday
