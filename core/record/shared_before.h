// What processes have mapped that others may have mapped, too. When such a process goes on in a new trace, those with
// which it shares memory must do so together with it (collector_cuts.cc).
#pragma once

#include <sys/types.h>

#include <string>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "core/shim/shim_abi.h"

namespace friday {

struct MappedObject {
  shim::ObjectBefore object{};
  bool can_change = false;  // what this process stores there changes it, or it is in memory only
  bool size_known = false;  // false: its size is at least that
  std::tuple<uint32_t, uint64_t, uint64_t> key() const { return {object.is_segment, object.device, object.inode}; }
};

struct Mapped {
  std::vector<MappedObject> objects;  // each once
  std::string device;                 // the path of a device that it has mapped; empty: of none
};

// What a process has mapped shared. not_found if it has ended.
Result<Mapped> mapped_shared(pid_t pid);

}  // namespace friday
