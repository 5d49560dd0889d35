/*
 * Addresses, clocks and packets: everything that meets the network. A packet that is not exactly one Packet of this
 * program is dropped; text inside it is terminated here, so no one else needs to distrust it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "chord.h"

enum { MAGIC = 0x43484f52 }; /* "CHOR" */

static int64_t read_clock(clockid_t clock, int64_t per_second) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * per_second + (int64_t)t.tv_nsec / (1000000000 / per_second);
}

int64_t now_ms(void) {
  return read_clock(CLOCK_MONOTONIC, 1000);
}

double real_time(void) {
  return (double)read_clock(CLOCK_REALTIME, 1000000) / 1e6;
}

/* "HOST:PORT" with a numeric host; 0 when it is something else. */
int parse_addr(const char *addr, struct sockaddr_in *out) {
  char host[ADDR_TEXT];
  const char *colon = strchr(addr, ':');
  if (!colon || (size_t)(colon - addr) >= sizeof host) return 0;
  memcpy(host, addr, colon - addr);
  host[colon - addr] = 0;
  memset(out, 0, sizeof *out);
  out->sin_family = AF_INET;
  out->sin_port = htons(atoi(colon + 1));
  return out->sin_port != 0 && inet_pton(AF_INET, host, &out->sin_addr) == 1;
}

char listen_host[ADDR_TEXT] = "127.0.0.1";
char public_addr[ADDR_TEXT];

/* A UDP socket; port 0 takes any. Writes the address that others reach it by. -1 with errno when it fails. */
int open_socket(int port, char addr[ADDR_TEXT]) {
  int sock = socket(AF_INET, SOCK_DGRAM, 0);
  if (sock < 0) return -1;
  struct sockaddr_in self = {.sin_family = AF_INET, .sin_port = htons(port)};
  if (inet_pton(AF_INET, listen_host, &self.sin_addr) != 1) return errno = EINVAL, -1;
  socklen_t size = sizeof self;
  if (bind(sock, (struct sockaddr *)&self, size) < 0 || getsockname(sock, (struct sockaddr *)&self, &size) < 0) return -1;
  memset(addr, 0, ADDR_TEXT);
  if (public_addr[0]) snprintf(addr, ADDR_TEXT, "%s", public_addr);
  else snprintf(addr, ADDR_TEXT, "%.*s:%d", ADDR_TEXT - 7, listen_host, ntohs(self.sin_port));
  return sock;
}

Packet make_packet(PacketHeader header) {
  Packet packet;
  memset(&packet, 0, sizeof packet); /* padding too: equal packets are equal on the wire */
  packet.magic = MAGIC;
  packet.header = header;
  return packet;
}

/* Sends as this node. A packet that the kernel refuses is lost like any other: the timers ask again. */
void send_packet(Packet *packet, const char *addr) {
  struct sockaddr_in to;
  if (!parse_addr(addr, &to)) return;
  packet->seq = ++srv.seq;
  packet->from = srv.node;
  if (sendto(srv.sock, packet, sizeof *packet, 0, (struct sockaddr *)&to, sizeof to) == (ssize_t)sizeof *packet) srv.sent++;
}

/* 1 with a packet, 0 when none is waiting. */
int receive_packet(int sock, Packet *packet) {
  for (;;) {
    ssize_t size = recvfrom(sock, packet, sizeof *packet, MSG_DONTWAIT | MSG_TRUNC, NULL, NULL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return 0;
    if (size != (ssize_t)sizeof *packet || packet->magic != MAGIC) continue;
    if (packet->header <= PACKET_NONE || packet->header >= PACKET_TYPES || packet->nlist > SUCCESSORS) continue;
    packet->from.addr[ADDR_TEXT - 1] = packet->node.addr[ADDR_TEXT - 1] = packet->origin[ADDR_TEXT - 1] = 0;
    for (int i = 0; i < packet->nlist; i++) packet->list[i].addr[ADDR_TEXT - 1] = 0;
    packet->value[VALUE_TEXT - 1] = 0;
    return 1;
  }
}

const char *header_name(PacketHeader header) {
  static const char *const names[PACKET_TYPES] = {
      "NONE", "FIND_SUCCESSOR", "FIND_REPLY", "STABILIZE", "STABILIZE_REPLY", "NOTIFY",    "NOTIFY_ACK",
      "PING", "PONG",           "PUT",        "GET",       "PUT_REPLY",       "GET_REPLY", "STORE"};
  return header < PACKET_TYPES ? names[header] : "?";
}
