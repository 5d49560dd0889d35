#include "core/trace/kept_once.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "core/trace/packed.h"
#include "core/trace/recording.h"

namespace friday {

namespace {

struct PieceHead {
  char magic[4];
  uint32_t size, stored;  // bytes, and those of the zstd frame that follows
  uint32_t reserved;
  uint64_t hash;  // XXH3-64 of the bytes
};
constexpr char kPieceMagic[4] = {'F', 'R', 'P', '1'};

}  // namespace

Beneath kept_once_file(const std::string& recording, const Uuid& uuid) {
  return {recording, "payload/" + hex_text(uuid)};
}

void KeptOnceWriter::FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

Result<KeptOnceWriter> KeptOnceWriter::create(const std::string& recording, const Uuid& uuid) {
  KeptOnceWriter writer;
  const Beneath file = kept_once_file(recording, uuid);
  FRIDAY_TRY_VOID(make_directory_beneath(file.directory()));
  FRIDAY_TRY(fd, create_beneath(file));
  writer.uuid_ = uuid;
  writer.path_ = file.path();
  writer.fd_ = std::move(fd);
  writer.context_.reset(ZSTD_createCCtx());
  if (!writer.context_) return fail(ErrorCode::io, "no memory to compress {}", writer.path_);
  return writer;
}

Result<uint64_t> KeptOnceWriter::add(std::span<const std::byte> bytes) {
  if (failed_) return fail(ErrorCode::io, "{} has no room", path_);
  failed_ = true;  // cleared when the piece is complete
  PieceHead head{{}, static_cast<uint32_t>(bytes.size()), 0, 0, XXH3_64bits(bytes.data(), bytes.size())};
  memcpy(head.magic, kPieceMagic, sizeof head.magic);
  buffer_.resize(sizeof head + ZSTD_compressBound(bytes.size()));
  const size_t size = ZSTD_compressCCtx(context_.get(), buffer_.data() + sizeof head, buffer_.size() - sizeof head,
                                        bytes.data(), bytes.size(), kPackLevel);
  if (ZSTD_isError(size)) return fail(ErrorCode::io, "zstd says \"{}\"", ZSTD_getErrorName(size));
  back_.resize(bytes.size());
  if (ZSTD_decompress(back_.data(), back_.size(), buffer_.data() + sizeof head, size) != bytes.size() ||
      !std::ranges::equal(back_, bytes))
    return fail(ErrorCode::io, "a piece for {} does not come back from its compressed form", path_);
  head.stored = static_cast<uint32_t>(size);
  memcpy(buffer_.data(), &head, sizeof head);
  FRIDAY_TRY_VOID(write_all(fd_.get(), std::span(buffer_).first(sizeof head + size)));
  bytes_ += sizeof head + size;
  failed_ = stored_ = false;
  return count_++;
}

Result<void> KeptOnceWriter::store() {
  if (!stored_ && ::fdatasync(fd_.get()) != 0) return fail_errno(errno, fmt::format("cannot store {}", path_));
  stored_ = true;
  return {};
}

Result<KeptOnce> KeptOnce::open(const Beneath& file) {
  KeptOnce kept;
  FRIDAY_TRY(fd, open_beneath(file));
  kept.fd_ = std::move(fd);
  kept.path_ = file.path();
  struct stat status;
  if (::fstat(kept.fd_.get(), &status) != 0) return fail_errno(errno, fmt::format("cannot examine {}", kept.path_));
  const auto end = static_cast<uint64_t>(status.st_size);
  PieceHead head;
  for (uint64_t at = 0; at + sizeof head <= end && kept.pieces_.size() < kMostPiecesKeptOnce;
       at += sizeof head + head.stored) {
    FRIDAY_TRY_VOID(read_exactly(kept.fd_.get(), std::as_writable_bytes(std::span(&head, 1)), at));
    if (memcmp(head.magic, kPieceMagic, sizeof head.magic) != 0 || head.size > kMostKeptOnce ||
        head.stored > ZSTD_compressBound(head.size) || head.stored > end - at - sizeof head)
      break;
    kept.pieces_.push_back({at + sizeof head, head.size, head.stored, head.hash});
  }
  return kept;
}

Result<std::shared_ptr<const KeptOnce>> KeptOnce::share(const Beneath& file, uint64_t count) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const KeptOnce>> shared;
  std::lock_guard lock(mutex);
  std::weak_ptr<const KeptOnce>& known = shared[file.path()];
  if (auto kept = known.lock(); kept && kept->count() >= count) return kept;
  FRIDAY_TRY(opened, open(file));
  auto kept = std::make_shared<const KeptOnce>(std::move(opened));
  known = kept;
  return kept;
}

Result<void> KeptOnce::read(uint64_t number, std::span<std::byte> out) const {
  if (number >= pieces_.size() || out.size() != pieces_[number].size)
    return fail(ErrorCode::bad_input, "{} is truncated or damaged: it has no piece {} of {} bytes", path_, number,
                out.size());
  const Piece& piece = pieces_[number];
  std::vector<std::byte> stored(piece.stored);
  FRIDAY_TRY_VOID(read_exactly(fd_.get(), stored, piece.place));
  if (ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size()) != out.size() ||
      XXH3_64bits(out.data(), out.size()) != piece.hash)
    return fail(ErrorCode::bad_input, "{} is damaged: piece {} has other bytes than were stored", path_, number);
  return {};
}

}  // namespace friday
