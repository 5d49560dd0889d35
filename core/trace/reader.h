// Reads one node's trace: walks its records where TraceFile shows them, without copying. Everything read is checked
// first: sizes, checksums, part lengths, the sequence of events and of each thread's events. A hostile or damaged file
// leads to an Error that names the node and the event, never to a read outside the mapping or an endless loop.
//
// A TraceReader is a snapshot: a live trace may grow, but only what was committed when it was opened is read, and never
// past the end of the file. Readers are movable, not copyable; views point into the mapping and die with the reader.
// One reader may be used by several threads at once, one cursor by one.
#pragma once

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

// What rebuilds the address space at the node's first event. Pointers into the reader's mapping.
struct StartImage {
  struct Contents {
    uint64_t address;
    std::span<const std::byte> data;  // whole pages, or what of a page differs from its file; at least aligned to 8
  };
  const format::ImageRecord* record = nullptr;
  std::vector<const format::ImageMapRecord*> maps;  // in file order
  std::vector<Contents> contents;
  std::vector<const format::ModuleRecord*> modules;  // modules of the start image
};

class RecordCursor;

class TraceReader {
 public:
  static Result<TraceReader> open(const Recording& recording, NodeId node);
  static Result<TraceReader> open(const std::string& recording_path, NodeId node);
  // A trace file by itself; `node` only labels errors.
  static Result<TraceReader> open_file(const Beneath& trace, NodeId node);

  NodeId node() const { return node_; }
  const std::string& path() const { return path_; }
  // As of the time of opening.
  const format::FileHeader& header() const { return file_->header(); }
  uint64_t first_offset() const { return header().header_size; }
  uint64_t end_offset() const { return end_; }

  // Walks all records from the first.
  RecordCursor records() const;

  // The start image; not_found for the trace of a forked child, which has none.
  Result<StartImage> image() const;

  // The record at `offset`, which came from a cursor or an index; checked again, checksum included.
  Result<RecordView> record_at(uint64_t offset) const;
  Result<EventView> event_at(uint64_t offset) const;
  // An event that a cursor of this reader has shown; not checked again.
  EventView seen_event(uint64_t offset) const {
    return EventView(reinterpret_cast<const format::EventRecord*>(file_->data() + offset));
  }

  // Whether the trace ends because the program did.
  bool ended_by_exit() const;

  // Walks the whole trace; the first damage found, if any.
  Result<void> check() const;

  // A path under which a process of the replay can open the whole trace while this reader lives.
  Result<UniqueFd> descriptor() const { return file_->descriptor(); }

 private:
  friend class RecordCursor;
  // Sizes, checksum and parts of the record at `offset`, which must be below end_. No sequence checks.
  std::optional<Error> check_record(uint64_t offset) const;
  std::optional<uint64_t> written_at(uint64_t offset) const;
  Error damage(std::string message, std::optional<uint64_t> event = {}) const;

  NodeId node_{};
  std::string path_;
  std::shared_ptr<const TraceFile> file_;
  uint64_t end_ = 0;
};

// for (RecordCursor cursor = reader.records(); cursor.next();) use(cursor.record()); then look at cursor.error().
class RecordCursor {
 public:
  explicit RecordCursor(const TraceReader& reader) : reader_(&reader), offset_(reader.first_offset()) {}

  // Moves to the next record; false at the end and at damage, for good.
  bool next();
  const RecordView& record() const { return record_; }
  uint64_t events_seen() const { return events_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  bool check_sequence();
  void explain_displacement();
  // Whether the intact record at `offset` is event `index`.
  bool is_event_at(uint64_t offset, uint64_t index) const;

  const TraceReader* reader_;
  uint64_t offset_;
  RecordView record_;
  uint64_t events_ = 0;
  std::unordered_map<uint32_t, uint32_t> thread_next_;  // thread -> thread_seq of its next event
  std::optional<Error> error_;
};

}  // namespace friday
