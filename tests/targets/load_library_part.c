// The library that load_library loads: system calls of its own.
#include <sys/syscall.h>
#include <time.h>

long part_pid(void) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_getpid) : "rcx", "r11", "memory");
  return result;
}

long part_times(int count) {
  struct timespec now;
  long made = 0, result;
  for (int i = 0; i < count; i++) {
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_clock_gettime), "D"(CLOCK_MONOTONIC), "S"(&now) : "rcx", "r11", "memory");
    made += result == 0;
  }
  return made;
}
