/*
 * Links to other nodes: every change of srv.successor and srv.predecessor happens here, is printed, and goes to the link
 * trace when one is asked for. Also the nodes that were given up a short while ago: neighbours that have not noticed yet
 * go on naming them, and must not be believed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chord.h"

static Node known[KNOWN_NODES];
static int nknown;
static FILE *link_trace;

static int is_linked(const Node *node) {
  if (node == srv.successor || node == srv.predecessor || node == srv.notify.to) return 1;
  for (int i = 0; i < srv.nsuccessors; i++)
    if (node == srv.successor_list[i]) return 1;
  return 0;
}

int same_node(const Node *a, const Node *b) {
  return a->id == b->id && strcmp(a->addr, b->addr) == 0;
}

/* The one Node of this id and address. When the table is full, a place that no link names is used again. */
Node *node_ref(const Node *node) {
  if (same_node(node, &srv.node)) return &srv.node;
  for (int i = 0; i < nknown; i++)
    if (same_node(node, &known[i])) return &known[i];
  int place = 0;
  if (nknown < KNOWN_NODES)
    place = nknown++;
  else
    while (is_linked(&known[place])) place++;
  memset(&known[place], 0, sizeof known[place]);
  known[place].id = node->id;
  strncpy(known[place].addr, node->addr, ADDR_TEXT - 1);
  return &known[place];
}

/* One line a change: real time, name, id, successor, predecessor ("-" for none). */
static void trace_links(void) {
  char id[17], successor[17] = "-", predecessor[17] = "-";
  if (!link_trace) return;
  if (srv.successor) idtoa(srv.successor->id, successor);
  if (srv.predecessor) idtoa(srv.predecessor->id, predecessor);
  fprintf(link_trace, "%.6f %s %s %s %s\n", real_time(), srv.name, idtoa(srv.node.id, id), successor, predecessor);
}

void trace_links_to(const char *path) {
  link_trace = fopen(path, "w");
  if (!link_trace) {
    perror(path);
    exit(2);
  }
  setvbuf(link_trace, NULL, _IOLBF, 0);
}

static void print_link(const char *link, const Node *old, const Node *new, const char *why) {
  char from[17] = "none", to[17] = "none";
  if (old) idtoa(old->id, from);
  if (new) idtoa(new->id, to);
  printf("%s %.3f %s %s -> %s (%s)\n", srv.name, real_time(), link, from, to, why);
}

/* The successor list begins with `node` and goes on with those of the old one that lie behind it. */
static void begin_list(Node *node) {
  Node *list[SUCCESSORS] = {node};
  int n = 1;
  for (int i = 0; i < srv.nsuccessors && n < SUCCESSORS; i++)
    if (node != &srv.node && is_between(&srv.successor_list[i]->id, node->id, &srv.node.id)) list[n++] = srv.successor_list[i];
  memcpy(srv.successor_list, list, sizeof list);
  srv.nsuccessors = n;
}

/* `node` comes from node_ref(), or is NULL when the node falls out of the ring. */
void set_successor(Node *node, const char *why) {
  Node *old = srv.successor;
  if (node == old) return;
  srv.successor = node;
  trace_links();
  print_link("successor", old, node, why);
  srv.unanswered = 0;
  if (node)
    begin_list(node);
  else
    srv.nsuccessors = 0;
  if (node && node != &srv.node) insert_finger(node->id, node->addr);
}

void set_predecessor(Node *node, const char *why) {
  Node *old = srv.predecessor;
  if (node == old) return;
  srv.predecessor = node;
  trace_links();
  print_link("predecessor", old, node, why);
  srv.npings = 0;
  srv.predecessor_heard = now_ms();
  hand_over_items();
}

/* Remembers that a node was given up; the oldest entry makes room. */
void mark_failed(chordID id) {
  Failed *place = &srv.failed[0];
  for (int i = 0; i < FAILED_NODES; i++) {
    if (srv.failed[i].id == id) place = &srv.failed[i];
    if (place->id != id && srv.failed[i].until < place->until) place = &srv.failed[i];
  }
  place->id = id;
  place->until = now_ms() + 3 * MISSES * srv.period;
}

int is_failed(chordID id) {
  for (int i = 0; i < FAILED_NODES; i++)
    if (srv.failed[i].id == id && srv.failed[i].until > now_ms()) return 1;
  return 0;
}

/* A packet came from this node itself: it lives. */
void mark_heard(const Node *node) {
  Finger *f = find_finger(node->id);
  if (f) {
    f->npings = 0;
    f->heard = now_ms();
  }
  if (srv.predecessor && node->id == srv.predecessor->id) {
    srv.npings = 0;
    srv.predecessor_heard = now_ms();
  }
  for (int i = 0; i < FAILED_NODES; i++)
    if (srv.failed[i].id == node->id) srv.failed[i].until = 0;
}
