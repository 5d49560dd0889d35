/*
 * Elections: in each term the nodes vote for one leader, as in Raft. A leader steps down after a while, so that there are many.
 * The planted fault: a vote that was given is not remembered, so that a node votes for every candidate of a term; two that
 * stand at the same time then both lead. Each node prints the terms in which it leads.
 */
#include <stdio.h>
#include <time.h>

#include "peers.h"

enum { BEAT = 40, REIGN = 250, PATIENCE = 60, SPREAD = 80, STORE = 15 }; /* ms */

typedef enum Role { FOLLOWER, CANDIDATE, LEADER } Role;
typedef enum Kind { REQUEST, VOTE, HEARTBEAT } Kind;

typedef struct Message {
  uint32_t kind, from;
  uint64_t term;
} Message;

struct Election {
  uint64_t term;
  Role role;
  int voted_for; /* in this term; -1 for nobody */
  uint32_t votes; /* a bit for each node */
  int64_t due;   /* when to do something unasked */
  int64_t reign_ends;
} self = {.voted_for = -1};

static Options options;
static int sock;

static void send_all(Kind kind) {
  Message message = {kind, options.self, self.term};
  for (int peer = 0; peer < options.nodes; peer++)
    if (peer != options.self) send_to_peer(sock, &options, peer, &message, sizeof message);
}

static void follow(uint64_t term) {
  self.role = FOLLOWER; /* first: who looks between two stores must not see a leader of the new term */
  if (term > self.term) {
    self.voted_for = -1;
    self.term = term;
  }
  self.due = now_ms() + PATIENCE + next_random(&options.seed) % SPREAD;
}

static void stand(void) {
  follow(self.term + 1);
  self.role = CANDIDATE;
  self.voted_for = options.self;
  self.votes = 1u << options.self;
  struct timespec store = {0, STORE * 1000000}; /* as long as it takes to store the vote */
  nanosleep(&store, NULL);
  send_all(REQUEST);
}

static void lead(void) {
  self.role = LEADER;
  self.reign_ends = now_ms() + REIGN;
  self.due = now_ms() + BEAT;
  printf("n%d leads in term %llu\n", options.self, (unsigned long long)self.term);
}

static void vote(const Message *request) {
  if (request->term != self.term || (self.voted_for != -1 && self.voted_for != (int)request->from)) return;
  if (!options.fault) self.voted_for = request->from;
  Message message = {VOTE, options.self, self.term};
  send_to_peer(sock, &options, request->from, &message, sizeof message);
}

static void process(const Message *message) {
  if (message->term > self.term) follow(message->term);
  if (message->term < self.term) return;
  switch (message->kind) {
    case REQUEST: vote(message); break;
    case VOTE:
      self.votes |= 1u << message->from;
      if (self.role == CANDIDATE && 2 * __builtin_popcount(self.votes) > options.nodes) lead();
      break;
    default: follow(message->term); break;
  }
}

static void act(void) {
  if (self.role != LEADER) {
    stand();
  } else if (now_ms() > self.reign_ends) {
    follow(self.term);
  } else {
    send_all(HEARTBEAT);
    self.due = now_ms() + BEAT;
  }
}

int main(int argc, char **argv) {
  options = parse_options(argc, argv);
  sock = open_peers(&options);
  int64_t end = now_ms() + options.seconds * 1000;
  follow(0);
  while (now_ms() < end) {
    Message message;
    if (receive_until(sock, self.due < end ? self.due : end, &message, sizeof message))
      process(&message);
    else if (now_ms() >= self.due)
      act();
  }
  printf("n%d ends in term %llu\n", options.self, (unsigned long long)self.term);
  return 0;
}
