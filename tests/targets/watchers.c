// What tells of changes: inotify, fanotify, dnotify and leases; and who holds what: locks of all kinds, descriptors' own settings.
#include <fcntl.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <poll.h>

#include "check.h"

static void inotify(void) {
  int fd = inotify_init1(IN_CLOEXEC), old = inotify_init();
  CHECK(fd >= 0 && old >= 0 && close(old) == 0 && mkdir("watched", 0700) == 0);
  int watch = inotify_add_watch(fd, "watched", IN_ALL_EVENTS);
  CHECK(watch > 0);
  int file = open("watched/a", O_CREAT | O_RDWR, 0600);
  CHECK(file >= 0 && write(file, "x", 1) == 1 && close(file) == 0 && rename("watched/a", "watched/b") == 0 && unlink("watched/b") == 0);
  char text[4096];
  unsigned seen = 0;
  while (!(seen & IN_DELETE)) {
    ssize_t n = read(fd, text, sizeof text);
    CHECK(n > 0);
    for (char *p = text; p < text + n; p += sizeof(struct inotify_event) + ((struct inotify_event *)p)->len) seen |= ((struct inotify_event *)p)->mask;
  }
  CHECK((seen & (IN_CREATE | IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO)) == (IN_CREATE | IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO));
  CHECK(inotify_rm_watch(fd, watch) == 0 && rmdir("watched") == 0 && close(fd) == 0);
}

static void fanotify(void) {
  int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK, O_RDONLY);
  if (fd < 0) {
    CHECK(errno == EPERM || errno == ENOSYS || errno == EINVAL);
    CHECK(fanotify_mark(-1, FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, ".") == -1);  // an ordinary user may mark nothing
    return;
  }
  int file = open("fanned", O_CREAT | O_RDWR, 0600);
  CHECK(file >= 0);
  if (fanotify_mark(fd, FAN_MARK_ADD, FAN_MODIFY | FAN_CLOSE_WRITE, AT_FDCWD, "fanned") == 0) {
    CHECK(write(file, "x", 1) == 1 && close(file) == 0);
    struct fanotify_event_metadata events[8];
    ssize_t n = read(fd, events, sizeof events);
    CHECK(n >= (ssize_t)sizeof events[0] && events[0].pid == getpid() && events[0].fd >= 0 && close(events[0].fd) == 0);
    for (unsigned i = 1; i < (size_t)n / sizeof events[0]; i++) close(events[i].fd);
  } else {
    CHECK(close(file) == 0);
  }
  CHECK(unlink("fanned") == 0 && close(fd) == 0);
}

static void locks(void) {
  int fd = open("locked", O_CREAT | O_RDWR, 0600), other = open("locked", O_RDWR), ready[2], gone[2];
  char byte;
  CHECK(fd >= 0 && other >= 0 && pipe(ready) == 0 && pipe(gone) == 0 && ftruncate(fd, 100) == 0);
  CHECK(flock(fd, LOCK_EX) == 0 && flock(other, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK && flock(fd, LOCK_UN) == 0);
  struct flock own = {.l_type = F_WRLCK, .l_start = 10, .l_len = 20}, ask = own;
  CHECK(fcntl(fd, F_OFD_SETLK, &own) == 0 && fcntl(other, F_OFD_GETLK, &ask) == 0 && ask.l_type == F_WRLCK && ask.l_pid == -1 && ask.l_len == 20);
  CHECK(fcntl(other, F_OFD_SETLK, &own) == -1 && errno == EAGAIN);
  own.l_type = F_UNLCK;
  CHECK(fcntl(fd, F_OFD_SETLK, &own) == 0);
  pid_t child = fork();
  if (child == 0) {
    own.l_type = F_WRLCK;
    CHECK(fcntl(fd, F_SETLK, &own) == 0 && write(ready[1], "r", 1) == 1 && read(gone[0], &byte, 1) == 1);
    _exit(0);
  }
  CHECK(read(ready[0], &byte, 1) == 1);
  ask = (struct flock){.l_type = F_RDLCK};
  CHECK(fcntl(fd, F_GETLK, &ask) == 0 && ask.l_pid == child && ask.l_start == 10 && ask.l_type == F_WRLCK && write(gone[1], "g", 1) == 1);
  own.l_type = F_WRLCK;
  CHECK(fcntl(fd, F_SETLKW, &own) == 0 && waitpid(child, NULL, 0) == child);  // the child's end gives it away
  CHECK(lockf(fd, F_TEST, 5) == 0 && lockf(fd, F_ULOCK, 0) == 0);
  CHECK(close(ready[0]) == 0 && close(ready[1]) == 0 && close(gone[0]) == 0 && close(gone[1]) == 0 && close(other) == 0);
  int lease = fcntl(fd, F_SETLEASE, F_WRLCK);
  CHECK((lease == 0 && fcntl(fd, F_GETLEASE) == F_WRLCK && fcntl(fd, F_SETLEASE, F_UNLCK) == 0) || lease == -1);
  CHECK(close(fd) == 0 && unlink("locked") == 0);
}

static void settings(void) {
  int p[2];
  CHECK(pipe2(p, O_NONBLOCK | O_DIRECT) == 0 && fcntl(p[0], F_SETPIPE_SZ, 65536) == 65536 && fcntl(p[0], F_GETPIPE_SZ) == 65536);
  struct f_owner_ex owner = {F_OWNER_PID, getpid()}, got = {0, 0};
  CHECK(fcntl(p[0], F_SETOWN_EX, &owner) == 0 && fcntl(p[0], F_GETOWN_EX, &got) == 0 && got.pid == getpid() && fcntl(p[0], F_GETOWN) == getpid());
  unsigned uids[2] = {77, 77};
  CHECK(fcntl(p[0], 17 /* F_GETOWNER_UIDS */, uids) == 0 ? uids[0] == getuid() && uids[1] == geteuid() : errno == EINVAL);
  CHECK(fcntl(p[0], F_SETSIG, SIGUSR1) == 0 && fcntl(p[0], F_GETSIG) == SIGUSR1);
  int copy = fcntl(p[0], F_DUPFD_CLOEXEC, 100);
  CHECK(copy >= 100 && fcntl(copy, F_GETFD) == FD_CLOEXEC && fcntl(copy, F_SETFD, 0) == 0 && (fcntl(copy, F_GETFL) & O_NONBLOCK) && close(copy) == 0);
  unsigned long long hint = 99, set = 2 /* RWH_WRITE_LIFE_SHORT */;
  int file = open("hinted", O_CREAT | O_RDWR, 0600);
  CHECK(fcntl(file, 1036 /* F_SET_RW_HINT */, &set) == 0 ? fcntl(file, 1035 /* F_GET_RW_HINT */, &hint) == 0 && hint == 2 : errno == EINVAL);
  CHECK(close(file) == 0 && unlink("hinted") == 0);
  int sealed = (int)memfd_create("sealed", MFD_ALLOW_SEALING);
  CHECK(sealed >= 0 && ftruncate(sealed, 10) == 0 && fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK) == 0 && fcntl(sealed, F_GET_SEALS) == F_SEAL_SHRINK);
  CHECK(ftruncate(sealed, 5) == -1 && errno == EPERM && close(sealed) == 0 && close(p[0]) == 0 && close(p[1]) == 0);
  CHECK(fcntl(9999, F_GETFD) == -1 && fcntl(0, 4242) == -1);
}

int main(void) {
  inotify();
  fanotify();
  locks();
  settings();
  return success();
}
