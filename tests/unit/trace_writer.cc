#include "tests/unit/trace_writer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "core/base/check.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/trace/record.h"

namespace friday::testing {

using namespace format;

namespace {

void append_bytes(std::string& text, std::span<const std::byte> bytes) {
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void pad(std::string& text) { text.resize(padded(text.size())); }

}  // namespace

PartList& PartList::add(uint16_t kind, std::span<const std::byte> bytes, uint64_t address) {
  PartHeader header{kind, 0, static_cast<uint32_t>(bytes.size()), address};
  append_bytes(bytes_, std::as_bytes(std::span(&header, 1)));
  append_bytes(bytes_, bytes);
  pad(bytes_);
  ++count_;
  return *this;
}

PartList& PartList::memory(uint64_t address, std::string_view bytes) {
  return add(kMemory, std::as_bytes(std::span(bytes)), address);
}

PartList& PartList::path(std::string_view path) { return add(kPath, std::as_bytes(std::span(path))); }

TraceWriter::TraceWriter(const FileHeader& header) : header_(header) {
  memcpy(header_.magic, kMagic, sizeof kMagic);
  header_.version = kVersion;
  header_.header_size = kHeaderSize;
  header_.features |= kFeatureChecksums;
  header_.committed = header_.allocated = kHeaderSize;
  header_.events = header_.ended = 0;
}

void TraceWriter::append(uint16_t type, uint32_t thread, std::span<const std::byte> fixed,
                         std::span<const std::byte> rest, uint16_t flags) {
  uint64_t offset = header_.committed;
  size_t start = records_.size();
  append_bytes(records_, fixed);
  append_bytes(records_, rest);
  pad(records_);
  std::span record = std::as_writable_bytes(std::span(records_)).subspan(start);
  RecordHeader head{static_cast<uint32_t>(record.size()), type, flags, 0, thread};
  memcpy(record.data(), &head, sizeof head);
  head.checksum = record_checksum(record, offset);
  memcpy(record.data(), &head, sizeof head);
  header_.committed = header_.allocated = offset + record.size();
}

uint64_t TraceWriter::add(const EventSpec& spec) {
  FRIDAY_CHECK(spec.arguments.size() <= 15 && spec.parts.count() <= kMaxParts) << "an event with too many parts";
  EventRecord event{};
  event.index = header_.events++;
  event.thread_seq = thread_next_[spec.thread]++;
  event.call = spec.call;
  event.argument_count = spec.arguments.size() & 15;
  event.part_count = spec.parts.count() & kMaxParts;
  event.result = spec.result;
  event.input_hash = spec.input_hash;
  event.entry_ticks = spec.entry_ticks;
  event.return_ticks = spec.return_ticks ? spec.return_ticks : spec.entry_ticks;
  std::string rest;
  append_bytes(rest, std::as_bytes(std::span(spec.arguments)));
  rest += spec.parts.bytes();
  append(spec.type, spec.thread, std::as_bytes(std::span(&event, 1)), std::as_bytes(std::span(rest)), spec.flags);
  return event.index;
}

void TraceWriter::add_pages(uint64_t address, std::span<const std::byte> data) {
  FRIDAY_CHECK(data.size() % kPageBytes == 0) << "image pages must be whole";
  ImagePagesRecord pages{{}, address, data.size() / kPageBytes};
  append(kImagePages, 0, std::as_bytes(std::span(&pages, 1)), data);
}

void TraceWriter::add_image_bytes(uint64_t address, std::span<const std::byte> data) {
  FRIDAY_CHECK(data.size() % 8 == 0) << "image bytes come in words of 8";
  ImageBytesRecord bytes{{}, address, data.size()};
  append(kImageBytes, 0, std::as_bytes(std::span(&bytes, 1)), data);
}

Result<void> TraceWriter::save(const std::string& path) const {
  std::string file(reinterpret_cast<const char*>(&header_), sizeof header_);
  file.resize(kHeaderSize);
  file += records_;
  return write_file_atomically(path, file);
}

Result<void> create_recording(const std::string& path, int64_t created_ns) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("cannot make the recording {}", path));
  for (const char* part : {"/nodes", "/files"})
    if (::mkdir((path + part).c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno(errno, fmt::format("cannot make {}{}", path, part));
  std::string json = path + "/recording.json";
  struct stat status;
  if (::stat(json.c_str(), &status) == 0) return {};
  return write_file_atomically(json, fmt::format("{{\"format\": 1, \"created\": {}}}\n", created_ns));
}

Result<NodeId> create_node(const std::string& path) {
  for (uint32_t id = 0;; ++id) {
    std::string directory = fmt::format("{}/nodes/{}", path, id);
    if (::mkdir(directory.c_str(), 0700) == 0) return NodeId{id};
    if (errno != EEXIST) return fail_errno(errno, fmt::format("cannot make {}", directory));
  }
}

}  // namespace friday::testing
