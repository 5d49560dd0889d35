// As many buffers in one call as the kernel takes, and as many messages.
#include <sys/socket.h>
#include <sys/uio.h>

#include "check.h"

enum { kBuffers = 1024 };

static char to[kBuffers][3], from[kBuffers * 3];

static void read_into(int reader, int writer, int count) {
  struct iovec parts[kBuffers];
  for (int i = 0; i < count; i++) parts[i] = (struct iovec){to[i], 3};
  memset(to, 0, sizeof to);
  for (int i = 0; i < count * 3; i++) from[i] = (char)(i * 7 + count);
  CHECK(write(writer, from, (size_t)count * 3) == count * 3);
  CHECK(readv(reader, parts, count) == count * 3);
  CHECK(memcmp(to, from, (size_t)count * 3) == 0);
}

int main(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  read_into(ends[0], ends[1], 255);
  read_into(ends[0], ends[1], 256);
  read_into(ends[0], ends[1], 300);
  read_into(ends[0], ends[1], kBuffers);
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
  int room = 1 << 20;
  CHECK(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
  struct mmsghdr messages[64] = {0};
  struct iovec bodies[64];
  for (int sent = 0; sent < 300;) {
    for (int i = 0; i < 64; i++) {
      bodies[i] = (struct iovec){from + i, 10};
      messages[i].msg_hdr = (struct msghdr){.msg_iov = &bodies[i], .msg_iovlen = 1};
    }
    int n = sendmmsg(pair[0], messages, 64, MSG_DONTWAIT);
    for (int i = 0; i < n; i++) {
      char back[16];
      CHECK(messages[i].msg_len == 10 && recv(pair[1], back, sizeof back, 0) == 10 && memcmp(back, from + i, 10) == 0);
    }
    CHECK(n > 0);
    sent += n;
  }
  return success();
}
