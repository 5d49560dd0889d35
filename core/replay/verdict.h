// The verdict of `friday verify`: whether one replay repeated its recording. It did if every node completed all its
// recorded events and reached its recorded end. The verdicts of several replays of one recording are compared with each
// other, including hashes of memory.
//
// Verdicts are plain values, made after the replay has ended. This file knows neither gdb nor the console.
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
  uint64_t events = 0;                 // number of events that the replay completed
  NodeOutcome outcome;                 // how the replayed node ended
  std::optional<std::string> cut_off;  // why the recording does not contain the node's end; empty if it does
  std::string notice;                  // what the recorder has noted of it; empty if nothing
  std::optional<std::string> hash;     // hash of its memory in hexadecimal, if it was requested and could be read
  std::optional<std::string> problem;  // how the node differs from the recording; empty if it does not
};

struct ReplayVerdict {
  std::vector<NodeVerdict> nodes;
  uint64_t events = 0;                           // the sum over all nodes
  std::string problems;                          // one line for each difference; empty if there is none
  std::shared_ptr<const Divergence> divergence;  // null if there is none
  std::string failure;  // why the replay could not be completed, for a reason that is not in the recording; or empty

  bool held() const { return problems.empty() && failure.empty(); }
};

// How a replayed node that was not cut short differs from its recording, as a clause; none if it does not. `events` is
// the number of events that the replay completed. A node whose recording was cut off may end in any way, but only after
// all `recorded_events`. For a node that could not be replayed (`failed`) it is the reason, which is not a divergence.
std::optional<std::string> judge_node(const NodeEnd& recorded, uint64_t recorded_events, const NodeOutcome& replayed,
                                      uint64_t events);

// "exit", "end of recording", "signal", "diverged", "failed" or "not reached".
const char* name_of(NodeOutcome::How how);

// Runs the session until all nodes have ended, or to a divergence or a failure.
Result<void> replay_to_end(ReplaySession& session);

// The verdict on a session that replay_to_end() has run. With `hash`, also hashes all writable memory of each node.
ReplayVerdict judge_replay(ReplaySession& session, bool hash);

// The first difference between the end states of two replays of one recording, as a line; empty if they are equal. The
// verdicts must be about the same nodes.
std::string difference(const ReplayVerdict& first, const ReplayVerdict& other);

}  // namespace friday
