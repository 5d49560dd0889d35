// Stores that a debugger's watch of `watched` makes fault again and again, in everything a program may do around them: other
// values in registers and flags, memory that moves and goes, faults of the program's own in the very store, children.
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"

enum { kPage = 4096, kTimes = 300 };

struct block {
  volatile long watched;
  volatile long cells[200];
  volatile unsigned char bytes[64];
};
static struct block fixed __attribute__((aligned(kPage)));
struct block *block = &fixed;
volatile long changes;  // of `watched`, made so far

__attribute__((noinline)) void changed(void) { changes++; }

__attribute__((noinline)) void change(void) {
  block->watched++;
  changed();
}

// Every flag and register that a store may not touch.
__attribute__((noinline)) unsigned long sum_with_carry(volatile long *cells, unsigned long a, unsigned long b) {
  unsigned long low = a, high = 0;
  __asm__ volatile(
      "add %[b], %[low]\n\t"
      "mov %[low], (%[cells])\n\t"
      "adc $0, %[high]\n\t"
      "sub %[b], %[low]\n\t"
      "movl $7, 16(%[cells])\n\t"
      "setc 8(%[cells])\n\t"
      "adc %[high], %[low]\n\t"
      : [low] "+r"(low), [high] "+r"(high)
      : [b] "r"(b), [cells] "r"(cells)
      : "memory", "cc");
  return low * 3 + high;
}

// The red zone and what lies below it.
__attribute__((noinline)) long red_zone(volatile long *cells, long n) {
  volatile long own[8];
  for (int i = 0; i < 8; i++) own[i] = n + i;
  cells[3] = n;
  cells[4] = n + 1;
  long sum = 0;
  for (int i = 0; i < 8; i++) sum += own[i];
  return sum;
}

static void work(long seed) {
  for (long n = 0; n < kTimes; n++) {
    volatile long *cells = block->cells;
    cells[n % 200] = seed + n;
    CHECK(cells[n % 200] == seed + n);
    unsigned long a = (unsigned long)n * 0x123456789abcdeful, b = ~a + (unsigned long)(n % 3);
    unsigned long low = a + b, carry = low < a;
    unsigned long back = low - b, borrow = low < b;
    CHECK(sum_with_carry(cells, a, b) == (back + carry + borrow) * 3 + carry);
    CHECK((unsigned char)cells[1] == borrow && (int)cells[2] == 7);
    CHECK(red_zone(cells, n) == 8 * n + 28 && cells[3] == n);
    block->bytes[n % 64] += 3;
    __atomic_fetch_add((long *)&cells[10], 5, __ATOMIC_SEQ_CST);
    cells[11]--;
    if (n % 100 == 99) change();
  }
}

static sigjmp_buf back;
static volatile uintptr_t fault_at, fault_pc;

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)number;
  fault_at = (uintptr_t)info->si_addr;
  fault_pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
  siglongjmp(back, 1);
}

__attribute__((noinline)) void store_to(volatile long *place, long value) { *place = value; }

static void faults(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action, 0) == 0);
  volatile uintptr_t first = 0;
  for (volatile int turn = 0; turn < 3; turn++) {
    if (sigsetjmp(back, 1) == 0) {
      store_to((long *)(uintptr_t)(8 + turn), 1);
      CHECK(!"a store to nowhere");
    }
    CHECK(fault_at == 8u + (unsigned)turn);
    if (turn == 0) first = fault_pc;
    CHECK(fault_pc == first);
    for (long n = 0; n < kTimes; n++) store_to(&block->cells[n % 200], n);
    CHECK(block->cells[(kTimes - 1) % 200] == kTimes - 1);
  }
}

static unsigned long sum(void) {
  unsigned long all = 0;
  for (size_t i = 0; i < sizeof *block; i++) all = all * 31 + ((volatile unsigned char *)block)[i];
  return all;
}

static void move_memory(void) {
  char *volatile area = mmap(0, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  struct block *other = (struct block *)(area + kPage);
  *other = fixed;
  block = other;
  changed();
  work(1000);
  const unsigned long protected = sum();
  CHECK(mprotect(area, 4 * kPage, PROT_READ) == 0 && sum() == protected);
  if (sigsetjmp(back, 1) == 0) {
    store_to(&block->cells[5], 1);
    CHECK(!"a store to a page that may not be written");
  }
  CHECK(fault_at == (uintptr_t)&block->cells[5]);
  CHECK(mprotect(area, 4 * kPage, PROT_READ | PROT_WRITE) == 0 && sum() == protected);
  work(2000);
  char *place = mmap(0, 8 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const unsigned long before = sum();
  CHECK(mremap(area, 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
  block = (struct block *)(place + kPage);
  changed();
  CHECK(sum() == before);
  work(3000);
  CHECK(madvise(place, 4 * kPage, MADV_DONTNEED) == 0);
  CHECK(block->watched == 0 && block->cells[7] == 0);
  work(4000);
  block = &fixed;
  changed();
  CHECK(munmap(place, 8 * kPage) == 0);
}

static void children(void) {
  for (int turn = 0; turn < 2; turn++) {
    const unsigned long forked = sum();
    const pid_t child = fork();
    CHECK(child >= 0);
    CHECK(sum() == forked);
    if (child == 0) {
      const long before = block->watched;
      work(5000 + turn);
      _exit(block->watched == before + kTimes / 100 && block->cells[(kTimes - 1) % 200] == 5000 + turn + kTimes - 1 ? 0 : 1);
    }
    const long before = block->watched;
    work(6000);
    CHECK(block->watched == before + kTimes / 100 && block->cells[(kTimes - 1) % 200] == 6000 + kTimes - 1);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
}

int main(void) {
  work(0);
  faults();
  work(100);
  move_memory();
  work(200);
  children();
  work(300);
  return success();
}
