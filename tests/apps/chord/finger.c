/*
 * Fingers: nodes about 2^k further on, by which a lookup halves its way. Which node is the k-th finger is asked of the
 * ring, a few each round; a finger that stays silent is pinged and then removed. The list holds each node once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chord.h"

enum { LOOKUPS_A_ROUND = 2 };

Finger *find_finger(chordID id) {
  Finger *f = srv.fingers;
  while (f && f->node.id != id) f = f->next;
  return f;
}

/* Adds a node to the list, or confirms that it is there. */
void insert_finger(chordID id, const char *addr) {
  Finger *f = find_finger(id);
  if (id == srv.node.id || (f && strcmp(f->node.addr, addr) == 0)) return;
  if (f) remove_finger(f);
  f = calloc(1, sizeof *f);
  if (!f) return;
  f->node.id = id;
  strncpy(f->node.addr, addr, ADDR_TEXT - 1);
  f->heard = now_ms();
  f->next = srv.fingers;
  srv.fingers = f;
  printf("%s %.3f finger up %s\n", srv.name, real_time(), addr);
}

void remove_finger(Finger *f) {
  Finger **link = &srv.fingers;
  while (*link != f) link = &(*link)->next;
  *link = f->next;
  printf("%s %.3f finger down %s\n", srv.name, real_time(), f->node.addr);
  free(f);
}

/* The known node that comes last before `id`, clockwise; the successor when no finger is better. */
Node *closest_preceding(chordID id) {
  Node *best = srv.successor;
  for (Finger *f = srv.fingers; f; f = f->next) {
    if (f->npings > 1 || is_failed(f->node.id) || !is_between(&f->node.id, srv.node.id, &id)) continue;
    if (!is_between(&best->id, srv.node.id, &id) || is_between(&f->node.id, best->id, &id)) best = &f->node;
  }
  return best;
}

/* Looks up the next fingers, from the far side of the ring down to the first that the successor answers for. */
void fix_fingers(void) {
  for (int i = 0; i < LOOKUPS_A_ROUND; i++) {
    chordID target = srv.node.id + ((chordID)1 << srv.next_finger);
    if (srv.next_finger == 0 || in_range(target, srv.node.id, srv.successor->id)) {
      srv.next_finger = 63;
      return;
    }
    srv.next_finger--;
    Packet packet = make_packet(PACKET_FIND_SUCCESSOR);
    packet.id = target;
    memcpy(packet.origin, srv.node.addr, ADDR_TEXT);
    send_packet(&packet, closest_preceding(target)->addr);
  }
}

/* Pings the fingers that were silent for two rounds; removes those that do not answer. */
void check_fingers(void) {
  Finger *next;
  for (Finger *f = srv.fingers; f; f = next) {
    next = f->next;
    if (now_ms() - f->heard < 2 * srv.period) continue;
    if (f->npings++ < MISSES) {
      Packet packet = make_packet(PACKET_PING);
      send_packet(&packet, f->node.addr);
    } else {
      remove_finger(f);
    }
  }
}
