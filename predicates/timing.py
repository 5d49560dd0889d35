"""Judges: they decide when a state that breaks a predicate is a violation.

A distributed system is inconsistent for a moment whenever something changes, so a broken predicate is often no violation yet
("Friday", section 4.1.4, measures how long a ring is in an inconsistent state). Each judge calls something else a violation:

    AtOnce()                  every state that breaks the predicate
    Lasting(seconds=2)        the predicate stays broken for longer than 2 s
    WithinEvents(events=50)   the predicate is still broken when the nodes have done 50 more events in all
    ShareOfTime(share=0.95)   when the recording ends, the predicate held for less than 95 % of the time

A predicate may have several judges. This module is plain Python and needs no session; times are seconds of one clock that does
not run backwards.

    >>> times = TimeInState()
    >>> for state, time in (("holds", 0.0), ("broken", 8.0), ("holds", 9.0)): times.enter(state, time)
    >>> times.finish(10.0); times.share("holds"), times.longest("broken")
    (0.9, (8.0, 9.0))
"""

from __future__ import annotations

import dataclasses
from typing import Any, Hashable


class TimeInState:
    """How long something was in each of its states: the sums, the longest stays, and the number of changes."""

    def __init__(self) -> None:
        self.state: Hashable = None
        self.began: float | None = None  # when the present state began; None without a state
        self.changes = 0
        self._totals: dict[Hashable, float] = {}
        self._longest: dict[Hashable, tuple[float, float]] = {}

    def enter(self, state: Hashable, time: float) -> None:
        """The state is `state` from `time` on. Raises ValueError if `time` is before the last change."""
        if self.began is not None:
            if time < self.began:
                raise ValueError(f"time runs backwards, from {self.began} to {time}")
            if state == self.state:
                return
            self._close(time)
            self.changes += 1
        self.state, self.began = state, time

    def finish(self, time: float) -> None:
        """Counts the present state up to `time`. May be called again with a later time."""
        if self.began is not None:
            began = self.began
            self._close(time)
            self.began = max(began, time)

    def leave(self, time: float) -> None:
        """There is no state from `time` on."""
        self.finish(time)
        self.began = None

    def _close(self, time: float) -> None:
        begin = self.began or 0.0
        self._totals[self.state] = self._totals.get(self.state, 0.0) + time - begin
        low, high = self._longest.get(self.state, (begin, begin))
        if time - begin > high - low:
            self._longest[self.state] = (begin, time)

    def total(self, state: Hashable) -> float:
        """Seconds in the state, up to the last change or finish()."""
        return self._totals.get(state, 0.0)

    def share(self, state: Hashable) -> float:
        """The part of all time that was spent in the state, 0 to 1. If no time has passed at all: 1.0 for the present state, 0.0
        for any other."""
        whole = sum(self._totals.values())
        return self.total(state) / whole if whole else float(state == self.state)

    def longest(self, state: Hashable) -> tuple[float, float] | None:
        """The begin and end of the longest stay in the state; None if it never was in it."""
        return self._longest.get(state)

    def __repr__(self) -> str:
        sums = ", ".join(f"{state} {seconds:.3f} s" for state, seconds in self._totals.items())
        return f"<TimeInState {sums or 'nothing yet'}, {self.changes} changes>"


@dataclasses.dataclass(eq=False)
class Lapse:
    """A fault from when it begins until it heals. `since` and `until` are in seconds, `until` is None while it lasts. `origin` is
    the evidence that was read when it began. `since_event` is the number of events that all nodes had done then, `events` how many
    they have done since; both are counted only if a judge needs them. `judged`: the indexes of the judges that have already
    called it a violation."""

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
    """Base class of the judges. `period`: seconds after which the judge must be asked again, besides at each look; None if never.
    `counts_events`: the judge needs to know how many events ago a fault began."""

    period: float | None = None
    counts_events = False

    def due(self, lapse: Lapse, now: float) -> str | None:
        """Why the lapse is a violation at `now`, as text to append to its message; None while it is not a violation. A lapse must not
        become a violation before one that began earlier and lasts."""
        return None

    def at_end(self, times: TimeInState) -> str | None:
        """Why the recording as a whole violates the predicate; None if it does not. Asked at the end."""
        return None


class AtOnce(Judge):
    """Every state that breaks the predicate is a violation."""

    def due(self, lapse: Lapse, now: float) -> str | None:
        return ""

    def __repr__(self) -> str:
        return "AtOnce()"


class Lasting(Judge):
    """The predicate must never be broken for longer than `seconds`. Raises ValueError if `seconds` is not positive."""

    def __init__(self, *, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"Lasting(seconds={seconds}): the number of seconds must be above 0")
        self.seconds = seconds
        self.period = max(seconds / 4, 0.01)

    def due(self, lapse: Lapse, now: float) -> str | None:
        length = lapse.length(now)
        return f"for {length:.3f} s, longer than {self.seconds:g} s" if length > self.seconds else None

    def __repr__(self) -> str:
        return f"Lasting(seconds={self.seconds:g})"


class WithinEvents(Judge):
    """A fault must heal before the nodes of the group have done `events` more events in all. It is judged at each look and when
    it is over. Raises ValueError if `events` is less than 1."""

    counts_events = True

    def __init__(self, *, events: int) -> None:
        if events < 1:
            raise ValueError(f"WithinEvents(events={events}): the number of events must be at least 1")
        self.events = events

    def due(self, lapse: Lapse, now: float) -> str | None:
        if lapse.until is not None:  # the last of these events healed it
            return f"healed only after {lapse.events} events" if lapse.events > self.events else None
        return f"still so after {lapse.events} events" if lapse.events >= self.events else None

    def __repr__(self) -> str:
        return f"WithinEvents(events={self.events})"


class ShareOfTime(Judge):
    """The predicate must hold for at least the part `share` of the time from the first look to the end of the recording. Raises
    ValueError unless 0 < share <= 1."""

    def __init__(self, *, share: float) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"ShareOfTime(share={share}): the share must be above 0 and at most 1")
        self.share = share

    def at_end(self, times: TimeInState) -> str | None:
        if times.state is None:
            return None  # the predicate was never looked at
        held = times.share("holds")
        return f"held for {held:.1%} of the time, less than {self.share:.1%}" if held < self.share else None

    def __repr__(self) -> str:
        return f"ShareOfTime(share={self.share:g})"
