// Variables that a debugger exchanges between two processes, and functions it calls on the way: the published example of writes is
// typed on it. As the `second` of two it comes to `here` when the `first` is behind it, which lives on until the second one says so;
// they talk through the FIFOs `there` and `back` of the current directory.
#include <fcntl.h>

#include "check.h"

struct place {
  long from, to;
};
struct finger {
  int hops[4], count;
};

volatile int x = 3, y = 4;
struct finger fingers, *f = &fingers;
struct place a = {5, 9};
int b = 7;
const char* c = "strictly";

__attribute__((used, noinline)) int add_finger(struct finger* to, int hop) {
  to->hops[to->count++ & 3] = hop;
  return to->count;
}
__attribute__((used, noinline)) int is_between(struct place around, int point, const char* how) {
  return around.from < point && (point < around.to || (how[0] != 's' && point == around.to));
}
__attribute__((noinline)) void here(void) { __asm__ volatile(""); }

static void tell(const char* fifo) {
  const int fd = open(fifo, O_WRONLY);
  CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
}

static void hear(const char* fifo) {
  char byte;
  const int fd = open(fifo, O_RDONLY);
  CHECK(fd >= 0 && read(fd, &byte, 1) == 1 && close(fd) == 0);
}

int main(int argc, char** argv) {
  const int first = argc > 1 && !strcmp(argv[1], "first"), second = argc > 1 && !strcmp(argv[1], "second");
  CHECK(getppid() > 0);
  if (second) hear("there");
  here();
  if (first) tell("there"), hear("back");
  if (second) tell("back");
  CHECK(x == 3 && y == 4 && fingers.count == 0);
  return success();
}
