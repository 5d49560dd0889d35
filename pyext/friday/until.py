"""`continue until EXPR` and `Session.run_until`: runs the group up to the first state in which a predicate holds; and
`reverse-continue until EXPR`, `Session.run_back_until`: back to the last one, directly before the write that ended it.

The predicate is any Python. Its reads of the nodes are observed while it is evaluated, and each expression that it reads is
watched on its node: the predicate is evaluated again after every write that changes one of them. Expressions that it reads for the
first time later (in another branch, on another node) are watched from then on. The predicate is also evaluated every `POLL`
seconds of logical time if it reads something that cannot be watched (a call, a local out of scope, a clock, a view, which nodes have
started: whatever it asks of the core in another way), fails for the present (on a node that has not started), or reads nothing; after
handlers if it reads in Python what they may have changed (mentions.py); and when a node ends, since that changes which nodes are alive. Going
back, what handlers have collected is not what it was at the places that are looked at, so a predicate that reads it is refused.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from . import at
from .containers import HoldingArray, HoldingStruct, Items, Map
from .errors import BadAddress, BadExpression, Error, NodeEnded, NodeNotStarted, NoNode, OptimizedOut, OutOfScope, UsageError
from .handlers import Handler
from .language import fill
from .mentions import collected, reads_python
from .points import Hit, StopPoint
from .values import Bytes

if TYPE_CHECKING:
    from .backend import Stop
    from .sessions import Session

POLL = 0.01

# What may be readable at a later time.
NOT_YET = (NodeNotStarted, NodeEnded, BadAddress, OutOfScope, OptimizedOut, NoNode)


# What never changes in a session, of all that the core can be asked.
_FIXED = frozenset(("plan", "forget", "types", "nodes", "event_count", "total_events"))
_STARTS = frozenset(("alive", "states"))  # changes when a node starts or ends


class _Observed:
    """The core as a predicate sees it while it is evaluated: notes when it is asked what may change without a write that is watched."""

    def __init__(self, backend: Any, until: "Until") -> None:
        self._backend, self._until = backend, until

    def __getattr__(self, name: str) -> Any:
        if name not in _FIXED and not (name in _STARTS and self._until._sees_ends and "not started" not in self._backend.states()):
            self._until._elsewhere = True
        return getattr(self._backend, name)


class Until:
    """One run up to a predicate. Its stop points are gone when `run` returns; `holds` says whether the predicate stopped it."""

    PURPOSE = "continue until"  # how messages name its stop points
    # After which errors of a look what it has read decides the next one, if it can be watched: a value that is there at once when a
    # node starts is no write.
    DECIDED: "tuple[type[Exception], ...]" = ()
    _elsewhere = False  # the last evaluation has read what is not watched, such as the contents of a text or a container, or a clock
    _sees_ends = True  # it is evaluated when a node ends

    def __init__(self, session: "Session", predicate: Callable[[], Any]) -> None:
        self.holds = False
        self._session = session
        self._here = session.here  # the selected node, which a bare @() reads, wherever the group stops
        self._predicate = predicate
        self._watched: set[tuple[int, str]] = set()
        self._points: list[StopPoint] = []
        self._reads: dict[int, tuple[int, str]] = {}  # what each of its watches watches, by id
        self._polls = False

    @property
    def ids(self) -> frozenset[int]:
        """The ids of the stop points that it has set."""
        return frozenset(point.id for point in self._points)

    def run(self, resume: "Callable[[], Stop]") -> "Stop | None":
        """Runs the group. Returns None if the predicate holds already. Raises what the predicate raises, except errors that may not occur
        at a later time, such as that of a node that has not started."""
        def node_ended(_: "Stop") -> None:
            self._check()

        after = StopPoint(self._session, "handlers", 0, "after handlers", (), None, False)  # called by the session; the core has none of it
        after.purpose = self.PURPOSE
        after.set_handler(self._check, stops=False)
        try:
            self._check()
            if self.holds:
                return None
            node_ended.purpose = self.PURPOSE  # type: ignore[attr-defined]
            self._session.at_exit(node_ended)
            if reads_python(self._predicate, self._session):
                self._session._after_handlers.append(after)
            return resume()
        finally:
            if node_ended in self._session.at_exit_functions:
                self._session.at_exit_functions.remove(node_ended)
            if after in self._session._after_handlers:
                self._session._after_handlers.remove(after)
            self._delete_points()

    def _delete_points(self) -> None:
        for point in self._points:
            if not point.deleted:
                point.delete()

    def _check(self) -> None:
        """Evaluates the predicate where the group stands. The handler of the stop points that are set here."""
        if self.holds:  # another of these stop points was hit by the same event
            return
        reads, complete = self._look()
        if self.holds:
            self._session.stop()
            return
        self._watch_all(reads, complete)

    def _look(self) -> "tuple[set[tuple[int, str]], bool]":
        """Evaluates the predicate where the group stands. Returns what it has read, and whether that was all that decides it."""
        reads: set[tuple[int, str]] = set()
        try:
            self.holds = bool(self._evaluate(reads))
            return reads, bool(reads) and not self._elsewhere
        except NOT_YET as error:
            self.holds = False
            return reads, isinstance(error, self.DECIDED)

    def _watch_all(self, reads: "set[tuple[int, str]]", complete: bool) -> None:
        """Sets stop points at which the predicate is evaluated again."""
        for node, text in reads - self._watched:
            self._watched.add((node, text))
            complete &= self._watch(node, text)
        if not complete and not self._polls:
            self._polls = True
            self._add(self._session.every(self._check, seconds=POLL))

    def _add(self, point: "StopPoint") -> None:
        point.purpose = self.PURPOSE
        self._points.append(point)

    def _evaluate(self, reads: set[tuple[int, str]], before: "dict[tuple[int, str], Hit] | None" = None) -> Any:
        """Evaluates the predicate where the group stands; what the hits in `before` have changed has its value from before the write."""
        session = self._session
        real, here, backend = session.read, session.here, session.backend
        self._elsewhere = False

        def read(node: Any, text: str, *rest: Any) -> Any:
            where = session.id_of(node)
            key = where, text if not rest else fill(session, where, text, *rest)
            reads.add(key)
            value = _old_value(before[key]) if before and key in before else real(node, text, *rest)
            self._elsewhere |= isinstance(value, (str, Bytes, Items, Map, HoldingStruct, HoldingArray))
            return value
        session.here = self._here
        session.read = session.namespace[at.READ] = read
        session.backend = _Observed(backend, self)  # type: ignore[assignment]
        try:
            return self._predicate()
        finally:
            session.read = session.namespace[at.READ] = real
            session.here, session.backend = here, backend

    def _watch(self, node: int, text: str) -> bool:
        try:
            point = self._session.watch([text], self._check, nodes=node)
            self._add(point)
            self._reads[point.id] = node, text
            return True
        except Error:
            return False


def _old_value(hit: Hit) -> Any:
    """The value of a watched expression before the write. Raises BadAddress if it had none, BadExpression if that is not known."""
    if hit.raw[0] is None:
        raise BadAddress(f"{hit.expression} could not be read before this write", address=0, node=int(hit.node))
    return hit.old


class UntilBack(Until):
    """One run back to the last moment before the place where the group stands at which a predicate holds. That is directly before the write
    that has ended it, so the predicate is evaluated at each write on the way that changes what it reads, for behind the write and, with
    the old values, for before it. What it reads nowhere but there is watched, too, and searched again.

    When it has run, `ended_by` is that write; None if none was found, and the group stands at a place that was looked at. `doubt` says, if
    it held nowhere, what of this is not certain."""

    PURPOSE = "reverse-continue until"
    # A place is behind a write, and a node that does not run writes nothing.
    DECIDED = (NodeNotStarted, NodeEnded)
    _sees_ends = False

    def __init__(self, session: "Session", predicate: Callable[[], Any]) -> None:
        super().__init__(session, predicate)
        self.ended_by: "Hit | None" = None
        self._looks_before = True
        self._unknown: "tuple[int, Any] | None" = None  # the earliest write before which it cannot be evaluated: events of the group, time
        self._earliest: int | None = None  # the events of the group at the earliest write

    @property
    def doubt(self) -> str:
        if self._unknown is not None and self._unknown[0] == self._earliest:
            return (f"; whether it was true before the first write to what it reads, at {self._unknown[1]} s, is not known: a write does not tell what a "
                    f"container or a text held before it. `goto {self._unknown[1]}` and look")
        return f"; it reads what cannot be watched, so it was looked at every {POLL} s only, and behind writes" if self._polls else ""

    def _refuse_collected(self) -> None:
        """Raises UsageError if the predicate reads names that handlers change: at the places that are looked at they do not have the values
        that they had there."""
        session = self._session
        handlers = [point.handler.run if isinstance(point.handler, Handler) else point.handler for point in session.points.values() if point.handler is not None]
        names = collected(self._predicate, [*handlers, *session.at_exit_functions], session)
        if names:
            raise UsageError(f"`{names[0]}` is what handlers collect, and while the group is searched backwards it is not what it was at each place: "
                             "let the expression read what is in the nodes, or use `continue until` from an earlier place")

    def run_back(self) -> "Stop | None":
        """None if the predicate holds where the group stands, or if it held nowhere before; the group stands where it stood then. Other
        stop points without a handler stop the group as usual, behind the last moment at which it held."""
        session = self._session
        self._refuse_collected()
        session.backend.note_move()
        moved = False
        try:
            reads, complete = self._look()
            if self.holds:
                return None
            stop = self._search(reads, complete)
            moved = stop is not None
            if stop is not None and stop.kind == "interrupt":
                return stop
            if self.ended_by is not None:
                if (before := self._step_before(int(self.ended_by.writer))) is not None:
                    return before
                self._return()  # the instruction has made it true and false again: behind one of its writes it was true
                self.ended_by, self._looks_before = None, False
                stop = self._search(set(), True)
            if stop is None or self.holds:
                moved = True
                return self._look_before_last_instruction(stop)
            return stop
        except BaseException:
            if moved:
                self._return()
            raise
        finally:
            session.backend.drop_move()
            self._delete_points()

    def _return(self) -> None:
        """Brings the group to where it stood, to which it can be brought again."""
        self._session.come_back()
        self._session.backend.note_move()

    def _search(self, reads: "set[tuple[int, str]]", complete: bool) -> "Stop | None":
        """Runs back to the last write that has ended it, or behind which it holds, or to a later hit of the user's."""
        session = self._session
        while True:
            self._watch_all(reads, complete)
            reads, complete = set(), True

            def accepts(stop: "Stop") -> bool:
                nonlocal complete
                session.here = stop.node
                if not self.ids.issuperset(stop.ids):
                    return True
                read, all_read = self._look()
                held = self.holds or self._held_before(stop, read)
                reads.update(read)
                complete &= all_read
                return held

            stop = session._run_back(self.ids, accepts)
            if (reads <= self._watched and (complete or self._polls)) or (stop is not None and stop.kind == "interrupt"):
                break
            self._return()
        if stop is not None and stop.kind != "interrupt":
            self._look()
            if not self.holds and self.ids.issuperset(stop.ids):
                self.ended_by = next(iter(session.changes(stop)))
        return stop

    def _held_before(self, stop: "Stop", reads: "set[tuple[int, str]]") -> bool:
        """Whether it held before the write at which the group stands; what it reads is added to `reads`."""
        if not self._looks_before or not stop.changes:
            return False
        session = self._session
        done = session.backend.events_done()
        self._earliest = done if self._earliest is None else min(self._earliest, done)
        try:
            return bool(self._evaluate(reads, {self._reads[id_]: Hit(session, stop, None, id_) for id_ in stop.changes if id_ in self._reads}))
        except NOT_YET:
            return False
        except BadExpression:
            if self._unknown is None or done <= self._unknown[0]:
                self._unknown = done, session.logical_time
            return False

    def _step_before(self, node: int) -> "Stop | None":
        """Goes back over the last instruction of a node. None if it does not hold there."""
        session = self._session
        stop = session._search(lambda: session.backend.step_back(node))
        if stop is None:
            return None
        session.here, session._standing = node, stop
        self._look()
        return stop if self.holds else None

    def _look_before_last_instruction(self, stop: "Stop | None") -> "Stop | None":
        """A write may have led to the very place where the group stood, and it may have held up to there. If not, the group stands at `stop`
        again, or where it stood."""
        session = self._session
        found = None if stop is None else session.mark()
        self._return()
        mark, before = session.mark(), None
        if "#" in mark and session.backend.alive():
            before = self._step_before(int(mark.partition("#")[0]))
        if before is not None:
            return before
        if found is None or stop is None:
            self._return()
            return None
        session.goto(found)
        session.here, session._standing = stop.node, stop
        self.holds = True
        return stop
