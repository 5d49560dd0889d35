#include "core/replay/confined_work.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/base/fd.h"
#include "core/base/seccomp.h"
#include "core/replay/process.h"

namespace friday {
namespace {

using Clock = std::chrono::steady_clock;

enum class Kind : uint32_t { question, result };
struct Head {
  Kind kind;
  uint32_t size;  // bytes that follow
};

// What a library needs that reads files, and nothing else. All other calls fail, as do all writes but those to `link`.
std::vector<sock_filter> reading_filter(int link) {
  SeccompProgram p(SECCOMP_RET_ERRNO | EPERM);
  p.load_call();
  for (uint32_t call : {SYS_read,           SYS_pread64,      SYS_lseek,      SYS_close,     SYS_fstat,
                        SYS_stat,           SYS_lstat,        SYS_newfstatat, SYS_access,    SYS_faccessat,
                        SYS_faccessat2,     SYS_readlink,     SYS_readlinkat, SYS_getcwd,    SYS_munmap,
                        SYS_mremap,         SYS_madvise,      SYS_brk,        SYS_futex,     SYS_getrandom,
                        SYS_clock_gettime,  SYS_getpid,       SYS_gettid,     SYS_sysinfo,   SYS_sched_getaffinity,
                        SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_exit,       SYS_exit_group})
    p.allow_if(call);
  constexpr uint32_t kChanging = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
  const auto opens = [&](uint32_t call, int flags) {
    p.only_for(call, [&] {
      p.load_low(flags);
      p.refuse_if_any(kChanging);
      p.allow();
    });
  };
  opens(SYS_open, 1);
  opens(SYS_openat, 2);
  p.only_for(SYS_write, [&] {
    p.load_low(0);
    p.allow_if(static_cast<uint32_t>(link));
    p.refuse();
  });
  for (uint32_t call : {SYS_mmap, SYS_mprotect})
    p.only_for(call, [&] {
      p.load_low(2);
      p.refuse_if_any(PROT_EXEC);
      p.allow();
    });
  p.only_for(SYS_fcntl, [&] {
    p.load_low(1);
    p.allow_if(F_GETFD);
    p.allow_if(F_GETFL);
    p.refuse();
  });
  p.refuse();
  return p.take();
}

// Gives up everything but `link`. False if the kernel does not support that.
bool confine(int link, std::chrono::milliseconds most) {
  const auto number = static_cast<unsigned>(link);
  if ((number > 0 && close_range(0, number - 1, 0) != 0) || close_range(number + 1, ~0u, 0) != 0) return false;
  const auto seconds = static_cast<rlim_t>(std::chrono::ceil<std::chrono::seconds>(most).count());
  const auto memory = static_cast<rlim_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit none{0, 0}, processor{seconds, seconds}, data{memory, memory};
  if (setrlimit(RLIMIT_CORE, &none) != 0 || setrlimit(RLIMIT_CPU, &processor) != 0 ||
      setrlimit(RLIMIT_DATA, &data) != 0)
    return false;
  std::vector<sock_filter> filter = reading_filter(link);
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0 &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

bool read_whole(int fd, void* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = read(fd, static_cast<char*>(to) + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool say(int fd, Kind kind, std::string_view text) {
  const Head head{kind, static_cast<uint32_t>(std::min(text.size(), kMostConfinedText))};
  return write_all(fd, std::as_bytes(std::span(&head, 1))) &&
         write_all(fd, std::as_bytes(std::span(text.substr(0, head.size))));
}

[[noreturn]] void carry_out(int link, const std::function<std::string(const Ask&)>& work,
                            std::chrono::milliseconds most) {
  if (!confine(link, most)) _exit(1);
  const Ask ask = [&](std::string_view question) {
    uint32_t size = 0;
    if (!say(link, Kind::question, question) || !read_whole(link, &size, sizeof size)) _exit(1);
    std::string text(size, '\0');
    if (!read_whole(link, text.data(), size)) _exit(1);
    return text;
  };
  (void)say(link, Kind::result, work(ask));
  _exit(0);
}

// Answers the questions of the process until it has told its result; none if it ends before, or says what it cannot
// say.
std::optional<std::string> hear(int link, const std::function<std::string(std::string_view)>& answer,
                                Clock::time_point until) {
  // Reads all of it, or stops at the deadline.
  const auto read_by = [&](void* to, size_t size) {
    for (size_t done = 0; done < size;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd ready{link, POLLIN, 0};
      const int polled = left > 0 ? poll(&ready, 1, static_cast<int>(left)) : 0;
      if (polled == 0) return false;
      if (polled < 0 && errno == EINTR) continue;
      const ssize_t got = polled < 0 ? -1 : recv(link, static_cast<char*>(to) + done, size - done, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return false;
      done += static_cast<size_t>(got);
    }
    return true;
  };
  for (;;) {
    Head head{};
    if (!read_by(&head, sizeof head) || head.size > kMostConfinedText) return std::nullopt;
    std::string text(head.size, '\0');
    if (!read_by(text.data(), text.size())) return std::nullopt;
    if (head.kind == Kind::result) return text;
    const std::string said = answer(text).substr(0, kMostConfinedAnswer);
    const auto size = static_cast<uint32_t>(said.size());
    std::string reply(reinterpret_cast<const char*>(&size), sizeof size);
    reply += said;
    // A process that waits for its answer has room for it. One that has been taken over must not make this one wait.
    if (send(link, reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(reply.size()))
      return std::nullopt;
  }
}

}  // namespace

Result<std::string> run_confined(const std::function<std::string(const Ask&)>& work,
                                 const std::function<std::string(std::string_view)>& answer,
                                 std::chrono::milliseconds most) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno(errno, "cannot make a pair of sockets");
  UniqueFd near(ends[0]), far(ends[1]);
  const pid_t process = fork();
  if (process < 0) return fail_errno(errno, "cannot start a process");
  if (process == 0) {
    // Handlers of the caller have no business here; what is blocked stays blocked, but a deadly signal ends the
    // process.
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU})
      ::signal(signal, SIG_DFL);
    carry_out(far.get(), work, most);
  }
  far.reset();
  auto result = hear(near.get(), answer, Clock::now() + most);
  near.reset();
  kill(process, SIGKILL);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {}
  if (!result)
    return fail(ErrorCode::component_died, "a process that reads files of the recording {}", ending_text(status));
  return *std::move(result);
}

}  // namespace friday
