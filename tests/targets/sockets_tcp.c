// TCP over loopback: connect and accept, all ways to send and receive, half-closed ends, and a megabyte to a thread.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "check.h"

static struct sockaddr_in address;

static int listen_somewhere(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  CHECK(bind(fd, (struct sockaddr*)&address, sizeof address) == 0 && listen(fd, 5) == 0);
  CHECK(getsockname(fd, (struct sockaddr*)&address, &length) == 0 && length == sizeof address && address.sin_port != 0);
  return fd;
}

static void* echo(void* listener) {
  int fd = accept((int)(long)listener, NULL, NULL), on = 1;
  char block[10000];
  ssize_t n;
  CHECK(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
  while ((n = recv(fd, block, sizeof block, 0)) > 0)
    for (ssize_t sent = 0, m; sent < n; sent += m) CHECK((m = send(fd, block + sent, (size_t)(n - sent), MSG_NOSIGNAL)) > 0);
  CHECK(n == 0 && close(fd) == 0);
  return NULL;
}

static void ways_to_send(int listener) {
  int client = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  CHECK(client >= 0 && connect(client, (struct sockaddr*)&address, sizeof address) == 0);
  struct sockaddr_in peer;
  socklen_t length = sizeof peer;
  int server = accept4(listener, (struct sockaddr*)&peer, &length, SOCK_CLOEXEC);
  CHECK(server >= 0 && peer.sin_addr.s_addr == address.sin_addr.s_addr);
  length = sizeof peer;
  CHECK(getpeername(client, (struct sockaddr*)&peer, &length) == 0 && peer.sin_port == address.sin_port);
  CHECK(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
  char a[64], b[64];
  CHECK(write(client, "one two three", 13) == 13 && recv(server, a, 3, MSG_PEEK) == 3 && memcmp(a, "one", 3) == 0);
  CHECK(recv(server, a, 13, MSG_WAITALL) == 13 && memcmp(a, "one two three", 13) == 0);
  struct iovec out[2] = {{"head:", 5}, {"body", 4}}, in[2] = {{a, 5}, {b, 20}};
  CHECK(writev(server, out, 2) == 9 && readv(client, in, 2) == 9 && memcmp(b, "body", 4) == 0);
  struct msghdr message = {.msg_iov = out, .msg_iovlen = 2}, received = {.msg_iov = in, .msg_iovlen = 2};
  CHECK(sendmsg(client, &message, 0) == 9 && recvmsg(server, &received, 0) == 9 && memcmp(a, "head:", 5) == 0);
  CHECK(recv(server, a, sizeof a, MSG_DONTWAIT) == -1 && errno == EAGAIN);
  int error = -1;
  length = sizeof error;
  CHECK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
  CHECK(shutdown(client, SHUT_WR) == 0 && read(server, a, 1) == 0 && write(server, "late", 4) == 4 && close(server) == 0);
  CHECK(read(client, a, sizeof a) == 4 && read(client, a, 1) == 0 && close(client) == 0);
}

static void without_blocking(int listener) {
  int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  CHECK(connect(client, (struct sockaddr*)&address, sizeof address) == -1 && errno == EINPROGRESS);
  struct pollfd ready = {client, POLLOUT, 0};
  CHECK(poll(&ready, 1, 5000) == 1 && ready.revents == POLLOUT);
  int server = accept(listener, NULL, NULL);
  CHECK(server >= 0 && close(server) == 0 && close(client) == 0);
  CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0 && accept(listener, NULL, NULL) == -1 && errno == EAGAIN);
  CHECK(fcntl(listener, F_SETFL, 0) == 0);
}

static void a_megabyte(int listener) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, echo, (void*)(long)listener) == 0);
  int client = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  CHECK(connect(client, (struct sockaddr*)&address, sizeof address) == 0);
  CHECK(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
  static char block[16384], back[16384];
  for (int i = 0; i < 64; i++) {
    for (unsigned k = 0; k < sizeof block; k++) block[k] = (char)(k * 31 + (unsigned)i);
    for (size_t sent = 0; sent < sizeof block;) {
      ssize_t n = write(client, block + sent, sizeof block - sent);
      CHECK(n > 0);
      sent += (size_t)n;
    }
    for (size_t got = 0; got < sizeof back;) {
      ssize_t n = read(client, back + got, sizeof back - got);
      CHECK(n > 0);
      got += (size_t)n;
    }
    CHECK(memcmp(block, back, sizeof block) == 0);
  }
  CHECK(shutdown(client, SHUT_WR) == 0 && read(client, back, 1) == 0 && close(client) == 0 && pthread_join(thread, NULL) == 0);
}

int main(void) {
  int listener = listen_somewhere();
  for (int i = 0; i < 10; i++) ways_to_send(listener);
  without_blocking(listener);
  a_megabyte(listener);
  CHECK(close(listener) == 0);
  int late = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(late, (struct sockaddr*)&address, sizeof address) == -1 && errno == ECONNREFUSED);
  return success();
}
