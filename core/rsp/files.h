// The files of a node for gdb (vFile packets), so that `target remote` alone, without `set sysroot`, finds program,
// libraries and debug information. Read only, regular files only, nothing outside NodeControl::sysroot().
//
// gdb takes the process that it is told of for one of this machine and asks for its /proc/PID/task/TID/maps; that file
// is made from NodeControl::mappings(). Nothing else below /proc exists, least of all the machine's own processes.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "core/stop/node_control.h"

namespace friday {

class RspFiles {
 public:
  explicit RspFiles(NodeControl& node) : node_(node) {}

  // Answers what follows "vFile:"; an empty answer means that the request is not supported.
  std::string handle(std::string_view request, size_t reply_limit);

 private:
  struct File {
    UniqueFd fd;       // a file of the sysroot, or
    std::string text;  // one that was made up
  };

  std::string open(std::string_view arguments);
  std::expected<File, int> open_path(const std::string& path);
  std::string read(std::string_view arguments, size_t reply_limit);
  std::string status(std::string_view arguments);
  std::string close(std::string_view arguments);
  const File* find(uint64_t number) const;

  NodeControl& node_;
  std::map<uint64_t, File> files_;
};

}  // namespace friday
