// Files of derived data in a recording's cache directory. Each file holds flat arrays, the fingerprint of the traces
// that they were computed from, and a checksum. A cache file that is missing, damaged or out of date is reported as
// absent; the caller then computes the data again, so losing a cache costs time and never correctness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/trace/recording.h"

namespace friday {

// A hash of the size, modification time and committed byte count of each of these nodes' trace files. It changes when
// one of them does.
uint64_t fingerprint(const Recording& recording, std::span<const NodeId> nodes);

// The cache file of `what`, such as "index", that belongs to one node.
std::string cache_name(std::string_view what, NodeId node);

class CacheWriter {
 public:
  template <typename T>
  void add(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    uint64_t size = values.size() * sizeof(T);
    append(&size, sizeof size);
    append(values.data(), size);
    data_.resize((data_.size() + 7) & ~size_t{7});
  }
  size_t size() const { return data_.size(); }  // bytes so far
  // Writes the file atomically, under cache/ in the recording. Makes that directory (mode 0700) if it does not exist.
  Result<void> write(const Recording& recording, const std::string& name, uint64_t fingerprint) {
    return write_to(recording.inside("cache/" + name), fingerprint);
  }
  // The same for a file that is no cache, but has the form of one.
  Result<void> write_to(const Beneath& file, uint64_t fingerprint);

 private:
  void append(const void* bytes, size_t size);
  std::string data_;
};

class CacheReader {
 public:
  // Fails if no cache file `name` exists, if its fingerprint differs, or if it is damaged.
  static Result<CacheReader> open(const Recording& recording, const std::string& name, uint64_t fingerprint);
  // The same for a file that is no cache, but has the form of one. Fails if it is larger than `most` bytes.
  static Result<CacheReader> open_file(const Beneath& file, uint64_t fingerprint, uint64_t most);

  // Reads the next array; call it in the order of the writer's add(). Returns false if the bytes there cannot be such
  // an array.
  template <typename T>
  bool take(std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::span<const std::byte> bytes;
    if (!take_bytes(bytes) || bytes.size() % sizeof(T) != 0) return false;
    values.resize(bytes.size() / sizeof(T));
    if (!bytes.empty()) __builtin_memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
    return true;
  }

 private:
  bool take_bytes(std::span<const std::byte>& bytes);
  std::string data_;
  size_t at_ = 0;
};

}  // namespace friday
