#include "core/replay/page_store.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <xxhash.h>

#include "core/base/beneath.h"
#include "core/trace/record.h"

namespace friday {
namespace {

constexpr char kName[] = "checkpoints/pages";
constexpr size_t kBuffered = 256 * kPageBytes;

}  // namespace

PageHash hash_of_page(std::span<const std::byte> page) {
  const XXH128_hash_t hash = XXH3_128bits(page.data(), page.size());
  return {hash.high64, hash.low64};
}

Result<PageStore> PageStore::open(const Recording& recording) {
  FRIDAY_TRY(fd, open_beneath(recording.inside(kName)));
  return PageStore(std::move(fd));
}

Result<PageStore> PageStore::open_to_write(const Recording& recording) {
  const Beneath file = recording.inside(kName);
  auto fd = open_beneath(file, O_RDWR);
  if (!fd && fd.error().code == ErrorCode::not_found) {
    FRIDAY_TRY_VOID(make_directory_beneath(file.directory()));
    fd = create_beneath(file);
  }
  if (!fd) return std::unexpected(fd.error());
  if (flock(fd->get(), LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::unsupported, "{}: another process is writing checkpoints of this recording", file.path());
  struct stat now {};
  if (fstat(fd->get(), &now) != 0) return fail_errno(errno, file.path());
  PageStore store(std::move(*fd));
  // A writer that was killed may have left a part of a page.
  store.next_ = (static_cast<uint64_t>(now.st_size) + kPageBytes - 1) / kPageBytes;
  if (lseek(store.fd_.get(), static_cast<off_t>(store.next_ * kPageBytes), SEEK_SET) < 0)
    return fail_errno(errno, file.path());
  return store;
}

Result<uint64_t> PageStore::add(std::span<const std::byte> page, const PageHash& hash) {
  const auto [known, is_new] = known_.try_emplace(hash, next_);
  if (!is_new) return known->second;
  buffer_.insert(buffer_.end(), page.begin(), page.end());
  if (buffer_.size() >= kBuffered) FRIDAY_TRY_VOID(flush());
  written_++;
  return next_++;
}

Result<void> PageStore::flush() { return write_all(fd_.get(), std::exchange(buffer_, {})); }

Result<void> PageStore::read(uint64_t number, std::span<std::byte> out) const {
  if (number > UINT64_MAX / kPageBytes / 2 || !read_exactly(fd_.get(), out, number * kPageBytes))
    return fail(ErrorCode::bad_input, "checkpoints/pages lacks page {}", number);
  return {};
}

}  // namespace friday
