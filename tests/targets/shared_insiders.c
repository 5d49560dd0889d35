// shared_insiders HOW FILE DIRECTORY: has FILE mapped shared until there is a file `done` in DIRECTORY, in a process that others find hard
// to take for a recorded one: HOW is `vfork` (a child by vfork waits), `chroot` (it sees no /proc), or `pids` (it numbers processes in its
// own way). Exits with 77 where the system does not permit that.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

static int directory;

static void map(const char* path) {
  const int fd = open(path, O_RDWR);
  CHECK(fd >= 0 && mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
}

static void wait_until_done(void) {
  while (faccessat(directory, "done", F_OK, 0) != 0) usleep(5000);
}

static void own(int what) {
  if (unshare(what) == 0 || unshare(what | CLONE_NEWUSER) == 0) return;
  printf("unshare is not permitted here: %s\n", strerror(errno));
  exit(77);
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  directory = open(argv[3], O_DIRECTORY | O_PATH);
  CHECK(directory >= 0);
  if (strcmp(argv[1], "vfork") == 0) {
    map(argv[2]);
    const pid_t child = vfork();
    if (child == 0) {
      wait_until_done();
      _exit(0);
    }
    CHECK(child > 0 && waitpid(child, NULL, 0) == child);
  } else if (strcmp(argv[1], "chroot") == 0) {
    const int fd = open(argv[2], O_RDWR);
    own(CLONE_FS);
    if (chroot(argv[3]) != 0) {
      own(CLONE_NEWUSER);
      CHECK(chroot(argv[3]) == 0);
    }
    CHECK(fd >= 0 && mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
    wait_until_done();
  } else {
    own(CLONE_NEWPID);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      CHECK(getpid() == 1);
      map(argv[2]);
      wait_until_done();
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  return success();
}
