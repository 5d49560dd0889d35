// A variable whose page the program protects, moves, discards, unmaps and maps again; `stored` is called after each store.
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

enum { kPage = 4096 };

struct cell {
  long value;
};
struct cell *cell;  // a debugger watches cell->value
long stores;

__attribute__((noinline)) void stored(long value) {
  stores++;
  CHECK(*(volatile long *)&cell->value == value);
}

__attribute__((noinline)) void store(long value) {
  *(volatile long *)&cell->value = value;
  stored(value);
}

int main(void) {
  char *area = mmap(0, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  cell = (struct cell *)(area + kPage + 64);
  store(1);
  CHECK(mprotect(area, 2 * kPage, PROT_READ) == 0);
  CHECK(mprotect(area, 2 * kPage, PROT_READ | PROT_WRITE) == 0);
  store(2);
  CHECK(madvise(area, 4 * kPage, MADV_DONTNEED) == 0 && cell->value == 0);
  store(3);
  char *hole = mmap(0, 8 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(hole != MAP_FAILED);
  // The move takes pages of a watched and of an unwatched one along.
  CHECK(mremap(area, 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, hole) == hole);
  cell = (struct cell *)(hole + kPage + 64);
  store(4);
  CHECK(munmap(hole + kPage, kPage) == 0);
  CHECK(mmap(hole + kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == hole + kPage);
  store(5);
  char *top = sbrk(0);
  CHECK(sbrk(2 * kPage) == top);
  cell = (struct cell *)(((uintptr_t)top + kPage) & ~(uintptr_t)7);
  store(6);
  CHECK(sbrk(-2 * kPage) != (void *)-1 && sbrk(2 * kPage) == top);
  store(7);
  return success();
}
