// The copies of mapped files in a recording, one for each content, and the analysis of files with code. Owned by the
// collector; one thread.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "core/base/beneath.h"
#include "core/base/progress.h"
#include "core/record/analysis.h"
#include "core/record/analysis_cache.h"

namespace friday {

struct StoredFile {
  ContentHash hash{};  // XXH3-128 in canonical (big-endian) order; zeros if no copy could be made
  uint64_t size = 0;
  // The file had not changed for so long when it was read that any later change gives it other times.
  bool settled = false;
  bool analysed = false;
  CodeAnalysis analysis;
  std::string problem;  // why there is no copy, or no requested analysis
};

class FileStore {
 public:
  // `tell` is called during long copies; it may be empty. `cache` keeps what is decoded. Without `copies` files are
  // only hashed and analysed.
  explicit FileStore(Beneath directory, Progress::Tell tell = {}, AnalysisCache cache = {}, bool copies = true)
      : directory_(std::move(directory)), tell_(std::move(tell)), cache_(std::move(cache)), copies_(copies) {}

  // Copies the file `fd` (its file position does not matter) unless a copy with the same content exists. With
  // `want_sites`, also analyses the code. Fails if `fd` is not a file that can be read. The result is good until the
  // next call. Results for settled files are cached by device, inode, size, modification time and status change time;
  // a program can set the modification time back, but not the other. A file that a process has `mapped_writable` is
  // never settled, because its times change with the first store to a mapping only.
  Result<const StoredFile*> add(int fd, bool want_sites, bool mapped_writable = false);

 private:
  Result<void> copy(int fd, uint64_t size, const std::string& name, Progress& progress);
  void analyse(int fd, int64_t changed_ns, std::string_view content, bool want_sites, StoredFile& file) const;

  Beneath directory_;
  Progress::Tell tell_;
  AnalysisCache cache_;
  const bool copies_;
  std::map<std::array<uint64_t, 5>, StoredFile> known_;  // settled files
  StoredFile passing_;                                   // the last of the others
};

std::string hex_of(const uint8_t* bytes, size_t count);

}  // namespace friday
