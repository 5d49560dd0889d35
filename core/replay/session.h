// The replay of a recording: rebuilds all or some of its nodes, traces them, runs them in the recorded order, and stops
// and resumes them as one group. Knows processes, threads, signals, traps of the shim, and breakpoints and watchpoints
// by address; knows nothing of gdb, expressions or Python.
//
// All methods must be called on the thread that opened the session, except interrupt(), which is safe anywhere, even in
// signal handlers. When run() returns in `clock` order, the group stands at a consistent cut: every other node is
// parked before its next event. In the other orders each node was stopped where it was.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/alarm.h"
#include "core/base/fd.h"
#include "core/base/on_processor.h"
#include "core/base/scratch.h"
#include "core/replay/checkpoint.h"
#include "core/replay/image.h"
#include "core/replay/node.h"
#include "core/replay/restoring.h"
#include "core/replay/schedule_memory.h"
#include "core/replay/shared_watches.h"
#include "core/replay/snapshot.h"
#include "core/replay/stop.h"
#include "core/trace/logical_time.h"
#include "core/trace/mark.h"
#include "core/trace/node_end.h"
#include "core/trace/recording.h"

namespace friday {

struct ReplayOptions {
  std::string library_directory;  // directory of friday-stub
  // Empty: all nodes. Ancestors of forked nodes, and nodes that share memory with these, are added.
  std::vector<NodeId> nodes;
  SyncMode sync = SyncMode::clock;
  // What to make again of payload that the recording leaves out. Without it open() makes all of it again first.
  std::shared_ptr<const RestoringTables> restoring;
  // Infers what nobody has of it. Without it open() fails if there is such payload.
  Infer infer;
  // Use no filter of system calls. Only for trusted recordings, where the kernel has no seccomp filters.
  bool unconfined = false;
};

// Why a function that the debugger called will not return.
struct CallFailure {
  std::string how;   // "crashed", "blocked" or "looped"
  std::string text;  // the predicate of a sentence: "raised SIGSEGV at ..."
};

class MemoryGuard;
struct RecordedEnd;

class ReplaySession {
  friend class SavedCheckpoint;

 public:
  static Result<std::unique_ptr<ReplaySession>> open(const std::string& recording, ReplayOptions options);
  ~ReplaySession();

  // Rebuilds all processes; the group then stands at its start. open() has done so once. If what they are made of
  // cannot be read any more, fails before anything has changed.
  Result<void> restart();
  Result<void> check_can_rebuild() const;

  // Keeps the state of the group, to come back to it by restore(). Stops all threads of the group, which goes on with
  // the next run. Fails with unsupported where the state cannot be kept; a moment later it can be.
  Result<std::unique_ptr<GroupCheckpoint>> checkpoint();
  // Brings the group back to the cut at which the checkpoint was made. Nodes that stand elsewhere get new processes:
  // on_node_leaves is called for each as it is now, and on_node_started as it is then. Breakpoints and watches of a new
  // process are as they were then, so the owner must set its own. For the others on_node_stands is called. If it fails
  // before the group has changed, the group stands where it was; otherwise only restart() helps.
  Result<void> restore(const GroupCheckpoint& checkpoint);

  // Runs until something happens that the caller must know. The end of a node is reported only if `report_node_ends` is
  // set; in `clock` order, nothing after that end has happened then. In `clock` order the calling thread stays bound to
  // the nodes' processor for the next run, until leave_processor().
  Result<Stop> run();
  void leave_processor() { together_.reset(); }
  // Messages for the user about this replay, each returned once: which nodes were added, and what this machine slows
  // down.
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }
  void add_notice(std::string notice) { notices_.push_back(std::move(notice)); }
  bool report_node_ends = false;
  // If set, run() returns a stop of the kind `interrupt` soon after this time, provided that something interrupts its
  // waitpid (see Alarm in core/debug/runner.cc).
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // A pause that the caller of run() does not notice: when `pause_at` has passed, run() stops the group at a consistent
  // cut, calls on_pause, and goes on. Only in `clock` order, and soon after that time only if something interrupts the
  // session's waitpid. on_pause must change pause_at.
  std::optional<std::chrono::steady_clock::time_point> pause_at;
  std::function<void()> on_pause;
  // Executes one instruction of a thread. System calls are executed completely; other nodes follow in the recorded
  // order. At a stop of another thread for which `passes` returns true the group goes on at once; `passes` must not run
  // anything itself.
  Result<Stop> step(NodeId node, ThreadId thread, const std::function<bool(const Stop&)>& passes = {});
  // Runs one thread alone for a function call of the debugger, until it stops or for at most `timeout_ms`. If the
  // function returns, the thread stops with the signal that its return address raises. If it never will, call_failure()
  // tells why.
  Result<Stop> run_detour(NodeId node, ThreadId thread, int timeout_ms);
  const std::optional<CallFailure>& call_failure() const { return call_failure_; }
  void interrupt();
  bool interrupt_waits() const { return interrupt_; }  // one has come that run() has not answered yet
  void clear_interrupt() { interrupt_ = false; }

  const Recording& recording() const { return recording_; }
  const Schedule& schedule() const { return schedule_; }
  // A directory for files and sockets that others find by name. It is removed with the session.
  const std::string& directory() const { return directory_.path(); }
  SyncMode sync() const { return options_.sync; }
  // The new order takes effect with restart(), which must follow.
  void set_sync(SyncMode sync) { options_.sync = sync; }
  const std::vector<NodeId>& nodes() const { return ids_; }
  ReplayNode* find(NodeId id);
  Result<ReplayNode*> node(NodeId id);      // or a clear error
  Result<ReplayNode*> readable(NodeId id);  // or an error if it has not started
  bool all_ended() const;
  // Whether the group stands where a run from elsewhere comes by, too: each live node is in its own code, or waits
  // before its next event. Otherwise one is in the middle of an event. Stops all threads of the group. False in other
  // orders than `clock`.
  bool is_between_events();
  // Whether nothing has run since the processes were rebuilt.
  bool is_at_start() const { return !at_.moved; }
  // Grows whenever something may have run or was rebuilt: while it stays the same, the group stands where it stood.
  uint64_t moves() const { return moves_; }
  const Divergence* divergence() const { return at_.divergence.get(); }
  // Why the replay cannot continue, if the reason is not in the recording. Every run then returns this.
  const std::optional<Stop>& failure() const { return at_.failure; }

  // The position of a node, after its last event.
  Mark mark(NodeId id);
  // The logical time of a node: of its last event, or of its end.
  LogicalTime time(NodeId id);
  // The end of a node that has ended as recorded; otherwise null.
  const EndPlace* end_reached(NodeId id);
  int64_t realtime_ns(NodeId id);
  uint64_t events_done();  // by all nodes
  // The event at whose entry the node waits for its turn, read from shared memory; as long as it stays the same, the
  // node has not moved. None if the node may be at another place: it was stopped on its way, it runs, or the order is
  // not `clock`.
  std::optional<uint64_t> waits_at(NodeId id) const;

  // Parks the node before this event; ~0: never.
  Result<void> stop_at(NodeId id, uint64_t event);

  // Hash of all memory that the program can write, without the stacks below the stack pointers. Equal states have equal
  // hashes.
  Result<uint64_t> state_hash(NodeId id);

  // The file with the bytes that ReplayOptions::restoring names, and where they begin.
  std::pair<int, uint64_t> exchanged() const { return {memory_->fd(), memory_->exchanged_at()}; }
  // What the call of this event reads from memory is not compared with the recording, as it depends on payload that
  // nobody has. Only for nodes of RestoringTables::may_be_unchecked, once for each event, while nothing runs.
  void leave_unchecked(NodeId id, uint64_t event) { memory_->leave_unchecked(slot_of(id), event); }

  // Called when a node's process exists and breakpoints can be set in it. A forked node is still identical to its
  // parent, which stands at the fork.
  std::function<void(ReplayNode&)> on_node_started;
  // Called by restore(): for each node that will have another process, or whose shared memory will change, and for each
  // that has stayed as it was.
  std::function<void(ReplayNode&)> on_node_leaves, on_node_stands;
  // Called with the output that a called function writes to standard output or standard error.
  std::function<void(NodeId, std::string_view)> on_call_output;

 private:
  explicit ReplaySession(Recording recording, ReplayOptions options);
  Result<void> choose_nodes();
  Result<void> restore_first();
  // Whether traces may leave out payload: while it is made again.
  TraceReader::Gaps gaps() const { return options_.restoring ? TraceReader::Gaps::allow : TraceReader::Gaps::refuse; }
  Result<void> add_sharers();
  void tell_what_was_noted();
  Result<void> build_all();
  Result<void> offer_object(ReplayNode& node, uint64_t object);
  Result<void> build_node(ReplayNode& node);
  Result<void> tell_shim(ReplayNode& node);
  void give_up_orphans();
  Result<void> run_to_start(ReplayNode& node);
  Result<void> make_threads_of_image(ReplayNode& node);
  std::optional<Stop> compare_with_next_part(ReplayNode& node, ReplayNode::Thread& thread, ThreadId id);
  std::optional<Stop> resume_all();
  bool resume_thread(ReplayNode& node, ReplayNode::Thread& thread);
  void resume_node(ReplayNode& node);
  void go_on(ReplayNode& node, ReplayNode::Thread& thread);
  std::optional<Stop> handle(pid_t tid, int status);
  std::optional<Stop> handle_status(pid_t tid, int status);
  std::optional<Stop> tell_sharers(ReplayNode& node, Result<std::vector<Stop>> stops);
  std::optional<Stop> follow_shared(ReplayNode& standing, ThreadId thread, ReplayNode* made = nullptr);
  std::optional<Stop> shared_changed(ReplayNode& node, ReplayNode::Thread& thread, bool mapped);
  std::optional<Stop> handle_held();
  std::optional<Stop> handle_new(pid_t tid, int status);
  std::optional<Stop> handle_event(ReplayNode& node, ReplayNode::Thread& thread, int status);
  std::optional<Stop> handle_signal(ReplayNode& node, ReplayNode::Thread& thread, int signal);
  std::optional<Stop> handle_trap(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct& registers);
  // in stepping.cc
  Result<std::optional<Stop>> step_in_place(ReplayNode& node, ReplayNode::Thread& thread, Addr pc);
  Result<Stop> run_step(ReplayNode& node, const ReplayNode::Thread& thread, Addr back,
                        const std::function<bool(const Stop&)>& passes);
  // in spin.cc
  Result<void> expect_spin(ReplayNode& node);
  static Result<void> stop_at_spin(ReplayNode& node);
  static bool is_spin(const BreakpointOwner& owner);
  Result<bool> yield_at_spin(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct& r);
  // What a SIGTRAP means with respect to debug registers.
  enum class DebugTrap {
    not_ours,  // no debug register caused it
    in_vain,   // one did, but nothing that is watched has changed
    hit,
  };
  Result<DebugTrap> debug_trap(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct registers, Stop& stop);
  std::optional<Stop> handle_shim_trap(ReplayNode& node, ReplayNode::Thread& thread);
  std::optional<Stop> handle_fault(ReplayNode& node, ReplayNode::Thread& thread, const siginfo_t& info);
  Stop die(ReplayNode& node, const ReplayNode::Thread& thread, int signal, Addr pc);
  std::optional<Stop> handle_exit(ReplayNode& node, pid_t tid, int status);
  std::optional<Stop> end_node(ReplayNode& node, ThreadId thread, NodeOutcome outcome);
  Stop fail_node(ReplayNode& node, ThreadId thread, std::string reason);
  std::optional<Stop> find_killed();
  Result<void> check_progress() const;
  ReplayNode* forked_now(const ReplayNode& parent);
  static void end_process(pid_t pid);
  Result<std::optional<int>> run_to_fork_trap(const ReplayNode& parent, pid_t pid, bool waiting);
  std::optional<Stop> take_fork(ReplayNode& parent, ReplayNode::Thread& thread, pid_t pid, bool waiting);
  std::optional<Stop> adopt_fork(ReplayNode& parent, ReplayNode& child, pid_t pid);
  // in requests.cc
  Result<std::optional<UniqueFd>> wanted_file(ReplayNode& node, const std::string& path) const;
  Result<std::optional<UniqueFd>> wanted_descriptor(ReplayNode& node, const siginfo_t& info,
                                                    const user_regs_struct& registers);
  Result<int64_t> answer_to(ReplayNode& node, const ReplayNode::Thread& thread, const siginfo_t& info,
                            const user_regs_struct& registers);
  std::optional<Stop> answer_refused_call(ReplayNode& node, ReplayNode::Thread& thread, const siginfo_t& info);
  void forget_unmapped();
  static std::unexpected<Error> refused_to(const ReplayNode& node, const std::string& what);
  static std::string path_of_object(const UniqueFd& object);
  // in calls.cc
  Stop give_up_call(ReplayNode& node, ReplayNode::Thread& thread, CallFailure failure);
  CallFailure describe_waiting(const ReplayNode::Thread& thread) const;
  std::optional<CallFailure> native_call(ReplayNode& node, ReplayNode::Thread& thread);
  Stop diverge(ReplayNode& node, const ReplayNode::Thread& thread, Divergence divergence);
  RecordedEnd recorded_end(const ReplayNode& node) const;
  Result<void> stop_group();
  Stop stop_of(Stop::Kind kind, ReplayNode& node, const ReplayNode::Thread& thread);
  // An interrupt, or a deadline, that run() has not answered yet.
  struct Interrupt {
    bool asked = false;
    std::optional<std::chrono::steady_clock::time_point> again, last;  // when to look again, at the latest
    std::chrono::microseconds wait{100};  // until then: a node is in the middle of an event for some microseconds
    std::optional<Alarm> alarm;
  };
  bool is_interrupted(Interrupt& interrupt);
  Result<std::optional<Stop>> stop_interrupted(Interrupt& interrupt);
  bool goes_on(Interrupt& interrupt);
  static bool moves_soon(ReplayNode* node);
  bool is_between_events(ReplayNode& node);
  ReplayNode* at_work();
  Stop stopped_on_its_way(Stop stop);
  Stop finish(Stop stop);
  size_t slot_of(NodeId id) const;
  ThreadId number_of(ReplayNode& node, ReplayNode::Thread& thread);
  // in checkpoint.cc
  static Result<void> check_can_be_kept(ReplayNode& node);
  static Result<void> keep_threads(ReplayNode& node, GroupCheckpoint::Node& kept);
  static Result<void> keep_node(ReplayNode& node, GroupCheckpoint::Node& kept);
  static bool stands_as_kept(ReplayNode& node, const GroupCheckpoint::Node& kept);
  static Result<void> arm_dispatch(ReplayNode& node, pid_t tid);
  static Result<void> make_threads(ReplayNode& node, const std::vector<GroupCheckpoint::Thread>& threads);
  static Result<std::shared_ptr<ReplayNode>> revive(const GroupCheckpoint::Node& kept);
  static Result<void> put_back(ReplayNode& node, const GroupCheckpoint::Node& kept);
  void discard();
  void gather();

  Recording recording_;
  ReplayOptions options_;
  int processor_ = -1;  // the processor that all threads of the nodes are bound to
  std::optional<OnProcessor> together_;
  std::vector<std::string> notices_;
  bool noticed_ = false;
  Schedule schedule_;
  std::optional<std::vector<HostEdge>> host_edges_;  // computed when `causal` order is first used
  std::vector<NodeId> ids_;
  std::map<NodeId, EndPlace> ends_;
  uint64_t moves_ = 0;
  uint64_t build_ = 0;  // how often restart() has rebuilt the processes
  GroupSnapshot at_;
  std::map<NodeId, std::shared_ptr<ReplayNode>> nodes_;
  std::map<pid_t, ReplayNode*> by_tid_;
  std::map<pid_t, int> unclaimed_;  // wait status of children that stopped before the parent's event reported them
  std::unique_ptr<ScheduleMemory> memory_;
  std::optional<DescriptorChannel> channel_;
  SharedObjects shared_;
  static constexpr size_t kFewInherited = 64;
  size_t most_inherited_ = kFewInherited;  // of shared_.inherited, before unmapped ones are looked for
  SharedWatches shared_watches_{nodes_};
  std::map<NodeId, std::weak_ptr<const GroupCheckpoint::Node>> kept_;  // of each node, as last made or come back to
  std::optional<CallFailure> call_failure_;                            // of the last run_detour()
  ScratchDirectory directory_;                                         // of directory()
  pid_t group_ = 0;
  pid_t stepped_ = 0;  // the thread that step() has stepped; no other thread may run meanwhile
  std::atomic<bool> interrupt_ = false;
  pid_t thread_ = 0;                           // the tracing thread
  std::unique_ptr<MemoryGuard> memory_guard_;  // declared last, because it may call interrupt() until it is destroyed
};

}  // namespace friday
