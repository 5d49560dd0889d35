// Generates load for a server with a line protocol: on each connection it sends a request, waits for the answer and sends the next.
//
//   requests PORT CONNECTIONS COUNT REQUEST LAST
//
// REQUEST is sent unchanged, followed by CR LF; an answer ends with the line LAST. Prints the requests per second. A connection that
// ends before all requests are answered is an error. It has one thread.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kMost = 256, kAnswer = 65536 };

struct connection {
  char answer[kAnswer];
  size_t size;
};

static struct connection connections[kMost];
static struct pollfd polled[kMost];
static char request[4096], last[256];

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static int open_connection(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (fd < 0 || connect(fd, (struct sockaddr*)&address, sizeof address) != 0) fail("connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

static void ask(int number) {
  const size_t size = strlen(request);
  if (write(polled[number].fd, request, size) != (ssize_t)size) fail("write");
}

// Reads what is there; true if the answer is complete.
static int answered(int number) {
  struct connection* c = &connections[number];
  ssize_t got = read(polled[number].fd, c->answer + c->size, kAnswer - c->size);
  if (got <= 0) fail("read");
  c->size += (size_t)got;
  const size_t tail = strlen(last);
  if (c->size < tail || memcmp(c->answer + c->size - tail, last, tail) != 0) return 0;
  c->size = 0;
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const int count = atoi(argv[2]);
  const long wanted = atol(argv[3]);
  if (count < 1 || count > kMost) return 2;
  snprintf(request, sizeof request, "%s\r\n", argv[4]);
  snprintf(last, sizeof last, "%s\r\n", argv[5]);
  for (int i = 0; i < count; i++) polled[i] = (struct pollfd){open_connection(atoi(argv[1])), POLLIN, 0};
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  long sent = 0, done = 0;
  for (int i = 0; i < count && sent < wanted; i++, sent++) ask(i);
  while (done < wanted) {
    if (poll(polled, (nfds_t)count, 10000) <= 0) fail("no answer");
    for (int i = 0; i < count; i++) {
      if (!polled[i].revents || !answered(i)) continue;
      done++;
      if (sent < wanted) ask(i), sent++;
    }
  }
  clock_gettime(CLOCK_MONOTONIC, &to);
  printf("%.1f\n", (double)wanted / ((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9));
  return 0;
}
