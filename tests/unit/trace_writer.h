// Writes synthetic traces and recordings for the tests of core/trace. (In a recorded process the shim writes the trace,
// with code of its own for the same layout.) A TraceWriter keeps the trace in memory until save(). It numbers the
// events of the trace and of each thread, and fills in the size and the checksum of each record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/shim/trace_format.h"
#include "core/trace/recording.h"

namespace friday::testing {

// Collects the parts of one event, in order.
class PartList {
 public:
  PartList& add(uint16_t kind, std::span<const std::byte> bytes, uint64_t address = 0);
  PartList& memory(uint64_t address, std::string_view bytes);
  PartList& path(std::string_view path);
  template <typename T>
  PartList& record(uint16_t kind, const T& value) {
    return add(kind, std::as_bytes(std::span(&value, 1)));
  }
  unsigned count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  unsigned count_ = 0;
};

struct EventSpec {
  uint16_t type = format::kCall;
  uint32_t thread = 0;
  uint16_t call = 0;
  uint16_t flags = 0;
  std::vector<uint64_t> arguments{};
  int64_t result = 0;
  uint64_t input_hash = 0;
  uint64_t entry_ticks = 0, return_ticks = 0;
  PartList parts{};
};

class TraceWriter {
 public:
  // Fills in the fields of `header` that the format determines (magic, version, sizes, counts).
  explicit TraceWriter(const format::FileHeader& header);

  // Appends an event and returns its index.
  uint64_t add(const EventSpec& event);
  // Appends a record of a fixed-size type (ChannelRecord, ClockRecord, ...) and fills in its header.
  template <typename T>
  void add_record(uint16_t type, T record) {
    record.header = {};
    append(type, 0, std::as_bytes(std::span(&record, 1)), {});
    if (type == format::kEndRecord) header_.ended = 1;
  }
  // `data` consists of whole pages.
  void add_pages(uint64_t address, std::span<const std::byte> data);
  // `data` consists of whole 8-byte words.
  void add_image_bytes(uint64_t address, std::span<const std::byte> data);

  uint64_t events() const { return header_.events; }
  const format::FileHeader& header() const { return header_; }
  Result<void> save(const std::string& path) const;

 private:
  void append(uint16_t type, uint32_t thread, std::span<const std::byte> fixed, std::span<const std::byte> rest,
              uint16_t flags = 0);

  format::FileHeader header_;
  std::string records_;
  std::unordered_map<uint32_t, uint32_t> thread_next_;
};

// Makes the directory of a recording with its recording.json, unless they exist already.
Result<void> create_recording(const std::string& path, int64_t created_ns);

// Creates the directory of the next free node id.
Result<NodeId> create_node(const std::string& path);

}  // namespace friday::testing
