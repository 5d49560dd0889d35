// Reads one node's trace: iterates over its records in the memory that TraceFile provides, without copying. Everything
// is checked before it is handed out: sizes, checksums, part lengths, the numbering of events and of each thread's
// events. A hostile or damaged file leads to an Error that names the node and the event, never to a read outside the
// mapping or an endless loop.
//
// A TraceReader is a snapshot: a live trace may grow, but only records that were committed when it was opened are read,
// and never past the end of the file. Readers are movable and not copyable; views point into the mapping and must not
// outlive the reader. Several threads may use one reader at once; a cursor belongs to one thread.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/trace/record.h"
#include "core/trace/recording.h"
#include "core/trace/trace_file.h"

namespace friday {

// Everything needed to rebuild the address space at the node's first event. All pointers point into the reader's
// mapping.
struct StartImage {
  struct Contents {
    uint64_t address;
    // Whole pages, or the bytes of a page that differ from the mapped file. The address is a multiple of 8.
    std::span<const std::byte> data;
  };
  const format::ImageRecord* record = nullptr;
  std::vector<const format::ImageMapRecord*> maps;  // in file order
  std::vector<Contents> contents;
  std::vector<const format::ModuleRecord*> modules;  // the modules mapped at the first event
  struct Thread {
    const format::ImageThreadRecord* record;
    std::span<const std::byte> extended;  // as ImageThreadRecord says
  };
  std::vector<Thread> threads;  // all of them, if the process was running already; else empty
};

// What is wrong with a record whose size is a multiple of 8, no smaller than its header, and lies in readable memory;
// none if nothing is. `checksums`: whether its checksum is valid in an intact trace.
std::optional<std::string> record_problem(const RecordView& record, bool checksums);

class RecordCursor;

class TraceReader {
 public:
  // What to do if the trace leaves out payload (packed.h) that no replay has made again yet.
  enum class Gaps {
    refuse,  // fail with unsupported
    allow,   // read zeros there; the caller asks lacks()
  };
  static Result<TraceReader> open(const Recording& recording, NodeId node, Gaps gaps = Gaps::refuse);
  static Result<TraceReader> open(const std::string& recording_path, NodeId node);
  // Opens a single trace file, with gaps. `node` names it in messages and finds what was made again.
  static Result<TraceReader> open_file(const Beneath& trace, NodeId node);

  NodeId node() const { return node_; }
  const std::string& path() const { return path_; }
  // The header as it was when the trace was opened.
  const format::FileHeader& header() const { return file_->header(); }
  // Of the first record; of a part whose image is not complete, the first one behind the room for it. At most
  // end_offset().
  uint64_t first_offset() const { return lacks_image() ? std::min(header().image_end, end_) : header().header_size; }
  bool lacks_image() const { return header().image_end && !header().imaged; }
  uint64_t end_offset() const { return end_; }

  // A cursor before the first record.
  RecordCursor records() const;

  // The start image. Fails with not_found for the trace of a forked child, which has none.
  Result<StartImage> image() const;

  // The record at `offset`, which must come from a cursor or an index. The record is checked again, including its
  // checksum.
  Result<RecordView> record_at(uint64_t offset) const;
  Result<EventView> event_at(uint64_t offset) const;
  // The event at `offset`, which a cursor of this reader has already checked; it is not checked again.
  EventView seen_event(uint64_t offset) const {
    return EventView(reinterpret_cast<const format::EventRecord*>(file_->data() + offset));
  }

  const PackedList& packed_list() const { return file_->packed_list(); }
  std::span<const LeftOut> left_out() const { return file_->left_out(); }
  bool is_complete() const { return file_->is_complete(); }
  const InferredPayload* inferred() const { return file_->inferred(); }
  bool lacks(std::span<const std::byte> bytes) const {
    const auto from = static_cast<uint64_t>(bytes.data() - file_->data());
    return file_->lacks(from, from + bytes.size());
  }

  // Whether the trace ends because the program exited.
  bool ended_by_exit() const;

  // Reads the whole trace and returns the first error found.
  Result<void> check() const;

  // A read-only file descriptor of the whole uncompressed trace, which the replayed process can map.
  Result<UniqueFd> descriptor() const { return file_->descriptor(); }

 private:
  friend class RecordCursor;
  // Checks sizes, checksum and parts of the record at `offset`, which must be less than end_. Does not check the
  // numbering.
  std::optional<Error> check_record(uint64_t offset) const;
  std::optional<uint64_t> written_at(uint64_t offset) const;
  Error damage(std::string message, std::optional<uint64_t> event = {}) const;

  NodeId node_{};
  std::string path_;
  std::shared_ptr<const TraceFile> file_;
  uint64_t end_ = 0;
};

// Usage: for (RecordCursor cursor = reader.records(); cursor.next();) use(cursor.record()); then check cursor.error().
class RecordCursor {
 public:
  explicit RecordCursor(const TraceReader& reader) : reader_(&reader), offset_(reader.first_offset()) {}

  // Moves to the next record. Returns false at the end or at damage, and from then on always.
  bool next();
  const RecordView& record() const { return record_; }
  uint64_t events_seen() const { return events_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  bool check_sequence();
  void explain_displacement();
  // Whether the record at `offset` is intact and is event `index`.
  bool is_event_at(uint64_t offset, uint64_t index) const;

  const TraceReader* reader_;
  uint64_t offset_;
  RecordView record_;
  uint64_t events_ = 0;
  std::unordered_map<uint32_t, uint32_t> thread_next_;  // by thread: thread_seq of its next event
  std::optional<Error> error_;
};

}  // namespace friday
