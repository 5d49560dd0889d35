#include "core/trace/standing_still.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "core/base/beneath.h"

namespace friday {

Result<UniqueFd> open_standing_still(const std::string& recording) {
  return open_directory_beneath({recording, "nodes"});
}

bool try_moving(const UniqueFd& lock) {
  // On a file system without such locks nobody can hold the files still.
  return !lock || ::flock(lock.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

void end_moving(const UniqueFd& lock) {
  if (lock) (void)::flock(lock.get(), LOCK_UN);
}

Result<UniqueFd> stand_still(const std::string& recording, std::chrono::milliseconds at_most) {
  using namespace std::chrono_literals;
  FRIDAY_TRY(lock, open_standing_still(recording));
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return fail_errno(
          errno, fmt::format("cannot lock {}/nodes, so its files would change while they are copied", recording));
    if (std::chrono::steady_clock::now() >= end)
      return fail(ErrorCode::io,
                  "{} did not stand still for {} ms: another command saves it, or its disk is slow. Try again",
                  recording, at_most.count());
    std::this_thread::sleep_for(1ms);
  }
  return std::move(lock);
}

}  // namespace friday
