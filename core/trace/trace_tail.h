// Reads the trace of a node while it is being recorded, each record once, as soon as it is committed. What the recorder
// has moved to the compressed file meanwhile is read from there. Belongs to one thread. The recorded program does not
// notice it: nothing is written, and the program's pages are not touched.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/trace/reader.h"
#include "core/trace/record.h"

namespace friday {

class TraceTail {
 public:
  using Visit = std::function<void(const RecordView&)>;

  // `trace` is the plain file's name (Recording::trace), `node` is used in error messages.
  TraceTail(Beneath trace, NodeId node) : trace_(std::move(trace)), node_(node) {}

  // Visits the records that were committed since the last call. The views are good during the visit. Fails if the trace
  // is damaged.
  Result<void> poll(const Visit& visit);
  // During a visit: whether bytes of the record are zeros for payload that the trace leaves out.
  bool lacks(std::span<const std::byte> bytes) const { return snapshot_ && snapshot_->lacks(bytes); }

  // As it was at the last call of poll(); zeros before.
  const format::FileHeader& header() const { return header_; }

 private:
  Result<void> open();
  Result<uint64_t> visit_plain(const Visit& visit);
  Result<void> visit_snapshot(const Visit& visit);

  Beneath trace_;
  NodeId node_;
  UniqueFd plain_;
  format::FileHeader header_{};
  uint64_t next_ = 0;  // offset of the next record; 0: not even the header was read
  std::vector<std::byte> buffer_;
  std::optional<TraceReader> snapshot_;  // while what stands in it is visited
};

}  // namespace friday
