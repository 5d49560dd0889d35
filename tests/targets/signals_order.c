// Masks, pending signals, information, nesting, flags of sigaction, synchronous waits.
#include <signal.h>
#include <time.h>

#include "check.h"

static char order[64];
static siginfo_t last;

static void note(int number) {
  size_t n = strlen(order);
  order[n] = (char)('a' + number % 26);
}
static void nest(int number) {
  note(number);
  raise(SIGUSR2);  // its handler runs inside this one
  note(number);
}
static void with_info(int number, siginfo_t* info, void* context) {
  CHECK(context);
  note(number);
  last = *info;
}
static void set(int number, void (*handler)(int), int flags, int also_blocked) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  if (also_blocked) sigaddset(&action.sa_mask, also_blocked);
  CHECK(sigaction(number, &action, NULL) == 0);
}

int main(void) {
  sigset_t blocked, pending, before;
  set(SIGUSR2, note, 0, 0);
  set(SIGUSR1, nest, 0, 0);
  raise(SIGUSR1);
  printf("nested %s\n", order);
  set(SIGUSR1, nest, 0, SIGUSR2);
  raise(SIGUSR1);
  printf("blocked while handled %s\n", order);

  memset(order, 0, sizeof order);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigaddset(&blocked, SIGUSR2);
  set(SIGUSR1, note, 0, 0);
  CHECK(sigprocmask(SIG_BLOCK, &blocked, &before) == 0 && kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR2) == 0);
  CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) && sigismember(&pending, SIGUSR2) && order[0] == 0);
  sigset_t only = before;
  sigaddset(&only, SIGUSR2);
  CHECK(sigsuspend(&only) == -1 && errno == EINTR);
  printf("after sigsuspend %s\n", order);
  siginfo_t info;
  sigemptyset(&pending);
  sigaddset(&pending, SIGUSR2);
  CHECK(sigwaitinfo(&pending, &info) == SIGUSR2 && info.si_signo == SIGUSR2 && info.si_pid == getpid());
  struct timespec limit = {0, 2000000};
  CHECK(sigtimedwait(&pending, &info, &limit) == -1 && errno == EAGAIN);
  CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);

  struct sigaction action = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO | SA_RESETHAND};
  CHECK(sigaction(SIGRTMIN + 1, &action, NULL) == 0);
  union sigval value = {.sival_int = 4711};
  CHECK(sigqueue(getpid(), SIGRTMIN + 1, value) == 0 && last.si_value.sival_int == 4711 && last.si_code == SI_QUEUE);
  CHECK(sigaction(SIGRTMIN + 1, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  signal(SIGUSR1, SIG_IGN);
  CHECK(raise(SIGUSR1) == 0 && signal(SIGUSR1, SIG_DFL) == SIG_IGN);
  printf("%s\n", order);
  return success();
}
