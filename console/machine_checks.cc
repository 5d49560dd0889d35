#include "console/machine_checks.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <regex>

#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/record/network.h"
#include "core/record/ticks.h"
#include "core/replay/debug_registers.h"
#include "core/shim/trace_format.h"

namespace friday {
namespace {

struct Answer {
  bool works;
  std::string found;
};

Answer of_errno(bool works) { return {works, works ? "yes" : strerror(errno)}; }

// Runs `trial` in a child process, since it may change or kill the process. Its errno is passed back as the exit code;
// 0 is success.
Answer in_child(const std::function<int()>& trial) {
  const pid_t pid = fork();
  if (pid < 0) return of_errno(false);
  if (pid == 0) {
    alarm(10);
    _exit(trial());
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (WIFSIGNALED(status)) return {false, fmt::format("killed by signal {}", WTERMSIG(status))};
  const int error = WEXITSTATUS(status);
  return {error == 0, error == 0 ? "yes" : strerror(error)};
}

Answer try_dispatch() {
  // Turn the feature off, although it is off already: that succeeds only if the kernel supports it.
  return of_errno(prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, 0, 0, 0) == 0);
}

// Maps as much as the shim and the trace of a small program need. A program's own limit may be lower than this
// process's.
Answer try_addresses() {
  constexpr size_t kLeast = 64 << 20;
  void* window = mmap(reinterpret_cast<void*>(format::kWindowAddress), kLeast, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  const Answer answer = of_errno(window != MAP_FAILED);
  if (window != MAP_FAILED) munmap(window, kLeast);
  return answer;
}

// Creates an unnamed file of 16 MiB in `directory`, or in its nearest existing ancestor.
Answer try_disk(std::string directory, UniqueFd& file) {
  struct stat status;
  while (stat(directory.c_str(), &status) != 0 && directory.size() > 1) {
    const size_t slash = directory.find_last_of('/');
    directory = slash == std::string::npos ? "." : slash == 0 ? "/" : directory.substr(0, slash);
  }
  file.reset(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) {
    std::string name = directory + "/.friday-doctor-XXXXXX";
    file.reset(mkostemp(name.data(), O_CLOEXEC));
    if (file) unlink(name.c_str());
  }
  if (!file) return {false, fmt::format("{}: {}", directory, strerror(errno))};
  const auto before = signal(SIGXFSZ, SIG_IGN);
  const int error = posix_fallocate(file.get(), 0, 16 << 20);
  signal(SIGXFSZ, before);
  return {error == 0, error ? fmt::format("{}: {}", directory, strerror(error)) : "yes"};
}

Answer try_hole(const UniqueFd& file) {
  if (!file) return {false, "no file to try it on"};
  return of_errno(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 1 << 20) == 0);
}

// Does what a replay does with each node: seizes a stopped child, reads its registers and writes its memory.
Answer try_ptrace() {
  static volatile int word = 1;
  const pid_t pid = fork();
  if (pid < 0) return of_errno(false);
  if (pid == 0) {
    alarm(10);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  while (waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR) {}
  Answer answer{true, "yes"};
  user_regs_struct registers;
  if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL) != 0) answer = of_errno(false);
  else if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) != 0) answer = of_errno(false);
  if (answer.works) {
    kill(pid, SIGCONT);
    while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR) {}
    if (ptrace(PTRACE_GETREGS, pid, 0, &registers) != 0) answer = of_errno(false);
  }
  if (answer.works) {
    const int fresh = 2;
    UniqueFd memory(open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDWR | O_CLOEXEC));
    if (!memory || pwrite(memory.get(), &fresh, sizeof fresh, reinterpret_cast<off_t>(&word)) != sizeof fresh)
      answer = {false, fmt::format("its memory: {}", strerror(errno))};
  }
  kill(pid, SIGKILL);
  while (waitpid(pid, &status, __WALL) == pid && !WIFEXITED(status) && !WIFSIGNALED(status)) {}
  return answer;
}

Answer try_memfd() {
  UniqueFd fd(memfd_create("friday-doctor", MFD_CLOEXEC));
  if (!fd || ftruncate(fd.get(), 4096) != 0) return of_errno(false);
  void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return of_errno(false);
  *static_cast<volatile char*>(mapped) = 1;
  munmap(mapped, 4096);
  return {true, "yes"};
}

struct GdbTrial {
  Answer version, python;
};

GdbTrial try_gdb(const std::string& gdb) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {of_errno(false), of_errno(false)};
  UniqueFd reading(ends[0]), writing(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return {of_errno(false), of_errno(false)};
  if (pid == 0) {
    alarm(30);
    dup2(writing.get(), 1);
    dup2(writing.get(), 2);
    execlp(gdb.c_str(), gdb.c_str(), "-nx", "--batch", "-ex", "show version", "-ex", "python print('friday', 6 * 7)",
           nullptr);
    dprintf(1, "cannot start: %s\n", strerror(errno));
    _exit(127);
  }
  writing.reset();
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(reading.get(), buffer, sizeof buffer)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  const std::string first = text.substr(0, text.find('\n'));
  std::smatch match;
  GdbTrial trial{{false, first.empty() ? "it says nothing" : first}, {text.find("friday 42") != std::string::npos, ""}};
  if (std::regex_search(first, match, std::regex("GNU gdb .*?([0-9]+)\\.[0-9]+")))
    trial.version = {std::stoi(match[1]) >= 13, first};
  if (trial.python.works) trial.python.found = "yes";
  else trial.python.found = trial.version.works ? "gdb was built without it" : trial.version.found;
  return trial;
}

Answer try_filters() {
  const uint32_t action = SECCOMP_RET_TRAP;
  return of_errno(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);
}

Answer try_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {limit.rlim_max >= 128, fmt::format("{} allowed", limit.rlim_max)};  // replay raises its soft limit
}

Answer try_affinity() {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return of_errno(false);
  return of_errno(sched_setaffinity(0, sizeof all, &all) == 0);
}

Answer try_clock() {
  auto source = read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source) return {false, "the kernel does not say which clock it uses"};
  while (!source->empty() && source->back() == '\n') source->pop_back();
  return {tsc_is_the_clock() || vdso_reads_the_clock(), "the kernel uses " + *source};
}

Answer try_perf() {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
  attributes.exclude_kernel = attributes.exclude_hv = 1;
  UniqueFd fd(static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0)));
  return of_errno(bool(fd));
}

Answer try_userfaultfd() {
  UniqueFd fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
  return of_errno(bool(fd));
}

Answer try_locked_memory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string text =
      limit.rlim_cur == RLIM_INFINITY ? "no limit" : fmt::format("up to {} KiB", limit.rlim_cur >> 10);
  alignas(4096) static char page[4096];
  if (mlock(page, sizeof page) != 0) return {false, fmt::format("{}, {}", strerror(errno), text)};
  munlock(page, sizeof page);
  return {true, text};
}

// Makes the smallest network that a group can have, in a child, because a refusal may leave the process elsewhere.
Answer try_network() {
  NetworkSpec spec;
  spec.hosts = {"a", "b"};
  auto network = Network::make(spec);
  return {network.has_value(), network ? "yes" : network.error().message};
}

std::string line_of(const std::string& file, std::string_view key) {
  auto text = read_file(file);
  const size_t at = text ? text->find(std::string("\n") + std::string(key)) : std::string::npos;
  if (at == std::string::npos) return "";
  size_t from = at + 1 + key.size();
  while (from < text->size() && ((*text)[from] == '\t' || (*text)[from] == ' ')) from++;
  return text->substr(from, text->find('\n', from) - from);
}

std::string setting(const std::string& file) {
  auto text = read_file(file);
  if (!text) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

}  // namespace

const char* name_of(NeededFor needed) {
  switch (needed) {
    case NeededFor::both: return "record and replay";
    case NeededFor::record: return "record";
    case NeededFor::replay: return "replay";
    case NeededFor::speed: return "speed";
    case NeededFor::nothing: return "nothing";
  }
  return "nothing";
}

std::vector<MachineCheck> check_machine(const std::string& directory, const std::string& gdb) {
  std::vector<MachineCheck> list;
  auto add = [&](const char* name, Refusal refusal, NeededFor needed, Answer answer) {
    list.push_back({name, refusal, needed, answer.works, std::move(answer.found)});
  };
  UniqueFd file;
  add("Syscall User Dispatch", Refusal::dispatch, NeededFor::both, try_dispatch());
  add("address space for traces", Refusal::addresses, NeededFor::both, try_addresses());
  add("disk space", Refusal::disk, NeededFor::record, try_disk(directory, file));
  add("tracing a child (ptrace)", Refusal::ptrace, NeededFor::replay, try_ptrace());
  add("files in memory (memfd)", Refusal::memfd, NeededFor::replay, try_memfd());
  add("filters of system calls", Refusal::confinement, NeededFor::replay, try_filters());
  const GdbTrial trial = try_gdb(gdb);
  add("gdb", Refusal::gdb, NeededFor::replay, trial.version);
  add("Python in gdb", Refusal::gdb_python, NeededFor::replay, trial.python);
  add("open files", Refusal::descriptors, NeededFor::replay, try_descriptors());
  add("choosing processors", Refusal::affinity, NeededFor::speed, try_affinity());
  add("debug registers", Refusal::debug_registers, NeededFor::speed,
      {debug_registers_work(), debug_registers_work() ? "" : "a write that one watched went unnoticed"});
  add("clock", Refusal::clock, NeededFor::speed, try_clock());
  add("holes in files", Refusal::punch_hole, NeededFor::speed, try_hole(file));
  add("personality", Refusal::personality, NeededFor::nothing,
      in_child([] { return personality(ADDR_NO_RANDOMIZE) < 0 ? errno : 0; }));
  add("hardware counters", Refusal::perf_events, NeededFor::nothing, try_perf());
  add("userfaultfd", Refusal::userfaultfd, NeededFor::nothing, try_userfaultfd());
  add("user namespaces", Refusal::user_namespaces, NeededFor::nothing,
      in_child([] { return unshare(CLONE_NEWUSER) != 0 ? errno : 0; }));
  add("network of namespaces", Refusal::network, NeededFor::nothing, try_network());
  add("locked memory", Refusal::locked_memory, NeededFor::nothing, try_locked_memory());
  return list;
}

std::vector<std::pair<std::string, std::string>> describe_machine() {
  utsname name{};
  uname(&name);
  const std::string yama = setting("/proc/sys/kernel/yama/ptrace_scope"),
                    filter = line_of("/proc/self/status", "Seccomp:");
  const long landlock = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return {{"kernel", fmt::format("{} {}", name.sysname, name.release)},
          {"user", fmt::format("{}{}", geteuid(), geteuid() == 0 ? " (root)" : "")},
          {"kernel.yama.ptrace_scope", yama.empty() ? "not there" : yama},
          {"kernel.perf_event_paranoid", setting("/proc/sys/kernel/perf_event_paranoid")},
          {"seccomp", filter == "2"   ? "a filter restricts this process"
                      : filter == "0" ? "none"
                                      : filter},
          {"Landlock", landlock > 0 ? fmt::format("version {}", landlock)
                                    : "none, so a node's gdb may write wherever you may (docs/security.md)"},
          {"no_new_privs", line_of("/proc/self/status", "NoNewPrivs:")}};
}

}  // namespace friday
