// Calls that fail because a part of what they fill is not there, and have filled the rest.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "check.h"

#define PAGE 4096

static char* guarded;  // a page, and one that cannot be touched behind it

// The last `size` bytes of what is there.
static char* last(int size) {
  memset(guarded, '-', PAGE);
  return guarded + PAGE - size;
}

static void show(const char* what, long result, int size) {
  const int error = errno;
  printf("%s: %ld, %d:", what, result, result < 0 ? error : 0);
  for (int i = 0; i < size; i++) printf(" %02x", (unsigned char)guarded[PAGE - size + i]);
  printf("\n");
}

int main(void) {
  int ends[2], pair[2];
  guarded = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(guarded != MAP_FAILED && mprotect(guarded + PAGE, PAGE, PROT_NONE) == 0 && munmap(guarded + 2 * PAGE, PAGE) == 0);
  CHECK(pipe(ends) == 0 && write(ends[1], "abc", 3) == 3);
  show("read", read(ends[0], last(2), 3), 2);
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
  for (int i = 0; i < 3; i++) CHECK(send(pair[1], "abcdef", 6, 0) == 6);
  show("recv", recv(pair[0], last(2), 6, 0), 2);
  char* at = last(4);
  struct iovec parts[2] = {{at, 2}, {at + 2, 4}};
  show("readv", readv(pair[0], parts, 2), 4);
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  parts[0].iov_base = last(4);
  show("recvmsg", recvmsg(pair[0], &message, 0), 4);
  show("pipe", pipe((int*)last(4)), 4);
  show("getcwd", getcwd(last(1), PAGE) ? 0 : -1, 0);
  pid_t child = fork();
  if (child == 0) _exit(7);
  CHECK(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT) == 0);
  int* status = (int*)last(8);
  show("wait4", wait4(child, status, 0, (struct rusage*)(guarded + PAGE)), 8);
  show("mincore", mincore(guarded, 3 * PAGE, (unsigned char*)last(PAGE)), 2);
  return success();
}
