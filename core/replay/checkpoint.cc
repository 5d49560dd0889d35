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

#include "core/base/log.h"
#include "core/base/sparse.h"
#include "core/replay/confinement.h"
#include "core/replay/kernel_state.h"
#include "core/replay/memory_guard.h"
#include "core/replay/session.h"
#include "core/trace/calls.h"

namespace friday {

using shim::Control;
using shim::ThreadArea;

namespace {

// Of a thread that is made again. The kernel would set and clear thread ids in memory that holds the recorded ones.
constexpr uint64_t kThreadFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

uint64_t area_address(uint32_t number) { return shim::kAreasAddress + number * shim::kAreaStride; }

// Why a thread cannot be made again from its registers and the memory of its process; null if it can.
const char* obstacle(const ReplayNode& node, const ReplayNode::Thread& thread, const user_regs_struct& r) {
  if (thread.detour) return "a function that the debugger has called is not done";
  if (thread.number == ~0u) return "a thread has only just begun";
  if (thread.deliver) return "a signal is about to be delivered";
  const bool at_trap = thread.held == W_STOPCODE(SIGTRAP) && r.rip == node.control().trap_instruction + 1;
  if (thread.held && !at_trap) return "what a thread has done is not handled yet";
  if (ReplayNode::in_patched_store(r.rip)) return "a thread is in a patched store";
  return nullptr;
}

// Whether the thread exists for the shim. Otherwise it is on its last instructions; or it has ended and is the first
// thread of its process, which stays until all others have ended.
bool is_alive(const TracedProcess& process, uint32_t number) {
  uint32_t alive = 0;
  return process.read(area_address(number) + offsetof(ThreadArea, alive), &alive, sizeof alive) && alive;
}

}  // namespace

std::vector<pid_t> GroupCheckpoint::twins() const {
  std::vector<pid_t> all;
  for (const auto& [id, kept] : nodes_)
    if (!kept.threads.empty()) all.push_back(kept.node->process().pid());
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
    GroupCheckpoint::Thread one{static_cast<const ThreadSnapshot&>(thread)};
    if (!is_alive(node.process(), thread.number) || !TracedProcess::registers(tid, one.registers)) continue;
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
    GroupCheckpoint::Node& kept = made->nodes_[id];
    made->events_ += node->events_done();
    kept.at = node->snapshot();
    if (node->state() == NodeState::live) FRIDAY_TRY_VOID(keep_node(*node, kept));
    if (node->state() == NodeState::ended) kept.node = node;
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
    ReplayNode::Thread& thread = *node.thread_of(tid);
    static_cast<ThreadSnapshot&>(thread) = kept;
    FRIDAY_TRY_VOID(node.set_extended_state(ThreadId{kept.number}, kept.extended));
    const auto kernel_tid = static_cast<uint32_t>(tid);
    const uint64_t place = area_address(kept.number) + offsetof(ThreadArea, kernel_tid);
    if (!node.process().write(place, &kernel_tid, sizeof kernel_tid) ||
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
  node->set_snapshot(kept.at);
  if (!node->set_control(&Control::stop_at_event, ~uint64_t{0})) return std::unexpected(process_gone(node->id()));
  return node;
}

Result<void> ReplaySession::restore(const GroupCheckpoint& checkpoint) {
  if (checkpoint.build_ != build_)
    return fail(ErrorCode::unsupported, "the checkpoint is of processes that have been rebuilt since");
  moves_++;
  std::map<NodeId, std::shared_ptr<ReplayNode>> nodes;
  for (const auto& [id, kept] : checkpoint.nodes_) {
    const ReplayNode& now = *nodes_.at(id);
    nodes[id] = kept.node ? kept.node : std::make_shared<ReplayNode>(now.info(), now.reader());
    if (kept.at.state != NodeState::live) continue;
    FRIDAY_TRY(revived, revive(kept));
    nodes[id] = std::move(revived);
  }
  // Nothing is changed up to here, so a failure has left the group where it was.
  for (const auto& [pid, status] : unclaimed_) end_process(pid);
  unclaimed_.clear();
  by_tid_.clear();
  memory_guard_->forget_all();
  nodes_ = std::move(nodes);
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
  memory_->set_progress(checkpoint.progress_);
  shared_ = checkpoint.shared_;
  FRIDAY_TRY_VOID(checkpoint.put_back_contents());
  for (auto& [id, node] : nodes_) {
    if (!node->has_process()) continue;
    if (on_node_started) on_node_started(*node);
    if (node->state() == NodeState::live && node->spin()) FRIDAY_TRY_VOID(stop_at_spin(*node));
  }
  FRIDAY_LOG(replay, info, "the group is back after {}", checkpoint.events());
  return {};
}

}  // namespace friday
