// Creates the directories for `set sysroot` in gdb. Each contains symbolic links to the recording's file copies, under
// the names that the program and its loader used. A forked node uses the directory of its parent; every other node has
// its own.
//
// The directories are inside the session's directory and are removed with it. If a link cannot be created it is left
// out, and gdb has no symbols of that file. Use on the session's thread only.
#pragma once

#include <map>
#include <set>
#include <string>

#include "core/replay/session.h"

namespace friday {

class Sysroots {
 public:
  explicit Sysroots(ReplaySession& session) : session_(session) {}

  // The node's directory. The first call creates it, with links to the files of the start image and to the recording's
  // separate debug information.
  const std::string& path(ReplayNode& node);
  // Adds the files that the node maps after its start. The first call for a node reads its whole trace.
  void add_loaded_files(ReplayNode& node);
  // Adds the names that the loader has for the libraries loaded now, if they differ from the names of the files. gdb
  // opens libraries by the loader's names.
  void add_loader_names(ReplayNode& node);

 private:
  void link_file(const std::string& root, const std::string& recorded, const uint8_t (&file)[16]);
  void link_start_image(ReplayNode& node, const std::string& root);

  ReplaySession& session_;
  std::map<NodeId, std::string> paths_;
  std::set<NodeId> complete_;  // nodes for which add_loaded_files() is done
};

}  // namespace friday
