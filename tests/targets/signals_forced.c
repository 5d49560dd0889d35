// Signals that instructions raise, and that a recorder may want for itself: sent and ignored, sent and handled, sent and waited for,
// raised by an instruction that the handler steps over, deadly ones, and what of all that the next program inherits.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <x86intrin.h>

#include "check.h"

static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
enum { kNumbers = sizeof numbers / sizeof *numbers };

static volatile int hits, last_signal, last_code, last_value;
static volatile size_t length;  // of the instruction that faults

static void note(int number, siginfo_t* info, void* context) {
  (void)context;
  CHECK(info->si_signo == number && getppid() > 0);
  hits++, last_signal = number, last_code = info->si_code, last_value = info->si_value.sival_int;
}

static void step_over(int number, siginfo_t* info, void* context) {
  ucontext_t* u = context;
  note(number, info, context);
  CHECK(info->si_code > 0);
  u->uc_mcontext.gregs[REG_RIP] += (greg_t)length;
  u->uc_mcontext.gregs[REG_RAX] = 7 * number;
}

static void set_handler(int number, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
  CHECK(sigaction(number, &action, NULL) == 0);
}

static sigset_t set_of(int number) {
  sigset_t set;
  CHECK(sigemptyset(&set) == 0 && sigaddset(&set, number) == 0);
  return set;
}

static void block(int how, int number) {
  const sigset_t set = set_of(number);
  CHECK(sigprocmask(how, &set, NULL) == 0);
}

static int is_pending(int number) {
  sigset_t set;
  CHECK(sigpending(&set) == 0);
  return sigismember(&set, number);
}

// A child that sends its parent `number`, so often, then writes a byte to the descriptor it returns.
static int sends(int number, int times) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    for (int i = 0; i < times; i++) {
      CHECK(usleep(2000) == 0 && kill(getppid(), number) == 0);  // as a rule the parent waits by then; it need not
    }
    CHECK(write(ends[1], "x", 1) == 1);
    _exit(0);
  }
  close(ends[1]);
  return ends[0];
}

static void end_of(int fd) {
  int status;
  CHECK(close(fd) == 0 && wait(&status) > 0 && status == 0);
}

static void ignored(int number) {
  char byte;
  CHECK(signal(number, SIG_IGN) != SIG_ERR);
  CHECK(kill(getpid(), number) == 0 && raise(number) == 0 && pthread_kill(pthread_self(), number) == 0);
  // It interrupts nothing.
  const int fd = sends(number, 5);
  CHECK(read(fd, &byte, 1) == 1);
  end_of(fd);
  CHECK(signal(number, SIG_DFL) == SIG_IGN);
}

static void handled(int number) {
  hits = 0;
  set_handler(number, note, 0);
  CHECK(kill(getpid(), number) == 0 && hits == 1 && last_signal == number && last_code == SI_USER);
  CHECK(raise(number) == 0 && hits == 2 && last_code == SI_TKILL);
  CHECK(pthread_kill(pthread_self(), number) == 0 && hits == 3);
  CHECK(sigqueue(getpid(), number, (union sigval){.sival_int = 42 + number}) == 0 && hits == 4 && last_code == SI_QUEUE && last_value == 42 + number);
  // It interrupts a call, and with SA_RESTART does not.
  char byte;
  int fd = sends(number, 1);
  const ssize_t got = read(fd, &byte, 1);
  CHECK(got == 1 || (got == -1 && errno == EINTR));
  if (got < 0) CHECK(read(fd, &byte, 1) == 1);
  end_of(fd);
  CHECK(hits == 5);
  set_handler(number, note, SA_RESTART);
  fd = sends(number, 1);
  CHECK(read(fd, &byte, 1) == 1 && hits == 6);
  end_of(fd);
  set_handler(number, note, SA_RESETHAND);
  CHECK(raise(number) == 0 && hits == 7 && signal(number, SIG_DFL) == SIG_DFL);
}

static int sent(void) {
  for (int i = 0; i < kNumbers; i++) {
    ignored(numbers[i]);
    handled(numbers[i]);
    printf("%d sent\n", numbers[i]);
  }
  return success();
}

// Blocked and sent: everything that looks for it finds it, once.
static void looked_for(int number) {
  sigset_t set = set_of(number), before;
  const struct timespec none = {0, 0}, long_time = {20, 0};
  siginfo_t info;
  int found = 0;
  hits = 0;
  set_handler(number, note, 0);
  block(SIG_BLOCK, number);
  CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN && !is_pending(number));

  CHECK(kill(getpid(), number) == 0 && kill(getpid(), number) == 0 && is_pending(number) && is_pending(number));
  for (int i = 0; i < 3; i++) CHECK(__rdtsc() > 0 && getppid() > 0);  // while it waits
  CHECK(sigwait(&set, &found) == 0 && found == number && !is_pending(number));

  CHECK(sigqueue(getpid(), number, (union sigval){.sival_int = number}) == 0);
  CHECK(sigtimedwait(&set, &info, &long_time) == number && info.si_code == SI_QUEUE && info.si_value.sival_int == number);
  CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);

  const int fd = signalfd(-1, &set, SFD_NONBLOCK);
  struct signalfd_siginfo read_info;
  struct pollfd ready = {fd, POLLIN, 0};
  CHECK(fd >= 0 && poll(&ready, 1, 0) == 0 && raise(number) == 0 && poll(&ready, 1, 20000) == 1);
  CHECK(read(fd, &read_info, sizeof read_info) == sizeof read_info && read_info.ssi_signo == (uint32_t)number && !is_pending(number));
  CHECK(read(fd, &read_info, sizeof read_info) == -1 && errno == EAGAIN);
  // From another process, while the call waits.
  int from = sends(number, 1);
  CHECK(poll(&ready, 1, 20000) == 1 && read(fd, &read_info, sizeof read_info) == sizeof read_info && read_info.ssi_signo == (uint32_t)number);
  end_of(from);
  CHECK(close(fd) == 0);
  from = sends(number, 1);
  CHECK(sigwaitinfo(&set, &info) == number && info.si_code == SI_USER);
  end_of(from);
  CHECK(hits == 0);

  // Let in: for the time of a call, and for good.
  CHECK(raise(number) == 0 && hits == 0 && sigprocmask(SIG_BLOCK, NULL, &before) == 0);
  sigset_t open = before;
  CHECK(sigdelset(&open, number) == 0);
  CHECK(sigsuspend(&open) == -1 && errno == EINTR && hits == 1);
  CHECK(raise(number) == 0 && hits == 1 && ppoll(NULL, 0, &long_time, &open) == -1 && errno == EINTR && hits == 2);
  CHECK(raise(number) == 0 && hits == 2);
  block(SIG_UNBLOCK, number);
  CHECK(hits == 3 && raise(number) == 0 && hits == 4);

  // A child has nothing to wait for; an ignored one is gone.
  block(SIG_BLOCK, number);
  CHECK(raise(number) == 0);
  int status;
  const pid_t pid = fork();
  if (pid == 0) _exit(is_pending(number) ? 1 : 0);
  CHECK(waitpid(pid, &status, 0) == pid && status == 0 && is_pending(number));
  CHECK(signal(number, SIG_IGN) != SIG_ERR);
  block(SIG_UNBLOCK, number);
  CHECK(hits == 4 && signal(number, SIG_DFL) == SIG_IGN);
}

static void* wait_for_each(void* unused) {
  (void)unused;
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGUSR1);
  for (int i = 0; i < kNumbers; i++) {
    int found = 0;
    CHECK(sigwait(&all, &found) == 0);
    CHECK(found == numbers[i]);
    CHECK(kill(getpid(), SIGUSR1) == 0);  // the other goes on
  }
  return NULL;
}

// One thread waits for what all block, as servers do.
static void thread_waits(void) {
  sigset_t all, usr1 = set_of(SIGUSR1);
  pthread_t thread;
  int found;
  sigfillset(&all);
  CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0 && pthread_create(&thread, NULL, wait_for_each, NULL) == 0);
  for (int i = 0; i < kNumbers; i++) CHECK(kill(getpid(), numbers[i]) == 0 && sigwait(&usr1, &found) == 0);
  CHECK(pthread_join(thread, NULL) == 0 && sigemptyset(&all) == 0 && sigprocmask(SIG_SETMASK, &all, NULL) == 0);
}

static int waited(void) {
  for (int i = 0; i < kNumbers; i++) {
    looked_for(numbers[i]);
    printf("%d waited for\n", numbers[i]);
  }
  return success();
}

static int waited_by_thread(void) {
  thread_waits();
  return success();
}

static char* beyond_end;  // of a file

// An instruction that raises `number`, and what rax is behind it.
static long raises(int number) {
  long rax = 0;
  switch (number) {
    case SIGSEGV: length = 2; __asm__ volatile("movb %%al, (%1)" : "+a"(rax) : "D"(NULL) : "memory"); break;
    case SIGBUS: length = 2; __asm__ volatile("movb (%1), %%al" : "+a"(rax) : "D"(beyond_end) : "memory"); break;
    case SIGILL: length = 2; __asm__ volatile("ud2" : "+a"(rax)); break;
    case SIGFPE: length = 2; __asm__ volatile("divl %1" : "+a"(rax) : "c"(0), "d"(0)); break;
    case SIGTRAP: length = 0; __asm__ volatile("int3" : "+a"(rax)); break;  // a trap, not a fault: rip is behind it
  }
  return rax;
}

static int raised(void) {
  FILE* empty = tmpfile();
  CHECK(empty);
  beyond_end = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(empty), 0);
  CHECK(beyond_end != MAP_FAILED);
  set_handler(SIGALRM, note, SA_RESTART);
  for (int i = 0; i < kNumbers; i++) {
    const int number = numbers[i];
    if (number == SIGSYS) continue;  // no instruction raises it
    hits = 0;
    set_handler(number, step_over, 0);
    for (int n = 1; n <= 3; n++) CHECK(raises(number) == 7 * number && hits == n && last_signal == number && getppid() > 0);
    // While another signal waits to be delivered.
    const struct itimerval soon = {{0, 0}, {0, 1000}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    for (volatile long n = 0; n < 20000000; n++) {}
    CHECK(raises(number) == 7 * number && getppid() > 0 && hits == 5);
    CHECK(signal(number, SIG_DFL) != SIG_ERR);
    printf("%d raised\n", number);
  }
  return success();
}

// How a child ends that does what `how` says with `number`.
static void dies(int number, const char* how, int instruction) {
  int status;
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    if (*how == 'i') signal(number, SIG_IGN);
    if (*how == 'b') set_handler(number, note, 0), block(SIG_BLOCK, number);
    if (instruction) raises(number);
    else raise(number);
    _exit(1);
  }
  CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == number);
}

static int die(void) {
  FILE* empty = tmpfile();
  CHECK(empty);
  beyond_end = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(empty), 0);
  CHECK(beyond_end != MAP_FAILED);
  for (int i = 0; i < kNumbers; i++) {
    dies(numbers[i], "sent", 0);
    if (numbers[i] != SIGSYS) dies(numbers[i], "default", 1), dies(numbers[i], "ignored", 1), dies(numbers[i], "blocked", 1);
    printf("died of %d\n", numbers[i]);
  }
  return success();
}

// ---- Across execve

static const int inherited_ignored[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, 64};

// In the new program.
static int look(const char* about) {
  for (size_t i = 0; i < sizeof inherited_ignored / sizeof *inherited_ignored; i++) {
    struct sigaction action;
    CHECK(sigaction(inherited_ignored[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN);
    CHECK(kill(getpid(), inherited_ignored[i]) == 0);
  }
  sigset_t mask;
  CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
  for (int i = 0; i < kNumbers; i++) CHECK(sigismember(&mask, numbers[i]) == (*about == 'b'));
  for (int i = 0; i < kNumbers && *about == 'b'; i++) CHECK(is_pending(numbers[i]));
  return success();
}

static void ignore_all(void) {
  for (size_t i = 0; i < sizeof inherited_ignored / sizeof *inherited_ignored; i++)
    CHECK(signal(inherited_ignored[i], SIG_IGN) != SIG_ERR);
}

static int inherit(char* program) {
  int status;
  // A failed one changes nothing.
  hits = 0;
  for (int i = 0; i < kNumbers; i++) set_handler(numbers[i], note, 0);
  CHECK(signal(SIGBUS, SIG_IGN) != SIG_ERR);
  CHECK(execl("/nowhere/at/all", "nothing", (char*)NULL) == -1 && errno == ENOENT && __rdtsc() > 0 && getppid() > 0);
  CHECK(execl("/etc", "nothing", (char*)NULL) == -1 && __rdtsc() > 0 && getppid() > 0);
  for (int i = 0; i < kNumbers; i++) CHECK(raise(numbers[i]) == 0);
  CHECK(hits == kNumbers - 1);
  ignore_all();
  pid_t pid;
  char* arguments[] = {program, "look", "open", NULL};
  CHECK(posix_spawn(&pid, program, NULL, NULL, arguments, environ) == 0 && waitpid(pid, &status, 0) == pid && status == 0);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    execl(program, program, "look", "open", (char*)NULL);
    _exit(1);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  // Blocked and waiting as well: these stay so.
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    for (int i = 0; i < kNumbers; i++) {
      block(SIG_BLOCK, numbers[i]);
      CHECK(raise(numbers[i]) == 0 && is_pending(numbers[i]));
    }
    execl(program, program, "look", "blocked", (char*)NULL);
    _exit(1);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  return success();
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  setbuf(stdout, NULL);
  if (strcmp(what, "sent") == 0) return sent();
  if (strcmp(what, "waited") == 0) return waited();
  if (strcmp(what, "thread") == 0) return waited_by_thread();
  if (strcmp(what, "raised") == 0) return raised();
  if (strcmp(what, "die") == 0) return die();
  if (strcmp(what, "inherit") == 0) return inherit(argv[0]);
  return strcmp(what, "look") == 0 ? look(argv[2]) : 1;
}
