// Vector registers and the rounding of numbers around handlers: of faults, that mend what they are called for, and of signals at calls. A
// handler begins with the initial state, its frame holds the interrupted one, and what it leaves there holds afterwards.
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <xmmintrin.h>

#include "check.h"

#define UP 2u
#define TO_ZERO 3u

static void set_rounding(unsigned how) {
  unsigned short control;
  __asm__("fnstcw %0" : "=m"(control));
  control = (unsigned short)((control & ~0xc00u) | how << 10);
  __asm__("fldcw %0" : : "m"(control));
  _mm_setcsr((_mm_getcsr() & ~0x6000u) | how << 13);
}

// Of both units.
static unsigned rounding(void) {
  unsigned short control;
  __asm__("fnstcw %0" : "=m"(control));
  return (control >> 10 & 3u) * 10 + (_mm_getcsr() >> 13 & 3u);
}

static char* page;
static int count;

static void handler(int signal, siginfo_t* info, void* context) {
  struct _libc_fpstate* state = ((ucontext_t*)context)->uc_mcontext.fpregs;
  unsigned short control;
  (void)info;
  __asm__("fnstcw %0" : "=m"(control));
  CHECK((_mm_getcsr() & 0x7fc0) == 0x1f80 && control == 0x37f);
  CHECK((state->mxcsr >> 13 & 3u) == UP && (state->cwd >> 10 & 3u) == UP);
  __asm__ volatile("pxor %%xmm7, %%xmm7\n\tpxor %%xmm12, %%xmm12" : : : "xmm7", "xmm12");
  set_rounding(TO_ZERO);
  if (signal == SIGSEGV) CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
  if (signal == SIGILL) ((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP] += 2;
  if (signal == SIGUSR2) state->_xmm[12].element[0] = 77;
  count++;
}

enum How { SEGV, ILL, TRAP, KILL };

// xmm7 and xmm12 over a fault or a call, with which the handler is called.
static void over(enum How how, double* low, unsigned* high) {
  const double value = 1234.5;
  const unsigned words[4] = {1, 2, 3, 4};
  unsigned got[4];
  long call = SYS_kill, self = getpid(), number = SIGUSR2;
  switch (how) {
#define OVER(code, ...)                                                                                                           \
  __asm__ volatile("movsd %[v], %%xmm7\n\tmovdqu %[w], %%xmm12\n\t" code "\n\tmovsd %%xmm7, %[low]\n\tmovdqu %%xmm12, %[got]"      \
                   : [low] "=m"(*low), [got] "=m"(got), "+a"(call), "+D"(self), "+S"(number)                                      \
                   : [v] "m"(value), [w] "m"(words), [page] "r"(page)                                                             \
                   : "memory", "rcx", "r11", "xmm7", "xmm12")
    case SEGV: OVER("movb $1, (%[page])"); break;
    case ILL: OVER("ud2"); break;
    case TRAP: OVER("int3"); break;
    case KILL: OVER("syscall"); break;
  }
  *high = got[0] * 1000 + got[3];
}

int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  const int signals[] = {SIGSEGV, SIGILL, SIGTRAP, SIGUSR2};
  for (int i = 0; i < 4; i++) CHECK(sigaction(signals[i], &action, NULL) == 0);
  page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  set_rounding(UP);
  for (int round = 0; round < 3; round++)
    for (enum How how = SEGV; how <= KILL; how++) {
      double low = 0;
      unsigned high = 0;
      CHECK(mprotect(page, 4096, PROT_NONE) == 0);
      over(how, &low, &high);
      printf("%d: %.1f %u, rounding %u\n", how, low, high, rounding());
      CHECK(low == 1234.5 && high == (how == KILL ? 77004u : 1004u) && rounding() == UP * 11);
    }
  CHECK(count == 12);
  return success();
}
