// What the tests of checkpoints share: recordings of small programs, made when they are first asked for, and replays of
// them that go to a place and say how they stand there. Whatever fails on the way throws, which fails the test.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/replay/session.h"

namespace friday {

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct Recorded {
  std::string path;
  std::string output;  // of the program
};
// The recording of a program of tests/targets. It is removed when the tests are over.
const Recorded& recorded(const std::string& target);

// The nodes of tests/targets/generations.c, and where its function and its variables are.
constexpr NodeId kMain{0}, kEarly{1}, kLate{2};
struct Places {
  Addr tick, ticks, shared, block;
};
const Recorded& generations();
Places places();

// How each node of a group stands, as text that is the same if nothing differs that a user can see.
using States = std::map<uint32_t, std::string>;

class Replay {
 public:
  explicit Replay(const Recorded& recording, SyncMode sync = SyncMode::clock);
  ReplaySession* operator->() { return session_.get(); }
  ReplaySession& operator*() { return *session_; }

  ReplayNode& node(NodeId id) { return *session_->find(id); }
  NodeState state(NodeId id) { return node(id).state(); }
  pid_t pid(NodeId id) { return node(id).process().pid(); }
  uint64_t value(NodeId id, Addr address);
  void set_value(NodeId id, Addr address, uint64_t value);

  // The event at which the parent forks the node.
  uint64_t forked_at(NodeId id) { return node(id).reader().header().fork_event; }
  // The longest part of the recorded order that is this node's alone: no other one does anything meanwhile.
  Turn longest_turn(NodeId id) const;

  // Runs until the node waits before this event, and until the end. run_to_end() returns the nodes whose ends were
  // reported. Both throw at any other stop.
  void run_to(NodeId id, uint64_t event);
  std::vector<NodeId> run_to_end();
  Stop run() { return must(session_->run()); }
  // Waits until the nodes whose turn it is not have come to where they wait for it.
  void settle();
  // Makes a checkpoint, when all nodes have settled.
  std::unique_ptr<GroupCheckpoint> keep();

  States states();
  // The processes of the replay that have not ended, those of checkpoints included.
  std::set<pid_t> processes() const;

  std::vector<NodeId> started, stands;  // what restore() has told of since the last run_to() or run_to_end()

 private:
  std::unique_ptr<ReplaySession> session_;
  pid_t group_ = 0;  // the process group of all processes of the replay
  std::optional<std::pair<NodeId, uint64_t>> target_;
};

// How the nodes of the recording stand at its end.
States states_at_end(const Recorded& recording);

// Whether Linux copies no process that has a mapping which is larger than all memory (vm.overcommit_memory 0).
bool refuses_large_copies();
// Gives the node such a mapping, of which nothing is used. Returns its address and its size.
std::pair<uint64_t, uint64_t> enlarge(ReplayNode& node);
void shrink(ReplayNode& node, std::pair<uint64_t, uint64_t> mapping);

}  // namespace friday
