#include "core/trace/packed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/trace/columns.h"

namespace friday {

namespace {

// Level 3 takes 1.5 times as long on a recording of redis and saves 3 % (docs/performance.md).
constexpr int kLevel = 1;

// Skippable frames, which `zstd -d` ignores.
constexpr uint32_t kBlockMagic = 0x184d2a50, kEndMagic = 0x184d2a51, kLeftOutMagic = 0x184d2a52;
constexpr char kBlockTag[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'Z', '1'};
constexpr char kColumnsTag[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'Z', 'C'};
constexpr char kEndTag[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'Z', 'E'};
constexpr char kLeftOutTag[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'Z', 'L'};

struct BlockHead {
  uint32_t magic, length;  // `length` counts the bytes after this field
  char tag[8];
  uint64_t offset, size, stored, hash;
};

struct EndHead {
  uint32_t magic, length;
  char tag[8];
  uint64_t hash;  // XXH3-64 of the header page that follows
};

// Precedes its block, as an array of LeftOut follows.
struct LeftOutHead {
  uint32_t magic, length;
  char tag[8];
  uint64_t hash;  // XXH3-64 of the array
};

// Reads the frame at `at`, which begins with `begin`. None if it is not complete.
std::optional<std::vector<LeftOut>> read_left_out(int fd, const BlockHead& begin, uint64_t at, uint64_t left) {
  LeftOutHead head;
  memcpy(&head, &begin, sizeof head);
  const uint64_t bytes = head.length + 8ull - sizeof head;
  if (head.length + 8ull < sizeof head || head.length + 8ull > left || bytes == 0 || bytes % sizeof(LeftOut) ||
      bytes / sizeof(LeftOut) > kPackBlock || memcmp(head.tag, kLeftOutTag, sizeof head.tag) != 0)
    return std::nullopt;
  std::vector<LeftOut> list(bytes / sizeof(LeftOut));
  const auto raw = std::as_writable_bytes(std::span(list));
  if (!read_exactly(fd, raw, at + sizeof head) || head.hash != XXH3_64bits(raw.data(), raw.size())) return std::nullopt;
  return list;
}

// Whether the ranges rise, do not overlap, and lie in the block.
bool lie_in(std::span<const LeftOut> ranges, const BlockHead& block) {
  uint64_t from = block.offset;
  for (const LeftOut& range : ranges) {
    const uint64_t end = block.offset + block.size;
    if (range.offset < from || range.size == 0 || range.offset > end || range.size > end - range.offset) return false;
    from = range.end();
  }
  return true;
}

bool is_columns(const BlockHead& head) { return memcmp(head.tag, kColumnsTag, sizeof head.tag) == 0; }

// Of columns, the frame holds the block itself; else a zstd frame follows it.
bool has_frame(const BlockHead& head, uint64_t end, uint64_t left) {
  const bool columns = is_columns(head);
  return head.magic == kBlockMagic && (columns || memcmp(head.tag, kBlockTag, sizeof head.tag) == 0) &&
         head.length == sizeof head - 8 + (columns ? head.stored : 0) && head.offset == end && head.size > 0 &&
         head.size <= kPackBlock && head.size <= format::kWindowSize - end && head.stored <= left &&
         head.stored <= 2 * ZSTD_compressBound(kPackBlock);
}

}  // namespace

std::string packed_path(const std::string& path) { return path + ".zst"; }
Beneath packed(const Beneath& trace) { return {trace.root, packed_path(trace.name)}; }

std::string stored_path(const std::string& path) {
  return ::access(path.c_str(), F_OK) != 0 && ::access(packed_path(path).c_str(), F_OK) == 0 ? packed_path(path) : path;
}

Result<PackedList> list_packed(int fd, const std::string& path) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return fail_errno(errno, fmt::format("cannot examine {}", path));
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::bad_input, "{} is not a regular file", path);
  const uint64_t size = static_cast<uint64_t>(status.st_size);
  PackedList list;
  std::vector<LeftOut> left_out;  // of the next block
  for (uint64_t at = 0; at < size;) {
    BlockHead head{};
    const uint64_t left = size - at;
    list.torn = true;
    if (left < sizeof head || !read_exactly(fd, std::as_writable_bytes(std::span(&head, 1)), at)) return list;
    if (head.magic == kEndMagic) {
      EndHead end;
      memcpy(&end, &head, sizeof end);
      std::string page(format::kHeaderSize, '\0');
      if (left != sizeof end + page.size() || end.length != left - 8 || memcmp(end.tag, kEndTag, sizeof end.tag) != 0 ||
          !read_exactly(fd, std::as_writable_bytes(std::span(page)), at + sizeof end) ||
          end.hash != XXH3_64bits(page.data(), page.size()))
        return list;
      list.header = std::move(page);
      list.torn = false;
      return list;
    }
    if (head.magic == kLeftOutMagic && left_out.empty()) {
      auto ranges = read_left_out(fd, head, at, left);
      if (!ranges) return list;
      left_out = *std::move(ranges);
      at += head.length + 8ull;
      continue;
    }
    if (!has_frame(head, list.end(), left - sizeof head) || !lie_in(left_out, head)) return list;
    list.left_out.insert(list.left_out.end(), left_out.begin(), left_out.end());
    left_out.clear();
    list.blocks.push_back({head.offset, head.size, at + sizeof head, head.stored, head.hash, is_columns(head)});
    list.torn = false;
    at += sizeof head + head.stored;
  }
  return list;
}

std::optional<std::string> unpack(int fd, const PackedBlock& block, std::span<std::byte> out) {
  std::vector<std::byte> stored(block.stored);
  if (auto got = read_exactly(fd, stored, block.place); !got) return got.error().message;
  if (block.columns) {
    if (auto problem = from_columns(stored, block.offset, out)) return problem;
  } else {
    const size_t size = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
    if (ZSTD_isError(size)) return fmt::format("zstd says \"{}\"", ZSTD_getErrorName(size));
    if (size != block.size) return fmt::format("{} bytes expected, {} found", block.size, size);
  }
  if (uint64_t hash = XXH3_64bits_withSeed(out.data(), out.size(), block.offset); hash != block.hash)
    return fmt::format("hash {:#x} expected, {:#x} found", block.hash, hash);
  return std::nullopt;
}

namespace {
std::vector<std::byte> end_frame(std::span<const std::byte> header) {
  EndHead head{
      kEndMagic, static_cast<uint32_t>(sizeof head - 8 + header.size()), {}, XXH3_64bits(header.data(), header.size())};
  memcpy(head.tag, kEndTag, sizeof head.tag);
  std::vector<std::byte> bytes(sizeof head + header.size());
  memcpy(bytes.data(), &head, sizeof head);
  memcpy(bytes.data() + sizeof head, header.data(), header.size());
  return bytes;
}
}  // namespace

Result<void> replace_packed_header(const std::string& path, std::span<const std::byte> header) {
  FRIDAY_TRY(fd, open_beneath(path, O_RDWR));
  FRIDAY_TRY(list, list_packed(fd.get(), path));
  if (!list.header) return fail(ErrorCode::bad_input, "{} is truncated or damaged. Copy the recording again", path);
  const auto bytes = end_frame(header);
  if (::lseek(fd.get(), -static_cast<off_t>(bytes.size()), SEEK_END) < 0)
    return fail_errno(errno, fmt::format("cannot seek in {}", path));
  return write_all(fd.get(), bytes);
}

size_t BlockCutter::cut(std::span<const std::byte> bytes) {
  size_t size = std::min<uint64_t>(bytes.size(), inside_);
  if (inside_ == 0) size = whole_records(bytes);
  if (size == 0 && bytes.size() >= sizeof(format::RecordHeader)) {
    format::RecordHeader header;
    memcpy(&header, bytes.data(), sizeof header);
    inside_ = std::max<uint64_t>(header.size, bytes.size());  // damage is for readers to tell
    size = bytes.size();
  }
  if (size == 0) size = bytes.size();
  inside_ -= std::min<uint64_t>(inside_, size);
  return size;
}

void PackedWriter::FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

Result<PackedWriter> PackedWriter::create(const Beneath& file) {
  PackedWriter writer;
  writer.path_ = file.path();
  FRIDAY_TRY(fd, create_beneath(file));
  writer.fd_ = std::move(fd);
  writer.context_.reset(ZSTD_createCCtx());
  if (!writer.context_) return fail(ErrorCode::io, "no memory to compress {}", writer.path_);
  return writer;
}

Result<void> PackedWriter::store(std::span<const std::byte> bytes) {
  if (::lseek(fd_.get(), static_cast<off_t>(stored_), SEEK_SET) < 0)
    return fail_errno(errno, fmt::format("cannot seek in {}", path_));
  auto written = write_all(fd_.get(), bytes);
  if (written && ::fdatasync(fd_.get()) != 0) written = fail_errno(errno, fmt::format("cannot store {}", path_));
  if (!written) {
    (void)!::ftruncate(fd_.get(), static_cast<off_t>(stored_));
    return written;
  }
  stored_ += bytes.size();
  return {};
}

Result<void> PackedWriter::append(std::span<const std::byte> raw, std::span<const LeftOut> left_out) {
  BlockHead head{
      kBlockMagic, sizeof head - 8, {}, end_, raw.size(), 0, XXH3_64bits_withSeed(raw.data(), raw.size(), end_)};
  memcpy(head.tag, kBlockTag, sizeof head.tag);
  const auto ranges = std::as_bytes(left_out);
  const size_t before = left_out.empty() ? 0 : sizeof(LeftOutHead) + ranges.size();  // bytes of the frame in front
  buffer_.resize(before + sizeof head + ZSTD_compressBound(raw.size()));
  if (before) {
    LeftOutHead list{kLeftOutMagic, static_cast<uint32_t>(before - 8), {}, XXH3_64bits(ranges.data(), ranges.size())};
    memcpy(list.tag, kLeftOutTag, sizeof list.tag);
    memcpy(buffer_.data(), &list, sizeof list);
    memcpy(buffer_.data() + sizeof list, ranges.data(), ranges.size());
  }
  const size_t at = before + sizeof head;
  if (const auto columns = to_columns(raw, end_, context_.get())) {
    memcpy(head.tag, kColumnsTag, sizeof head.tag);
    head.stored = columns->size();
    head.length += static_cast<uint32_t>(head.stored);
    buffer_.resize(at + head.stored);
    std::ranges::copy(*columns, buffer_.begin() + static_cast<ptrdiff_t>(at));
  } else {
    const size_t size =
        ZSTD_compressCCtx(context_.get(), buffer_.data() + at, buffer_.size() - at, raw.data(), raw.size(), kLevel);
    if (ZSTD_isError(size))
      return fail(ErrorCode::io, "cannot compress a block for {}: zstd says \"{}\"", path_, ZSTD_getErrorName(size));
    head.stored = size;
  }
  memcpy(buffer_.data() + before, &head, sizeof head);
  FRIDAY_TRY_VOID(store(std::span(buffer_).first(at + head.stored)));
  end_ += raw.size();
  return {};
}

Result<void> PackedWriter::finish(std::span<const std::byte> header) { return store(end_frame(header)); }

}  // namespace friday
