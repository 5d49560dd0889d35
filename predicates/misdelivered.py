"""friday run predicates/misdelivered.py REC -- --at LOC --key EXPR --id EXPR: requests reach the node that owns their key.

"Friday", section 4.1.2: at each delivery all live nodes are asked whether they, not the receiver, are responsible for the key. In a
ring that is the first node at or after the key, clockwise (Stoica et al., "Chord", SIGCOMM 2001, section 4); other overlays measure
otherwise.

    friday run predicates/misdelivered.py REC -- --at process_data --key packet_id --id srv.node.id --member srv.successor
"""

from __future__ import annotations

from typing import Any, Callable

from predicates.check import Check, Expression, Fault, main
from predicates.names import read

import friday


def clockwise(key: int, id: int, bits: int) -> int:
    """How far it is from the key to the id, going up: Chord's successor is nearest."""
    return (id - key) % (1 << bits)


def xor(key: int, id: int, bits: int) -> int:
    """Kademlia's distance."""
    return key ^ id


def numeric(key: int, id: int, bits: int) -> int:
    """Pastry's: the shorter way around."""
    up = (id - key) % (1 << bits)
    return min(up, (1 << bits) - up)


METRICS: dict[str, Callable[[int, int, int], int]] = {"clockwise": clockwise, "xor": xor, "numeric": numeric}


class Misdelivered(Check):
    """Every request is served by the live node that is nearest to its key.

    at: where a request is served. key: its key, in the frame of `at`. id: a node's identifier. member: true while a node
    takes part in the overlay (default: from its first `id` on). metric: clockwise (Chord), xor (Kademlia), numeric (Pastry).
    bits: of identifiers. settled: seconds for which the owner must have been the owner, so that a join or a death, of which
    others hear a little later, is no fault. Evidence: key, who served it, who owns it since when. `requests` and
    `misdelivered` are the counts."""

    name = "misdelivered"
    of_states = False
    optional = frozenset({"member"})

    def __init__(self, session: friday.Session, *, at: str | list[str], key: Expression, id: Expression, member: Expression | None = None,
                 metric: str = "clockwise", bits: int = 64, settled: float = 0.0, **options: Any) -> None:
        if metric not in METRICS:
            raise friday.UsageError(f"no metric `{metric}`; there are {', '.join(METRICS)}")
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
        self.follow_restart()
        self.look(counts=True)
        node = self.session.node
        self.requests += 1
        key = read(node, self._key)
        owner = min(self._members, key=lambda peer: self._distance(key, peer), default=node)
        if owner == node or self.now() - self._members[owner] < self._settled:
            return
        self.misdelivered += 1
        text = f"a request for {key:#x} was served by {node.name}, and {owner.name} owns it"
        ids = {peer.name: f"{int(self.rows[peer]['id']):#x}" for peer in (node, owner) if peer in self.rows}
        self.report(Fault(self.requests, text, (node, owner), {
            "key": f"{key:#x}", "ids": ids, "member_since": self._members[owner], "misdelivered": f"{self.misdelivered} of {self.requests}"}))

    def _distance(self, key: int, peer: friday.Node) -> int:
        return self._metric(int(key), int(self.rows[peer]["id"]), self._bits)

    def summary(self) -> str:
        return f"{self.name}: {self.misdelivered} of {self.requests} requests"


if __name__ == "__main__":
    main(Misdelivered)
