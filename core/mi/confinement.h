// A gdb reads ELF and DWARF that a stranger made, and has no need of anything but reading: it gets no network, may
// write in one directory only, and may not touch other processes, as far as the kernel offers that without root
// (docs/security.md). What the kernel does not offer is left out: a gdb is a stranger's reader, not the stranger
// itself.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/fd.h"

namespace friday {

class GdbConfinement {
 public:
  // `scratch`: where it may write; empty: nowhere.
  static GdbConfinement prepare(const std::string& scratch);

  // In the child, between fork and exec: makes system calls, and nothing else.
  void apply() const;

 private:
  std::vector<sock_filter> filter_;
  std::vector<size_t> own_;  // the instructions that compare with gdb's own pid
  UniqueFd rules_;           // of Landlock, if the kernel has it
  uint64_t memory_ = 0;
};

}  // namespace friday
