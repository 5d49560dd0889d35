// A server with a thread for each of two TCP connections. The client announces an item over the first, works for some
// milliseconds, and uses the item over the second. The server wrongly assumes that it hears of the item first, since it
// was sent first. Ends with 3 if it does not.
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "check.h"

enum { kItems = 24 };

static volatile int announced = -1, unknown;

static void* hear(void* fd) {
  int item;
  while (recv((int)(long)fd, &item, sizeof item, MSG_WAITALL) == sizeof item) announced = item;
  return NULL;
}

static void* use(void* fd) {
  int item;
  while (recv((int)(long)fd, &item, sizeof item, MSG_WAITALL) == sizeof item)
    if (announced < item) unknown++;
  return NULL;
}

static void work(void) {
  struct timespec start, now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &start) == 0);
  do CHECK(usleep(500) == 0 && clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < 6000000);
}

int main(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr*)&address, sizeof address) == 0 && listen(listener, 2) == 0);
  CHECK(getsockname(listener, (struct sockaddr*)&address, &length) == 0);
  int client[2], server[2];
  for (int i = 0; i < 2; i++) {
    CHECK((client[i] = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    CHECK(connect(client[i], (struct sockaddr*)&address, sizeof address) == 0);
    CHECK((server[i] = accept(listener, NULL, NULL)) >= 0);
  }
  pthread_t threads[2];
  CHECK(pthread_create(&threads[0], NULL, hear, (void*)(long)server[0]) == 0);
  CHECK(pthread_create(&threads[1], NULL, use, (void*)(long)server[1]) == 0);
  for (int item = 0; item < kItems; item++) {
    CHECK(send(client[0], &item, sizeof item, MSG_NOSIGNAL) == sizeof item);
    work();
    CHECK(send(client[1], &item, sizeof item, MSG_NOSIGNAL) == sizeof item);
    work();
  }
  for (int i = 0; i < 2; i++) CHECK(shutdown(client[i], SHUT_WR) == 0 && pthread_join(threads[i], NULL) == 0);
  if (unknown) {
    dprintf(2, "%d items were used before they were announced\n", unknown);
    return 3;
  }
  return success();
}
