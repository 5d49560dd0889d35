// What programs can do without and while recording is not to be had, so that they fall back: io_uring, instructions that
// fault because the program wants them to, and memory that is not executed once it was written.
#include <cpuid.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <x86intrin.h>

#include "check.h"

static sigjmp_buf back;
static void fault(int number) { siglongjmp(back, number); }

static void read_counter(void) { __rdtsc(); }
static void read_processor(void) {
  unsigned a, b, c, d;
  __cpuid(0, a, b, c, d);
}
static int faults(void (*function)(void)) {
  if (sigsetjmp(back, 1)) return 1;
  function();
  return 0;
}

int main(void) {
  char parameters[256] = {0};
  long fd = syscall(SYS_io_uring_setup, 8, parameters);
  printf("io_uring %s\n", fd == -1 && errno == ENOSYS ? "is not there" : "is there");

  CHECK(signal(SIGSEGV, fault) != SIG_ERR);
  int now = 0;
  const int forbidden = prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0;
  CHECK(forbidden || errno == EINVAL);
  CHECK(faults(read_counter) <= forbidden);  // some virtual machines let it be forbidden, and read on
  CHECK(prctl(PR_GET_TSC, &now) == 0 && now == (forbidden ? PR_TSC_SIGSEGV : PR_TSC_ENABLE));
  CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0 && !faults(read_counter));
  const int hidden = syscall(SYS_arch_prctl, 0x1012 /* ARCH_SET_CPUID */, 0) == 0;
  CHECK(hidden || errno == ENODEV);
  CHECK(faults(read_processor) == hidden && (!hidden || syscall(SYS_arch_prctl, 0x1012, 1) == 0) && !faults(read_processor));

  // Who may not execute what it wrote still loads libraries and executes programs.
  const int denied = prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0);
  CHECK(denied == 0 || errno == EINVAL);
  printf("written memory is %s\n", denied == 0 ? "not executed" : "executed");
  CHECK(dlopen("libresolv.so.2", RTLD_NOW) != NULL);
  return success();
}
