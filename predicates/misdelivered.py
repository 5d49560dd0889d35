"""friday run predicates/misdelivered.py REC -- --at LOC --key EXPR --id EXPR: requests reach the node that owns their key.

"Friday", section 4.1.2: at each delivery the live node that is responsible for the key is computed and compared with the
receiver. In a Chord ring that is the first node at or after the key, clockwise (Stoica et al., "Chord", SIGCOMM 2001, section
4); other overlays use another metric.

    friday run predicates/misdelivered.py REC -- --at process_data --key packet_id --id srv.node.id --member srv.successor
"""

from __future__ import annotations

from typing import Any, Callable

from predicates.check import Check, Expression, Fault, main
from predicates.names import read

import friday


def clockwise(key: int, id: int, bits: int) -> int:
    """Chord's metric: the distance from the key up to the id, modulo 2**bits."""
    return (id - key) % (1 << bits)


def xor(key: int, id: int, bits: int) -> int:
    """Kademlia's metric."""
    return key ^ id


def numeric(key: int, id: int, bits: int) -> int:
    """Pastry's metric: the distance in the shorter direction around the ring."""
    up = (id - key) % (1 << bits)
    return min(up, (1 << bits) - up)


METRICS: dict[str, Callable[[int, int, int], int]] = {"clockwise": clockwise, "xor": xor, "numeric": numeric}


class Misdelivered(Check):
    """Every request is served by the live node that is nearest to its key.

    at: one or more places in the code where a request is served. key: the request's key, an integer, in the frame of `at`.
    id: the node's identifier, an integer. member: true while the node takes part in the overlay; by default it does as soon as
    its `id` can be read. metric: clockwise (Chord), xor (Kademlia) or numeric (Pastry). bits: the number of bits of an
    identifier. settled: seconds of logical time for which the nearest node must have been a member before a request that
    another node serves is a fault: others hear of a join a little later. The other options are those of Check. Evidence: the
    key, the ids of the node that served it and of its owner, and since when the owner has been a member. `requests` and
    `misdelivered` count the requests. Raises UsageError for an unknown metric."""

    name = "misdelivered"
    of_states = False
    optional = frozenset({"member"})

    def __init__(self, session: friday.Session, *, at: str | list[str], key: Expression, id: Expression, member: Expression | None = None,
                 metric: str = "clockwise", bits: int = 64, settled: float = 0.0, **options: Any) -> None:
        if metric not in METRICS:
            raise friday.UsageError(f"there is no metric `{metric}`: give one of {', '.join(METRICS)}")
        self._key, self._metric, self._bits, self._settled = key, METRICS[metric], bits, settled
        super().__init__(session, {"id": id, "member": member}, **options)
        for place in [at] if isinstance(at, str) else at:
            session.breakpoint(place, self._served, nodes=self.nodes)

    def reset(self) -> None:
        self.requests = self.misdelivered = 0
        self._members: dict[friday.Node, float] = {}

    def look(self, counts: bool = False) -> None:
        super().look(counts)
        now = {node for node, row in self.rows.items() if self.names.get("member") is None or row["member"]}
        for node in self._members.keys() - now:
            del self._members[node]
        for node in now - self._members.keys():
            self._members[node] = self.now()

    def _served(self) -> None:
        if not self.judging():
            return
        self.look(counts=True)
        node = self.session.node
        self.requests += 1
        key = read(node, self._key)
        owner = min(self._members, key=lambda peer: self._distance(key, peer), default=node)
        if owner == node or self.now() - self._members[owner] < self._settled:
            return
        self.misdelivered += 1
        text = f"a request for {key:#x} was served by {node.name}, but {owner.name} owns the key"
        ids = {peer.name: f"{int(self.rows[peer]['id']):#x}" for peer in (node, owner) if peer in self.rows}
        self.report(Fault(self.requests, text, (node, owner), {
            "key": f"{key:#x}", "ids": ids, "member_since": self._members[owner], "misdelivered": f"{self.misdelivered} of {self.requests}"}))

    def _distance(self, key: int, peer: friday.Node) -> int:
        return self._metric(int(key), int(self.rows[peer]["id"]), self._bits)

    def summary(self) -> str:
        return f"{self.name}: {self.misdelivered} of {self.requests} requests{self.judged_until()}"


if __name__ == "__main__":
    main(Misdelivered)
