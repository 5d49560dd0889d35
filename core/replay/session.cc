#include "core/replay/session.h"
#include "core/replay/causes.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "core/base/counted.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/refusals.h"
#include "core/replay/companions.h"
#include "core/replay/confinement.h"
#include "core/replay/judging.h"
#include "core/replay/memory_guard.h"
#include "core/trace/node_end.h"
#include "core/trace/roll.h"

namespace friday {

using shim::Control;

namespace {

// Installs a handler for SIGURG that does nothing, so that the signal of interrupt() makes waitpid return with EINTR.
void hear_interrupts() {
  struct sigaction now;
  if (sigaction(SIGURG, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL) return;
  now = {};
  now.sa_handler = [](int) {};
  sigaction(SIGURG, &now, nullptr);
}

}  // namespace

ReplaySession::ReplaySession(Recording recording, ReplayOptions options)
    : recording_(std::move(recording)), options_(std::move(options)), thread_(static_cast<pid_t>(syscall(SYS_gettid))) {
  hear_interrupts();
  memory_guard_ = std::make_unique<MemoryGuard>([this] { interrupt(); });
}

ReplaySession::~ReplaySession() { discard(); }

void ReplaySession::discard() {
  memory_guard_->forget_all();
  for (const auto& [pid, status] : unclaimed_) end_process(pid);
  nodes_.clear();
  kept_.clear();
  by_tid_.clear();
  unclaimed_.clear();
  memory_.reset();
  shared_ = {};
  at_ = {};
  shared_watches_.clear();
  group_ = 0;
}

Result<std::unique_ptr<ReplaySession>> ReplaySession::open(const std::string& path, ReplayOptions options) {
  // Absolute, because gdb and the shims open files of the recording from other working directories.
  std::error_code unresolved;
  const std::string absolute = std::filesystem::canonical(path, unresolved).string();
  FRIDAY_TRY(recording, Recording::open(unresolved ? path : absolute));
  std::unique_ptr<ReplaySession> session(new ReplaySession(std::move(recording), std::move(options)));
  FRIDAY_TRY_VOID(session->recording_.check_copies());
  FRIDAY_TRY_VOID(session->choose_nodes());
  if (!session->options_.restoring) FRIDAY_TRY_VOID(session->restore_first());
  auto schedule = Schedule::load_or_compute(session->recording_);
  if (!schedule)
    schedule = Schedule::load_or_compute(session->recording_, session->ids_);  // a node that is not chosen is damaged
  if (!schedule) return std::unexpected(schedule.error());
  session->schedule_ = *std::move(schedule);
  FRIDAY_TRY_VOID(session->add_sharers());
  session->schedule_ = session->schedule_.restricted_to(session->ids_);
  session->ids_ = session->schedule_.nodes();
  session->tell_what_was_noted();
  session->ends_ = places_of_ends(session->recording_, session->schedule_);
  FRIDAY_TRY(directory, ScratchDirectory::make());
  session->directory_ = std::move(directory);
  FRIDAY_TRY(channel, DescriptorChannel::make());
  session->channel_ = std::move(channel);
  FRIDAY_TRY_VOID(session->build_all());
  return session;
}

// Makes payload again that the recording leaves out of the nodes that are to be replayed, those that share memory with
// them included.
Result<void> ReplaySession::restore_first() {
  const auto is_complete = [&](const NodeInfo& node) { return node.problem || node.is_complete(); };
  if (std::ranges::all_of(recording_.nodes(), is_complete)) return {};
  std::set<NodeId> needed(ids_.begin(), ids_.end());
  if (const auto order = Schedule::load_or_compute(recording_)) {  // else the nodes chosen have an order of their own
    FRIDAY_TRY_VOID(add_memory_sharers(recording_, *order, needed));
  }
  if (std::ranges::all_of(needed, [&](NodeId id) { return is_complete(*recording_.find(id)); })) return {};
  FRIDAY_TRY(restored,
             restore_payload(recording_, needed, {options_.library_directory, options_.unconfined, options_.infer}));
  notices_.push_back(
      fmt::format("payload that the recording leaves out was made again: {}", size_text(restored.bytes)));
  if (std::string text = inferred_text(restored); !text.empty()) notices_.push_back(std::move(text));
  FRIDAY_TRY(recording, Recording::open(recording_.path()));
  recording_ = std::move(recording);
  return {};
}

// Whether the program died of a fault before its first event. Then there is nothing but its start image to replay.
static bool crashed_at_once(const Recording& recording, const NodeInfo& node) {
  if (node.events || node.end.how != NodeEnd::How::signal) return false;
  auto reader = TraceReader::open(recording, node.id, TraceReader::Gaps::allow);
  // One that was killed may lack a part of its image.
  const auto& header = reader ? reader->header() : format::FileHeader{};
  return header.features & format::kFeatureImage && header.running == format::kFaulted;
}

// A schedule says what was sent and received, but not what the program had in its memory.
static Error is_schedule_only(const Recording& recording, const NodeInfo& node) {
  return {ErrorCode::unsupported,
          fmt::format("{} cannot be replayed: of node {} ({}) only the schedule was kept (`friday record --schedule`), "
                      "what it sent and received. `friday info`, `dump`, `merge` and `compare` work on it; record it "
                      "without --schedule for a replay",
                      recording.path(), node.id, node.name)};
}

Result<void> ReplaySession::choose_nodes() {
  std::set<NodeId> chosen(options_.nodes.begin(), options_.nodes.end());
  std::vector<const NodeInfo*> schedules;
  if (chosen.empty())
    for (const auto& node : recording_.nodes()) {
      // A damaged node must not be left out silently. To replay without it, the user names the others with --node.
      if (node.problem) return std::unexpected(*node.problem);
      if (node.schedule) schedules.push_back(&node);
      else if (node.events || crashed_at_once(recording_, node)) chosen.insert(node.id);
    }
  if (chosen.empty() && !schedules.empty()) chosen.insert(schedules.front()->id);  // which is refused below
  else if (!schedules.empty())
    notices_.push_back(fmt::format("left out, since only schedules were kept of them: {}, such as {} ({})",
                                   counted(schedules.size(), "node"), schedules.front()->id,
                                   printable(schedules.front()->name)));
  FRIDAY_TRY_VOID(add_ancestors(recording_, chosen));
  for (NodeId id : chosen)
    if (const NodeInfo& node = *recording_.find(id); node.schedule)
      return std::unexpected(is_schedule_only(recording_, node));
  ids_.assign(chosen.begin(), chosen.end());
  if (ids_.empty()) return fail(ErrorCode::bad_input, "{} holds no events to replay", recording_.path());
  return {};
}

// What a recorder has noted of a node says where its replay may differ from what happened, though nothing diverges.
// What is said of many nodes is said once.
void ReplaySession::tell_what_was_noted() {
  if (options_.nodes.empty())
    if (std::string text = missing_text(missing_nodes(recording_.path())); !text.empty())
      notices_.push_back(std::move(text));
  std::map<std::string, std::vector<const NodeInfo*>> noted;
  for (NodeId id : ids_)
    if (const NodeInfo* node = recording_.find(id); node && !node->notice.empty()) noted[node->notice].push_back(node);
  for (const auto& [text, nodes] : noted) {
    std::string names = fmt::format("{} ({})", nodes.front()->id, nodes.front()->name);
    if (nodes.size() > 1) names += fmt::format(" and {} more", counted(nodes.size() - 1, "node"));
    notices_.push_back(printable(fmt::format("noted while node {} was recorded: {}", names, text)));
  }
}

Result<void> ReplaySession::add_sharers() {
  std::set<NodeId> chosen(ids_.begin(), ids_.end());
  FRIDAY_TRY_VOID(add_memory_sharers(recording_, schedule_, chosen, [&](NodeId added, NodeId sharer) {
    notices_.push_back(fmt::format("node {} ({}) is replayed too: it shares memory with node {} ({})", added,
                                   recording_.find(added)->name, sharer, recording_.find(sharer)->name));
  }));
  ids_.assign(chosen.begin(), chosen.end());
  return {};
}

size_t ReplaySession::slot_of(NodeId id) const {
  return static_cast<size_t>(std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin());
}

Result<void> ReplaySession::restart() {
  FRIDAY_TRY_VOID(check_can_rebuild());
  moves_++;
  build_++;
  discard();
  return build_all();
}

namespace {

std::string death_text(int status) {
  return fmt::format("its process {}, which was not recorded; something on this machine ended it. Replay again",
                     ending_text(status));
}

}  // namespace

// The limit for threads of all nodes together: half of the default kernel.pid_max of 32,768.
constexpr size_t kMostThreads = 16384;

// ---- Running

void ReplaySession::interrupt() {
  interrupt_ = true;
  // waitpid returns with EINTR (hear_interrupts()).
  syscall(SYS_tgkill, getpid(), thread_, SIGURG);
}

bool ReplaySession::resume_thread(ReplayNode& node, ReplayNode::Thread& thread) {
  if (stepped_) return true;
  if (thread.at_breakpoint) {
    thread.at_breakpoint = false;
    // The registers are those of the hit, unless registers of any thread have been set since.
    user_regs_struct r = thread.hit.registers;
    const bool known =
        thread.hit.changes == TracedProcess::register_changes() || TracedProcess::registers(thread.tid, r);
    if (known && node.breakpoints().contains(Addr{r.rip})) {
      auto how = node.breakpoints().step_over(ThreadId{thread.number}, r);
      if (how && *how == StepOver::in_registers) TracedProcess::set_registers(thread.tid, r);
      // If the step wrote to memory that a debug register watches, handle that like a stop of the thread.
      if (thread.debug_hits && !thread.held) thread.held = W_STOPCODE(SIGTRAP);
      if (thread.held) return true;
    }
  }
  node.load_debug_slots(thread);
  thread.stopped = false;
  const int signal = std::exchange(thread.deliver, 0);
  return ptrace(thread.detour ? PTRACE_SYSCALL : PTRACE_CONT, thread.tid, 0, signal) == 0;
}

// Returns a stop (a failure) if the watches of a node cannot be put into effect; then that node does not run.
std::optional<Stop> ReplaySession::resume_all() {
  if (auto followed = shared_watches_.follow(notices_); !followed)
    return fail_node(*nodes_.begin()->second, ThreadId{0}, followed.error().message);
  for (auto& [id, node] : nodes_) {
    if (node->state() != NodeState::live) continue;
    if (auto flushed = node->flush_watches(); !flushed)
      return fail_node(*node, node->current(), flushed.error().message);
    resume_node(*node);
  }
  return std::nullopt;
}

// Continues a run after a stop that is not reported. All threads of the node are resumed, because handling the stop may
// have stopped them too; in a detour, only the thread that executes it.
void ReplaySession::go_on(ReplayNode& node, ReplayNode::Thread& thread) {
  if (thread.detour) (void)resume_thread(node, thread);
  else resume_node(node);
}

void ReplaySession::resume_node(ReplayNode& node) {
  for (auto& [tid, thread] : node.threads_by_tid())
    if (thread.stopped && !thread.held && !thread.detour) resume_thread(node, thread);
}

bool ReplaySession::all_ended() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n.second->state() == NodeState::ended; });
}

// Binds all threads of all nodes, and this thread, to the processor that this thread runs on. In `clock` order either
// one thread of the group or the tracer runs, and a stop costs a third as much if both are on one processor. The
// binding lasts for several runs, because setting and resetting it at each stop would add a fifth to a stop.
void ReplaySession::gather() {
  if (together_ && together_->thread() == gettid()) return;
  together_.reset();
  const int here = sched_getcpu();
  together_.emplace(here);
  if (!together_->pinned() && nodes_.size() > 1 && !std::exchange(noticed_, true))
    notices_.push_back(describe_refusal(Refusal::affinity, strerror(errno)));
  if (!together_->pinned() || processor_ == here) return;
  processor_ = here;
  const cpu_set_t one = only(here);
  for (auto& [id, node] : nodes_)
    for (auto& [tid, thread] : node->threads_by_tid()) (void)sched_setaffinity(tid, sizeof one, &one);
}

Result<Stop> ReplaySession::run() {
  at_.moved = true;
  moves_++;
  at_.in_turn.reset();
  if (at_.divergence)
    return Stop{.kind = Stop::Kind::divergence, .node = at_.divergence->node, .divergence = at_.divergence};
  if (at_.failure) return *at_.failure;
  if (!at_.pending.empty()) {
    Stop next = std::move(at_.pending.front());
    at_.pending.pop_front();
    return stopped_on_its_way(std::move(next));
  }
  if (all_ended()) return Stop{.kind = Stop::Kind::end};
  if (options_.sync == SyncMode::clock) gather();
  for (NodeId id : std::exchange(at_.ended_now, {})) memory_->finish(slot_of(id));
  if (auto stop = resume_all()) return *stop;
  Interrupt interrupt;
  for (;;) {
    if (is_interrupted(interrupt)) {
      FRIDAY_TRY(stop, stop_interrupted(interrupt));
      if (stop) return std::move(*stop);
    }
    if (pause_at && options_.sync == SyncMode::clock && std::chrono::steady_clock::now() >= *pause_at) {
      FRIDAY_TRY_VOID(stop_group());
      on_pause();
      if (auto stop = resume_all()) return *stop;
    }
    if (auto stop = handle_held()) return stopped_on_its_way(std::move(*stop));
    if (auto stop = find_killed()) return *stop;
    FRIDAY_TRY_VOID(check_progress());
    int status;
    memory_guard_->waits();
    const pid_t tid = waitpid(-group_, &status, __WALL);
    const int error = errno;
    memory_guard_->waits();
    errno = error;
    if (tid < 0) {
      if (errno == EINTR) continue;
      if (errno == ECHILD)
        return fail(ErrorCode::component_died,
                    "all processes of the replay are gone; something on this machine ended them. Replay again");
      return fail_errno(errno, "cannot wait for the processes of the nodes");
    }
    if (auto stop = handle_new(tid, status)) return stopped_on_its_way(std::move(*stop));
  }
}

// Whether it is time to stop the group, because somebody has interrupted it or its deadline has passed.
bool ReplaySession::is_interrupted(Interrupt& interrupt) {
  const auto now = std::chrono::steady_clock::now();
  interrupt.asked = interrupt.asked || interrupt_.load() || (deadline && now >= *deadline);
  return interrupt.asked && (!interrupt.again || now >= *interrupt.again);
}

// Stops the group for an interrupt. None if it goes on to a better place, and will be stopped again there.
Result<std::optional<Stop>> ReplaySession::stop_interrupted(Interrupt& interrupt) {
  FRIDAY_TRY_VOID(stop_group());
  ReplayNode* any = at_work();
  Stop stop{.kind = Stop::Kind::interrupt};
  if (any) stop.node = any->id(), stop.thread = any->current();
  if (any && memory_guard_->exceeded()) stop = fail_node(*any, stop.thread, memory_guard_->describe());
  else if (any && memory_guard_->stand_still())
    stop = fail_node(*any, stop.thread,
                     "all nodes wait for each other, so the order of this recording cannot be followed; the recording "
                     "is damaged, or its code is not what was recorded. Copy it again");
  else if (goes_on(interrupt)) return resume_all();
  if (interrupt_.exchange(false)) deadline.reset();  // an interrupt is reported rather than the deadline
  return std::optional(std::move(stop));
}

// Whether an interrupted group goes on for a moment, because a run from elsewhere would not come by the place where it
// stands.
bool ReplaySession::goes_on(Interrupt& interrupt) {
  using namespace std::chrono_literals;
  constexpr auto kLongest = 1s;
  constexpr auto kLongestWait = 20ms;
  if (options_.sync != SyncMode::clock || (is_between_events() && !moves_soon(at_work()))) return false;
  const auto now = std::chrono::steady_clock::now();
  if (!interrupt.last) interrupt.last = now + kLongest;
  if (now >= *interrupt.last) return false;
  interrupt.again = now + interrupt.wait;
  if (!interrupt.alarm) interrupt.alarm.emplace();
  interrupt.alarm->set(interrupt.wait);
  interrupt.wait =
      std::min<std::chrono::microseconds>(2 * interrupt.wait, kLongestWait);  // a busy machine needs longer
  return true;
}

// Whether the node that is at work stands between two events, but at no place of its own: it waits in the shim for its
// first instruction, or is in the middle of an instruction that repeats itself.
bool ReplaySession::moves_soon(ReplayNode* node) {
  if (!node) return false;
  const ReplayNode::Thread* thread = node->thread_of(node->current());
  user_regs_struct r;
  if (!thread || !TracedProcess::registers(thread->tid, r)) return false;
  if (node->in_shim(r.rip)) return !node->call_site(node->current());
  const auto pc = node->program_counter(node->current());
  return pc && *pc && node->repeats_at(Addr{*pc});
}

bool ReplaySession::is_between_events() {
  if (options_.sync != SyncMode::clock || stepped_ || !stop_group()) return false;
  return std::ranges::all_of(
      nodes_, [&](auto& each) { return each.second->state() != NodeState::live || is_between_events(*each.second); });
}

bool ReplaySession::is_between_events(ReplayNode& node) {
  const ReplayNode::Thread* thread = node.thread_of(node.current());
  user_regs_struct r;
  if (!thread || !TracedProcess::registers(thread->tid, r) || !node.refresh_control()) return false;
  const Control& control = node.control();
  if (node.in_shim(r.rip)) {
    const bool waits = r.rip == control.trap_instruction + 1 &&
                       (control.trap_reason == shim::kTrapStopEvent || control.trap_reason == shim::kTrapStarted);
    // Otherwise it sleeps on the progress of another node, or is just being woken (pass_gates() in
    // core/shim/replay.cc).
    return waits || ScheduleMemory::is_progress(r.rdi);
  }
  return !thread->held && !ReplayNode::in_patched_store(r.rip) && !node.passages().contains(Addr{r.rip});
}

// The node that an interrupt has found at work: one whose thread is in its own code, or else the one whose event is
// next. Null if no node is live.
ReplayNode* ReplaySession::at_work() {
  ReplayNode* any = nullptr;
  for (auto& [id, node] : nodes_) {
    if (node->state() != NodeState::live) continue;
    if (!any) any = node.get();
    user_regs_struct r;
    const ReplayNode::Thread* thread = node->thread_of(node->current());
    if (thread && TracedProcess::registers(thread->tid, r) && !node->in_shim(r.rip)) return node.get();
  }
  const uint64_t done = events_done();
  if (any && done < schedule_.event_count())
    if (ReplayNode* next = find(schedule_.at_position(done).node); next->state() == NodeState::live) return next;
  return any;
}

// Finishes a stop of run(). A node that hits a breakpoint or a watch in its own code has its turn.
Stop ReplaySession::stopped_on_its_way(Stop stop) {
  if (options_.sync == SyncMode::clock && (stop.kind == Stop::Kind::breakpoint || stop.kind == Stop::Kind::watch))
    at_.in_turn = stop.writer ? stop.writer->node : stop.node;
  return finish(std::move(stop));
}

Stop ReplaySession::finish(Stop stop) {
  // In `clock` order the other nodes already wait at their gates.
  if (options_.sync != SyncMode::clock && stop.kind != Stop::Kind::end) (void)stop_group();
  return stop;
}

Result<void> ReplaySession::stop_group() {
  for (auto& [id, node] : nodes_)
    if (node->state() == NodeState::live) FRIDAY_TRY_VOID(node->stop_threads());
  return {};
}

std::optional<Stop> ReplaySession::handle_held() {
  for (auto& [id, node] : nodes_)
    for (auto& [tid, thread] : node->threads_by_tid())
      if (thread.held && !thread.detour && node->state() == NodeState::live) {
        const int status = *std::exchange(thread.held, std::nullopt);
        if (auto stop = handle(tid, status)) return stop;
        return handle_held();
      }
  return std::nullopt;
}

// Handles a stop that has just arrived.
std::optional<Stop> ReplaySession::handle_new(pid_t tid, int status) {
  if (const auto owner = by_tid_.find(tid); owner != by_tid_.end() && WIFSTOPPED(status))
    owner->second->note_debug_status(*owner->second->thread_of(tid), status);
  return handle(tid, status);
}

std::optional<Stop> ReplaySession::handle(pid_t tid, int status) {
  auto stop = handle_status(tid, status);
  if (!stop || stop->kind != Stop::Kind::watch) return stop;
  ReplayNode& node = *find(stop->node);
  auto told = tell_sharers(node, shared_watches_.judge(std::move(*stop), node));
  if (!told)
    if (ReplayNode::Thread* thread = node.thread_of(tid)) go_on(node, *thread);
  return told;
}

// Returns the first of several stops that one store caused, and keeps the others for the next runs.
std::optional<Stop> ReplaySession::tell_sharers(ReplayNode& node, Result<std::vector<Stop>> stops) {
  if (!stops) return fail_node(node, node.current(), stops.error().message);
  if (stops->empty()) return std::nullopt;
  Stop first = std::move(stops->front());
  at_.pending.insert(at_.pending.end(), std::make_move_iterator(stops->begin() + 1),
                     std::make_move_iterator(stops->end()));
  return first;
}

// Call after a node has mapped a shared object (`mapped`), or after its system call has changed the contents of one.
std::optional<Stop> ReplaySession::shared_changed(ReplayNode& node, ReplayNode::Thread& thread, bool mapped) {
  if (mapped) {
    shared_watches_.note_mapping();
    if (auto failed = follow_shared(node, ThreadId{thread.number})) return failed;
  }
  Stop at = stop_of(Stop::Kind::watch, node, thread);
  at.pc = Addr{node.call_site(ThreadId{thread.number})};
  return tell_sharers(node, shared_watches_.look_at_all(at, node));
}

std::optional<Stop> ReplaySession::handle_status(pid_t tid, int status) {
  auto owner = by_tid_.find(tid);
  if (owner == by_tid_.end()) {
    if (WIFSTOPPED(status)) unclaimed_[tid] = status;
    else unclaimed_.erase(tid);
    return std::nullopt;
  }
  ReplayNode& node = *owner->second;
  if (!WIFSTOPPED(status)) return handle_exit(node, tid, status);
  ReplayNode::Thread& thread = *node.thread_of(tid);
  thread.stopped = true;
  if (status >> 16) return handle_event(node, thread, status);
  return handle_signal(node, thread, WSTOPSIG(status));
}

std::optional<Stop> ReplaySession::handle_event(ReplayNode& node, ReplayNode::Thread& thread, int status) {
  const int event = status >> 16;
  unsigned long message = 0;
  ptrace(PTRACE_GETEVENTMSG, thread.tid, 0, &message);
  const pid_t child = static_cast<pid_t>(message);
  if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) {
    const bool waiting = unclaimed_.erase(child);
    if (event == PTRACE_EVENT_CLONE) {
      if (by_tid_.size() == kMostThreads)
        return fail_node(node, ThreadId{thread.number},
                         refused_to(node, fmt::format("made more threads than the {} that there may be", kMostThreads))
                             .error()
                             .message);
      node.add_thread(child);
      by_tid_[child] = &node;
      node.thread_of(child)->stopped = waiting;
      if (waiting) resume_thread(node, *node.thread_of(child));
    } else if (auto stop = take_fork(node, thread, child, waiting)) {
      return stop;
    }
  }
  if (event == PTRACE_EVENT_STOP) thread.requested = false;
  resume_thread(node, thread);
  return std::nullopt;
}

// A process has forked `pid`: adopts the child as its node, or ends the child if that node is not replayed.
std::optional<Stop> ReplaySession::take_fork(ReplayNode& parent, ReplayNode::Thread& thread, pid_t pid, bool waiting) {
  auto ended = run_to_fork_trap(parent, pid, waiting);
  if (ended && !*ended && parent.count_fork() > schedule_.event_count(parent.id()))
    ended = refused_to(parent, "forked more often than it has events");
  if (!ended) {
    end_process(pid);
    return fail_node(parent, ThreadId{thread.number}, ended.error().message);
  }
  ReplayNode* forked = forked_now(parent);
  if (*ended) return forked ? std::optional(fail_node(*forked, ThreadId{0}, death_text(**ended))) : std::nullopt;
  if (forked) return adopt_fork(parent, *forked, pid);
  end_process(pid);
  return std::nullopt;
}

std::optional<Stop> ReplaySession::handle_exit(ReplayNode& node, pid_t tid, int status) {
  by_tid_.erase(tid);
  const bool leader = node.has_process() && tid == node.process().pid();
  node.remove_thread(tid);
  if (leader) node.process().note_end(status);
  return std::nullopt;  // if the process is gone, find_killed() notices
}

// Fails a live node whose process has ended. The replay ends no process: at the recorded end of a node its process is
// stopped, not ended.
std::optional<Stop> ReplaySession::find_killed() {
  for (auto& [id, node] : nodes_)
    if (const auto status = node->killed()) return fail_node(*node, ThreadId{0}, death_text(*status));
  return std::nullopt;
}

// Fails if no node is live but some still wait to be forked, because only a live node can fork them.
Result<void> ReplaySession::check_progress() const {
  const ReplayNode* waiting = nullptr;
  for (const auto& [id, node] : nodes_) {
    if (node->state() == NodeState::live) return {};
    if (node->state() == NodeState::waiting && !waiting) waiting = node.get();
  }
  if (!waiting) return {};
  return fail(ErrorCode::bad_input,
              "node {} ({}) cannot be replayed: the recording of its parent, node {}, ends before the fork; choose "
              "nodes without it (--node)",
              waiting->id(), waiting->info().name, waiting->info().parent.value_or(NodeId{}));
}

// Fails a node, and with it the replay, for a reason that is not in the recording. No other node may continue: they
// would wait for this one, or run without what it does next.
Stop ReplaySession::fail_node(ReplayNode& node, ThreadId thread, std::string reason) {
  if (node.has_process() && node.process().is_gone()) {  // the cause of whatever `reason` reports
    node.process().kill();
    if (const auto status = node.process().end_status()) reason = death_text(*status);
  }
  node.end({NodeOutcome::How::failed, 0, reason});
  (void)stop_group();
  at_.failure = Stop{.kind = Stop::Kind::failure,
                     .node = node.id(),
                     .thread = thread,
                     .message = fmt::format("node {} ({}) failed: {}", node.id(), node.info().name, reason)};
  return *at_.failure;
}

std::optional<Stop> ReplaySession::end_node(ReplayNode& node, ThreadId thread, NodeOutcome outcome) {
  node.end(std::move(outcome));
  FRIDAY_LOG(replay, info, "node {} {} ends after {}", node.id(), node.info().name,
             counted(node.events_done(), "event"));
  if (report_node_ends) at_.ended_now.push_back(node.id());
  else memory_->finish(slot_of(node.id()));
  const auto kind = judge_end(report_node_ends, all_ended());
  if (!kind) return std::nullopt;
  return Stop{.kind = *kind, .node = node.id(), .thread = thread};
}

Stop ReplaySession::diverge(ReplayNode& node, const ReplayNode::Thread& thread, Divergence divergence) {
  divergence.causes = possible_causes(recording_, schedule_, node.reader(), divergence.event);
  at_.divergence = std::make_shared<const Divergence>(std::move(divergence));
  Stop stop = stop_of(Stop::Kind::divergence, node, thread);
  node.end({NodeOutcome::How::diverged, 0, ""});  // `thread` may be gone then
  stop.divergence = at_.divergence;
  return stop;
}

ThreadId ReplaySession::number_of(ReplayNode& node, ReplayNode::Thread& thread) {
  if (thread.number == ~0u) node.number_threads();
  return {thread.number};
}

Stop ReplaySession::stop_of(Stop::Kind kind, ReplayNode& node, const ReplayNode::Thread& thread) {
  Stop stop;
  stop.kind = kind;
  stop.node = node.id();
  stop.thread = {thread.number};
  return stop;
}

// ---- Questions

ReplayNode* ReplaySession::find(NodeId id) {
  auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : it->second.get();
}

Result<ReplayNode*> ReplaySession::node(NodeId id) {
  if (ReplayNode* found = find(id)) return found;
  if (recording_.find(id))
    return fail(ErrorCode::not_found, "node {} is in the recording but is not replayed; name it with --node", id);
  return fail(ErrorCode::not_found, "there is no node {}; the recording has {} (info nodes lists them)", id,
              counted(recording_.nodes().size(), "node"));
}

Result<ReplayNode*> ReplaySession::readable(NodeId id) {
  FRIDAY_TRY(found, node(id));
  if (!found->has_process() && found->state() == NodeState::ended)
    return fail(
        ErrorCode::node_ended,
        "node {} had ended before the checkpoint from which the group comes, and its memory is not kept there; go "
        "to an earlier place to read it",
        id);
  if (!found->has_process())
    return fail(ErrorCode::node_not_started, "node {} has not started yet at this point of the replay", id);
  return found;
}

Mark ReplaySession::mark(NodeId id) {
  ReplayNode* found = find(id);
  return {id, {found ? found->events_done() : 0}};
}

const EndPlace* ReplaySession::end_reached(NodeId id) {
  ReplayNode* found = find(id);
  if (!found || !found->has_ended_as_recorded()) return nullptr;
  auto end = ends_.find(id);
  return end == ends_.end() ? nullptr : &end->second;
}

LogicalTime ReplaySession::time(NodeId id) {
  if (const EndPlace* end = end_reached(id)) return end->time;
  uint64_t done = mark(id).event.value;
  if (done == 0 || done > schedule_.event_count(id)) return {0, 0, id, 0};
  return schedule_.time_of(id, {done - 1});
}

int64_t ReplaySession::realtime_ns(NodeId id) {
  uint64_t done = mark(id).event.value;
  uint64_t count = schedule_.event_count(id);
  if (count == 0) return 0;
  const EventIndex last{done == 0 ? 0 : std::min(done, count) - 1};
  const EndPlace* end = end_reached(id);
  return schedule_.realtime_ns(id, last) + (end ? end->time.l - schedule_.time_of(id, last).l : 0);
}

std::optional<uint64_t> ReplaySession::waits_at(NodeId id) const {
  if (!at_.in_turn || *at_.in_turn == id) return std::nullopt;
  return memory_->done(slot_of(id));
}

uint64_t ReplaySession::events_done() {
  uint64_t total = 0;
  for (auto& [id, node] : nodes_) total += node->events_done();
  return total;
}

Result<void> ReplaySession::stop_at(NodeId id, uint64_t event) {
  FRIDAY_TRY(found, readable(id));
  if (!found->set_control(&Control::stop_at_event, event))
    return fail(ErrorCode::component_died, "node {}: its process is gone", id);
  return {};
}

Result<uint64_t> ReplaySession::state_hash(NodeId id) {
  FRIDAY_TRY(found, readable(id));
  if (found->process().is_gone())
    return fail(ErrorCode::component_died, "node {}: its process is gone, so its memory cannot be hashed", id);
  FRIDAY_TRY(maps, found->mappings());
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::vector<std::byte> page(1 << 16);
  for (const auto& map : maps) {
    uint64_t low = map.low;
    // What lies right behind the shim is one mapping with its .bss.
    if (low >= found->shim_low() && low < found->shim_high()) low = found->shim_high();
    if (!(map.protection & PROT_WRITE) || low >= map.high) continue;
    if (map.stack)
      for (const auto& info : found->threads())
        if (auto r = found->registers(info.id); r && r->rsp >= map.low && r->rsp < map.high)
          low = std::max<uint64_t>(low, r->rsp & ~4095ull);
    XXH3_64bits_update(&state, &map.low, 8);
    for (uint64_t at = low; at < map.high; at += page.size()) {
      size_t size = std::min<uint64_t>(page.size(), map.high - at);
      if (found->read(Addr{at}, std::span(page).first(size))) XXH3_64bits_update(&state, page.data(), size);
    }
  }
  return XXH3_64bits_digest(&state);
}

}  // namespace friday
