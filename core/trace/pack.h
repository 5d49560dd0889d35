// Puts separate debug information (the *-dbg packages' files below /usr/lib/debug, or any directory of them) into a
// recording, so that another machine shows the same symbols. A file belongs to a program or library when their build
// ids are equal.
//
// It is kept as gdb looks for it: REC/debug/.build-id/XX/REST.debug. Replay shows it below the node's sysroot. One
// thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/recording.h"

namespace friday {

struct PackOptions {
  std::vector<std::string> symbols;  // directories, searched with all below them, before `system`
  std::string system = "/usr/lib/debug";
};

// What became of one recorded program or library.
struct PackedFile {
  enum class State {
    complete,  // it carries its debug information itself
    added,     // found now and copied
    present,   // is in the recording since an earlier time
    missing,   // none was found
    nameless,  // it has no build id to look for
  };
  std::string path;      // as the programs knew it
  std::string build_id;  // hex
  State state;
  std::string source;  // of what was added
  uint64_t bytes = 0;  // of the debug information in the recording
};

// By path. Fails when a directory of `symbols` cannot be read, or the recording cannot be written.
Result<std::vector<PackedFile>> pack_symbols(const Recording& recording, const PackOptions& options);

// The nodes whose program has debug information neither in itself nor in the recording nor in DIRECTORY/.build-id:
// ascending. Those whose program's copy cannot be looked at are not among them.
std::vector<NodeId> nodes_without_debug_information(const Recording& recording,
                                                    const std::vector<std::string>& directories);

// Paths under which the nodes' programs knew the copied files, by name of the copy (the hash in hex). Damaged traces
// are left out.
std::map<std::string, std::string> paths_of_copies(const Recording& recording);

}  // namespace friday
