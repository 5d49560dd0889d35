// Work for tests of divergence reports: reads a file and, from a function of its own, writes what it has computed of it. With
// the argument `tsc` the sum depends on a time stamp that code made at run time takes, which no recorder sees; with `silent` only
// memory does. With `long` it makes many calls between the two. With `pointer` it reads an address and follows it, with
// `zero` it reads a zero and dies of dividing by it.
#include <fcntl.h>
#include <sys/mman.h>

#include "check.h"

static unsigned sum;

__attribute__((noinline)) static void tell(int fd) {
  char line[32];
  int length = snprintf(line, sizeof line, "sum %u\n", sum);
  CHECK(write(fd, line, (size_t)length) == length);
}

__attribute__((noinline)) static void work(const char* text, long size, int calls) {
  for (long i = 0; i < size; i++) sum = sum * 31 + (unsigned char)text[i];
  for (int i = 0; i < calls; i++) CHECK(getppid() > 0);
}

static unsigned hidden_time(void) {
  static const unsigned char code[] = {0x0f, 0x31, 0xc3};  // rdtsc; ret
  void* place = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(place != MAP_FAILED);
  memcpy(place, code, sizeof code);
  return ((unsigned (*)(void))place)();
}

__attribute__((noinline)) static int follow(const int* address) { return *address + getppid() > 0; }

static int read_address(int fd) {
  static int value = 1;
  const int* address = &value;
  CHECK(pwrite(fd, &address, sizeof address, 0) == sizeof address && lseek(fd, 0, SEEK_SET) == 0);
  address = NULL;
  CHECK(read(fd, &address, sizeof address) == sizeof address);
  CHECK(follow(address));
  return 0;
}

static int divide(int fd) {
  char divisor = 1;
  CHECK(pwrite(fd, "", 1, 0) == 1 && lseek(fd, 0, SEEK_SET) == 0 && read(fd, &divisor, 1) == 1);
  volatile int share = 100 / divisor;
  CHECK(getppid() > 0);
  return share;
}

unsigned kept;

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  char text[64];
  int out = open("sum", O_WRONLY | O_CREAT | O_TRUNC, 0600), in = open("text", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(out >= 0 && in >= 0 && write(in, "what is summed up", 17) == 17 && lseek(in, 0, SEEK_SET) == 0);
  long size = read(in, text, sizeof text);
  CHECK(size == 17);
  if (!strcmp(how, "pointer")) return read_address(in);
  if (!strcmp(how, "zero")) return divide(in);
  if (!strcmp(how, "tsc")) sum = hidden_time();
  if (!strcmp(how, "silent")) kept = hidden_time();
  work(text, size, strcmp(how, "long") ? 20 : 10000);
  tell(out);
  return success();
}
