// For a while it has more address space than Linux makes a copy of. With vm.overcommit_memory 0, fork(2) fails with
// ENOMEM if one mapping that may be written is larger than the memory and the swap space of the machine. Nothing of it
// is used but one page.
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "check.h"

enum { kRounds = 100 };

volatile long passed;

__attribute__((noinline)) void pass(void) { passed++; }
__attribute__((noinline)) void grown(void) { passed++; }
__attribute__((noinline)) void shrunk(void) { passed++; }

static void rounds(void) {
  for (int i = 0; i < kRounds; i++) {
    pass();
    CHECK(getppid() > 0);
  }
}

int main(void) {
  struct sysinfo machine;
  CHECK(sysinfo(&machine) == 0);
  const size_t all = (machine.totalram + machine.totalswap) * machine.mem_unit;
  const size_t part = all / 4 * 3 & ~(size_t)4095;  // each part may be had, and they become one mapping
  rounds();
  char* at = mmap(NULL, 2 * part, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(at != MAP_FAILED);
  for (int i = 0; i < 2; i++)
    CHECK(mmap(at + i * part, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
          MAP_FAILED);
  *at = 1;  // with a page in use, the kernel goes on to count the mapping as one that may be written
  CHECK(mprotect(at, 2 * part, PROT_NONE) == 0);
  grown();
  rounds();
  CHECK(munmap(at, 2 * part) == 0);
  shrunk();
  rounds();
  return success();
}
