#include "core/trace/trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <vector>

#include "core/trace/record.h"

namespace friday {

using namespace format;

namespace {

constexpr uint64_t kKeptBytes = 1u << 30;

Error no_trace(NodeId node, const std::string& message) {
  return bad_file(
      node, message + ". Recording of this node never began, or the copy is incomplete; leave it out with --node");
}

// A cache of opened traces: one command opens the same trace several times (facts, index, replay), and it should be
// decompressed once. Only traces that nobody writes any more are kept, the most recent up to kKeptBytes.
class Kept {
 public:
  std::shared_ptr<const TraceFile> find(const std::string& path, const struct stat& status) {
    std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_)
      if (entry.path == path && same(entry.status, status)) return entry.file;
    return nullptr;
  }

  void keep(const std::string& path, const struct stat& status, std::shared_ptr<const TraceFile> file) {
    std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const Entry& entry) { return entry.path == path; });
    entries_.push_back({path, status, std::move(file)});
    uint64_t total = 0;
    for (const Entry& entry : entries_) total += entry.file->size();
    for (; total > kKeptBytes && entries_.size() > 1; entries_.pop_front()) total -= entries_.front().file->size();
  }

 private:
  struct Entry {
    std::string path;
    struct stat status;
    std::shared_ptr<const TraceFile> file;
  };
  static bool same(const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
           a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
  }

  std::mutex mutex_;
  std::list<Entry> entries_;
};

Kept& kept() {
  static Kept all;
  return all;
}

}  // namespace

Error bad_file(NodeId node, std::string message) {
  return Error{ErrorCode::bad_input, std::move(message), node.value, std::nullopt};
}

Result<FileHeader> read_header(const Beneath& trace) {
  FileHeader header;
  auto plain = open_beneath(trace);
  uint64_t at = 0;
  if (!plain) {
    plain = open_beneath(packed(trace));
    if (!plain) return std::unexpected(plain.error());
    const off_t size = ::lseek(plain->get(), 0, SEEK_END);
    at = size > static_cast<off_t>(kHeaderSize) ? static_cast<uint64_t>(size) - kHeaderSize : 0;
  }
  FRIDAY_TRY_VOID(read_exactly(plain->get(), std::as_writable_bytes(std::span(&header, 1)), at));
  if (memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return fail(ErrorCode::bad_input, "{} is not a complete trace", trace.path());
  return header;
}

uint64_t disk_bytes(const Beneath& trace) {
  uint64_t bytes = 0;
  struct stat status;
  for (const Beneath& file : {trace, packed(trace)})
    if (lstat(file.path().c_str(), &status) == 0) bytes += static_cast<uint64_t>(status.st_blocks) * 512;
  return bytes;
}

Result<std::shared_ptr<const TraceFile>> TraceFile::open(const Beneath& trace, NodeId node) {
  auto plain = open_beneath(trace);
  auto compressed = open_beneath(packed(trace));
  // The recorder may have completed the compressed file and removed the plain one between the two attempts.
  if (!plain && !compressed) compressed = open_beneath(packed(trace));
  for (const auto* form : {&plain, &compressed})
    if (!*form && form->error().code == ErrorCode::bad_input)
      return std::unexpected(bad_file(node, form->error().message));
  if (!plain && compressed) return open_packed(trace, node, std::move(*compressed));
  if (!plain) return std::unexpected(no_trace(node, plain.error().message));
  FRIDAY_TRY(file, open_plain(trace, node, std::move(*plain)));
  return std::shared_ptr<const TraceFile>(std::move(file));
}

TraceFile::~TraceFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::shared_ptr<TraceFile>> TraceFile::open_plain(const Beneath& trace, NodeId node, UniqueFd fd) {
  std::shared_ptr<TraceFile> file(new TraceFile(trace));
  const std::string& path = file->path_;
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno(errno, fmt::format("cannot examine {}", path));
  file->size_ = static_cast<uint64_t>(status.st_size);
  file->device_ = status.st_dev, file->inode_ = status.st_ino;
  if (file->size_ < sizeof(FileHeader))
    return std::unexpected(
        bad_file(node, fmt::format("{} is {}, not a trace. Recording of this node never began; leave it "
                                   "out with --node, or record it again",
                                   path, file->size_ == 0 ? "empty" : "too short")));
  FRIDAY_TRY_VOID(file->map(fd.get()));
  // Read `committed` before anything else: all bytes before it were stored earlier.
  auto* live = reinterpret_cast<const FileHeader*>(file->data_);
  const uint64_t committed = __atomic_load_n(&live->committed, __ATOMIC_ACQUIRE);
  // The recorder writes the checksum last. If it did so while this page was being read, the second reading is
  // consistent.
  file->take_header(file->data_);
  if (!file->header_holds_) file->take_header(file->data_);
  file->header_.committed = file->header_.checksum ? file->header_.committed : committed;
  if (!file->header_holds_) return file;
  if (file->header_.packing) {
    FRIDAY_TRY_VOID(file->snapshot(std::move(fd)));
    file->find_restored(node);
  }
  return file;
}

Result<std::shared_ptr<const TraceFile>> TraceFile::open_packed(const Beneath& trace, NodeId node, UniqueFd packed) {
  const std::string path = trace.path();
  struct stat status;
  if (::fstat(packed.get(), &status) != 0)
    return fail_errno(errno, fmt::format("cannot examine {}", packed_path(path)));
  // One that lacked payload is of use until a replay has made it again.
  if (auto known = kept().find(path, status); known && (known->is_complete() || !known->restorable(node))) return known;
  FRIDAY_TRY(list, list_packed(packed.get(), packed_path(path)));
  if (!list.header)
    return std::unexpected(
        bad_file(node, fmt::format("{} is truncated or damaged behind byte {} of the trace, and {} is not there. Copy "
                                   "the recording again, or leave this node out with --node",
                                   packed_path(path), list.end(), path)));
  std::shared_ptr<TraceFile> file(new TraceFile(trace));
  file->packed_ = std::move(packed);
  file->size_ = list.end();
  file->list_ = std::move(list);
  file->find_restored(node);
  file->take_header(reinterpret_cast<const std::byte*>(file->list_.header->data()));
  FRIDAY_TRY_VOID(file->make_scratch());
  FRIDAY_TRY_VOID(write_all(file->scratch_.get(), std::as_bytes(std::span(*file->list_.header))));
  FRIDAY_TRY_VOID(file->map(file->scratch_.get()));
  file->begin_filling();
  kept().keep(path, status, file);
  return file;
}

// The file may end inside the header page; then the checksum does not match.
void TraceFile::take_header(const std::byte* from) {
  std::byte page[kHeaderSize]{};
  memcpy(page, from, std::min<uint64_t>(sizeof page, list_.header ? sizeof page : size_));
  memcpy(&header_, page, sizeof header_);
  header_holds_ = header_.checksum == 0 || header_.checksum == header_checksum(page);
}

// Copies a trace whose blocks are being moved to the compressed file, such that no block is lost in between.
Result<void> TraceFile::snapshot(UniqueFd plain) {
  auto list_now = [this]() -> Result<PackedList> {
    if (!packed_) {
      auto opened = open_beneath(packed(place_));
      if (!opened && opened.error().code != ErrorCode::not_found) return std::unexpected(opened.error());
      if (!opened) return PackedList{};  // compression has not begun
      packed_ = std::move(*opened);
    }
    return list_packed(packed_.get(), packed_path(path_));
  };
  const uint64_t whole = size_;
  ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
  size_ = std::max<uint64_t>(std::min(header_.committed, whole), std::min<uint64_t>(kHeaderSize, whole));
  FRIDAY_TRY_VOID(make_scratch());
  FRIDAY_TRY(before, list_now());
  std::vector<std::byte> buffer(1u << 20);
  auto copy = [&](uint64_t from, uint64_t to) -> Result<void> {
    for (; from < to;) {
      auto part = std::span(buffer).first(std::min<uint64_t>(buffer.size(), to - from));
      FRIDAY_TRY_VOID(read_exactly(plain.get(), part, from));
      if (::pwrite(scratch_.get(), part.data(), part.size(), static_cast<off_t>(from)) !=
          static_cast<ssize_t>(part.size()))
        return fail_errno(errno, fmt::format("cannot copy {}", path_));
      from += part.size();
    }
    return {};
  };
  FRIDAY_TRY_VOID(copy(0, std::min<uint64_t>(kHeaderSize, size_)));
  FRIDAY_TRY_VOID(copy(std::min(before.end(), size_), size_));
  // A block is listed before it is removed from the plain file. Blocks that only the second list contains may have been
  // removed before they were copied, so they are read from the compressed file.
  FRIDAY_TRY(after, list_now());
  list_ = std::move(after);
  FRIDAY_TRY_VOID(map(scratch_.get()));
  begin_filling();
  return {};
}

// Creates the file for decompressed blocks: in the node's directory if the disk has room, otherwise in memory.
Result<void> TraceFile::make_scratch() {
  FRIDAY_TRY(directory, open_directory_beneath(place_.directory()));
  struct statvfs disk;
  if (::fstatvfs(directory.get(), &disk) == 0 && disk.f_bavail * disk.f_frsize > size_ + (size_ >> 3))
    scratch_.reset(::openat(directory.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  const uint64_t memory =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  rlimit files{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(RLIMIT_FSIZE, &files);
  if ((!scratch_ && size_ > memory / 2) || size_ > files.rlim_cur)
    return fail(ErrorCode::io,
                "{} holds {} MiB of a trace, and there is no place to uncompress so much to: neither beside it, nor in "
                "half of the memory, nor in a file "
                "larger than `ulimit -f` allows. Copy the recording to where there is room, if you trust it",
                packed_path(path_), size_ >> 20);
  if (!scratch_) scratch_.reset(::memfd_create("friday-trace", MFD_CLOEXEC));
  if (!scratch_) return fail_errno(errno, fmt::format("no place to uncompress {} to", packed_path(path_)));
  if (::ftruncate(scratch_.get(), static_cast<off_t>(size_)) != 0)
    return fail_errno(errno, fmt::format("cannot uncompress {}", packed_path(path_)));
  return {};
}

Result<void> TraceFile::map(int fd) {
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return fail_errno(errno, fmt::format("cannot map {}", path_));
  data_ = static_cast<const std::byte*>(address);
  return {};
}

void TraceFile::find_restored(NodeId node) {
  if (list_.left_out.empty()) return;
  restored_ = RestoredPayload::open(restored_payload(place_, node), list_);
  if (!restored_) inferred_ = InferredPayload::open(inferred_payload(place_, node), list_);
}

bool TraceFile::restorable(NodeId node) const {
  return RestoredPayload::open(restored_payload(place_, node), list_).has_value() ||
         InferredPayload::open(inferred_payload(place_, node), list_).has_value();
}

bool TraceFile::lacks(uint64_t from, uint64_t to) const {
  if (is_complete()) return false;
  const auto after = std::ranges::upper_bound(list_.left_out, from, {}, &LeftOut::end);
  return after != list_.left_out.end() && after->offset < to;
}

void TraceFile::begin_filling() { filled_ = std::make_unique<std::atomic<bool>[]>(list_.blocks.size()); }

// Puts what the block lacks since it is kept once into `bytes`, the block.
std::optional<std::string> TraceFile::fill_repeated(const PackedBlock& block, std::span<std::byte> bytes) const {
  const auto ranges = list_.repeated_of(block);
  if (ranges.empty()) return std::nullopt;
  for (const LeftOut& range : ranges) {
    std::shared_ptr<const KeptOnce>& kept = kept_once_[range.source.node];
    if (!kept || kept->count() <= range.source.event) {
      auto shared = KeptOnce::share(kept_once_file(place_.root, range.source.node), range.source.event + 1);
      if (!shared) return shared.error().message;
      kept = std::move(*shared);
    }
    const auto place = bytes.subspan(range.offset - block.offset, range.size);
    if (auto read = kept->read(range.source.event, place); !read) return read.error().message;
  }
  if (left_out_hash(bytes, block.offset, ranges) != block.repeated.payload)
    return fmt::format("{} has other bytes than were received",
                       kept_once_file(place_.root, ranges[0].source.node).path());
  seal_records(bytes, block.offset, ranges);
  return std::nullopt;
}

std::optional<std::string> TraceFile::fill(uint64_t from, uint64_t to) const {
  auto block = std::ranges::upper_bound(list_.blocks, from, {}, &PackedBlock::offset);
  if (block != list_.blocks.begin()) --block;
  for (; block != list_.blocks.end() && block->offset < to; ++block) {
    auto& filled = filled_[static_cast<size_t>(block - list_.blocks.begin())];
    if (filled.load(std::memory_order_acquire)) continue;
    std::lock_guard lock(filling_);
    if (filled.load(std::memory_order_relaxed)) continue;
    // One buffer for each thread: with fresh memory for each block, the page faults would take longer than the rest.
    static thread_local std::vector<std::byte> buffer;
    buffer.resize(std::max<size_t>(buffer.size(), block->size));
    const std::span raw = std::span(buffer).first(block->size);
    if (auto problem = unpack(packed_.get(), *block, raw))
      return fmt::format("the compressed block of bytes {} to {} is damaged: {}", block->offset,
                         block->offset + block->size, *problem);
    if (auto problem = fill_repeated(*block, raw)) return problem;
    if (restored_)
      if (auto problem = restored_->fill(*block, raw)) return problem;
    if (inferred_) inferred_->fill(list_, *block, raw);
    if (::pwrite(scratch_.get(), raw.data(), raw.size(), static_cast<off_t>(block->offset)) !=
        static_cast<ssize_t>(raw.size()))
      return fmt::format("there is no room to uncompress it: {}", strerror(errno));
    filled.store(true, std::memory_order_release);
  }
  return std::nullopt;
}

Result<UniqueFd> TraceFile::descriptor() const {
  if (auto problem = need(0, size_)) return fail(ErrorCode::bad_input, "{}: {}", path_, *problem);
  if (scratch_) return open_file(fmt::format("/proc/self/fd/{}", scratch_.get()), O_RDONLY);
  FRIDAY_TRY(fd, open_beneath(place_));
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno(errno, fmt::format("cannot examine {}", path_));
  if (status.st_dev != device_ || status.st_ino != inode_)
    return fail(ErrorCode::bad_input, "{} was replaced while it was being read. Run the command again", path_);
  return std::move(fd);
}

}  // namespace friday
