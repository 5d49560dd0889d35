// What one replay of a recording came to, and whether that is what was recorded: the verdict of `friday verify`. A node
// must have done all its recorded events and come to its recorded end. Several replays of one recording are compared by
// their verdicts, hashes of memory included.
//
// Plain values, made from a session that stands at its end. Neither gdb nor the console is known here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/replay/session.h"

namespace friday {

struct NodeVerdict {
  NodeId id{};
  std::string name;
  uint64_t events = 0;                 // done in the replay
  NodeOutcome outcome;                 // how the replayed node ended
  std::optional<std::string> cut_off;  // why the recording does not hold the node's end
  std::optional<std::string> hash;     // of its memory, where that was asked for and could be read
  std::optional<std::string> problem;  // how it differs from the recording
};

struct ReplayVerdict {
  std::vector<NodeVerdict> nodes;
  uint64_t events = 0;                           // done by all nodes
  std::string problems;                          // in sentences, a line each; empty: everything repeated
  std::shared_ptr<const Divergence> divergence;  // null: none
  std::string failure;  // why the replay did not come to an end, which says nothing of the recording; empty: it did

  bool held() const { return problems.empty() && failure.empty(); }
};

// "exit", "end of recording", "signal", "diverged", "failed" or "not reached".
const char* name_of(NodeOutcome::How how);

// Runs the session to its end, to a divergence or to a failure, as far as that is from where it stands.
Result<void> replay_to_end(ReplaySession& session);

// The verdict on a session that replay_to_end() has run. `hash`: the memory of each node is hashed, which reads all of
// it.
ReplayVerdict judge_replay(ReplaySession& session, bool hash);

// Where the end states of two replays of one recording differ, in a sentence with a line end; empty when they do not.
std::string difference(const ReplayVerdict& first, const ReplayVerdict& other);

}  // namespace friday
