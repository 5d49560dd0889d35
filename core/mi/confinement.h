// A sandbox for the gdb of a node. That gdb parses ELF and DWARF from an untrusted recording and needs only to read: it
// gets no network, may write in one directory only, and cannot affect other processes, as far as the kernel offers that
// without root (docs/security.md). Restrictions that the kernel does not support are left out, which is acceptable
// because gdb itself is trusted code.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/fd.h"

namespace friday {

class GdbConfinement {
 public:
  // `scratch` is the directory where gdb may write; empty if it may write nowhere.
  static GdbConfinement prepare(const std::string& scratch);

  // Call in the child between fork and exec; it uses only async-signal-safe system calls.
  void apply() const;

 private:
  std::vector<sock_filter> filter_;
  std::vector<size_t> own_;  // indices of the filter instructions that compare with gdb's own pid
  UniqueFd rules_;           // a Landlock ruleset, if the kernel supports Landlock
  uint64_t memory_ = 0;
};

}  // namespace friday
