"""When is a system too inconsistent? A distributed system is out of step for a moment whenever something changes, so a
predicate that is broken is often no fault yet. These judges decide what is ("Friday", section 4.1.4, counts the time a ring
spends in an inconsistent state):

    AtOnce()                  every state that breaks the predicate
    Lasting(seconds=2)        one that stays broken for longer than 2 s
    WithinEvents(events=50)   one that is still broken when the group has done 50 events more
    ShareOfTime(share=0.95)   when the recording ends and the predicate held for less than 95 % of the time

Several may judge one predicate. Plain Python without a session; times are seconds of one clock that does not run back.

    >>> times = TimeInState()
    >>> for state, time in (("holds", 0.0), ("broken", 8.0), ("holds", 9.0)): times.enter(state, time)
    >>> times.finish(10.0); times.share("holds"), times.longest("broken")
    (0.9, (8.0, 9.0))
"""

from __future__ import annotations

import dataclasses
from typing import Any, Hashable


class TimeInState:
    """How long something was in which state: sums, longest stays, and how often it changed."""

    def __init__(self) -> None:
        self.state: Hashable = None
        self.began: float | None = None  # the present state; None before the first
        self.changes = 0
        self._totals: dict[Hashable, float] = {}
        self._longest: dict[Hashable, tuple[float, float]] = {}

    def enter(self, state: Hashable, time: float) -> None:
        """It is in `state` from `time` on. Raises ValueError when time runs back."""
        if self.began is not None:
            if time < self.began:
                raise ValueError(f"time ran back from {self.began} to {time}")
            if state == self.state:
                return
            self._close(time)
            self.changes += 1
        self.state, self.began = state, time

    def finish(self, time: float) -> None:
        """Counts the present state up to `time`; may be called again later."""
        if self.began is not None:
            began = self.began
            self._close(time)
            self.began = max(began, time)

    def leave(self, time: float) -> None:
        """From `time` on it is in no state at all."""
        self.finish(time)
        self.began = None

    def _close(self, time: float) -> None:
        begin = self.began or 0.0
        self._totals[self.state] = self._totals.get(self.state, 0.0) + time - begin
        low, high = self._longest.get(self.state, (begin, begin))
        if time - begin > high - low:
            self._longest[self.state] = (begin, time)

    def total(self, state: Hashable) -> float:
        """Seconds in a state, up to the last change or finish()."""
        return self._totals.get(state, 0.0)

    def share(self, state: Hashable) -> float:
        """Part of all time, 0 to 1; 1.0 when no time has passed in the present state, 0.0 in another."""
        whole = sum(self._totals.values())
        return self.total(state) / whole if whole else float(state == self.state)

    def longest(self, state: Hashable) -> tuple[float, float] | None:
        """(begin, end) of the longest stay, or None."""
        return self._longest.get(state)

    def __repr__(self) -> str:
        sums = ", ".join(f"{state} {seconds:.3f} s" for state, seconds in self._totals.items())
        return f"<TimeInState {sums or 'nothing yet'}, {self.changes} changes>"


@dataclasses.dataclass(eq=False)
class Lapse:
    """One fault while it lasts: since when (seconds, and events of the group), how many events ago that is, and what is known of its
    beginning. Events are only counted when a judge wants them."""

    fault: Any
    since: float
    origin: dict[str, Any] = dataclasses.field(default_factory=dict)
    since_event: int = 0
    events: int = 0
    until: float | None = None
    judged: set[int] = dataclasses.field(default_factory=set)

    def length(self, now: float) -> float:
        return (now if self.until is None else self.until) - self.since


class Judge:
    """Decides which faults are violations. `period`: it wants to be asked each so many seconds, besides at each check.
    `counts_events`: it wants to know how many events ago a fault began."""

    period: float | None = None
    counts_events = False

    def due(self, lapse: Lapse, now: float) -> str | None:
        """Why this lapse is a violation now, to be added to its message; None while it is not."""
        return None

    def at_end(self, times: TimeInState) -> str | None:
        """Why the whole recording is a violation; None when it is not."""
        return None


class AtOnce(Judge):
    """Every state that breaks the predicate is a violation."""

    def due(self, lapse: Lapse, now: float) -> str | None:
        return ""

    def __repr__(self) -> str:
        return "AtOnce()"


class Lasting(Judge):
    """Never broken for longer than so many seconds."""

    def __init__(self, *, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"Lasting(seconds={seconds}): it must be above 0")
        self.seconds = seconds
        self.period = max(seconds / 4, 0.01)

    def due(self, lapse: Lapse, now: float) -> str | None:
        length = lapse.length(now)
        return f"for {length:.3f} s, longer than {self.seconds:g} s" if length > self.seconds else None

    def __repr__(self) -> str:
        return f"Lasting(seconds={self.seconds:g})"


class WithinEvents(Judge):
    """What is broken heals before the group has done so many events more, on whichever nodes. It is judged at the next look,
    and when it is over."""

    counts_events = True

    def __init__(self, *, events: int) -> None:
        if events < 1:
            raise ValueError(f"WithinEvents(events={events}): it must be 1 at least")
        self.events = events

    def due(self, lapse: Lapse, now: float) -> str | None:
        if lapse.until is not None:  # by the last of these events, when it was whole again
            return f"over only after {lapse.events} events" if lapse.events > self.events else None
        return f"still after {lapse.events} events" if lapse.events >= self.events else None

    def __repr__(self) -> str:
        return f"WithinEvents(events={self.events})"


class ShareOfTime(Judge):
    """Holds for at least this share of the time, 0 to 1, from the first check to the end of the recording."""

    def __init__(self, *, share: float) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"ShareOfTime(share={share}): a share lies between 0 and 1")
        self.share = share

    def at_end(self, times: TimeInState) -> str | None:
        if times.state is None:
            return None  # nobody looked
        held = times.share("holds")
        return f"held for {held:.1%} of the time, less than {self.share:.1%}" if held < self.share else None

    def __repr__(self) -> str:
        return f"ShareOfTime(share={self.share:g})"
