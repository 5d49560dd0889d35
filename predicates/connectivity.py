"""friday run predicates/connectivity.py REC -- --id EXPR --neighbours EXPR --k 2: k vertex-disjoint paths between all nodes.

The neighbour tables of all nodes together form the connectivity graph. The predicate checks that at least k paths lead from
each node to each other node, of which no two share a node in between ("Friday", sections 4.2.1 and 4.2.2, does this for a
toolkit whose nodes must find k disjoint paths, and measures when each did). With k = 1 it checks that the graph is connected.

    friday run predicates/connectivity.py REC -- --id self.id --neighbours neighbours --neighbour id --usable 'status' --k 2 --lasting 5
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Hashable, Iterable, Mapping

from predicates.check import Check, Expression, Fault, main
from predicates.names import field, items

import friday

Id = Hashable
Graph = Mapping[Id, Iterable[Id]]
"""For each node's id, the ids of its neighbours."""


# Every vertex is split into an entrance (_IN) and an exit (_OUT), joined by one edge of capacity one, so that only one path
# passes through it.
_Place = tuple[Id, int]
_IN, _OUT = 0, 1


def vertex_disjoint_paths(graph: Graph, source: Id, sink: Id, most: int | None = None) -> list[list[Id]]:
    """A largest set of paths that share no vertex but source and sink, shortest path first; at most `most` paths.

    By Menger's theorem, if source and sink are no neighbours, as many vertices must fail to separate them as there are paths.
    Each round finds one more path and may reroute parts of earlier ones (Ford and Fulkerson, "Maximal Flow Through a Network",
    1956, with capacity one for each vertex).

    >>> vertex_disjoint_paths({1: [2, 3], 2: [4], 3: [4], 4: []}, 1, 4)
    [[1, 2, 4], [1, 3, 4]]
    """
    if source == sink:
        return []
    flow: dict[_Place, set[_Place]] = collections.defaultdict(set)  # the edges that paths use
    into: dict[_Place, set[_Place]] = collections.defaultdict(set)  # the same edges, reversed
    while most is None or len(flow[source, _OUT]) < most:
        way = _one_more(graph, (source, _OUT), (sink, _IN), flow, into)
        if way is None:
            break
        for a, b in zip(way, way[1:]):
            if a in flow[b]:
                flow[b].remove(a), into[a].remove(b)
            else:
                flow[a].add(b), into[b].add(a)
    paths = [_follow(flow, source, place, sink) for place in flow[source, _OUT]]
    return sorted(paths, key=lambda path: (len(path), list(map(str, path))))


def _one_more(graph: Graph, start: _Place, end: _Place, flow: Mapping[_Place, set[_Place]], into: Mapping[_Place, set[_Place]]) -> list[_Place] | None:
    """An augmenting path: it uses free edges forwards and used edges backwards. None when there is none."""
    came: dict[_Place, _Place] = {start: start}
    queue = collections.deque([start])
    while queue and end not in came:
        place = queue.popleft()
        vertex, side = place
        forward = [(vertex, _OUT)] if side == _IN else [(next_, _IN) for next_ in graph.get(vertex, ()) if next_ != vertex]
        for next_ in [*(next_ for next_ in forward if next_ not in flow[place]), *into[place]]:
            if next_ not in came:
                came[next_] = place
                queue.append(next_)
    if end not in came:
        return None
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


def _follow(flow: Mapping[_Place, set[_Place]], source: Id, place: _Place, sink: Id) -> list[Id]:
    path = [source, place[0]]
    while path[-1] != sink:
        (place,) = flow[path[-1], _OUT]
        path.append(place[0])
    return path


class DisjointPaths(Check):
    """Each live node has k vertex-disjoint paths to each other live node.

    id: the node's identifier. neighbours: a collection of the node's neighbours (names.py has the forms). An element is an
    identifier, or has one in the field that `neighbour` names; it counts if its field `usable` is true, or always if no
    `usable` is given. neighbours may also be a function that returns such a collection. k: how many paths are required; when fewer than
    k + 1 nodes are live, one less than the number of live nodes. The other options are those of Check. Faults can heal, so
    judges apply: a graph that is being built is not connected at once. Evidence: the paths that exist and the neighbours of
    both nodes. `found` has for each pair of ids the time, in seconds of logical time, at which it first had the required
    paths."""

    name = "disjoint_paths"
    of_rows = True

    def __init__(self, session: friday.Session, *, id: Expression, neighbours: Expression, neighbour: str = "", usable: str = "", k: int = 1,
                 **options: Any) -> None:
        self.k = k
        super().__init__(session, {"id": id, "neighbours": self._reader(neighbours, neighbour, usable)}, follow=[id, neighbours], **options)

    @staticmethod
    def _reader(neighbours: Expression, neighbour: str, usable: str) -> Callable[[friday.Node], frozenset[Id]]:
        read = items(neighbours)
        return lambda node: frozenset(field(one, neighbour) for one in read(node) if not usable or field(one, usable))

    def reset(self) -> None:
        self.found: dict[tuple[Id, Id], float] = {}
        self.flows = 0  # pairs whose paths were looked for
        self._graph: dict[Id, frozenset[Id]] = {}
        self._wanted = 0
        self._paths: dict[tuple[Id, Id], list[list[Id]]] = {}  # of each pair, those found last
        self._users: dict[tuple[Id, Id], set[tuple[Id, Id]]] = collections.defaultdict(set)  # the pairs whose paths use an edge
        self._short: set[tuple[Id, Id]] = set()  # the pairs with too few paths

    def graph(self) -> dict[Id, frozenset[Id]]:
        """The ids of each live node's live neighbours, now."""
        ids = {row["id"] for row in self.rows.values()}
        return {row["id"]: row["neighbours"] & ids for row in self.rows.values()}

    def faults(self) -> Iterable[Fault]:
        graph = self.graph()
        if graph != self._graph:
            self._look_again(graph)
        nodes = {row["id"]: node for node, row in self.rows.items()}
        for source, sink in self._short:
            paths = self._paths[source, sink]
            yield Fault((source, sink), f"{nodes[source].name} has {len(paths)} of {self._wanted} disjoint paths to {nodes[sink].name}",
                        (nodes[source], nodes[sink]), {"paths": paths, "neighbours": {nodes[id].name: sorted(graph[id], key=str) for id in (source, sink)}})

    def _look_again(self, graph: dict[Id, frozenset[Id]]) -> None:
        """Looks for the paths of those pairs for which something may have changed: an edge of their paths is gone, they had too few and there are
        new edges, or one of the two is new."""
        before, wanted = self._graph, min(self.k, len(graph) - 1)
        nothing: frozenset[Id] = frozenset()
        lost = [(a, b) for a in before for b in before[a] - graph.get(a, nothing)]
        again = {pair for edge in lost for pair in self._users.pop(edge, ())}
        if wanted != self._wanted:
            again = {(a, b) for a in graph for b in graph if a != b}
        elif any(graph[a] - before.get(a, nothing) for a in graph):
            again |= self._short
        new, gone = graph.keys() - before.keys(), before.keys() - graph.keys()
        again |= {pair for a in new for b in graph if a != b for pair in ((a, b), (b, a))}
        for pair in [pair for pair in self._paths if gone.intersection(pair)] if gone else ():
            self._forget(pair)
        self._graph, self._wanted = graph, wanted
        entering = collections.Counter(b for a in graph for b in graph[a])
        for source, sink in again:
            if source in graph and sink in graph:
                self._forget((source, sink))
                self._look_for(source, sink, min(self.k, len(graph[source]), entering[sink]))

    def _look_for(self, source: Id, sink: Id, most: int) -> None:
        """The paths of one pair, of which there are at most so many as edges leave the source and enter the sink."""
        self.flows += 1
        pair = source, sink
        self._paths[pair] = paths = vertex_disjoint_paths(self._graph, source, sink, most)
        for path in paths:
            for edge in zip(path, path[1:]):
                self._users[edge].add(pair)
        if len(paths) >= self._wanted:
            self.found.setdefault(pair, self.now())
        else:
            self._short.add(pair)

    def _forget(self, pair: tuple[Id, Id]) -> None:
        for path in self._paths.pop(pair, ()):
            for edge in zip(path, path[1:]):
                self._users[edge].discard(pair)
        self._short.discard(pair)


if __name__ == "__main__":
    main(DisjointPaths)
