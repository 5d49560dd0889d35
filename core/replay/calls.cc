// Runs a function of the program that the debugger calls: one thread executes it natively while all others are stopped.
// In a replayed process no descriptor is real, the pids are those of the recording, and nothing outside may notice the
// call. Therefore each system call of the function is inspected before the kernel sees it. Calls that the filter of
// replayed processes (confinement.h) would refuse are answered here, whether or not that filter is installed.
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>

#include "core/base/files.h"
#include "core/base/on_processor.h"
#include "core/replay/confinement.h"
#include "core/replay/session.h"
#include "core/shim/call_flags.h"
#include "core/trace/calls.h"

namespace friday {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpin = std::chrono::milliseconds(1);  // after this time, sleep between looks instead of yielding
constexpr int kSyscallStop = SIGTRAP | 0x80;

// Whether the call would change files. It is answered EROFS, which programs expect of a file system that they cannot
// write to; other calls that the filter refuses are answered EPERM. In calls.def such a call has a path and acts on
// others at its entry (kOutgoing). Opens are not outgoing there, as most of them change nothing: these are told by
// their flags.
bool changes_files(uint64_t number, const uint64_t* a) {
  constexpr uint64_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
  constexpr uint32_t kActsOnPath = shim::kPathIn | shim::kOutgoing;
  switch (number) {
    case SYS_open: return a[1] & kWrites;
    case SYS_openat: return a[2] & kWrites;
    case SYS_openat2:
    case SYS_creat: return true;
    default: return (call_flags(static_cast<unsigned>(number)) & kActsOnPath) == kActsOnPath;
  }
}

// The answer to a system call that nothing outside can notice: its result, and `bytes` to be stored at address `place`
// (0: nothing is stored).
struct PlainAnswer {
  int64_t result = 0;
  uint64_t place = 0;
  std::vector<std::byte> bytes = {};
};
template <typename T>
PlainAnswer with_bytes(int64_t result, uint64_t place, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {result, result < 0 ? 0 : place, {bytes.begin(), bytes.end()}};
}
std::optional<PlainAnswer> plain_answer(uint64_t number, const uint64_t* a) {
  timespec time{};
  switch (number) {
    case SYS_clock_gettime:
      return with_bytes(clock_gettime(static_cast<clockid_t>(a[0]), &time) ? -errno : 0, a[1], time);
    case SYS_clock_getres:
      return with_bytes(clock_getres(static_cast<clockid_t>(a[0]), &time) ? -errno : 0, a[1], time);
    case SYS_gettimeofday: {
      timeval now{};
      gettimeofday(&now, nullptr);
      return with_bytes(0, a[0], now);
    }
    case SYS_time: return with_bytes(::time(nullptr), a[0], ::time(nullptr));
    case SYS_getrandom: {
      PlainAnswer some{0, a[0], std::vector<std::byte>(std::min<uint64_t>(a[1], 256))};
      some.result = getrandom(some.bytes.data(), some.bytes.size(), 0);
      return some;
    }
    case SYS_sched_yield: return PlainAnswer{};
    case SYS_getuid: return PlainAnswer{getuid()};
    case SYS_geteuid: return PlainAnswer{geteuid()};
    case SYS_getgid: return PlainAnswer{getgid()};
    case SYS_getegid: return PlainAnswer{getegid()};
    default: return std::nullopt;
  }
}

// The signal that a call sends, and to which process (0: the caller's own, -1: unknown) and thread (0: any). The calls
// are named here, because calls.def does not say which arguments these are.
struct Sent {
  int64_t process = 0, thread = 0;
  int signal = 0;
};
std::optional<Sent> sent_signal(uint64_t number, const uint64_t* a) {
  auto at = [&](int i) { return static_cast<int64_t>(static_cast<int32_t>(a[i])); };
  switch (number) {
    case SYS_kill:
    case SYS_rt_sigqueueinfo: return Sent{at(0), 0, static_cast<int>(a[1])};
    case SYS_tkill: return Sent{0, at(0), static_cast<int>(a[1])};
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo: return Sent{at(0), at(1), static_cast<int>(a[2])};
    case SYS_pidfd_send_signal: return Sent{-1, 0, static_cast<int>(a[1])};
    default: return std::nullopt;
  }
}

// Whether the call would wait forever, because no other thread runs that could wake the caller.
bool waits_for_ever(const ReplayNode& node, uint64_t number, const uint64_t* a) {
  if (number == SYS_pause || number == SYS_rt_sigsuspend) return true;
  if (number != SYS_futex) return false;
  const uint64_t command = a[1] & FUTEX_CMD_MASK;
  if (command == FUTEX_LOCK_PI) return a[3] == 0;
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) return false;
  uint32_t value = 0;
  return a[3] == 0 && const_cast<ReplayNode&>(node).process().read(a[0], &value, sizeof value) &&
         value == static_cast<uint32_t>(a[2]);
}

// What the call waits for, for example "for the lock at 0x... that thread 3 (worker) holds" if it is a mutex of glibc.
std::string what_for(ReplayNode& node, uint64_t number, const uint64_t* a) {
  if (number != SYS_futex) return "for a signal";
  uint32_t owner = 0;
  if (node.process().read(a[0] + 8, &owner, sizeof owner) && owner)
    for (const ThreadInfo& thread : node.threads())
      if (thread.tid == owner)
        return fmt::format("for the lock at {:#x} that thread {} ({}) holds", a[0], thread.id.value, thread.name);
  return fmt::format("on the futex at {:#x}, and no other thread runs meanwhile", a[0]);
}

// Whether the function has returned. Its return address is not executable or is the shim's trap, so it raised a signal.
bool has_come_back(ReplayNode& node, const ReplayNode::Thread& thread, int status) {
  const int signal = WSTOPSIG(status);
  if (status >> 16 || (signal != SIGSEGV && signal != SIGTRAP)) return false;
  user_regs_struct r;
  if (!TracedProcess::registers(thread.tid, r) || r.rsp != thread.detour->return_rsp) return false;
  const uint64_t back = thread.detour->return_address;
  return signal == SIGSEGV ? r.rip == back : back == node.control().trap_instruction && r.rip == back + 1;
}

// Takes a thread that is stopped at the entry of a system call to the exit, without making the call, so that it can be
// given other registers.
void leave_syscall(TracedProcess& process, pid_t tid) {
  user_regs_struct r;
  if (!TracedProcess::registers(tid, r)) return;
  r.orig_rax = kNoCall;
  if (TracedProcess::set_registers(tid, r) && ptrace(PTRACE_SYSCALL, tid, 0, 0) == 0) (void)process.wait(tid);
}

}  // namespace

Stop ReplaySession::give_up_call(ReplayNode& node, ReplayNode::Thread& thread, CallFailure failure) {
  (void)node.stop_threads();
  Stop stop = stop_of(Stop::Kind::interrupt, node, thread);
  stop.message = failure.text;
  call_failure_ = std::move(failure);
  return stop;
}

// Describes a function that has not returned in time: it either sleeps in the kernel or computes.
CallFailure ReplaySession::describe_waiting(const ReplayNode::Thread& thread) const {
  auto stat = read_file(fmt::format("/proc/{}/stat", thread.tid));
  const size_t state = stat ? stat->rfind(") ") : std::string::npos;
  if (state != std::string::npos && (*stat)[state + 2] != 'R') {
    auto call = read_file(fmt::format("/proc/{}/syscall", thread.tid));
    const int number = call ? atoi(call->c_str()) : -1;
    return {"blocked", number < 0
                           ? "waits in the kernel"
                           : fmt::format("waits in the system call {}", call_text(static_cast<unsigned>(number)))};
  }
  return {"looped", "still computes"};
}

// Call when the function enters or leaves a system call. At its entry, lets the kernel make the call or answers it
// here; returns the reason if the function must be given up.
std::optional<CallFailure> ReplaySession::native_call(ReplayNode& node, ReplayNode::Thread& thread) {
  user_regs_struct r;
  if (!TracedProcess::registers(thread.tid, r)) return std::nullopt;
  auto& detour = *thread.detour;
  if (detour.answer) {  // the exit of a call that was answered here
    r.rax = static_cast<uint64_t>(*detour.answer);
    detour.answer.reset();
    TracedProcess::set_registers(thread.tid, r);
    return std::nullopt;
  }
  if (static_cast<int64_t>(r.rax) != -ENOSYS) return std::nullopt;  // the exit of a call that the kernel made
  const uint64_t number = r.orig_rax, a[] = {r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9};
  std::optional<int64_t> answer;
  const auto& header = node.reader().header();
  switch (number) {
    case SYS_exit:
    case SYS_exit_group:
      return CallFailure{"crashed", fmt::format("would have ended the process: exit({})", static_cast<int>(a[0]))};
    case SYS_getpid: answer = header.pid; break;
    case SYS_getppid:
      answer = header.parent_pid ? header.parent_pid : 1;  // 0: its parent was not recorded
      break;
    case SYS_gettid: answer = detour.area.tid; break;
    case SYS_nanosleep:
    case SYS_clock_nanosleep: answer = 0; break;  // logical time does not advance during a call
    case SYS_write:
    case SYS_writev: {
      if (a[0] != 1 && a[0] != 2) break;
      std::vector<iovec> parts{{reinterpret_cast<void*>(a[1]), a[2]}};
      if (number == SYS_writev) {
        parts.resize(std::min<uint64_t>(a[2], 1024));
        if (!node.process().read(a[1], parts.data(), parts.size() * sizeof(iovec))) return std::nullopt;
      }
      std::string text;
      for (const iovec& part : parts) {
        std::string piece(std::min<size_t>(part.iov_len, 1 << 20), '\0');
        piece.resize(node.process().read_some(reinterpret_cast<uint64_t>(part.iov_base), piece.data(), piece.size()));
        text += piece;
      }
      answer = static_cast<int64_t>(text.size());
      if (on_call_output) on_call_output(node.id(), text);
      break;
    }
    default: break;
  }
  if (auto sent = sent_signal(number, a)) {
    const bool own =
        (sent->process == 0 || sent->process == header.pid) && (sent->thread == 0 || sent->thread == detour.area.tid);
    if (own && sent->signal)
      return CallFailure{"crashed",
                         fmt::format("sent itself {} ({})", signal_text(sent->signal), strsignal(sent->signal))};
    answer = own ? 0 : -EPERM;
  }
  if (changes_files(number, a)) answer = -EROFS;
  if (auto plain = plain_answer(number, a); plain && !answer) {
    answer = plain->result;
    if (plain->place && !node.write(Addr{plain->place}, plain->bytes)) answer = -EFAULT;
  }
  if (!answer && waits_for_ever(node, number, a)) return CallFailure{"blocked", "waits " + what_for(node, number, a)};
  if (!answer && !may_pass_filter(number)) answer = -EPERM;
  if (!answer) {
    detour.asked_kernel = true;
    return std::nullopt;
  }
  detour.answer = answer;
  r.orig_rax = kNoCall;
  TracedProcess::set_registers(thread.tid, r);
  return std::nullopt;
}

Result<Stop> ReplaySession::run_detour(NodeId id, ThreadId thread_id, int timeout_ms) {
  call_failure_.reset();
  FRIDAY_TRY(found, readable(id));
  ReplayNode& node = *found;
  ReplayNode::Thread* thread = node.thread_of(thread_id);
  if (!thread || !thread->detour)
    return fail(ErrorCode::usage, "node {}: thread {} is not in a call", id, thread_id.value);
  // In `clock` order all nodes are on one processor; a stop costs a third as much if the tracer is there too.
  const OnProcessor beside(sched_getcpu() == processor_ ? -1 : processor_);
  FRIDAY_TRY_VOID(node.watches().flush());
  const auto start = Clock::now(), deadline = start + std::chrono::milliseconds(timeout_ms);
  const pid_t tid = thread->tid;
  if (!resume_thread(node, *thread)) return fail(ErrorCode::component_died, "node {}: its process is gone", id);
  for (;;) {
    int status = 0;
    pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
    if (got == 0) {
      const auto now = Clock::now();
      if (interrupt_.exchange(false)) return give_up_call(node, *thread, {"looped", "was interrupted"});
      if (now > deadline) return give_up_call(node, *thread, describe_waiting(*thread));
      if (now < start + kSpin) {
        sched_yield();
        continue;
      }
      if (node.process().is_gone()) return fail_node(node, thread_id, "its process is gone");
      usleep(100);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || !WIFSTOPPED(status)) {
      if (got > 0)
        if (auto stop = handle_exit(node, tid, status)) return *stop;
      return fail(ErrorCode::component_died, "node {}: the call ended its process", id);
    }
    if (WSTOPSIG(status) == kSyscallStop && !(status >> 16)) {
      thread->stopped = true;
      if (auto failure = native_call(node, *thread)) {
        leave_syscall(node.process(), tid);
        return give_up_call(node, *thread, std::move(*failure));
      }
      if (!resume_thread(node, *thread)) return fail(ErrorCode::component_died, "node {}: its process is gone", id);
      continue;
    }
    if (has_come_back(node, *thread, status)) {
      thread->stopped = true;
      Stop stop = stop_of(Stop::Kind::signal, node, *thread);
      stop.signal = WSTOPSIG(status);
      stop.pc = Addr{thread->detour->return_address};
      return stop;
    }
    auto stop = handle_new(tid, status);
    if (!stop) continue;
    if (stop->kind == Stop::Kind::signal)
      call_failure_ = CallFailure{
          "crashed", fmt::format("raised {} ({}) at {}", signal_text(stop->signal), strsignal(stop->signal), stop->pc)};
    return *stop;
  }
}

}  // namespace friday
