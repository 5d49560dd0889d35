// Unix sockets: pairs of all types, names, descriptors and credentials passed along.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "check.h"

static void pairs(void) {
  const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
  char text[32];
  for (int i = 0; i < 3; i++) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC, 0, pair) == 0);
    for (int k = 0; k < 100; k++) {
      CHECK(write(pair[k & 1], "message", 7) == 7 && read(pair[!(k & 1)], text, sizeof text) == 7);
    }
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
  }
}

static void named(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket-by-name"};
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  unlink(address.sun_path);
  CHECK(bind(listener, (struct sockaddr*)&address, sizeof address) == 0 && listen(listener, 1) == 0);
  pid_t child = fork();
  if (child == 0) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr*)&address, sizeof address) == 0 && write(fd, "from the child", 14) == 14);
    _exit(0);
  }
  int fd = accept(listener, NULL, NULL);
  char text[32];
  CHECK(fd >= 0 && read(fd, text, sizeof text) == 14 && read(fd, text, 1) == 0);
  CHECK(waitpid(child, NULL, 0) == child && unlink(address.sun_path) == 0);
}

static void passed(void) {
  int pair[2], p[2];
  char byte = 'x', text[8];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(p) == 0);
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
  } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
  memcpy(CMSG_DATA(&control.header), &p[1], sizeof(int));
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  CHECK(sendmsg(pair[0], &message, 0) == 1 && close(p[1]) == 0);
  memset(&control, 0, sizeof control);
  CHECK(recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC) == 1 && control.header.cmsg_type == SCM_RIGHTS);
  int received;
  memcpy(&received, CMSG_DATA(&control.header), sizeof(int));
  CHECK(write(received, "passed", 6) == 6 && close(received) == 0 && read(p[0], text, 8) == 6 && read(p[0], text, 1) == 0);
  struct ucred peer;
  socklen_t length = sizeof peer;
  CHECK(getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid() && peer.uid == getuid());
}

int main(void) {
  pairs();
  named();
  passed();
  return success();
}
