#include "core/mi/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/posix.hpp>
#include <boost/process/search_path.hpp>

#include "core/base/refusals.h"

namespace friday {

namespace bp = boost::process;

namespace {

using Pipe = GdbPipes::Pipe;

// Creates a pipe whose ends are close-on-exec (Boost's are not), so that other children do not keep a gdb's pipes open.
// The ends are above 2, so that assigning them to the standard streams in the child cannot overwrite one of them. With
// `socket`, it is a socket: writing to a gdb that has died must not raise SIGPIPE in the program that contains this
// code.
Result<Pipe> make_pipe(bool socket = false) {
  int ends[2];
  if ((socket ? ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : ::pipe2(ends, O_CLOEXEC)) != 0)
    return fail_errno(errno, "cannot create a pipe for gdb");
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  for (UniqueFd* end : {&pipe.read, &pipe.write}) {
    if (end->get() > 2) continue;
    int moved = ::fcntl(end->get(), F_DUPFD_CLOEXEC, 3);
    if (moved < 0) return fail_errno(errno, "cannot create a pipe for gdb");
    end->reset(moved);
  }
  return pipe;
}

Result<void> set_nonblocking(int fd) {
  int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return fail_errno(errno, "cannot prepare a pipe of gdb");
  return {};
}

// A gdb that reads symbols in the background must not take the processor from the replay: beside eight of them, a
// replay on two cores took three times as long. While somebody waits for a gdb's answer, the replay stands.
constexpr int kNiceness = 5;

// Runs in the child between fork and exec: puts it into its own process group, lets it die with its owner, lowers its
// priority, and resets the signals that the owner blocks or ignores. (Death is needed because a gdb in an endless
// command would not notice the end of its input.)
struct CleanChild : bp::extend::handler {
  pid_t owner = ::getpid();
  int channel = -1;
  const GdbConfinement* confinement = nullptr;

  template <typename Executor>
  void on_exec_setup(Executor&) const {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != owner) ::_exit(127);  // the owner died before PR_SET_PDEATHSIG took effect
    (void)::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + kNiceness);
    if (channel == 3) ::fcntl(channel, F_SETFD, 0);
    else if (channel >= 0) ::dup2(channel, 3);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int signal : {SIGPIPE, SIGINT, SIGQUIT, SIGCHLD, SIGTERM, SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU})
      ::signal(signal, SIG_DFL);
    if (confinement) confinement->apply();
  }
};

Result<std::string> find_program(const std::string& program) {
  std::string path = program;
  if (program.find('/') == std::string::npos) path = bp::search_path(program).string();
  if (path.empty() || ::access(path.c_str(), X_OK) != 0)
    return fail(ErrorCode::not_found, "{}",
                describe_refusal(Refusal::gdb, fmt::format("there is no program {}", program)));
  return path;
}

bp::environment gdb_environment() {
  bp::environment environment = boost::this_process::environment();
  environment.erase("LINES");
  environment.erase("COLUMNS");
  environment.erase("DEBUGINFOD_URLS");  // build ids of an untrusted recording must not cause network requests
  environment["LC_ALL"] = "C.UTF-8";     // messages and strings in a known language and encoding
  return environment;
}

}  // namespace

Result<GdbPipes> GdbPipes::make() {
  FRIDAY_TRY(input, make_pipe(true));
  FRIDAY_TRY(output, make_pipe());
  FRIDAY_TRY(errors, make_pipe());
  return GdbPipes{std::move(input), std::move(output), std::move(errors)};
}

Result<GdbProcess> GdbProcess::start(const std::string& program, const std::vector<std::string>& arguments, int channel,
                                     const GdbConfinement* confinement) {
  FRIDAY_TRY(path, find_program(program));
  FRIDAY_TRY(pipes, GdbPipes::make());
  CleanChild clean;
  clean.channel = channel;
  clean.confinement = confinement;
  std::error_code error;
  bp::child child(bp::exe = path, bp::args = arguments, gdb_environment(),
                  bp::posix::fd.bind(STDIN_FILENO, pipes.input.read.get()),
                  bp::posix::fd.bind(STDOUT_FILENO, pipes.output.write.get()),
                  bp::posix::fd.bind(STDERR_FILENO, pipes.errors.write.get()), clean, error);
  if (error) return fail(ErrorCode::io, "cannot start {}: {}", path, error.message());
  const int pid = child.id();
  child.detach();  // reap() waits for it by pid
  return adopt(pid, std::move(pipes));
}

Result<GdbProcess> GdbProcess::adopt(int pid, GdbPipes pipes) {
  GdbProcess process;
  process.pid_ = pid;
  process.input_ = std::move(pipes.input.write);
  process.output_ = std::move(pipes.output.read);
  process.errors_ = std::move(pipes.errors.read);
  for (int fd : {process.input(), process.output(), process.errors()}) FRIDAY_TRY_VOID(set_nonblocking(fd));
  process.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, process.pid_, 0)));
  if (!process.pidfd_) return fail_errno(errno, "cannot watch the gdb process");
  return process;
}

GdbProcess::GdbProcess(GdbProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      reaped_(other.reaped_),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)),
      pidfd_(std::move(other.pidfd_)),
      exit_text_(std::move(other.exit_text_)) {}

GdbProcess::~GdbProcess() {
  if (pid_ < 0 || reaped_) return;
  ::kill(-pid_, SIGKILL);  // the whole group, because gdb may have started helper processes
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
}

void GdbProcess::interrupt() const {
  if (pid_ > 0 && !reaped_) ::kill(pid_, SIGINT);
}

bool GdbProcess::reap() {
  if (reaped_) return true;
  int status = 0;
  pid_t got = ::waitpid(pid_, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  reaped_ = true;
  if (got < 0) exit_text_ = "unknown end";  // another part of the program has waited for it
  else if (WIFSIGNALED(status)) exit_text_ = fmt::format("signal {}", WTERMSIG(status));
  else exit_text_ = fmt::format("exit code {}", WEXITSTATUS(status));
  return true;
}

}  // namespace friday
