// Maps a file shared and waits until somebody else has stored something into it, at its beginning; then tells what. For a test
// of memory that a process outside of the recording writes to. With `sealed` that is a child, behind a filter of system calls that allows all but one.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "check.h"
#include "filters.h"

static void store_behind_a_filter(volatile char* map) {
  struct sock_fprog program = filter_with_a_trap();
  map[1] = 'a';
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
  map[0] = 'x';
  _exit(0);
}

int main(int argc, char** argv) {
  CHECK(argc == 2 || argc == 3);
  int fd = open(argv[1], O_RDWR);
  CHECK(fd >= 0);
  const volatile char* map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED);
  const pid_t child = argc == 3 ? fork() : 0;
  if (argc == 3 && child == 0) store_behind_a_filter((volatile char*)map);
  while (!*map) CHECK(usleep(1000) == 0);
  printf("%c\n", *map);
  CHECK(!child || waitpid(child, NULL, 0) == child);
  return success();
}
