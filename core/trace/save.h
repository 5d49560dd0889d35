// Saves what a recording holds at this moment as a recording of its own, while it goes on (friday live REC save): of a
// recording that keeps the last minutes, these.
//
// Of all programs it holds what they have done up to the same moment, to some microseconds, as if the recorder and all
// programs had been killed then. Traces that are complete are hard links to the same files where the file system allows
// it, so they take no room until the recording removes them; those under way are copied. The programs go on meanwhile,
// and the recorder waits with compressing and removing.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/base/progress.h"

namespace friday {

struct Saved {
  std::string path;
  uint64_t nodes = 0, under_way = 0;  // how many, and of how many the recording went on
  uint64_t copied = 0, linked = 0;    // bytes
};

struct SaveOptions {
  std::string place;  // must not exist; empty: REC-saved-1, or the first number that is free, beside the recording
  std::set<Uuid> without{};    // nodes that are left out
  bool removes_ended = false;  // what is saved of nodes that have ended is removed from the recording
  Progress::Tell tell{};
};

// Fails with bad_input if the place cannot be, or if `recording` is none, and with io.
Result<Saved> save_recording(const std::string& recording, const SaveOptions& options);

}  // namespace friday
