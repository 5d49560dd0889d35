// Files that change between two private mappings although nothing but their contents, and their status change time, says so.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "check.h"

enum { kBytes = 64 };

// What a new mapping of the file shows must be `text`, and goes to the output.
static void shows(int fd, const char* text) {
  const char* mapped = mmap(NULL, kBytes, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(mapped != MAP_FAILED);
  CHECK(puts(mapped) >= 0 && fflush(stdout) == 0);
  CHECK(strcmp(mapped, text) == 0 && munmap((void*)mapped, kBytes) == 0);
}

static void put(int fd, const char* text) {
  char all[kBytes] = {0};
  strcpy(all, text);
  CHECK(pwrite(fd, all, sizeof all, 0) == sizeof all);
}

int main(void) {
  char name[] = "again-XXXXXX", other[] = "again-XXXXXX";
  int fd = mkstemp(name);
  CHECK(fd >= 0);
  put(fd, "as it was");
  shows(fd, "as it was");

  // Changed, and given the modification time that it had, as an archiver does.
  struct stat before;
  CHECK(fstat(fd, &before) == 0);
  put(fd, "changed, with its old time");
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  CHECK(futimens(fd, times) == 0);
  shows(fd, "changed, with its old time");

  // Changed many times within what a file system's clock can tell apart.
  for (int i = 0; i < 20; i++) {
    char text[kBytes];
    snprintf(text, sizeof text, "changed quickly, %d", i);
    put(fd, text);
    shows(fd, text);
  }

  // Another file took its place, then itself a third name's.
  int second = mkstemp(other);
  CHECK(second >= 0);
  put(second, "another file");
  CHECK(futimens(second, times) == 0 && rename(other, name) == 0);
  shows(second, "another file");
  shows(fd, "changed quickly, 19");

  // Changed by a mapping: the file's times follow the first store only.
  char* shared = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, second, 0);
  CHECK(shared != MAP_FAILED);
  for (int i = 0; i < 5; i++) {
    sprintf(shared, "stored, %d", i);
    shows(second, shared);
  }
  CHECK(munmap(shared, kBytes) == 0);
  shows(second, "stored, 4");
  CHECK(unlink(name) == 0 && close(fd) == 0 && close(second) == 0);
  return success();
}
