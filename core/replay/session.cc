#include "core/replay/session.h"

#include <sched.h>
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

#include "core/base/check.h"
#include "core/base/refusals.h"
#include "core/replay/confinement.h"
#include "core/replay/memory_guard.h"
#include "core/trace/node_end.h"

namespace friday {

using shim::Control;

namespace {

// What interrupt() sends is to bring waitpid back, which a signal without a handler does not.
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
  by_tid_.clear();
  unclaimed_.clear();
  memory_.reset();
  shared_.clear();
  divergence_.reset();
  failure_.reset();
  in_turn_.reset();
  ended_now_.clear();
  shared_watches_.clear();
  pending_.clear();
  group_ = 0;
}

Result<std::unique_ptr<ReplaySession>> ReplaySession::open(const std::string& path, ReplayOptions options) {
  // Absolute: gdb and the nodes' shims open its files from elsewhere.
  std::error_code unresolved;
  const std::string absolute = std::filesystem::canonical(path, unresolved).string();
  FRIDAY_TRY(recording, Recording::open(unresolved ? path : absolute));
  std::unique_ptr<ReplaySession> session(new ReplaySession(std::move(recording), std::move(options)));
  FRIDAY_TRY_VOID(session->recording_.check_copies());
  FRIDAY_TRY_VOID(session->choose_nodes());
  auto schedule = Schedule::load_or_compute(session->recording_);
  if (!schedule)
    schedule = Schedule::load_or_compute(session->recording_, session->ids_);  // another node may be damaged
  if (!schedule) return std::unexpected(schedule.error());
  session->schedule_ = *std::move(schedule);
  FRIDAY_TRY_VOID(session->add_sharers());
  session->schedule_ = session->schedule_.restricted_to(session->ids_);
  session->ids_ = session->schedule_.nodes();
  session->ends_ = places_of_ends(session->recording_, session->schedule_);
  FRIDAY_TRY(directory, ScratchDirectory::make());
  session->directory_ = std::move(directory);
  FRIDAY_TRY(channel, DescriptorChannel::make());
  session->channel_ = std::move(channel);
  FRIDAY_TRY_VOID(session->build_all());
  return session;
}

// A program that died of a fault before its first call has no event, but a start, and an end.
static bool crashed_at_once(const Recording& recording, const NodeInfo& node) {
  if (node.events || node.end.how != NodeEnd::How::signal) return false;
  auto reader = TraceReader::open(recording, node.id);
  return reader && (reader->header().features & format::kFeatureImage);
}

Result<void> ReplaySession::choose_nodes() {
  std::set<NodeId> chosen(options_.nodes.begin(), options_.nodes.end());
  if (chosen.empty())
    for (const auto& node : recording_.nodes()) {
      // A damaged node is never left out in silence: name the others with --node to replay without it.
      if (node.problem) return std::unexpected(*node.problem);
      if (node.events || crashed_at_once(recording_, node)) chosen.insert(node.id);
    }
  FRIDAY_TRY_VOID(add_ancestors(chosen));
  ids_.assign(chosen.begin(), chosen.end());
  if (ids_.empty()) return fail(ErrorCode::bad_input, "{} holds no events to replay", recording_.path());
  return {};
}

// A forked node begins as a copy of its parent, so its ancestors are replayed too.
Result<void> ReplaySession::add_ancestors(std::set<NodeId>& chosen) const {
  for (bool more = true; more;) {
    more = false;
    for (NodeId id : chosen) {
      const NodeInfo* info = recording_.find(id);
      if (!info) return fail(ErrorCode::not_found, "node {}: the recording has no such node", id);
      if (info->problem) return std::unexpected(*info->problem);
      if (info->forked && !info->parent)
        return fail(ErrorCode::bad_input,
                    "node {} ({}) begins as a copy of a node that forked it, and the recording does not hold that one: "
                    "choose nodes without it "
                    "(--node), or copy the recording again",
                    id, info->name);
      if (info->parent && chosen.insert(*info->parent).second) {
        more = true;
        break;
      }
    }
  }
  return {};
}

// What a node reads in memory that it shares is what others have stored there, so these are replayed too.
Result<void> ReplaySession::add_sharers() {
  std::set<NodeId> chosen(ids_.begin(), ids_.end());
  for (size_t before = 0; before != chosen.size();) {
    before = chosen.size();
    for (const Edge& edge : schedule_.edges()) {
      if (edge.kind != EdgeKind::turn || chosen.contains(edge.from) == chosen.contains(edge.to)) continue;
      const auto [known, other] =
          chosen.contains(edge.from) ? std::pair(edge.from, edge.to) : std::pair(edge.to, edge.from);
      chosen.insert(other);
      notices_.push_back(fmt::format("node {} ({}) is replayed too: it shares memory with node {} ({})", other,
                                     recording_.find(other)->name, known, recording_.find(known)->name));
    }
    FRIDAY_TRY_VOID(add_ancestors(chosen));
  }
  ids_.assign(chosen.begin(), chosen.end());
  return {};
}

size_t ReplaySession::slot_of(NodeId id) const {
  return static_cast<size_t>(std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin());
}

Result<void> ReplaySession::restart() {
  discard();
  return build_all();
}

namespace {

std::string death_text(int status) {
  if (!WIFSIGNALED(status))
    return fmt::format("its process ended with exit code {}, which the recording does not hold", WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return fmt::format("its process was killed by {}, which the recording does not hold",
                     name ? fmt::format("SIG{}", name) : fmt::format("signal {}", WTERMSIG(status)));
}

// It died at an instruction of its own behind its last event: no replay gets to another event.
bool ended_by_fault(const ReplayNode& node) { return node.reader().header().running == format::kFaulted; }

// Where that was; 0: not known, or in the shim, which goes other ways at replay.
uint64_t place_of_fault(const ReplayNode& node) {
  const uint64_t place = ended_by_fault(node) ? node.reader().header().faulted_at : 0;
  return node.in_shim(place) ? 0 : place;
}

}  // namespace

// Of all nodes together, at a time. A machine has numbers for 32,768 threads as a rule, and others need some.
constexpr size_t kMostThreads = 16384;

// ---- Running

void ReplaySession::interrupt() {
  interrupt_ = true;
  // Brings waitpid back with EINTR; the handler of SIGURG does nothing.
  syscall(SYS_tgkill, getpid(), thread_, SIGURG);
}

bool ReplaySession::resume_thread(ReplayNode& node, ReplayNode::Thread& thread) {
  if (stepped_) return true;
  if (thread.at_breakpoint) {
    thread.at_breakpoint = false;
    // As it was left at the hit, unless the registers of any thread were changed since.
    user_regs_struct r = thread.hit.registers;
    const bool known =
        thread.hit.changes == TracedProcess::register_changes() || TracedProcess::registers(thread.tid, r);
    if (known && node.breakpoints().contains(Addr{r.rip})) {
      auto how = node.breakpoints().step_over(ThreadId{thread.number}, r);
      if (how && *how == StepOver::in_registers) TracedProcess::set_registers(thread.tid, r);
      // What the step wrote, if a debug register watches it, is looked at as if the thread had stopped by itself.
      if (thread.debug_hits && !thread.held) thread.held = W_STOPCODE(SIGTRAP);
      if (thread.held) return true;
    }
  }
  node.load_debug_slots(thread);
  thread.stopped = false;
  const int signal = std::exchange(thread.deliver, 0);
  return ptrace(thread.detour ? PTRACE_SYSCALL : PTRACE_CONT, thread.tid, 0, signal) == 0;
}

// A stop: a node that would run without its watches does not run.
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

// In the middle of a run: whoever asks for the layout of a node stops all its threads.
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

// In clock order one thread of the group runs at a time, and its tracer while it stands: a stop costs a third when both
// are on one processor. Four calls to go there and back at each stop would be a fifth of it.
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
  in_turn_.reset();
  if (divergence_) return Stop{.kind = Stop::Kind::divergence, .node = divergence_->node, .divergence = divergence_};
  if (failure_) return *failure_;
  if (!pending_.empty()) {
    Stop next = std::move(pending_.front());
    pending_.pop_front();
    return stopped_on_its_way(std::move(next));
  }
  if (all_ended()) return Stop{.kind = Stop::Kind::end};
  if (options_.sync == SyncMode::clock) gather();
  for (NodeId id : std::exchange(ended_now_, {})) memory_->finish(slot_of(id));
  if (auto stop = resume_all()) return *stop;
  for (;;) {
    if (interrupt_.exchange(false) || (deadline && std::chrono::steady_clock::now() >= *deadline)) {
      FRIDAY_TRY_VOID(stop_group());
      ReplayNode* any = nullptr;
      for (auto& [id, node] : nodes_)
        if (node->state() == NodeState::live && !any) any = node.get();
      Stop stop;
      stop.kind = Stop::Kind::interrupt;
      if (any) stop.node = any->id(), stop.thread = any->current();
      if (any && memory_guard_->exceeded()) return fail_node(*any, stop.thread, memory_guard_->describe());
      if (any && memory_guard_->stand_still())
        return fail_node(*any, stop.thread,
                         "it waits, as all others do, and none is left that could end that: the order in this "
                         "recording cannot be followed. "
                         "The recording is damaged, or its code is not what was recorded. Copy it again");
      return stop;
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
      if (errno == ECHILD) return fail(ErrorCode::component_died, "every process of the replay is gone");
      return fail_errno(errno, "waiting for the nodes failed");
    }
    if (auto stop = handle(tid, status)) return stopped_on_its_way(std::move(*stop));
  }
}

// What the program's own code runs into, it does in its turn.
Stop ReplaySession::stopped_on_its_way(Stop stop) {
  if (options_.sync == SyncMode::clock && (stop.kind == Stop::Kind::breakpoint || stop.kind == Stop::Kind::watch))
    in_turn_ = stop.writer ? stop.writer->node : stop.node;
  return finish(std::move(stop));
}

Stop ReplaySession::finish(Stop stop) {
  // In `clock` order the others stand at their gates by themselves.
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

std::optional<Stop> ReplaySession::handle(pid_t tid, int status) {
  auto stop = handle_status(tid, status);
  if (!stop || stop->kind != Stop::Kind::watch) return stop;
  ReplayNode& node = *find(stop->node);
  auto told = tell_sharers(node, shared_watches_.judge(std::move(*stop), node));
  if (!told)
    if (ReplayNode::Thread* thread = node.thread_of(tid)) go_on(node, *thread);
  return told;
}

// The first of the stops at those whom a store concerns; the others come next.
std::optional<Stop> ReplaySession::tell_sharers(ReplayNode& node, Result<std::vector<Stop>> stops) {
  if (!stops) return fail_node(node, node.current(), stops.error().message);
  if (stops->empty()) return std::nullopt;
  Stop first = std::move(stops->front());
  pending_.insert(pending_.end(), std::make_move_iterator(stops->begin() + 1), std::make_move_iterator(stops->end()));
  return first;
}

// A node has mapped something shared, or its call has changed the contents of such a thing.
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

// The event of a fork is there: the child becomes its node, or is ended.
std::optional<Stop> ReplaySession::take_fork(ReplayNode& parent, ReplayNode::Thread& thread, pid_t pid, bool waiting) {
  auto ended = run_to_fork_trap(parent, pid, waiting);
  if (ended && !*ended && ++parent.forks > schedule_.event_count(parent.id()))
    ended = refused_to(parent, "forked more often than anything happened");
  if (!ended) {
    end_process(pid);
    return fail_node(parent, ThreadId{thread.number}, ended.error().message);
  }
  ReplayNode* forked = forked_now(parent);
  if (*ended) return forked ? std::optional(fail_node(*forked, ThreadId{0}, death_text(**ended))) : std::nullopt;
  if (forked) return adopt_fork(parent, *forked, pid);
  end_process(pid);  // not wanted
  return std::nullopt;
}

std::optional<Stop> ReplaySession::handle_exit(ReplayNode& node, pid_t tid, int status) {
  by_tid_.erase(tid);
  const bool leader = node.has_process() && tid == node.process().pid();
  node.remove_thread(tid);
  if (leader) node.process().note_end(status);
  return std::nullopt;  // find_killed() looks at it
}

// A node whose process has ended under the replay, which lets none end: what the recording holds of a node's end stops
// its process.
std::optional<Stop> ReplaySession::find_killed() {
  for (auto& [id, node] : nodes_)
    if (const auto status = node->killed()) return fail_node(*node, ThreadId{0}, death_text(*status));
  return std::nullopt;
}

// What has not begun is forked by what runs.
Result<void> ReplaySession::check_progress() const {
  const ReplayNode* waiting = nullptr;
  for (const auto& [id, node] : nodes_) {
    if (node->state() == NodeState::live) return {};
    if (node->state() == NodeState::waiting && !waiting) waiting = node.get();
  }
  if (!waiting) return {};
  return fail(ErrorCode::bad_input,
              "node {} ({}) cannot be replayed: the recording of node {}, which forked it, ends before that call; "
              "choose nodes without it",
              waiting->id(), waiting->info().name, waiting->info().parent.value_or(NodeId{}));
}

// The recording has nothing to do with it, so nobody goes on: others would wait for this node, or do without what it
// did next.
Stop ReplaySession::fail_node(ReplayNode& node, ThreadId thread, std::string reason) {
  if (node.has_process() && node.process().is_gone()) {  // whatever did not succeed, that is why
    node.process().kill();
    if (const auto status = node.process().end_status()) reason = death_text(*status);
  }
  node.end({NodeOutcome::How::failed, 0, reason});
  (void)stop_group();
  failure_ = Stop{.kind = Stop::Kind::failure,
                  .node = node.id(),
                  .thread = thread,
                  .message = fmt::format("node {} ({}) failed: {}", node.id(), node.info().name, reason)};
  return *failure_;
}

std::optional<Stop> ReplaySession::end_node(ReplayNode& node, ThreadId thread, NodeOutcome outcome) {
  node.end(std::move(outcome));
  if (report_node_ends) ended_now_.push_back(node.id());
  else memory_->finish(slot_of(node.id()));
  Stop stop;
  stop.node = node.id();
  stop.thread = thread;
  if (report_node_ends) {
    stop.kind = Stop::Kind::exit;
    return stop;
  }
  if (!all_ended()) return std::nullopt;
  stop.kind = Stop::Kind::end;
  return stop;
}

Stop ReplaySession::diverge(ReplayNode& node, const ReplayNode::Thread& thread, Divergence divergence) {
  divergence.causes = possible_causes(recording_, schedule_, node.id());
  divergence_ = std::make_shared<const Divergence>(std::move(divergence));
  node.end({NodeOutcome::How::diverged, 0, ""});
  Stop stop = stop_of(Stop::Kind::divergence, node, thread);
  stop.divergence = divergence_;
  return stop;
}

// A program that was killed from outside, or whose recording was cut, may get further here than it did.
bool ReplaySession::dies_as_recorded(const ReplayNode& node, int signal) const {
  if (node.events_done() < schedule_.event_count(node.id())) return false;
  const NodeEnd& end = node.info().end;
  if (end.how == NodeEnd::How::signal) return end.detail == signal || end.detail == SIGKILL;
  return end.how != NodeEnd::How::exit && end.how != NodeEnd::How::replaced;
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

// By somebody on this machine; not raised by the kernel for what the thread did.
static bool was_sent(const siginfo_t& info, int signal) { return info.si_signo == signal && info.si_code <= 0; }

std::optional<Stop> ReplaySession::handle_signal(ReplayNode& node, ReplayNode::Thread& thread, int signal) {
  number_of(node, thread);
  siginfo_t info;
  switch (signal) {
    case SIGTRAP: {
      user_regs_struct r;
      if (!TracedProcess::registers(thread.tid, r)) return std::nullopt;
      return handle_trap(node, thread, r);
    }
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL: return handle_fault(node, thread, signal);
    case SIGSYS:  // Syscall User Dispatch: the shim's handler
      if (ptrace(PTRACE_GETSIGINFO, thread.tid, 0, &info) != 0) return std::nullopt;
      if (is_refused_call(info)) return answer_refused_call(node, thread, info);
      if (!was_sent(info, signal)) thread.deliver = SIGSYS;
      break;
    default: break;  // whatever else comes is this machine's, not the recording's
  }
  resume_thread(node, thread);
  return std::nullopt;
}

// An int3 that is there no more: a breakpoint of several nodes was deleted at the stop of one of them, while this trap
// was on its way.
static bool is_late_trap(ReplayNode& node, const ReplayNode::Thread& thread, const user_regs_struct& r) {
  siginfo_t info;
  uint8_t code[2];
  if (ptrace(PTRACE_GETSIGINFO, thread.tid, 0, &info) != 0 || info.si_code != SI_KERNEL) return false;
  if (!node.process().read(r.rip - 2, code, sizeof code)) return false;
  return code[1] != 0xcc && !(code[0] == 0xcd && code[1] == 3);
}

std::optional<Stop> ReplaySession::handle_trap(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct& r) {
  Stop watched;
  auto trapped = debug_trap(node, thread, r, watched);
  if (!trapped) return fail_node(node, ThreadId{thread.number}, trapped.error().message);
  switch (*trapped) {
    case DebugTrap::hit: return watched;
    case DebugTrap::in_vain: go_on(node, thread); return std::nullopt;
    case DebugTrap::not_ours: break;
  }
  if (r.rip == node.control().trap_instruction + 1) return handle_shim_trap(node, thread, r);
  if (auto owners = node.breakpoints().hit(r)) {
    TracedProcess::set_registers(thread.tid, r);
    thread.at_breakpoint = true;
    thread.hit = {r, TracedProcess::register_changes()};
    Stop stop = stop_of(Stop::Kind::breakpoint, node, thread);
    stop.pc = Addr{r.rip};
    stop.owners.assign(owners->begin(), owners->end());
    if (std::erase_if(stop.owners, is_spin)) {
      auto yields = yield_at_spin(node, thread, r);
      if (!yields) return fail_node(node, ThreadId{thread.number}, yields.error().message);
      if (*yields) stop.owners.clear();
    }
    if (!stop.owners.empty()) return stop;
    resume_thread(node, thread);
    return std::nullopt;
  }
  if (is_late_trap(node, thread, r)) {
    r.rip--;
    TracedProcess::set_registers(thread.tid, r);
    resume_thread(node, thread);
    return std::nullopt;
  }
  // An int3 of the program's own, or a trap flag it set: its signal.
  return handle_fault(node, thread, SIGTRAP);
}

// `stop` is set when an access to what a debug register watches was a hit.
Result<ReplaySession::DebugTrap> ReplaySession::debug_trap(ReplayNode& node, ReplayNode::Thread& thread,
                                                           user_regs_struct r, Stop& stop) {
  const bool in_program = !node.in_shim(r.rip);
  node.show_hardware(!in_program);
  auto outcome = node.watches().on_debug_trap(ThreadId{thread.number}, in_program);
  node.show_hardware(false);
  if (!outcome) return std::unexpected(outcome.error());
  if (!*outcome) return DebugTrap::not_ours;
  if ((*outcome)->hits.empty()) return DebugTrap::in_vain;
  if (node.breakpoints().in_pad(Addr{r.rip})) (void)node.breakpoints().leave_pad(ThreadId{thread.number});
  thread.at_breakpoint = TracedProcess::registers(thread.tid, r) && node.breakpoints().contains(Addr{r.rip});
  stop = stop_of(Stop::Kind::watch, node, thread);
  const std::optional<Addr> moved = node.moved_from(r.rip);
  stop.pc = moved ? *moved : node.in_shim(r.rip) ? Addr{node.call_site(ThreadId{thread.number})} : (*outcome)->pc;
  stop.hits = std::move((*outcome)->hits);
  return DebugTrap::hit;
}

std::optional<Stop> ReplaySession::handle_shim_trap(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct&) {
  node.refresh_control();
  const Control& c = node.control();
  const ThreadId id{c.trap_thread};
  thread.number = c.trap_thread;
  switch (c.trap_reason) {
    case shim::kTrapExit: return end_node(node, id, {NodeOutcome::How::exited, c.trap_detail & 0xff, ""});
    case shim::kTrapEndOfTrace:
      if ((node.info().end.how == NodeEnd::How::exit && node.reader().ended_by_exit()) || ended_by_fault(node)) {
        (void)stop_group();
        return diverge(node, thread, explain_overrun(node, schedule_, id));
      }
      return end_node(node, id, {NodeOutcome::How::end_of_recording, 0, ""});
    case shim::kTrapStopEvent:
    case shim::kTrapParked: return stop_of(Stop::Kind::event, node, thread);
    case shim::kTrapDiverged: {
      (void)stop_group();
      return diverge(node, thread, explain(node, schedule_, c.divergence, id));
    }
    case shim::kTrapSpin:
      if (auto expected = expect_spin(node); !expected) return fail_node(node, id, expected.error().message);
      break;
    case shim::kTrapObject:
      if (auto offered = offer_object(node, c.object); !offered) return fail_node(node, id, offered.error().message);
      break;
    case shim::kTrapShared:
      if (auto stop = shared_changed(node, thread, c.trap_detail)) return stop;
      go_on(node, thread);
      return std::nullopt;
    case shim::kTrapMappingBegins:
      if (auto opened = node.watches().open_for_mapping_call(Addr{c.mapping_low}, Addr{c.mapping_high}); !opened)
        return fail_node(node, id, opened.error().message);
      go_on(node, thread);
      return std::nullopt;
    case shim::kTrapMappingDone: {
      auto hits = node.watches().mapping_call_done(Addr{c.mapping_low}, Addr{c.mapping_high});
      node.breakpoints().forget_gone(Addr{c.mapping_low}, Addr{c.mapping_high});
      if (!hits) return fail_node(node, id, hits.error().message);
      if (auto flushed = node.flush_watches(); !flushed) return fail_node(node, id, flushed.error().message);
      if (hits->empty()) {
        go_on(node, thread);
        return std::nullopt;
      }
      Stop stop = stop_of(Stop::Kind::watch, node, thread);
      stop.pc = Addr{node.call_site(id)};
      stop.hits = std::move(*hits);
      return stop;
    }
    case shim::kTrapDies: {
      const auto registers = node.registers(id);
      if (!registers) return fail_node(node, id, registers.error().message);
      return die(node, thread, c.trap_detail, Addr{registers->rip});
    }
    case shim::kTrapFailed:
      return fail_node(node, id,
                       fmt::format("{} ({})", std::string(c.text, strnlen(c.text, sizeof c.text)), c.trap_detail));
    default: break;
  }
  resume_thread(node, thread);
  return std::nullopt;
}

std::optional<Stop> ReplaySession::handle_fault(ReplayNode& node, ReplayNode::Thread& thread, int signal) {
  siginfo_t info;
  user_regs_struct r;
  if (ptrace(PTRACE_GETSIGINFO, thread.tid, 0, &info) != 0 || !TracedProcess::registers(thread.tid, r))
    return std::nullopt;
  if (was_sent(info, signal)) {
    resume_thread(node, thread);
    return std::nullopt;
  }
  const Addr address{reinterpret_cast<uint64_t>(info.si_addr)};
  const std::optional<Addr> moved = node.moved_from(r.rip);  // it is the program's
  if (signal == SIGSEGV && node.watches().protects(address)) {
    // A recorded output that the shim copies into a watched page faults in the shim: there its own registers are meant.
    node.show_hardware(node.in_shim(r.rip));
    const bool in_program = !node.in_shim(r.rip);
    auto outcome = node.watches().on_fault(ThreadId{thread.number}, address, in_program);
    node.show_hardware(false);
    if (!outcome) return fail_node(node, ThreadId{thread.number}, outcome.error().message);
    if (outcome->how != FaultOutcome::How::not_ours) {
      if (outcome->hits.empty()) {
        if (auto flushed = outcome->patched ? node.flush_watches() : Result<void>(); !flushed)
          return fail_node(node, ThreadId{thread.number}, flushed.error().message);
        go_on(node, thread);
        return std::nullopt;
      }
      Stop stop = stop_of(Stop::Kind::watch, node, thread);
      stop.pc = in_program ? outcome->pc : moved ? *moved : Addr{node.call_site(ThreadId{thread.number})};
      stop.hits = std::move(outcome->hits);
      // The store may have been the last instruction before a breakpoint: it is hit when the thread goes on.
      return stop;
    }
  }
  // A fault of the program's own in code that Friday moved is one in the place where the program has it.
  if (node.breakpoints().in_pad(Addr{r.rip})) {
    (void)node.breakpoints().leave_pad(ThreadId{thread.number});
    TracedProcess::registers(thread.tid, r);
  }
  // An instruction that the shim planted.
  if (signal == SIGILL && node.carried_out_at(Addr{r.rip})) {
    thread.deliver = signal;
    resume_thread(node, thread);
    return std::nullopt;
  }
  uint64_t caught = 0;
  if (FILE* status = fopen(fmt::format("/proc/{}/status", thread.tid).c_str(), "re")) {
    char line[256];
    while (fgets(line, sizeof line, status))
      if (sscanf(line, "SigCgt: %lx", &caught) == 1) break;
    fclose(status);
  }
  // The shim reads what the program points at; where that leads nowhere it helps itself.
  const bool in_shim = node.in_shim(r.rip) && !moved;
  const bool expected = signal != SIGILL && in_shim && node.probing(ThreadId{thread.number});
  // A program that single-steps itself has stepped into the shim, whose handler hides it.
  const bool stepped = signal == SIGTRAP && info.si_code == TRAP_TRACE;
  if (expected || (!thread.detour && (!in_shim || stepped) && (caught >> (signal - 1) & 1))) {
    thread.deliver = signal;
    resume_thread(node, thread);
    return std::nullopt;
  }
  return die(node, thread, signal, moved.value_or(Addr{r.rip}));
}

// A signal ends the program, unless it was raised in what a debugger has the thread do.
Stop ReplaySession::die(ReplayNode& node, const ReplayNode::Thread& thread, int signal, Addr pc) {
  Stop stop = stop_of(Stop::Kind::signal, node, thread);
  stop.signal = signal;
  stop.pc = pc;
  if (thread.detour) return stop;
  const bool recorded = dies_as_recorded(node, signal);
  const uint64_t place = recorded ? place_of_fault(node) : 0;
  if (!recorded || (place && place != stop.pc.value)) {
    (void)stop_group();
    return diverge(node, thread,
                   explain_death(node, schedule_, ThreadId{thread.number}, signal,
                                 place ? std::optional(Addr{place}) : std::nullopt));
  }
  (void)end_node(node, ThreadId{thread.number},
                 {NodeOutcome::How::signal, signal, fmt::format("at {:#x}", stop.pc.value)});
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
  return fail(ErrorCode::not_found, "there is no node {}; the recording has {} nodes (info nodes lists them)", id,
              recording_.nodes().size());
}

Result<ReplayNode*> ReplaySession::readable(NodeId id) {
  FRIDAY_TRY(found, node(id));
  if (!found->has_process())
    return fail(ErrorCode::node_not_started, "node {} has not started yet at this point of the replay", id);
  return found;
}

Mark ReplaySession::mark(NodeId id) {
  ReplayNode* found = find(id);
  return {id, {found ? found->events_done() : 0}, 0};
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
  if (!in_turn_ || *in_turn_ == id) return std::nullopt;
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
    return fail(ErrorCode::component_died, "node {}: its process is gone, and its memory with it", id);
  FRIDAY_TRY(maps, found->mappings());
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::vector<std::byte> page(1 << 16);
  for (const auto& map : maps) {
    uint64_t low = map.low;
    if (!(map.protection & 2) || (low >= found->shim_low() && low < found->shim_high())) continue;
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
