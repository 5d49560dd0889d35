"""friday run predicates/connectivity.py REC -- --id EXPR --neighbours EXPR --k 2: k vertex-disjoint paths to everybody.

The connectivity graph that all nodes' neighbour tables make together, and whether each node reaches each other on at least k
paths that share no node between ("Friday", sections 4.2.1 and 4.2.2: a toolkit whose nodes must find k disjoint paths, and when each
did). With k = 1 it asks whether the graph is connected at all.

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
"""For each id those that it has an edge to."""


_Place = tuple[Id, int]  # every vertex is split in two, with one passage between: where one comes in, where one goes out
_IN, _OUT = 0, 1


def vertex_disjoint_paths(graph: Graph, source: Id, sink: Id, most: int | None = None) -> list[list[Id]]:
    """As many paths as there are (`most` at most) that share no vertex but source and sink, shortest first.

    By Menger's theorem that is also how many vertices must fail to separate them when they are no neighbours. Each round
    finds one path more and may take back parts of earlier ones (Ford and Fulkerson, "Maximal Flow Through a Network", 1956,
    with capacity one for each vertex).

    >>> vertex_disjoint_paths({1: [2, 3], 2: [4], 3: [4], 4: []}, 1, 4)
    [[1, 2, 4], [1, 3, 4]]
    """
    if source == sink:
        return []
    flow: dict[_Place, set[_Place]] = collections.defaultdict(set)  # the edges in use
    into: dict[_Place, set[_Place]] = collections.defaultdict(set)  # the same, backwards
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
    """A way over edges that are not in use, or back over those that are."""
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
    """Each live node has k vertex-disjoint paths to each other.

    id: the node's identifier. neighbours: whom it is connected to, a collection (names.py has the forms) whose elements'
    field `neighbour` is an identifier, and `usable` true for those that count; or a function that returns identifiers. k: how
    many paths are wanted; to or from a node with fewer live nodes around than k, as many as there can be. The rest as
    Check; a state, so judges apply: a graph that grows is not connected at once. Evidence: the paths there are, and both nodes'
    neighbours. `found` tells for each pair when it first had k paths, in seconds of logical time."""

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
        self._graph: dict[Id, frozenset[Id]] = {}
        self._faults: list[Fault] = []

    def graph(self) -> dict[Id, frozenset[Id]]:
        """The edges between live nodes now."""
        ids = {row["id"] for row in self.rows.values()}
        return {row["id"]: row["neighbours"] & ids for row in self.rows.values()}

    def faults(self) -> Iterable[Fault]:
        graph = self.graph()
        if graph != self._graph:
            self._graph, self._faults = graph, list(self._missing(graph))
        return self._faults

    def _missing(self, graph: dict[Id, frozenset[Id]]) -> Iterable[Fault]:
        nodes = {row["id"]: node for node, row in self.rows.items()}
        wanted = min(self.k, len(graph) - 1)
        for source in graph:
            for sink in graph.keys() - {source}:
                paths = vertex_disjoint_paths(graph, source, sink, self.k)
                if len(paths) >= wanted:
                    self.found.setdefault((source, sink), self.now())
                else:
                    yield Fault((source, sink), f"{nodes[source].name} has {len(paths)} of {wanted} disjoint paths to {nodes[sink].name}",
                                (nodes[source], nodes[sink]), {"paths": paths, "neighbours": {nodes[id].name: sorted(graph[id], key=str) for id in (source, sink)}})


if __name__ == "__main__":
    main(DisjointPaths)
