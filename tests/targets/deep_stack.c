// Recursion through 6 MB of stack, with calls on the way down and up.
#include <stdint.h>

#include "check.h"

static uint32_t descend(int depth) {
  volatile uint8_t frame[1000];
  for (unsigned i = 0; i < sizeof frame; i += 100) frame[i] = (uint8_t)(depth + (int)i);
  if (depth % 64 == 0) CHECK(getpid() > 0);
  uint32_t below = depth ? descend(depth - 1) : 1;
  if (depth % 97 == 0) CHECK(getppid() > 0);
  for (unsigned i = 0; i < sizeof frame; i += 100) {
    CHECK(frame[i] == (uint8_t)(depth + (int)i));
    below = below * 31 + frame[i];
  }
  return below;
}

int main(void) {
  for (int i = 0; i < 3; i++) printf("%08x\n", descend(5900));
  return success();
}
