// Derived data kept beside a recording: a file of flat arrays with a fingerprint of what it was derived from and a
// checksum of itself. Losing or damaging one costs time, never correctness: whatever does not fit is reported as
// absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/trace/recording.h"

namespace friday {

// Changes whenever a trace file of the recording does (size, time of change, committed bytes).
uint64_t fingerprint(const Recording& recording, std::span<const NodeId> nodes);

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
  // Writes atomically, making the cache directory (0700) if need be.
  Result<void> write(const Recording& recording, const std::string& name, uint64_t fingerprint);

 private:
  void append(const void* bytes, size_t size);
  std::string data_;
};

class CacheReader {
 public:
  // Fails if there is no cache `name` with this fingerprint, or it is damaged.
  static Result<CacheReader> open(const Recording& recording, const std::string& name, uint64_t fingerprint);

  // The next array, in the order of add(); false if what stands there cannot be it.
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
