#include "core/replay/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/elf.h"
#include "core/base/files.h"
#include "core/base/refusals.h"
#include "core/replay/confinement.h"
#include "core/trace/calls.h"

namespace friday {
namespace {

constexpr long kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                          PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

int wait_for(pid_t tid) {
  int status = 0;
  while (waitpid(tid, &status, __WALL) < 0 && errno == EINTR) {}
  return status;
}

// The address of the symbol `table` in friday-stub: the start of its only writable segment.
Result<uint64_t> find_table(const std::string& path) {
  FRIDAY_TRY(content, read_file(path));
  const Elf elf(content);
  if (!elf.header) return fail(ErrorCode::io, "{} is not an ELF program; build Friday again", path);
  for (const Elf64_Phdr& segment : elf.segments)
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W)) return uint64_t{segment.p_vaddr};
  return fail(ErrorCode::io, "{} has no data segment; build Friday again", path);
}

[[noreturn]] void become_friday_stub(const std::string& path, int schedule, int channel, pid_t group, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  setpgid(0, group);  // Ctrl-C in a terminal must reach Friday only
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int s = 1; s < 65; s++) signal(s, SIG_DFL);
  // Move both to high numbers first: one of them may have the final number of the other.
  schedule = fcntl(schedule, F_DUPFD_CLOEXEC, TracedProcess::kChannelFd + 1);
  channel = fcntl(channel, F_DUPFD_CLOEXEC, TracedProcess::kChannelFd + 1);
  if (dup2(schedule, TracedProcess::kScheduleFd) < 0 || dup2(channel, TracedProcess::kChannelFd) < 0) _exit(127);
  give_up_rights();
  raise(SIGSTOP);
  char name[] = "friday-node";
  char* arguments[] = {name, nullptr};
  char* environment[] = {nullptr};
  execve(path.c_str(), arguments, environment);
  _exit(127);
}

bool has_ended(pid_t tid) {
  auto stat = read_file(fmt::format("/proc/{}/stat", tid));
  const size_t name = stat ? stat->rfind(") ") : std::string::npos;
  return name == std::string::npos || (*stat)[name + 2] == 'Z' || (*stat)[name + 2] == 'X';
}

std::vector<pid_t> other_threads(pid_t pid) {
  std::vector<pid_t> threads;
  if (DIR* tasks = opendir(fmt::format("/proc/{}/task", pid).c_str())) {
    while (dirent* entry = readdir(tasks))
      if (pid_t tid = atoi(entry->d_name); tid > 0 && tid != pid) threads.push_back(tid);
    closedir(tasks);
  }
  return threads;
}

}  // namespace

std::string ending_text(int status) {
  if (WIFSTOPPED(status)) return "stopped at " + signal_text(WSTOPSIG(status));
  if (WIFSIGNALED(status)) return "was killed by " + signal_text(WTERMSIG(status));
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

std::string memory_directory(pid_t pid) {
  if (has_ended(pid))
    for (pid_t tid : other_threads(pid))
      if (!has_ended(tid)) return fmt::format("/proc/{}/task/{}", pid, tid);
  return fmt::format("/proc/{}", pid);
}

TracedProcess::TracedProcess(TracedProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      end_status_(other.end_status_),
      memory_(std::move(other.memory_)),
      group_(other.group_),
      table_(other.table_) {}

TracedProcess& TracedProcess::operator=(TracedProcess&& other) noexcept {
  if (this != &other) {
    kill();
    pid_ = std::exchange(other.pid_, -1);
    end_status_ = other.end_status_;
    memory_ = std::move(other.memory_);
    group_ = other.group_;
    table_ = other.table_;
  }
  return *this;
}

TracedProcess::~TracedProcess() { kill(); }

Result<void> TracedProcess::open_memory() {
  FRIDAY_TRY(fd, open_file(fmt::format("/proc/{}/mem", pid_), O_RDWR));
  memory_ = std::move(fd);
  group_ = getpgid(pid_);
  return {};
}

Result<TracedProcess> TracedProcess::start_friday_stub(const std::string& path, int schedule, int channel,
                                                       pid_t group) {
  FRIDAY_TRY(table, find_table(path));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= kChannelFd + 2)
    return refused(Refusal::descriptors, fmt::format("{} allowed", limit.rlim_cur));
  TracedProcess process;
  const pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) return fail_errno(errno, "cannot fork a process for a node");
  if (pid == 0) become_friday_stub(path, schedule, channel, group, parent);
  setpgid(pid, group);  // parent and child both call this, because either may run first
  process.pid_ = pid;
  process.table_ = table;
  int status = 0;
  while (waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR) {}
  if (!WIFSTOPPED(status)) {
    process.pid_ = -1;
    return fail(ErrorCode::component_died, "the process for a node {} before it could be traced", ending_text(status));
  }
  if (ptrace(PTRACE_SEIZE, pid, 0, kOptions) != 0) return refused(Refusal::ptrace, strerror(errno));
  ::kill(pid, SIGCONT);
  // Expected are the group stop of SIGSTOP, SIGCONT, the exec event, and the first int3 of friday-stub.
  for (int i = 0; i < 8; i++) {
    status = wait_for(pid);
    if (!WIFSTOPPED(status)) break;
    const int event = status >> 16, signal = WSTOPSIG(status);
    if (!event && signal == SIGTRAP) break;
    ptrace(PTRACE_CONT, pid, 0, 0);
  }
  if (!WIFSTOPPED(status)) {
    process.pid_ = -1;
    return fail(ErrorCode::component_died, "{} cannot be executed; install Friday again", path);
  }
  FRIDAY_TRY_VOID(process.open_memory());
  return process;
}

Result<TracedProcess> TracedProcess::adopt(pid_t pid) {
  TracedProcess process;
  process.pid_ = pid;
  FRIDAY_TRY_VOID(process.open_memory());
  return process;
}

Result<void> TracedProcess::run_friday_stub(std::vector<Call>& calls) {
  FRIDAY_CHECK(calls.size() * sizeof(Call) < kScratch) << "a table of " << calls.size() << " calls";
  calls.push_back(Call{~0ull, {}, 0});
  static_assert(sizeof(Call) == 64);
  const bool written = write(table_, calls.data(), calls.size() * sizeof(Call));
  calls.pop_back();
  if (!written || ptrace(PTRACE_CONT, pid_, 0, 0) != 0)
    return fail(ErrorCode::component_died, "a node's process is gone");
  int status = wait_for(pid_);
  if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
    return fail(ErrorCode::component_died, "a node's process {} while its memory was rebuilt", ending_text(status));
  if (!read(table_, calls.data(), calls.size() * sizeof(Call)))
    return fail(ErrorCode::component_died, "a node's process is gone");
  return {};
}

Result<uint64_t> TracedProcess::put_scratch(std::span<const std::byte> data, uint64_t& used) {
  uint64_t address = table_ + kScratch + used;
  if (used + data.size() > (1u << 20) - kScratch)
    return fail(ErrorCode::unsupported, "the start image needs more than {} KiB for the arguments of its system calls",
                ((1u << 20) - kScratch) >> 10);
  if (!write(address, data.data(), data.size())) return fail(ErrorCode::component_died, "a node's process is gone");
  used += (data.size() + 15) & ~15ull;
  return address;
}

size_t TracedProcess::read_some(uint64_t address, void* to, size_t size) const {
  ssize_t got = pread(memory_.get(), to, size, static_cast<off_t>(address));
  return got > 0 ? static_cast<size_t>(got) : 0;
}

bool TracedProcess::read(uint64_t address, void* to, size_t size) const { return read_some(address, to, size) == size; }

bool TracedProcess::write(uint64_t address, const void* from, size_t size) const {
  return pwrite(memory_.get(), from, size, static_cast<off_t>(address)) == static_cast<ssize_t>(size);
}

bool TracedProcess::registers(pid_t tid, user_regs_struct& out) { return ptrace(PTRACE_GETREGS, tid, 0, &out) == 0; }
namespace {
std::atomic<uint64_t> changes_of_registers{1};
}

bool TracedProcess::set_registers(pid_t tid, const user_regs_struct& in) {
  changes_of_registers++;
  return ptrace(PTRACE_SETREGS, tid, 0, &in) == 0;
}

bool TracedProcess::single_step(pid_t tid) {
  changes_of_registers++;
  return ptrace(PTRACE_SINGLESTEP, tid, 0, 0) == 0;
}

uint64_t TracedProcess::register_changes() { return changes_of_registers; }

void TracedProcess::end_interrupted_call(user_regs_struct& registers) {
  // From ERESTARTSYS to ERESTART_RESTARTBLOCK (include/linux/errno.h in the kernel): the results of interrupted calls
  // that are to be restarted. Only a tracer sees them.
  constexpr int64_t kFirstRestart = -512, kLastRestart = -516;
  if (static_cast<int64_t>(registers.orig_rax) < 0) return;  // in no call
  const auto result = static_cast<int64_t>(registers.rax);
  if (result <= kFirstRestart && result >= kLastRestart) registers.rax = static_cast<uint64_t>(-EINTR);
  registers.orig_rax = kNoCall;
}

Result<int64_t> TracedProcess::inject(pid_t tid, uint64_t instruction, long number,
                                      std::span<const uint64_t> arguments) {
  user_regs_struct saved, now;
  if (!registers(tid, saved)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
  now = saved;
  uint64_t a[6]{};
  std::copy(arguments.begin(), arguments.end(), a);
  now.rip = instruction;
  now.rax = static_cast<uint64_t>(number);
  now.orig_rax = kNoCall;
  now.rdi = a[0], now.rsi = a[1], now.rdx = a[2], now.r10 = a[3], now.r8 = a[4], now.r9 = a[5];
  now.eflags &= ~0x100ull;
  if (!set_registers(tid, now)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
  constexpr int kMostSignals = 100;
  for (int signals = 0;;) {
    if (!single_step(tid)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
    const int status = wait(tid);
    if (!WIFSTOPPED(status)) return fail(ErrorCode::component_died, "a node's process died during an injected call");
    const int signal = (status >> 16) == 0 ? WSTOPSIG(status) : 0;
    if (signal == SIGTRAP) break;
    // A signal that was already pending may arrive once. But if there is no system call at that address, the same
    // instruction faults forever.
    if (signal && ++signals == kMostSignals) {
      set_registers(tid, saved);
      return fail(
          ErrorCode::component_died,
          "the code at {:#x} in a node is not the system call that its shim names, and raises {}; the recording "
          "is damaged. Copy it again",
          instruction, signal_text(signal));
    }
  }
  if (!registers(tid, now)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
  end_interrupted_call(saved);
  if (!set_registers(tid, saved)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
  return static_cast<int64_t>(now.rax);
}

Result<pid_t> TracedProcess::clone(pid_t tid, uint64_t instruction, uint64_t flags) {
  user_regs_struct registers_of_both;
  if (!registers(tid, registers_of_both)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
  end_interrupted_call(registers_of_both);
  const uint64_t arguments[] = {flags, 0, 0, 0, 0};
  FRIDAY_TRY(made, inject(tid, instruction, SYS_clone, arguments));
  if (made < 0)
    return fail(ErrorCode::unsupported, "the kernel makes no copy of a replayed process: {}{}",
                errno_text(static_cast<int>(-made)),
                made == -ENOMEM ? "; as it sees it, there is no memory for a copy of all that the process could write "
                                  "(`sysctl vm.overcommit_memory=1` makes it think otherwise)"
                : made == -EAGAIN ? "; a limit of processes is reached (`ulimit -u`, or pids.max of a container)"
                                  : "");
  // A copy stops before its first instruction. But the code at `instruction` is a stranger's, and may only say that it
  // has made one: then this is no new process, and waiting for a stop of it could take for ever.
  const auto copy = static_cast<pid_t>(made);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  int status = 0;
  pid_t found = 0;
  while ((found = waitpid(copy, &status, __WALL | WNOHANG)) == 0 && std::chrono::steady_clock::now() < until)
    sched_yield();
  if (found != copy || !WIFSTOPPED(status) || !set_registers(copy, registers_of_both))
    return fail(ErrorCode::component_died,
                "a replayed process that was to copy itself has not; the recording is damaged, or its code is not what "
                "was recorded. Copy it again");
  return copy;
}

// A process that has given up its memory has an empty /proc/PID/mem: a read returns 0. Otherwise reading address 0
// fails.
bool TracedProcess::is_gone() const {
  char byte;
  return pid_ <= 0 || pread(memory_.get(), &byte, 1, 0) == 0;
}

int TracedProcess::wait(pid_t tid) {
  const bool first = tid == pid_;
  for (unsigned tries = 0;;) {
    // The kernel does not report the end of a process's first thread before all others have ended, so there is nothing
    // to wait for. If it lives, wait for any event of any process of the replay: if this process is killed, one of its
    // threads reports that.
    siginfo_t about;
    if (first && tries++ && has_ended(tid) && !is_gone()) return 0;
    if (first && tries > 1)
      (void)waitid(P_PGID, static_cast<id_t>(group_), &about, WEXITED | WSTOPPED | WNOWAIT | __WALL);
    int status = 0;
    const pid_t got = waitpid(tid, &status, __WALL | (first ? WNOHANG : 0));
    if (got == tid) {
      if (first && !WIFSTOPPED(status)) note_end(status);
      return status;
    }
    if (got < 0 && errno != EINTR) return 0;
    if (got != 0) continue;
    if (is_gone()) {
      kill();
      return end_status_.value_or(0);
    }
    sched_yield();
  }
}

void TracedProcess::kill() {
  if (pid_ <= 0) return;
  // The first thread can be reaped only after all others.
  std::vector<pid_t> threads = other_threads(pid_);
  ::kill(pid_, SIGKILL);
  threads.push_back(pid_);
  for (pid_t tid : threads) {
    int status;
    for (;;) {
      pid_t got = waitpid(tid, &status, __WALL);
      if (got < 0 && errno == EINTR) continue;
      if (tid == pid_ && got == tid && !WIFSTOPPED(status)) end_status_ = status;
      if (got < 0 || WIFEXITED(status) || WIFSIGNALED(status)) break;
    }
  }
  pid_ = -1;
}

}  // namespace friday
