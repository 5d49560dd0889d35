// What a machine or container may refuse to Friday, with the consequence and the remedy. `friday doctor` reports these
// in advance, record and replay when they occur; all of them use the texts from here.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace friday {

enum class Refusal {
  dispatch,   // Syscall User Dispatch
  addresses,  // mappings at the high addresses that the shim uses
  disk,       // space for a trace
  ptrace,
  memfd,
  confinement,  // a seccomp filter for replayed processes
  gdb,
  gdb_python,
  descriptors,  // the limit of open files
  affinity,     // sched_setaffinity
  debug_registers,
  clock,  // neither the program nor the vdso can read a clock without the kernel
  punch_hole,
  personality,
  perf_events,
  userfaultfd,
  user_namespaces,
  network,  // a network of namespaces for a group
  locked_memory,
};

struct RefusalText {
  const char* what;  // completes the sentence "this system refuses ..."
  const char* cost;  // the consequence, as a sentence
  const char* cure;  // what makes it possible, as a sentence; may be empty
};

const RefusalText& refusal_text(Refusal refusal);

// "this system refuses WHAT (FOUND): COST CURE"
std::string describe_refusal(Refusal refusal, std::string_view found);
std::unexpected<Error> refused(Refusal refusal, std::string_view found);

// The message for std::bad_alloc, wherever it is caught.
inline constexpr char kNoMemory[] =
    "there is not enough memory for this, by what the machine has or by a limit (ulimit -v). If the recording is a "
    "stranger's, "
    "its files may ask for more than they need";

}  // namespace friday
