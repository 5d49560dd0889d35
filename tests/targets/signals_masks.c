// The mask that a handler runs with, and in what order handlers run: those let in by sigsuspend, ppoll, pselect and epoll_pwait, those
// that come while another one runs or is about to, those unblocked together.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "check.h"

static char story[512];
static int depth;

static void add(const char* text) { strncat(story, text, sizeof story - strlen(story) - 1); }

// Which of four signals `set` holds.
static void add_set(const sigset_t* set) {
  static const int numbers[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGHUP};
  for (int i = 0; i < 4; i++) add(sigismember(set, numbers[i]) ? "x" : "-");
}

static void handler(int number, siginfo_t* info, void* context) {
  sigset_t now;
  char text[32];
  CHECK(info->si_signo == number && sigprocmask(SIG_BLOCK, NULL, &now) == 0);
  snprintf(text, sizeof text, " %d:%d(", depth++, number);
  add(text);
  add_set(&now);
  add(" back to ");
  add_set(&((ucontext_t*)context)->uc_sigmask);
  CHECK(getppid() > 0);
  depth--;
  add(")");
}

static void tell(const char* what) {
  printf("%s:%s\n", what, story);
  story[0] = 0;
}

static sigset_t set_of(int a, int b) {
  sigset_t set;
  sigemptyset(&set);
  if (a) sigaddset(&set, a);
  if (b) sigaddset(&set, b);
  return set;
}

static void wait_masked(int which, const sigset_t* mask) {
  struct timespec long_time = {20, 0};
  struct epoll_event event;
  int group = epoll_create1(0), result = -1;
  switch (which) {
    case 0: result = sigsuspend(mask); break;
    case 1: result = ppoll(NULL, 0, &long_time, mask); break;
    case 2: result = pselect(0, NULL, NULL, NULL, &long_time, mask); break;
    case 3: result = epoll_pwait(group, &event, 1, 20000, mask); break;
  }
  CHECK(result == -1 && errno == EINTR && close(group) == 0);
}

static void again(int number) {
  add(number == SIGHUP ? " once" : " again");
}

int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
  sigaddset(&action.sa_mask, SIGHUP);
  CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
  sigset_t blocked = set_of(SIGUSR1, SIGUSR2), none = set_of(0, 0), all;
  sigfillset(&all);
  for (int which = 0; which < 4; which++) {
    static const char* const names[] = {"sigsuspend", "ppoll", "pselect", "epoll_pwait"};
    CHECK(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0);
    sigset_t one = set_of(SIGUSR2, SIGALRM);
    wait_masked(which, &one);
    tell(names[which]);
    CHECK(raise(SIGUSR2) == 0 && raise(SIGUSR1) == 0);
    wait_masked(which, &none);
    tell("two at once");
  }
  // Unblocked together; again while its handler runs, and more often than once.
  CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
  for (int i = 0; i < 3; i++) CHECK(raise(SIGUSR1) == 0 && raise(SIGALRM) == 0 && raise(SIGUSR2) == 0);
  CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
  tell("unblocked");
  // From a child, while handlers run.
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    for (int i = 0; i < 50; i++) kill(parent, SIGUSR1), kill(parent, SIGUSR2);
    _exit(0);
  }
  int status;
  while (waitpid(child, &status, 0) == -1) CHECK(errno == EINTR);
  CHECK(status == 0 && depth == 0);
  story[0] = 0;
  // A handler for one time only: the second one does what there is without it.
  struct sigaction once = {.sa_handler = again, .sa_flags = SA_RESETHAND | SA_NODEFER};
  CHECK(sigaction(SIGHUP, &once, NULL) == 0 && raise(SIGHUP) == 0);
  child = fork();
  if (child == 0) {
    raise(SIGHUP);
    _exit(1);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP);
  tell("once");
  // In order and none lost: those of real time.
  once.sa_flags = 0;
  CHECK(sigaction(SIGRTMIN + 2, &once, NULL) == 0 && sigprocmask(SIG_SETMASK, &all, NULL) == 0);
  for (int i = 0; i < 40; i++) CHECK(sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = i}) == 0);
  CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
  printf("%zu\n", strlen(story) / strlen(" again"));
  return success();
}
