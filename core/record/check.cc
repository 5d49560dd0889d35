#include "core/record/check.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>

#include "core/base/fd.h"
#include "core/base/poll_set.h"

namespace friday {
namespace {

constexpr int kGraceMs = 2000;  // from SIGTERM to SIGKILL

// Runs in the child.
[[noreturn]] void execute(std::vector<char*>& words, int log, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  const int none = open("/dev/null", O_RDONLY);
  dup2(none, 0);
  dup2(log, 1);
  dup2(log, 2);
  sigset_t nothing;
  sigemptyset(&nothing);
  sigprocmask(SIG_SETMASK, &nothing, nullptr);
  execvp(words[0], words.data());
  const int error = errno;
  (void)!write(report, &error, sizeof error);
  _exit(127);
}

Result<pid_t> start(const CheckCommand& command) {
  FRIDAY_TRY(log, open_file(command.log, O_WRONLY | O_CREAT | O_APPEND, 0600));
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return fail_errno(errno, "pipe failed");
  UniqueFd reading(report[0]), writing(report[1]);
  std::vector<std::string> words = command.words;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return fail_errno(errno, "fork failed");
  if (pid == 0) execute(argv, log.get(), writing.get());
  setpgid(pid, pid);
  writing.reset();
  int error = 0;
  if (read(reading.get(), &error, sizeof error) != sizeof error) return pid;
  waitpid(pid, nullptr, 0);
  return fail_errno(error, fmt::format("cannot start the check {}", command.words[0]));
}

// Whether the process ended within the time. `interrupted` is set instead if the other descriptor became readable.
Result<bool> wait_for_end(int process, double seconds, int interrupt_fd, bool* interrupted) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    PollSet set;
    const size_t ended = set.add(process);
    const size_t signalled = interrupt_fd >= 0 ? set.add(interrupt_fd) : ended;
    FRIDAY_TRY_VOID(set.wait(static_cast<int>(std::clamp(left * 1000 + 1, 0.0, 1e6))));
    if (set.is_ready(ended)) return true;
    if (set.is_ready(signalled)) return *interrupted = true, false;
    if (Clock::now() >= end) return false;
  }
}

}  // namespace

Result<CheckEnd> run_check(const CheckCommand& command, int interrupt_fd) {
  FRIDAY_TRY(pid, start(command));
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  CheckEnd end;
  bool nobody = false;
  auto ended = wait_for_end(process.get(), command.timeout, interrupt_fd, &end.interrupted);
  if (ended && !*ended) {
    end.timed_out = !end.interrupted;
    kill(-pid, SIGTERM);
    ended = wait_for_end(process.get(), kGraceMs / 1000.0, -1, &nobody);
  }
  kill(-pid, SIGKILL);  // before the process is reaped, so that its number is still its own
  while (waitpid(pid, &end.status, 0) < 0 && errno == EINTR) {}
  if (!ended) return std::unexpected(ended.error());
  return end;
}

std::string shorten(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::string last_line_of(const std::string& path, size_t most) {
  constexpr off_t kLooked = 64 << 10;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat st;
  if (!file || fstat(file.get(), &st) != 0) return "";
  const off_t from = std::max<off_t>(0, st.st_size - kLooked);
  std::string text(static_cast<size_t>(st.st_size - from), '\0');
  if (!read_exactly(file.get(), std::as_writable_bytes(std::span(text)), static_cast<uint64_t>(from))) return "";
  const size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) return "";
  text.resize(last + 1);
  text.erase(0, text.rfind('\n') + 1);
  return shorten(text, most);
}

}  // namespace friday
