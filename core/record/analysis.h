// Finds the instructions of an ELF file that the shim replaces: system calls, rdtsc and similar ones. Code is decoded
// from the starts of functions (symbols and unwind entries) and never scanned byte by byte: of 71 byte sequences in
// libcrypto that look like rdtsc, 64 are something else. The collector caches the result for each file; programs wait
// for an analysis only once for each file and group.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/shim/shim_abi.h"

namespace friday {

struct CodeAnalysis {
  std::vector<shim::Site> sites;  // ordered by file offset
  std::vector<uint8_t> build_id;  // empty if the file has none
  bool is_elf = false;
};

// `content` is the whole file. A file that is damaged or not ELF yields no sites. `progress`: told of each function, in
// bytes of the file; may be null.
CodeAnalysis analyse_code(std::string_view content, bool want_sites, Progress* progress = nullptr);

// The offsets of the functions of this machine's vdso that the shim redirects; zero for functions that are absent.
shim::HelloReply describe_vdso();

}  // namespace friday
