// Maps a file shared and waits until somebody else has stored something into it, at its beginning; then tells what. For a test
// of memory that a process outside of the recording writes to. With `sealed` that is a child, behind a filter of system calls that allows all but one.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

static void store_behind_a_filter(volatile char* map) {
  struct sock_filter all[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the number of the call
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_swapoff, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),  // by which the recording ends
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof all / sizeof *all, all};
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
