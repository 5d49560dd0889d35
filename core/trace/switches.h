// What of a group that runs on standby is to be recorded (`friday record --standby`): a file in the recording, which
// `friday live REC full` and `off` change, and which the recorders look at while the programs run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

// Whether one of the names, of a node and its ancestors, matches the pattern (fnmatch(3)).
bool one_matches(const std::string& pattern, std::span<const std::string> names);

class Switches {
 public:
  // Fails with not_found if the recording has no such file: then its recorder does not look for one.
  static Result<Switches> read(const std::string& recording);
  Result<void> write(const std::string& recording) const;
  static void remove(const std::string& recording);

  // From now on the nodes that match the pattern (one_matches) shall be recorded or not. The last rule that matches a
  // node decides; without one it is not recorded.
  void set(const std::string& pattern, bool record);
  bool records(std::span<const std::string> names) const;

 private:
  struct Rule {
    std::string nodes;
    bool record;
  };
  std::vector<Rule> rules_;
};

}  // namespace friday
