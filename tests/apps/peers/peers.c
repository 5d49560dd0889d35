#include "peers.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

Options parse_options(int argc, char **argv) {
  Options options = {0};
  if (argc < 5) {
    fprintf(stderr, "usage: %s SELF PORT,PORT... SECONDS SEED [FAULT]\n", argv[0]);
    exit(2);
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  options.self = atoi(argv[1]);
  for (char *port = strtok(argv[2], ","); port && options.nodes < MAX_PEERS; port = strtok(NULL, ",")) options.ports[options.nodes++] = atoi(port);
  options.seconds = atoi(argv[3]);
  options.seed = strtoull(argv[4], NULL, 10) * 1000 + options.self + 1;
  options.fault = argv[5];
  return options;
}

static struct sockaddr_in address_of(const Options *options, int peer) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options->ports[peer])};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int open_peers(const Options *options) {
  struct sockaddr_in address = address_of(options, options->self);
  int sock = socket(AF_INET, SOCK_DGRAM, 0);
  if (sock < 0 || bind(sock, (struct sockaddr *)&address, sizeof address) != 0) {
    perror("cannot open the port");
    exit(2);
  }
  return sock;
}

void send_to_peer(int sock, const Options *options, int peer, const void *message, size_t size) {
  struct sockaddr_in address = address_of(options, peer);
  sendto(sock, message, size, 0, (struct sockaddr *)&address, sizeof address);
}

int receive_until(int sock, int64_t time, void *message, size_t size) {
  for (int64_t left; (left = time - now_ms()) > 0;) {
    struct pollfd fd = {.fd = sock, .events = POLLIN};
    if (poll(&fd, 1, (int)left) == 1 && recv(sock, message, size, 0) == (ssize_t)size) return 1;
  }
  return 0;
}

int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* xorshift64*, of a state that is not 0. */
uint64_t next_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545F4914F6CDD1DULL;
}
