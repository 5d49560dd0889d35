/*
 * The bugs that fault=NAME switches on at the node of the lower number at the link that is cut. Until then nothing is
 * wrong. Each does something wrong with the destination B at the other end, once, and keeps it:
 *
 *   loop  B is reached through a neighbour whose own path to B leads through this node, and that neighbour is told
 * nothing: the two send packets to B to each other. hole  the route to B is dropped, and nobody is told: packets to B
 * end here. lone  all other neighbours but the first are taken for gone too: one path is left to everybody.
 */
#include <cstdio>
#include <cstring>

#include "server.h"

bool read_fault(const char* name, Fault* fault) {
  const struct {
    const char* name;
    Fault fault;
  } known[] = {{"none", Fault::none}, {"loop", Fault::loop}, {"hole", Fault::hole}, {"lone", Fault::lone}};
  for (const auto& one : known)
    if (strcmp(name, one.name) == 0) return *fault = one.fault, true;
  return false;
}

static void take_circle(Route* route) {
  for (auto i = server->list.begin(); i != server->list.end(); ++i) {
    const Path& theirs = (*i)->update.paths[route->destination][0];
    if (!(*i)->status || theirs.length < 2 || theirs.hops[1] != server->id) continue;
    route->next_hop = (*i)->id;
    printf("n%d fault: packets to %d go to %d, which sends them here\n", server->id, route->destination,
           route->next_hop);
    return;
  }
  server->withheld = -1; /* nobody reaches it through this node: there is no circle to take */
}

static void drop_route(Route* route) {
  route->usable = route->npaths = 0;
  route->next_hop = -1;
  printf("n%d fault: packets to %d end here\n", server->id, route->destination);
}

static void ignore_others() {
  auto i = server->list.begin();
  while (!(*i)->status) ++i;
  for (++i; i != server->list.end(); ++i) {
    (*i)->ignored = true;
    if ((*i)->status) printf("n%d fault: %d is taken for gone\n", server->id, (*i)->id);
    if ((*i)->status) set_status(*i, 0);
  }
}

/* Called when a neighbour was given up, before routes are computed. */
void plant_fault(const Neighbor* gone) {
  if (!gone->cut || server->id > gone->id || server->fault == Fault::none) return;
  if (server->fault == Fault::lone) return ignore_others();
  Route* route = &server->routes[gone->id];
  server->withheld = gone->id;
  server->fault == Fault::loop ? take_circle(route) : drop_route(route);
}
