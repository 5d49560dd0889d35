/*
 * A replicated log: node 0 leads, appends a command each tick and sends it to the others until they have it; what a majority
 * has is committed. Some entries are sent twice. The planted fault: node 2 appends what arrives without a look at its index,
 * so that its log holds these entries twice; it prints each.
 */
#include <stdio.h>

#include "peers.h"

enum { TICK = 20, LENGTH = 512 };

typedef struct Entry {
  uint32_t index, command;
} Entry;

typedef struct Message {
  uint32_t from, has_entry, count; /* count: of a follower, how many entries it has; of the leader, how many are committed */
  Entry entry;
} Message;

struct Journal {
  Entry log[LENGTH];
  uint32_t length, committed;
} journal;

static Options options;
static int sock;
static uint32_t counts[MAX_PEERS]; /* how many entries each node has, as the leader knows */

static void append(uint32_t command) {
  if (journal.length == LENGTH) return;
  journal.log[journal.length] = (Entry){journal.length, command};
  journal.length++;
}

static void send_next(int peer) {
  Message message = {.from = 0, .count = journal.committed};
  if (counts[peer] < journal.length) {
    message.has_entry = 1;
    message.entry = journal.log[counts[peer]];
    if (message.entry.index % 10 == 4) send_to_peer(sock, &options, peer, &message, sizeof message);
  }
  send_to_peer(sock, &options, peer, &message, sizeof message);
}

static void commit(void) {
  counts[0] = journal.length;
  for (uint32_t next = journal.committed + 1; next <= journal.length; next++) {
    int have = 0;
    for (int i = 0; i < options.nodes; i++) have += counts[i] >= next;
    if (2 * have > options.nodes) journal.committed = next;
  }
}

static void tick(void) {
  append((uint32_t)next_random(&options.seed) % 1000);
  for (int peer = 1; peer < options.nodes; peer++) send_next(peer);
}

static void process(const Message *message) {
  if (options.self == 0) {
    if (counts[message->from] < message->count) counts[message->from] = message->count;
    commit();
    return;
  }
  if (message->has_entry) {
    int blind = options.fault && options.self == 2;
    if (blind && message->entry.index != journal.length) printf("n2 appends %u as entry %u\n", message->entry.command, journal.length);
    if (blind || message->entry.index == journal.length) append(message->entry.command);
  }
  uint32_t committed = message->count < journal.length ? message->count : journal.length;
  if (committed > journal.committed) journal.committed = committed;
  Message answer = {.from = options.self, .count = journal.length};
  send_to_peer(sock, &options, 0, &answer, sizeof answer);
}

int main(int argc, char **argv) {
  options = parse_options(argc, argv);
  sock = open_peers(&options);
  int64_t end = now_ms() + options.seconds * 1000, due = now_ms();
  while (now_ms() < end) {
    Message message;
    if (receive_until(sock, due < end ? due : end, &message, sizeof message)) {
      process(&message);
    } else if (now_ms() >= due) {
      due = now_ms() + TICK;
      if (options.self == 0) tick();
    }
  }
  printf("n%d has committed %u of %u entries\n", options.self, journal.committed, journal.length);
  return 0;
}
