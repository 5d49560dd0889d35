// The bytes of one trace as the recorder stored them, whichever form they have on disk: a plain file that is mapped, or
// compressed blocks (packed.h) that are uncompressed one by one when somebody needs them. Owned by TraceReaders, which
// share it; safe to use by several threads at once. Of a live trace it shows what was committed when it was opened.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/shim/trace_format.h"
#include "core/trace/packed.h"

namespace friday {

// The header of the trace `path` in either form, as of now; nothing else is read, and nothing checked but that it is
// one.
Result<format::FileHeader> read_header(const Beneath& trace);

Error bad_file(NodeId node, std::string message);

class TraceFile {
 public:
  // `trace` names the plain form, also where only the compressed one exists; `node` labels errors.
  static Result<std::shared_ptr<const TraceFile>> open(const Beneath& trace, NodeId node);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;

  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  const format::FileHeader& header() const { return header_; }  // as of the time of opening
  bool header_holds() const { return header_holds_; }           // false: it has a checksum, and that of another page

  // Must be asked before bytes [from, to) of data() are read. The text says why they cannot be had.
  std::optional<std::string> need(uint64_t from, uint64_t to) const {
    return list_.blocks.empty() ? std::nullopt : fill(from, to);
  }

  // The whole trace for another process to map: a descriptor that can only be read.
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
  std::optional<std::string> fill(uint64_t from, uint64_t to) const;

  Beneath place_;
  std::string path_;
  dev_t device_ = 0;  // of the plain form
  ino_t inode_ = 0;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  format::FileHeader header_{};
  bool header_holds_ = true;
  // Of a compressed trace: the file, its blocks, and where they are uncompressed to.
  UniqueFd packed_, scratch_;
  PackedList list_;
  std::unique_ptr<std::atomic<bool>[]> filled_;
  mutable std::mutex filling_;
};

}  // namespace friday
