/*
 * One node: pathvector SELF PORT,PORT... SECONDS SEED [k=K] [cut=A-B@MS] [fault=loop|hole|lone]. It ends by itself, and
 * prints each change of a route and of a neighbour's status.
 */
#include "server.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static Options options;
static int sock;
static Server this_server;
Server* server = &this_server;

void NeighborList::insert(Neighbor* neighbor) {
  int place = count_++;
  for (; place > 0 && items_[place - 1]->id > neighbor->id; place--) items_[place] = items_[place - 1];
  items_[place] = neighbor;
}

static void add_neighbor(int id) {
  Neighbor* neighbor = &server->neighbors[server->nneighbors++];
  neighbor->id = id;
  server->list.insert(neighbor);
}

static void greet(Neighbor* neighbor) {
  if (!neighbor->cut) send_to_peer(sock, &options, neighbor->id, &server->told, sizeof server->told);
}

static void init_server(int k, int64_t now) {
  const int nodes = options.nodes;
  server->id = options.self;
  server->k = k;
  server->nodes = nodes;
  server->withheld = -1;
  server->cut_at += now;
  server->told.from = static_cast<uint32_t>(server->id);
  server->told.paths[server->id][0] = {1, {static_cast<uint8_t>(server->id)}};
  for (int i = 0; i < nodes; i++)
    server->routes[i] = {.destination = i, .next_hop = -1, .usable = 0, .npaths = 0, .paths = {}};
  for (int step : {1, nodes / 2, nodes - 1}) add_neighbor((server->id + step) % nodes);
  for (NeighborList::iterator i = server->list.begin(); i != server->list.end(); ++i) {
    greet(*i); /* the published example breaks here */
  }
}

void set_status(Neighbor* neighbor, int status) {
  neighbor->status = status;
  printf("n%d neighbor %d %s\n", server->id, neighbor->id, status ? "up" : "down");
}

static void take_update(const Update& update, int64_t now) {
  for (auto i = server->list.begin(); i != server->list.end(); ++i) {
    Neighbor* neighbor = *i;
    if (neighbor->id != static_cast<int>(update.from) || neighbor->cut || neighbor->ignored) continue;
    neighbor->heard = now;
    neighbor->update = update;
    if (!neighbor->status) set_status(neighbor, 1);
  }
  compute_routes();
}

static void check_neighbors(int64_t now) {
  const bool is_end = server->id == server->cut_ends[0] || server->id == server->cut_ends[1];
  for (auto i = server->list.begin(); i != server->list.end(); ++i) {
    Neighbor* neighbor = *i;
    if (is_end && now >= server->cut_at && (neighbor->id == server->cut_ends[0] || neighbor->id == server->cut_ends[1]))
      neighbor->cut = true;
    if (!neighbor->status || now - neighbor->heard < MISSES * PERIOD) continue;
    set_status(neighbor, 0);
    plant_fault(neighbor);
  }
  compute_routes();
}

/* The socket is always read before a neighbour is called silent: a node that slept for long has its updates waiting. */
static void run(int64_t end) {
  int64_t round = now_ms();
  while (now_ms() < end) {
    Update update;
    if (receive_until(sock, std::min(round, end), &update, sizeof update)) {
      take_update(update, now_ms());
    } else if (now_ms() >= round) {
      round = now_ms() + PERIOD;
      while (receive_until(sock, now_ms() + 1, &update, sizeof update)) take_update(update, now_ms());
      check_neighbors(now_ms());
      for (auto i = server->list.begin(); i != server->list.end(); ++i) greet(*i);
    }
  }
}

int main(int argc, char** argv) {
  int k = 2, cut_at = 0;
  options = parse_options(argc, argv);
  server->cut_ends[0] = server->cut_ends[1] = -1;
  bool good = options.nodes >= 6 && options.nodes <= MAX_NODES && options.nodes % 2 == 0;
  for (int i = 5; i < argc; i++) {
    if (strncmp(argv[i], "k=", 2) == 0) k = atoi(argv[i] + 2);
    else if (strncmp(argv[i], "fault=", 6) == 0) good = good && read_fault(argv[i] + 6, &server->fault);
    else good = good && sscanf(argv[i], "cut=%d-%d@%d", &server->cut_ends[0], &server->cut_ends[1], &cut_at) == 3;
  }
  if (!good || k < 1 || k > MAX_K) {
    fprintf(stderr,
            "usage: %s SELF PORT,PORT... SECONDS SEED [k=K] [cut=A-B@MS] [fault=loop|hole|lone], an even number of 6 "
            "to 16 nodes\n",
            argv[0]);
    return 2;
  }
  sock = open_peers(&options);
  server->cut_at = cut_at;
  init_server(k, now_ms());
  run(now_ms() + options.seconds * 1000);
  printf("n%d ends\n", server->id);
  return 0;
}
