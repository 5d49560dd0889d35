// Shared memory in great number: anonymous, mapped and unmapped again and again, more often than there are numbers for shared
// things; then more files than a process has descriptors for by default.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

enum { kTurns = 70000, kFiles = 1200, kPage = 4096 };

int main(void) {
  for (int i = 0; i < kTurns; i++) {
    char* page = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && page[7] == 0);
    page[7] = 1;
    CHECK(munmap(page, kPage) == 0);
  }
  int* total = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(total != MAP_FAILED);
  int* places[kFiles];
  for (int i = 0; i < kFiles; i++) {
    char name[] = "many-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, sizeof(int)) == 0);
    places[i] = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(places[i] != MAP_FAILED && pwrite(fd, &i, sizeof i, 0) == sizeof i && close(fd) == 0);
  }
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    for (int i = 0; i < kFiles; i++) *total += *places[i], *places[i] = -i;
    _exit(0);
  }
  int status, sum = 0;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0 && *total == kFiles * (kFiles - 1) / 2);
  for (int i = 0; i < kFiles; i++) sum += *places[i];
  CHECK(sum == -*total);
  return success();
}
