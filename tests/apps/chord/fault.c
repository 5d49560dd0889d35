/*
 * The bug that --fault switches on, of a kind that real rings had: a join is handled wrongly after a lost message, and only
 * then. When a node adopts one that joined right behind it, it sends a notify. Here that first notify is lost (emulated: it
 * is not sent), once, at the node whose turn it is by the seed. The resent one is acknowledged as usual, but the code that
 * sees an acknowledgement of a *resent* notify takes it for the farewell of a leaving node: it makes the successor named in
 * it its own, past the node that just joined, and bars that node from its links. From then on this node sends requests
 * for the joined node's part of the ring to the node after it. The moment is written to the truth file.
 */
#include <stdio.h>
#include <stdlib.h>

#include "chord.h"

static FaultOptions options;
static int64_t armed_at;
static int lost;    /* the notify was lost */
static int planted; /* the link is wrong */
static chordID barred;

/* The node, by order of starting, whose turn it is. The last one is never chosen: it is the one that joins late. */
int fault_victim(uint64_t seed, int nodes) {
  return nodes > 1 ? (int)(mix(seed) % (uint64_t)(nodes - 1)) : 0;
}

void fault_init(const FaultOptions *o) {
  options = *o;
  armed_at = now_ms() + o->after;
}

/* Is the notify that is about to be sent the one that gets lost? */
int fault_loses_notify(void) {
  if (!options.on || lost || options.index != fault_victim(options.seed, options.nodes)) return 0;
  if (!srv.notify.joined || srv.notify.attempt != 1 || now_ms() < armed_at) return 0;
  lost = 1;
  barred = srv.notify.to->id;
  printf("%s %.3f fault: notify to %s is lost\n", srv.name, real_time(), srv.notify.to->addr);
  return 1;
}

static void write_truth(double time, const Packet *packet) {
  char id[17], wrong[17], skipped[17];
  FILE *out = options.truth ? fopen(options.truth, "w") : NULL;
  if (!out) {
    if (options.truth) perror(options.truth);
    return;
  }
  fprintf(out,
          "{\"kind\": \"successor-past-joined-node\", \"node\": \"%s\", \"index\": %d, \"addr\": \"%s\", \"id\": \"%s\",\n"
          " \"time\": %.6f, \"seed\": %llu, \"wrong_successor\": \"%s\", \"skipped\": \"%s\",\n"
          " \"after\": {\"sender\": \"%s\", \"type\": \"%s\", \"seq\": %u}}\n",
          srv.name, options.index, srv.node.addr, idtoa(srv.node.id, id), time, (unsigned long long)options.seed,
          idtoa(srv.successor->id, wrong), idtoa(barred, skipped), skipped, header_name(packet->header), packet->seq);
  fclose(out);
}

/* The wrong handling: returns 1 when it took place. */
int fault_misreads_ack(const Packet *packet) {
  if (!lost || planted || packet->from.id != barred || packet->attempt < 2) return 0;
  planted = 1;
  srv.notify.to = NULL;
  Finger *f = find_finger(barred);
  if (f) remove_finger(f);
  set_successor(node_ref(&packet->node), "farewell");
  write_truth(real_time(), packet);
  printf("%s %.3f fault: planted\n", srv.name, real_time());
  return 1;
}

/* Is this a node that the bug keeps out of the links? */
int fault_bars(chordID id) {
  return planted && id == barred;
}
