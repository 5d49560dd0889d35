// Symbolizes code addresses of a replayed node and unwinds the stack of a thread, without a gdb: libdw reads symbols,
// line tables and unwind information from the recording's copies of the mapped files, and from separate debug
// information that this machine has for their build-ids. The files may be a stranger's, so libdw reads them in a
// process that can do nothing else (confined_work.h). Every call opens the files again, because this is made for
// reports of a divergence, which happens once.
//
// Use on the session's thread only, while the thread concerned is stopped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace friday {

class ReplayNode;

struct CodePlace {
  uint64_t address = 0;
  std::string function;        // demangled; empty if no symbol covers the address
  uint64_t offset = 0;         // bytes from the start of the function
  std::string module;          // for example "libc.so.6"; empty if no file is mapped there
  uint64_t module_offset = 0;  // the address in the module as linked
  std::string file;            // path of the source file; empty without debug information
  int line = 0;                // counted from 1; 0 if unknown
};

// For example "work+0x2a in server, server.c:120"; only the address if nothing is known.
std::string text(const CodePlace& place);

// The call stack of a thread, innermost frame first, at most `most` frames. If `site` is not 0, the thread is in the
// system call made at that address, which then is the innermost place. Only the innermost address if the files cannot
// be read; empty if the registers cannot.
std::vector<CodePlace> call_chain(ReplayNode& node, ThreadId thread, uint64_t site, size_t most);

}  // namespace friday
