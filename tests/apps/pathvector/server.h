/*
 * A small path-vector routing toolkit: each node tells its neighbours, once a period, by which paths it reaches every
 * node, and keeps for each destination up to k paths that share no node in between. One thread, one socket, datagrams
 * on 127.0.0.1.
 *
 * The nodes stand in a circle, each linked to both sides and straight across, so that three disjoint paths join any
 * two. A link can be cut in mid-run; its ends notice by silence. The names are those of the published examples (docs of
 * the language): `server->id`, `server->k`, `Neighbor`, its `status`, and an iterator whose `_M_node` points to a
 * pointer to one.
 */
#ifndef TESTS_APPS_PATHVECTOR_SERVER_H
#define TESTS_APPS_PATHVECTOR_SERVER_H

#include <cstdint>

extern "C" {
#include "../peers/peers.h"
}

enum {
  MAX_NODES = 16,
  MAX_K = 3,
  LINKS = 3,    /* of each node */
  PERIOD = 100, /* ms between two rounds */
  MISSES = 4,   /* rounds of silence after which a neighbour is down */
};

/* The nodes on the way, first to last, both ends included; of length 0 there is none. */
struct Path {
  uint8_t length;
  uint8_t hops[MAX_NODES];
};

/* What travels: all paths of the sender, by destination. */
struct Update {
  uint32_t from;
  Path paths[MAX_NODES][MAX_K];
};

struct Neighbor {
  int id;
  int status;    /* 1: heard of lately, 0: not */
  bool cut;      /* the link lets nothing through */
  bool ignored;  /* by the planted fault */
  int64_t heard; /* ms */
  Update update; /* the newest */
};

struct Route {
  int destination;
  int next_hop;
  int usable;
  int npaths;
  Path paths[MAX_K]; /* disjoint, shortest first; next_hop is on the first */
};

/* Pointers to neighbours in order of their ids. */
class NeighborList {
 public:
  struct iterator {
    Neighbor** _M_node;
    Neighbor* operator*() const { return *_M_node; }
    iterator& operator++() { return ++_M_node, *this; }
    bool operator!=(const iterator& other) const { return _M_node != other._M_node; }
  };
  void insert(Neighbor* neighbor);
  iterator begin() { return {items_}; }
  iterator end() { return {items_ + count_}; }

 private:
  Neighbor* items_[LINKS];
  int count_ = 0;
};

enum class Fault { none, loop, hole, lone };

struct Server {
  int id;
  int k;
  int nodes;
  Neighbor neighbors[LINKS];
  int nneighbors;
  NeighborList list;
  Route routes[MAX_NODES];
  Update told;  /* what goes to the neighbours */
  int withheld; /* destination of which the fault tells nothing new; -1: none */
  Fault fault;
  int cut_ends[2]; /* the link that is cut, -1 when none is */
  int64_t cut_at;  /* ms */
};

extern Server* server;

/* paths.cc: which paths there are, and which are taken. */
bool contains(const Path& path, int node);
bool share_a_node(const Path& a, const Path& b);
void compute_routes();

/* server.cc: neighbours come and go. */
void set_status(Neighbor* neighbor, int status);

/* fault.cc: the bugs that can be switched on; each shows when the link that is cut is noticed. */
bool read_fault(const char* name, Fault* fault);
void plant_fault(const Neighbor* gone);

#endif
