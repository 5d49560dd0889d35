// Calls that tell the length of an address though they are given no place for it, and numbers of descriptors that the kernel puts into memory.
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

static int quiet;

static void tell(unsigned number) { CHECK(write(quiet, &number, sizeof number) == sizeof number); }

static void lengths(void) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof here;
  CHECK(bind(listening, (void*)&here, sizeof here) == 0 && listen(listening, 1) == 0 && getsockname(listening, (void*)&here, &length) == 0);
  length = 0;
  CHECK(getsockname(listening, NULL, &length) == 0 && length == sizeof here);
  tell(length);
  CHECK(connect(client, (void*)&here, sizeof here) == 0);
  length = 0;
  CHECK(getpeername(client, NULL, &length) == 0 && length == sizeof here);
  tell(length);
  length = 7;
  const int accepted = accept(listening, NULL, &length);
  CHECK(accepted >= 0 && send(client, "x", 1, 0) == 1);
  tell(length);
  char byte;
  length = 9;
  CHECK(recvfrom(accepted, &byte, 1, 0, NULL, &length) == 1);
  tell(length);
  length = 0;
  (void)getsockopt(client, IPPROTO_TCP, 13 /* TCP_CONGESTION */, NULL, &length);
  tell(length);
  CHECK(close(listening) == 0 && close(client) == 0 && close(accepted) == 0);
}

// The number of a descriptor for the child stands in memory, and is the lowest that is free.
static void descriptor_of_a_child(void) {
  const int lowest = dup(quiet);
  CHECK(lowest >= 0 && close(lowest) == 0);
  int pidfd = -1, status;
  const long child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &pidfd, 0, 0);
  if (child == 0) _exit(pidfd == -1 ? 3 : 4);
  CHECK(child > 0 && pidfd == lowest);
  tell((unsigned)pidfd);
  CHECK(waitpid((pid_t)child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  CHECK(close(pidfd) == 0);
}

int main(void) {
  quiet = open("/dev/null", O_WRONLY);
  CHECK(quiet >= 0);
  lengths();
  descriptor_of_a_child();
  return success();
}
