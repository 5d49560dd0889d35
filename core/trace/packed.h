// The compressed form of a trace, nodes/N/trace.zst: zstd frames of at most kPackBlock bytes of the trace each, every
// one announced by a skippable frame with its place in the trace and a hash, so that a torn or changed file is noticed.
// While a node is recorded `trace` stands beside it, with holes where blocks were taken out; when the node has ended a
// last skippable frame holds the header page, and `trace` is gone. docs/trace-format.md documents the bytes and must
// change in the same commit.
//
// PackedWriter belongs to one thread. Nothing here knows records: a block begins and ends anywhere.
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

struct ZSTD_CCtx_s;

namespace friday {

inline constexpr uint64_t kPackBlock = 4u << 20;

// Of the compressed form of the trace `path`.
std::string packed_path(const std::string& path);
Beneath packed(const Beneath& trace);

// Of these two the one that exists, `path` if both do; what a cache's fingerprint looks at.
std::string stored_path(const std::string& path);

struct PackedBlock {
  uint64_t offset = 0, size = 0;   // in the trace
  uint64_t place = 0, stored = 0;  // of its zstd frame in the file
  uint64_t hash = 0;               // XXH3-64 of the bytes, seed: offset
};

struct PackedList {
  std::vector<PackedBlock> blocks;    // without gaps from kHeaderSize on
  std::optional<std::string> header;  // the trace's first page, once the node has ended
  bool torn = false;                  // something that is no whole block stands behind the last one

  uint64_t end() const { return blocks.empty() ? format::kHeaderSize : blocks.back().offset + blocks.back().size; }
};

// Reads what `fd` holds, up to the first thing that is no whole block. Never reads a block's contents.
Result<PackedList> list_packed(int fd, const std::string& path);

// Uncompresses one block into `out`, which has its size. The text says what is wrong with it.
std::optional<std::string> unpack(int fd, const PackedBlock& block, std::span<std::byte> out);

// Puts another header page into a whole compressed trace.
Result<void> replace_packed_header(const std::string& path, std::span<const std::byte> header);

class PackedWriter {
 public:
  static Result<PackedWriter> create(const Beneath& file);  // of the compressed file
  PackedWriter(PackedWriter&&) = default;

  uint64_t end() const { return end_; }        // of the trace, how much is in the file
  uint64_t stored() const { return stored_; }  // bytes of the file

  // Appends the bytes of the trace at end(), and waits until the disk has them: only then may they be dropped
  // elsewhere. After a failure the file is as before.
  Result<void> append(std::span<const std::byte> raw);
  // The header page: the file is whole.
  Result<void> finish(std::span<const std::byte> header);

 private:
  PackedWriter() = default;
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  Result<void> store(std::span<const std::byte> bytes);

  std::string path_;
  UniqueFd fd_;
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;
  std::vector<std::byte> buffer_;
  uint64_t end_ = format::kHeaderSize, stored_ = 0;
};

}  // namespace friday
