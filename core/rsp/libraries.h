// What the dynamic loader of a node has loaded, as it says itself in r_debug and its link_maps (<link.h>), and the list
// in the form that gdb asks for. With the list gdb need not walk the node's memory; and what Friday has put into the
// process is not on it, so its names are no names of the program.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/stop/node_control.h"

namespace friday {

template <typename T>
Result<T> read_value(NodeControl& node, uint64_t address) {
  T value;
  FRIDAY_TRY_VOID(node.read(Addr{address}, std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

// A NUL-terminated text of the node's, of at most so many bytes; what lies before memory that cannot be read.
std::string read_text(NodeControl& node, uint64_t address, size_t most);

// Where the loader keeps its r_debug: by the program headers that the auxiliary vector names.
Result<uint64_t> find_r_debug(NodeControl& node);

// A library that is loaded. Friday's own is none.
struct LoadedLibrary {
  std::string name;                                         // as the loader knows it
  uint64_t link_map = 0, base = 0, dynamic = 0, space = 0;  // `space`: the r_debug of its namespace (dlmopen)
};
struct LoadedLibraries {
  uint64_t program = 0;  // its link_map
  std::vector<LoadedLibrary> libraries;
};
Result<LoadedLibraries> loaded_libraries(NodeControl& node);

// The object libraries-svr4 of the remote serial protocol (gdb manual, "Library List Format for SVR4 Targets").
Result<std::string> library_list(NodeControl& node);

}  // namespace friday
