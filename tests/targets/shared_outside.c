// Maps a file shared and waits until somebody else has stored something into it, at its beginning; then tells what. For a test
// of memory that a process outside of the recording writes to.
#include <fcntl.h>
#include <sys/mman.h>

#include "check.h"

int main(int argc, char** argv) {
  CHECK(argc == 2);
  int fd = open(argv[1], O_RDWR);
  CHECK(fd >= 0);
  const volatile char* map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED);
  while (!*map) CHECK(usleep(1000) == 0);
  printf("%c\n", *map);
  return success();
}
