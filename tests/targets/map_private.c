// A file mapped privately: its contents, changes that stay ours, a mapping past its end, and the name gone.
#include <fcntl.h>
#include <sys/mman.h>

#include "check.h"

int main(void) {
  char name[] = "mapped-XXXXXX", text[10000];
  int fd = mkstemp(name);
  CHECK(fd >= 0);
  for (unsigned i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 26);
  CHECK(write(fd, text, sizeof text) == sizeof text);
  const char* whole = mmap(NULL, sizeof text, PROT_READ, MAP_PRIVATE, fd, 0);
  char* part = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 4096);
  CHECK(whole != MAP_FAILED && part != MAP_FAILED && memcmp(whole, text, sizeof text) == 0);
  CHECK(whole[sizeof text] == 0 && memcmp(part, text + 4096, 4096) == 0);
  strcpy(part, "changed");
  CHECK(memcmp(whole + 4096, text + 4096, 10) == 0);
  char back[8];
  CHECK(pread(fd, back, sizeof back, 4096) == sizeof back && memcmp(back, text + 4096, 8) == 0);
  CHECK(close(fd) == 0 && unlink(name) == 0 && memcmp(whole, text, sizeof text) == 0);
  CHECK(munmap((void*)whole, sizeof text) == 0 && strcmp(part, "changed") == 0 && munmap(part, 4096) == 0);
  return success();
}
