"""friday run predicates/monotonic.py REC -- --counter EXPR: a value never decreases.

Terms, epochs, sequence numbers and commit indexes only grow; one that has decreased was lost or overwritten.

    friday run predicates/monotonic.py REC -- --counter raft.term --lives
"""

from __future__ import annotations

from typing import Any, Iterable

from predicates.check import Check, Expression, Fault, Row, main, name_of

import friday


class Monotonic(Check):
    """A value of each node never decreases.

    counter: any value that can be compared. bits: the counter wraps around at this many bits; a step of less than half the
    range counts as an increase. strictly: the value must be larger at each hit (use it with `at`). lives: also compare the
    value with the last one before a restart under the same name, for a value that must survive a restart. The other options
    are those of Check. A fault never heals. Evidence: the value before and after, and when the one before was read."""

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
            what = f"stayed at {value}" if value == old else f"fell from {old} to {value}"
            yield Fault((who, self._steps), f"{node.name}: `{self.names['counter']}` {what}", (node,),
                        {"before": old, "now": value, "was": when})

    def _back(self, old: Any, value: Any) -> bool:
        if value == old:
            return self._strictly
        if self._bits is None:
            return value < old
        return (value - old) % (1 << self._bits) >= 1 << (self._bits - 1)


if __name__ == "__main__":
    main(Monotonic)
