// POSIX message queues: priorities, timeouts, attributes, notification by a signal and from another process.
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

static volatile int notices;

static void notice(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  CHECK(info->si_code == SI_MESGQ && info->si_value.sival_int == 77);
  notices++;
}

int main(void) {
  char name[64];
  snprintf(name, sizeof name, "/friday-mq-%d", (int)getpid());
  struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 64}, old;
  mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
  if (queue < 0) {
    CHECK(errno == ENOSYS || errno == EACCES || errno == EPERM || errno == EMFILE || errno == ENOSPC);
    return success();
  }
  CHECK(mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes) < 0 && errno == EEXIST);
  CHECK(mq_send(queue, "low", 3, 1) == 0 && mq_send(queue, "high", 4, 9) == 0 && mq_send(queue, "", 0, 5) == 0);
  CHECK(mq_getattr(queue, &old) == 0 && old.mq_curmsgs == 3 && old.mq_maxmsg == 4);
  char text[64];
  unsigned priority;
  CHECK(mq_receive(queue, text, sizeof text, &priority) == 4 && priority == 9 && memcmp(text, "high", 4) == 0);
  CHECK(mq_receive(queue, text, sizeof text, NULL) == 0);
  CHECK(mq_receive(queue, text, 3, NULL) == -1 && errno == EMSGSIZE);
  CHECK(mq_receive(queue, text, sizeof text, &priority) == 3 && priority == 1);
  struct timespec past = {1, 0};
  CHECK(mq_timedreceive(queue, text, sizeof text, &priority, &past) == -1 && errno == ETIMEDOUT);
  attributes.mq_flags = O_NONBLOCK;
  CHECK(mq_setattr(queue, &attributes, &old) == 0 && old.mq_flags == 0);
  CHECK(mq_receive(queue, text, sizeof text, &priority) == -1 && errno == EAGAIN);
  attributes.mq_flags = 0;
  CHECK(mq_setattr(queue, &attributes, NULL) == 0);

  struct sigaction action = {.sa_sigaction = notice, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 77};
  CHECK(mq_notify(queue, &event) == 0 && mq_notify(queue, &event) == -1 && errno == EBUSY);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 10; i++) CHECK(mq_send(queue, (char *)&i, sizeof i, 0) == 0);  // blocks: there is room for four
    _exit(0);
  }
  while (!notices) usleep(500);
  for (int i = 0, got; i < 10; i++) CHECK(mq_receive(queue, text, sizeof text, NULL) == sizeof got && (memcpy(&got, text, 4), got == i));
  CHECK(waitpid(child, NULL, 0) == child && notices == 1);
  CHECK(mq_notify(queue, NULL) == 0 && mq_close(queue) == 0 && mq_unlink(name) == 0 && mq_unlink(name) == -1 && errno == ENOENT);
  return success();
}
