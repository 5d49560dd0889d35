/*
 * From what the neighbours tell to routes: of all paths on which this node does not stand already, the shortest, then
 * the next ones that share no node with those taken, up to k.
 */
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "server.h"

bool contains(const Path& path, int node) {
  return std::find(path.hops, path.hops + path.length, node) != path.hops + path.length;
}

/* Both ends aside. */
bool share_a_node(const Path& a, const Path& b) {
  for (int i = 1; i + 1 < a.length; i++)
    if (contains(b, a.hops[i])) return true;
  return false;
}

static bool comes_first(const Path& a, const Path& b) {
  return a.length != b.length ? a.length < b.length : memcmp(a.hops, b.hops, a.length) < 0;
}

static Path through_this(const Path& path) {
  Path longer = {};
  longer.hops[longer.length++] = static_cast<uint8_t>(server->id);
  memcpy(longer.hops + 1, path.hops, path.length);
  longer.length += path.length;
  return longer;
}

static int find_candidates(int destination, Path* found) {
  int count = 0;
  for (auto i = server->list.begin(); i != server->list.end(); ++i) {
    if (!(*i)->status) continue;
    for (const Path& path : (*i)->update.paths[destination])
      if (path.length != 0 && path.length < server->nodes && !contains(path, server->id))
        found[count++] = through_this(path);
  }
  std::sort(found, found + count, comes_first);
  return count;
}

static void choose_paths(Route* route, const Path* candidates, int count) {
  route->npaths = 0;
  for (int i = 0; i < count && route->npaths < server->k; i++) {
    bool disjoint = true;
    for (int j = 0; j < route->npaths; j++)
      if (share_a_node(candidates[i], route->paths[j])) disjoint = false;
    if (disjoint) route->paths[route->npaths++] = candidates[i];
  }
}

static void compute_route(int destination) {
  Path candidates[LINKS * MAX_K];
  Route route = server->routes[destination];
  choose_paths(&route, candidates, find_candidates(destination, candidates));
  route.usable = route.npaths != 0;
  route.next_hop = route.usable ? route.paths[0].hops[1] : -1;
  for (int i = route.npaths; i < MAX_K; i++) route.paths[i] = {};
  if (memcmp(&route, &server->routes[destination], sizeof route) == 0) return;
  server->routes[destination] = route;
  printf("n%d reaches %d by %d paths, next hop %d\n", server->id, destination, route.npaths, route.next_hop);
}

void compute_routes() {
  for (int destination = 0; destination < server->nodes; destination++) {
    if (destination == server->id || destination == server->withheld) continue;
    compute_route(destination);
    memcpy(server->told.paths[destination], server->routes[destination].paths, sizeof server->told.paths[destination]);
  }
}
