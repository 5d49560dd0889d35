// What a machine or container may refuse to Friday: what it costs and what allows it. The words stand here once;
// `friday doctor` says them in advance, record and replay when it happens.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace friday {

enum class Refusal {
  dispatch,   // Syscall User Dispatch
  addresses,  // mappings at the shim's far addresses
  disk,       // room for a trace
  ptrace,
  memfd,
  confinement,  // a seccomp filter for replayed processes
  gdb,
  gdb_python,
  descriptors,  // few open files
  affinity,     // sched_setaffinity
  tsc,          // the time-stamp counter is no clock here
  punch_hole,
  personality,
  perf_events,
  userfaultfd,
  user_namespaces,
  locked_memory,
};

struct RefusalText {
  const char* what;  // completes "this system refuses ..."
  const char* cost;  // a sentence
  const char* cure;  // what allows it; a sentence, may be empty
};

const RefusalText& refusal_text(Refusal refusal);

// "this system refuses WHAT (FOUND): COST CURE"
std::string describe_refusal(Refusal refusal, std::string_view found);
std::unexpected<Error> refused(Refusal refusal, std::string_view found);

// Of std::bad_alloc, wherever a program meets it.
inline constexpr char kNoMemory[] =
    "there is not enough memory for this, by what the machine has or by a limit (ulimit -v). If the recording is a "
    "stranger's, "
    "its files may ask for more than they need";

}  // namespace friday
