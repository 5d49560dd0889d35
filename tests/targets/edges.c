// Two processes of which one waits for the other, in the way that the argument names: in the end only that orders them, or that and
// the clock. Each looks for a file just before the call that matters, so that the recording shows which one it is: "let-go" and
// "acquire".
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
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

static struct sockaddr_in place = {.sin_family = AF_INET};
static volatile int* shared;

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

// A socket of the loopback interface, whose address is then `place`.
static int bound(int kind) {
  socklen_t length = sizeof place;
  int fd = socket(AF_INET, kind, 0);
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(fd >= 0 && bind(fd, (struct sockaddr*)&place, length) == 0 && getsockname(fd, (struct sockaddr*)&place, &length) == 0);
  return fd;
}
static void reach(int kind) {
  int fd = socket(AF_INET, kind, 0);
  CHECK(fd >= 0);
  mark("let-go");
  if (kind == SOCK_DGRAM) CHECK(sendto(fd, "x", 1, 0, (struct sockaddr*)&place, sizeof place) == 1);
  else CHECK(connect(fd, (struct sockaddr*)&place, sizeof place) == 0);
}

static void handler(int number) {
  (void)number;
  mark("acquire");
  getppid();
}

static sigset_t awaited(const char* how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, strcmp(how, "child") ? SIGUSR1 : SIGCHLD);
  return set;
}

// What comes before the fork, and in each process before its mark.
static void prepare(const char* how) {
  CHECK((file = open("locked", O_RDWR | O_CREAT, 0600)) >= 0);
  if (!strcmp(how, "pipe") || !strcmp(how, "close")) CHECK(pipe(ends) == 0);
  if (!strcmp(how, "socketpair") || !strcmp(how, "shutdown") || !strcmp(how, "passed") || !strcmp(how, "kept")) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  if (!strcmp(how, "passed")) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, passed) == 0);
  if (!strncmp(how, "flock", 5)) CHECK(flock(file, LOCK_EX) == 0);
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
  if (!strcmp(how, "datagram")) object = bound(SOCK_DGRAM);
  if (!strcmp(how, "connect")) CHECK(listen(object = bound(SOCK_STREAM), 1) == 0);
  if (!strcmp(how, "fifo")) CHECK(mkfifo("fifo", 0600) == 0 && (ends[1] = open("fifo", O_RDWR)) >= 0);
  if (!strcmp(how, "death") || !strcmp(how, "killed")) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  if (!strcmp(how, "turn")) CHECK((shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
  if (!strcmp(how, "handler")) CHECK(signal(SIGUSR1, handler) != SIG_ERR);
  sigset_t set = awaited(how);
  if (!strcmp(how, "sigwait") || !strcmp(how, "signalfd") || !strcmp(how, "child")) CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  if (!strcmp(how, "signalfd")) CHECK((object = signalfd(-1, &set, 0)) >= 0);
}

static void let_go(const char* how, pid_t other) {
  if (!strcmp(how, "passed")) {
    pass();
    await_sleep(other);
  }
  if (!strcmp(how, "datagram")) return reach(SOCK_DGRAM);
  if (!strcmp(how, "connect")) return reach(SOCK_STREAM);
  if (!strcmp(how, "kept")) {  // a close_range that fails closes nothing
    CHECK(write(ends[1], "w", 1) == 1);
    CHECK(syscall(SYS_close_range, ends[1], ends[1], 0x100) == -1 && errno == EINVAL);
    await_sleep(other);
  }
  if (strcmp(how, "flock-exec")) mark("let-go");
  if (!strcmp(how, "pipe")) CHECK(write(ends[1], "x", 1) == 1);
  if (!strcmp(how, "fifo")) CHECK(write(ends[1], "x", 1) == 1);
  if (!strcmp(how, "file")) CHECK(pwrite(file, "x", 1, 0) == 1 && (object = creat("written", 0600)) >= 0);
  if (!strcmp(how, "turn")) *shared = getppid();
  if (!strcmp(how, "killed")) kill(getpid(), SIGKILL);
  if (!strcmp(how, "flock-exec")) execl("/proc/self/exe", "edges", "ended", NULL);
  if (!strcmp(how, "wait") || strstr(how, "death") || !strcmp(how, "child")) _exit(0);
  if (!strcmp(how, "shutdown")) CHECK(shutdown(ends[1], SHUT_WR) == 0);
  if (!strcmp(how, "socketpair") || !strcmp(how, "kept")) CHECK(write(ends[1], "x", 1) == 1);
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
  if (!strcmp(how, "sigwait") || !strcmp(how, "signalfd") || !strcmp(how, "handler")) CHECK(kill(other, SIGUSR1) == 0);
}

static void acquire(const char* how) {
  char buffer[256];
  sigset_t set = awaited(how);
  siginfo_t info;
  struct text text;
  eventfd_t value;
  int status;
  if (!strcmp(how, "close") || !strcmp(how, "death") || !strcmp(how, "killed")) CHECK(close(ends[1]) == 0);
  if (!strcmp(how, "fifo")) CHECK((ends[0] = open("fifo", O_RDONLY)) >= 0);
  if (!strcmp(how, "file")) while (access("written", F_OK) != 0) usleep(500);
  if (!strcmp(how, "turn")) while (!*shared) sched_yield();
  if (!strcmp(how, "handler")) CHECK(pause() == -1);
  if (strstr(how, "flock-")) CHECK(close(file) == 0);  // which the child holds on to
  if (strstr(how, "lock") || strstr(how, "fcntl") || !strcmp(how, "ofd")) open_own();
  int fd = !strcmp(how, "passed") ? take() : ends[0];
  if (!strcmp(how, "handler")) return;  // which has said so
  if (!strcmp(how, "kept")) CHECK(read(fd, buffer, 1) == 1);
  mark("acquire");
  if (!strcmp(how, "datagram")) CHECK(recv(object, buffer, 1, 0) == 1);
  if (!strcmp(how, "connect")) CHECK(accept(object, NULL, NULL) >= 0);
  if (!strcmp(how, "fifo")) CHECK(read(ends[0], buffer, 1) == 1);
  if (!strcmp(how, "file")) CHECK(pread(file, buffer, 1, 0) == 1);
  if (!strcmp(how, "turn") || !strcmp(how, "fork") || !strcmp(how, "exec")) getppid();
  if (!strcmp(how, "wait")) CHECK(wait(&status) > 0 && status == 0);
  if (!strcmp(how, "death") || !strcmp(how, "killed")) CHECK(read(fd, buffer, 1) == 0);
  if (!strcmp(how, "pipe") || !strcmp(how, "socketpair") || !strcmp(how, "passed") || !strcmp(how, "kept")) CHECK(read(fd, buffer, 1) == 1);
  if (!strcmp(how, "close") || !strcmp(how, "shutdown")) CHECK(read(fd, buffer, 1) == 0);
  if (!strncmp(how, "flock", 5)) CHECK(flock(file, LOCK_EX) == 0);
  if (strstr(how, "fcntl")) range(F_SETLKW, F_WRLCK);
  if (!strcmp(how, "ofd")) range(F_OFD_SETLKW, F_WRLCK);
  if (!strcmp(how, "semaphore")) change(-1);
  if (!strcmp(how, "eventfd")) CHECK(eventfd_read(object, &value) == 0);
  if (!strcmp(how, "message")) CHECK(msgrcv(object, &text, 1, 0, 0) == 1);
  if (!strcmp(how, "mqueue")) CHECK(mq_receive(queue, buffer, 8, NULL) == 1);
  if (!strcmp(how, "sigwait")) CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
  if (!strcmp(how, "child")) CHECK(sigwaitinfo(&set, &info) == SIGCHLD);
  if (!strcmp(how, "signalfd")) CHECK(read(object, buffer, 128) == 128);
}

// Those by which a new process or program comes behind the call that makes it.
static int begin(const char* how) {
  mark("let-go");
  pid_t child = strcmp(how, "fork") ? 0 : fork();
  if (child == 0) {
    if (!strcmp(how, "exec")) execl("/proc/self/exe", "edges", "executed", NULL);
    acquire(how);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  return success();
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const char* how = argv[1];
  if (!strcmp(how, "fork") || !strcmp(how, "exec")) return begin(how);
  if (!strcmp(how, "executed")) {
    acquire("exec");
    return success();
  }
  if (!strcmp(how, "ended")) return access("let-go", F_OK) == 0;
  prepare(how);
  // With these it is the child's end that the other waits for.
  const int ends_it = !strcmp(how, "wait") || strstr(how, "death") || !strcmp(how, "killed") || !strcmp(how, "child") || !strcmp(how, "flock-exec");
  pid_t other = fork();
  CHECK(other >= 0);
  if (other == 0) {
    if (ends_it) {
      await_sleep(getppid());
      let_go(how, getppid());
    }
    acquire(how);
    _exit(0);
  }
  int status;
  if (ends_it) {
    acquire(how);
  } else {
    if (strcmp(how, "file") && strcmp(how, "turn")) await_sleep(other);
    let_go(how, other);
  }
  if (strcmp(how, "wait")) CHECK(waitpid(other, &status, 0) == other && (status == 0 || !strcmp(how, "killed")));
  if (!strcmp(how, "semaphore")) semctl(object, 0, IPC_RMID);
  if (!strcmp(how, "message")) msgctl(object, IPC_RMID, NULL);
  unlink("locked"), unlink("fifo"), unlink("written");
  return success();
}
