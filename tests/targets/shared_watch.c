// One int in a file that processes map shared, changed in each way that there is, by one process after the other.
// shared_watch FILE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

struct Shared {
  volatile int value;
};
static struct Shared* shared;
static volatile int seen;
static int file;

static struct Shared* map(void) {
  struct Shared* at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(at != MAP_FAILED);
  return at;
}

static void stores(void) { shared->value = 1; }

static void receives(void) {
  int ends[2], two = 2;
  CHECK(pipe(ends) == 0 && write(ends[1], &two, sizeof two) == sizeof two);
  CHECK(read(ends[0], (void*)&shared->value, sizeof two) == sizeof two);
}

static void maps_late(void) {
  struct Shared* late = map();
  CHECK(munmap(shared, 8192) == 0);
  late->value = 3;
}

static void writes_file(void) {
  const int four = 4;
  CHECK(pwrite(file, &four, sizeof four, 0) == sizeof four);
}

static void looks(void) { seen = shared->value; }

int main(int argc, char** argv) {
  CHECK(argc == 2);
  file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0 && ftruncate(file, 8192) == 0);
  shared = map();
  void (*ways[])(void) = {stores, receives, maps_late, writes_file, looks};
  for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
    int status;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
      ways[i]();
      _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  shared->value = 5;
  return success();
}
