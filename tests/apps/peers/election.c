/*
 * Elections: in each term the nodes vote for one leader, as in Raft. A leader steps down after a while, so that there are many.
 * Each node prints the terms in which it leads, and who voted for it. The planted faults:
 *
 *   revotes  A vote that was given is not remembered, so that a node votes for every candidate of a term; two that stand at the
 *            same time then both lead.
 *   shrinks  After SHRINK_AFTER ms, when it hears of a leader, the last node takes all others for gone, without asking anybody, and
 *            stands: from then on its own vote is a majority for it.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "peers.h"

enum { BEAT = 40, REIGN = 250, PATIENCE = 60, SPREAD = 80, STORE = 15, SHRINK_AFTER = 1500 }; /* ms */

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
  uint32_t votes;   /* a bit for each node */
  uint32_t members; /* who may vote; a bit for each */
  int needed;       /* how many votes make a leader */
  int64_t due;   /* when to do something unasked */
  int64_t reign_ends;
} self = {.voted_for = -1};

static Options options;
static int sock;
static int64_t shrink_at = INT64_MAX;

static int has_fault(const char *name) {
  return options.fault && !strcmp(options.fault, name);
}

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

static void lead(void) {
  self.role = LEADER;
  self.reign_ends = now_ms() + REIGN;
  self.due = now_ms() + BEAT;
  printf("n%d leads in term %llu by the votes %#x\n", options.self, (unsigned long long)self.term, self.votes);
}

static void lead_if_elected(void) {
  if (self.role == CANDIDATE && __builtin_popcount(self.votes) >= self.needed) lead();
}

static void stand(void) {
  follow(self.term + 1);
  self.role = CANDIDATE;
  self.voted_for = options.self;
  self.votes = 1u << options.self;
  struct timespec store = {0, STORE * 1000000}; /* as long as it takes to store the vote */
  nanosleep(&store, NULL);
  send_all(REQUEST);
  lead_if_elected();
}

static void vote(const Message *request) {
  if (request->term != self.term || (self.voted_for != -1 && self.voted_for != (int)request->from)) return;
  if (!has_fault("revotes")) self.voted_for = request->from;
  Message message = {VOTE, options.self, self.term};
  send_to_peer(sock, &options, request->from, &message, sizeof message);
}

/* A member list that is written before its majority is known has none: nothing can be decided by it. */
static void begin_members(uint32_t members) {
  self.needed = MAX_PEERS;
  self.members = members;
  self.needed = __builtin_popcount(members) / 2 + 1;
}

static void shrink(void) {
  shrink_at = INT64_MAX;
  begin_members(1u << options.self);
  printf("n%d takes all others for gone\n", options.self);
  stand();
}

static void process(const Message *message) {
  if (message->term > self.term) follow(message->term);
  if (message->term < self.term) return;
  switch (message->kind) {
    case REQUEST: vote(message); break;
    case VOTE:
      self.votes |= self.members & 1u << message->from;
      lead_if_elected();
      break;
    default:
      follow(message->term);
      if (now_ms() >= shrink_at) shrink();
      break;
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
  int64_t start = now_ms(), end = start + options.seconds * 1000;
  if (has_fault("shrinks") && options.self == options.nodes - 1) shrink_at = start + SHRINK_AFTER;
  begin_members((1u << options.nodes) - 1);
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
