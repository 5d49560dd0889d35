// Handlers that change the frame to which they return: without the numbers that say what it has, or so that the kernel
// refuses it.
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "check.h"

enum Change { NOTHING, NO_NUMBERS, NO_STATE, BAD_CONTROL, BAD_HEADER, BAD_ADDRESS, NO_STACK, CHANGES };
static const char* const names[] = {"nothing",    "no numbers",  "no state", "bad control word",
                                    "bad header", "bad address", "no stack"};

static volatile enum Change change;
static sigjmp_buf out;

static void changing(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  ucontext_t* u = context;
  char* state = (char*)u->uc_mcontext.fpregs;
  switch (change) {
    case NO_NUMBERS: *(uint32_t*)(state + 464) = 0; break;
    case NO_STATE: u->uc_mcontext.fpregs = NULL; break;
    case BAD_CONTROL: *(uint32_t*)(state + 24) = ~0u; break;
    case BAD_HEADER: *(uint64_t*)(state + 520) = 1; break;
    case BAD_ADDRESS: u->uc_mcontext.gregs[REG_RIP] = (greg_t)0x8000000000000000; break;
    case NO_STACK: asm volatile("mov $16, %%rsp; mov $15, %%eax; syscall" ::: "memory"); break;
    default: break;
  }
}

static void refused(int signal, siginfo_t* info, void* context) {
  printf("signal %d, code %d", signal, info->si_code);
  if (change == BAD_ADDRESS) printf(", trap %d", (int)((ucontext_t*)context)->uc_mcontext.gregs[REG_TRAPNO]);
  printf("\n");
  siglongjmp(out, 1);
}

// Raises a signal with a value in a vector register, and says what is left of it.
static void once(void) {
  uint64_t halves[4] = {0};
  unsigned control = 0;
  register long process asm("rdi") = getpid();
  asm volatile(
      "vpcmpeqd %%ymm7, %%ymm7, %%ymm7\n\t"
      "mov %3, %%esi; mov $62, %%eax; syscall\n\t"
      "vmovdqu %%ymm7, %0; stmxcsr %1"
      : "=m"(halves), "=m"(control), "+r"(process)
      : "i"(SIGUSR1)
      : "rax", "rcx", "rsi", "r11", "memory", "xmm7");
  printf("%lx %lx, %x\n", (unsigned long)halves[0], (unsigned long)halves[2], control);
}

int main(void) {
  if (!__builtin_cpu_supports("avx2")) return success();
  static char stack[65536];
  struct sigaction action = {.sa_sigaction = changing, .sa_flags = SA_SIGINFO};
  CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) == 0);
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  action.sa_sigaction = refused;
  action.sa_flags |= SA_ONSTACK;
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  for (int each = NOTHING; each < CHANGES; each++) {
    change = (enum Change)each;
    printf("%s: ", names[each]);
    if (sigsetjmp(out, 1) == 0) once();
  }
  CHECK(fflush(stdout) == 0 && signal(SIGSEGV, SIG_DFL) != SIG_ERR);
  const pid_t child = fork();
  change = BAD_CONTROL;
  if (child == 0) once();
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  printf("a child died of %d\n", WTERMSIG(status));
  return success();
}
