// The bytes of one trace as the recorder stored them, in either form: a plain file that is mapped, or compressed blocks
// (packed.h) that are decompressed individually when they are needed. TraceReaders share ownership; several threads may
// use one TraceFile at once. Of a live trace it shows what was committed when it was opened.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/shim/trace_format.h"
#include "core/trace/inferred.h"
#include "core/trace/kept_once.h"
#include "core/trace/packed.h"
#include "core/trace/restored.h"

namespace friday {

// Reads the current header of the trace, in either form. Checks only that the file is a trace.
Result<format::FileHeader> read_header(const Beneath& trace);

Error bad_file(NodeId node, std::string message);

// What a trace takes of the disk, in both of its forms together, in bytes; 0 if there is none.
uint64_t disk_bytes(const Beneath& trace);

class TraceFile {
 public:
  // `trace` is the plain file's name, even if only the compressed form exists; `node` is used in error messages.
  static Result<std::shared_ptr<const TraceFile>> open(const Beneath& trace, NodeId node);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;

  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  const format::FileHeader& header() const { return header_; }  // as it was when the trace was opened
  bool header_holds() const {
    return header_holds_;
  }  // false if the header has a checksum that does not match its page

  // What the stored form leaves out. Unless a replay has made it again (restored.h), data() has zeros there.
  const PackedList& packed_list() const { return list_; }
  std::span<const LeftOut> left_out() const { return list_.left_out; }
  bool is_complete() const { return list_.left_out.empty() || restored_ || inferred_; }
  // What is in the place of payload that nobody has, if there is such; else null.
  const InferredPayload* inferred() const { return inferred_ ? &*inferred_ : nullptr; }
  // Whether data() has zeros for some of the bytes [from, to).
  bool lacks(uint64_t from, uint64_t to) const;

  // Must be called before bytes [from, to) of data() are read; decompresses them if necessary. Returns a description of
  // the error, if there is one.
  std::optional<std::string> need(uint64_t from, uint64_t to) const {
    return list_.blocks.empty() ? std::nullopt : fill(from, to);
  }

  // A read-only file descriptor through which another process can map the whole trace.
  Result<UniqueFd> descriptor() const;

 private:
  explicit TraceFile(const Beneath& trace) : place_(trace), path_(trace.path()) {}
  static Result<std::shared_ptr<TraceFile>> open_plain(const Beneath& trace, NodeId node, UniqueFd fd);
  static Result<std::shared_ptr<const TraceFile>> open_packed(const Beneath& trace, NodeId node, UniqueFd packed);
  Result<void> snapshot(UniqueFd plain);
  Result<void> make_scratch();
  Result<void> map(int fd);
  void take_header(const std::byte* page);
  void begin_filling();
  void find_restored(NodeId node);
  bool restorable(NodeId node) const;  // whether the payload that the file lacks has been made again since
  std::optional<std::string> fill(uint64_t from, uint64_t to) const;
  std::optional<std::string> fill_repeated(const PackedBlock& block, std::span<std::byte> bytes) const;

  Beneath place_;
  std::string path_;
  dev_t device_ = 0;  // of the plain file
  ino_t inode_ = 0;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  format::FileHeader header_{};
  bool header_holds_ = true;
  // Only for a compressed trace: the compressed file, the file that blocks are decompressed into, and the list of
  // blocks.
  UniqueFd packed_, scratch_;
  PackedList list_;
  std::optional<RestoredPayload> restored_;
  std::optional<InferredPayload> inferred_;                            // used if there is no `restored_`
  mutable std::map<Uuid, std::shared_ptr<const KeptOnce>> kept_once_;  // those that were needed; guarded by filling_
  std::unique_ptr<std::atomic<bool>[]> filled_;
  mutable std::mutex filling_;
};

}  // namespace friday
