// Instructions whose results differ from run to run: rdtsc and rdtscp, in line and in a loop; rdrand where the CPU has it.
#include <cpuid.h>
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

int main(void) {
  unsigned long long last = 0, sum = 0;
  unsigned processor;
  for (int i = 0; i < 20000; i++) {
    unsigned long long now = i & 1 ? __rdtsc() : __rdtscp(&processor);
    CHECK(now >= last);
    sum = sum * 31 + now;
    last = now;
  }
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_RDRND))
    for (int i = 0; i < 100; i++) sum ^= hardware_random();
  printf("%llx\n", sum);
  return success();
}
