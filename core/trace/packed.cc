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
#include "core/trace/record.h"

namespace friday {

namespace {

// Skippable frames, which `zstd -d` ignores.
constexpr uint32_t kBlockMagic = 0x184d2a50, kEndMagic = 0x184d2a51, kLeftOutMagic = 0x184d2a52;
constexpr char kBlockTag[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'Z', '1'};
constexpr char kColumnsTag[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'Z', 'C'};
constexpr char kEndTag[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'Z', 'E'};
constexpr char kLeftOutTag[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'Z', 'L'};
constexpr char kRepeatedTag[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'Z', 'R'};

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

// Precedes its block. A zstd frame of the coded list follows (left_out.h).
struct LeftOutHead {
  uint32_t magic, length;
  char tag[8];
  uint64_t payload;                         // left_out_hash() of what was there
  uint64_t hash;                            // XXH3-64 of the coded list
  uint32_t ranges, senders, raw, reserved;  // `raw`: bytes of the coded list
};
static_assert(sizeof(LeftOutHead) <= sizeof(BlockHead));

// The coded list of the frame at `at`, which begins with `head`. None if it is not complete, or damaged.
std::optional<std::vector<std::byte>> read_left_out(int fd, const LeftOutHead& head, uint64_t at, uint64_t left) {
  const uint64_t frame = head.length + 8ull - sizeof head;
  if (head.length + 8ull < sizeof head || head.length + 8ull > left || head.ranges == 0 || head.ranges > kMostLeftOut ||
      head.senders > head.ranges || head.raw > head.ranges * (kMostOfLeftOut + sizeof(Uuid)) ||
      head.raw < head.ranges * kLeastOfLeftOut + head.senders * sizeof(Uuid) || frame > ZSTD_compressBound(head.raw))
    return std::nullopt;
  std::vector<std::byte> stored(frame), list(head.raw);
  if (!read_exactly(fd, stored, at + sizeof head) ||
      ZSTD_decompress(list.data(), list.size(), stored.data(), stored.size()) != list.size() ||
      XXH3_64bits(list.data(), list.size()) != head.hash)
    return std::nullopt;
  return list;
}

// Appends the frame of a block's list to `frames`: if readers will find the same ranges in it, since what they lack is
// discarded.
Result<void> add_frame(std::vector<std::byte>& frames, const char (&tag)[8], const PackedWriter::Lack& lack,
                       uint64_t offset, uint64_t size_of_block, ZSTD_CCtx* context) {
  if (lack.ranges.empty()) return {};
  const CodedLeftOut list = code_left_out(lack.ranges, offset);
  auto back = decode_left_out(list.bytes, list.ranges, list.senders, size_of_block);
  if (back)
    for (LeftOut& range : *back) range.offset += offset;
  if (lack.ranges.size() > kMostLeftOut || !back || !std::ranges::equal(*back, lack.ranges))
    return fail(ErrorCode::unsupported, "the list of what a block leaves out cannot be kept: {} ranges",
                lack.ranges.size());
  LeftOutHead head{kLeftOutMagic,
                   0,
                   {},
                   lack.payload,
                   XXH3_64bits(list.bytes.data(), list.bytes.size()),
                   list.ranges,
                   list.senders,
                   static_cast<uint32_t>(list.bytes.size()),
                   0};
  memcpy(head.tag, tag, sizeof head.tag);
  const size_t begin = frames.size(), at = begin + sizeof head;
  frames.resize(at + ZSTD_compressBound(list.bytes.size()));
  const size_t size = ZSTD_compressCCtx(context, frames.data() + at, frames.size() - at, list.bytes.data(),
                                        list.bytes.size(), kPackLevel);
  if (ZSTD_isError(size)) return fail(ErrorCode::io, "zstd says \"{}\"", ZSTD_getErrorName(size));
  frames.resize(at + size);
  head.length = static_cast<uint32_t>(frames.size() - begin - 8);
  memcpy(frames.data() + begin, &head, sizeof head);
  return {};
}

// What the lists of a file may take in memory: zstd makes a list of equal ranges a hundred times smaller, so that a
// file of some kilobytes could name gigabytes of them. Beside each range stands a call with its times, which no
// compression makes smaller than two bytes.
constexpr uint64_t kMostListed = 64u << 20, kMostListedEach = 256;  // bytes; bytes for each byte of the file

// The lists that stand before a block.
class ListsBefore {
 public:
  // Takes the frame at `at`, which begins with `begin`. Fails if it is none, damaged, or there was one already.
  bool take(int fd, const BlockHead& begin, uint64_t at, uint64_t left) {
    List list;
    memcpy(&list.head, &begin, sizeof list.head);
    const bool repeated = memcmp(list.head.tag, kRepeatedTag, sizeof list.head.tag) == 0;
    if (!repeated && memcmp(list.head.tag, kLeftOutTag, sizeof list.head.tag) != 0) return false;
    std::optional<List>& place = repeated ? repeated_ : left_out_;
    auto coded = read_left_out(fd, list.head, at, left);
    if (place || !coded) return false;
    list.coded = std::move(*coded);
    place = std::move(list);
    return true;
  }
  // Gives the block what stands before it. Fails if that cannot be.
  bool give(PackedBlock& block, PackedList& list) {
    if (!give(left_out_, block, block.left_out, list.left_out)) return false;
    if (give(repeated_, block, block.repeated, list.repeated)) return true;
    list.left_out.resize(block.left_out.first);
    return false;
  }

 private:
  struct List {
    LeftOutHead head;
    std::vector<std::byte> coded;
  };
  static bool give(std::optional<List>& from, const PackedBlock& block, PackedBlock::Lacks& lacks,
                   std::vector<LeftOut>& all) {
    lacks.first = all.size();
    if (!from) return true;
    auto ranges = decode_left_out(from->coded, from->head.ranges, from->head.senders, block.size);
    if (!block.columns || !ranges) return false;
    lacks.payload = from->head.payload;
    lacks.count = ranges->size();
    for (LeftOut& range : *ranges) {
      range.offset += block.offset;
      all.push_back(range);
    }
    from.reset();
    return true;
  }

  std::optional<List> left_out_, repeated_;
};

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
  ListsBefore before;
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
    if (head.magic == kLeftOutMagic) {
      if (!before.take(fd, head, at, left)) return list;
      at += head.length + 8ull;
      continue;
    }
    if (!has_frame(head, list.end(), left - sizeof head)) return list;
    PackedBlock block{head.offset, head.size, at + sizeof head, head.stored, head.hash, is_columns(head), {}, {}};
    if (!before.give(block, list)) return list;
    const uint64_t ranges = list.left_out.size() + list.repeated.size();
    if (ranges * sizeof(LeftOut) > kMostListed + kMostListedEach * size)
      return fail(ErrorCode::bad_input,
                  "{} is damaged: its blocks leave out {} or more pieces, and a file of {} bytes cannot have so many. "
                  "Copy the recording again",
                  path, ranges, size);
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

// The block as columns, if its bytes were seen to come back from them: the caller discards the plain bytes.
std::optional<std::vector<std::byte>> PackedWriter::columns_of(std::span<const std::byte> raw) {
  auto columns = to_columns(raw, end_, context_.get());
  back_.resize(raw.size());
  if (!columns || from_columns(*columns, end_, back_) || !std::ranges::equal(back_, raw)) return std::nullopt;
  return columns;
}

Result<void> PackedWriter::append(std::span<const std::byte> raw, const Lack& left_out, const Lack& repeated) {
  BlockHead head{
      kBlockMagic, sizeof head - 8, {}, end_, raw.size(), 0, XXH3_64bits_withSeed(raw.data(), raw.size(), end_)};
  memcpy(head.tag, kBlockTag, sizeof head.tag);
  buffer_.clear();
  FRIDAY_TRY_VOID(add_frame(buffer_, kLeftOutTag, left_out, end_, raw.size(), context_.get()));
  FRIDAY_TRY_VOID(add_frame(buffer_, kRepeatedTag, repeated, end_, raw.size(), context_.get()));
  const size_t before = buffer_.size();
  buffer_.resize(before + sizeof head + ZSTD_compressBound(raw.size()));
  const size_t at = before + sizeof head;
  if (const auto columns = columns_of(raw)) {
    memcpy(head.tag, kColumnsTag, sizeof head.tag);
    head.stored = columns->size();
    head.length += static_cast<uint32_t>(head.stored);
    buffer_.resize(at + head.stored);
    std::ranges::copy(*columns, buffer_.begin() + static_cast<ptrdiff_t>(at));
  } else if (before > 0) {
    return fail(ErrorCode::unsupported, "{}: what is to be left out lies in bytes that are no records", path_);
  } else {
    const size_t size =
        ZSTD_compressCCtx(context_.get(), buffer_.data() + at, buffer_.size() - at, raw.data(), raw.size(), kPackLevel);
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
