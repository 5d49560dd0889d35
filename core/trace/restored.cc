#include "core/trace/restored.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace friday {

namespace {

struct Head {
  char magic[8];
  uint64_t fingerprint;  // of the ranges
  uint64_t bytes;        // that follow
};
constexpr char kMagic[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'R', '1'};

Head head_of(std::span<const LeftOut> ranges) {
  Head head{{}, XXH3_64bits(ranges.data(), ranges.size_bytes()), 0};
  std::ranges::copy(kMagic, head.magic);
  for (const LeftOut& range : ranges) head.bytes += range.size;
  return head;
}

}  // namespace

Beneath restored_payload(const Beneath& trace, NodeId node) {
  return {trace.root, fmt::format("cache/restored-{}", node.value)};
}

std::optional<RestoredPayload> RestoredPayload::open(const Beneath& file, std::span<const LeftOut> ranges) {
  auto fd = open_beneath(file);
  Head found, wanted = head_of(ranges);
  struct stat status;
  if (!fd || ::fstat(fd->get(), &status) != 0 ||
      !read_exactly(fd->get(), std::as_writable_bytes(std::span(&found, 1)), 0) ||
      memcmp(&found, &wanted, sizeof found) != 0 || static_cast<uint64_t>(status.st_size) != sizeof found + found.bytes)
    return std::nullopt;
  RestoredPayload restored;
  restored.fd_ = std::move(*fd);
  restored.path_ = file.path();
  restored.ranges_ = ranges;
  uint64_t at = sizeof found;
  for (const LeftOut& range : ranges) {
    restored.places_.push_back(at);
    at += range.size;
  }
  return restored;
}

std::optional<std::string> RestoredPayload::fill(uint64_t from, std::span<std::byte> bytes) const {
  auto range = std::ranges::lower_bound(ranges_, from, {}, &LeftOut::offset);
  for (; range != ranges_.end() && range->end() <= from + bytes.size(); ++range) {
    const auto place = bytes.subspan(range->offset - from, range->size);
    const uint64_t at = places_[static_cast<size_t>(range - ranges_.begin())];
    if (auto read = read_exactly(fd_.get(), place, at); !read) return read.error().message;
    if (XXH3_64bits_withSeed(place.data(), place.size(), range->offset) != range->hash)
      return fmt::format("{} is damaged: it has other bytes for {} to {} of the trace. Remove it, and it is made again",
                         path_, range->offset, range->end());
  }
  return std::nullopt;
}

Result<void> write_restored(const Beneath& file, std::span<const LeftOut> ranges, int source, uint64_t at) {
  FRIDAY_TRY_VOID(make_directory_beneath(file.directory()));
  return replace_beneath(file, [&](int fd) -> Result<void> {
    const Head head = head_of(ranges);
    FRIDAY_TRY_VOID(write_all(fd, std::as_bytes(std::span(&head, 1))));
    std::vector<std::byte> bytes;
    for (const LeftOut& range : ranges) {
      bytes.resize(range.size);
      FRIDAY_TRY_VOID(read_exactly(source, bytes, at));
      if (XXH3_64bits_withSeed(bytes.data(), bytes.size(), range.offset) != range.hash)
        return fail(ErrorCode::bad_input, "bytes {} to {} of the trace are not those that were received", range.offset,
                    range.end());
      FRIDAY_TRY_VOID(write_all(fd, bytes));
      at += range.size;
    }
    return {};
  });
}

}  // namespace friday
