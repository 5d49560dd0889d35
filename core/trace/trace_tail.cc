#include "core/trace/trace_tail.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace friday {

namespace {

constexpr uint64_t kWindow = 4u << 20;  // bytes that are read at once, if no record is larger

}  // namespace

Result<void> TraceTail::open() {
  auto plain = open_beneath(trace_);
  if (plain) plain_ = std::move(*plain);
  else if (plain.error().code != ErrorCode::not_found) return std::unexpected(plain.error());
  return {};
}

Result<void> TraceTail::poll(const Visit& visit) {
  snapshot_.reset();  // one in which damage was found
  if (!plain_) FRIDAY_TRY_VOID(open());
  if (!plain_) return visit_snapshot(visit);  // only the compressed form is left: the node has ended
  FRIDAY_TRY_VOID(read_exactly(plain_.get(), std::as_writable_bytes(std::span(&header_, 1)), 0));
  if (next_ == 0) {
    // A reader checks the header, and finds what is in the compressed file already.
    return visit_snapshot(visit);
  }
  if (header_.committed <= next_) return {};
  FRIDAY_TRY(reached, visit_plain(visit));
  if (reached < header_.committed) return visit_snapshot(visit);
  return {};
}

// Returns the offset up to which records could be read. Where that is not all, the bytes behind have moved to the
// compressed file, or are damaged.
Result<uint64_t> TraceTail::visit_plain(const Visit& visit) {
  const bool checksums = header_.features & format::kFeatureChecksums;
  uint64_t wanted = kWindow;
  while (next_ < header_.committed) {
    const uint64_t size = std::min(wanted, header_.committed - next_);
    buffer_.resize(size);
    if (!read_exactly(plain_.get(), buffer_, next_)) return next_;
    uint64_t at = 0;
    while (size - at >= sizeof(format::RecordHeader)) {
      const auto* header = reinterpret_cast<const format::RecordHeader*>(buffer_.data() + at);
      if (header->size % 8 || header->size < sizeof *header || header->size > header_.committed - next_) return next_;
      if (header->size > size - at) {
        wanted = std::max<uint64_t>(kWindow, header->size);
        break;
      }
      const RecordView record(header, next_);
      if (record_problem(record, checksums)) return next_;
      visit(record);
      at += header->size;
      next_ += header->size;
    }
    if (at == 0 && size == header_.committed - next_) return next_;
  }
  return next_;
}

Result<void> TraceTail::visit_snapshot(const Visit& visit) {
  FRIDAY_TRY(reader, TraceReader::open_file(trace_, node_));
  snapshot_ = std::move(reader);
  header_ = snapshot_->header();
  next_ = std::max(next_, snapshot_->first_offset());
  while (next_ < snapshot_->end_offset()) {
    FRIDAY_TRY(record, snapshot_->record_at(next_));
    visit(record);
    next_ += record.header().size;
  }
  snapshot_.reset();
  return {};
}

}  // namespace friday
