#include "core/replay/process.h"

#include <dirent.h>
#include <elf.h>
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
#include <csignal>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/refusals.h"

namespace friday {
namespace {

constexpr long kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

int wait_for(pid_t tid) {
  int status = 0;
  while (waitpid(tid, &status, __WALL) < 0 && errno == EINTR) {}
  return status;
}

// Address of the stub's symbol `table`: the start of its only writable segment.
Result<uint64_t> find_table(const std::string& stub) {
  FRIDAY_TRY(content, read_file(stub));
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(content.data());
  if (content.size() < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
    return fail(ErrorCode::io, "{} is no program; build Friday again", stub);
  for (unsigned i = 0; i < header->e_phnum; i++) {
    const auto* segment = reinterpret_cast<const Elf64_Phdr*>(content.data() + header->e_phoff) + i;
    if (segment->p_type == PT_LOAD && (segment->p_flags & PF_W)) return uint64_t{segment->p_vaddr};
  }
  return fail(ErrorCode::io, "{} has no data segment; build Friday again", stub);
}

[[noreturn]] void become_stub(const std::string& stub, int inherited, pid_t group, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  setpgid(0, group);  // a terminal's Ctrl-C is for Friday, not for its nodes
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int s = 1; s < 65; s++) signal(s, SIG_DFL);
  if (inherited >= 0) dup2(inherited, TracedProcess::kInheritedFd);
  raise(SIGSTOP);
  char name[] = "friday-node";
  char* arguments[] = {name, nullptr};
  char* environment[] = {nullptr};
  execve(stub.c_str(), arguments, environment);
  _exit(127);
}

}  // namespace

TracedProcess::TracedProcess(TracedProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), memory_(std::move(other.memory_)), table_(other.table_) {}

TracedProcess& TracedProcess::operator=(TracedProcess&& other) noexcept {
  if (this != &other) {
    kill();
    pid_ = std::exchange(other.pid_, -1);
    memory_ = std::move(other.memory_);
    table_ = other.table_;
  }
  return *this;
}

TracedProcess::~TracedProcess() { kill(); }

Result<void> TracedProcess::open_memory() {
  FRIDAY_TRY(fd, open_file(fmt::format("/proc/{}/mem", pid_), O_RDWR));
  memory_ = std::move(fd);
  return {};
}

Result<TracedProcess> TracedProcess::start_stub(const std::string& stub, int inherited, pid_t group) {
  FRIDAY_TRY(table, find_table(stub));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= kInheritedFd) return refused(Refusal::descriptors, fmt::format("{} allowed", limit.rlim_cur));
  TracedProcess process;
  const pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) return fail_errno(errno, "cannot fork a process for a node");
  if (pid == 0) become_stub(stub, inherited, group, parent);
  setpgid(pid, group);  // whoever of the two comes first
  process.pid_ = pid;
  process.table_ = table;
  int status = 0;
  while (waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR) {}
  if (!WIFSTOPPED(status)) {
    process.pid_ = -1;
    return fail(ErrorCode::component_died, "a node's process ended before it could be traced");
  }
  if (ptrace(PTRACE_SEIZE, pid, 0, kOptions) != 0)
    return refused(Refusal::ptrace, strerror(errno));
  ::kill(pid, SIGCONT);
  // SIGSTOP's group stop, SIGCONT, then the exec event, then the stub's first int3.
  for (int i = 0; i < 8; i++) {
    status = wait_for(pid);
    if (!WIFSTOPPED(status)) break;
    const int event = status >> 16, signal = WSTOPSIG(status);
    if (!event && signal == SIGTRAP) break;
    ptrace(PTRACE_CONT, pid, 0, 0);
  }
  if (!WIFSTOPPED(status)) {
    process.pid_ = -1;
    return fail(ErrorCode::component_died, "the replay stub {} cannot be executed", stub);
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

Result<void> TracedProcess::run_stub(std::vector<Call>& calls) {
  FRIDAY_CHECK(calls.size() * sizeof(Call) < kScratch) << "a stub table of " << calls.size() << " calls";
  calls.push_back(Call{~0ull, {}, 0});
  static_assert(sizeof(Call) == 64);
  const bool written = write(table_, calls.data(), calls.size() * sizeof(Call));
  calls.pop_back();
  if (!written || ptrace(PTRACE_CONT, pid_, 0, 0) != 0) return fail(ErrorCode::component_died, "a node's process is gone");
  int status = wait_for(pid_);
  if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
    return fail(ErrorCode::component_died, "a node's process died while its memory was rebuilt (status {:#x})", status);
  if (!read(table_, calls.data(), calls.size() * sizeof(Call))) return fail(ErrorCode::component_died, "a node's process is gone");
  return {};
}

Result<uint64_t> TracedProcess::put_scratch(std::span<const std::byte> data, uint64_t& used) {
  uint64_t address = table_ + kScratch + used;
  if (used + data.size() > (1u << 20) - kScratch) return fail(ErrorCode::unsupported, "too many mappings to rebuild at once");
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

Result<int64_t> TracedProcess::inject(pid_t tid, uint64_t instruction, long number, std::span<const uint64_t> arguments) const {
  user_regs_struct saved, now;
  if (!registers(tid, saved)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
  now = saved;
  uint64_t a[6]{};
  std::copy(arguments.begin(), arguments.end(), a);
  now.rip = instruction;
  now.rax = static_cast<uint64_t>(number);
  now.orig_rax = ~0ull;
  now.rdi = a[0], now.rsi = a[1], now.rdx = a[2], now.r10 = a[3], now.r8 = a[4], now.r9 = a[5];
  now.eflags &= ~0x100ull;
  if (!set_registers(tid, now)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
  for (;;) {
    if (!single_step(tid)) return fail_errno(errno, "cannot step a node's thread");
    int status = wait_for(tid);
    if (!WIFSTOPPED(status)) return fail(ErrorCode::component_died, "a node's process died during an injected call");
    if ((status >> 16) == 0 && WSTOPSIG(status) == SIGTRAP) break;
  }
  if (!registers(tid, now)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
  // A thread that was caught inside a blocking call has its number in orig_rax: make it come back from that call with
  // EINTR, which every loop of the shim expects, instead of leaving a restart to chance.
  if (static_cast<int64_t>(saved.orig_rax) >= 0) {
    const auto result = static_cast<int64_t>(saved.rax);
    if (result <= -512 && result >= -516) saved.rax = static_cast<uint64_t>(-EINTR);
    saved.orig_rax = ~0ull;
  }
  if (!set_registers(tid, saved)) return fail(ErrorCode::component_died, "thread {} is gone", tid);
  return static_cast<int64_t>(now.rax);
}

void TracedProcess::kill() {
  if (pid_ <= 0) return;
  // The leader of a traced group is not waitable before its other threads have been reaped.
  std::vector<pid_t> threads;
  if (DIR* tasks = opendir(fmt::format("/proc/{}/task", pid_).c_str())) {
    while (dirent* entry = readdir(tasks))
      if (pid_t tid = atoi(entry->d_name); tid > 0 && tid != pid_) threads.push_back(tid);
    closedir(tasks);
  }
  ::kill(pid_, SIGKILL);
  threads.push_back(pid_);
  for (pid_t tid : threads) {
    int status;
    for (;;) {
      pid_t got = waitpid(tid, &status, __WALL);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 || WIFEXITED(status) || WIFSIGNALED(status)) break;
    }
  }
  pid_ = -1;
}

}  // namespace friday
