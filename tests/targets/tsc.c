// Instructions whose results differ from run to run: rdtsc and rdtscp, in line and in a loop; rdrand where the CPU has it;
// cpuid, which tells the number of the processor it runs on.
#include <cpuid.h>
#include <sched.h>
#include <x86intrin.h>

#include "check.h"

__attribute__((target("rdrnd"))) static unsigned long long hardware_random(void) {
  unsigned long long value = 0;
  unsigned short brief = 0;
  while (!_rdrand64_step(&value)) {
  }
  while (!_rdrand16_step(&brief)) {
  }
  return value ^ brief;
}

// The number, by cpuid, of every processor the program may use.
static unsigned long long processors(void) {
  unsigned long long sum = 0;
  cpu_set_t all, one;
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  for (int i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &all)) continue;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    unsigned a, b, c, d;
    CHECK(__get_cpuid(1, &a, &b, &c, &d));
    sum = sum * 31 + b;
  }
  return sum;
}

int main(void) {
  unsigned long long last = 0, sum = 0;
  unsigned processor;
  for (int i = 0; i < 20000; i++) {
    unsigned long long now = i & 1 ? __rdtsc() : __rdtscp(&processor);
    CHECK(now >= last);
    sum = sum * 31 + now;
    last = now;
  }
  sum = sum * 31 + processors();
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_RDRND))
    for (int i = 0; i < 100; i++) sum ^= hardware_random();
  printf("%llx\n", sum);
  return success();
}
