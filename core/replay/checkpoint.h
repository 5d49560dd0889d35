// A checkpoint of a replayed group: what it takes to come back to the consistent cut at which it was made
// (ReplaySession::checkpoint() and restore()). Each live node has a *twin*: a copy of its process, made by clone(2)
// inside the process, which never runs and shares all pages that neither has changed since. A twin has one thread; the
// others are made from their saved registers when the node comes back. Coming back copies the twins again, so a
// checkpoint can be used any number of times.
//
// What the processes share with each other is kept besides: the progress that nodes have published, and the contents of
// shared memory. Nodes that have ended never run again and are kept as they are.
//
// A node that waits for its turn where it waited before has done nothing since: two checkpoints share its twin, and its
// process stays when the group comes back. So both cost what the nodes that moved cost.
//
// Made and used by one ReplaySession, on its thread. It holds for the processes that were copied: restart() of the
// session makes it useless. Its twins end with the object, and with Friday.
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/replay/node.h"
#include "core/replay/snapshot.h"

namespace friday {

// The files in memory that replayed processes map in common. Whoever goes on using a process of the replay holds them:
// the session, and each checkpoint for its twins.
struct SharedObjects {
  using Object = std::shared_ptr<const UniqueFd>;
  std::map<std::pair<uint64_t, uint64_t>, Object> named;  // by FileHeader::sharing and number in the recording
  std::vector<Object> inherited;                          // anonymous memory, which only forked children share

  bool empty() const { return named.empty() && inherited.empty(); }
  bool operator==(const SharedObjects&) const = default;
};

class GroupCheckpoint {
 public:
  // The number of events that all nodes together have completed.
  uint64_t events() const { return events_; }
  // The number that this node had completed.
  uint64_t events_of(NodeId node) const { return nodes_.at(node)->at.events; }
  // Whether nothing had run: the start of the recording.
  bool is_start() const { return !at_.moved; }
  // The twins: one process for each node that was live.
  std::vector<pid_t> twins() const;
  // How many of them were copied for this one; others are those of earlier checkpoints.
  size_t copied() const { return copied_; }
  // What it keeps of shared memory, in bytes.
  uint64_t shared_bytes() const;

 private:
  friend class ReplaySession;
  friend class SavedCheckpoint;

  struct Contents {  // of a shared object
    std::shared_ptr<const UniqueFd> object;
    UniqueFd copy;  // a memfd
    uint64_t size = 0;
  };
  struct Thread : ThreadSnapshot {
    user_regs_struct registers{};
    std::vector<std::byte> extended;  // vector registers, in the form of PTRACE_GETREGSET
    uint64_t blocked = 0;             // signals that the kernel does not deliver
    uint64_t signal_stack[3] = {};    // the shim's, as sigaltstack(2) returns it
  };
  struct Node {
    std::shared_ptr<ReplayNode> node;  // a live node's twin, an ended node itself; null if it had not started
    NodeSnapshot at;
    std::vector<Thread> threads;  // of a live node; the first is the one that its twin has
    bool is_saved = false;        // it comes from the recording, so it may be what the node never was
  };

  Result<void> keep_contents(const SharedObjects::Object& object);
  Result<void> put_back_contents() const;

  uint64_t events_ = 0;
  uint64_t build_ = 0;  // ReplaySession::build_ then
  size_t copied_ = 0;
  GroupSnapshot at_;
  std::map<NodeId, std::shared_ptr<const Node>> nodes_;
  std::vector<shim::Progress> progress_;
  SharedObjects shared_;
  std::vector<Contents> contents_;  // of all of them
};

}  // namespace friday
