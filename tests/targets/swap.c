// Variables that a debugger exchanges between two processes, and functions it calls on the way: the published example of writes is
// typed on it. It waits a while behind `here`, so that a second process comes there while the first one lives.
#include <unistd.h>

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

int main(void) {
  CHECK(getppid() > 0);
  here();
  CHECK(usleep(400000) == 0);
  CHECK(x == 3 && y == 4 && fingers.count == 0);
  return success();
}
