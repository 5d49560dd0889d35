// A client that wrongly assumes that one recv(2) gives a whole message. On a quiet machine it always does, because the
// server sends each message by one call and waits for the answer. Ends with 3 if a message came in parts. With the
// argument `careful` it reads on until the message is complete.
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "check.h"

enum { kMessages = 30, kBytes = 48 };

static void receive_all(int fd, char* message) {
  for (ssize_t have = 0, n; have < kBytes; have += n)
    CHECK((n = recv(fd, message + have, (size_t)(kBytes - have), 0)) > 0);
}

static void* serve(void* listener) {
  int fd = accept((int)(long)listener, NULL, NULL);
  char message[kBytes], answer;
  CHECK(fd >= 0);
  for (int i = 0; i < kMessages; i++) {
    memset(message, 'a' + i % 26, sizeof message);
    CHECK(send(fd, message, sizeof message, MSG_NOSIGNAL) == kBytes);
    if (recv(fd, &answer, 1, 0) != 1) break;
  }
  close(fd);
  return NULL;
}

int main(int argc, char** argv) {
  const int careful = argc > 1 && strcmp(argv[1], "careful") == 0;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr*)&address, sizeof address) == 0 && listen(listener, 1) == 0);
  CHECK(getsockname(listener, (struct sockaddr*)&address, &length) == 0);
  pthread_t server;
  CHECK(pthread_create(&server, NULL, serve, (void*)(long)listener) == 0);
  CHECK(connect(fd, (struct sockaddr*)&address, sizeof address) == 0);
  for (int i = 0; i < kMessages; i++) {
    char message[kBytes], expected[kBytes];
    memset(expected, 'a' + i % 26, sizeof expected);
    if (careful) {
      receive_all(fd, message);
    } else {
      const ssize_t n = recv(fd, message, sizeof message, 0);
      if (n > 0 && n < kBytes) {
        dprintf(2, "message %d: %d of %d bytes\n", i, (int)n, kBytes);
        _exit(3);
      }
      CHECK(n == kBytes);
    }
    CHECK(memcmp(message, expected, sizeof message) == 0 && send(fd, "y", 1, MSG_NOSIGNAL) == 1);
  }
  close(fd);
  CHECK(pthread_join(server, NULL) == 0);
  return success();
}
