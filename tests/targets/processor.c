// The number of the processor that the program runs on, as instructions tell it: the limit of a segment that the kernel keeps (lsl) and
// rdpid; and which parts of the vector state are in use (xgetbv with ecx 1); which transactions start, and what xsaveopt leaves out. What is read is handed to a call, so that it is compared.
#include <cpuid.h>
#include <fcntl.h>
#include <immintrin.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>

#include "check.h"

static unsigned by_segment(void) {
  unsigned limit = 0;
  unsigned char found;
  __asm__ volatile("lsl %2, %0; setz %1" : "+r"(limit), "=q"(found) : "r"(0x7b) : "cc");
  CHECK(found);
  return limit & 0xfff;
}

// A selector that is none: the register stays, and the flag tells.
static unsigned by_no_segment(void) {
  unsigned limit = 77;
  unsigned char found;
  __asm__ volatile("lsl %2, %0; setz %1" : "+r"(limit), "=q"(found) : "r"(0xfff8) : "cc");
  CHECK(!found && limit == 77);
  return limit;
}

static unsigned long by_rdpid(void) {
  unsigned a, b, c = 0, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(c >> 22 & 1)) return 0;
  unsigned long number;
  __asm__ volatile("rdpid %0" : "=r"(number));
  return number & 0xfff;
}

static unsigned long in_use(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || !(a >> 2 & 1)) return 0;
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(1));
  return (unsigned long)d << 32 | a;
}

// Which of many transactions start. Natively an interrupt aborts one now and then.
static sigjmp_buf no_transactions;

static void on_illegal(int number) { siglongjmp(no_transactions, number); }

__attribute__((target("rtm"))) static unsigned long started(void) {
  static volatile unsigned long inside;
  volatile unsigned long which = 0;
  struct sigaction action = {.sa_handler = on_illegal}, before;
  CHECK(sigaction(SIGILL, &action, &before) == 0);
  if (sigsetjmp(no_transactions, 1) == 0)
    for (unsigned long i = 0; i < 100000; i++) {
      if (_xbegin() != _XBEGIN_STARTED) continue;
      inside++;
      _xend();
      which = which * 31 + i;
    }
  CHECK(sigaction(SIGILL, &before, NULL) == 0);
  return which;
}

// xsaveopt leaves out what has not changed since xrstor, if nobody else had the processor meanwhile.
__attribute__((target("xsave,xsaveopt"))) static unsigned long written(void) {
  static unsigned char area[4096] __attribute__((aligned(64)));
  unsigned a, b, c, d;
  unsigned long hash = 0;
  if (!__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || !(a & 1)) return 0;
  _xsaveopt64(area, 3);
  for (int i = 0; i < 2000; i++) {
    _xrstor64(area, 3);
    memset(area + 288, i, 64);  // XMM8 to XMM11, which nothing here uses
    if (i % 20 == 0) sched_yield();
    _xsaveopt64(area, 3);
    hash = hash * 31 + area[300];
  }
  return hash;
}

int main(void) {
  cpu_set_t all, one;
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  const int quiet = open("/dev/null", O_WRONLY);
  CHECK(quiet >= 0);
  const unsigned long processor[] = {started(), written()};
  CHECK(write(quiet, processor, sizeof processor) == sizeof processor);
  for (int i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &all)) continue;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    const unsigned long told[] = {by_segment(), by_no_segment(), by_rdpid(), in_use()};
    CHECK(told[0] == (unsigned)i && (told[2] == (unsigned)i || !told[2]));
    CHECK(write(quiet, told, sizeof told) == sizeof told);
  }
  return success();
}
