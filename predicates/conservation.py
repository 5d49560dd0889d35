"""friday run predicates/conservation.py REC -- --held EXPR --amount EXPR --sent-at LOC --received-at LOC: nothing is lost.

For tokens, balances or locks, the sum of what all nodes hold and what is on its way between them is the same at every
consistent cut (the example of Chandy and Lamport, "Distributed Snapshots", TOCS 1985, section 2). The sum is right only if
the two places in the code are: at `sent_at` the amount must have left the sender's account, just before or after the message
is sent; at `received_at` it must have been added to the receiver's account.

    friday run predicates/conservation.py REC -- --held balance --sent-at transfer.c:34 --amount transfer.amount \
        --received-at credited --amount-received 'transfer->amount'
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from typing import Any, Hashable, Iterable

from predicates.check import Check, Expression, Fault, main
from predicates.names import read

import friday


SHOWN = 20  # transfers on the way that the evidence names


@dataclasses.dataclass(eq=False)
class Sent:
    """An amount that is on its way, until it has arrived. `lost`: the fault that it has not, for too long."""

    amount: Any
    key: Hashable
    node: friday.Node
    time: float
    when: str
    arrived: bool = False
    lost: Fault | None = None

    def __str__(self) -> str:
        return f"{self.amount} ({self.key}) from {self.node.name} since {self.when}"


class Conservation(Check):
    """The sum of what the nodes hold and of what is on its way between them never changes.

    held: what the node holds, a number. sent_at, received_at: places in the code. amount: what is sent, an expression in the
    frame of sent_at. transfer: a key that no other transfer has; without it transfers are told apart by their amounts, and a
    transfer that is received twice looks like two of the same size. amount_received, transfer_received: the expressions for
    both in the frame of received_at, if they differ there. lost_after: seconds of logical time after which a transfer that has
    not arrived counts as lost. The other options are those of Check; `at` adds places at which `held` is compared.

    Each node's account is compared with its own transfers, so a fault names the node that changed the sum, and when it did.
    Evidence: what the node holds and should hold, the sum over all nodes, and what is on its way. It is also a fault to
    receive a transfer that was never sent, or one for the second time. Raises UsageError for transfer_received without
    transfer."""

    name = "conservation"
    of_states = False
    of_rows = True

    def __init__(self, session: friday.Session, *, held: Expression, amount: Expression, sent_at: str, received_at: str,
                 transfer: Expression | None = None, amount_received: Expression | None = None, transfer_received: Expression | None = None, lost_after: float = 2.0, at: str | list[str] | None = None, **options: Any) -> None:
        if transfer is None and transfer_received is not None:
            raise friday.UsageError("transfer_received is given without transfer: give transfer too, the key of a transfer where it is sent")
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
        self._sum: Any = 0  # of what is on the way
        self._awaited: collections.deque[Sent] = collections.deque()  # those that were not seen to be lost, in the order in which they were sent

    # -- the account of a node -----------------------------------------------------------------------------------------
    def hit(self) -> None:
        if not self.judging():
            return
        self._account(self.session.node, 0)
        self.look(counts=True)

    def _sent(self) -> None:
        if not self.judging():
            return
        node, amount, key = self._transfer_here(*self._at_send)
        sent = Sent(amount, key, node, self.now(), self.here())
        self.on_the_way.setdefault(key, collections.deque()).append(sent)
        self._sum += amount
        self._awaited.append(sent)
        self._account(node, -amount)
        self.look(counts=True)

    def _received(self) -> None:
        if not self.judging():
            return
        node, amount, key = self._transfer_here(*self._at_receipt)
        waiting = self.on_the_way.get(key)
        if waiting:
            sent = waiting.popleft()
            self._sum -= sent.amount
            sent.arrived = True
            if sent.lost is not None:
                self.end_lapse(sent.lost.key, self.now())
            if not waiting:
                del self.on_the_way[key]
            if sent.amount != amount:
                self._wrong(f"{node.name} received {amount} in transfer {key}, but {sent.node.name} had sent {sent.amount}", (node, sent.node),
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
        """Reports a fault if the node, whose account has just changed by `change`, does not hold what it should."""
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
        """What each node held when it was last read, what is on its way (of much the oldest), and the sum of both."""
        oldest = itertools.islice((sent for queue in self.on_the_way.values() for sent in queue), SHOWN)
        return {"held": {node.name: held for node, held in self._last.items()}, "on_the_way": [str(sent) for sent in oldest],
                "sum": sum(self._last.values()) + self._sum}

    # -- lost transfers ----------------------------------------------------------------------------------------------
    def look(self, counts: bool = False) -> None:
        now = self.now()
        while self._awaited and (self._awaited[0].arrived or now - self._awaited[0].time > self._lost_after):
            sent = self._awaited.popleft()
            if not sent.arrived:
                sent.lost = Fault(("lost", sent.key, sent.time), f"{sent.amount} that {sent.node.name} sent has not arrived after {self._lost_after:g} s", (sent.node,),
                                  {"transfer": sent.key, "sent": sent.when, "sum_without": self.sums()["sum"] - sent.amount})
                self.begin_lapse(sent.lost, now)
        super().look(counts)

    def faults(self) -> Iterable[Fault]:
        """The lost transfers. They begin and end one by one, in look() and at a receipt, so that many are not looked at again and again."""
        return [lapse.fault for lapse in self._open.values()]

    def finish(self) -> None:
        self.look()
        super().finish()
if __name__ == "__main__":
    main(Conservation)
