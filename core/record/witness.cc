#include "core/record/witness.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

namespace friday {
namespace {

uint64_t take_pending(const sigset_t& all) {
  uint64_t seen = 0;
  const timespec none{};
  for (int signal; (signal = sigtimedwait(&all, nullptr, &none)) > 0 || errno == EINTR;)
    if (signal > 0) seen |= uint64_t{1} << (signal - 1);
  return seen;
}

// Runs in the child: answers each byte with the set of signals that have arrived. It has closed its inherited
// descriptors, because other processes may wait for them to be closed.
[[noreturn]] void witness(int channel) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(channel, 0);
  close_range(1, ~0u, 0);
  sigset_t all;
  sigfillset(&all);
  char question;
  while (::read(0, &question, 1) == 1) {
    const uint64_t seen = take_pending(all);
    if (::write(0, &seen, sizeof seen) != sizeof seen) break;
  }
  _exit(0);
}

}  // namespace

Result<GroupWitness> GroupWitness::start() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno(errno, "socketpair failed");
  UniqueFd ours(pair[0]), theirs(pair[1]);
  const timeval longest{1, 0};  // a SIGSTOP to the group stops the witness too
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) witness(theirs.get());
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return fail_errno(error, "fork failed");
  GroupWitness made;
  made.pid_ = pid;
  made.channel_ = std::move(ours);
  return made;
}

GroupWitness::GroupWitness(GroupWitness&& other) noexcept { *this = std::move(other); }

GroupWitness& GroupWitness::operator=(GroupWitness&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(channel_, other.channel_);
  std::swap(seen_, other.seen_);
  return *this;
}

GroupWitness::~GroupWitness() {
  if (!pid_) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
}

void GroupWitness::ended(pid_t pid) {
  if (pid == pid_) pid_ = 0;
}

void GroupWitness::look() {
  uint64_t more = 0;
  if (pid_ && send(channel_.get(), "?", 1, MSG_NOSIGNAL) == 1 &&
      recv(channel_.get(), &more, sizeof more, 0) == sizeof more)
    seen_ |= more;
}

}  // namespace friday
