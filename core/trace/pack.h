// Copies separate debug information (the files of *-dbg packages under /usr/lib/debug, or from any other directory)
// into a recording, so that another machine shows the same symbols. A debug file belongs to a program or library if
// their build ids are equal.
//
// The files are stored in the layout in which gdb searches: REC/debug/.build-id/XX/REST.debug. Replay makes them
// visible in the node's sysroot. Use from one thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/recording.h"

namespace friday {

struct PackOptions {
  std::vector<std::string> symbols;  // directories to search recursively, before `system`
  std::string system = "/usr/lib/debug";
};

// The result for one recorded program or library.
struct PackedFile {
  enum class State {
    complete,  // contains its debug information itself
    added,     // debug information was found and copied by this call
    present,   // debug information was already in the recording
    missing,   // no debug information was found
    nameless,  // has no build id to search for
  };
  std::string path;      // as the programs knew the file
  std::string build_id;  // hexadecimal
  State state;
  std::string source;  // where the added debug information was copied from; empty for other states
  uint64_t bytes = 0;  // size of the debug information in the recording
};

// Returns the results ordered by path. Fails if a directory in `symbols` cannot be read or the recording cannot be
// written.
Result<std::vector<PackedFile>> pack_symbols(const Recording& recording, const PackOptions& options);

// Nodes, in ascending order, whose program has no debug information: none in the file itself, in the recording, or in
// DIRECTORY/.build-id. Nodes whose program's copy cannot be read are not listed.
std::vector<NodeId> nodes_without_debug_information(const Recording& recording,
                                                    const std::vector<std::string>& directories);

// The paths under which the programs knew the copied files, indexed by the name of the copy (its hash in hexadecimal).
// Nodes with damaged traces are skipped.
std::map<std::string, std::string> paths_of_copies(const Recording& recording);

}  // namespace friday
