// A watch over a pointer chain: `watch a->b->c` is one range a link (a, a->b, a->b->c), since each may change what the
// expression means. When link i changes, the links behind it are found and armed anew before the node resumes; a link
// that cannot be reached (NULL, unmapped) makes the value undefined, which is no error.
//
// The session owns it, beside the node's WatchSet. Any watched expression is a chain; one without a pointer has one link.
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
  uint32_t link = 0;                        // first link that changed
  bool value_changed = false;               // also true when it became defined or undefined
  std::optional<std::vector<std::byte>> old_value, new_value;  // none: undefined
  std::optional<Addr> address;              // where the value is now
  // Values are the bytes of the object; of a bit-field, its value in as many bytes as its type has.
};

class ChainWatch {
 public:
  // `links` in the order of evaluation, each with a place; the last is the watched value itself. Their ranges get the
  // indexes first_index, first_index + 1, ... of `id`.
  ChainWatch(StopPointId id, std::vector<std::shared_ptr<const ExpressionPlan>> links, uint32_t first_index = 0,
             bool any_write = false);

  StopPointId id() const { return id_; }
  bool owns(const WatchHit& hit) const;

  // Finds and arms all links. An undefined link is no error; a page that may not be protected is.
  Result<void> arm(NodeControl& node, ThreadId thread, WatchSet& watches, bool allow_any_page = false);
  // Hits of one store, or of one fault, that belong to this chain (others are passed over). Re-arms what is behind the
  // first changed link. None when no hit was of this chain.
  Result<std::optional<ChainChange>> update(std::span<const WatchHit> hits, NodeControl& node, ThreadId thread,
                                            WatchSet& watches);
  void disarm(WatchSet& watches);

  const std::optional<std::vector<std::byte>>& value() const { return value_; }
  size_t armed_links() const { return armed_; }

 private:
  Result<void> arm_from(size_t link, NodeControl& node, ThreadId thread, WatchSet& watches);
  void take_value(const WatchSet& watches);

  StopPointId id_;
  std::vector<std::shared_ptr<const ExpressionPlan>> links_;
  uint32_t first_index_;
  bool any_write_;
  bool allow_any_page_ = false;
  size_t armed_ = 0;  // links [0, armed_) are armed
  std::optional<PlaceValue> place_;  // of the value, when it is defined
  std::optional<std::vector<std::byte>> value_;
};

}  // namespace friday
