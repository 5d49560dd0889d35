// A process that maps a file as shared memory keeps the locks that it holds on the file, as databases do with their
// shared indexes: another process finds them (fcntl(2), F_GETLK).
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// The process that holds the lock on a byte of the file; 0: none does.
static pid_t holder(const char* path, off_t at) {
  int ends[2];
  pid_t found = -1;
  if (pipe(ends)) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(path, O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    found = fcntl(fd, F_GETLK, &lock) ? -1 : lock.l_type == F_UNLCK ? 0 : lock.l_pid;
    _exit(write(ends[1], &found, sizeof found) != sizeof found);
  }
  if (read(ends[0], &found, sizeof found) != sizeof found) found = -1;
  waitpid(child, 0, 0);
  close(ends[0]);
  close(ends[1]);
  return found;
}

int main(void) {
  char path[] = "/tmp/friday-locks-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0 || ftruncate(fd, 8 * 4096)) return 2;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 100};
  if (fcntl(fd, F_SETLK, &lock)) return 3;
  long* memory = mmap(0, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return 4;
  const int mapped = holder(path, 50) == getpid();
  memory[0] = 7;
  if (truncate(path, 6 * 4096 + 100) || truncate(path, 9 * 4096)) return 5;
  const int changed = holder(path, 99) == getpid(), free_behind = holder(path, 200) == 0;
  unlink(path);
  if (!mapped || !changed || !free_behind) return printf("%d %d %d\n", mapped, changed, free_behind), 1;
  if (waitpid(-1, 0, __WALL | WNOHANG) != -1 || errno != ECHILD) return printf("a child that it has not made\n"), 1;
  puts("SUCCESS");
  return 0;
}
