"""friday run predicates/conservation.py REC -- --held EXPR --amount EXPR --sent-at LOC --received-at LOC: nothing is lost.

Tokens, balances, locks: what all nodes hold and what is on its way between them stays the same at every consistent cut (the
example of Chandy and Lamport, "Distributed Snapshots", TOCS 1985, section 2). A cut is only as good as the places that are
looked at: `sent_at` must stand where the amount has left the sender's account and not yet, or just, gone out, `received_at`
where it has been added to the receiver's.

    friday run predicates/conservation.py REC -- --held balance --sent-at transfer.c:34 --amount transfer.amount \
        --received-at credited --amount-received 'transfer->amount'
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Hashable, Iterable

from predicates.check import Check, Expression, Fault, main
from predicates.names import read

import friday


@dataclasses.dataclass(frozen=True)
class Sent:
    """An amount that is on its way."""

    amount: Any
    key: Hashable
    node: friday.Node
    time: float
    when: str

    def __str__(self) -> str:
        return f"{self.amount} ({self.key}) from {self.node.name} since {self.when}"


class Conservation(Check):
    """What the nodes hold and what is on its way never changes in sum.

    held: what the node holds, a number. sent_at, received_at: places in the code. amount: what is sent, in the frame of sent_at.
    transfer: a number that tells it from all other transfers (without one only the amount does, which cannot tell a transfer
    that comes twice from another of the same size). amount_received, transfer_received: the same two in the frame of
    received_at, where they are called otherwise. lost_after: the seconds after which a transfer that has not arrived is lost. The rest as Check; at= adds places to compare `held` at.

    Each node's account is compared with its own transfers, so the fault names the node and the moment at which the sum
    changed. Evidence: what it holds and should hold, the sum over all, what is on its way. A transfer that is received and
    was never sent, or is received twice, is a fault too."""

    name = "conservation"
    of_states = False

    def __init__(self, session: friday.Session, *, held: Expression, amount: Expression, sent_at: str, received_at: str,
                 transfer: Expression | None = None, amount_received: Expression | None = None, transfer_received: Expression | None = None, lost_after: float = 2.0, at: str | list[str] | None = None, **options: Any) -> None:
        if transfer is None and transfer_received is not None:
            raise friday.UsageError("transfer_received is what transfer is called where it is received: give transfer too")
        self._held, self._lost_after = held, lost_after
        self._at_send = amount, transfer
        self._at_receipt = amount_received or amount, transfer_received or transfer
        super().__init__(session, {}, at=at or [], **options)
        if options.get("armed", True):
            session.breakpoint(sent_at, self._sent, nodes=self.nodes)
            session.breakpoint(received_at, self._received, nodes=self.nodes)
            session.every(self.pass_time, seconds=max(lost_after / 4, 0.01))

    def reset(self) -> None:
        self.on_the_way: dict[Hashable, collections.deque[Sent]] = {}
        self._done: set[Hashable] = set()
        self._expected: dict[friday.Node, Any] = {}
        self._last: dict[friday.Node, Any] = {}
        self._off: dict[friday.Node, Any] = {}
        self._found = 0

    # -- the account of a node -----------------------------------------------------------------------------------------
    def hit(self) -> None:
        self.follow_restart()
        self._account(self.session.node, 0)
        self.look(counts=True)

    def _sent(self) -> None:
        self.follow_restart()
        node, amount, key = self._transfer_here(*self._at_send)
        sent = Sent(amount, key, node, self.now(), self.here())
        self.on_the_way.setdefault(key, collections.deque()).append(sent)
        self._account(node, -amount)
        self.look(counts=True)

    def _received(self) -> None:
        self.follow_restart()
        node, amount, key = self._transfer_here(*self._at_receipt)
        waiting = self.on_the_way.get(key)
        if waiting:
            sent = waiting.popleft()
            if not waiting:
                del self.on_the_way[key]
            if sent.amount != amount:
                self._wrong(f"{node.name} received {amount} as {key}, and {sent.node.name} had sent {sent.amount}", (node, sent.node),
                            sent=str(sent), amount=amount)
        else:
            why = "for the second time" if key in self._done else "that nobody had sent"
            self._wrong(f"{node.name} received {amount} ({key}) {why}", (node,), amount=amount, transfer=key)
        if self._at_send[1] is not None:
            self._done.add(key)
        self._account(node, amount)
        self.look(counts=True)

    def _transfer_here(self, amount: Expression, transfer: Expression | None) -> tuple[friday.Node, Any, Hashable]:
        node = self.session.node
        value = read(node, amount)
        return node, value, value if transfer is None else read(node, transfer)

    def _account(self, node: friday.Node, change: Any) -> None:
        """The node has taken part in a transfer of `change`; does it hold what it should?"""
        held = read(node, self._held)
        expected = self._expected.setdefault(node, held - change) + change
        self._expected[node], self._last[node] = expected, held
        off = held - expected
        step = off - self._off.get(node, 0)
        if step:
            verb = "lost" if step < 0 else "gained"
            self._wrong(f"{node.name} {verb} {abs(step)} that no transfer explains: it holds {held} and should hold {expected}", (node,),
                        holds=held, should_hold=expected, **self.sums())
        self._off[node] = off

    def _wrong(self, message: str, nodes: tuple[friday.Node, ...], **values: Any) -> None:
        self._found += 1
        self.report(Fault(self._found, message, nodes, values))

    def sums(self) -> dict[str, Any]:
        """What all nodes held when they were last looked at, and what is on its way."""
        waiting = [sent for queue in self.on_the_way.values() for sent in queue]
        held, way = sum(self._last.values()), sum(sent.amount for sent in waiting)
        return {"held": {node.name: held for node, held in self._last.items()}, "on_the_way": [str(sent) for sent in waiting],
                "sum": held + way}

    # -- what does not arrive ------------------------------------------------------------------------------------------
    def finish(self) -> None:
        self.look()
        super().finish()

    def faults(self) -> Iterable[Fault]:
        now = self.now()
        for queue in self.on_the_way.values():
            for sent in queue:
                if now - sent.time > self._lost_after:
                    yield Fault(("lost", sent.key, sent.time), f"{sent.amount} that {sent.node.name} sent has not arrived after {self._lost_after:g} s",
                                (sent.node,), {"transfer": sent.key, "sent": sent.when, "sum_without": self.sums()["sum"] - sent.amount})


if __name__ == "__main__":
    main(Conservation)
