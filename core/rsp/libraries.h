// The libraries that the dynamic loader of a node has loaded, read from the loader's own r_debug and link_maps
// (<link.h>), and the same list in the format that gdb requests. With the list, gdb need not walk the node's memory.
// Libraries that Friday put into the process are left out, so that their symbols do not mix with the program's.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/stop/node_control.h"

namespace friday {

// What is followed of the loader's lists; in the memory of a program with an error, they may have no end.
inline constexpr size_t kMostLibraries = 4096;

template <typename T>
Result<T> read_value(NodeControl& node, uint64_t address) {
  T value;
  FRIDAY_TRY_VOID(node.read(Addr{address}, std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

// Reads a NUL-terminated text of at most `most` bytes. Returns what precedes the first unreadable byte.
std::string read_text(NodeControl& node, uint64_t address, size_t most);

// The address of the loader's r_debug, found through the program headers that the auxiliary vector points to.
Result<uint64_t> find_r_debug(NodeControl& node);

// A loaded library. Friday's own libraries are never listed.
struct LoadedLibrary {
  std::string name;  // as the loader names it
  // `space` is the address of the r_debug of its namespace (dlmopen(3))
  uint64_t link_map = 0, base = 0, dynamic = 0, space = 0;
};
struct LoadedLibraries {
  uint64_t program = 0;  // address of the program's link_map
  std::vector<LoadedLibrary> libraries;
};
Result<LoadedLibraries> loaded_libraries(NodeControl& node);

// The XML document of qXfer:libraries-svr4 (gdb manual, "Library List Format for SVR4 Targets").
Result<std::string> library_list(NodeControl& node);

}  // namespace friday
