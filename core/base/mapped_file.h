// The contents of a file of a recording, mapped: a file as large as a disk costs no memory until it is read. Owner of
// the mapping; movable. A file that is cut off while it is mapped ends who reads behind its end (SIGBUS), as for any
// mapping.
#pragma once

#include <string_view>
#include <utility>

#include "core/base/beneath.h"

namespace friday {

class MappedFile {
 public:
  static Result<MappedFile> open(const Beneath& file);
  MappedFile(MappedFile&& other) noexcept : text_(std::exchange(other.text_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(text_, other.text_);
    return *this;
  }
  ~MappedFile();

  std::string_view text() const { return text_; }

 private:
  explicit MappedFile(std::string_view text) : text_(text) {}
  std::string_view text_;
};

}  // namespace friday
