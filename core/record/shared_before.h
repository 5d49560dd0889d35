// What processes have mapped that others may have mapped, too, while nothing of them is recorded. When the recording of
// such a process begins, those with which it shares memory must begin together with it (collector_cuts.cc).
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/shim/shim_abi.h"

namespace friday {

struct MappedObject {
  shim::ObjectBefore object{};
  bool can_change = false;  // what this process stores there changes it
  bool size_known = false;  // false: its size is at least that
  std::pair<uint64_t, uint64_t> key() const { return {object.device, object.inode}; }
};

// The shared objects of a process, each once, with the size that it is known to have at least. An error if its mappings
// cannot be read, or if it has mapped a device; not_found if it has ended.
Result<std::vector<MappedObject>> mapped_objects(pid_t pid);

}  // namespace friday
