// The replay of a recording: all its nodes (or some), rebuilt, traced and run in the recorded order, stopped and resumed as
// one. Knows processes, threads, signals, traps of the shim, breakpoints and watchpoints by address; knows nothing of gdb,
// of expressions or of Python.
//
// One thread: every method is called on the thread that opened the session, except interrupt(), which is safe anywhere,
// signal handlers included. When run() returns, the group stands at a consistent cut: in `clock` order every other node is
// parked before its next event; in the other orders it was stopped where it was.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/on_processor.h"
#include "core/base/scratch.h"
#include "core/replay/divergence.h"
#include "core/replay/image.h"
#include "core/replay/node.h"
#include "core/replay/schedule_memory.h"
#include "core/trace/logical_time.h"
#include "core/trace/mark.h"
#include "core/trace/recording.h"

namespace friday {

struct ReplayOptions {
  std::string library_directory;     // where friday-stub lies
  std::vector<NodeId> nodes;         // empty: all; ancestors of forked nodes are added
  SyncMode sync = SyncMode::clock;
};

struct ReplayStop {
  enum class Kind {
    started,      // all nodes stand at their start
    breakpoint,   // `owners`, rip on the breakpoint
    watch,        // `hits`, just after the store
    step,         // step() is done
    signal,       // the program's own fault, about to end the node: `signal`
    node_ended,   // one node's replay is over: see its outcome()
    ended,        // every node's is
    event,        // stop_at was reached
    interrupted,
    diverged,     // `divergence`
    failed,       // `text`: replay cannot go on
  };
  Kind kind = Kind::started;
  NodeId node{};
  ThreadId thread{};
  Addr pc{};
  std::vector<BreakpointOwner> owners;
  std::vector<WatchHit> hits;
  int signal = 0;
  std::string text;
};

// Why a function that a debugger called will not come back.
struct CallFailure {
  std::string how;   // "crashed", "blocked" or "looped"
  std::string text;  // a sentence's predicate: "raised SIGSEGV at ..."
};

class ReplaySession {
 public:
  static Result<std::unique_ptr<ReplaySession>> open(const std::string& recording, ReplayOptions options);
  ~ReplaySession();

  // Builds all processes anew; the group stands at its start. open() has done so once.
  Result<void> restart();

  // Runs until something happens that the caller must know. A node's end is reported only if `report_node_ends`. In clock order
  // the calling thread stays on the processor of the nodes, for the next run, until leave_processor().
  Result<ReplayStop> run();
  void leave_processor() { together_.reset(); }
  // What this machine makes slower than it could be; each once.
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }
  bool report_node_ends = false;
  // run() comes back with `interrupted` some time after this moment of this machine's clock.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // Executes one instruction of a thread; what the program calls runs whole, others following in the recorded order.
  Result<ReplayStop> step(NodeId node, ThreadId thread);
  // Runs one thread alone, native (a debugger's function call), until it stops; at most `timeout_ms`. A call that has come
  // back stops with the signal that its return address raises. One that never will says why in call_failure().
  Result<ReplayStop> run_detour(NodeId node, ThreadId thread, int timeout_ms);
  const std::optional<CallFailure>& call_failure() const { return call_failure_; }
  void interrupt();
  void clear_interrupt() { interrupt_ = false; }

  const Recording& recording() const { return recording_; }
  const Schedule& schedule() const { return schedule_; }
  // A directory that is removed with the session, for files and sockets that others find by name.
  const std::string& directory() const { return directory_.path(); }
  SyncMode sync() const { return options_.sync; }
  // restart() must follow.
  void set_sync(SyncMode sync) { options_.sync = sync; }
  const std::vector<NodeId>& nodes() const { return ids_; }
  ReplayNode* find(NodeId id);
  Result<ReplayNode*> node(NodeId id);             // with a clear error
  Result<ReplayNode*> readable(NodeId id);         // has started
  bool all_ended() const;
  const std::optional<Divergence>& divergence() const { return divergence_; }

  // Where a node stands: behind its last event.
  Mark mark(NodeId id);
  // Logical time of the group: of the last event done by the node that runs, or of `id`.
  LogicalTime time(NodeId id);
  int64_t realtime_ns(NodeId id);
  uint64_t events_done();                          // of all nodes
  // The event at whose entry a node waits for its turn, in shared memory: while that is the same the node has not moved. None where
  // it may be elsewhere: it stopped on its way, or runs, or the order is not that of the clock.
  std::optional<uint64_t> waits_at(NodeId id) const;

  // Park the node before this event; ~0: never.
  Result<void> stop_at(NodeId id, uint64_t event);

  // Puts what the node loads in its life where gdb looks for it (sysroot): walks its trace.
  void link_loaded(ReplayNode& node);

  // Hash of all memory the program can write, stacks below the stack pointer left out: equal states have equal hashes.
  Result<uint64_t> state_hash(NodeId id);

  // A node's process exists now: breakpoints can be set in it. A forked one is still what its parent is, which stands at the fork.
  std::function<void(ReplayNode&)> on_node_started;
  // What a called function writes to its standard output or error.
  std::function<void(NodeId, std::string_view)> on_call_output;

 private:
  explicit ReplaySession(Recording recording, ReplayOptions options);
  Result<void> choose_nodes();
  Result<void> build_all();
  Result<void> offer_object(ReplayNode& node, uint64_t object);
  Result<void> build_node(ReplayNode& node);
  Result<void> run_to_start(ReplayNode& node);
  void resume_all();
  bool resume_thread(ReplayNode& node, ReplayNode::Thread& thread);
  void resume_node(ReplayNode& node);
  void go_on(ReplayNode& node, ReplayNode::Thread& thread);
  std::optional<ReplayStop> handle(pid_t tid, int status);
  std::optional<ReplayStop> handle_held();
  std::optional<ReplayStop> handle_event(ReplayNode& node, ReplayNode::Thread& thread, int status);
  std::optional<ReplayStop> handle_signal(ReplayNode& node, ReplayNode::Thread& thread, int signal);
  std::optional<ReplayStop> handle_trap(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct& registers);
  // spin.cc
  Result<void> expect_spin(ReplayNode& node);
  static bool is_spin(const BreakpointOwner& owner);
  Result<bool> yield_at_spin(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct& r);
  std::optional<std::optional<ReplayStop>> debug_stop(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct registers);
  std::optional<ReplayStop> handle_shim_trap(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct& registers);
  std::optional<ReplayStop> handle_fault(ReplayNode& node, ReplayNode::Thread& thread, int signal);
  std::optional<ReplayStop> handle_exit(ReplayNode& node, pid_t tid, int status);
  std::optional<ReplayStop> end_node(ReplayNode& node, ThreadId thread, NodeOutcome outcome);
  static bool run_to_fork_trap(const ReplayNode& parent, pid_t pid, bool waiting);
  std::optional<ReplayStop> adopt_fork(ReplayNode& parent, pid_t pid);
  // calls.cc
  ReplayStop give_up_call(ReplayNode& node, ReplayNode::Thread& thread, CallFailure failure);
  CallFailure describe_waiting(const ReplayNode::Thread& thread) const;
  std::optional<CallFailure> native_call(ReplayNode& node, ReplayNode::Thread& thread);
  ReplayStop diverge(ReplayNode& node, const ReplayNode::Thread& thread, Divergence divergence);
  bool dies_as_recorded(const ReplayNode& node, int signal) const;
  Result<void> stop_group();
  ReplayStop stop_of(ReplayStop::Kind kind, ReplayNode& node, const ReplayNode::Thread& thread);
  ReplayStop stopped_on_its_way(ReplayStop stop);
  ReplayStop finish(ReplayStop stop);
  size_t slot_of(NodeId id) const;
  ThreadId number_of(ReplayNode& node, ReplayNode::Thread& thread);
  void make_sysroot(ReplayNode& node);
  void link_file(const std::string& root, const std::string& name, const uint8_t (&file)[16]);
  void discard();
  void gather();  // all threads of all nodes, and this one, on one processor

  Recording recording_;
  ReplayOptions options_;
  int processor_ = -1;  // all threads of the nodes are on it
  std::optional<OnProcessor> together_;
  std::vector<std::string> notices_;
  bool noticed_ = false;
  Schedule schedule_;
  std::optional<std::vector<HostEdge>> host_edges_;  // once `causal` order has asked for them
  std::vector<NodeId> ids_;
  std::map<NodeId, std::unique_ptr<ReplayNode>> nodes_;
  std::map<pid_t, ReplayNode*> by_tid_;
  std::map<pid_t, int> unclaimed_;        // children that stopped before their parent's event told of them
  std::unique_ptr<ScheduleMemory> memory_;
  std::optional<NodeId> in_turn_;         // the node whose turn it is, where the last run has shown that
  std::map<std::pair<uint64_t, uint64_t>, UniqueFd> shared_;  // shared objects, by FileHeader::sharing and number
  std::optional<Divergence> divergence_;
  std::optional<CallFailure> call_failure_;  // of the last run_detour()
  ScratchDirectory directory_;            // holds the symlink trees that gdb uses as sysroots
  pid_t group_ = 0;
  pid_t stepped_ = 0;                     // a thread that step() has stepped: it is looked at, and nobody goes on
  std::atomic<bool> interrupt_ = false;
  pid_t thread_ = 0;                      // the one that traces
};

}  // namespace friday
