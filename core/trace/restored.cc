#include "core/trace/restored.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace friday {

namespace {

struct RestoredHead {
  char magic[8];
  uint64_t fingerprint;  // of the ranges
  uint64_t bytes;        // that follow
};
constexpr char kRestoredMagic[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'R', '1'};

RestoredHead head_of(const PackedList& list) {
  RestoredHead head{{}, fingerprint_of(list), 0};
  std::ranges::copy(kRestoredMagic, head.magic);
  for (const LeftOut& range : list.left_out) head.bytes += range.size;
  return head;
}

}  // namespace

uint64_t fingerprint_of(const PackedList& list) {
  uint64_t fingerprint = 0;
  for (const PackedBlock& block : list.blocks)
    if (block.left_out.count)
      fingerprint = XXH3_64bits_withSeed(&block.left_out.payload, sizeof(uint64_t), fingerprint);
  return fingerprint;
}

Beneath restored_payload(const Beneath& trace, NodeId node) {
  return {trace.root, fmt::format("cache/restored-{}", node.value)};
}

std::optional<RestoredPayload> RestoredPayload::open(const Beneath& file, const PackedList& list) {
  auto fd = open_beneath(file);
  RestoredHead found, wanted = head_of(list);
  struct stat status;
  if (!fd || ::fstat(fd->get(), &status) != 0 ||
      !read_exactly(fd->get(), std::as_writable_bytes(std::span(&found, 1)), 0) ||
      memcmp(&found, &wanted, sizeof found) != 0 || static_cast<uint64_t>(status.st_size) != sizeof found + found.bytes)
    return std::nullopt;
  RestoredPayload restored;
  restored.fd_ = std::move(*fd);
  restored.path_ = file.path();
  restored.list_ = &list;
  uint64_t at = sizeof found;
  for (const LeftOut& range : list.left_out) {
    restored.places_.push_back(at);
    at += range.size;
  }
  return restored;
}

std::optional<std::string> RestoredPayload::fill(const PackedBlock& block, std::span<std::byte> bytes) const {
  const auto ranges = list_->left_out_of(block);
  if (ranges.empty()) return std::nullopt;
  for (size_t n = 0; n < ranges.size(); n++) {
    const auto place = bytes.subspan(ranges[n].offset - block.offset, ranges[n].size);
    if (auto read = read_exactly(fd_.get(), place, places_[block.left_out.first + n]); !read)
      return read.error().message;
  }
  if (left_out_hash(bytes, block.offset, ranges) != block.left_out.payload)
    return fmt::format("{} is damaged: it has other bytes for {} to {} of the trace. Remove it, and it is made again",
                       path_, ranges.front().offset, ranges.back().end());
  seal_records(bytes, block.offset, ranges);
  return std::nullopt;
}

Result<void> write_restored(const Beneath& file, const PackedList& list, int source, uint64_t at) {
  FRIDAY_TRY_VOID(make_directory_beneath(file.directory()));
  return replace_beneath(file, [&](int fd) -> Result<void> {
    const RestoredHead head = head_of(list);
    FRIDAY_TRY_VOID(write_all(fd, std::as_bytes(std::span(&head, 1))));
    std::vector<std::byte> bytes;
    for (const PackedBlock& block : list.blocks) {
      if (block.left_out.count == 0) continue;
      const auto ranges = list.left_out_of(block);
      uint64_t size = 0;
      for (const LeftOut& range : ranges) size += range.size;
      bytes.resize(size);
      FRIDAY_TRY_VOID(read_exactly(source, bytes, at));
      at += size;
      if (XXH3_64bits(bytes.data(), size) != block.left_out.payload)
        return fail(ErrorCode::bad_input, "bytes {} to {} of the trace are not those that were received",
                    ranges.front().offset, ranges.back().end());
      FRIDAY_TRY_VOID(write_all(fd, bytes));
    }
    return {};
  });
}

}  // namespace friday
