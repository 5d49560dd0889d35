/*
 * Accounts: each node holds a balance and sends parts of it to the others; what is sent and what is held is the same in sum at
 * each moment. The planted faults: node 1 credits one too little whenever a transfer's number ends in 7, and node 2 forgets
 * each transfer whose number ends in 3. Each of these prints what it did.
 */
#include <stdio.h>

#include "peers.h"

enum { PAUSE = 25, DRAIN = 1200, START = 1000 }; /* ms, ms, balance */

typedef struct Transfer {
  uint32_t from, number; /* number 0: a greeting, nothing is sent before everybody has greeted */
  int64_t amount;
} Transfer;

int64_t balance = START;
uint32_t sent, received;

static Options options;
static int sock;

static void send_transfer(int to, int64_t amount) {
  Transfer transfer = {options.self, ++sent, amount};
  balance -= amount;
  send_to_peer(sock, &options, to, &transfer, sizeof transfer);
}

static void credited(const Transfer *transfer) {
  received++;
  if (balance < transfer->amount) printf("n%d holds less than it was sent\n", options.self);
}

static void receive_transfer(const Transfer *transfer) {
  int64_t amount = transfer->amount;
  if (options.fault && options.self == 2 && transfer->number % 10 == 3) {
    printf("n2 forgets %lld of n%u number %u\n", (long long)amount, transfer->from, transfer->number);
    return;
  }
  if (options.fault && options.self == 1 && transfer->number % 10 == 7) {
    printf("n1 loses 1 of n%u number %u\n", transfer->from, transfer->number);
    amount--;
  }
  balance += amount;
  credited(transfer);
}

static void greet(void) {
  Transfer greeting = {options.self, 0, 0};
  for (int peer = 0; peer < options.nodes; peer++)
    if (peer != options.self) send_to_peer(sock, &options, peer, &greeting, sizeof greeting);
}

/* Until all others have greeted, and then once more, so that they hear of this node too. */
static void meet(void) {
  uint32_t heard = 1u << options.self;
  while (heard != (1u << options.nodes) - 1) {
    Transfer transfer;
    int64_t until = now_ms() + PAUSE;
    greet();
    while (receive_until(sock, until, &transfer, sizeof transfer)) {
      heard |= 1u << transfer.from;
      if (transfer.number != 0) receive_transfer(&transfer);
    }
  }
  greet();
}

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

int main(int argc, char **argv) {
  options = parse_options(argc, argv);
  sock = open_peers(&options);
  meet();
  int64_t due = now_ms(), end = due + options.seconds * 1000;
  while (now_ms() < end) {
    Transfer transfer;
    if (receive_until(sock, min(due, end), &transfer, sizeof transfer)) {
      if (transfer.number != 0) receive_transfer(&transfer);
    } else if (now_ms() >= due) {
      due = now_ms() + PAUSE;
      int to = (options.self + 1 + next_random(&options.seed) % (options.nodes - 1)) % options.nodes;
      int64_t amount = 1 + next_random(&options.seed) % 20;
      if (now_ms() < end - DRAIN && amount <= balance) send_transfer(to, amount);
    }
  }
  printf("n%d holds %lld\n", options.self, (long long)balance);
  return 0;
}
