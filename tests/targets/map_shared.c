// A file mapped shared: stores reach the file, writes reach the mapping, and two mappings agree.
#include <fcntl.h>
#include <sys/mman.h>

#include "check.h"

int main(void) {
  char name[] = "mapped-XXXXXX";
  int fd = mkstemp(name);
  CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, 8192) == 0);
  char* one = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const char* two = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(one != MAP_FAILED && two != MAP_FAILED);
  strcpy(one + 100, "through the mapping");
  char back[32];
  CHECK(pread(fd, back, sizeof back, 100) == sizeof back && strcmp(back, "through the mapping") == 0);
  CHECK(strcmp(two + 100, back) == 0);
  CHECK(pwrite(fd, "through the file", 17, 5000) == 17 && strcmp(one + 5000, "through the file") == 0);
  CHECK(msync(one, 8192, MS_SYNC) == 0 && munmap(one, 8192) == 0 && strcmp(two + 5000, "through the file") == 0);
  return success();
}
