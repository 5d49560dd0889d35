// Handlers that are entered behind the call that lets the signal in, behind the one that sends it, and at an
// instruction that faults. Their frames are written to the same place of an alternate stack each time.
#include <setjmp.h>
#include <signal.h>

#include "check.h"

static char room[65536];
int* info_at;
sigset_t was_blocked;
static sigjmp_buf back;
static volatile int nothing;

__attribute__((noinline)) void handler(int signal, siginfo_t* info, void* context) {
  (void)context;
  CHECK(!info_at || info_at == (int*)info);
  info_at = (int*)info;
  if (signal == SIGFPE) siglongjmp(back, 1);
}

__attribute__((noinline)) void ready(void) { __asm__ volatile(""); }

int main(void) {
  const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  CHECK(sigaltstack(&stack, NULL) == 0);
  const struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0 &&
        sigaction(SIGFPE, &action, NULL) == 0);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0);
  CHECK(sigprocmask(SIG_UNBLOCK, &set, &was_blocked) == 0 && sigismember(&was_blocked, SIGUSR1) == 1 && info_at);
  ready();
  CHECK(kill(getpid(), SIGUSR2) == 0);
  if (!sigsetjmp(back, 1)) __asm__ volatile("idivl %0" ::"m"(nothing), "a"(1), "d"(0));
  return success();
}
