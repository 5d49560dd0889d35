"""What a span of the recording holds: `first` finds the moment from which a condition is true, `when` lists the changes of a value.

Both look at places other than the one where the group stands, so the user's stop points and functions are set aside for that time.
"""
from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterator

from .errors import BadExpression, Error, OutOfScope, Unsupported, UsageError
from .until import NOT_YET, Until
from .values import Str, Struct

if TYPE_CHECKING:
    from .backend import Stop
    from .nodes import Node
    from .sessions import Session

MOST_CHANGES = 10_000

START = "start"  # the mark of the place where nothing has run yet


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a value: when and where a write made it, and the values before and after it (None: it had none)."""
    node: "Node"
    logical_time: Any
    event: int | None  # the last event of the node before the write
    old: Any
    new: Any
    place: str  # the function and line that wrote
    mark: str | None = None  # the place of the write, for `goto`; None if nobody has counted there


@contextlib.contextmanager
def undisturbed(session: "Session") -> Iterator[None]:
    """Sets the user's stop points and functions aside, for a search through places at which the user does not stand."""
    enabled = [point for point in session.points.values() if point.enabled and not point.deleted]
    kept = session.at_end_functions, session.at_exit_functions, session.on_exit
    session.at_end_functions, session.at_exit_functions, session.on_exit = [], [], None
    searches, session._searches = session._searches, True
    for point in enabled:
        point.enable(False)
    try:
        yield
    finally:
        session.at_end_functions, session.at_exit_functions, session.on_exit = kept
        session._searches = searches
        for point in enabled:
            try:
                point.enable()
            except Error as error:  # a local that it watches is gone where the group stands
                session.notice(f"{point.kind} {point.id} stays disabled: {error}")


@contextlib.contextmanager
def _checkpoints(session: "Session") -> Iterator[None]:
    """Lets runs make checkpoints, so that no probe replays from the start."""
    on = session.backend.checkpoints()["on"]
    session.set_checkpoints(True)
    try:
        yield
    finally:
        session.set_checkpoints(on)


def check(session: "Session", what: str) -> None:
    """Raises Unsupported if the group has no past in which `what`, a command, could look."""
    session._check_stands()
    if session.altered:
        raise Unsupported(f"a node is altered, so the group has no past in which `{what}` could look: `restart` or `goto` first")
    if session.backend.sync() != "clock":
        raise Unsupported(f"`{what}` needs the order clock, in which all nodes stand at one time: `set sync clock`")


class First:
    """The search for the first place from which a predicate holds up to a later place. It halves the span between a place where it does
    not hold and a later one where it does, and then runs from what it has found to that later place, with the predicate's reads watched.
    If it fails on the way, it halves the rest of the span again."""

    MOST_ROUNDS = 10  # of halving; what still fails then changes all the time

    def __init__(self, session: "Session", predicate: Callable[[], Any]) -> None:
        self.ids: frozenset[int] = frozenset()  # of the stop points that it has set
        self._session = session
        here = session.here  # the selected node, which a bare @() reads, wherever the search goes

        def holds() -> Any:
            there, session.here = session.here, here
            try:
                return predicate()
            finally:
                session.here = there
        self._predicate: Callable[[], Any] = holds

    def run(self) -> "Stop | None":
        """Brings the group to the place and returns the Stop; None if it holds at the start, where the group stands then. Raises
        UsageError if it holds neither here nor at the end of the recording, where the group stands as before then, or not for long
        enough."""
        session = self._session
        check(session, "first")
        try:
            with session.states.set_aside(), undisturbed(session), _checkpoints(session):
                return self._search()
        finally:
            session.states.arrived()

    def _search(self) -> "Stop | None":
        last = self._true_at()
        self._session.restart()
        stop = None if self._holds() else self._halve(0, last)
        for _ in range(self.MOST_ROUNDS):
            if (fails := self._fails_before(last)) is None:
                return stop
            stop = self._halve(fails, last)
        raise UsageError(f"it became false again {self.MOST_ROUNDS} times, each time after a place that the search had found, and was not looked at any more behind "
                         "the one where the group stands: `continue until` and `reverse-continue until` find the next place and the one before")

    def _halve(self, low: int, high: int) -> "Stop":
        """Goes to a place where it becomes true, between one where it is not and a later one where it is."""
        while high - low > 1:
            middle = (low + high) // 2
            self._go(middle)
            if self._holds():
                high = middle
            else:
                low = middle
        return self._between(low, high)

    def _fails_before(self, last: int) -> int | None:
        """The number of events of the whole group, less than `last`, after which a write makes it false again; None if it stays true. The
        group stands where it stood then."""
        session = self._session
        until = Until(session, lambda: not self._predicate())
        end = session.backend.at_position(last) if last < session.backend.total_events() else None
        with remembered(session):
            self._run(until, end)
            at = session.backend.events_done()
            failed = until.holds and at < last
        return at if failed else None

    def _true_at(self) -> int:
        """A number of events of the whole group after which it holds."""
        session, total = self._session, self._session.backend.total_events()
        if not self._holds():
            with remembered(session):
                session.goto_end()
                holds = self._holds()
            if not holds:
                raise UsageError("it is true neither here nor at the end of the recording: `first` is for a condition that stays true; "
                                 "`continue until` finds one that is true for a moment")
            return total
        here = session.backend.events_done()
        if here < total:
            with remembered(session):
                self._go(here)
                holds = self._holds()
            if not holds:
                raise UsageError("it was true where the group stood, and is not true any more before the next event: `first` is for a "
                                 "condition that stays true")
        return here

    def _between(self, low: int, high: int) -> "Stop":
        """Goes to the write between two places that makes it true; to the later place if no write of what it reads is seen to."""
        session = self._session
        if low > 0:
            self._go(low)
        else:
            session.restart()
        if self._holds():  # it becomes false and true again before the next event
            self._run(Until(session, lambda: not self._predicate()))
        until = Until(session, self._predicate)
        stop = self._run(until)
        self.ids = until.ids
        if stop is not None and until.holds and session.backend.events_done() <= high:
            return stop
        return self._go(high)

    def _run(self, until: Until, end: "tuple[int, int] | None" = None) -> "Stop | None":
        session = self._session
        stop = until.run(lambda: session._pass_to(lambda timeout: session.backend.resume(timeout, end)))
        if stop is not None and stop.kind == "interrupt":
            raise KeyboardInterrupt
        return stop

    def _holds(self) -> bool:
        try:
            return bool(self._predicate())
        except NOT_YET:
            return False

    def _go(self, events: int) -> "Stop":
        """Goes to where the whole group has completed so many events."""
        session = self._session
        if events >= session.backend.total_events():
            return session.goto_end()
        node, event = session.backend.at_position(events)
        stop = session.goto(event, node=node)
        if stop.kind != "reached":
            raise UsageError(f"the search was ended on the way, by a stop of the kind {stop.kind}")
        return stop


def when(session: "Session", expression: str, nodes: Any = None) -> list[Change]:
    """The changes of a C expression over the whole recording, on nodes (by default all), the first MOST_CHANGES. The group stands where
    it stood then."""
    check(session, "when")
    found: list[Change] = []
    texts: dict[int, Any] = {}  # the last text of a string, by node

    def changed() -> None:
        hit = session.hit
        assert hit is not None
        old, new = hit.raw
        if new is None:
            old = texts.pop(int(hit.node), old)
        elif isinstance(new, Struct):
            with contextlib.suppress(BadExpression):  # it is in the middle of a change
                if isinstance(text := hit.new, Str):
                    old, new = texts.get(int(hit.node), old), text
                    texts[int(hit.node)] = text
                    if old == new:
                        return
        found.append(Change(hit.node, hit.stop.logical_time, hit.stop.event, old, new, hit.stop.location or "", hit.mark))
        if len(found) == MOST_CHANGES:
            session.stop()

    with undisturbed(session), remembered(session):
        session.restart()
        try:
            point = session.watch(expression, changed, nodes=nodes)
        except OutOfScope as error:
            scope = f"`when {error.scopes[0]}::{expression}`" if error.scopes else "`when FUNCTION::VARIABLE`"
            raise OutOfScope(f"{error.message}, and `when` begins where no function runs: {scope} lists the changes in each call", node=error.node) from None
        try:
            stop = session._pass_to(session.backend.resume)
            if stop.kind == "interrupt":
                raise KeyboardInterrupt
        finally:
            point.delete()
    return without_blinks(found)


def without_blinks(changes: list[Change]) -> list[Change]:
    """Without pairs of changes between two events of a node by which a value was out of reach for a moment, and the same again: a
    container that holds it was in the middle of a change."""
    kept: list[Change | None] = []
    of_node: dict[int, list[int]] = {}  # which of them are a node's
    for change in changes:
        own = of_node.setdefault(int(change.node), [])
        last = kept[own[-1]] if own else None
        if last is not None and last.new is None and change.event == last.event and last.old == change.new:
            kept[own.pop()] = None
        else:
            own.append(len(kept))
            kept.append(change)
    return [change for change in kept if change is not None]


@contextlib.contextmanager
def remembered(session: "Session") -> Iterator[None]:
    """Brings the group back, at the end, to where it stands, with the selected node and its gdb's selected frame. Handlers keep their state."""
    here, frame = session.here, _frame(session)
    mark = None if session.backend.checkpoints()["kept"] else session.mark()  # to restart makes other processes then
    session.backend.note_move()
    with session.states.set_aside():
        try:
            yield
        finally:
            if mark is None:
                session.come_back()
            else:
                go_to(session, mark)
            session.here = here
            if frame:
                with contextlib.suppress(Error):
                    session.backend.gdb(here, f"frame {frame}")


def _frame(session: "Session") -> int:
    """The number of the frame that the user has selected in the gdb of the selected node; 0 is the innermost."""
    try:
        found = re.match(r"#(\d+)", session.backend.gdb(session.here, "frame"))
    except Error:
        return 0
    return int(found[1]) if found else 0


def go_to(session: "Session", mark: str) -> None:
    """Brings the group to a mark, also to that of the start."""
    if mark == START:
        session.restart()
    else:
        session.goto(mark)
