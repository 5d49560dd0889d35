// close and dup2 that wait: until the other side, a thread of the same process, has read what was sent.
#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <time.h>

#include "check.h"

enum { SENT = 6 << 20 };
static int listener;
static sem_t closes;  // raised when the sender is about to close

static void* read_all(void* unused) {
  static char buffer[1 << 16];
  for (int i = 0; i < 2; i++) {
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    while (sem_wait(&closes) != 0) CHECK(errno == EINTR);
    usleep(300000);
    long all = 0;
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) all += n;
    CHECK(all > 100000 && close(fd) == 0);
  }
  return unused;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  pthread_t reader;
  CHECK(sem_init(&closes, 0, 0) == 0);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(listener, (void*)&address, length) == 0 && listen(listener, 2) == 0 && getsockname(listener, (void*)&address, &length) == 0);
  CHECK(pthread_create(&reader, NULL, read_all, NULL) == 0);
  char* data = calloc(1, SENT);
  for (int i = 0; i < 2; i++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct linger wait = {1, 30};
    CHECK(connect(fd, (void*)&address, length) == 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof wait) == 0);
    CHECK(send(fd, data, SENT, MSG_DONTWAIT) > 100000);
    const double start = now();
    CHECK(sem_post(&closes) == 0);
    CHECK((i ? dup2(listener, fd) : close(fd)) >= 0);
    CHECK(now() - start > 0.03);
  }
  CHECK(pthread_join(reader, NULL) == 0);
  return success();
}
