#include "core/trace/packed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/leb128.h"
#include "core/trace/columns.h"
#include "core/trace/record.h"

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

// Precedes its block. A zstd frame follows, of two numbers for each range: the distance from the range before, or from
// the beginning of the block, and the size.
struct LeftOutHead {
  uint32_t magic, length;
  char tag[8];
  uint64_t payload;     // left_out_hash() of what was there
  uint64_t hash;        // XXH3-64 of the numbers
  uint32_t count, raw;  // ranges, and bytes of the numbers
};
struct LeftOutList {
  std::vector<LeftOut> ranges;  // offsets from the beginning of the block
  uint64_t payload = 0;
};

constexpr uint32_t kMostLeftOut = kPackBlock / sizeof(format::PartHeader), kMostOfRange = 10;

// Reads the frame at `at`, which begins with `begin`. None if it is not complete, or damaged.
std::optional<LeftOutList> read_left_out(int fd, const BlockHead& begin, uint64_t at, uint64_t left) {
  LeftOutHead head;
  memcpy(&head, &begin, sizeof head);
  const uint64_t frame = head.length + 8ull - sizeof head;
  if (head.length + 8ull < sizeof head || head.length + 8ull > left || head.count == 0 || head.count > kMostLeftOut ||
      head.raw > head.count * kMostOfRange || frame > ZSTD_compressBound(head.raw) ||
      memcmp(head.tag, kLeftOutTag, sizeof head.tag) != 0)
    return std::nullopt;
  std::vector<std::byte> stored(frame), numbers(head.raw);
  if (!read_exactly(fd, stored, at + sizeof head) ||
      ZSTD_decompress(numbers.data(), numbers.size(), stored.data(), stored.size()) != numbers.size() ||
      XXH3_64bits(numbers.data(), numbers.size()) != head.hash)
    return std::nullopt;
  LeftOutList list{{}, head.payload};
  std::span<const std::byte> next(numbers);
  uint64_t end = 0;
  for (uint32_t n = 0; n < head.count; n++) {
    const auto distance = take_leb128(next), size = take_leb128(next);
    if (!distance || !size || *distance > kPackBlock || *size == 0 || *size > kPackBlock) return std::nullopt;
    list.ranges.push_back({end + *distance, *size});
    end += *distance + *size;
  }
  return next.empty() ? std::optional(std::move(list)) : std::nullopt;
}

// The frame of a block's list.
Result<std::vector<std::byte>> left_out_frame(std::span<const LeftOut> ranges, uint64_t offset, uint64_t payload,
                                              ZSTD_CCtx* context) {
  std::vector<std::byte> numbers;
  uint64_t end = offset;
  for (const LeftOut& range : ranges) {
    put_leb128(numbers, range.offset - end);
    put_leb128(numbers, range.size);
    end = range.end();
  }
  LeftOutHead head{kLeftOutMagic,
                   0,
                   {},
                   payload,
                   XXH3_64bits(numbers.data(), numbers.size()),
                   static_cast<uint32_t>(ranges.size()),
                   static_cast<uint32_t>(numbers.size())};
  memcpy(head.tag, kLeftOutTag, sizeof head.tag);
  std::vector<std::byte> frame(sizeof head + ZSTD_compressBound(numbers.size()));
  const size_t size = ZSTD_compressCCtx(context, frame.data() + sizeof head, frame.size() - sizeof head, numbers.data(),
                                        numbers.size(), kLevel);
  if (ZSTD_isError(size)) return fail(ErrorCode::io, "zstd says \"{}\"", ZSTD_getErrorName(size));
  frame.resize(sizeof head + size);
  head.length = static_cast<uint32_t>(frame.size() - 8);
  memcpy(frame.data(), &head, sizeof head);
  return frame;
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
  std::optional<LeftOutList> left_out;  // of the next block
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
    if (head.magic == kLeftOutMagic && !left_out) {
      left_out = read_left_out(fd, head, at, left);
      if (!left_out) return list;
      at += head.length + 8ull;
      continue;
    }
    if (!has_frame(head, list.end(), left - sizeof head)) return list;
    PackedBlock block{head.offset, head.size, at + sizeof head, head.stored, head.hash, is_columns(head)};
    if (left_out && (!block.columns || left_out->ranges.back().end() > block.size)) return list;
    block.first_left_out = list.left_out.size();
    if (left_out) {
      block.payload = left_out->payload;
      block.left_out = left_out->ranges.size();
      for (const LeftOut& range : left_out->ranges) list.left_out.push_back({block.offset + range.offset, range.size});
      left_out.reset();
    }
    list.blocks.push_back(block);
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

uint64_t left_out_hash(std::span<const std::byte> block, uint64_t offset, std::span<const LeftOut> ranges) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const LeftOut& range : ranges)
    XXH3_64bits_update(state.get(), block.data() + (range.offset - offset), range.size);
  return XXH3_64bits_digest(state.get());
}

void seal_records(std::span<std::byte> block, uint64_t offset, std::span<const LeftOut> ranges) {
  for (size_t at = 0; at < block.size() && !ranges.empty();) {
    auto* header = reinterpret_cast<format::RecordHeader*>(block.data() + at);
    const size_t end = at + header->size;
    if (header->size < sizeof *header || end > block.size()) return;  // no record; readers say so
    while (!ranges.empty() && ranges.front().end() <= offset + at) ranges = ranges.subspan(1);
    if (!ranges.empty() && ranges.front().offset < offset + end && header->checksum != 0)
      header->checksum = record_checksum(block.subspan(at, header->size), offset + at);
    at = end;
  }
}

// The block as columns, if its bytes were seen to come back from them: the caller discards the plain bytes.
std::optional<std::vector<std::byte>> PackedWriter::columns_of(std::span<const std::byte> raw) {
  auto columns = to_columns(raw, end_, context_.get());
  back_.resize(raw.size());
  if (!columns || from_columns(*columns, end_, back_) || !std::ranges::equal(back_, raw)) return std::nullopt;
  return columns;
}

Result<void> PackedWriter::append(std::span<const std::byte> raw, std::span<const LeftOut> left_out, uint64_t payload) {
  BlockHead head{
      kBlockMagic, sizeof head - 8, {}, end_, raw.size(), 0, XXH3_64bits_withSeed(raw.data(), raw.size(), end_)};
  memcpy(head.tag, kBlockTag, sizeof head.tag);
  buffer_.clear();
  if (!left_out.empty()) {
    FRIDAY_TRY(list, left_out_frame(left_out, end_, payload, context_.get()));
    buffer_ = std::move(list);
  }
  const size_t before = buffer_.size();
  buffer_.resize(before + sizeof head + ZSTD_compressBound(raw.size()));
  const size_t at = before + sizeof head;
  if (const auto columns = columns_of(raw)) {
    memcpy(head.tag, kColumnsTag, sizeof head.tag);
    head.stored = columns->size();
    head.length += static_cast<uint32_t>(head.stored);
    buffer_.resize(at + head.stored);
    std::ranges::copy(*columns, buffer_.begin() + static_cast<ptrdiff_t>(at));
  } else if (!left_out.empty()) {
    return fail(ErrorCode::unsupported, "{}: what is to be left out lies in bytes that are no records", path_);
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
