/*
 * One node of the ring: chord --port P [--id HEX] [--join HOST:PORT] ..., see usage(). It runs until SIGTERM or SIGINT or
 * for --seconds, then prints one summary line. It leaves without a word to its neighbours, so that to them an end by
 * --seconds is a crash. One poll() waits for packets and for the next round; nothing else blocks, and a signal only sets a
 * flag that the loop reads.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "chord.h"

Server srv = {.predecessor = &srv.node, .period = 250}; /* no predecessor is known */
static volatile sig_atomic_t stopping;

static void on_stop(int signal) {
  (void)signal;
  stopping = 1;
}

static const char *usage =
    "usage: chord --port P [options]\n"
    "  --id HEX            point on the ring (default: a hash of the port)\n"
    "  --join HOST:PORT    join the ring of this node (default: be the first)\n"
    "  --name NAME         name in output (default: chord-PORT)\n" "  --host A --public HOST:PORT  where it listens (default 127.0.0.1), and what others know it by\n"
    "  --period MS         between rounds of stabilisation (default 250)\n"
    "  --seed S            of every random choice (default: from the kernel)\n"
    "  --seconds N         end by itself (default: at SIGTERM)\n"
    "  --trace-links FILE  write every change of the links\n"
    "  --fault --index I --nodes N --fault-after MS --truth FILE\n"
    "                      plant the routing fault if node I of N is the seed's, at the first join after MS\n";

/* Rounds come once a period, give or take a tenth, so that nodes do not march in step. */
static int64_t next_round(int64_t now) {
  int64_t tenth = srv.period / 10;
  return now + srv.period - tenth + (int64_t)(next_random(&srv.random) % (uint64_t)(2 * tenth + 1));
}

/*
 * Sets up srv. The id comes as text, which stands in `id` until atoid() makes a number of it: the published example that
 * collects the ids of all nodes breaks at line 58, and a test keeps that line in its place. The links are set after the id,
 * so that whoever watches them can tell whose they are.
 */
static void init_server(char *id, int port) {
  char hashed[17];
  srv.sock = open_socket(port, srv.node.addr);
  if (srv.sock < 0) {
    perror("chord: socket");
    exit(1);
  }
  if (!id) id = idtoa(mix(port), hashed);
  srv.node.id = atoid(id);
  if (!srv.join[0]) set_successor(&srv.node, "first node");
}

static void install_signals(void) {
  struct sigaction action = {.sa_handler = on_stop}; /* no SA_RESTART: poll must return */
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
}

static void run(int64_t end) {
  int64_t round = now_ms();
  struct pollfd ready = {.fd = srv.sock, .events = POLLIN};
  Packet packet;
  while (!stopping) {
    int64_t now = now_ms();
    if (end && now >= end) break;
    if (now >= round) {
      stabilize();
      round = next_round(now);
    }
    if (poll(&ready, 1, round > now ? (int)(round - now) : 0) > 0 && receive_packet(srv.sock, &packet)) process_packet(&packet);
  }
}

static void print_summary(void) {
  char id[17], successor[17] = "none", predecessor[17] = "none";
  int fingers = 0;
  for (Finger *f = srv.fingers; f; f = f->next) fingers++;
  if (srv.successor) idtoa(srv.successor->id, successor);
  if (srv.predecessor != &srv.node) idtoa(srv.predecessor->id, predecessor);
  printf("summary name=%s id=%s successor=%s predecessor=%s fingers=%d sent=%llu received=%llu puts=%llu gets=%llu items=%llu\n",
         srv.name, idtoa(srv.node.id, id), successor, predecessor, fingers, (unsigned long long)srv.sent,
         (unsigned long long)srv.received, (unsigned long long)srv.puts, (unsigned long long)srv.gets,
         (unsigned long long)srv.items);
}

typedef struct Options {
  int port;
  char *id;
  double seconds;
  int seeded;
  FaultOptions fault;
} Options;

static const struct option long_options[] = {
    {"port", 1, 0, 'p'},  {"id", 1, 0, 'i'},          {"join", 1, 0, 'j'},  {"name", 1, 0, 'n'},  {"period", 1, 0, 'P'},
    {"seed", 1, 0, 's'},  {"seconds", 1, 0, 't'},     {"fault", 0, 0, 'f'}, {"index", 1, 0, 'x'}, {"nodes", 1, 0, 'N'},
    {"truth", 1, 0, 'T'}, {"fault-after", 1, 0, 'a'}, {"help", 0, 0, 'h'},  {"trace-links", 1, 0, 'l'},
    {"host", 1, 0, 'H'},  {"public", 1, 0, 'u'},      {0, 0, 0, 0}};

static void bad_usage(void) {
  fputs(usage, stderr);
  exit(2);
}

static void set_join(const char *addr) {
  struct sockaddr_in parsed;
  if (!parse_addr(addr, &parsed) || strlen(addr) >= ADDR_TEXT) bad_usage();
  strcpy(srv.join, addr);
}

static Options parse_options(int argc, char **argv) {
  Options o = {.port = -1, .fault = {.nodes = 1}};
  for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) switch (c) {
      case 'p': o.port = atoi(optarg); break;
      case 'i': o.id = optarg; break;
      case 'j': set_join(optarg); break;
      case 'n': srv.name = optarg; break;
      case 'P': srv.period = atoi(optarg); break;
      case 's': o.fault.seed = strtoull(optarg, NULL, 0), o.seeded = 1; break;
      case 't': o.seconds = atof(optarg); break;
      case 'f': o.fault.on = 1; break;
      case 'x': o.fault.index = atoi(optarg); break;
      case 'N': o.fault.nodes = atoi(optarg); break;
      case 'T': o.fault.truth = optarg; break;
      case 'a': o.fault.after = atoi(optarg); break;
      case 'l': trace_links_to(optarg); break;
      case 'H': snprintf(listen_host, sizeof listen_host, "%s", optarg); break;
      case 'u': snprintf(public_addr, sizeof public_addr, "%s", optarg); break;
      default: bad_usage();
    }
  if (o.port < 0 || optind != argc || srv.period < 10 || (o.fault.on && !o.seeded)) bad_usage();
  return o;
}

int main(int argc, char **argv) {
  static char name[32];
  setvbuf(stdout, NULL, _IOLBF, 0);
  Options o = parse_options(argc, argv);
  if (!srv.name) srv.name = name;
  snprintf(name, sizeof name, "chord-%d", o.port);
  install_signals();
  init_server(o.id, o.port);
  srv.random = o.fault.seed ^ srv.node.id;
  if (!o.seeded && getrandom(&srv.random, sizeof srv.random, 0) != sizeof srv.random) srv.random = mix(srv.node.id);
  fault_init(&o.fault);
  printf("%s %.3f started at %s\n", srv.name, real_time(), srv.node.addr);
  run(o.seconds > 0 ? now_ms() + (int64_t)(o.seconds * 1000) : 0);
  print_summary();
  return 0;
}
