// The contents of a file of a recording, memory-mapped, so that even a huge file costs no memory until it is read. Owns
// the mapping; movable. As with any mapping, if the file is truncated while it is mapped, reading beyond the new end
// raises SIGBUS.
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
