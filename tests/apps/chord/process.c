/*
 * What a node does with a packet. Lookups and data are routed from node to node: each sends them to the finger closest
 * before the id, and the one before its owner hands them to its successor as final. The owner answers the origin itself. A
 * packet that went MAX_HOPS hops is dropped; who asked asks again.
 */
#include <stdio.h>
#include <string.h>

#include "chord.h"

int is_get(PacketHeader packet_header) {
  return packet_header == PACKET_GET;
}

/* A put or get that arrived: packet_id is looked up or stored here, and the client is answered. */
int process_data(chordID packet_id, PacketHeader packet_header, const Packet *packet) {
  Packet reply = make_packet(is_get(packet_header) ? PACKET_GET_REPLY : PACKET_PUT_REPLY);
  if (is_get(packet_header)) {
    Item *item = store_get(packet_id);
    srv.gets++;
    reply.found = item != NULL;
    if (item) {
      reply.version = item->version;
      memcpy(reply.value, item->value, VALUE_TEXT);
    }
  } else {
    srv.puts++;
    store_put(packet_id, packet->version, packet->value);
    reply.version = packet->version;
  }
  reply.id = packet_id;
  reply.request = packet->request;
  reply.hops = packet->hops;
  send_packet(&reply, packet->origin);
  return reply.found;
}

static void forward(Packet *packet, const Node *to) {
  if (packet->hops++ < MAX_HOPS) send_packet(packet, to->addr);
}

static void answer_find(const Packet *packet, const Node *node) {
  Packet reply = make_packet(PACKET_FIND_REPLY);
  reply.request = packet->request;
  reply.node = *node;
  reply.id = packet->id;
  send_packet(&reply, packet->origin);
}

static void route_find(Packet *packet) {
  Node *successor = srv.successor;
  if (successor == &srv.node || in_range(packet->id, srv.node.id, successor->id))
    answer_find(packet, successor);
  else
    forward(packet, closest_preceding(packet->id));
}

/*
 * Sends a put or get on its way, or serves it. The published example that looks for misdelivered requests breaks at line 69,
 * where the successor is held for the owner; a test keeps that line in its place.
 */
static void route_data(Packet *packet, chordID packet_id) {
  Node *successor = srv.successor;
  int known = srv.predecessor != &srv.node;
  if (packet->final || successor == &srv.node || (known && in_range(packet_id, srv.predecessor->id, srv.node.id))) {
    process_data(packet_id, packet->header, packet);
  } else if (in_range(packet_id, srv.node.id, successor->id)) {
    packet->final = 1;
    forward(packet, successor); /* misdelivered if another node lies before it */
  } else {
    forward(packet, closest_preceding(packet_id));
  }
}

/* Whom a packet came from is known to live, unless it was a client (id 0). */
static void note_sender(const Packet *packet) {
  srv.received++;
  srv.last_message = (Message){.sender = packet->from.id, .type = packet->header, .seq = packet->seq};
  if (packet->from.id != 0) mark_heard(&packet->from);
}

void process_packet(Packet *packet) {
  Packet reply;
  note_sender(packet);
  switch (packet->header) {
    case PACKET_FIND_SUCCESSOR:
      if (srv.successor) route_find(packet);
      break;
    case PACKET_PUT:
    case PACKET_GET:
      if (srv.successor) route_data(packet, packet->id);
      break;
    case PACKET_FIND_REPLY: process_find_reply(packet); break;
    case PACKET_STABILIZE: process_stabilize(packet); break;
    case PACKET_STABILIZE_REPLY: process_stabilize_reply(packet); break;
    case PACKET_NOTIFY: process_notify(packet); break;
    case PACKET_NOTIFY_ACK: process_notify_ack(packet); break;
    case PACKET_STORE: store_put(packet->id, packet->version, packet->value); break;
    case PACKET_PING:
      reply = make_packet(PACKET_PONG);
      send_packet(&reply, packet->from.addr);
      break;
    default: break; /* a pong has done its work; replies to clients are not for nodes */
  }
  srv.last_message = (Message){.type = PACKET_NONE};
}
