#include "console/run_workers.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "core/base/files.h"
#include "core/base/poll_set.h"
#include "core/record/verdict.h"

namespace friday {
namespace {

// The signals that Interrupts notices are held back, so that none is noticed by the wrong process.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, number);
    sigprocmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldSignals() { let_go(); }
  void let_go() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

Result<FinishedRun> result_of(int file, int status) {
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(ErrorCode::component_died,
                "the process that made the run has ended with {}; the programs of the run may still be there",
                end_text(status));
  if (lseek(file, 0, SEEK_SET) != 0) return fail_errno(errno, "cannot read what a run came to");
  FRIDAY_TRY(text, read_to_end(file, "what a run came to"));
  const auto read = nlohmann::json::parse(text, nullptr, false);
  if (!read.is_object()) return fail(ErrorCode::component_died, "the process that made the run has said nothing of it");
  return finished_run_of(read);
}

}  // namespace

RunWorkers::~RunWorkers() {
  if (!workers_.empty()) signal_all();
  while (!workers_.empty()) wait(std::chrono::seconds(1));
}

bool RunWorkers::is_used(unsigned part) const {
  return std::ranges::any_of(workers_, [part](const auto& each) { return each.second.part == part; });
}

size_t RunWorkers::failed() const {
  return static_cast<size_t>(std::ranges::count_if(
      finished_, [](const auto& each) { return !each.second || each.second->result == GroupRun::Result::failed; }));
}

Result<void> RunWorkers::start(unsigned number, unsigned part,
                               std::function<Result<FinishedRun>(const Interrupts&)> make) {
  Worker worker{.part = part};
  worker.result.reset(memfd_create("friday-run", MFD_CLOEXEC));
  if (!worker.result) return fail_errno(errno, "memfd_create failed");
  fflush(nullptr);
  const pid_t parent = getpid();
  const HeldSignals held;
  worker.pid = fork();
  if (worker.pid < 0) return fail_errno(errno, "fork failed");
  if (worker.pid == 0) {
    setpgid(0, 0);  // a signal from the terminal comes to the parent alone, which passes it on
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    const auto interrupts = Interrupts::watch();
    held.let_go();
    const Result<FinishedRun> run = interrupts ? make(*interrupts) : std::unexpected(interrupts.error());
    const std::string text = as_json(run).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const bool is_written = write_all(worker.result.get(), std::as_bytes(std::span(text))).has_value();
    fflush(nullptr);
    _exit(is_written ? 0 : 1);
  }
  worker.process.reset(static_cast<int>(syscall(SYS_pidfd_open, worker.pid, 0)));
  const int why = errno;
  const bool is_watched = static_cast<bool>(worker.process);
  const pid_t pid = worker.pid;
  workers_.emplace(number, std::move(worker));
  if (is_watched) return {};
  kill(pid, SIGINT);
  waitpid(pid, nullptr, 0);
  workers_.erase(number);
  return fail_errno(why, "pidfd_open failed");
}

void RunWorkers::signal_all() const {
  for (const auto& [number, worker] : workers_) kill(worker.pid, SIGINT);
}

void RunWorkers::wait(std::chrono::milliseconds most) {
  // Their descriptor stays readable from the first signal on, so a further one is noticed only by looking again.
  constexpr auto kLookAgain = std::chrono::milliseconds(100);
  PollSet set;
  for (const auto& [number, worker] : workers_) set.add(worker.process.get());
  if (signals_ == 0) set.add(interrupts_.fd());
  else most = std::min(most, kLookAgain);
  (void)set.wait(static_cast<int>(most.count()));
  for (; signals_ < interrupts_.count(); signals_++) signal_all();
  for (auto at = workers_.begin(); at != workers_.end();) {
    int status = 0;
    if (waitpid(at->second.pid, &status, WNOHANG) != at->second.pid) {
      ++at;
      continue;
    }
    finished_.emplace(at->first, result_of(at->second.result.get(), status));
    at = workers_.erase(at);
  }
}

std::optional<Result<FinishedRun>> RunWorkers::take() {
  if (finished_.empty()) return std::nullopt;
  const auto first = finished_.begin();
  if (!workers_.empty() && workers_.begin()->first < first->first) return std::nullopt;
  Result<FinishedRun> out = std::move(first->second);
  finished_.erase(first);
  return out;
}

}  // namespace friday
