// Whole-file reads and atomic whole-file writes.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace friday {

Result<std::string> read_file(const std::string& path);
// Reads until the end of the file, or until nobody can write to the pipe any more. `what` is named in an error.
Result<std::string> read_to_end(int fd, const std::string& what);

// Writes `text` to a temporary name beside `path` (mode 0600) and renames it, so that readers see old or new, whole.
Result<void> write_file_atomically(const std::string& path, std::string_view text);

}  // namespace friday
