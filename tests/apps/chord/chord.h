/*
 * A Chord ring over UDP: the demo application that Friday records and asks questions of. One process is one node, with
 * one thread and one socket; nodes share nothing but packets. The names are those of the published examples (docs of
 * the language), so that each of them can be typed as it was printed: `srv.node.id`, `srv.successor->id`,
 * `process_data`, `packet_id`, `insert_finger`, `is_between`.
 *
 * Two conventions make questions short. A Node that a link points at is never changed in place: node_ref() hands out
 * one Node for each (id, addr), so a link changes exactly when its pointer does and a watchpoint on the pointer sees
 * it. And "no predecessor known" is a predecessor that is the node itself, so only a node outside the ring has a NULL
 * link.
 */
#ifndef TESTS_APPS_CHORD_CHORD_H
#define TESTS_APPS_CHORD_CHORD_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t
    chordID; /* a point on the ring; an integer, so that ids compare, hash and print as numbers everywhere */

enum {
  ADDR_TEXT = 24, /* "255.255.255.255:65535" and its NUL, a multiple of 8 */
  VALUE_TEXT = 48,
  SUCCESSORS = 4, /* the ring survives SUCCESSORS - 1 neighbours that die within one detection time */
  MISSES = 4,     /* periods without an answer after which a node is given up */
  KNOWN_NODES = 256,
  FAILED_NODES = 16,
  MAX_HOPS = 32,
};

typedef struct Node {
  chordID id;
  char addr[ADDR_TEXT]; /* "HOST:PORT", padded with zeros: equal nodes have equal bytes */
} Node;

typedef struct Finger {
  Node node;
  int npings;    /* pings since it was last heard of */
  int64_t heard; /* when, in ms of the monotonic clock */
  struct Finger* next;
} Finger;

typedef enum PacketHeader {
  PACKET_NONE,
  PACKET_FIND_SUCCESSOR,
  PACKET_FIND_REPLY,
  PACKET_STABILIZE,
  PACKET_STABILIZE_REPLY,
  PACKET_NOTIFY,
  PACKET_NOTIFY_ACK,
  PACKET_PING,
  PACKET_PONG,
  PACKET_PUT,
  PACKET_GET,
  PACKET_PUT_REPLY,
  PACKET_GET_REPLY,
  PACKET_STORE,
  PACKET_TYPES
} PacketHeader;

/* What travels. Sent as it stands in memory: the ring lives on one kind of machine. */
typedef struct Packet {
  uint32_t magic;
  PacketHeader header;
  uint32_t seq;     /* of the node or client that sent it last */
  uint32_t request; /* chosen by who asks, repeated in the answer */
  Node from;
  chordID id;             /* what is looked for, put or got */
  Node node;              /* the node that this packet is about */
  char origin[ADDR_TEXT]; /* where the answer goes */
  uint64_t version;       /* of a value: the newest wins */
  uint16_t hops;
  uint16_t attempt; /* of a notify, and of its acknowledgement */
  uint8_t final;    /* the sender holds the receiver for the owner of `id` */
  uint8_t found;
  uint16_t nlist;
  Node list[SUCCESSORS];
  char value[VALUE_TEXT];
} Packet;

/* The packet that is being processed; type is PACKET_NONE while a timer runs. */
typedef struct Message {
  chordID sender;
  PacketHeader type;
  uint32_t seq;
} Message;

/* A notify that waits for its acknowledgement. */
typedef struct Notify {
  Node* to; /* NULL when none is out */
  int attempt;
  int joined; /* sent because the receiver joined between this node and its successor */
} Notify;

typedef struct Failed {
  chordID id;
  int64_t until;
} Failed;

typedef struct Server {
  Node node;
  Node* successor;   /* NULL until the node is in the ring */
  Node* predecessor; /* &srv.node while none is known */
  Node* successor_list[SUCCESSORS];
  int nsuccessors;
  Finger* fingers;
  Message last_message;
  Notify notify;
  int unanswered; /* stabilize packets since the successor's last reply */
  int npings;     /* pings to the predecessor since it was last heard of */
  int64_t predecessor_heard;
  Failed failed[FAILED_NODES];
  int next_finger; /* exponent of the finger that is looked up next */
  int sock;
  int64_t period;       /* ms between two rounds of stabilisation */
  char join[ADDR_TEXT]; /* the node to join by, empty for the first */
  const char* name;
  uint64_t random;
  uint32_t seq;
  uint64_t sent, received, puts, gets, items;
} Server;

extern Server srv;

/* id.c: points on the ring. */
chordID atoid(const char* text);
char* idtoa(chordID id, char* text);
int is_between(const chordID* x, chordID a, const chordID* b);
int in_range(chordID x, chordID a, chordID b);
uint64_t mix(uint64_t x);
uint64_t next_random(uint64_t* state);

/* net.c: addresses, clocks, packets. */
extern char listen_host[ADDR_TEXT]; /* where sockets are bound */
extern char
    public_addr[ADDR_TEXT]; /* what others know this program by where its address is rewritten on the way; else empty */
int open_socket(int port, char addr[ADDR_TEXT]);
int parse_addr(const char* addr, struct sockaddr_in* out);
int64_t now_ms(void);
double real_time(void);
Packet make_packet(PacketHeader header);
void send_packet(Packet* packet, const char* addr);
int receive_packet(int sock, Packet* packet);
const char* header_name(PacketHeader header);

/* node.c: links to other nodes, and who is believed dead. */
Node* node_ref(const Node* node);
int same_node(const Node* a, const Node* b);
void set_successor(Node* node, const char* why);
void set_predecessor(Node* node, const char* why);
void mark_failed(chordID id);
int is_failed(chordID id);
void mark_heard(const Node* node);
void trace_links_to(const char* path);

/* finger.c: shortcuts. */
Finger* find_finger(chordID id);
void insert_finger(chordID id, const char* addr);
void remove_finger(Finger* f);
Node* closest_preceding(chordID id);
void fix_fingers(void);
void check_fingers(void);

/* stabilize.c: keeping the ring together. */
void join_ring(void);
void stabilize(void);
void process_find_reply(const Packet* packet);
void process_stabilize(const Packet* packet);
void process_stabilize_reply(const Packet* packet);
void process_notify(const Packet* packet);
void process_notify_ack(const Packet* packet);

/* process.c: packets, routing and data. */
void process_packet(Packet* packet);
int process_data(chordID packet_id, PacketHeader packet_header, const Packet* packet);
int is_get(PacketHeader packet_header);

/* store.c: the values this node keeps. */
typedef struct Item {
  chordID id;
  uint64_t version;
  int64_t strayed; /* since when it belongs to another node; 0 while it belongs here */
  struct Item* next;
  char value[VALUE_TEXT];
} Item;
void store_put(chordID id, uint64_t version, const char* value);
Item* store_get(chordID id);
void hand_over_items(void);

/* fault.c: the bug that can be switched on. */
typedef struct FaultOptions {
  int on;
  uint64_t seed;
  int index, nodes;  /* this node's place in the order of starting, and how many there are */
  int64_t after;     /* ms of uptime before which joins are handled well */
  const char* truth; /* file that is written when the fault is planted, or NULL */
} FaultOptions;
int fault_victim(uint64_t seed, int nodes);
void fault_init(const FaultOptions* options);
int fault_loses_notify(void);
int fault_misreads_ack(const Packet* packet);
int fault_bars(chordID id);

#endif
