// UDP over loopback: addressed and connected, cut short, peeked at, many at once, refused.
#include <arpa/inet.h>
#include <sys/socket.h>

#include "check.h"

static int open_socket(struct sockaddr_in* address) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  memset(address, 0, sizeof *address);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof *address;
  CHECK(fd >= 0 && bind(fd, (struct sockaddr*)address, length) == 0 && getsockname(fd, (struct sockaddr*)address, &length) == 0);
  return fd;
}

int main(void) {
  struct sockaddr_in at_a, at_b, from;
  int a = open_socket(&at_a), b = open_socket(&at_b);
  socklen_t length = sizeof from;
  char text[200];
  for (int i = 0; i < 500; i++) {
    snprintf(text, sizeof text, "datagram %d", i);
    CHECK(sendto(a, text, strlen(text), 0, (struct sockaddr*)&at_b, sizeof at_b) == (ssize_t)strlen(text));
    char back[200] = "";
    CHECK(recvfrom(b, back, sizeof back, 0, (struct sockaddr*)&from, &length) == (ssize_t)strlen(text) && strcmp(text, back) == 0);
    CHECK(from.sin_port == at_a.sin_port && length == sizeof from);
  }
  CHECK(sendto(a, "cut short", 9, 0, (struct sockaddr*)&at_b, sizeof at_b) == 9);
  CHECK(recv(b, text, 3, MSG_PEEK) == 3 && recv(b, text, 3, MSG_TRUNC) == 9 && memcmp(text, "cut", 3) == 0);
  CHECK(sendto(a, "", 0, 0, (struct sockaddr*)&at_b, sizeof at_b) == 0 && recv(b, text, 10, 0) == 0);
  CHECK(recv(b, text, 10, MSG_DONTWAIT) == -1 && errno == EAGAIN);

  CHECK(connect(a, (struct sockaddr*)&at_b, sizeof at_b) == 0);
  struct iovec parts[4] = {{"first", 5}, {"second", 6}, {text, 50}, {text + 50, 50}};
  struct mmsghdr out[2] = {{.msg_hdr = {.msg_iov = &parts[0], .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &parts[1], .msg_iovlen = 1}}};
  CHECK(sendmmsg(a, out, 2, 0) == 2 && out[0].msg_len == 5 && out[1].msg_len == 6);
  struct msghdr in = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &parts[2], .msg_iovlen = 2};
  CHECK(recvmsg(b, &in, 0) == 5 && in.msg_namelen == sizeof from && memcmp(text, "first", 5) == 0);
  CHECK(read(b, text, sizeof text) == 6 && memcmp(text, "second", 6) == 0);
  CHECK(close(b) == 0 && send(a, "lost", 4, 0) == 4 && recv(a, text, 10, 0) == -1 && errno == ECONNREFUSED);
  return success();
}
