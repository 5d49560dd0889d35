// Makes checkpoints of the group, and returns to them.
#include "core/replay/checkpoint.h"

#include <elf.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "core/base/counted.h"
#include "core/base/log.h"
#include "core/base/sparse.h"
#include "core/replay/confinement.h"
#include "core/replay/kernel_state.h"
#include "core/replay/memory_guard.h"
#include "core/replay/session.h"
#include "core/replay/thread_areas.h"
#include "core/trace/calls.h"

namespace friday {

using shim::Control;
using shim::ThreadArea;

namespace {

// Why a thread cannot be made again from its registers and the memory of its process; null if it can.
const char* obstacle(const ReplayNode& node, const ReplayNode::Thread& thread, const user_regs_struct& r) {
  if (thread.detour) return "a function that the debugger has called is not done";
  if (thread.number == ~0u) return "a thread has only just begun";
  if (thread.deliver) return "a signal is about to be delivered";
  const bool at_trap = thread.held == W_STOPCODE(SIGTRAP) && r.rip == node.control().trap_instruction + 1;
  if (thread.held && !at_trap) return "what a thread has done is not handled yet";
  if (ReplayNode::in_patched_store(r.rip)) return "a thread is in a patched store";
  if (node.passages().contains(Addr{r.rip})) return "a thread is where its passages are counted";
  return nullptr;
}

// Whether the thread exists for the shim. Otherwise it is on its last instructions; or it has ended and is the first
// thread of its process, which stays until all others have ended.
bool is_alive(ReplayNode& node, uint32_t number) {
  const auto area = thread_area(node.process(), node.control(), number);
  uint32_t alive = 0;
  return area && node.process().read(*area + offsetof(ThreadArea, alive), &alive, sizeof alive) && alive;
}

}  // namespace

std::vector<pid_t> GroupCheckpoint::twins() const {
  std::vector<pid_t> all;
  for (const auto& [id, kept] : nodes_)
    if (!kept->threads.empty()) all.push_back(kept->node->process().pid());
  return all;
}

uint64_t GroupCheckpoint::shared_bytes() const {
  uint64_t all = 0;
  for (const Contents& kept : contents_) all += kept.size;
  return all;
}

// ---- Making one

// Fails with unsupported, and says why, if the node cannot be copied where it stands. It is stopped.
Result<void> ReplaySession::check_can_be_kept(ReplayNode& node) {
  node.number_threads();
  for (auto& [tid, thread] : node.threads_by_tid()) {
    user_regs_struct r;
    if (!TracedProcess::registers(tid, r)) continue;  // the first thread, which has ended
    if (const char* why = obstacle(node, thread, r))
      return fail(ErrorCode::unsupported, "no checkpoint can be made here: node {}: {}", node.id(), why);
  }
  return {};
}

Result<void> ReplaySession::keep_threads(ReplayNode& node, GroupCheckpoint::Node& kept) {
  if (!node.refresh_control()) return std::unexpected(process_gone(node.id()));
  for (auto& [tid, thread] : node.threads_by_tid()) {
    GroupCheckpoint::Thread one;
    static_cast<ThreadSnapshot&>(one) = thread;
    if (!is_alive(node, thread.number) || !TracedProcess::registers(tid, one.registers)) continue;
    TracedProcess::end_interrupted_call(one.registers);
    // It waits before an event, because somebody has asked for that, and nobody has heard of it yet. Whoever comes back
    // asks anew: the shim looks again when the thread goes on.
    if (one.held && node.control().trap_reason == shim::kTrapStopEvent) one.held.reset();
    if (ptrace(PTRACE_GETSIGMASK, tid, sizeof one.blocked, &one.blocked) != 0)
      return fail_errno(errno, fmt::format("the signal mask of a thread of node {}", node.id()));
    FRIDAY_TRY(extended, node.extended_state(ThreadId{thread.number}));
    one.extended = std::move(extended);
    FRIDAY_TRY_VOID(read_signal_stack(node, tid, one.signal_stack));
    kept.threads.push_back(std::move(one));
  }
  std::ranges::sort(kept.threads, {}, &GroupCheckpoint::Thread::number);
  if (kept.threads.empty())
    return fail(ErrorCode::unsupported, "no checkpoint can be made here: node {} has no thread any more", node.id());
  return {};
}

Result<void> ReplaySession::keep_node(ReplayNode& node, GroupCheckpoint::Node& kept) {
  FRIDAY_TRY_VOID(keep_threads(node, kept));
  const pid_t tid = node.thread_of(ThreadId{kept.threads.front().number})->tid;
  FRIDAY_TRY(pid, node.process().clone(tid, node.control().syscall_instruction, kTwinFlags));
  FRIDAY_TRY(process, TracedProcess::adopt(pid));
  auto twin = std::make_shared<ReplayNode>(node.info(), node.reader());
  FRIDAY_TRY_VOID(twin->become_copy(node, std::move(process)));
  kept.node = std::move(twin);
  return {};
}

// Whether a live node waits for its turn exactly where it did when it was kept. Then it has executed nothing since:
// between two events a node only moves when it is let through a gate.
bool ReplaySession::stands_as_kept(ReplayNode& node, const GroupCheckpoint::Node& kept) {
  if (node.state() != NodeState::live || kept.at.state != NodeState::live || !kept.node) return false;
  if (node.is_altered() || kept.node->is_altered() || node.spin() || kept.at.spin) return false;
  if (node.killed() || !node.refresh_control()) return false;
  const Control &now = node.control(), &then = kept.node->control();
  if (now.event != then.event || now.cursor != then.cursor || now.turn != then.turn || now.gate != then.gate ||
      now.post != then.post)
    return false;
  node.number_threads();
  const auto threads_now = std::ranges::count_if(node.threads_by_tid(),
                                                 [&](const auto& each) { return is_alive(node, each.second.number); });
  if (static_cast<size_t>(threads_now) != kept.threads.size()) return false;
  for (const GroupCheckpoint::Thread& was : kept.threads) {
    const ReplayNode::Thread* is = node.thread_of(ThreadId{was.number});
    if (!is || !is->stopped || is->held || is->deliver || is->detour || was.held || was.deliver) return false;
    if (was.number != now.turn) continue;  // it waits for that one
    user_regs_struct r;
    if (!TracedProcess::registers(is->tid, r)) return false;
    // It sleeps in a call on the progress of another node, or has just been woken: it looks again when it goes on.
    if (!ScheduleMemory::is_progress(r.rdi) || r.rdi != was.registers.rdi || r.rip != was.registers.rip ||
        r.rsp != was.registers.rsp)
      return false;
  }
  return true;
}

Result<void> GroupCheckpoint::keep_contents(const SharedObjects::Object& object) {
  struct stat st {};
  UniqueFd copy(memfd_create("friday-kept", MFD_CLOEXEC));
  if (!copy || fstat(object->get(), &st) != 0) return fail_errno(errno, "cannot keep the contents of shared memory");
  const auto size = static_cast<uint64_t>(st.st_size);
  FRIDAY_TRY_VOID(copy_contents(object->get(), copy.get(), size));
  contents_.push_back({object, std::move(copy), size});
  return {};
}

// Gives shared memory its contents of then; what was a hole is one again. No process may run meanwhile.
Result<void> GroupCheckpoint::put_back_contents() const {
  for (const Contents& kept : contents_) {
    if (ftruncate(kept.object->get(), 0) != 0)
      return fail_errno(errno, "cannot put back the contents of shared memory");
    FRIDAY_TRY_VOID(copy_contents(kept.copy.get(), kept.object->get(), kept.size));
  }
  return {};
}

Result<std::unique_ptr<GroupCheckpoint>> ReplaySession::checkpoint() {
  if (at_.divergence || at_.failure || !unclaimed_.empty() || stepped_)
    return fail(ErrorCode::unsupported, "no checkpoint can be made here: the group is not between two events");
  FRIDAY_TRY_VOID(stop_group());
  for (auto& [id, node] : nodes_)
    if (node->state() == NodeState::live) FRIDAY_TRY_VOID(check_can_be_kept(*node));
  auto made = std::make_unique<GroupCheckpoint>();
  for (auto& [id, node] : nodes_) {
    made->events_ += node->events_done();
    if (const auto before = kept_[id].lock(); before && stands_as_kept(*node, *before)) {
      made->nodes_[id] = before;
      continue;
    }
    auto kept = std::make_shared<GroupCheckpoint::Node>();
    kept->at = node->snapshot();
    if (node->state() == NodeState::live) FRIDAY_TRY_VOID(keep_node(*node, *kept));
    if (node->state() == NodeState::ended) kept->node = node;
    made->copied_ += node->state() == NodeState::live;
    kept_[id] = kept;
    made->nodes_[id] = std::move(kept);
  }
  made->shared_ = shared_;
  for (const auto& [key, object] : shared_.named) FRIDAY_TRY_VOID(made->keep_contents(object));
  for (const auto& object : shared_.inherited) FRIDAY_TRY_VOID(made->keep_contents(object));
  made->progress_ = memory_->progress();
  made->at_ = at_;
  made->build_ = build_;
  return made;
}

// ---- Coming back

// Arms Syscall User Dispatch, which the kernel disarms in each new thread and process.
Result<void> ReplaySession::arm_dispatch(ReplayNode& node, pid_t tid) {
  const Control& c = node.control();
  const uint64_t arguments[] = {PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, c.text_low, c.text_high - c.text_low,
                                0};
  FRIDAY_TRY(done, node.process().inject(tid, c.syscall_instruction, SYS_prctl, arguments));
  if (done < 0)
    return fail(ErrorCode::io, "cannot arm Syscall User Dispatch in node {}: {}", node.id(),
                errno_text(static_cast<int>(-done)));
  return {};
}

// Makes the threads of a process that is a copy of a twin, and so has the first of them.
Result<void> ReplaySession::make_threads(ReplayNode& node, const std::vector<GroupCheckpoint::Thread>& threads) {
  const pid_t first = node.process().pid();
  for (const GroupCheckpoint::Thread& kept : threads) {
    pid_t tid = first;
    if (&kept != &threads.front()) {
      FRIDAY_TRY(made, node.process().clone(first, node.control().syscall_instruction, kThreadFlags));
      tid = made;
      node.add_thread(tid);
      FRIDAY_TRY_VOID(set_signal_stack(node, tid, kept.signal_stack));
    }
    FRIDAY_TRY_VOID(arm_dispatch(node, tid));
    node.thread_of(tid)->number = kept.number;
    FRIDAY_TRY_VOID(node.set_extended_state(ThreadId{kept.number}, kept.extended));
    const auto kernel_tid = static_cast<uint32_t>(tid);
    const auto area = thread_area(node.process(), node.control(), kept.number);
    if (!area || !node.process().write(*area + offsetof(ThreadArea, kernel_tid), &kernel_tid, sizeof kernel_tid) ||
        ptrace(PTRACE_SETSIGMASK, tid, sizeof kept.blocked, &kept.blocked) != 0 ||
        !TracedProcess::set_registers(tid, kept.registers))
      return std::unexpected(process_gone(node.id()));
  }
  return {};
}

Result<std::shared_ptr<ReplayNode>> ReplaySession::revive(const GroupCheckpoint::Node& kept) {
  ReplayNode& twin = *kept.node;
  FRIDAY_TRY(pid, twin.process().clone(twin.process().pid(), twin.control().syscall_instruction, kTwinFlags));
  FRIDAY_TRY(process, TracedProcess::adopt(pid));
  auto node = std::make_shared<ReplayNode>(twin.info(), twin.reader());
  FRIDAY_TRY_VOID(node->become_copy(twin, std::move(process)));
  FRIDAY_TRY_VOID(make_threads(*node, kept.threads));
  FRIDAY_TRY_VOID(put_back(*node, kept));
  return node;
}

// What a checkpoint keeps of a live node besides its process and the registers of its threads.
Result<void> ReplaySession::put_back(ReplayNode& node, const GroupCheckpoint::Node& kept) {
  node.set_snapshot(kept.at);
  for (const GroupCheckpoint::Thread& thread : kept.threads)
    static_cast<ThreadSnapshot&>(*node.thread_of(ThreadId{thread.number})) = thread;
  if (!node.set_control(&Control::stop_at_event, ~uint64_t{0})) return std::unexpected(process_gone(node.id()));
  return {};
}

Result<void> ReplaySession::restore(const GroupCheckpoint& checkpoint) {
  if (checkpoint.build_ != build_)
    return fail(ErrorCode::unsupported, "the checkpoint is of processes that have been rebuilt since");
  (void)stop_group();  // a node that cannot be stopped, as its process is gone, gets another one
  moves_++;
  // A run that comes by an mmap(2) again makes another object, so a process may map one that the checkpoint has not.
  const bool same_objects = shared_ == checkpoint.shared_;
  std::map<NodeId, std::shared_ptr<ReplayNode>> nodes;
  for (const auto& [id, kept] : checkpoint.nodes_) {
    const auto& now = nodes_.at(id);
    const bool is_known = !kept->is_saved || kept_[id].lock() == kept;  // otherwise its memory tells who is right
    if (same_objects && is_known && stands_as_kept(*now, *kept)) {
      nodes[id] = now;
    } else if (kept->at.state == NodeState::live) {
      FRIDAY_TRY(revived, revive(*kept));
      nodes[id] = std::move(revived);
    } else {
      nodes[id] = kept->node ? kept->node : std::make_shared<ReplayNode>(now->info(), now->reader());
    }
  }
  // Nothing is changed up to here, so a failure has left the group where it was.
  size_t moved = 0;
  for (const auto& [id, kept] : checkpoint.nodes_) {
    const auto& now = nodes_.at(id);
    kept_[id] = kept;
    if (nodes[id] != now) moved++;
    else if (kept->at.state == NodeState::live) FRIDAY_TRY_VOID(put_back(*now, *kept));
    if (on_node_leaves && (nodes[id] != now || !checkpoint.shared_.empty())) on_node_leaves(*now);
  }
  for (const auto& [pid, status] : unclaimed_) end_process(pid);
  unclaimed_.clear();
  by_tid_.clear();
  memory_guard_->forget_all();
  nodes_.swap(nodes);
  at_ = checkpoint.at_;
  call_failure_.reset();
  processor_ = -1;  // the new threads are not bound to it
  stepped_ = 0;
  shared_watches_.clear();
  if (!checkpoint.shared_.empty()) shared_watches_.note_mapping();
  for (auto& [id, node] : nodes_) {
    if (node->info().forked) node->set_parent(*nodes_.at(*node->info().parent));
    if (!node->has_process()) continue;
    memory_guard_->watch(node->process().pid());
    for (auto& [tid, thread] : node->threads_by_tid()) by_tid_[tid] = node.get();
  }
  for (auto& [id, was] : nodes)
    if (was != nodes_.at(id)) was.reset();  // ends its process
  memory_->set_progress(checkpoint.progress_);
  shared_ = checkpoint.shared_;
  FRIDAY_TRY_VOID(checkpoint.put_back_contents());
  for (auto& [id, node] : nodes_) {
    if (!node->has_process()) continue;
    const auto& told = node == nodes[id] ? on_node_stands : on_node_started;
    if (told) told(*node);
    if (node->state() == NodeState::live && node->spin()) FRIDAY_TRY_VOID(stop_at_spin(*node));
  }
  FRIDAY_LOG(replay, info, "the group is back after {}; {} of its nodes had moved",
             counted(checkpoint.events(), "event"), moved);
  return {};
}

}  // namespace friday
