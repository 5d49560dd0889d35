// Finds, in an ELF file, the instructions the shim replaces: system calls, rdtsc and its like. Code is decoded from
// function starts (symbols and unwind entries), never scanned byte by byte: of 71 places that look like rdtsc in
// libcrypto 64 are none. Used by the collector, which remembers the answer a file; the program waits for it only once a
// file a group.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/shim/shim_abi.h"

namespace friday {

struct CodeAnalysis {
  std::vector<shim::Site> sites;  // by ascending file offset
  std::vector<uint8_t> build_id;  // empty if the file has none
  bool is_elf = false;
};

// `content`: the whole file. A file that is not ELF or is damaged yields no sites.
CodeAnalysis analyse_code(std::string_view content, bool want_sites);

// Offsets of the functions of this machine's vdso that the shim redirects; zeros for those that are absent.
shim::HelloReply describe_vdso();

}  // namespace friday
