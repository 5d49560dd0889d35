/* 64 places that store beside `watched` on its page. stores N: each N times. */
#include <stdio.h>
#include <stdlib.h>

static struct {
  volatile long watched;
  volatile long cells[256];
} page __attribute__((aligned(4096)));

__attribute__((noinline)) void ready(void) { __asm__ volatile(""); }

#define ONE(i) cells[i] = n + i;
#define FOUR(i) ONE(i) ONE(i + 1) ONE(i + 2) ONE(i + 3)
#define SIXTEEN(i) FOUR(i) FOUR(i + 4) FOUR(i + 8) FOUR(i + 12)

__attribute__((noinline)) void pass(volatile long *cells, long n) {
  SIXTEEN(0) SIXTEEN(16) SIXTEEN(32) SIXTEEN(48)
}

int main(int argc, char **argv) {
  const long times = argc > 1 ? atol(argv[1]) : 1000;
  ready();
  for (long n = 0; n < times; n++) pass(page.cells, n);
  page.watched = 1;
  ready();
  printf("%ld\n", page.cells[63]);
  return 0;
}
