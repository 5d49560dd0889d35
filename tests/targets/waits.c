// Everything that waits for descriptors: select, poll, epoll, eventfd, timerfd, signalfd, inotify.
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "check.h"

static int p[2];
static char buffer[512];

static void selects(void) {
  struct timeval limit = {0, 2000};
  fd_set in, out;
  FD_ZERO(&in);
  FD_ZERO(&out);
  FD_SET(p[0], &in);
  CHECK(select(p[0] + 1, &in, NULL, NULL, &limit) == 0 && !FD_ISSET(p[0], &in) && limit.tv_usec == 0);
  CHECK(write(p[1], "a", 1) == 1);
  FD_SET(p[0], &in);
  FD_SET(p[1], &out);
  CHECK(select(p[1] + 1, &in, &out, NULL, NULL) == 2 && FD_ISSET(p[0], &in) && FD_ISSET(p[1], &out));
  struct timespec fine = {0, 1000000};
  FD_ZERO(&out);
  CHECK(pselect(p[0] + 1, &in, &out, NULL, &fine, NULL) == 1 && read(p[0], buffer, 1) == 1);
}

static void polls(void) {
  struct pollfd set[3] = {{p[0], POLLIN, 0}, {-1, POLLIN, 7}, {p[1], POLLOUT, 0}};
  CHECK(poll(set, 1, 2) == 0 && poll(set, 3, -1) == 1 && set[2].revents == POLLOUT && set[1].revents == 0);
  CHECK(write(p[1], "b", 1) == 1);
  struct timespec limit = {1, 0};
  sigset_t none;
  sigemptyset(&none);
  CHECK(ppoll(set, 3, &limit, &none) == 2 && set[0].revents == POLLIN && read(p[0], buffer, 1) == 1);
  set[1].fd = 777;
  CHECK(poll(set, 2, 0) == 1 && set[1].revents == POLLNVAL);
}

static void epolls(void) {
  int group = epoll_create1(EPOLL_CLOEXEC), counter = eventfd(3, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  CHECK(group >= 0 && counter >= 0 && timer >= 0);
  struct epoll_event e = {EPOLLIN, {.fd = p[0]}}, got[8];
  CHECK(epoll_ctl(group, EPOLL_CTL_ADD, p[0], &e) == 0 && epoll_ctl(group, EPOLL_CTL_ADD, p[0], &e) == -1 && errno == EEXIST);
  e.data.fd = counter;
  CHECK(epoll_ctl(group, EPOLL_CTL_ADD, counter, &e) == 0);
  e.data.fd = timer;
  CHECK(epoll_ctl(group, EPOLL_CTL_ADD, timer, &e) == 0);
  CHECK(epoll_wait(group, got, 8, 0) == 1 && got[0].data.fd == counter);
  unsigned long long value;
  CHECK(read(counter, &value, 8) == 8 && value == 3 && read(counter, &value, 8) == -1 && errno == EAGAIN);
  CHECK(epoll_wait(group, got, 8, 1) == 0);
  struct itimerspec soon = {{0, 1000000}, {0, 1000000}}, rest;
  CHECK(timerfd_settime(timer, 0, &soon, NULL) == 0 && epoll_pwait(group, got, 8, 5000, NULL) == 1 && got[0].data.fd == timer);
  CHECK(read(timer, &value, 8) == 8 && value >= 1 && timerfd_gettime(timer, &rest) == 0 && rest.it_interval.tv_nsec == 1000000);
  value = 41;
  CHECK(write(p[1], "c", 1) == 1 && write(counter, &value, 8) == 8);
  CHECK(epoll_wait(group, got, 8, -1) >= 2 && read(p[0], buffer, 1) == 1);
  CHECK(epoll_ctl(group, EPOLL_CTL_DEL, timer, NULL) == 0 && close(timer) == 0 && close(counter) == 0 && close(group) == 0);
}

static void signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  struct signalfd_siginfo info;
  CHECK(fd >= 0 && read(fd, &info, sizeof info) == -1 && errno == EAGAIN && kill(getpid(), SIGUSR1) == 0);
  CHECK(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1 && info.ssi_pid == (unsigned)getpid() && close(fd) == 0);
}

static void notices(void) {
  char name[] = "watched-XXXXXX";
  int fd = mkstemp(name), notify = inotify_init1(IN_NONBLOCK);
  CHECK(fd >= 0 && notify >= 0 && inotify_add_watch(notify, name, IN_MODIFY) == 1);
  CHECK(write(fd, "x", 1) == 1 && read(notify, buffer, sizeof buffer) >= (int)sizeof(struct inotify_event));
  CHECK(inotify_rm_watch(notify, 1) == 0 && close(fd) == 0 && unlink(name) == 0 && close(notify) == 0);
}

int main(void) {
  CHECK(pipe(p) == 0);
  for (int i = 0; i < 10; i++) {
    selects();
    polls();
    epolls();
  }
  signals();
  notices();
  return success();
}
