// Payload that programs have received more than once, a file that is read again and again, for example: it is kept
// once, in a file payload/UUID of the recording, and the traces only name it (PackedList::repeated). Each recorder that
// adds to a recording has a file of its own. docs/trace-format.md documents the bytes and must change in the same
// commit.
//
// KeptOnceWriter belongs to one thread; many threads may use one KeptOnce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/ids.h"

struct ZSTD_CCtx_s;

namespace friday {

inline constexpr uint64_t kMostKeptOnce = 4u << 20;      // bytes of one piece
inline constexpr size_t kMostPiecesKeptOnce = 1u << 20;  // of one file

// The file with this uuid in the recording at `recording`.
Beneath kept_once_file(const std::string& recording, const Uuid& uuid);

class KeptOnceWriter {
 public:
  // Creates the file, and its directory if necessary.
  static Result<KeptOnceWriter> create(const std::string& recording, const Uuid& uuid);
  KeptOnceWriter(KeptOnceWriter&&) = default;

  const Uuid& uuid() const { return uuid_; }
  uint64_t bytes() const { return bytes_; }  // size of the file
  // Appends a piece, and returns its number, from 0. After a failure nothing more can be added.
  Result<uint64_t> add(std::span<const std::byte> bytes);
  // Waits until all pieces are on the disk. Traces may name a piece only afterwards.
  Result<void> store();

 private:
  KeptOnceWriter() = default;
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const;
  };

  Uuid uuid_{};
  std::string path_;
  UniqueFd fd_;
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;
  std::vector<std::byte> buffer_, back_;
  uint64_t count_ = 0, bytes_ = 0;
  bool failed_ = false, stored_ = true;
};

class KeptOnce {
 public:
  // Lists the pieces of a file, up to the first incomplete one and at most kMostPiecesKeptOnce.
  static Result<KeptOnce> open(const Beneath& file);
  // The same for all who need the file at this time, and at least `count` pieces if it has so many.
  static Result<std::shared_ptr<const KeptOnce>> share(const Beneath& file, uint64_t count);

  size_t count() const { return pieces_.size(); }
  // Reads a piece, whose size `out` must have: who reads a block does no more work than the block is large. Fails if
  // there is no such piece, or if it is damaged.
  Result<void> read(uint64_t number, std::span<std::byte> out) const;

 private:
  struct Piece {
    uint64_t place;  // of its stored bytes
    uint32_t size, stored;
    uint64_t hash;
  };
  UniqueFd fd_;
  std::string path_;
  std::vector<Piece> pieces_;
};

}  // namespace friday
