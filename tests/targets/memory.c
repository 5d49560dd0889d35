// The calls that shape the address space, and an allocator under load.
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

static uint32_t seed = 12345;
static uint32_t next(void) { return seed = seed * 1664525 + 1013904223; }

static void maps(void) {
  char* m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(m != MAP_FAILED && m[12345] == 0);
  memset(m, 7, 1 << 20);
  CHECK(mprotect(m, 4096, PROT_READ) == 0 && m[100] == 7 && mprotect(m, 4096, PROT_READ | PROT_WRITE) == 0);
  CHECK(munmap(m + (1 << 19), 4096) == 0);
  CHECK(mmap(m + (1 << 19), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == m + (1 << 19));
  CHECK(m[1 << 19] == 0 && m[(1 << 19) - 1] == 7);
  char* grown = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(grown, "moves along");
  grown = mremap(grown, 8192, 4 << 20, MREMAP_MAYMOVE);
  CHECK(grown != MAP_FAILED && strcmp(grown, "moves along") == 0 && grown[(4 << 20) - 1] == 0);
  grown = mremap(grown, 4 << 20, 4096, 0);
  CHECK(grown != MAP_FAILED && munmap(grown, 4096) == 0);
  CHECK(madvise(m + 8192, 8192, MADV_DONTNEED) == 0 && m[8192] == 0 && m[8191] == 7);
  CHECK(madvise(m + 65536, 65536, MADV_FREE) == 0);
  memset(m + 65536, 9, 65536);
  CHECK(m[65536] == 9 && munmap(m, 1 << 20) == 0);
  CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
}

static void breaks(void) {
  char* start = sbrk(0);
  CHECK(sbrk(300000) == start);
  memset(start, 3, 300000);
  CHECK(sbrk(-100000) == start + 300000 && sbrk(0) == start + 200000 && start[199999] == 3);
  CHECK(sbrk(100000) == start + 200000 && sbrk(0) == start + 300000);
}

static uint32_t allocate(void) {
  enum { kSlots = 1000 };
  static unsigned char* slots[kSlots];
  static uint32_t sizes[kSlots];
  uint32_t sum = 0;
  for (int i = 0; i < 30000; i++) {
    uint32_t k = next() % kSlots, size = next() % 100 ? next() % 4000 + 1 : next() % 3000000 + 1;
    if (slots[k]) sum = sum * 31 + slots[k][sizes[k] / 2];
    slots[k] = next() % 3 ? realloc(slots[k], size) : (free(slots[k]), malloc(size));
    CHECK(slots[k]);
    sizes[k] = size;
    memset(slots[k], (int)(next() & 255), size > 5000 ? 5000 : size);
    slots[k][size / 2] = (unsigned char)i;
  }
  for (int k = 0; k < kSlots; k++) free(slots[k]);
  return sum;
}

int main(void) {
  maps();
  breaks();
  printf("%08x\n", allocate());
  return success();
}
