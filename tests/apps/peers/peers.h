/*
 * What the small applications of the predicates' tests share: programs that know each other by number and speak by
 * datagrams on 127.0.0.1. One thread.
 */
#ifndef PEERS_H
#define PEERS_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_PEERS = 32 };

typedef struct Options {
  int self, nodes; /* this node's number, and how many there are */
  int ports[MAX_PEERS];
  int64_t seconds;
  uint64_t seed;
  const char* fault; /* the planted bug that is on, or NULL */
} Options;

/* NAME SELF PORT,PORT... SECONDS SEED [FAULT]; ends the program with 2 when that is not what it was given. */
Options parse_options(int argc, char** argv);
int open_peers(const Options* options);
void send_to_peer(int sock, const Options* options, int peer, const void* message, size_t size);
/* Waits until a message of just this size arrives or the time (ms) has come; 1 when there is one. */
int receive_until(int sock, int64_t time, void* message, size_t size);
int64_t now_ms(void);
uint64_t next_random(uint64_t* state);

#endif
