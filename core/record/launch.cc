#include "core/record/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/counted.h"
#include "core/base/fd.h"
#include "core/base/refusals.h"
#include "core/base/scratch.h"
#include "core/record/network.h"
#include "core/record/readiness.h"
#include "core/record/spawn.h"
#include "core/record/verdict.h"
#include "core/record/witness.h"

namespace friday {
namespace {

using Clock = std::chrono::steady_clock;

// One start of a program. Times are seconds after the start of the group.
struct Running {
  const ProgramSpec* spec;
  bool restarted = false;
  uint32_t node = 0;  // its id, if it is recorded
  pid_t pid = 0, process_group = 0;
  bool started = false, ready = false, ended = false;
  double started_at = 0, ready_at = 0, ended_at = 0;
  std::optional<ReadyWatch> watch = {};
  int status = -1;
  int stopped_by = 0;
  bool killed = false, paused = false;

  bool runs() const { return started && !ended; }
};

constexpr std::chrono::seconds kLongestDeath{5};
constexpr double kLongestEnd = 10;       // seconds from a stop signal until a program is killed
constexpr double kReadyInterval = 0.01;  // seconds between two looks whether a program is ready, at least

class Group {
 public:
  // `network`: null if the group has none of its own.
  Group(const GroupSpec& spec, const LaunchOptions& options, Collector& collector, Network* network)
      : spec_(spec), options_(options), collector_(collector), network_(network) {
    for (const auto& program : spec.programs) running_.push_back({&program});
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
      look_whether_ready();
      FRIDAY_TRY_VOID(take_events());
      decide();
      tick();
    }
    // Processes that outlive their parents (daemons) are recorded until they end.
    while (collector_.alive() && stop_level_ < 2) {
      FRIDAY_TRY_VOID(serve(200, signals));
      take_signals(signals);
      reap();
      if (!alone()) decide();
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
    result.not_ready = not_ready_;
    result.not_ready_status = not_ready_status_;
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

  // Programs are started in the order of the file, each as soon as those that it waits for are ready.
  Result<void> start_due() {
    for (auto& r : running_) {
      if (r.started || stop_level_) continue;
      const auto due = start_time(r);
      if (due && elapsed() >= *due) FRIDAY_TRY_VOID(start(r));
    }
    return {};
  }

  // None as long as another program has to be ready first.
  std::optional<double> start_time(const Running& r) const {
    if (r.restarted) return 0;
    double from = 0;
    for (const std::string& name : r.spec->after) {
      const Running* other = latest(name);
      if (!other || !other->ready) return std::nullopt;
      from = std::max(from, other->ready_at);
    }
    return from + r.spec->start_delay;
  }

  // The last start of the program with this name.
  const Running* latest(const std::string& name) const {
    for (auto r = running_.rbegin(); r != running_.rend(); ++r)
      if (r->spec->name == name) return &*r;
    return nullptr;
  }
  Running* latest(const std::string& name) { return const_cast<Running*>(std::as_const(*this).latest(name)); }

  Result<void> start(Running& r) {
    FRIDAY_TRY(path, find_program(*r.spec));
    FRIDAY_TRY_VOID(watch_readiness(r));
    r.started = true;
    r.started_at = elapsed();
    UniqueFd socket;
    if (r.spec->record) {
      NodeOrigin origin{r.spec->name, {r.spec->name}, r.spec->command, path, r.spec->cwd};
      FRIDAY_TRY(end, collector_.add_node(origin, &r.node));
      socket = std::move(end);
    }
    std::optional<HostPlace> place;
    if (network_) place = network_->place_of(r.spec->host);
    FRIDAY_TRY(pid, spawn(*r.spec, path, options_, socket.get(), descriptors_, mask_, place ? &*place : nullptr));
    r.pid = pid;
    if (!alone()) r.process_group = getpgid(pid);
    if (r.spec->record) collector_.started(r.node, pid);
    if (r.spec->record && r.restarted) collector_.note_step(r.node, name_of(EventSpec::Action::restart), "");
    if (!r.watch) r.ready = true, r.ready_at = elapsed();
    return {};
  }

  Result<void> watch_readiness(Running& r) const {
    if (r.spec->ready.empty()) return {};
    auto what = parse_ready(r.spec->ready);
    if (!what) return fail(ErrorCode::bad_input, "node {}: ready: {}", r.spec->name, what.error().message);
    const pid_t neighbour = neighbour_of(r);
    if (what->kind == Readiness::Kind::port && !r.restarted && neighbour && is_port_open(neighbour, what->port))
      return fail(
          ErrorCode::bad_input,
          "node {}: port {} is open before the node has started, so another program has it; end that program, or "
          "let each run choose a port: \"port {{port:{}}}\"",
          r.spec->name, what->port, r.spec->name);
    std::vector<std::string> files;
    for (const std::string& file : {r.spec->output, r.spec->errors})
      if (!file.empty()) files.push_back(output_path(file, options_.collector.recording));
    r.watch.emplace(std::move(*what), files);
    return {};
  }

  // A process in the network in which the program will run; 0 if there is none.
  pid_t neighbour_of(const Running& r) const {
    if (!network_) return getpid();
    for (const Running& other : running_)
      if (other.runs() && other.spec->host == r.spec->host) return other.pid;
    return 0;
  }

  // Reading the kernel's tables of sockets may take milliseconds, so looking takes a twentieth of the time at most.
  void look_whether_ready() {
    const auto awaited = [](const Running& r) { return r.started && !r.ready; };
    const bool over = std::ranges::any_of(running_, [&](const Running& r) { return awaited(r) && r.ended; });
    if (stop_level_ || (elapsed() < look_at_ && !over)) return;
    const double began = elapsed();
    for (auto& r : running_) {
      if (!awaited(r)) continue;
      r.ready = r.watch->is_ready(r.pid, r.ended ? r.status : -1);
      r.ready_at = elapsed();
      if (r.ready || r.stopped_by) continue;
      if (r.ended) {
        not_ready_ =
            fmt::format("{} ended before it was ready (\"{}\"): {}", r.spec->name, r.spec->ready, end_text(r.status));
        not_ready_status_ = r.status;
      } else if (elapsed() > r.started_at + r.spec->ready_timeout)
        not_ready_ = fmt::format("{} was not ready (\"{}\") after ready_timeout = {:g} s", r.spec->name, r.spec->ready,
                                 r.spec->ready_timeout);
    }
    look_at_ = elapsed() + std::max(kReadyInterval, 19 * (elapsed() - began));
  }

  Result<void> take_events() {
    for (; !stop_level_ && next_event_ < spec_.events.size() && elapsed() >= spec_.events[next_event_].at;
         next_event_++) {
      const EventSpec& event = spec_.events[next_event_];
      if (!event.links.empty()) disturb(event);
      else
        for (const std::string& name : event.programs) take(event, name);
    }
    // A program that is to be restarted starts anew when it has ended.
    std::erase_if(restarts_, [this](const Restart& restart) {
      Running* r = latest(restart.program);
      if (!stop_level_ && r->runs() && elapsed() > restart.asked_at + kLongestEnd) signal_all(*r, SIGKILL);
      if (stop_level_ || r->runs()) return stop_level_ != 0;
      running_.push_back({r->spec, true});
      return true;
    });
    return {};
  }

  // Changes the network. The step is noted when nothing passes any more that shall not, or before anything passes that
  // did not until now.
  void disturb(const EventSpec& event) {
    const bool heals = event.action == EventSpec::Action::heal;
    if (heals) note(event);
    if (!network_->apply(event.links)) network_->lose();
    else if (!heals) note(event);
  }

  void note(const EventSpec& event) {
    for (const std::string& name : event.programs)
      if (const Running* r = latest(name); r->runs() && r->spec->record)
        collector_.note_step(r->node, name_of(event.action), event.detail);
  }

  void take(const EventSpec& event, const std::string& name) {
    Running* r = latest(name);
    if (!r->runs() && event.action != EventSpec::Action::restart) {
      options_.tell(fmt::format("event at {:g}: {} {}: it does not run", event.at, name_of(event.action), name));
      return;
    }
    if (event.action == EventSpec::Action::restart) {
      restarts_.push_back({name, elapsed()});
      if (r->runs()) {
        r->stopped_by = r->spec->stop_signal;
        ::kill(r->pid, r->spec->stop_signal);
        if (r->paused) signal_all(*r, SIGCONT);
      }
      return;
    }
    if (r->spec->record) collector_.note_step(r->node, name_of(event.action), "");
    if (event.action == EventSpec::Action::kill) r->stopped_by = SIGKILL;
    else r->paused = event.action == EventSpec::Action::stop;
    signal_all(*r, event.action == EventSpec::Action::kill   ? SIGKILL
                   : event.action == EventSpec::Action::stop ? SIGSTOP
                                                             : SIGCONT);
  }

  // The program and what it has started in its process group.
  static void signal_all(const Running& r, int number) {
    if (r.process_group <= 0 || ::kill(-r.process_group, number) != 0) ::kill(r.pid, number);
  }

  bool will_restart(const std::string& name) const {
    for (size_t i = next_event_; i < spec_.events.size(); i++)
      if (spec_.events[i].action == EventSpec::Action::restart && std::ranges::count(spec_.events[i].programs, name))
        return true;
    return std::ranges::find(restarts_, name, &Restart::program) != restarts_.end();
  }

  bool done() const {
    for (const auto& r : running_)
      if (!r.ended && (r.started || !stop_level_)) return false;
    return stop_level_ ||
           std::ranges::none_of(running_, [this](const Running& r) { return will_restart(r.spec->name); });
  }

  int next_timeout() const {
    double wait = 3600;
    const auto until = [&](double time) { wait = std::min(wait, time - elapsed()); };
    if (!stop_level_) {
      for (const auto& r : running_) {
        if (!r.started && start_time(r)) until(*start_time(r));
        if (r.started && !r.ready) until(look_at_);
        if (r.ended && r.ended_at + spec_.linger > elapsed()) until(r.ended_at + spec_.linger);
      }
      if (spec_.stop_after > 0) until(spec_.stop_after);
      if (spec_.timeout > 0) until(spec_.timeout);
      if (next_event_ < spec_.events.size()) until(spec_.events[next_event_].at);
    }
    if (stop_level_ || !restarts_.empty()) wait = std::min(wait, 0.2);
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
      if (network_) network_->ended(pid);
      for (auto& r : running_)
        if (r.pid == pid && !r.ended) r.ended = true, r.status = status, r.ended_at = elapsed();
      collector_.ended(pid, status);
    }
  }

  void decide() {
    if (stop_level_ == 1) continue_stopping();
    if (stop_level_) return;
    if (const auto reason = reason_to_stop()) stop(*reason);
  }

  std::optional<GroupEnd> reason_to_stop() const {
    if (collector_.must_stop()) return GroupEnd::strict;
    if (collector_.order_failed()) return GroupEnd::not_forced;
    if (network_ && network_->is_lost()) return GroupEnd::network_lost;
    if (!not_ready_.empty()) return GroupEnd::not_ready;
    const Running* last = latest(spec_.stop_when_ends);
    if (last && last->ended && !will_restart(spec_.stop_when_ends) && elapsed() >= last->ended_at + spec_.linger)
      return GroupEnd::node_ended;
    if (spec_.timeout > 0 && elapsed() >= spec_.timeout) return GroupEnd::timeout;
    if (spec_.stop_after > 0 && elapsed() >= spec_.stop_after) return GroupEnd::stop_after;
    return std::nullopt;
  }

  void stop(GroupEnd reason) {
    stop_level_ = 1;
    ended_by_ = reason;
    collector_.let_messages_go("the group was stopped");
    signal_phase();
    continue_stopping();
  }

  // The programs of stop_order are stopped one after the other, then all others together.
  bool is_in_phase(const Running& r) const {
    const auto place = std::ranges::find(spec_.stop_order, r.spec->name) - spec_.stop_order.begin();
    return static_cast<size_t>(place) == stop_phase_;
  }

  void signal_phase() {
    stopped_ = Clock::now();
    for (auto& r : running_)
      if (r.runs() && is_in_phase(r)) {
        r.stopped_by = r.spec->stop_signal;
        ::kill(r.pid, r.spec->stop_signal);
        if (r.paused) signal_all(r, SIGCONT);
      }
  }

  void continue_stopping() {
    const auto runs = [this](const Running& r) { return r.runs() && is_in_phase(r); };
    for (; stop_phase_ < spec_.stop_order.size() && std::ranges::none_of(running_, runs); signal_phase()) stop_phase_++;
    if (std::chrono::duration<double>(Clock::now() - stopped_).count() <= kLongestEnd) return;
    if (stop_phase_ == spec_.stop_order.size()) {
      kill_all(SIGKILL), stop_level_ = 2;
      return;
    }
    for (auto& r : running_)
      if (runs(r)) r.killed = true, ::kill(r.pid, SIGKILL);
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
      if (r.runs() && r.pid > 0) r.killed = true, ::kill(r.pid, signal);
  }

  const GroupSpec& spec_;
  const LaunchOptions& options_;
  Collector& collector_;
  Network* network_;
  GroupWitness witness_;
  struct Restart {
    std::string program;
    double asked_at;
  };
  std::deque<Running> running_;  // in the order of the file, then those that were restarted
  std::vector<Restart> restarts_;
  size_t next_event_ = 0, stop_phase_ = 0;
  std::string not_ready_;
  int not_ready_status_ = -1;
  double look_at_ = 0;  // when to look again whether programs are ready
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
  std::unique_ptr<Network> network;  // made before the collector has threads
  if (!group.network.hosts.empty()) {
    auto made = Network::make(group.network);
    if (!made) return refused(Refusal::network, made.error().message);
    network = std::move(*made);
    options.collector.spaces = network->socket_spaces();
  }
  FRIDAY_TRY(collector, Collector::create(options.collector));
  char full[PATH_MAX];
  if (realpath(options.collector.recording.c_str(), full)) options.collector.recording = full;
  if (!options.directory.empty() && mkdir(options.directory.c_str(), 0700) != 0)
    return fail_errno(errno, "cannot create " + options.directory);
  auto result = Group(group, options, *collector, network.get()).run();
  const uint64_t overflowed = network ? network->end().overflowed : 0;
  if (result && overflowed)
    result->notices.push_back(fmt::format(
        "the group's network lost {} without a fault: the programs sent faster than this machine could carry them",
        counted(overflowed, "packet")));
  return result;
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
