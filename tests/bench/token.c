// Passes a message, here called a token, round a ring of processes by UDP. In the recorded order each event of one process is followed
// by an event of the next one, so the replay consists of hand-overs.
//
//   token PORT NEXT_PORT ROUNDS [first]
//
// The first process sends token 0 until it has come round once, since the others may not have started yet; each process passes token 0 on
// whenever it arrives, and drops any other token that it has seen before. Ends after ROUNDS and prints how many tokens it passed on.
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in loopback(const char* port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int first = argc > 4 && !strcmp(argv[4], "first");
  const long rounds = atol(argv[3]);
  struct sockaddr_in own = loopback(argv[1]), next = loopback(argv[2]);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (bind(fd, (struct sockaddr*)&own, sizeof own) != 0) return 1;
  long token = 0, seen = -1, passed = 0;
  if (first) {
    struct pollfd arrived = {.fd = fd, .events = POLLIN};
    do sendto(fd, &token, sizeof token, 0, (struct sockaddr*)&next, sizeof next);
    while (poll(&arrived, 1, 20) == 0);
  }
  while (seen < rounds - 1) {
    if (recv(fd, &token, sizeof token, 0) != sizeof token) return 1;
    if (token < seen || (token == seen && (first || token > 0))) continue;
    seen = token;
    if (first) token++;
    if (first && token == rounds) break;
    sendto(fd, &token, sizeof token, 0, (struct sockaddr*)&next, sizeof next);
    passed++;
  }
  printf("passed %ld\n", passed);
  return 0;
}
