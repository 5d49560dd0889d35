// The files of a node for gdb (vFile packets), so that `target remote` alone, without `set sysroot`, finds program,
// libraries and debug information. Read only, regular files only, nothing outside NodeControl::sysroot().
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/fd.h"

namespace friday {

class RspFiles {
 public:
  explicit RspFiles(std::string root) : root_(std::move(root)) {}

  // Answers what follows "vFile:"; an empty answer means that the request is not supported.
  std::string handle(std::string_view request, size_t reply_limit);

 private:
  std::string open(std::string_view arguments);
  std::string read(std::string_view arguments, size_t reply_limit);
  std::string status(std::string_view arguments);
  std::string close(std::string_view arguments);
  const UniqueFd* find(uint64_t number) const;

  std::string root_;
  std::map<uint64_t, UniqueFd> files_;
};

}  // namespace friday
