// Where a replay stands, as values: what the core must keep, besides the memory and the registers of the processes, to
// come back to a place. Whatever a run changes in a thread, a node or the session belongs in here, so that it is kept,
// put back and cleared in one place:
//   ThreadSnapshot  kept and put back around a function that the debugger calls (ReplayNode::begin_call())
//   NodeSnapshot    of a ReplayNode
//   GroupSnapshot   of a ReplaySession; restart() begins with an empty one
// The stop points' part stands in core/stop (copy_from() of Breakpoints and WatchSet), as a fork needs it, too.
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/replay/stop.h"
#include "core/shim/trace_format.h"

namespace friday {

inline constexpr uint32_t kFormerDebugSlot = 1 << 4;

// What a stopped thread still has to do when it goes on.
struct ThreadSnapshot {
  uint32_t number = 0;  // ~0 until the thread has registered in the shim
  bool at_breakpoint = false;
  struct Hit {
    user_regs_struct registers{};
    uint64_t changes = 0;   // value of TracedProcess::register_changes() then
  } hit;                    // the last breakpoint hit
  int deliver = 0;          // signal to deliver when the thread resumes
  std::optional<int> held;  // wait status that arrived while another one was awaited
  // The debug registers whose hits have not been handled, one bit for each: of the stop that is handled next, and of
  // single steps that Friday made. kFormerDebugSlot stands for one that is used for something else since.
  uint32_t debug_hits = 0;
};

enum class NodeState { waiting, live, ended };

// How the replay of a node ended.
struct NodeOutcome {
  enum class How { none, exited, end_of_recording, signal, diverged, failed };
  How how = How::none;
  int detail = 0;    // exit code (for `exited`) or signal number (for `signal`); otherwise 0
  std::string text;  // for `signal` where, for `failed` why; otherwise empty
  bool operator==(const NodeOutcome&) const = default;
};

// Set if the next event is a yield in a loop without system calls (spin.cc): the thread, the place, and how to
// recognise the loop.
struct ExpectedSpin {
  uint32_t thread;
  format::SpinPoint point;
  uint64_t steps, hash;
  uint64_t looks;
};

struct NodeSnapshot {
  NodeState state = NodeState::waiting;
  NodeOutcome outcome;
  std::optional<ExpectedSpin> spin;
  uint64_t forks = 0;   // number of processes that it has created
  uint64_t events = 0;  // events done, as last read from the process
};

struct GroupSnapshot {
  bool moved = false;             // something has run since the processes were rebuilt
  std::vector<NodeId> ended_now;  // nodes whose end was reported; nodes that wait for it continue in the next run
  std::optional<NodeId> in_turn;  // the node whose turn it is, if the last run has determined that
  // Further stops of one store, at other nodes that share the memory; reported one after the other.
  std::deque<Stop> pending;
  std::shared_ptr<const Divergence> divergence;
  std::optional<Stop> failure;  // why the replay cannot continue
};

}  // namespace friday
