/*
 * The values this node keeps, in a chained hash table. An item that belongs to the predecessor (a node joined in between)
 * is sent there at once and dropped some rounds later, when every node should know the way. Nothing is replicated: what a
 * node kept is lost with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chord.h"

enum { BUCKETS = 256 };
static Item *table[BUCKETS];

static Item **find(chordID id) {
  Item **link = &table[mix(id) % BUCKETS];
  while (*link && (*link)->id != id) link = &(*link)->next;
  return link;
}

Item *store_get(chordID id) {
  return *find(id);
}

/* Keeps the newer of two values. */
void store_put(chordID id, uint64_t version, const char *value) {
  Item **link = find(id);
  if (*link && (*link)->version > version) return;
  if (!*link) {
    *link = calloc(1, sizeof **link);
    if (!*link) return;
    (*link)->id = id;
    srv.items++;
  }
  (*link)->version = version;
  (*link)->strayed = 0;
  memset((*link)->value, 0, VALUE_TEXT);
  strncpy((*link)->value, value, VALUE_TEXT - 1);
}

static void send_item(const Item *item, const char *addr) {
  Packet packet = make_packet(PACKET_STORE);
  packet.id = item->id;
  packet.version = item->version;
  memcpy(packet.value, item->value, VALUE_TEXT);
  send_packet(&packet, addr);
}

/* Sends each stray item to the predecessor once, and drops it after as many rounds as a failure takes to be seen. */
void hand_over_items(void) {
  for (int i = 0; i < BUCKETS; i++) {
    Item **link = &table[i];
    while (*link) {
      Item *item = *link;
      if (in_range(item->id, srv.predecessor->id, srv.node.id)) {
        item->strayed = 0;
      } else if (!item->strayed) {
        item->strayed = now_ms();
        send_item(item, srv.predecessor->addr);
      } else if (now_ms() - item->strayed > MISSES * srv.period) {
        *link = item->next;
        free(item);
        srv.items--;
        continue;
      }
      link = &item->next;
    }
  }
}
