// Whether recorded programs stand still. Of processes that share memory one runs at a time, the one that has their
// group's token (shim_abi.h TokenGroup), and of a process's threads one: has it been kept over several looks while
// others wait for it? The holder has no part in finding that: it may be stopped, or what the shim does about it may not
// work. So it is seen from outside, and told once for each holder.
//
// It reads words that others change meanwhile, without a lock: a sentence may name a waiter that waits no more.
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
  std::string text;  // a sentence for people
  pid_t holder;      // by the number that the process has for itself
  bool runs;         // it may have said so itself, and where it is (core/shim/spin.cc)
};

class Standstill {
 public:
  static constexpr unsigned kLooksPerSecond = 4, kSeconds = 4;  // how often look() is to be called; when it is long

  // What this look is the first to find.
  std::vector<KeptToken> look(const shim::TokenArea& area);

 private:
  struct Seen {
    uint32_t state = 0;
    uint64_t turn = 0;
    unsigned looks = 0;  // at which others waited in this turn, one after the other
  };
  void look_at_groups(const shim::TokenArea& area, std::vector<KeptToken>& found);
  void look_at_threads(const shim::TokenArea& area, std::vector<KeptToken>& found);

  std::map<uint32_t, Seen> seen_;                         // by group
  std::set<uint32_t> told_;                               // members
  std::set<std::pair<uint32_t, uint32_t>> told_threads_;  // process and thread
};

}  // namespace friday
