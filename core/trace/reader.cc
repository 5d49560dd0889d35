#include "core/trace/reader.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "core/base/fd.h"
#include "core/base/printable.h"

namespace friday {

using namespace format;

namespace {

constexpr uint64_t kKnownFeatures = kFeatureImage | kFeatureForkChild | kFeatureChecksums | kFeatureSharedMemory |
                                    kFeatureClockWords | kFeaturePart | kFeatureMappedBefore | kFeatureSchedule;

uint64_t minimum_size(uint16_t type) {
  if (is_event(type)) return sizeof(EventRecord);
  switch (type) {
    case kImageRecord: return sizeof(ImageRecord);
    case kImageMap: return sizeof(ImageMapRecord);
    case kImagePages: return sizeof(ImagePagesRecord);
    case kImageBytes: return sizeof(ImageBytesRecord);
    case kImageThread: return sizeof(ImageThreadRecord);
    case kChannelRecord: return sizeof(ChannelRecord);
    case kClockRecord: return sizeof(ClockRecord);
    case kModuleRecord: return sizeof(ModuleRecord);
    case kEndRecord: return sizeof(EndRecord);
    case kTurnRecord: return sizeof(TurnRecord);
    case kSharedPages: return sizeof(SharedPagesRecord);
    default: return sizeof(RecordHeader);
  }
}

// Returns null if the part has the length that its kind requires.
const char* part_problem(const PartHeader& part) {
  switch (part.kind) {
    case kTransfer: return part.size < kTransferBytes ? "a transfer part is too short" : nullptr;
    case kFileIdentity: return part.size < sizeof(FileIdentityPart) ? "a file identity part is too short" : nullptr;
    case kMapContent: return part.size < sizeof(MapContentPart) ? "a map content part is too short" : nullptr;
    case kChild: return part.size < sizeof(ChildPart) ? "a child part is too short" : nullptr;
    case kSync: return part.size < sizeof(SyncPart) ? "a sync part is too short" : nullptr;
    case kOwnerDiedWord: return part.size < sizeof(OwnerDiedPart) ? "an owner died part is too short" : nullptr;
    case kState: return part.size < sizeof(StatePart) ? "a state part is too short" : nullptr;
    case kWait: return part.size < sizeof(WaitPart) ? "a wait part is too short" : nullptr;
    case kSharedMap: return part.size < sizeof(SharedMapPart) ? "a shared map part is too short" : nullptr;
    case kSharedWrite: return part.size < sizeof(SharedWritePart) ? "a shared write part is too short" : nullptr;
    case kDescriptors: return part.size % sizeof(DescriptorsPart) ? "a descriptors part has a bad size" : nullptr;
    default: return nullptr;
  }
}

// Returns null if the arguments and parts fill the event exactly.
const char* event_problem(const EventRecord& event) {
  uint64_t size = event.header.size;
  uint64_t at = sizeof(EventRecord) + uint64_t{event.argument_count} * 8;
  if (at > size) return "its arguments do not fit into it";
  if ((event.header.flags & kFlagClock) &&
      (event.header.type != kCall || event.argument_count <= clock_argument(event.call)))
    return "it is marked as the reading of a clock, and is none";
  const auto* base = reinterpret_cast<const std::byte*>(&event);
  for (unsigned n = 0; n < event.part_count; ++n) {
    if (size - at < sizeof(PartHeader)) return "a part does not fit into it";
    const auto& part = *reinterpret_cast<const PartHeader*>(base + at);
    at += sizeof(PartHeader);
    if (padded(part.size) > size - at) return "a part does not fit into it";
    if (const char* problem = part_problem(part)) return problem;
    at += padded(part.size);
  }
  return at == size ? nullptr : "its parts do not fill it";
}

const char* header_problem(const FileHeader& header) {
  if (header.header_size % 8 || header.header_size < sizeof(FileHeader))
    return "the offset of its first record is impossible";
  if (header.clock_kind != kClockTsc && header.clock_kind != kClockMonotonic) return "its clock is of an unknown kind";
  if (header.ticks_per_second == 0) return "its clock has no rate";
  if (header.image_end && (header.image_end % 8 || header.image_end < header.header_size ||
                           (header.committed > header.header_size && header.image_end > header.committed)))
    return "the end of its start image is impossible";
  return nullptr;
}

// Returns what is wrong with a trace as a whole, if anything.
std::optional<Error> file_problem(const TraceFile& file, const std::string& path, NodeId node) {
  const FileHeader& header = file.header();
  if (memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return bad_file(
        node, fmt::format("{} is not a Friday trace: it does not begin with FRIDAYT1. Record the node again", path));
  if (header.version != kVersion)
    return bad_file(
        node,
        fmt::format("{} has trace format version {}, this Friday reads version {}. Use the Friday that recorded it",
                    path, header.version, kVersion));
  if (uint64_t unknown = header.features & ~kKnownFeatures)
    return bad_file(
        node, fmt::format("{} uses features {:#x} that this Friday does not know. Use the Friday that recorded it",
                          path, unknown));
  if (!file.header_holds())
    return bad_file(
        node, fmt::format("{} has a damaged header: its checksum does not match. Copy the recording again", path));
  if (const char* problem = header_problem(header))
    return bad_file(node, fmt::format("{} has a damaged header: {}. Copy the recording again", path, problem));
  uint64_t needed = std::max<uint64_t>(header.committed, header.header_size);
  if (const uint64_t size = file.size(); needed > size)
    return bad_file(node,
                    fmt::format("{} is truncated: {} bytes were recorded, the file has {}. Copy the recording again, "
                                "or leave this node out with --node",
                                path, needed, size));
  return std::nullopt;
}

}  // namespace

uint64_t block_hash(std::span<const std::byte> data, uint64_t seed) {
  for (; data.size() > kHashBlock; data = data.subspan(kHashBlock))
    seed = XXH3_64bits_withSeed(data.data(), kHashBlock, seed);
  return XXH3_64bits_withSeed(data.data(), data.size(), seed);
}

uint32_t record_checksum(std::span<const std::byte> record, uint64_t offset) {
  const size_t first = std::min<size_t>(record.size(), kHashBlock);
  alignas(64) std::byte copy[kHashBlock];
  memcpy(copy, record.data(), first);
  memset(copy + offsetof(RecordHeader, checksum), 0, sizeof(RecordHeader::checksum));
  const uint64_t hash = XXH3_64bits_withSeed(copy, first, offset);
  return static_cast<uint32_t>(first == record.size() ? hash : block_hash(record.subspan(first), hash));
}

uint64_t header_checksum(std::span<const std::byte> page) {
  std::byte copy[kHeaderSize];
  memcpy(copy, page.data(), sizeof copy);
  memset(copy + offsetof(FileHeader, checksum), 0, sizeof(FileHeader::checksum));
  const uint64_t found = XXH3_64bits(copy, sizeof copy);
  return found ? found : 1;
}

void seal_header(std::span<std::byte> page) {
  const uint64_t checksum = header_checksum(page);
  memcpy(page.data() + offsetof(FileHeader, checksum), &checksum, sizeof checksum);
}

uint64_t run_hash(std::span<const std::byte> data, uint64_t seed) {
  const uint64_t contents = block_hash(data, 0);
  return XXH3_64bits_withSeed(&contents, sizeof contents, seed);
}

const char* record_type_name(uint16_t type) {
  switch (type) {
    case kImageRecord: return "image";
    case kImageMap: return "image map";
    case kImagePages: return "image pages";
    case kImageBytes: return "image bytes";
    case kImageThread: return "image thread";
    case kFiller: return "filler";
    case kChannelRecord: return "channel";
    case kClockRecord: return "clock";
    case kModuleRecord: return "module";
    case kEndRecord: return "end";
    case kTurnRecord: return "turn";
    case kSharedPages: return "shared pages";
    case kCall: return "call";
    case kRelease: return "release";
    case kReturn: return "return";
    case kSignal: return "signal";
    case kThreadStart: return "thread start";
    case kThreadExit: return "thread exit";
    case kInstruction: return "instruction";
    case kYield: return "yield";
    case kBranches: return "branches";
    case kCutValue: return "cut value";
    case kSchedule: return "schedule";
    case kStack: return "stack";
    case kProcessImage: return "process image";
    default: return "unknown";
  }
}

Result<TraceReader> TraceReader::open(const Recording& recording, NodeId node, Gaps gaps) {
  const NodeInfo* info = recording.find(node);
  if (!info) return fail(ErrorCode::not_found, "the recording {} has no node {}", recording.path(), node);
  if (info->problem) return std::unexpected(*info->problem);
  FRIDAY_TRY(reader, open_file(recording.trace(node), node));
  if (gaps == Gaps::refuse && !reader.is_complete())
    return fail(ErrorCode::unsupported,
                "node {} ({}): the recording leaves out what it received from other nodes; make it again with `friday "
                "restore {}`",
                node, printable(info->name), printable(recording.path()));
  return reader;
}

Result<TraceReader> TraceReader::open(const std::string& recording_path, NodeId node) {
  FRIDAY_TRY(recording, Recording::open(recording_path));
  return open(recording, node);
}

Result<TraceReader> TraceReader::open_file(const Beneath& trace, NodeId node) {
  const std::string path = trace.path();
  FRIDAY_TRY(file, TraceFile::open(trace, node));
  const FileHeader& header = file->header();
  if (auto problem = file_problem(*file, path, node)) return std::unexpected(*std::move(problem));
  TraceReader reader;
  reader.node_ = node;
  reader.path_ = path;
  reader.end_ = std::max<uint64_t>(header.committed, header.header_size);
  reader.file_ = std::move(file);
  return reader;
}

Error TraceReader::damage(std::string message, std::optional<uint64_t> event) const {
  return Error{ErrorCode::bad_input, std::move(message), node_.value, event};
}

std::optional<std::string> record_problem(const RecordView& record, bool checksums) {
  const auto& header = record.header();
  if (header.size < minimum_size(header.type))
    return fmt::format("size {} is too small for a record of type {}", header.size, record_type_name(header.type));
  if (checksums) {
    const uint32_t expected = record_checksum(record.bytes(), record.offset());
    if (expected != header.checksum)
      return fmt::format("checksum {:#010x} expected, {:#010x} found", header.checksum, expected);
  }
  if (record.is_event()) {
    if (const char* problem = event_problem(*record.event())) return problem;
  } else if (const auto* pages = record.image_pages()) {
    uint64_t room = header.size - sizeof(ImagePagesRecord);
    if (room % kPageBytes || pages->pages != room / kPageBytes) return "its page count does not match its size";
  } else if (const auto* bytes = record.image_bytes()) {
    if (bytes->bytes != header.size - sizeof(ImageBytesRecord)) return "its count of bytes does not match its size";
  } else if (const auto* thread = record.image_thread()) {
    if (thread->bytes != header.size - sizeof(ImageThreadRecord)) return "its count of bytes does not match its size";
  } else if (const auto* module = record.module()) {
    if (module->build_id_size > sizeof module->build_id) return "its build-id is too long";
  } else if (const auto* channel = record.channel()) {
    if (channel->channel == 0) return "a channel has no number";
  }
  return std::nullopt;
}

std::optional<Error> TraceReader::check_record(uint64_t offset) const {
  auto damaged = [&](std::string_view what) {
    return damage(
        fmt::format("record damaged at offset {} of {}: {}. Copy the recording again, or leave this node out with "
                    "--node",
                    offset, path_, what));
  };
  uint64_t left = end_ - offset;
  if (left < sizeof(RecordHeader)) return damaged("the trace ends inside its header");
  if (auto problem = file_->need(offset, offset + sizeof(RecordHeader))) return damaged(*problem);
  const auto& header = *reinterpret_cast<const RecordHeader*>(file_->data() + offset);
  if (header.size % 8 || header.size < sizeof(RecordHeader))
    return damaged(fmt::format("size {} is impossible", header.size));
  if (header.size > left) return damaged(fmt::format("size {} exceeds the {} bytes left", header.size, left));
  if (auto problem = file_->need(offset, offset + header.size)) return damaged(*problem);
  const bool checksums = file_->header().features & kFeatureChecksums;
  if (auto problem = record_problem(RecordView(&header, offset), checksums)) return damaged(*problem);
  return std::nullopt;
}

RecordCursor TraceReader::records() const { return RecordCursor(*this); }

Result<RecordView> TraceReader::record_at(uint64_t offset) const {
  if (offset % 8 || offset < first_offset() || offset >= end_)
    return std::unexpected(damage(fmt::format("no record can stand at offset {} of {}", offset, path_)));
  if (auto problem = check_record(offset)) return std::unexpected(*std::move(problem));
  return RecordView(reinterpret_cast<const RecordHeader*>(file_->data() + offset), offset);
}

Result<EventView> TraceReader::event_at(uint64_t offset) const {
  FRIDAY_TRY(record, record_at(offset));
  if (!record.is_event())
    return std::unexpected(damage(fmt::format("the record at offset {} of {} is no event", offset, path_)));
  return record.event();
}

bool TraceReader::ended_by_exit() const {
  const format::EndRecord* last = nullptr;
  for (RecordCursor cursor = records(); cursor.next();) last = cursor.record().end();
  return last && last->reason == format::kEndExit;
}

Result<void> TraceReader::check() const {
  RecordCursor cursor = records();
  while (cursor.next()) {}
  if (cursor.error()) return std::unexpected(*cursor.error());
  return {};
}

Result<StartImage> TraceReader::image() const {
  StartImage image;
  RecordCursor cursor = records();
  while (cursor.next() && !cursor.record().is_event()) {
    const RecordView& record = cursor.record();
    if (const auto* image_record = record.image()) {
      image.record = image_record;
    } else if (const auto* map = record.image_map()) {
      image.maps.push_back(map);
    } else if (const auto* pages = record.image_pages()) {
      image.contents.push_back({pages->address, record.bytes().subspan(sizeof(ImagePagesRecord))});
    } else if (const auto* bytes = record.image_bytes()) {
      image.contents.push_back({bytes->address, record.bytes().subspan(sizeof(ImageBytesRecord))});
    } else if (const auto* thread = record.image_thread()) {
      image.threads.push_back({thread, record.bytes().subspan(sizeof(ImageThreadRecord))});
    } else if (const auto* module = record.module()) {
      image.modules.push_back(module);
    }
  }
  if (cursor.error()) return std::unexpected(*cursor.error());
  if (image.record) return image;
  if (lacks_image())
    return std::unexpected(Error{
        ErrorCode::not_found,
        fmt::format("the start image of the trace {} is not complete: the process that wrote it was killed, or the "
                    "disk was full. Leave this node out with --node",
                    path_),
        node_.value, std::nullopt});
  const char* why = header().features & kFeatureSchedule ? "keeps a schedule only, which has no start image"
                    : header().features & kFeatureForkChild
                        ? "is a forked child and begins as a copy of its parent; it has no "
                          "start image of its own"
                        : "holds no start image: recording ended before its first event";
  return std::unexpected(
      Error{ErrorCode::not_found, fmt::format("the trace {} {}", path_, why), node_.value, std::nullopt});
}

// If the record's checksum shows that it was written at another, nearby offset, returns that offset.
std::optional<uint64_t> TraceReader::written_at(uint64_t offset) const {
  constexpr uint64_t kFar = 64 << 10, kLargest = 4096;
  if (!(file_->header().features & kFeatureChecksums) || end_ - offset < sizeof(EventRecord)) return std::nullopt;
  if (file_->need(offset, std::min(end_, offset + kLargest))) return std::nullopt;
  const auto& header = *reinterpret_cast<const RecordHeader*>(file_->data() + offset);
  if (header.size % 8 || header.size < minimum_size(header.type) || header.size > std::min(kLargest, end_ - offset))
    return std::nullopt;
  std::span record(file_->data() + offset, header.size);
  for (uint64_t distance = 8; distance <= kFar; distance += 8) {
    if (record_checksum(record, offset + distance) == header.checksum) return offset + distance;
    if (distance < offset && record_checksum(record, offset - distance) == header.checksum) return offset - distance;
  }
  return std::nullopt;
}

// Replaces the message "wrong checksum" by a better one if records are missing or swapped.
void RecordCursor::explain_displacement() {
  auto place = reader_->written_at(offset_);
  if (!place) return;
  auto at = [&](uint64_t offset) {
    return RecordView(reinterpret_cast<const RecordHeader*>(reader_->file_->data() + offset), offset);
  };
  auto name = [](const RecordView& record) {
    return record.is_event() ? fmt::format("event {}", record.event()->index)
                             : fmt::format("a {} record", record_type_name(record.type()));
  };
  RecordView here = at(offset_);
  uint64_t second = offset_ + here.header().size;
  std::string what;
  if (second < reader_->end_ && reader_->written_at(second) == offset_)
    what = fmt::format("records swapped: {} stands before {}", name(here), name(at(second)));
  else if (here.is_event() && here.event()->index > events_)
    what = fmt::format("event {} missing: found {}", events_, here.event()->index);
  else what = fmt::format("{} bytes of records missing before {}", static_cast<int64_t>(*place - offset_), name(here));
  error_->message = what + " (" + error_->message + ")";
}

bool RecordCursor::next() {
  if (error_ || offset_ >= reader_->end_) return false;
  if ((error_ = reader_->check_record(offset_))) {
    error_->event = events_;
    explain_displacement();
    return false;
  }
  record_ = RecordView(reinterpret_cast<const RecordHeader*>(reader_->file_->data() + offset_), offset_);
  if (!check_sequence()) return false;
  offset_ += record_.header().size;
  return true;
}

bool RecordCursor::is_event_at(uint64_t offset, uint64_t index) const {
  if (offset >= reader_->end_ || reader_->check_record(offset)) return false;
  RecordView record(reinterpret_cast<const RecordHeader*>(reader_->file_->data() + offset), offset);
  return record.is_event() && record.event()->index == index;
}

bool RecordCursor::check_sequence() {
  auto damaged = [&](std::string message) {
    error_ = reader_->damage(std::move(message) +
                                 ". The trace was altered; copy the recording again, or leave this node out "
                                 "with --node",
                             events_);
    return false;
  };
  if (const auto* end = record_.end(); end && end->event != events_)
    return damaged(
        fmt::format("event {} missing: the end record counts {} events, found {}", events_, end->event, events_));
  if (!record_.is_event()) return true;
  EventView event = record_.event();
  if (event->index != events_) {
    if (is_event_at(offset_ + record_.header().size, events_))
      return damaged(fmt::format("records swapped: event {} stands before event {}", event->index, events_));
    return damaged(fmt::format("event {} missing: found {}", events_, event->index));
  }
  bool forked = reader_->header().features & kFeatureForkChild;
  auto [entry, is_new] = thread_next_.try_emplace(event.thread(), forked ? event->thread_seq : 0);
  if (entry->second != event->thread_seq)
    return damaged(fmt::format("event {} of thread {} missing: found its event {}", entry->second, event.thread(),
                               event->thread_seq));
  ++entry->second;
  ++events_;
  return true;
}

}  // namespace friday
