// Calls that succeed, or fail with EFAULT, and have written more than their result says: up to a page that is not
// there.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "check.h"

#define PAGE 4096
#define ROOM (2 * PAGE)

static char* room;  // ROOM bytes, and a page behind them that cannot be touched
static char text[ROOM];

// The last `size` bytes of what is there.
static char* last(size_t size) {
  memset(room, '-', ROOM);
  return room + ROOM - size;
}

static uint64_t hash(const void* bytes, size_t size) {
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char*)bytes)[i]) * 1099511628211u;
  return hash;
}

// Says what came of a call. What is in the room decides what is written here, and a replay compares that.
static void show(const char* what, long result) {
  printf("%s: %ld, %d, %016lx\n", what, result, result < 0 ? errno : 0, (unsigned long)hash(room, ROOM));
}

static void streams(void) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  CHECK(write(ends[0], text, 60) == 60 && write(ends[0], text, 5000) == 5000);
  show("recv of a Unix stream", recv(ends[1], last(3000), 5060, 0));
  CHECK(pipe(ends) == 0);
  for (int i = 0; i < 2; i++) CHECK(write(ends[1], text, PAGE) == PAGE);
  show("read of a pipe", read(ends[0], last(5000), 2 * PAGE));
  CHECK(pipe(ends) == 0);
  for (int i = 0; i < 2; i++) CHECK(write(ends[1], text, PAGE) == PAGE);
  char* at = last(5000);
  struct iovec parts[3] = {{at, 100}, {at + 100, 4000}, {at + 4100, 3000}};
  show("readv of a pipe", readv(ends[0], parts, 3));
}

static void datagrams(void) {
  int ends[2];
  struct mmsghdr messages[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
  for (int i = 0; i < 3; i++) CHECK(write(ends[0], text, 10) == 10);
  struct iovec parts[2] = {{text + PAGE, 10}, {last(5), 10}};
  for (int i = 0; i < 2; i++) messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = parts + i, .msg_iovlen = 1}};
  show("recvmmsg", recvmmsg(ends[1], messages, 2, MSG_DONTWAIT, NULL));
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1, .msg_name = last(1), .msg_namelen = 100};
  parts[0] = (struct iovec){room, 10};
  show("recvmsg without a name", recvmsg(ends[1], &message, MSG_DONTWAIT));
  int one = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  ends[0] = socket(AF_INET, SOCK_DGRAM, 0), ends[1] = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(bind(ends[1], (void*)&address, size) == 0 && getsockname(ends[1], (void*)&address, &size) == 0);
  CHECK(setsockopt(ends[1], IPPROTO_IP, IP_PKTINFO, &one, 4) == 0 && connect(ends[0], (void*)&address, size) == 0);
  for (int i = 0; i < 4; i++) CHECK(send(ends[0], text, 100, 0) == 100);
  char* control = last(20);
  message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 1, .msg_control = control, .msg_controllen = 64};
  parts[0] = (struct iovec){room, 100};
  show("recvmsg, control data", recvmsg(ends[1], &message, MSG_DONTWAIT));
  last(1);
  message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 1, .msg_control = room + PAGE, .msg_controllen = 64};
  message.msg_name = (void*)16, message.msg_namelen = 16;
  show("recvmsg, bad name", recvmsg(ends[1], &message, MSG_DONTWAIT));
  last(1);
  show("recvfrom, bad length", syscall(SYS_recvfrom, ends[1], room, 100, MSG_DONTWAIT, room + PAGE, 16));
  size = 100;
  show("getsockname, bad name", syscall(SYS_getsockname, ends[1], 16, &size));
  printf("length %d\n", (int)size);
  size = 100;
  show("getsockopt, bad value", syscall(SYS_getsockopt, ends[1], SOL_SOCKET, SO_TYPE, 16, &size));
  printf("length %d\n", (int)size);
}

static void records(void) {
  int ends[2], epoll = epoll_create1(0);
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0 && epoll >= 0);
  for (int i = 0; i < 2; i++) {
    struct epoll_event event = {EPOLLOUT, {.u64 = 0x4142434445464748}};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[i], &event) == 0);
  }
  show("epoll_wait", syscall(SYS_epoll_wait, epoll, last(20), 5, 0));
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1);
  sigaddset(&both, SIGUSR2);
  CHECK(sigprocmask(SIG_BLOCK, &both, NULL) == 0);
  const int signals = signalfd(-1, &both, 0);
  CHECK(signals >= 0 && raise(SIGUSR1) == 0 && raise(SIGUSR2) == 0);
  struct signalfd_siginfo* at = (void*)last(sizeof *at + 30);
  const long count = read(signals, at, 2 * sizeof *at);
  for (int i = 0; i < 2; i++) memset(&at[i].ssi_pid, 0, 8);  // with the user id: they differ from run to run
  show("read of a signalfd", count);
  aio_context_t context = 0;
  CHECK(pipe(ends) == 0 && syscall(SYS_io_setup, 8, &context) == 0);
  for (int i = 0; i < 2; i++) CHECK(write(ends[1], text, PAGE) == PAGE);
  struct iocb request = {.aio_fildes = (unsigned)ends[0], .aio_lio_opcode = IOCB_CMD_PREAD, .aio_nbytes = 2 * PAGE},
              *list = &request;
  request.aio_buf = (uint64_t)last(5000);
  struct io_event event;
  CHECK(syscall(SYS_io_submit, context, 1, &list) == 1 && syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1);
  show("asynchronous read of a pipe", event.res);
}

static void failing(void) {
  show("prlimit", syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, last(9)));
  unsigned version[2] = {0x20080522, 0};
  show("capget", syscall(SYS_capget, version, last(5)));
  show("prctl", prctl(PR_GET_NAME, last(3)));
  show("TCGETS", syscall(SYS_ioctl, posix_openpt(O_RDWR), TCGETS, last(9)));
  show("shmctl", syscall(SYS_shmctl, 0, IPC_INFO, last(9)));
  const int set = semget(IPC_PRIVATE, 20, 0600 | IPC_CREAT), queue = msgget(IPC_PRIVATE, 0600 | IPC_CREAT);
  CHECK(set >= 0 && queue >= 0);
  show("semctl", syscall(SYS_semctl, set, 0, GETALL, last(9)));
  struct {
    long type;
    char text[100];
  } message = {5, "hello"};
  CHECK(msgsnd(queue, &message, 100, 0) == 0);
  show("msgrcv", syscall(SYS_msgrcv, queue, last(50), 100, 0, 0));
  CHECK(msgctl(queue, IPC_RMID, NULL) == 0 && semctl(set, 0, IPC_RMID) == 0);
  struct {
    unsigned bytes;
    int type;
  }* handle = (void*)last(12);
  int mount = 0;
  handle->bytes = 100;
  show("name_to_handle_at", syscall(SYS_name_to_handle_at, AT_FDCWD, "/", handle, &mount, 0));
}

// The id of a child, which is stored where both see it.
static void shared_id(void) {
  int* id = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(id != MAP_FAILED);
  const long child = syscall(SYS_clone, CLONE_PARENT_SETTID | SIGCHLD, 0, id, 0, 0);
  CHECK(child >= 0);
  if (child == 0) _exit(*id == getpid() ? 0 : 1);
  int status;
  CHECK(waitpid((pid_t)child, &status, 0) == child && status == 0);
  printf("shared id: %d\n", *id == child);
}

int main(void) {
  CHECK(setvbuf(stdout, NULL, _IOLBF, 0) == 0);  // what differs at replay shows in its own line
  room = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(room != MAP_FAILED && mprotect(room + ROOM, PAGE, PROT_NONE) == 0);
  for (int i = 0; i < ROOM; i++) text[i] = (char)('a' + i % 23);
  streams();
  datagrams();
  records();
  failing();
  shared_id();
  return success();
}
