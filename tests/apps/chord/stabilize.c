/*
 * Keeping the ring together. Once a period each node asks its successor for that one's predecessor (stabilize); a node that
 * joined in between becomes the new successor. A successor that does not know this node is told (notify), and the notify is
 * sent again each period until it is acknowledged. Silent neighbours are given up after MISSES periods.
 */
#include <stdio.h>
#include <string.h>

#include "chord.h"

static void send_notify(void) {
  Packet packet = make_packet(PACKET_NOTIFY);
  packet.attempt = ++srv.notify.attempt;
  if (!fault_loses_notify()) send_packet(&packet, srv.notify.to->addr);
}

static void start_notify(int joined) {
  if (srv.notify.to == srv.successor) return; /* one is out already */
  srv.notify = (Notify){.to = srv.successor, .joined = joined};
  send_notify();
}

static void resend_notify(void) {
  if (srv.notify.to && srv.notify.to != srv.successor) srv.notify.to = NULL;
  if (srv.notify.to) send_notify();
}

/* Asks the ring, by the node named on the command line, for the place of this one. */
void join_ring(void) {
  Packet packet = make_packet(PACKET_FIND_SUCCESSOR);
  packet.id = srv.node.id;
  packet.request = 1;
  memcpy(packet.origin, srv.node.addr, ADDR_TEXT);
  send_packet(&packet, srv.join);
}

/* The answer to join_ring() (request 1) or to fix_fingers(). */
void process_find_reply(const Packet *packet) {
  if (packet->node.id == srv.node.id) return;
  if (packet->request == 1 && !srv.successor) {
    set_successor(node_ref(&packet->node), "join");
    start_notify(0);
  } else if (!is_failed(packet->node.id) && !fault_bars(packet->node.id)) {
    insert_finger(packet->node.id, packet->node.addr);
  }
}

/* The first of the successor list, then of the fingers clockwise, that is not given up; NULL when none is left. */
static Node *next_successor(void) {
  Node *best = NULL;
  for (int i = 0; i < srv.nsuccessors; i++)
    if (!is_failed(srv.successor_list[i]->id)) return srv.successor_list[i];
  for (Finger *f = srv.fingers; f; f = f->next)
    if (!is_failed(f->node.id) && (!best || is_between(&f->node.id, srv.node.id, &best->id))) best = node_ref(&f->node);
  if (!best && srv.predecessor != &srv.node && !is_failed(srv.predecessor->id)) best = srv.predecessor;
  return best;
}

static void give_up_successor(void) {
  mark_failed(srv.successor->id);
  Finger *f = find_finger(srv.successor->id);
  if (f) remove_finger(f);
  Node *next = next_successor();
  if (!next && !srv.join[0]) next = &srv.node; /* the first node goes on alone; others join anew */
  set_successor(next, "silent");
}

static void check_predecessor(void) {
  if (srv.predecessor == &srv.node || now_ms() - srv.predecessor_heard < 2 * srv.period) return;
  if (srv.npings++ < MISSES) {
    Packet packet = make_packet(PACKET_PING);
    send_packet(&packet, srv.predecessor->addr);
  } else {
    mark_failed(srv.predecessor->id);
    set_predecessor(&srv.node, "silent");
  }
}

static void ask_successor(void) {
  Packet packet = make_packet(PACKET_STABILIZE);
  srv.unanswered++;
  send_packet(&packet, srv.successor->addr);
}

/* One round; called once a period. */
void stabilize(void) {
  if (srv.successor && srv.successor != &srv.node && srv.unanswered >= MISSES) give_up_successor();
  if (!srv.successor) {
    join_ring();
    return;
  }
  if (srv.successor == &srv.node) { /* alone: whoever notified is the successor too */
    if (srv.predecessor == &srv.node) return;
    set_successor(srv.predecessor, "first to join");
    start_notify(1);
  }
  resend_notify();
  ask_successor();
  check_predecessor();
  check_fingers();
  fix_fingers();
  hand_over_items();
}

/* Asked by the predecessor: who precedes this node, and who follows it. */
void process_stabilize(const Packet *packet) {
  Packet reply = make_packet(PACKET_STABILIZE_REPLY);
  if (!srv.successor) return;
  reply.request = packet->seq;
  reply.node = *srv.predecessor;
  for (int i = 0; i < srv.nsuccessors; i++) reply.list[reply.nlist++] = *srv.successor_list[i];
  send_packet(&reply, packet->from.addr);
}

/* This node's list is its successor and what that one's list begins with. */
static void take_list(const Packet *packet) {
  srv.nsuccessors = 1;
  for (int i = 0; i < packet->nlist && srv.nsuccessors < SUCCESSORS; i++) {
    if (packet->list[i].id == srv.node.id) break; /* once round */
    if (is_failed(packet->list[i].id) || fault_bars(packet->list[i].id)) continue;
    srv.successor_list[srv.nsuccessors++] = node_ref(&packet->list[i]);
  }
}

void process_stabilize_reply(const Packet *packet) {
  const Node *between = &packet->node;
  if (!srv.successor || !same_node(&packet->from, srv.successor)) return;
  srv.unanswered = 0;
  take_list(packet);
  if (between->id == srv.node.id) return;
  if (!is_between(&between->id, srv.node.id, &srv.successor->id) || fault_bars(between->id)) {
    start_notify(0); /* it does not know this node */
  } else if (is_failed(between->id)) {
    Packet ping = make_packet(PACKET_PING); /* given up here, alive there: its answer decides */
    send_packet(&ping, between->addr);
  } else {
    set_successor(node_ref(between), "joined in between");
    start_notify(1);
  }
}

/* The sender holds this node for its successor. The acknowledgement names this node's own successor, for its list. */
void process_notify(const Packet *packet) {
  Packet ack = make_packet(PACKET_NOTIFY_ACK);
  if (!srv.successor) return;
  if (srv.predecessor == &srv.node || is_between(&packet->from.id, srv.predecessor->id, &srv.node.id))
    set_predecessor(node_ref(&packet->from), "notified");
  ack.request = packet->seq;
  ack.attempt = packet->attempt;
  ack.node = *srv.successor;
  send_packet(&ack, packet->from.addr);
}

void process_notify_ack(const Packet *packet) {
  if (!srv.notify.to || !same_node(&packet->from, srv.notify.to)) return;
  if (fault_misreads_ack(packet)) return;
  srv.notify.to = NULL;
  if (srv.nsuccessors == 1 && packet->node.id != srv.node.id && !is_failed(packet->node.id))
    srv.successor_list[srv.nsuccessors++] = node_ref(&packet->node);
}
