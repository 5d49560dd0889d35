"""friday run predicates/routes.py REC -- --id EXPR --routes EXPR: no routing loops, no black holes.

The routing tables of all nodes together determine the path of a packet: from node to node along the next hops towards its
destination. The packet must arrive; it must neither run in a loop nor end at a node that has no route or has ended. ("Friday",
section 4.2, checks such properties of a routing toolkit.)

    friday run predicates/routes.py REC -- --id self.id --routes 'routes[:nroutes]' --destination dest --next-hop via \
        --usable up --lasting 2
"""

from __future__ import annotations

from typing import Any, Callable, Hashable, Iterable, Mapping

from predicates.check import Check, Expression, Fault, main
from predicates.names import field, items

import friday

Id = Hashable
Tables = Mapping[Id, Mapping[Id, Id]]
"""For each node's id, the next hop to each destination."""


def walk(tables: Tables, source: Id, destination: Id) -> tuple[str, list[Id]]:
    """Follows the next hops from source to destination. Returns how it ends ("arrives", "loop", "no route" or "gone") and the
    ids on the path. The path of a loop ends with the first id that it reaches a second time.

    >>> walk({1: {3: 2}, 2: {3: 1}, 3: {}}, 1, 3)
    ('loop', [1, 2, 1])
    """
    path, at = [source], source
    while at != destination:
        if at not in tables:
            return "gone", path
        hop = tables[at].get(destination)
        if hop is None:
            return "no route", path
        at = hop
        path.append(at)
        if at in path[:-1]:
            return "loop", path
    return ("arrives" if at in tables else "gone"), path


def find_loops(tables: Tables) -> dict[tuple[Id, frozenset[Id]], list[Id]]:
    """All loops, by (destination, ids in the loop). The values are their paths, which begin and end with the same id."""
    found: dict[tuple[Id, frozenset[Id]], list[Id]] = {}
    for destination in {d for table in tables.values() for d in table}:
        for source in tables:
            how, path = walk(tables, source, destination)
            if how == "loop":
                circle = path[path.index(path[-1]):]
                found.setdefault((destination, frozenset(circle)), circle)
    return found


def find_black_holes(tables: Tables) -> dict[tuple[Id, Id], list[Id]]:
    """Where packets to a live destination are lost: the shortest path to each such place, by (destination, last id of the
    path)."""
    found: dict[tuple[Id, Id], list[Id]] = {}
    for destination in tables:
        for source in tables:
            if source == destination or destination not in tables[source]:
                continue  # the source does not claim to have a route
            how, path = walk(tables, source, destination)
            if how in ("no route", "gone"):
                key = destination, path[-1]
                if key not in found or len(path) < len(found[key]):
                    found[key] = path
    return found


class Routes(Check):
    """Packets arrive at every destination for which a node has a route.

    id: the node's identifier in the tables. routes: the table, a collection of routes (names.py has the forms), or a function
    that returns a dictionary from destination to next hop. destination, next_hop: the fields of a route that hold these.
    usable: a field that is true in the entries that count; by default all count. The other options are those of Check. Faults
    can heal, so judges apply. Evidence: the path of a packet, and the next hops of the nodes on it."""

    name = "routes"
    of_rows = True

    def __init__(self, session: friday.Session, *, id: Expression, routes: Expression, destination: str = "destination",
                 next_hop: str = "next_hop", usable: str = "", **options: Any) -> None:
        table = routes if callable(routes) else self._table(routes, destination, next_hop, usable)
        super().__init__(session, {"id": id, "routes": table}, follow=[id, routes], **options)

    @staticmethod
    def _table(routes: str, destination: str, next_hop: str, usable: str) -> Callable[[friday.Node], dict[Id, Id]]:
        read = items(routes)
        return lambda node: {field(route, destination): field(route, next_hop) for route in read(node) if not usable or field(route, usable)}

    def tables(self) -> Tables:
        """The routing tables of all nodes, now."""
        return {row["id"]: row["routes"] for row in self.rows.values()}

    def faults(self) -> Iterable[Fault]:
        tables = self.tables()
        for (destination, members), circle in find_loops(tables).items():
            yield self._fault(("loop", destination, members), f"packets to {destination} run in a loop: {_way(circle)}", circle, destination)
        for (destination, end), path in find_black_holes(tables).items():
            why = "has no route" if end in tables else "has ended"
            yield self._fault(("hole", destination, end), f"packets to {destination} end at {end}, which {why}: {_way(path)}", path, destination)

    def _fault(self, key: Hashable, message: str, path: list[Id], destination: Id) -> Fault:
        by_id = {row["id"]: node for node, row in self.rows.items()}
        nodes = tuple(dict.fromkeys(by_id[id] for id in path if id in by_id))
        hops = {node.name: self.rows[node]["routes"].get(destination) for node in nodes}
        return Fault(key, message, nodes, {"destination": destination, "next_hops": hops})


def _way(path: Iterable[Id]) -> str:
    return " -> ".join(map(str, path))


if __name__ == "__main__":
    main(Routes)
