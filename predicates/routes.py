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


def loops_to(tables: Tables, destination: Id) -> list[list[Id]]:
    """The loops of packets to one destination, each as a path that begins and ends with the same id. Each node is passed once."""
    found: list[list[Id]] = []
    passed: dict[Id, Id] = {}  # with the source from which it was reached
    for source in tables:
        path, at = [source], source
        while at != destination and at in tables and at not in passed:
            passed[at] = source
            hop = tables[at].get(destination)
            if hop is None:
                path.clear()
                break
            at = hop
            path.append(at)
        if len(path) > 1 and at != destination and passed.get(at) == source:
            found.append(path[path.index(at):])
    return found


def black_holes_to(tables: Tables, destination: Id) -> dict[Id, list[Id]]:
    """Where packets to one live destination are lost: the shortest path to each such place, by its id."""
    found: dict[Id, list[Id]] = {}
    for source in tables if destination in tables else ():
        if source == destination or destination not in tables[source]:
            continue  # the source does not claim to have a route
        hop = tables[source][destination]
        if hop is None:
            found[source] = [source]
        elif hop != destination and (hop not in tables or destination not in tables[hop]):
            found.setdefault(hop, [source, hop])
    return found


def find_loops(tables: Tables) -> dict[tuple[Id, frozenset[Id]], list[Id]]:
    """All loops, by (destination, ids in the loop). The values are their paths, which begin and end with the same id."""
    return {(d, frozenset(circle)): circle for d in {d for table in tables.values() for d in table} for circle in loops_to(tables, d)}


def find_black_holes(tables: Tables) -> dict[tuple[Id, Id], list[Id]]:
    """Where packets to a live destination are lost: the shortest path to each such place, by (destination, last id of the
    path)."""
    return {(d, end): path for d in tables for end, path in black_holes_to(tables, d).items()}


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

    def reset(self) -> None:
        self._judged: Tables = {}
        self._wrong: dict[Id, list[Fault]] = {}  # what is wrong with the ways to a destination, where something is

    def faults(self) -> Iterable[Fault]:
        """Follows the ways to those destinations of which a next hop has changed, and to all when a node has come or gone."""
        tables = self.tables()
        by_id = {row["id"]: node for node, row in self.rows.items()}
        if tables.keys() == self._judged.keys():
            again = {d for id, table in tables.items() if table is not self._judged[id] for d, _ in table.items() ^ self._judged[id].items()}
        else:
            again = {d for table in tables.values() for d in table} | self._wrong.keys()
        self._judged = tables
        for destination in again:
            wrong = [*self._loops(tables, destination, by_id), *self._holes(tables, destination, by_id)]
            if wrong:
                self._wrong[destination] = wrong
            else:
                self._wrong.pop(destination, None)
        return [fault for wrong in self._wrong.values() for fault in wrong]

    def _loops(self, tables: Tables, destination: Id, by_id: Mapping[Id, friday.Node]) -> Iterable[Fault]:
        for circle in loops_to(tables, destination):
            yield self._fault(("loop", destination, frozenset(circle)), f"packets to {destination} run in a loop: {_way(circle)}", circle, destination, by_id)

    def _holes(self, tables: Tables, destination: Id, by_id: Mapping[Id, friday.Node]) -> Iterable[Fault]:
        for end, path in black_holes_to(tables, destination).items():
            why = "has no route" if end in tables else "has ended"
            yield self._fault(("hole", destination, end), f"packets to {destination} end at {end}, which {why}: {_way(path)}", path, destination, by_id)

    def _fault(self, key: Hashable, message: str, path: list[Id], destination: Id, by_id: Mapping[Id, friday.Node]) -> Fault:
        nodes = tuple(dict.fromkeys(by_id[id] for id in path if id in by_id))
        hops = {node.name: self.rows[node]["routes"].get(destination) for node in nodes}
        return Fault(key, message, nodes, {"destination": destination, "next_hops": hops})


def _way(path: Iterable[Id]) -> str:
    return " -> ".join(map(str, path))


if __name__ == "__main__":
    main(Routes)
