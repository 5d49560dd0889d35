"""friday run predicates/ring.py REC: which node of a Chord ring broke the ring, when, and after which message.

Watches the links of all nodes and passes every change to RingState (ring_state.py), which tells transients from breaks that
last. At a suspect change the message that is being processed and the stack are read at once; the violation is reported when
the break has lasted too long. Its values: `id` of the node, `link`, `kind`, `value` (the id that the link holds), `other` (the
id of the node that the link skips or that has ended), `since` (real time in seconds), `unexplained`, and for a suspect change
`after` (sender, type and seq of the message; None if no message was being processed), `broken_at` (logical time) and `stack`.

By default the expressions are those of tests/apps/chord; give others with `-- --id EXPR --successor EXPR --predecessor EXPR`.
"""

from __future__ import annotations

from typing import Any, Iterable

from predicates.check import Check, Expression, Row, main
from predicates.names import read
from predicates.ring_state import Break, RingState

import friday

CHECK = 0.5  # seconds of logical time between two checks of how long breaks have lasted


class Ring(Check):
    """Except for transients, each node's successor is the next live node of the ring and its predecessor the previous one.

    id: the node's place on the ring, an integer of `bits` bits. successor, predecessor: the ids of its neighbours. period:
    milliseconds between two rounds of stabilisation; it determines how long a transient may last. sender, type, seq: the
    program's own description of the message that it is processing, for the evidence; type 0 means that there is none. nodes,
    watch, at: as in Check."""

    name = "ring"
    of_states = False  # from a single state one cannot tell whether it is a transient
    optional = frozenset({"successor", "predecessor"})

    def __init__(self, session: friday.Session, *, id: Expression = "srv.node.id", successor: Expression = "srv.successor->id",
                 predecessor: Expression = "srv.predecessor->id", period: Expression = "srv.period", bits: int = 64,
                 sender: Expression = "srv.last_message.sender", type: Expression = "srv.last_message.type",
                 seq: Expression = "srv.last_message.seq", **options: Any) -> None:
        self._period, self._bits, self._message = period, bits, (sender, type, seq)
        super().__init__(session, {"id": id, "successor": successor, "predecessor": predecessor}, follow=[successor, predecessor], **options)

    def reset(self) -> None:
        self.state: RingState | None = None
        self._known: dict[str, friday.Node] = {}

    def _arm_times(self) -> None:
        self.session.every(self.pass_time, seconds=CHECK)

    def now(self) -> float:
        """Real time in seconds. It never runs backwards here, although the clocks of the hosts may differ."""
        return max(self._latest, self.session.real_time)

    def changed(self, node: friday.Node, row: Row) -> Iterable[Any]:
        time = self.now()
        if self.state is None:
            self.state = RingState(period=read(node, self._period) / 1000, bits=self._bits)
        self._known[node.name] = node
        self._note_ended(time)
        for suspect in self.state.update(node.name, row["id"], successor=row["successor"], predecessor=row["predecessor"], time=time):
            suspect.evidence = self._evidence(node)
        return ()

    def look(self, counts: bool = False) -> None:
        self.looks += counts
        time = self._latest = self.now()
        if self.state is not None:
            self._note_ended(time)
            self._report(self.state.advance(time), time)

    def finish(self) -> None:
        self._tell_if_idle()
        if self.state is not None:
            self._report(self.state.finish(self._latest), self._latest)

    def _note_ended(self, time: float) -> None:
        alive = {node.name for node in self.session.all_nodes}
        for name in self.state.alive():
            if name not in alive:
                self.state.ended(name, time)

    def _evidence(self, node: friday.Node) -> dict[str, Any]:
        """What led to the change that the node has just made."""
        sender, kind, seq = (read(node, expression) for expression in self._message)
        after = {"sender": f"{sender:016x}", "type": str(kind).removeprefix("PACKET_"), "seq": seq} if kind else None
        return {"after": after, "broken_at": str(self.session.logical_time), "stack": node.backtrace()}

    def _report(self, breaks: list[Break], time: float) -> None:
        for b in breaks:
            self.session.violation(
                self.name, nodes=[self._known[b.node]], message=b.message(time), id=f"{b.id:016x}", link=b.link, kind=b.kind,
                value=f"{b.value:016x}", other=f"{b.other_id:016x}", since=b.since, unexplained=b.unexplained, **b.evidence)

    def summary(self) -> str:
        return f"{self.name}: {len(self.state.violations) if self.state else 0} violations{self.judged_until()}"


if __name__ == "__main__":
    main(Ring)
