"""Decides whether a Chord ring is consistent: the logic of ring.py in plain Python. It is told all changes of links in order of
time.

A ring is consistent when each node's successor is the next live node of the ring and its predecessor the previous one. While
nodes join and die it cannot be: a node that joins is unknown to its predecessor for a round of stabilisation, and others keep
their links to a node that died until they give it up. Such transients heal by themselves. A link that skips a live node of the
ring, or points to a dead node, for longer than `grace` is a violation.

If a node moves its successor from a live node to one beyond it, the change is suspect at once, because neither a join nor a
death explains it. update() returns such a break when it happens, so that evidence can be collected at that moment; it becomes
a violation if it lasts.

    >>> ring = RingState(grace=2.0)
    >>> for node, id, after in (("a", 1, 5), ("b", 5, 9), ("c", 9, 1)):
    ...     _ = ring.update(node, id, successor=after, predecessor=None, time=0.0)
    >>> ring.update("a", 1, successor=9, predecessor=None, time=7.0)
    [<Break a.successor=0x9 skips b since 7.000, unexplained>]
    >>> ring.advance(8.0), ring.advance(9.5)
    ([], [<Break a.successor=0x9 skips b since 7.000, unexplained>])
"""

from __future__ import annotations

import dataclasses
from typing import Any, Hashable, Iterator

PERIOD = 0.25  # seconds between two rounds of stabilisation
ROUNDS_TO_DETECT = 8  # rounds until a dead neighbour is given up: silence, unanswered pings, and jitter
ROUNDS_TO_HEAL = 3  # rounds until the neighbours know of a join or of a replaced link

Name = Hashable


def is_between(x: int, a: int, b: int, bits: int = 64) -> bool:
    """Whether x lies strictly between a and b, clockwise. If a == b, all other points of the ring do."""
    size = 1 << bits
    distance, width = (x - a) % size, (b - a) % size
    return distance != 0 and (width == 0 or distance < width)


@dataclasses.dataclass(eq=False)
class Break:
    """One link that is wrong about one other node.

    `link` is "successor" or "predecessor", a link of `node`; `value` is the id that the link holds. `kind` is "skips" if the
    link skips the live node `other`, "dead" if it points to `other`, which has ended. `since` is the real time in seconds at
    which the link became wrong, `reported` the time at which it was reported as a violation, or None. `unexplained`: the node
    itself moved the link past a live node. The caller fills in `evidence`.
    """

    node: Name
    id: int
    link: str
    kind: str
    value: int
    other: Name
    other_id: int
    since: float
    unexplained: bool = False
    reported: float | None = None
    evidence: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def verb(self) -> str:
        return "skips" if self.kind == "skips" else "names dead"

    def message(self, now: float) -> str:
        """A sentence that describes the break. `now` is the real time in seconds."""
        text = f"{self.node} ({self.id:#x}): its {self.link} {self.value:#x} "
        if self.kind == "skips":
            text += f"skips {self.other} ({self.other_id:#x}), a live node of the ring, "
        else:
            text += f"is {self.other}, which has ended, "
        text += f"since {self.since:.3f}, {now - self.since:.3f} s"
        if self.unexplained:
            text += f"; {self.node} moved the link past that node, which no join or death explains"
        return text

    def __repr__(self) -> str:
        tail = ", unexplained" if self.unexplained else ""
        return f"<Break {self.node}.{self.link}={self.value:#x} {self.verb} {self.other} since {self.since:.3f}{tail}>"


@dataclasses.dataclass
class _Node:
    name: Name
    id: int
    links: dict[str, int | None]
    alive: bool = True

    @property
    def in_ring(self) -> bool:
        return self.alive and self.links["successor"] is not None


class RingState:
    """The links of all nodes, which of them are wrong, and since when.

    All times are seconds of one real-time clock that does not run backwards. `period` is the time between two rounds of the
    application's stabilisation, `detection` the time that a node may take to give up a dead neighbour (by default eight
    periods), `grace` how long a link may be wrong (by default three periods and the detection). Raises ValueError if `period`
    is not positive. Not safe for concurrent use.
    """

    def __init__(self, *, period: float = PERIOD, detection: float | None = None, grace: float | None = None, bits: int = 64) -> None:
        if period <= 0:
            raise ValueError(f"the period of stabilisation is {period} s: it must be positive")
        self.detection = ROUNDS_TO_DETECT * period if detection is None else detection
        self.grace = ROUNDS_TO_HEAL * period + self.detection if grace is None else grace
        self.bits = bits
        self.violations: list[Break] = []
        self._nodes: dict[Name, _Node] = {}
        self._by_id: dict[int, _Node] = {}
        self._open: dict[tuple[Name, str, Name], Break] = {}

    def __repr__(self) -> str:
        ring = sum(node.in_ring for node in self._nodes.values())
        return f"<RingState {ring} of {len(self._nodes)} nodes in the ring, {len(self._open)} links wrong, {len(self.violations)} violations>"

    @property
    def wrong(self) -> list[Break]:
        """The links that are wrong now, whether transient or not."""
        return list(self._open.values())

    def alive(self) -> list[Name]:
        """The nodes that were seen and have not ended."""
        return [node.name for node in self._nodes.values() if node.alive]

    def update(self, node: Name, id: int, *, successor: int | None, predecessor: int | None, time: float) -> list[Break]:
        """Sets the links of `node` as they are at `time`; None stands for a link that is not set.

        Returns those breaks that begin with this change and that no join or death explains. A node that is seen for the first
        time has started; a node that gets its first successor has joined the ring.
        """
        known = self._nodes.get(node)
        if known is None or known.id != id:
            known = self._nodes[node] = _Node(node, id, {"successor": None, "predecessor": None})
            self._by_id[id] = known
        was_in_ring, old = known.in_ring, dict(known.links)
        known.alive = True
        known.links = {"successor": successor, "predecessor": predecessor}
        begun = [b for other in self._others(known) for b in self._judge(known, other, time, old)]
        if known.in_ring != was_in_ring:
            for other in self._others(known):
                self._judge(other, known, time)
        return [b for b in begun if b.unexplained]

    def ended(self, node: Name, time: float) -> None:
        """The node's process ended at `time`. From now on links to it are wrong, and its own links no longer count."""
        known = self._nodes.get(node)
        if known is None or not known.alive:
            return
        known.alive = False
        for other in self._others(known):
            self._judge(known, other, time)
            for third in self._others(other):  # a link to a dead node is judged as dead, not as skipping
                self._judge(other, third, time)

    def advance(self, time: float) -> list[Break]:
        """Nothing has changed up to `time`. Returns the breaks that have lasted longer than `grace`, each only once."""
        return self._report(time, lambda b: time - b.since > self.grace)

    def finish(self, time: float) -> list[Break]:
        """The recording ends at `time`. As advance(), but an unexplained break needs to have lasted only longer than
        `detection`."""
        return self._report(time, lambda b: time - b.since > (self.detection if b.unexplained else self.grace))

    def _report(self, time: float, lasting: Any) -> list[Break]:
        new = [b for b in self._open.values() if b.reported is None and lasting(b)]
        new.sort(key=lambda b: (not b.unexplained, b.since))
        for b in new:
            b.reported = time
        self.violations += new
        return new

    def _others(self, node: _Node) -> Iterator[_Node]:
        return (other for other in self._nodes.values() if other is not node)

    def _names_dead(self, node: _Node, link: str) -> bool:
        target = self._by_id.get(node.links[link])
        return node.in_ring and target is not None and not target.alive

    def _fault(self, node: _Node, link: str, other: _Node) -> str | None:
        """How `link` of `node` is wrong about `other`: "skips", "dead" or None.

        A link to a dead node is never reported as skipping others too: the node cannot know those behind it yet.
        """
        value = node.links[link]
        if not node.in_ring or value is None:
            return None
        if self._names_dead(node, link):
            return "dead" if other.id == value else None
        if not other.in_ring:
            return None
        low, high = (node.id, value) if link == "successor" else (value, node.id)
        return "skips" if is_between(other.id, low, high, self.bits) else None

    def _judge(self, node: _Node, other: _Node, time: float, old: dict[str, int | None] | None = None) -> list[Break]:
        """Opens or closes the breaks of this pair and returns those that begin. `old` are the node's links before the change, if
        the node itself has changed them."""
        begun = []
        for link in ("successor", "predecessor"):
            key, kind = (node.name, link, other.name), self._fault(node, link, other)
            current = self._open.get(key)
            if current is not None and current.unexplained and kind is None and self._names_dead(node, link):
                continue  # a node that dies later does not explain the earlier change
            if current is not None and kind != current.kind:
                del self._open[key]
                current = None
            if kind is not None and current is None:
                past = old is not None and kind == "skips" and link == "successor" and old[link] == other.id
                current = Break(node.name, node.id, link, kind, node.links[link], other.name, other.id, time, past)
                self._open[key] = current
                begun.append(current)
        return begun
