// Copies of mapped files in a recording, kept once by content, and the analysis of those that hold code. Owned by the
// collector; one thread.
#pragma once

#include <array>
#include <map>
#include <string>

#include "core/base/beneath.h"
#include "core/base/progress.h"
#include "core/record/analysis.h"

namespace friday {

struct StoredFile {
  std::array<uint8_t, 16> hash{};  // XXH3-128, canonical (big-endian) order; zeros: no copy could be made
  uint64_t size = 0;
  bool analysed = false;
  CodeAnalysis analysis;
  std::string problem;  // why there is no copy, or no analysis that was asked for
};

class FileStore {
 public:
  // `tell`: who is told of copies that take long; may be empty.
  explicit FileStore(Beneath directory, Progress::Tell tell = {})
      : directory_(std::move(directory)), tell_(std::move(tell)) {}

  // Copies the file behind `fd` (any offset) unless a copy with the same content is there. The answer is remembered by
  // device, inode, size and modification time. `want_sites`: also look for call sites. Fails for what is no file to be
  // read.
  Result<const StoredFile*> add(int fd, bool want_sites);

 private:
  Result<void> copy(int fd, uint64_t size, const std::string& name, Progress& progress);

  Beneath directory_;
  Progress::Tell tell_;
  std::map<std::array<uint64_t, 4>, StoredFile> known_;
};

std::string hex_of(const uint8_t* bytes, size_t count);

}  // namespace friday
