// Serves a node's files to gdb (vFile packets), so that `target remote` finds the program, its libraries and debug
// information without `set sysroot`. Read-only, regular files only, and nothing outside the directory that the host
// names (RspHost::sysroot).
//
// gdb assumes that the remote process runs on this machine and opens its /proc/PID/task/TID/maps. That file is
// generated from NodeControl::mappings(); nothing else under /proc is visible, in particular no process of the machine.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/fd.h"
#include "core/stop/node_control.h"

namespace friday {

class RspFiles {
 public:
  RspFiles(NodeControl& node, std::string sysroot) : node_(node), sysroot_(std::move(sysroot)) {}

  // Answers the part of a request after "vFile:". An empty answer means that the request is not supported.
  std::string handle(std::string_view request, size_t reply_limit);

 private:
  struct File {
    UniqueFd fd;       // of a file in the sysroot
    std::string text;  // of a generated file
  };

  std::string open(std::string_view arguments);
  std::expected<File, int> open_path(const std::string& path);
  std::string read(std::string_view arguments, size_t reply_limit);
  std::string status(std::string_view arguments);
  std::string close(std::string_view arguments);
  const File* find(uint64_t number) const;

  NodeControl& node_;
  std::string sysroot_;
  std::map<uint64_t, File> files_;
};

}  // namespace friday
