// Alternate stacks: one that is off while a handler runs, so that it may be left; what a handler changes is undone when it
// returns; flags there are none of.
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "check.h"

#define AUTODISARM (1 << 31)

static char first[65536], second[65536];
static ucontext_t outside, inside;
static volatile int entered;

static int within(const char* stack, const void* here) { return (const char*)here >= stack && (const char*)here < stack + sizeof first; }
static int set(void* at, int flags) {
  stack_t stack = {.ss_sp = at, .ss_flags = flags, .ss_size = sizeof first};
  return sigaltstack(&stack, NULL);
}
static void show(const char* when) {
  stack_t now;
  CHECK(sigaltstack(NULL, &now) == 0);
  printf("%s: stack %d, flags %x, %zu bytes\n", when, now.ss_sp == first ? 1 : now.ss_sp == second ? 2 : 0, (unsigned)now.ss_flags, now.ss_size);
}
static void handle(void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER | flags};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

static void leave(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  char mine[2000];
  const int n = entered++;
  memset(mine, 'A' + n, sizeof mine);
  const stack_t* saved = &((ucontext_t*)context)->uc_stack;
  CHECK(within(first, mine) && saved->ss_sp == first && saved->ss_flags == AUTODISARM);
  show("in the handler");
  CHECK(set(second, 0) == 0);
  if (n == 0) CHECK(swapcontext(&inside, &outside) == 0);
  for (unsigned i = 0; i < sizeof mine; i++) CHECK(mine[i] == 'A' + n);
}

static void left(void) {
  volatile int back = 0;
  CHECK(set(first, AUTODISARM) == 0);
  handle(leave, SA_ONSTACK);
  CHECK(getcontext(&outside) == 0);
  if (!back++) raise(SIGUSR1);
  CHECK(entered == 1);
  show("left");
  CHECK(set(first, AUTODISARM) == 0);
  handle(leave, SA_ONSTACK);
  raise(SIGUSR1);
  show("returned");
}

static void change(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  CHECK(set(second, 0) == 0);
  show("changed");
}
static void change_frame(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  ((ucontext_t*)context)->uc_stack = (stack_t){.ss_sp = second, .ss_size = sizeof second};
}
static void refuse(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  char here;
  CHECK(within(second, &here) && set(first, 0) < 0 && errno == EPERM);
  printf("frame: %x\n", (unsigned)((ucontext_t*)context)->uc_stack.ss_flags);
  show("on it");
}

static void* undone(void* unused) {
  show("at first");
  handle(change, 0);
  raise(SIGUSR1);
  show("undone");
  CHECK(set(first, 0) == 0);
  raise(SIGUSR1);
  show("undone");
  handle(change_frame, 0);
  raise(SIGUSR1);
  show("by the frame");
  handle(refuse, SA_ONSTACK);
  raise(SIGUSR1);
  return unused;
}

static void flags(void) {
  const int wanted[] = {0, SS_ONSTACK, SS_DISABLE, 3, 4, 1 << 30, AUTODISARM | SS_ONSTACK, AUTODISARM | SS_DISABLE, AUTODISARM | 4};
  for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    CHECK(set(first, 0) == 0);
    const int result = set(second, wanted[i]);
    printf("%x %s\n", (unsigned)wanted[i], result == 0 ? "" : strerror(errno));
    show("with it");
  }
  stack_t small = {.ss_sp = first, .ss_size = 100};
  CHECK(sigaltstack(&small, NULL) < 0 && errno == ENOMEM);
}

int main(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, undone, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(set(NULL, SS_DISABLE) == 0);
  undone(NULL);
  left();
  flags();
  return success();
}
