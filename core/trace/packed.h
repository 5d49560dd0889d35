// The compressed form of a trace, nodes/N/trace.zst: a sequence of zstd frames, each with at most kPackBlock bytes of
// the trace and each preceded by a skippable frame that holds its offset in the trace and a hash, so that truncation
// and corruption are detected. While a node is being recorded, the plain file `trace` exists beside it, with holes
// where blocks have moved to the compressed file. When the node has ended, a final skippable frame holds the header
// page and `trace` is removed. A block may lack payload that the replay of its sender makes again (leaving_out.h); then
// a skippable frame before it says which. docs/trace-format.md documents the bytes and must change in the same commit.
//
// Blocks of whole records are stored as columns (columns.h). A record that is larger than a block is cut into blocks of
// plain bytes.
//
// PackedWriter belongs to one thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/shim/trace_format.h"
#include "core/trace/left_out.h"

struct ZSTD_CCtx_s;

namespace friday {

// How strongly zstd compresses. Level 3 takes 1.5 times as long on a recording of redis and saves 3 %
// (docs/performance.md).
inline constexpr int kPackLevel = 1;

inline constexpr uint64_t kPackBlock = 4u << 20;
inline constexpr uint32_t kMostLeftOut = kPackBlock / 16;  // ranges of one list of a block

// The name of the compressed form of the trace `path`.
std::string packed_path(const std::string& path);
Beneath packed(const Beneath& trace);

// The form that exists on disk: `path`, or its compressed form if only that exists. Cache fingerprints look at this
// file.
std::string stored_path(const std::string& path);

struct PackedBlock {
  uint64_t offset = 0, size = 0;   // range in the trace, in bytes
  uint64_t place = 0, stored = 0;  // range of its compressed bytes in the compressed file
  uint64_t hash = 0;               // XXH3-64 of the uncompressed bytes, with `offset` as the seed
  bool columns = false;            // stored as columns (columns.h), else as one zstd frame
  // What it lacks: which ranges of PackedList::left_out and PackedList::repeated, and left_out_hash() of their bytes.
  struct Lacks {
    size_t first = 0, count = 0;
    uint64_t payload = 0;
  };
  Lacks left_out, repeated;
};

struct PackedList {
  std::vector<PackedBlock> blocks;  // contiguous, starting at offset kHeaderSize
  // Each lies in one block of columns, no two overlap, and they stand in rising order.
  std::vector<LeftOut> left_out;  // made again by a replay of the senders (regenerable.h)
  std::vector<LeftOut>
      repeated;  // kept once (kept_once.h): `source` has the uuid of the file and, as `event`, the piece
  std::optional<std::string> header;  // the trace's header page; present once the node has ended
  bool torn = false;  // the file continues after the last block with something that is not a complete block

  std::span<const LeftOut> left_out_of(const PackedBlock& block) const {
    return std::span(left_out).subspan(block.left_out.first, block.left_out.count);
  }
  std::span<const LeftOut> repeated_of(const PackedBlock& block) const {
    return std::span(repeated).subspan(block.repeated.first, block.repeated.count);
  }
  uint64_t end() const { return blocks.empty() ? format::kHeaderSize : blocks.back().offset + blocks.back().size; }
};

// Lists the blocks of the file `fd` up to the first incomplete one. Does not read the contents of blocks.
Result<PackedList> list_packed(int fd, const std::string& path);

// Decompresses one block into `out`, whose size must be block.size. Returns a description of the error, if there is
// one.
std::optional<std::string> unpack(int fd, const PackedBlock& block, std::span<std::byte> out);

// Replaces the header page in a complete compressed trace.
Result<void> replace_packed_header(const std::string& path, std::span<const std::byte> header);

// Cuts a trace into blocks for append(): such that each consists of whole records where that is possible.
class BlockCutter {
 public:
  // How many of `bytes`, the next ones of the trace, are the next block. `bytes` has kPackBlock bytes, or all the rest.
  size_t cut(std::span<const std::byte> bytes);

 private:
  uint64_t inside_ = 0;  // bytes left of a record that is larger than a block
};

class PackedWriter {
 public:
  static Result<PackedWriter> create(const Beneath& file);  // `file` names the compressed file
  PackedWriter(PackedWriter&&) = default;

  uint64_t end() const { return end_; }        // offset in the trace up to which bytes are in the compressed file
  uint64_t stored() const { return stored_; }  // size of the compressed file in bytes

  // Ranges in which a block has zeros, and left_out_hash() of what was there.
  struct Lack {
    std::span<const LeftOut> ranges;
    uint64_t payload = 0;
  };
  // Compresses `raw`, the trace's bytes from end() on, appends them and waits for fdatasync. The caller may discard the
  // plain bytes only after success. After a failure the file is unchanged. If something is lacking, `raw` must be whole
  // records.
  Result<void> append(std::span<const std::byte> raw, const Lack& left_out = {{}, 0}, const Lack& repeated = {{}, 0});
  // Appends the header page, which completes the file.
  Result<void> finish(std::span<const std::byte> header);

 private:
  PackedWriter() = default;
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  Result<void> store(std::span<const std::byte> bytes);
  std::optional<std::vector<std::byte>> columns_of(std::span<const std::byte> raw);

  std::string path_;
  UniqueFd fd_;
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;
  std::vector<std::byte> buffer_, back_;
  uint64_t end_ = format::kHeaderSize, stored_ = 0;
};

}  // namespace friday
