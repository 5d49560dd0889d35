// The library that load_library loads: system calls of its own, and an instruction that no two runs agree on.
#include <sys/syscall.h>
#include <time.h>
#include <x86intrin.h>

long part_used;  // of this load

long part_pid(void) {
  long result;
  part_used += 3;
  __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_getpid) : "rcx", "r11", "memory");
  return result;
}

unsigned long long part_ticks(void) { return __rdtsc(); }

long part_times(int count) {
  struct timespec now;
  long made = 0, result;
  for (int i = 0; i < count; i++) {
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_clock_gettime), "D"(CLOCK_MONOTONIC), "S"(&now) : "rcx", "r11", "memory");
    made += result == 0;
  }
  return made;
}
