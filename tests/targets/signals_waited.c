// Signals that are waited for instead of handled, and waits that change the mask: sigtimedwait, signalfd, sigqueue, timers of all
// notifications, sigsuspend, ppoll, pselect, epoll_pwait and epoll_pwait2; pending sets; who restarts and who does not.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

#include "check.h"

static volatile int handled[65], order[16], count;
static sigset_t inside;

static void handler(int number) {
  handled[number]++;
  order[count++ & 15] = number;
  pthread_sigmask(SIG_BLOCK, NULL, &inside);
}

static sigset_t set_of(int a, int b) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, a);
  if (b) sigaddset(&set, b);
  return set;
}

static void waited(void) {
  sigset_t both = set_of(SIGUSR1, SIGRTMIN + 3), pending;
  siginfo_t info;
  struct timespec soon = {0, 1000000};
  CHECK(sigprocmask(SIG_BLOCK, &both, NULL) == 0 && sigtimedwait(&both, &info, &soon) == -1 && errno == EAGAIN);
  CHECK(kill(getpid(), SIGUSR1) == 0 && sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
  CHECK(sigwaitinfo(&both, &info) == SIGUSR1 && info.si_pid == getpid() && info.si_code == SI_USER);
  for (int i = 0; i < 5; i++) CHECK(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 40 + i}) == 0);
  for (int i = 0; i < 3; i++) CHECK(sigwaitinfo(&both, &info) == SIGRTMIN + 3 && info.si_value.sival_int == 40 + i && info.si_code == SI_QUEUE);
  int fd = signalfd(-1, &both, SFD_CLOEXEC), number;
  struct signalfd_siginfo read_info[4];
  CHECK(fd >= 0 && read(fd, read_info, sizeof read_info) == 2 * sizeof read_info[0] && read_info[1].ssi_int == 44 && close(fd) == 0);
  CHECK(syscall(SYS_signalfd, -1, &both, 8) >= 0);
  info.si_code = SI_QUEUE, info.si_value.sival_int = 9;
  CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGUSR1, &info) == 0 && sigwait(&both, &number) == 0 && number == SIGUSR1);
  CHECK(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1) == 0 && syscall(SYS_tkill, gettid(), SIGRTMIN + 3) == 0);
  CHECK(sigwaitinfo(&both, &info) == SIGUSR1 && sigwaitinfo(&both, NULL) == SIGRTMIN + 3 && info.si_code == SI_USER);
  CHECK(sigprocmask(SIG_UNBLOCK, &both, NULL) == 0);
}

// Both signals are pending and only the call's own mask lets them in: both handlers run before it returns.
static void masked(int which) {
  sigset_t both = set_of(SIGUSR1, SIGUSR2), none, now;
  sigemptyset(&none);
  CHECK(sigprocmask(SIG_BLOCK, &both, NULL) == 0);
  handled[SIGUSR1] = handled[SIGUSR2] = 0;
  CHECK(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR2) == 0 && handled[SIGUSR1] + handled[SIGUSR2] == 0);
  struct pollfd nothing = {-1, POLLIN, 0};
  struct timespec long_time = {20, 0};
  struct epoll_event event;
  int group = epoll_create1(0), result = 0;
  fd_set set;
  FD_ZERO(&set);
  switch (which) {
    case 0: result = sigsuspend(&none); break;
    case 1: result = ppoll(&nothing, 1, &long_time, &none); break;
    case 2: result = pselect(1, &set, NULL, NULL, &long_time, &none); break;
    case 3: result = epoll_pwait(group, &event, 1, 20000, &none); break;
    case 4: result = (int)syscall(SYS_epoll_pwait2, group, &event, 1, &long_time, &none, 8L); break;
  }
  CHECK((result == -1 && errno == EINTR) || (which == 4 && errno == ENOSYS));
  if (which == 4 && errno == ENOSYS) {
    CHECK(sigsuspend(&none) == -1);
  }
  CHECK(handled[SIGUSR1] == 1 && handled[SIGUSR2] == 1 && close(group) == 0);
  CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2) && !sigismember(&now, SIGALRM));
  CHECK(sigprocmask(SIG_UNBLOCK, &both, NULL) == 0);
}

// The other way: a mask that keeps a signal out for as long as the call lasts.
static void kept_out(void) {
  sigset_t alarm_only = set_of(SIGALRM, 0);
  struct itimerval soon = {{0, 0}, {0, 2000}};
  struct timespec later = {0, 10000000};
  handled[SIGALRM] = 0;
  CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0 && ppoll(NULL, 0, &later, &alarm_only) == 0);
  while (!handled[SIGALRM]) getppid();
}

static sem_t posted;
static void thread_notice(union sigval value) {
  CHECK(value.sival_int == 5);
  sem_post(&posted);
}

static void timers(void) {
  timer_t timer;
  struct itimerspec soon = {{0, 1000000}, {0, 1000000}}, left;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 88};
  sigset_t set = set_of(SIGRTMIN, 0);
  siginfo_t info;
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && timer_create(CLOCK_REALTIME, &event, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0);
  for (int i = 0; i < 3; i++) CHECK(sigwaitinfo(&set, &info) == SIGRTMIN && info.si_code == SI_TIMER && info.si_value.sival_int == 88);
  CHECK(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 1000000 && timer_getoverrun(timer) >= 0 && timer_delete(timer) == 0);
  event = (struct sigevent){.sigev_notify = SIGEV_NONE};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &soon, &left) == 0 && timer_delete(timer) == 0);
  event = (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = thread_notice, .sigev_value.sival_int = 5};
  soon.it_interval.tv_nsec = 0;
  CHECK(sem_init(&posted, 0, 0) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0);
  CHECK(sem_wait(&posted) == 0 && timer_delete(timer) == 0);
  int fd = timerfd_create(CLOCK_REALTIME, 0);
  unsigned long long ticks;
  soon.it_interval.tv_nsec = 500000;
  CHECK(timerfd_settime(fd, 0, &soon, &left) == 0 && read(fd, &ticks, 8) == 8 && ticks >= 1 && timerfd_gettime(fd, &left) == 0 && close(fd) == 0);
  struct itimerval interval = {{0, 0}, {0, 1000}}, old;
  handled[SIGVTALRM] = 0;
  signal(SIGVTALRM, handler), signal(SIGPROF, handler);
  CHECK(setitimer(ITIMER_VIRTUAL, &interval, &old) == 0 && setitimer(ITIMER_PROF, &interval, &old) == 0 && getitimer(ITIMER_PROF, &old) == 0);
  while (!handled[SIGVTALRM] || !handled[SIGPROF]) getppid();
}

// SA_RESTART does not hold for sockets that have a timeout, nor for a futex that has one.
static void restarted(void) {
  int pair[2];
  char byte;
  struct timeval patience = {20, 0};
  struct itimerval soon = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};  // again and again: the first may come before the call
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0 && recv(pair[0], &byte, 1, 0) == -1 && errno == EINTR);
  struct timespec limit = {20, 0};
  static int word;
  CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0 && syscall(SYS_futex, &word, 0, 0, &limit, NULL, 0) == -1 && errno == EINTR);
  CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0 && pause() == -1 && errno == EINTR);
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && syscall(SYS_restart_syscall) == -1 && errno == EINTR);
  CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
}

int main(void) {
  const int caught[] = {SIGUSR1, SIGUSR2, SIGALRM};
  for (int i = 0; i < 3; i++) signal(caught[i], handler);  // with SA_RESTART
  waited();
  for (int which = 0; which < 5; which++) masked(which);
  kept_out();
  timers();
  restarted();
  return success();
}
