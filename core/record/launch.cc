#include "core/record/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/fd.h"
#include "core/base/refusals.h"
#include "core/base/scratch.h"
#include "core/record/instrumentable.h"
#include "core/record/witness.h"

namespace friday {
namespace {

using Clock = std::chrono::steady_clock;

struct Running {
  const ProgramSpec* spec;
  pid_t pid = 0;
  bool started = false, ended = false;
  int status = -1;
};

UniqueFd open_output(const std::string& path, const std::string& recording) {
  if (path.empty()) return {};
  std::string full = path[0] == '/' ? path : recording + "/" + path;
  return UniqueFd(open(full.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
}

std::vector<std::string> child_environment(const ProgramSpec& program, const std::string& shim, int socket_fd) {
  std::map<std::string, std::string> all;
  for (char** e = environ; *e; e++) {
    std::string_view entry = *e;
    size_t equals = entry.find('=');
    if (equals != std::string_view::npos) all[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  for (const auto& [key, value] : program.environment) all[key] = value;
  if (socket_fd >= 0) {
    std::string& preload = all["LD_PRELOAD"];
    preload = preload.empty() ? shim : shim + ":" + preload;
    // With rseq(2), the kernel writes the current processor number into the thread block, which a replay cannot repeat.
    std::string& tunables = all["GLIBC_TUNABLES"];
    tunables += (tunables.empty() ? "" : ":") + std::string("glibc.pthread.rseq=0");
    all[shim::kSocketVariable] = std::to_string(socket_fd);
  }
  std::vector<std::string> list;
  for (const auto& [key, value] : all) list.push_back(key + "=" + value);
  return list;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (auto& s : strings) list.push_back(s.data());
  list.push_back(nullptr);
  return list;
}

int socket_number(const rlimit& limit) {
  return limit.rlim_cur > static_cast<rlim_t>(shim::kSocketFd) ? shim::kSocketFd : static_cast<int>(limit.rlim_cur) - 1;
}

// A child process that creates a process group and leads it while this object exists. The program itself must not lead
// the group, because setsid(2) fails for a group leader, and a program started from a shell script is not a leader
// either.
class GroupLeader {
 public:
  static Result<GroupLeader> make() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "pipe failed");
    GroupLeader leader;
    UniqueFd reading(ends[0]);
    leader.writing_.reset(ends[1]);
    leader.pid_ = fork();
    if (leader.pid_ < 0) return fail_errno(errno, "fork failed");
    if (leader.pid_ == 0) {
      dup2(reading.get(), 0);
      close_range(1, ~0u, 0);  // other processes may be waiting for some of them to be closed
      char none;
      (void)!::read(0, &none, 1);
      _exit(0);
    }
    setpgid(leader.pid_, leader.pid_);
    return leader;
  }
  GroupLeader(GroupLeader&& other) noexcept : pid_(std::exchange(other.pid_, 0)), writing_(std::move(other.writing_)) {}
  ~GroupLeader() {
    writing_.reset();
    if (pid_ > 0)
      while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
  }
  pid_t group() const { return pid_; }

 private:
  GroupLeader() = default;
  pid_t pid_ = 0;
  UniqueFd writing_;
};

// fork and exec. Errors of the child are returned through a pipe, so that the caller can report, for example, a missing
// file. `descriptors` and `mask` are the original limit and signal mask, which the program shall get; this process has
// changed its own.
Result<pid_t> spawn(const ProgramSpec& program, const std::string& path, const LaunchOptions& options, int socket,
                    const rlimit& descriptors, const sigset_t& mask) {
  const int number = socket >= 0 ? socket_number(descriptors) : -1;
  auto environment = child_environment(program, options.shim, number);
  auto arguments = program.command;
  auto argv = pointers(arguments), envp = pointers(environment);
  UniqueFd out = open_output(program.output, options.collector.recording),
           err = open_output(program.errors, options.collector.recording);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return fail_errno(errno, "pipe failed");
  UniqueFd reading(report[0]), writing(report[1]);
  std::optional<GroupLeader> leader;
  if (options.own_process_groups) {
    FRIDAY_TRY(made, GroupLeader::make());
    leader.emplace(std::move(made));
  }
  pid_t pid = fork();
  if (pid < 0) return fail_errno(errno, "fork failed");
  if (pid == 0) {
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    ::signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_NOFILE, &descriptors);
    if (leader) setpgid(0, leader->group());
    if (out) dup2(out.get(), 1);
    if (err) dup2(err.get(), 2);
    if (socket >= 0 && dup2(socket, number) < 0) _exit(127);
    int error = 0;
    if (!program.cwd.empty() && chdir(program.cwd.c_str()) != 0) error = errno;
    if (!error) execve(path.c_str(), argv.data(), envp.data());
    if (!error) error = errno;
    (void)!write(writing.get(), &error, sizeof error);
    _exit(127);
  }
  writing.reset();
  int error = 0;
  if (::read(reading.get(), &error, sizeof error) == sizeof error) {
    waitpid(pid, nullptr, 0);
    return fail_errno(error, fmt::format("cannot start {}{}", path, program.cwd.empty() ? "" : " in " + program.cwd));
  }
  return pid;
}

constexpr std::chrono::seconds kLongestDeath{5};

class Group {
 public:
  Group(const GroupSpec& spec, const LaunchOptions& options, Collector& collector)
      : spec_(spec), options_(options), collector_(collector) {
    for (const auto& program : spec.programs) running_.push_back(Running{&program});
  }

  Result<LaunchResult> run() {
    sigset_t watched;
    sigemptyset(&watched);
    for (int s : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&watched, s);
    struct sigaction hangup;
    sigaction(SIGHUP, nullptr, &hangup);
    if (alone() || hangup.sa_handler != SIG_IGN) sigaddset(&watched, SIGHUP);  // SIGHUP stays ignored under nohup
    if (alone()) watch_all(watched);
    sigprocmask(SIG_BLOCK, &watched, &mask_);
    if (alone()) {
      FRIDAY_TRY(witness, GroupWitness::start());
      witness_ = std::move(witness);
    }
    UniqueFd signals(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    // Each node uses several descriptors of this process. The programs get the original limit.
    getrlimit(RLIMIT_NOFILE, &descriptors_);
    raise_descriptor_limit();
    auto result = loop(signals.get());
    setrlimit(RLIMIT_NOFILE, &descriptors_);
    if (!result) kill_all(SIGKILL);
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
    return result;
  }

 private:
  Result<void> serve(int timeout_ms, int signals) {
    FRIDAY_TRY_VOID(collector_.serve(timeout_ms, signals));
    for (const std::string& news : collector_.take_news()) options_.tell(news);
    return {};
  }

  Result<LaunchResult> loop(int signals) {
    start_ = Clock::now();
    while (true) {
      FRIDAY_TRY_VOID(start_due());
      if (done()) break;
      FRIDAY_TRY_VOID(serve(next_timeout(), signals));
      take_signals(signals);
      reap();
      decide();
    }
    // Processes that outlive their parents (daemons) are recorded until they end.
    while (collector_.alive() && stop_level_ < 2) {
      FRIDAY_TRY_VOID(serve(200, signals));
      take_signals(signals);
      reap();
      if (stop_level_ == 1) stop_orphans();
    }
    // After the kill, wait until all processes are dead, including children and daemons, so that nobody writes to a
    // trace any more.
    for (const auto killed = Clock::now();
         stop_level_ == 2 && collector_.alive() && Clock::now() - killed < kLongestDeath;) {
      for (pid_t pid : collector_.live_pids()) ::kill(pid, SIGKILL);
      FRIDAY_TRY_VOID(serve(20, signals));
      reap();
    }
    LaunchResult result;
    result.status = running_.empty() ? 0 : running_[0].status;
    result.strict_stop = collector_.must_stop();
    collector_.finish(stop_level_ == 2);
    result.left_out = collector_.left_out();
    result.left_out_because = collector_.left_out_because();
    result.notices = collector_.notices();
    result.nodes = collector_.summaries();
    return result;
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  Result<void> start_due() {
    for (auto& r : running_) {
      if (r.started || stop_level_ || elapsed() < r.spec->start_delay) continue;
      FRIDAY_TRY(path, find_program(*r.spec));
      r.started = true;
      uint32_t id = 0;
      UniqueFd socket;
      if (r.spec->record) {
        NodeOrigin origin{r.spec->name, {r.spec->name}, r.spec->command, path, r.spec->cwd};
        FRIDAY_TRY(end, collector_.add_node(origin, &id));
        socket = std::move(end);
      }
      FRIDAY_TRY(pid, spawn(*r.spec, path, options_, socket.get(), descriptors_, mask_));
      r.pid = pid;
      if (r.spec->record) collector_.started(id, pid);
    }
    return {};
  }

  bool done() const {
    for (const auto& r : running_)
      if (!r.ended && (r.started || !stop_level_)) return false;
    return true;
  }

  int next_timeout() const {
    double wait = 3600;
    for (const auto& r : running_)
      if (!r.started) wait = std::min(wait, r.spec->start_delay - elapsed());
    if (spec_.stop_after > 0 && !stop_level_) wait = std::min(wait, spec_.stop_after - elapsed());
    if (stop_level_) wait = std::min(wait, 0.2);
    return std::max(0, static_cast<int>(wait * 1000) + 1);
  }

  // The recorder of a single program is in that program's process group. It must survive signals that the program sends
  // to the group, so it blocks all that can be blocked, except those with which it stops and continues together with
  // the group.
  static void watch_all(sigset_t& watched) {
    sigfillset(&watched);
    for (int s : {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT}) sigdelset(&watched, s);
  }

  void take_signals(int signals) {
    const std::vector<Taken> taken = read_signals(signals);
    for (const Taken& each : taken) {
      if (alone()) pass_on(each.number, each.by_kernel);
      else if (stop_level_) kill_all(SIGKILL), stop_level_ = 2;
      else stop();
    }
    for (const Taken& each : taken) witness_.forget(each.number);
  }

  // A signal that this process has received.
  struct Taken {
    int number;
    bool by_kernel;
  };
  // All signals that have come, and what the witness says of them (GroupWitness). Who sends signals without end is
  // interrupted, so that other work goes on.
  std::vector<Taken> read_signals(int signals) {
    std::vector<Taken> taken;
    for (int round = 0; round < 100; round++) {
      const size_t before = taken.size();
      for (signalfd_siginfo info; ::read(signals, &info, sizeof info) == sizeof info;)
        if (info.ssi_signo != SIGCHLD) taken.push_back({static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL});
      if (taken.size() == before) break;
      if (alone()) witness_.look();
    }
    return taken;
  }

  bool alone() const { return !options_.own_process_groups; }

  // Forwards a signal. A signal to this process alone is meant for the program or, if that has ended, for the daemons
  // that it left behind. A signal to the whole group (Ctrl-C, or kill(0, ...) by the program) has already reached every
  // member; processes that left the group get it only if it did not come from the terminal.
  void pass_on(int number, bool by_kernel) {
    const bool to_group = witness_.saw(number), by_terminal = to_group && by_kernel;
    const auto reached = [&](pid_t pid) { return to_group && getpgid(pid) == getpgrp(); };
    const Running& program = running_[0];
    if (program.started && !program.ended) {
      if (!by_terminal && !reached(program.pid)) ::kill(program.pid, number);
    } else if (!by_terminal) {
      for (pid_t pid : collector_.live_pids())
        if (!reached(pid)) ::kill(pid, number);
    } else if (number != SIGWINCH) {
      for (pid_t pid : collector_.live_pids()) ::kill(pid, SIGTERM);
    }
  }

  void reap() {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      witness_.ended(pid);
      for (auto& r : running_)
        if (r.pid == pid) r.ended = true, r.status = status;
      collector_.ended(pid, status);
    }
  }

  void decide() {
    if (stop_level_ == 1 && std::chrono::duration<double>(Clock::now() - stopped_).count() > 10)
      kill_all(SIGKILL), stop_level_ = 2;
    if (stop_level_) return;
    if (collector_.must_stop()) stop();
    if (spec_.stop_after > 0 && elapsed() >= spec_.stop_after) stop();
    for (const auto& r : running_)
      if (r.ended && r.spec->name == spec_.stop_when_ends) stop();
  }

  void stop() {
    stop_level_ = 1;
    stopped_ = Clock::now();
    for (const auto& r : running_)
      if (r.started && !r.ended) ::kill(r.pid, r.spec->stop_signal);
  }

  void stop_orphans() {
    if (std::chrono::duration<double>(Clock::now() - stopped_).count() < 1) return;
    for (pid_t pid : collector_.live_pids()) ::kill(pid, SIGTERM);
    if (std::chrono::duration<double>(Clock::now() - stopped_).count() > 10) {
      for (pid_t pid : collector_.live_pids()) ::kill(pid, SIGKILL);
      stop_level_ = 2;
    }
  }

  void kill_all(int signal) {
    for (const auto& r : running_)
      if (r.started && !r.ended && r.pid > 0) ::kill(r.pid, signal);
  }

  const GroupSpec& spec_;
  const LaunchOptions& options_;
  Collector& collector_;
  GroupWitness witness_;
  std::vector<Running> running_;
  Clock::time_point start_, stopped_;
  int stop_level_ = 0;    // 1: asked to stop, 2: killed
  rlimit descriptors_{};  // this limit and this mask are the original ones of this process
  sigset_t mask_{};
};

// In LD_PRELOAD, the loader treats spaces and colons as separators and $ as the start of a token (ld.so(8)). If the
// shim's path contains one of these, it is preloaded through a link that other users may follow too. Returns an empty
// directory if no link is needed.
Result<ScratchDirectory> make_preloadable(std::string& shim) {
  if (shim.find_first_of(" :$") == std::string::npos) return ScratchDirectory();
  FRIDAY_TRY(directory, ScratchDirectory::make());
  const std::string link = directory.path() + shim.substr(shim.rfind('/'));
  if (chmod(directory.path().c_str(), 0711) != 0 || symlink(shim.c_str(), link.c_str()) != 0)
    return fail_errno(errno, "cannot make the link " + link);
  shim = link;
  return std::move(directory);
}

Result<LaunchResult> run_recorded(const GroupSpec& group, LaunchOptions options) {
  const auto link = make_preloadable(options.shim);  // must exist until the last program has ended
  if (!link) return std::unexpected(link.error());
  FRIDAY_TRY(collector, Collector::create(options.collector));
  char full[PATH_MAX];
  if (realpath(options.collector.recording.c_str(), full)) options.collector.recording = full;
  return Group(group, options, *collector).run();
}

}  // namespace

Result<void> check_node_name(const std::string& name) {
  bool letter = false, plain = true;
  for (char c : name) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    letter |= is_letter;
    plain &= is_letter || (c >= '0' && c <= '9') || strchr("_-.+", c);
  }
  if (plain && letter && name != "all") return {};
  return fail(ErrorCode::bad_input,
              "\"{}\" cannot name a node: use letters, digits, _ - . +, at least one letter, and not \"all\"", name);
}

Result<std::string> find_program(const ProgramSpec& program) {
  if (program.command.empty()) return fail(ErrorCode::usage, "node {}: no command given", program.name);
  const std::string& name = program.command[0];
  std::string path;
  if (name.find('/') != std::string::npos) {
    path = name[0] == '/' || program.cwd.empty() ? name : program.cwd + "/" + name;
  } else {
    std::string search = getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin";
    for (size_t from = 0; from <= search.size() && path.empty();) {
      size_t to = std::min(search.find(':', from), search.size());
      std::string candidate = search.substr(from, to - from) + "/" + name;
      if (access(candidate.c_str(), X_OK) == 0) path = candidate;
      from = to + 1;
    }
  }
  char resolved[PATH_MAX];
  if (path.empty() || !realpath(path.c_str(), resolved))
    return fail(ErrorCode::not_found, "node {}: the program {} was not found; give its path, or check PATH",
                program.name, name);
  if (program.record) FRIDAY_TRY_VOID(check_instrumentable(resolved, {geteuid(), ""}));
  constexpr int kGetMdwe = 66;  // PR_GET_MDWE; fails before Linux 6.3
  if (program.record && prctl(kGetMdwe, 0, 0, 0, 0) > 0)
    return fail(
        ErrorCode::unsupported,
        "node {}: who started friday record has forbidden it and its children to execute memory that they wrote "
        "(PR_SET_MDWE), so code cannot be "
        "patched to record it; start it from elsewhere, for a service of systemd with MemoryDenyWriteExecute=no",
        program.name);
  return std::string(resolved);
}

Result<uint64_t> parse_size(const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size() - end);
  if (unit.ends_with("iB")) unit.resize(unit.size() - 2);
  const size_t power = unit.empty() ? 0 : std::string_view("KMGT").find(unit[0]) + 1;
  if (error != std::errc{} || unit.size() > 1 || (!unit.empty() && power == 0) ||
      number > (uint64_t{1} << 50 >> 10 * power))
    return fail(ErrorCode::bad_input, "\"{}\" is not a size: write for example 500M or 20G", text);
  const uint64_t bytes = number << 10 * power;
  if (bytes < kLeastMaxSize)
    return fail(ErrorCode::bad_input, "\"{}\" is too small for a recording: the least is {}M", text,
                kLeastMaxSize >> 20);
  return bytes;
}

Result<LaunchResult> run_group(const GroupSpec& group, const LaunchOptions& options) {
  for (const auto& program : group.programs) {
    FRIDAY_TRY_VOID(check_node_name(program.name));
    auto found = find_program(program);
    if (!found) return std::unexpected(found.error());
  }
  // Turn the feature off, although it is off already: that succeeds only if the kernel supports it.
  if (prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, 0, 0, 0) != 0) return refused(Refusal::dispatch, strerror(errno));
  LaunchOptions resolved = options;
  if (resolved.collector.max_size == 0) resolved.collector.max_size = group.max_size;
  // Exceeding a file size limit (ulimit -f) must end the recording, not kill the recorder.
  const auto size_handler = ::signal(SIGXFSZ, SIG_IGN);
  auto result = run_recorded(group, resolved);
  ::signal(SIGXFSZ, size_handler);
  return result;
}

}  // namespace friday
