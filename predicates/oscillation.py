"""friday run predicates/oscillation.py REC -- --down-at LOC --down EXPR --up-at LOC --up EXPR: nothing oscillates.

Finds state that is removed and comes back again and again: the fingers of a ring, routes, sessions, leaders ("Friday", section
4.1.5). A thing that goes down and comes up again `times` times within `seconds` oscillates.

    friday run predicates/oscillation.py REC -- --down-at remove_finger --down 'f->node.addr' --up-at insert_finger --up addr

The values of one variable can oscillate too: it takes a value, loses it, and takes it again.

    friday run predicates/oscillation.py REC -- --value raft.leader --times 4 --seconds 10
"""

from __future__ import annotations

import collections
from typing import Any, Hashable

from predicates.check import Check, Expression, Fault, main
from predicates.names import read

import friday
from friday.answers import counted


class Returns:
    """Counts how often each thing comes back after it was away. Times are seconds of one clock that does not run backwards.
    Raises ValueError if `times` is less than 1 or `seconds` is not positive.

    >>> returns = Returns(times=2, seconds=10)
    >>> returns.away("x", 1.0); returns.back("x", 2.0)
    >>> returns.away("x", 3.0); returns.back("x", 4.0)
    [(1.0, 2.0), (3.0, 4.0)]
    """

    def __init__(self, *, times: int, seconds: float) -> None:
        if times < 1 or not seconds > 0:
            raise ValueError(f"{times} times within {seconds} s: both must be above 0")
        self.times, self.seconds = times, seconds
        self._away: dict[Hashable, float] = {}
        self._trips: dict[Hashable, collections.deque[tuple[float, float]]] = {}

    def away(self, thing: Hashable, time: float) -> None:
        self._away.setdefault(thing, time)

    def back(self, thing: Hashable, time: float) -> list[tuple[float, float]] | None:
        """The thing is back. If its last `times` trips lie within `seconds`, returns them as (away, back) and starts counting
        anew; otherwise None."""
        left = self._away.pop(thing, None)
        if left is None:
            return None  # it was not away
        trips = self._trips.setdefault(thing, collections.deque(maxlen=self.times))
        trips.append((left, time))
        if len(trips) < self.times or time - trips[0][0] > self.seconds:
            return None
        found = list(trips)
        trips.clear()
        return found


class Oscillation(Check):
    """Nothing goes down and comes up again `times` times within `seconds` of logical time, on any node.

    down_at, up_at: the places in the code at which something goes down and comes up; down, up: expressions in the frame of
    these places for what it is, any hashable value. Or, instead of these four, value: an expression whose values are what
    goes and comes. The other options are those of Check; `at` has no effect. Evidence: what oscillates, and when it went down
    and came up. Raises UsageError unless either `value` or all of the four are given."""

    name = "oscillation"
    of_states = False

    def __init__(self, session: friday.Session, *, value: Expression | None = None, down_at: str | None = None, down: Expression | None = None,
                 up_at: str | None = None, up: Expression | None = None, times: int = 3, seconds: float = 10.0, **options: Any) -> None:
        places = (down_at, down, up_at, up)
        if (value is None) == (None in places):
            raise friday.UsageError("oscillation needs either value, or all of down_at, down, up_at and up")
        self._limits = {"times": times, "seconds": seconds}
        options.pop("at", None)
        super().__init__(session, {"value": value}, **({} if value is not None else {"at": []}), **options)
        if value is None:
            session.breakpoint(down_at, lambda: self._moved(down, went=True), nodes=self.nodes)
            session.breakpoint(up_at, lambda: self._moved(up, went=False), nodes=self.nodes)

    def reset(self) -> None:
        self.events = 0
        self._count = 0
        self._returns = Returns(**self._limits)
        self._values: dict[friday.Node, Any] = {}

    def changed(self, node: friday.Node, row: dict[str, Any]) -> tuple[()]:
        old, value = self._values.get(node), row["value"]
        self._values[node] = value
        if value != old:
            self._note(node, old, went=True)
            self._note(node, value, went=False)
        return ()

    def _moved(self, what: Expression, went: bool) -> None:
        if not self.judging():
            return
        node = self.session.node
        self._note(node, read(node, what), went)
        self.look(counts=True)

    def _note(self, node: friday.Node, thing: Any, went: bool) -> None:
        if thing is None:
            return
        self.events += 1
        now = self.now()
        if went:
            self._returns.away((node, thing), now)
            return
        trips = self._returns.back((node, thing), now)
        if trips is not None:
            self._count += 1
            length = now - trips[0][0]
            self.report(Fault(self._count, f"{thing} went down and came up again {counted(len(trips), 'time')} within {length:.3f} s on {node.name}", (node,),
                              {"what": thing, "trips": [f"down {down:.6f}, up {up:.6f}" for down, up in trips]}))


if __name__ == "__main__":
    main(Oscillation)
