"""friday run predicates/monotonic.py REC -- --counter EXPR: a value never goes back.

Terms, epochs, sequence numbers and commit indexes only grow; one that shrinks has been forgotten or overwritten.

    friday run predicates/monotonic.py REC -- --counter raft.term --lives
"""

from __future__ import annotations

from typing import Any, Iterable

from predicates.check import Check, Expression, Fault, Row, main, name_of

import friday


class Monotonic(Check):
    """A value of each node never decreases.

    counter: anything that can be compared. bits: it wraps around at so many bits, so that less than half the way round
    counts as forward. strictly: each hit must find it larger (with at=). lives: also from one life of a name to the next,
    for what must survive a restart. The rest as Check; the fault never heals.
    Evidence: the value before and after, and where the node stood when it was larger."""

    name = "monotonic"
    of_states = False

    def __init__(self, session: friday.Session, *, counter: Expression, bits: int | None = None, strictly: bool = False,
                 lives: bool = False, **options: Any) -> None:
        self._bits, self._strictly, self._lives = int(bits) if bits is not None else None, strictly, lives
        super().__init__(session, {"counter": counter}, **options)

    def reset(self) -> None:
        self._last: dict[Any, tuple[Any, str]] = {}
        self._steps = 0

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        who, value = name_of(node) if self._lives else node, row["counter"]
        before, self._last[who] = self._last.get(who), (value, self.here())
        if before is None:
            return
        old, when = before
        if self._back(old, value):
            self._steps += 1
            verb = "stayed at" if value == old else "fell back to"
            yield Fault((who, self._steps), f"{node.name}: `{self.names['counter']}` {verb} {value} from {old}", (node,),
                        {"before": old, "now": value, "was": when})

    def _back(self, old: Any, value: Any) -> bool:
        if value == old:
            return self._strictly
        if self._bits is None:
            return value < old
        return (value - old) % (1 << self._bits) >= 1 << (self._bits - 1)


if __name__ == "__main__":
    main(Monotonic)
