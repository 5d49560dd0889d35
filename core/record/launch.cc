#include "core/record/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/fd.h"
#include "core/base/refusals.h"
#include "core/base/scratch.h"
#include "core/record/spawn.h"
#include "core/record/witness.h"

namespace friday {
namespace {

using Clock = std::chrono::steady_clock;

struct Running {
  const ProgramSpec* spec;
  pid_t pid = 0;
  bool started = false, ended = false;
  int status = -1;
  int stopped_by = 0;
  bool killed = false;
};

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
      tick();
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
    result.ended_by = collector_.must_stop() ? GroupEnd::strict : ended_by_;
    for (const auto& r : running_)
      result.programs.push_back({r.spec->name, r.spec->record, r.started, r.status, r.stopped_by, r.killed});
    collector_.finish(stop_level_ == 2);
    result.left_out = collector_.left_out();
    result.left_out_because = collector_.left_out_because();
    result.notices = collector_.notices();
    result.nodes = collector_.summaries();
    return result;
  }

  void tick() {
    if (options_.every_second && Clock::now() - ticked_ >= std::chrono::seconds(1)) {
      ticked_ = Clock::now();
      options_.every_second();
    }
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
    if (spec_.timeout > 0 && !stop_level_) wait = std::min(wait, spec_.timeout - elapsed());
    if (stop_level_) wait = std::min(wait, 0.2);
    if (options_.every_second) wait = std::min(wait, 1.0);
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
      else stop(GroupEnd::interrupted);
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
    if (const auto reason = reason_to_stop()) stop(*reason);
  }

  std::optional<GroupEnd> reason_to_stop() const {
    if (collector_.must_stop()) return GroupEnd::strict;
    for (const auto& r : running_)
      if (r.ended && r.spec->name == spec_.stop_when_ends) return GroupEnd::node_ended;
    if (spec_.timeout > 0 && elapsed() >= spec_.timeout) return GroupEnd::timeout;
    if (spec_.stop_after > 0 && elapsed() >= spec_.stop_after) return GroupEnd::stop_after;
    return std::nullopt;
  }

  void stop(GroupEnd reason) {
    stop_level_ = 1;
    ended_by_ = reason;
    stopped_ = Clock::now();
    for (auto& r : running_)
      if (r.started && !r.ended) {
        r.stopped_by = r.spec->stop_signal;
        ::kill(r.pid, r.spec->stop_signal);
      }
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
    for (auto& r : running_)
      if (r.started && !r.ended && r.pid > 0) r.killed = true, ::kill(r.pid, signal);
  }

  const GroupSpec& spec_;
  const LaunchOptions& options_;
  Collector& collector_;
  GroupWitness witness_;
  std::vector<Running> running_;
  Clock::time_point start_, stopped_, ticked_{};
  int stop_level_ = 0;  // 1: asked to stop, 2: killed
  GroupEnd ended_by_ = GroupEnd::programs_ended;
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
  if (!options.directory.empty() && mkdir(options.directory.c_str(), 0700) != 0)
    return fail_errno(errno, "cannot create " + options.directory);
  return Group(group, options, *collector).run();
}

}  // namespace

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
