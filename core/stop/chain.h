// A watch over an expression, whatever it reads on the way: `a->b->c`, `table[i].count` and `*(T*)p` are each the
// object that they mean now, and the memory cells (*links*) whose contents lead there: a and a->b, i, p. When a link
// changes, the way is gone anew and what has become another cell is armed before the node resumes. A link that cannot
// be reached (NULL, unmapped) makes the value undefined, which is no error. An expression that is no object but
// computed, `a + b`, has links only.
//
// The session owns it, beside the node's WatchSet.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/stop/plan.h"
#include "core/stop/watch.h"

namespace friday {

// What a hit meant for the whole expression.
struct ChainChange {
  bool value_changed = false;  // also true when it became defined or undefined
  bool accessed = false;       // of one whose reads are watched: the hit was on the value itself
  std::optional<std::vector<std::byte>> old_value, new_value;  // none: undefined
  std::optional<Addr> address;                                 // where the value is now
  // Values are the bytes of the object; of a bit-field, its value in as many bytes as its type has.
};

class ChainWatch {
 public:
  static constexpr uint32_t most_links = 64;

  // The ranges of its links and of its value get the indexes [first_index, first_index + most_links] of `id`.
  ChainWatch(StopPointId id, std::shared_ptr<const ExpressionPlan> plan, uint32_t first_index = 0,
             bool any_write = false, WatchAccess access = WatchAccess::write);

  StopPointId id() const { return id_; }
  const std::shared_ptr<const ExpressionPlan>& plan() const { return plan_; }
  bool owns(const WatchHit& hit) const;

  // Evaluates the expression and arms all that it read. An undefined value is no error; a page that may not be
  // protected is, and an expression that reads nothing.
  Result<void> arm(NodeControl& node, ThreadId thread, WatchSet& watches, bool allow_any_page = false);
  // Hits of one store, or of one fault, that belong to this expression (others are passed over). None when no hit did.
  Result<std::optional<ChainChange>> update(std::span<const WatchHit> hits, NodeControl& node, ThreadId thread,
                                            WatchSet& watches);
  void disarm(WatchSet& watches);

  const std::optional<std::vector<std::byte>>& value() const { return value_; }
  size_t armed_links() const { return links_.size() + (place_ ? 1 : 0); }  // the value's own range is one

 private:
  struct Way {  // from the expression to its value, at one moment
    std::vector<MemoryCell> links;
    std::optional<PlaceValue> place;
    std::optional<std::vector<std::byte>> computed;
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
  std::vector<MemoryCell> links_;    // armed ones; link i has the index first_index_ + 1 + i, the value first_index_
  std::optional<PlaceValue> place_;  // of the value, when it is armed
  std::optional<std::vector<std::byte>> value_;
};

}  // namespace friday
