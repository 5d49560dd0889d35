/*
 * A client of the ring: puts and gets keys at a rate, each through a node chosen at random, for a bounded time; a get that
 * brings what was put last is a hit. It knows the ring only by the addresses it was given, and leaves a node alone
 * that did not answer, for longer each time. Ends with one line of counts.
 */
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "chord.h"

enum { MAX_PEERS = 256, MAX_KEYS = 4096, MAX_PENDING = 512, TIMEOUT_MS = 1000, SHUNNED_MS = 1000, MAX_SILENCE = 5 };

Server srv; /* of a client only the socket, the address and the counts are used; its id is 0 */

typedef struct Peer {
  char addr[ADDR_TEXT];
  int64_t shunned_until;
  int silence; /* how often it was left alone since it last answered */
  int64_t heard;
} Peer;

typedef struct Key {
  chordID id;
  uint64_t version; /* of the last put that was acknowledged, 0 before */
  int busy;         /* a request is out: one at a time for each key, so that a get has one right answer */
} Key;

typedef struct Pending {
  Key *key; /* NULL when the place is free */
  uint32_t request;
  PacketHeader header;
  uint64_t version;
  int peer;
  int64_t sent;
} Pending;

static struct Counts {
  unsigned put, put_ok, get, hit, miss, stale, timeout;
} counts;
static Peer peers[MAX_PEERS];
static Key keys[MAX_KEYS];
static Pending pending[MAX_PENDING];
static int npeers, nkeys = 64, verbose;
static uint64_t last_version;
static uint32_t last_request;
static volatile sig_atomic_t stopping;

static void on_stop(int signal) {
  (void)signal;
  stopping = 1;
}

static int random_below(int n) {
  return (int)(next_random(&srv.random) % (uint64_t)n);
}

/* A peer that answers as far as is known; any when none does. */
static int choose_peer(int64_t now) {
  int first = random_below(npeers);
  for (int i = 0; i < npeers; i++)
    if (peers[(first + i) % npeers].shunned_until <= now) return (first + i) % npeers;
  return first;
}

static Pending *free_place(void) {
  for (int i = 0; i < MAX_PENDING; i++)
    if (!pending[i].key) return &pending[i];
  return NULL;
}

/* Puts a key that was never put, otherwise puts one time in three. */
static void ask(int64_t now) {
  Key *key = &keys[random_below(nkeys)];
  Pending *p = free_place();
  if (key->busy || !p) return;
  Packet packet = make_packet(key->version == 0 || random_below(3) == 0 ? PACKET_PUT : PACKET_GET);
  *p = (Pending){.key = key, .request = ++last_request, .header = packet.header, .peer = choose_peer(now), .sent = now};
  key->busy = 1;
  packet.request = p->request;
  packet.id = key->id;
  memcpy(packet.origin, srv.node.addr, ADDR_TEXT);
  if (packet.header == PACKET_PUT) {
    counts.put++;
    p->version = packet.version = ++last_version;
    snprintf(packet.value, VALUE_TEXT, "value %llu of %016llx", (unsigned long long)p->version, (unsigned long long)key->id);
  } else {
    counts.get++;
  }
  send_packet(&packet, peers[p->peer].addr);
}

static void report(const Pending *p, const char *what) {
  if (verbose)
    printf("client %.3f %s %016llx by %s: %s\n", real_time(), header_name(p->header), (unsigned long long)p->key->id,
           peers[p->peer].addr, what);
}

static void take_reply(const Packet *packet) {
  Pending *p = pending;
  while (p < pending + MAX_PENDING && !(p->key && p->request == packet->request && p->key->id == packet->id)) p++;
  if (p == pending + MAX_PENDING) return; /* it came too late */
  p->key->busy = 0;
  peers[p->peer].silence = 0;
  peers[p->peer].heard = now_ms();
  if (packet->header == PACKET_PUT_REPLY) {
    counts.put_ok++;
    p->key->version = p->version;
  } else if (!packet->found) {
    counts.miss++;
    report(p, "miss");
  } else if (packet->version < p->key->version) {
    counts.stale++;
    report(p, "stale");
  } else {
    counts.hit++;
  }
  p->key = NULL;
}

/* A node that answered another request since is not to blame: the answer was lost further on. */
static void shun(Peer *peer, int64_t asked, int64_t now) {
  if (now < peer->shunned_until || peer->heard >= asked) return;
  if (peer->silence < MAX_SILENCE) peer->silence++;
  peer->shunned_until = now + (SHUNNED_MS << peer->silence);
}

static void drop_late(int64_t now) {
  for (Pending *p = pending; p < pending + MAX_PENDING; p++) {
    if (!p->key || now - p->sent < TIMEOUT_MS) continue;
    counts.timeout++;
    report(p, "timeout");
    shun(&peers[p->peer], p->sent, now);
    p->key->busy = 0;
    p->key = NULL;
  }
}

/* Asks until `asking` ends, then waits for the last answers. */
static void run(double rate, double seconds) {
  struct pollfd ready = {.fd = srv.sock, .events = POLLIN};
  int64_t start = now_ms(), end = start + (int64_t)(seconds * 1000), asked = 0;
  Packet packet;
  for (int64_t now = start; !stopping && now < end + TIMEOUT_MS; now = now_ms()) {
    int64_t due = start + (int64_t)((double)asked * 1000 / rate);
    if (now >= due && now < end) {
      ask(now);
      asked++;
      continue;
    }
    drop_late(now);
    int64_t wake = now < end && due < now + 100 ? due : now + 100;
    if (poll(&ready, 1, (int)(wake - now)) > 0 && receive_packet(srv.sock, &packet)) take_reply(&packet);
  }
  drop_late(end + 2 * TIMEOUT_MS);
}

static void bad_usage(void) {
  fputs("usage: chordclient --nodes HOST:PORT,... [--rate PER_SECOND] [--seconds N] [--keys N] [--seed S] [--host A] [--verbose]\n", stderr);
  exit(2);
}

static void add_peers(char *list) {
  struct sockaddr_in parsed;
  for (char *addr = strtok(list, ","); addr; addr = strtok(NULL, ",")) {
    if (npeers == MAX_PEERS || !parse_addr(addr, &parsed) || strlen(addr) >= ADDR_TEXT) bad_usage();
    strcpy(peers[npeers++].addr, addr);
  }
}

static const struct option long_options[] = {{"nodes", 1, 0, 'n'}, {"rate", 1, 0, 'r'},    {"seconds", 1, 0, 't'}, {"keys", 1, 0, 'k'},
                                             {"seed", 1, 0, 's'},  {"verbose", 0, 0, 'v'}, {"host", 1, 0, 'H'}, {0, 0, 0, 0}};

int main(int argc, char **argv) {
  double rate = 50, seconds = 10;
  if (getrandom(&srv.random, sizeof srv.random, 0) != sizeof srv.random) srv.random = (uint64_t)now_ms();
  for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) switch (c) {
      case 'n': add_peers(optarg); break;
      case 'r': rate = atof(optarg); break;
      case 't': seconds = atof(optarg); break;
      case 'k': nkeys = atoi(optarg); break;
      case 's': srv.random = strtoull(optarg, NULL, 0); break;
      case 'v': verbose = 1; break;
      case 'H': snprintf(listen_host, sizeof listen_host, "%s", optarg); break;
      default: bad_usage();
    }
  if (!npeers || optind != argc || rate <= 0 || nkeys < 1 || nkeys > MAX_KEYS) bad_usage();
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct sigaction action = {.sa_handler = on_stop};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  srv.sock = open_socket(0, srv.node.addr);
  if (srv.sock < 0) {
    perror("chordclient: socket");
    return 1;
  }
  for (int i = 0; i < nkeys; i++) keys[i].id = next_random(&srv.random);
  last_version = (uint64_t)(real_time() * 1e6); /* above every version that an earlier client gave */
  run(rate, seconds);
  printf("client put=%u put_ok=%u get=%u hit=%u miss=%u stale=%u timeout=%u\n", counts.put, counts.put_ok, counts.get,
         counts.hit, counts.miss, counts.stale, counts.timeout);
  return 0;
}
