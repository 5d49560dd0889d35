// The directories that gdbs use as `set sysroot`: in each the files of a node stand, as symbolic links to the
// recording's copies, under the names that the program and its loader knew them by. A node with a start image has a
// directory of its own; a forked one has its parent's.
//
// They lie in the session's own directory and go with it. A link that cannot be made is left out: gdb then has no
// symbols of that file. Used on the session's thread.
#pragma once

#include <map>
#include <set>
#include <string>

#include "core/replay/session.h"

namespace friday {

class Sysroots {
 public:
  explicit Sysroots(ReplaySession& session) : session_(session) {}

  // The node's directory. The first call makes it, with the files of the node's start image and the recording's
  // separate debug information.
  const std::string& path(ReplayNode& node);
  // Adds the files that the node maps later in its life. The first call for a node walks its whole trace.
  void add_loaded_files(ReplayNode& node);
  // Adds the names by which the loader knows the libraries it has loaded by now, where those are not the files' own:
  // gdb opens libraries by the loader's names.
  void add_loader_names(ReplayNode& node);

 private:
  void link_file(const std::string& root, const std::string& recorded, const uint8_t (&file)[16]);
  void link_start_image(ReplayNode& node, const std::string& root);

  ReplaySession& session_;
  std::map<NodeId, std::string> paths_;
  std::set<NodeId> complete_;  // nodes whose later files were added
};

}  // namespace friday
