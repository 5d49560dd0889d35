// A recording that is being made from others, in a temporary directory beside its place. It appears completely or not
// at all. Use from one thread.
#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/progress.h"

namespace friday {

class Draft {
 public:
  static Result<Draft> beside(const std::string& place);
  Draft(Draft&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~Draft();  // removes it unless move_to() succeeded
  const std::string& path() const { return path_; }

  // Flushes everything to disk before the rename: the new name must not become durable before its contents.
  Result<void> move_to(const std::string& place);

 private:
  explicit Draft(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Copies a file of a recording to the new file `to` of a draft. `doing` begins what is told of the progress, such as
// "copying". Returns what the copied file is.
Result<struct stat> copy_to_draft(const Beneath& from, const std::string& to, const char* doing, Progress& progress);

}  // namespace friday
