// What was decoded of files with code, kept across recordings in the user's cache directory, so that programs need not
// wait for it at each start: one file for each content, bounded in total. An entry counts only if it belongs to this
// user and nobody else may write to it, if its checksum is right, and if it was made for this content by this build of
// Friday. Whatever else is found there is ignored, and replaced.
//
// Several recorders may use it at once: entries are replaced by renaming, and readers see a whole one. Failures to read
// or write are no errors; the code is then decoded as without a cache.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/record/analysis.h"

namespace friday {

using ContentHash = std::array<uint8_t, 16>;

class AnalysisCache {
 public:
  AnalysisCache() = default;  // keeps nothing
  // Files in `directory`, which exists, of `most_bytes` together.
  explicit AnalysisCache(std::string directory, uint64_t most_bytes = kMostBytes)
      : directory_(std::move(directory)), most_bytes_(most_bytes) {}
  // That of the user: $XDG_CACHE_HOME/friday/code, by default ~/.cache/friday/code. Keeps nothing if this directory
  // cannot be made, or belongs to somebody else.
  static AnalysisCache of_user();

  // The analysis of a file of this content and size, if it is known.
  std::optional<CodeAnalysis> find(const ContentHash& content, uint64_t size) const;
  void keep(const ContentHash& content, uint64_t size, const CodeAnalysis& analysis) const;

  static constexpr uint64_t kMostBytes = 64 << 20;

 private:
  std::string path_of(const ContentHash& content) const;
  void remove_oldest() const;

  std::string directory_;  // empty: none
  uint64_t most_bytes_ = 0;
};

}  // namespace friday
