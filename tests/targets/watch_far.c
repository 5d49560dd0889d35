// Maps memory above all libraries, after some stores to the page of the pointer that will lead there.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct cell {
  long before[1000];
  volatile long value;
};

static struct {
  volatile long noise;
  struct cell* volatile cell;
} state;

__attribute__((noinline)) void stored(long value) { asm volatile("" : : "r"(value) : "memory"); }

int main(void) {
  enum { kSize = 4 * 4096, kFar = 32 << 20, kNear = 8 << 20, kStores = 10 };  // so few that none is patched
  void* near = mmap(0, kNear, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long n = 0; n < kStores; n++) state.noise = n;
  munmap(near, kNear);  // below the libraries, where nothing else has room for it
  for (long n = 0; n < kStores; n++) state.noise = n * 2;
  const uintptr_t hint = ((uintptr_t)exit + kFar) & ~(uintptr_t)4095;
  void* far = mmap((void*)hint, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (far == MAP_FAILED || (uintptr_t)far < (uintptr_t)exit) return 3;
  state.cell = far;
  stored(0);
  for (long n = 1; n <= 5; n++) {
    state.cell->value = n;
    stored(n);
  }
  printf("%ld\n", state.cell->value);
  return 0;
}
