// Names for code addresses of a node under replay, and the chain of calls a thread stands in, without a gdb: libdw
// reads symbols, line tables and unwind information from the recording's copies of the mapped files (and separate debug
// information that this machine has for their build-ids). Made for reports, which happen once: every question opens the
// files anew.
//
// Used on the session's thread, while the thread asked about is stopped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace friday {

class ReplayNode;

struct CodePlace {
  uint64_t address = 0;
  std::string function;        // empty: no symbol covers the address
  uint64_t offset = 0;         // in the function
  std::string module;          // "libc.so.6"; empty: no file is mapped there
  uint64_t module_offset = 0;  // in the module as linked
  std::string file;            // of the source, where debug information is there
  int line = 0;
};

// "write+0x14 in libc.so.6", "work+0x2a in server, server.c:120", or the address.
std::string text(const CodePlace& place);

// The innermost place first: where the thread stands (`site`, if not 0, is the address of the call it makes), then its
// callers.
std::vector<CodePlace> call_chain(ReplayNode& node, ThreadId thread, uint64_t site, size_t most);

}  // namespace friday
