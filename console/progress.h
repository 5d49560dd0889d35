// Progress reports of commands: a line on standard error from time to time.
#pragma once

#include "console/say.h"
#include "core/base/progress.h"

namespace friday {

// Prints for example "friday record: copying /data/model into the recording: 1.5 of 4.0 GiB".
inline Progress::Tell tell_as(std::string command) {
  return [command = std::move(command)](const std::string& what, uint64_t done, uint64_t total) {
    constexpr double kGiB = 1 << 30;
    say(stderr, "friday {}: {}: {:.1f} of {:.1f} GiB\n", command, what, static_cast<double>(done) / kGiB,
        static_cast<double>(total) / kGiB);
  };
}

}  // namespace friday
