// Detects recorded programs that stand still. Of processes that share memory, only the holder of their group's token
// runs (shim_abi.h, TokenGroup); of the threads of a process, also one at a time. A standstill is reported if somebody
// keeps a token over several looks while others wait for it, once for each holder. The check is made from outside
// because the holder cannot help: it may be stopped, or the shim's own remedy may fail.
//
// The words in shared memory are read without a lock while others change them, so a message may name a waiter that no
// longer waits.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/shim/shim_abi.h"

namespace friday {

struct KeptToken {
  std::string text;  // a sentence for users
  pid_t holder;      // its pid in its own PID namespace
  bool runs;  // the holder is running, so the shim may have reported it already, with its place (core/shim/spin.cc)
};

class Standstill {
 public:
  // how often to call look(), and after how long a wait counts as a standstill
  static constexpr unsigned kLooksPerSecond = 4, kSeconds = 4;

  // Returns what has not been reported before.
  std::vector<KeptToken> look(const shim::TokenArea& area);

 private:
  struct Seen {
    uint32_t state = 0;
    uint64_t turn = 0;
    unsigned looks = 0;  // consecutive looks at which others waited in this turn
  };
  void look_at_groups(const shim::TokenArea& area, std::vector<KeptToken>& found);
  void look_at_threads(const shim::TokenArea& area, std::vector<KeptToken>& found);

  std::map<uint32_t, Seen> seen_;                         // by group
  std::set<uint32_t> told_;                               // token members that were reported
  std::set<std::pair<uint32_t, uint32_t>> told_threads_;  // (process, thread) pairs that were reported
};

}  // namespace friday
