// Two processes of which one waits for the other, in the way that the argument names: in the end only that orders them. Each looks
// for a file just before the call that matters, so that the recording shows which one it is: "let-go" and "acquire".
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

static int ends[2], file, object, passed[2];
static mqd_t queue;

static void mark(const char* name) { access(name, F_OK); }

// Until the other process sleeps in its call: after its mark it does nothing else.
static void await_sleep(pid_t pid) {
  char name[64], line[512];
  snprintf(name, sizeof name, "/proc/%d/stat", pid);
  for (;;) {
    int fd = open(name, O_RDONLY);
    CHECK(fd >= 0);
    long n = read(fd, line, sizeof line - 1);
    CHECK(n > 0 && close(fd) == 0);
    line[n] = 0;
    if (strrchr(line, ')')[2] == 'S') return;
    usleep(500);
  }
}

static void range(int command, short type) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
  CHECK(fcntl(file, command, &lock) == 0);
}
static void change(short by) {
  struct sembuf operation = {0, by, 0};
  CHECK(semop(object, &operation, 1) == 0);
}
static void open_own(void) { CHECK((file = open("locked", O_RDWR)) >= 0); }
struct text {
  long type;
  char letter;
};

static void pass(void) {
  char letter = 'p', control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec vector = {&letter, 1};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &passed[1], sizeof(int));
  CHECK(sendmsg(ends[1], &message, 0) == 1);
}
static int take(void) {
  char letter, control[CMSG_SPACE(sizeof(int))];
  int fd;
  struct iovec vector = {&letter, 1};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  CHECK(recvmsg(ends[0], &message, 0) == 1);
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

static sigset_t usr1(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  return set;
}

// What comes before the fork, and in each process before its mark.
static void prepare(const char* how) {
  CHECK((file = open("locked", O_RDWR | O_CREAT, 0600)) >= 0);
  if (!strcmp(how, "pipe") || !strcmp(how, "close")) CHECK(pipe(ends) == 0);
  if (!strcmp(how, "socketpair") || !strcmp(how, "passed")) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  if (!strcmp(how, "passed")) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, passed) == 0);
  if (!strcmp(how, "flock")) CHECK(flock(file, LOCK_EX) == 0);
  if (!strcmp(how, "fcntl") || !strcmp(how, "fcntl-close")) range(F_SETLK, F_WRLCK);
  if (!strcmp(how, "ofd")) range(F_OFD_SETLK, F_WRLCK);
  if (!strcmp(how, "semaphore")) CHECK((object = semget(IPC_PRIVATE, 1, 0600)) >= 0);
  if (!strcmp(how, "eventfd")) CHECK((object = eventfd(0, 0)) >= 0);
  if (!strcmp(how, "message")) CHECK((object = msgget(IPC_PRIVATE, 0600)) >= 0);
  if (!strcmp(how, "mqueue")) {
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 8};
    char name[64];
    snprintf(name, sizeof name, "/friday-%d", getpid());
    CHECK((queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes)) >= 0 && mq_unlink(name) == 0);
  }
  sigset_t set = usr1();
  if (!strcmp(how, "sigwait") || !strcmp(how, "signalfd")) CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  if (!strcmp(how, "signalfd")) CHECK((object = signalfd(-1, &set, 0)) >= 0);
}

static void let_go(const char* how, pid_t other) {
  if (!strcmp(how, "passed")) {
    pass();
    await_sleep(other);
  }
  mark("let-go");
  if (!strcmp(how, "pipe")) CHECK(write(ends[1], "x", 1) == 1);
  if (!strcmp(how, "socketpair")) CHECK(write(ends[1], "x", 1) == 1);
  if (!strcmp(how, "passed")) CHECK(write(passed[0], "x", 1) == 1);
  if (!strcmp(how, "close")) CHECK(close(ends[1]) == 0);
  if (!strcmp(how, "flock")) CHECK(flock(file, LOCK_UN) == 0);
  if (!strcmp(how, "fcntl")) range(F_SETLK, F_UNLCK);
  if (!strcmp(how, "fcntl-close")) CHECK(close(file) == 0);
  if (!strcmp(how, "ofd")) range(F_OFD_SETLK, F_UNLCK);
  if (!strcmp(how, "semaphore")) change(1);
  if (!strcmp(how, "eventfd")) CHECK(eventfd_write(object, 1) == 0);
  if (!strcmp(how, "message")) CHECK(msgsnd(object, &(struct text){1, 'm'}, 1, 0) == 0);
  if (!strcmp(how, "mqueue")) CHECK(mq_send(queue, "m", 1, 0) == 0);
  if (!strcmp(how, "sigwait") || !strcmp(how, "signalfd")) CHECK(kill(other, SIGUSR1) == 0);
}

static void acquire(const char* how) {
  char buffer[256];
  sigset_t set = usr1();
  siginfo_t info;
  struct text text;
  eventfd_t value;
  if (!strcmp(how, "close")) CHECK(close(ends[1]) == 0);
  if (strstr(how, "lock") || strstr(how, "fcntl") || !strcmp(how, "ofd")) open_own();
  int fd = !strcmp(how, "passed") ? take() : ends[0];
  mark("acquire");
  if (!strcmp(how, "pipe") || !strcmp(how, "socketpair") || !strcmp(how, "passed")) CHECK(read(fd, buffer, 1) == 1);
  if (!strcmp(how, "close")) CHECK(read(fd, buffer, 1) == 0);
  if (!strcmp(how, "flock")) CHECK(flock(file, LOCK_EX) == 0);
  if (strstr(how, "fcntl")) range(F_SETLKW, F_WRLCK);
  if (!strcmp(how, "ofd")) range(F_OFD_SETLKW, F_WRLCK);
  if (!strcmp(how, "semaphore")) change(-1);
  if (!strcmp(how, "eventfd")) CHECK(eventfd_read(object, &value) == 0);
  if (!strcmp(how, "message")) CHECK(msgrcv(object, &text, 1, 0, 0) == 1);
  if (!strcmp(how, "mqueue")) CHECK(mq_receive(queue, buffer, 8, NULL) == 1);
  if (!strcmp(how, "sigwait")) CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
  if (!strcmp(how, "signalfd")) CHECK(read(object, buffer, 128) == 128);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const char* how = argv[1];
  prepare(how);
  pid_t other = fork();
  CHECK(other >= 0);
  if (other == 0) {
    acquire(how);
    _exit(0);
  }
  await_sleep(other);
  let_go(how, other);
  int status;
  CHECK(waitpid(other, &status, 0) == other && status == 0);
  if (!strcmp(how, "semaphore")) semctl(object, 0, IPC_RMID);
  if (!strcmp(how, "message")) msgctl(object, IPC_RMID, NULL);
  unlink("locked");
  return success();
}
