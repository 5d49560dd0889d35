// Creates the processes of nodes: rebuilds them from their start images, or adopts them when a replayed parent forks.
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "core/base/elf.h"
#include "core/base/log.h"
#include "core/replay/confinement.h"
#include "core/replay/memory_guard.h"
#include "core/replay/session.h"
#include "core/replay/thread_areas.h"
#include "core/trace/calls.h"
#include "core/trace/node_end.h"

namespace friday {

using shim::Control;

namespace {

// The limit, in seconds of processor time, for entering a start image: a thousand times what that takes.
constexpr rlim_t kSecondsToStart = 5;

// The addresses of the shim: the mappings of its file, and behind them as much as its .bss takes according to the
// headers in its first page. The mappings alone do not show where it ends: memory of the program (the loader's, or the
// kernel's vdso) may follow without a gap, where addresses are random.
std::pair<uint64_t, uint64_t> shim_range(const TracedProcess& process,
                                         std::span<const format::ImageMapRecord* const> maps) {
  uint64_t low = 0, file_end = 0, end = 0;
  for (const auto* map : maps) {
    const bool shim = bounded_text(map->path, sizeof map->path).ends_with("/friday-shim.so");
    if (shim && !low) low = map->low;
    if (shim) file_end = end = map->high;
    else if (end && end == map->low && !map->inode) end = map->high;
  }
  std::array<char, 4096> page;
  if (!low || !process.read(low, page.data(), page.size())) return {low, file_end};
  const uint64_t size = Elf(std::string_view(page.data(), page.size())).loaded_size();
  return {low, std::clamp(low + ((size + 4095) & ~uint64_t{4095}), file_end, end)};
}

// Whether the recorded process was killed while it computed, that is, between two events. It is unknown how far it got
// after its last event, so its replay ends there. A process that died of its own fault does not count: in the replay
// the same instruction faults again.
uint32_t killed_while_computing(const ReplayNode& node) {
  const format::FileHeader& header = node.reader().header();
  const NodeEnd& end = node.info().end;
  if (header.ended || header.running != format::kComputing || end.how == NodeEnd::How::replaced) return 0;
  constexpr int kOwnFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
  return !(end.how == NodeEnd::How::signal && std::ranges::find(kOwnFaults, end.detail) != std::end(kOwnFaults));
}

// Tells the shim of a process where its trace ends, and which slot of the schedule is the node's.
Result<void> follow_trace(ReplayNode& node, size_t slot, bool restoring) {
  const bool ok = node.set_control(&Control::trace_end, node.reader().end_offset()) &&
                  node.set_control(&Control::schedule, ScheduleMemory::node_address(slot)) &&
                  node.set_control(&Control::node_slot, slot) &&
                  node.set_control(&Control::cut, killed_while_computing(node)) &&
                  node.set_control(&Control::restoring, uint32_t{restoring}) &&
                  node.set_control(&Control::stop_at_event, ~uint64_t{0});
  return ok ? Result<void>() : std::unexpected(process_gone(node.id()));
}

// The same for a process that was just built or forked, and stands at the beginning of its trace.
Result<void> begin_trace(ReplayNode& node, size_t slot, bool restoring) {
  if (!node.set_control(&Control::cursor, node.reader().first_offset()) ||
      !node.set_control(&Control::event, uint64_t{0}) || !node.set_control(&Control::sent, uint32_t{0}) ||
      !node.set_control(&Control::received, uint32_t{0}))
    return std::unexpected(process_gone(node.id()));
  return follow_trace(node, slot, restoring);
}

}  // namespace

Result<void> ReplaySession::build_all() {
  processor_ = -1;
  raise_descriptor_limit();  // each node needs several
  if (options_.sync == SyncMode::causal && !host_edges_) {
    FRIDAY_TRY(edges, host_order(recording_, schedule_.nodes()));
    host_edges_ = std::move(edges);
  }
  std::map<NodeId, ScheduleMemory::Unchecked> unchecked;
  for (NodeId id : ids_) {
    FRIDAY_TRY(reader, TraceReader::open(recording_, id, gaps()));
    FRIDAY_TRY_VOID(reader.check());
    if (const InferredPayload* inferred = reader.inferred()) unchecked[id].events = inferred->contents().unchecked;
    else if (options_.restoring && options_.restoring->may_be_unchecked.contains(id))
      unchecked[id].room = schedule_.event_count(id);
    NodeInfo info = *recording_.find(id);
    info.end = end_of(recording_, schedule_, info);
    nodes_[id] = std::make_shared<ReplayNode>(std::move(info), std::move(reader));
  }
  FRIDAY_TRY(memory, ScheduleMemory::create(make_gates(schedule_, options_.sync, ends_,
                                                       host_edges_ ? *host_edges_ : std::vector<HostEdge>()),
                                            ids_, unchecked, options_.restoring.get(), recording_.inside("cache")));
  memory_ = std::move(memory);
  for (auto& [id, node] : nodes_)
    if (!(node->reader().header().features & format::kFeatureForkChild)) FRIDAY_TRY_VOID(build_node(*node));
  for (auto& [id, node] : nodes_) {
    if (node->state() != NodeState::live) continue;
    FRIDAY_LOG(replay, info, "node {} {} is rebuilt in process {}", id, node->info().name, node->process().pid());
    FRIDAY_TRY_VOID(run_to_start(*node));
    FRIDAY_TRY_VOID(make_threads_of_image(*node));
  }
  give_up_orphans();
  return {};
}

Result<void> ReplaySession::check_can_rebuild() const {
  const auto stands = [](const Error& error) {
    return fail(error.code, "the nodes cannot be rebuilt, so the group stands where it stood: {}", error.message);
  };
  if (access((options_.library_directory + "/friday-stub").c_str(), X_OK) != 0)
    return stands({ErrorCode::io, fmt::format("{}/friday-stub: {}", options_.library_directory, strerror(errno))});
  for (NodeId id : ids_) {
    const auto reader = TraceReader::open(recording_, id, gaps());
    if (!reader) return stands(reader.error());
    if (reader->header().features & format::kFeatureForkChild) continue;
    const auto image = reader->image();
    if (!image) return stands(image.error());
    for (const format::ImageMapRecord* map : image->maps) {
      if (std::ranges::all_of(map->file, [](uint8_t byte) { return byte == 0; })) continue;
      if (auto copy = open_beneath(recording_.file_copy(map->file)); !copy) return stands(copy.error());
    }
  }
  return {};
}

// Gives up forked nodes whose parent was killed before it recorded the fork: nothing in the parent's replay would
// create them.
void ReplaySession::give_up_orphans() {
  for (auto& [id, node] : nodes_) {
    if (node->state() != NodeState::waiting || !node->info().parent) continue;
    const NodeId parent = *node->info().parent;
    if (node->reader().header().fork_event < schedule_.event_count(parent)) continue;
    node->end(
        {NodeOutcome::How::failed, 0,
         fmt::format("it cannot be replayed: its parent, node {}, was killed before it recorded the fork", parent)});
    memory_->finish(slot_of(id));
  }
}

// The path by which a shim opens a shared object. The filter refuses that call, and the core answers it with the
// descriptor (wanted_file()).
std::string ReplaySession::path_of_object(const UniqueFd& object) {
  return fmt::format("/proc/{}/fd/{}", getpid(), object.get());
}

// Offers a shared object to a node that is about to map it: a memfd, the same for all nodes that recorded the object
// under this number.
Result<void> ReplaySession::offer_object(ReplayNode& node, uint64_t object) {
  SharedObjects::Object& file = shared_.named[{node.reader().header().sharing, object}];
  if (!file) file = std::make_shared<const UniqueFd>(memfd_create("friday-shared", MFD_CLOEXEC));
  if (!*file) {
    file.reset();
    return fail_errno(errno, fmt::format("cannot make a file in memory for shared object {}", object));
  }
  const std::string path = path_of_object(*file);
  char name[sizeof(Control::shared)]{};
  path.copy(name, sizeof name - 1);
  if (!node.process().write(node.control_address() + offsetof(Control, shared), name, sizeof name))
    return fail(ErrorCode::component_died, "node {}: its process is gone", node.id());
  return {};
}

Result<void> ReplaySession::build_node(ReplayNode& node) {
  ImageOptions options{options_.library_directory + "/friday-stub",
                       memory_->fd(),
                       memory_->size(),
                       group_,
                       &*channel_,
                       !options_.unconfined};
  FRIDAY_TRY(process, build_from_image(recording_, node.reader(), options));
  FRIDAY_TRY(image, node.reader().image());
  const pid_t pid = process.pid();
  if (!group_) group_ = pid;
  node.set_auxv(image.record->auxv_address, image.record->auxv_bytes);
  const auto [shim_low, shim_high] = shim_range(process, image.maps);
  node.set_shim_range(shim_low, shim_high);
  node.set_channel(*channel_);
  FRIDAY_TRY_VOID(node.attach(std::move(process), image.record->control));
  node.add_thread(pid);
  by_tid_[pid] = &node;
  memory_guard_->watch(pid);
  FRIDAY_TRY_VOID(tell_shim(node));
  return begin_trace(node, slot_of(node.id()), options_.restoring != nullptr);
}

// Tells the shim of a process that was made from a start image or a saved checkpoint what differs from session to
// session.
Result<void> ReplaySession::tell_shim(ReplayNode& node) {
  if (recording_.files_directory().size() >= sizeof(Control::files))
    return fail(ErrorCode::unsupported,
                "the path of the recording is too long: {}; it must be shorter than {} bytes. Move the recording",
                recording_.path(), sizeof(Control::files) - strlen("/files"));
  char files[sizeof(Control::files)]{};
  recording_.files_directory().copy(files, sizeof files - 1);
  const bool ok = node.process().write(node.control_address() + offsetof(Control, files), files, sizeof files) &&
                  node.set_control(&Control::mode, static_cast<uint32_t>(shim::kModeReplay)) &&
                  node.set_control(&Control::object, uint64_t{0});  // its file's path changes with the session
  if (!ok || node.control().magic != shim::kControlMagic) return std::unexpected(process_gone(node.id()));
  return follow_trace(node, slot_of(node.id()), options_.restoring != nullptr);
}

// Runs a rebuilt process from the shim's resume point to the shim's first trap. That takes some hundred instructions
// and no code of the program, but the code comes from the recording and a malicious one may loop here. Since nobody can
// interrupt a session while it is opened, the kernel limits the processor time.
Result<void> ReplaySession::run_to_start(ReplayNode& node) {
  const pid_t pid = node.process().pid();
  clockid_t clock;
  timespec used{};  // processor time that friday-stub has used to rebuild the image
  if (clock_getcpuclockid(pid, &clock) == 0) clock_gettime(clock, &used);
  const rlimit bounded{static_cast<rlim_t>(used.tv_sec) + kSecondsToStart, RLIM_INFINITY},
      unbounded{RLIM_INFINITY, RLIM_INFINITY};
  prlimit(pid, RLIMIT_CPU, &bounded, nullptr);
  for (;;) {
    if (ptrace(PTRACE_CONT, pid, 0, 0) != 0)
      return fail(ErrorCode::component_died, "node {}: its process is gone", node.id());
    int status = 0;
    while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR) {}
    if (!WIFSTOPPED(status))
      return fail(ErrorCode::component_died, "node {}: its process {} while it entered its start image", node.id(),
                  ending_text(status));
    if (status >> 16) continue;
    user_regs_struct r;
    TracedProcess::registers(pid, r);
    if (WSTOPSIG(status) == SIGTRAP && r.rip == node.control().trap_instruction + 1) break;
    siginfo_t info;
    if (ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && is_refused_call(info))
      return refused_to(node, "made " + describe_refused_call(info, r));
    if (WSTOPSIG(status) == SIGXCPU)
      return fail(
          ErrorCode::component_died,
          "node {}: the code of its start image loops at {:#x} and does not reach the program; the recording is "
          "damaged, or was made to do so. Copy it again, or do not trust it",
          node.id(), r.rip);
    return fail(ErrorCode::component_died,
                "node {}: the code of its start image raised {} at {:#x}; the recording is damaged. Copy it again",
                node.id(), signal_text(WSTOPSIG(status)), r.rip);
  }
  prlimit(pid, RLIMIT_CPU, &unbounded, nullptr);
  node.refresh_control();
  if (on_node_started) on_node_started(node);
  return {};
}

// Makes the threads of a process whose image was taken while it ran (kFeaturePart); the first one exists already. Each
// new thread begins at the same instruction as the first one, and then gets its own registers.
Result<void> ReplaySession::make_threads_of_image(ReplayNode& node) {
  if (!(node.reader().header().features & format::kFeaturePart)) return {};
  FRIDAY_TRY(image, node.reader().image());
  const auto damaged = [&](std::string_view what) {
    return fail(ErrorCode::bad_input, "node {}: {}; the recording is damaged. Copy it again", node.id(), what);
  };
  const pid_t first = node.process().pid();
  user_regs_struct registers;
  if (!TracedProcess::registers(first, registers)) return std::unexpected(process_gone(node.id()));
  registers.rip = image.record->rip;
  registers.orig_rax = kNoCall;
  std::set<uint64_t> seen;
  for (const StartImage::Thread& thread : image.threads) {
    const auto number = static_cast<uint32_t>(thread.record->number);
    const auto area = thread_area(node.process(), node.control(), number);
    if (!area || number != thread.record->number) return damaged("its start image has no memory for a thread");
    if (!seen.insert(*area).second) return damaged("its start image names a thread twice");
    pid_t tid = first;
    if (*area != image.record->gs_base) {
      FRIDAY_TRY(made, node.process().clone(first, node.control().syscall_instruction, kThreadFlags));
      tid = made;
      node.add_thread(tid);
      by_tid_[tid] = &node;
      registers.gs_base = *area;
      registers.fs_base = thread.record->fs_base;
      const auto kernel_tid = static_cast<uint32_t>(tid);
      if (!node.process().write(*area + offsetof(shim::ThreadArea, kernel_tid), &kernel_tid, sizeof kernel_tid))
        return damaged("its start image has no memory for a thread");
      if (!TracedProcess::set_registers(tid, registers)) return std::unexpected(process_gone(node.id()));
    }
    node.thread_of(tid)->number = number;
    FRIDAY_TRY_VOID(node.set_recorded_state(ThreadId{number}, thread.extended));
  }
  if (!seen.contains(image.record->gs_base)) return damaged("its start image lacks its first thread");
  return {};
}

// ---- Forks

// Kills and reaps a traced process that belongs to no node.
void ReplaySession::end_process(pid_t pid) {
  if (kill(pid, SIGKILL) != 0) return;
  for (int status = 0;;) {
    const pid_t found = waitpid(pid, &status, __WALL);
    if ((found < 0 && errno != EINTR) || (found == pid && !WIFSTOPPED(status))) return;
  }
}

// Runs a forked child to the trap kTrapForkChild: a few instructions of the shim, which wait for nobody. With
// `waiting`, the child is stopped at its first instruction already. The parent stays stopped at the fork, so that what
// is known of the parent's memory holds for the copy. Returns none at the trap, or the wait status of a child that
// ended before it. Fails if the child does anything else.
Result<std::optional<int>> ReplaySession::run_to_fork_trap(const ReplayNode& parent, pid_t pid, bool waiting) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kPatience{1'000'000}, kLook{200};
  // Set by an interrupt. From then on the child has `kPatience` left and is polled, as waitpid(2) has no time limit.
  std::optional<Clock::time_point> interrupted;
  if (waiting) ptrace(PTRACE_CONT, pid, 0, 0);
  for (;;) {
    int status = 0;
    const pid_t found = waitpid(pid, &status, interrupted ? __WALL | WNOHANG : __WALL);
    if (found == 0) {
      if (Clock::now() - *interrupted > kPatience)
        return fail(ErrorCode::interrupted,
                    "the replay was interrupted while this node forked, and a second later its child has not come to "
                    "the end of the fork. Replay again");
      std::this_thread::sleep_for(kLook);
      continue;
    }
    if (found < 0 && errno == EINTR) {
      if (interrupt_ && !interrupted) interrupted = Clock::now();
      continue;
    }
    if (found != pid) return W_EXITCODE(0, SIGKILL);  // the child is gone and its wait status is lost
    if (!WIFSTOPPED(status)) return status;
    user_regs_struct r;
    siginfo_t info;
    const int event = status >> 16, signal = event ? 0 : WSTOPSIG(status);
    if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
      unsigned long grandchild = 0;
      if (ptrace(PTRACE_GETEVENTMSG, pid, 0, &grandchild) == 0) end_process(static_cast<pid_t>(grandchild));
      return refused_to(parent, "forked in the middle of a fork");
    }
    if (signal == SIGTRAP && TracedProcess::registers(pid, r) && r.rip == parent.control().trap_instruction + 1)
      return std::nullopt;
    if (signal == SIGSYS && ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && is_refused_call(info) &&
        TracedProcess::registers(pid, r))
      return refused_to(parent, "made " + describe_refused_call(info, r));
    ptrace(PTRACE_CONT, pid, 0, signal == SIGSTOP ? 0 : signal);
  }
}

// The node whose process `parent` has just forked; null if that node is not replayed. `parent` stands right after the
// forking event.
ReplayNode* ReplaySession::forked_now(const ReplayNode& parent) {
  for (auto& [id, node] : nodes_)
    if (node->state() == NodeState::waiting && node->info().parent == parent.id() &&
        node->reader().header().fork_event + 1 == parent.events_done())
      return node.get();
  return nullptr;
}

std::optional<Stop> ReplaySession::adopt_fork(ReplayNode& parent, ReplayNode& node, pid_t pid) {
  ReplayNode* child = &node;
  auto started = [&]() -> Result<void> {
    FRIDAY_TRY(adopted, TracedProcess::adopt(pid));
    FRIDAY_TRY_VOID(child->become_copy(parent, std::move(adopted)));
    child->set_parent(parent);
    by_tid_[pid] = child;
    memory_guard_->watch(pid);
    FRIDAY_TRY_VOID(map_trace(child->process(), pid, child->receiver(), *channel_, child->reader()));
    return begin_trace(*child, slot_of(child->id()), options_.restoring != nullptr);
  }();
  if (!started) return fail_node(*child, ThreadId{0}, started.error().message);
  if (on_node_started) on_node_started(*child);
  shared_watches_.note_copy();
  if (auto failed = follow_shared(parent, ThreadId{0}, child)) return failed;
  if (auto flushed = child->flush_watches(); !flushed) return fail_node(*child, ThreadId{0}, flushed.error().message);
  resume_thread(*child, *child->thread_of(pid));
  return std::nullopt;
}

// Updates the watches on shared memory after a node has mapped some. `standing` is stopped: its threads are not
// resumed. `made` is a node that was just forked; its watches are flushed by the caller.
std::optional<Stop> ReplaySession::follow_shared(ReplayNode& standing, ThreadId thread, ReplayNode* made) {
  auto changed = shared_watches_.follow(notices_);
  if (!changed) return fail_node(made ? *made : standing, thread, changed.error().message);
  for (ReplayNode* other : *changed) {
    if (other == made) continue;
    if (auto flushed = other->flush_watches(); !flushed)
      return fail_node(*other, other->current(), flushed.error().message);
    if (other != &standing) resume_node(*other);
  }
  return std::nullopt;
}

}  // namespace friday
