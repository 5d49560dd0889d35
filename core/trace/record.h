// Typed, zero-copy views of the records of a trace (layout: core/shim/trace_format.h). Views point into the memory of
// the TraceReader that made them and must not outlive it. Every view has been checked by reader.cc before it is handed
// out: the record lies inside the trace, its sizes agree, and all parts lie inside the record and have the length that
// their kind requires. The accessors here therefore cannot fail or read out of bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/shim/trace_format.h"

namespace friday {

inline constexpr uint64_t kPageBytes = 4096;

// The correct checksum of the whole record `record`, which lies at `offset` in its file.
uint32_t record_checksum(std::span<const std::byte> record, uint64_t offset);

// The correct checksum of a header page (FileHeader::checksum); never 0. `page` has kHeaderSize bytes.
uint64_t header_checksum(std::span<const std::byte> page);
// Stores the checksum in the page; call it after all other changes to the page.
void seal_header(std::span<std::byte> page);

// XXH3-64 over blocks of kHashBlock bytes, where the hash of each block is the seed of the next. The last block has 1
// to kHashBlock bytes, or 0 if there is no data.
uint64_t block_hash(std::span<const std::byte> data, uint64_t seed);
// The hash of a transfer (TransferPart in trace_format.h).
uint64_t run_hash(std::span<const std::byte> data, uint64_t seed);

inline bool is_event(uint16_t type) { return type >= format::kCall && type <= format::kYield; }

// For example "call", "clock record", "record type 99".
const char* record_type_name(uint16_t type);

inline constexpr uint64_t padded(uint64_t size) { return (size + 7) & ~uint64_t{7}; }

// The text of a fixed-size field, which may lack a terminating NUL.
inline std::string_view bounded_text(const char* text, size_t capacity) { return {text, strnlen(text, capacity)}; }

// One part of an event. Each typed accessor returns null if the part is of another kind.
struct PartView {
  const format::PartHeader* header;

  uint16_t kind() const { return header->kind; }
  uint64_t address() const { return header->address; }
  std::span<const std::byte> bytes() const { return {reinterpret_cast<const std::byte*>(header + 1), header->size}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(header + 1), header->size}; }
  // Use `peer` of the result only if peer() is not null: shorter parts do not have the field.
  const format::TransferPart* transfer() const { return as<format::TransferPart>(format::kTransfer); }
  const format::SocketAddress* peer() const {
    return kind() == format::kTransfer && header->size >= sizeof(format::TransferPart) ? &transfer()->peer : nullptr;
  }
  const format::FileIdentityPart* file_identity() const { return as<format::FileIdentityPart>(format::kFileIdentity); }
  const format::MapContentPart* map_content() const { return as<format::MapContentPart>(format::kMapContent); }
  const format::ChildPart* child() const { return as<format::ChildPart>(format::kChild); }
  const format::SharedMapPart* shared_map() const { return as<format::SharedMapPart>(format::kSharedMap); }
  const format::SharedWritePart* shared_write() const { return as<format::SharedWritePart>(format::kSharedWrite); }
  const format::SyncPart* sync() const { return as<format::SyncPart>(format::kSync); }
  const format::OwnerDiedPart* owner_died() const { return as<format::OwnerDiedPart>(format::kOwnerDiedWord); }
  const format::StatePart* state() const { return as<format::StatePart>(format::kState); }
  const format::WaitPart* wait() const { return as<format::WaitPart>(format::kWait); }
  std::span<const format::DescriptorsPart> descriptors() const {
    if (kind() != format::kDescriptors) return {};
    return {reinterpret_cast<const format::DescriptorsPart*>(header + 1),
            header->size / sizeof(format::DescriptorsPart)};
  }

 private:
  template <typename T>
  const T* as(uint16_t wanted) const {
    return kind() == wanted ? reinterpret_cast<const T*>(header + 1) : nullptr;
  }
};

class PartRange {
 public:
  class Iterator {
   public:
    Iterator(const std::byte* at, unsigned left) : at_(at), left_(left) {}
    PartView operator*() const { return {reinterpret_cast<const format::PartHeader*>(at_)}; }
    Iterator& operator++() {
      at_ += sizeof(format::PartHeader) + padded((**this).header->size);
      --left_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return left_ == other.left_; }

   private:
    const std::byte* at_;
    unsigned left_;
  };

  PartRange(const std::byte* first, unsigned count) : first_(first), count_(count) {}
  Iterator begin() const { return {first_, count_}; }
  Iterator end() const { return {nullptr, 0}; }
  unsigned size() const { return count_; }

 private:
  const std::byte* first_;
  unsigned count_;
};

class EventView {
 public:
  EventView() = default;
  explicit EventView(const format::EventRecord* record) : record_(record) {}
  const format::EventRecord* operator->() const { return record_; }
  const format::EventRecord& operator*() const { return *record_; }
  uint16_t type() const { return record_->header.type; }
  uint32_t thread() const { return record_->header.thread; }
  bool has_call() const { return type() >= format::kCall && type() <= format::kReturn; }
  std::span<const uint64_t> arguments() const {
    return {reinterpret_cast<const uint64_t*>(record_ + 1), record_->argument_count};
  }
  uint64_t argument(unsigned n) const { return n < record_->argument_count ? arguments()[n] : 0; }
  PartRange parts() const {
    return {reinterpret_cast<const std::byte*>(arguments().data() + record_->argument_count), record_->part_count};
  }
  // For an event that read a clock: the seconds, and the nanoseconds (microseconds for gettimeofday). They are stored
  // in fields that other events use for input_hash and return_ticks.
  bool is_clock() const { return record_->header.flags & format::kFlagClock; }
  uint64_t clock_address() const { return argument(format::clock_argument(record_->call)); }
  uint64_t clock_seconds() const { return record_->input_hash; }
  uint64_t clock_fraction() const { return record_->return_ticks; }
  // The input hash and the return time of any event, whether or not it read a clock.
  uint64_t input_hash() const { return is_clock() ? 0 : record_->input_hash; }
  uint64_t return_ticks() const { return is_clock() ? record_->entry_ticks : record_->return_ticks; }

 private:
  const format::EventRecord* record_ = nullptr;
};

class RecordView {
 public:
  RecordView() = default;
  RecordView(const format::RecordHeader* header, uint64_t offset) : header_(header), offset_(offset) {}
  const format::RecordHeader& header() const { return *header_; }
  uint16_t type() const { return header_->type; }
  uint64_t offset() const { return offset_; }  // byte offset in the trace file
  std::span<const std::byte> bytes() const { return {reinterpret_cast<const std::byte*>(header_), header_->size}; }
  bool is_event() const { return friday::is_event(type()); }
  EventView event() const { return EventView(reinterpret_cast<const format::EventRecord*>(header_)); }
  // Each accessor returns null if the record is of another type.
  const format::ImageRecord* image() const { return as<format::ImageRecord>(format::kImageRecord); }
  const format::ImageMapRecord* image_map() const { return as<format::ImageMapRecord>(format::kImageMap); }
  const format::ImagePagesRecord* image_pages() const { return as<format::ImagePagesRecord>(format::kImagePages); }
  const format::ImageBytesRecord* image_bytes() const { return as<format::ImageBytesRecord>(format::kImageBytes); }
  const format::ImageThreadRecord* image_thread() const { return as<format::ImageThreadRecord>(format::kImageThread); }
  const format::ChannelRecord* channel() const { return as<format::ChannelRecord>(format::kChannelRecord); }
  // Null also if the record of a channel does not have them.
  const format::ChannelPositions* channel_positions() const {
    const auto* record = channel();
    if (!record || record->header.size < sizeof *record + sizeof(format::ChannelPositions)) return nullptr;
    return reinterpret_cast<const format::ChannelPositions*>(record + 1);
  }
  const format::ChannelPeer* channel_peer() const {
    const auto* positions = channel_positions();
    if (!positions ||
        channel()->header.size < sizeof(format::ChannelRecord) + sizeof *positions + sizeof(format::ChannelPeer))
      return nullptr;
    return reinterpret_cast<const format::ChannelPeer*>(positions + 1);
  }
  const format::ClockRecord* clock() const { return as<format::ClockRecord>(format::kClockRecord); }
  const format::ModuleRecord* module() const { return as<format::ModuleRecord>(format::kModuleRecord); }
  const format::TurnRecord* turn() const { return as<format::TurnRecord>(format::kTurnRecord); }
  const format::SharedPagesRecord* shared_pages() const { return as<format::SharedPagesRecord>(format::kSharedPages); }
  const format::EndRecord* end() const { return as<format::EndRecord>(format::kEndRecord); }

 private:
  template <typename T>
  const T* as(uint16_t wanted) const {
    return header_->type == wanted ? reinterpret_cast<const T*>(header_) : nullptr;
  }
  const format::RecordHeader* header_ = nullptr;
  uint64_t offset_ = 0;
};

}  // namespace friday
