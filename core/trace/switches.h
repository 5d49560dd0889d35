// What of a group that runs on standby is to be recorded (`friday record --standby`): a file in the recording, which
// `friday live REC full`, `schedule` and `off` change, and which the recorders look at while the programs run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

// Whether one of the names, of a node and its ancestors, matches the pattern (fnmatch(3)).
bool one_matches(const std::string& pattern, std::span<const std::string> names);

// What is recorded of a process: its communication only (core/shim/schedule.h), or as much as a replay needs.
enum class Keeps { nothing, schedule, everything };

class Switches {
 public:
  // Fails with not_found if the recording has no such file: then its recorder does not look for one.
  static Result<Switches> read(const std::string& recording);
  Result<void> write(const std::string& recording) const;
  static void remove(const std::string& recording);

  // From now on this is what shall be recorded of nodes that match the pattern (one_matches). The last rule that
  // matches a node decides; without one it is nothing.
  void set(const std::string& pattern, Keeps keeps);
  Keeps of(std::span<const std::string> names) const;

 private:
  struct Rule {
    std::string nodes;
    Keeps keeps;
  };
  std::vector<Rule> rules_;
};

}  // namespace friday
