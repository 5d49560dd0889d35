"""`continue until EXPR` and `Session.run_until`: runs the group up to the first state in which a predicate holds; and
`reverse-continue until EXPR`, `Session.run_back_until`: back to the last one.

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
from .errors import BadAddress, Error, NodeEnded, NodeNotStarted, NoNode, OptimizedOut, OutOfScope, UsageError
from .handlers import Handler
from .language import fill
from .mentions import collected, reads_python
from .points import StopPoint
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

    def _evaluate(self, reads: set[tuple[int, str]]) -> Any:
        session = self._session
        real, here, backend = session.read, session.here, session.backend
        self._elsewhere = False

        def read(node: Any, text: str, *rest: Any) -> Any:
            where = session.id_of(node)
            reads.add((where, text if not rest else fill(session, where, text, *rest)))
            value = real(node, text, *rest)
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
            self._add(self._session.watch([text], self._check, nodes=node))
            return True
        except Error:
            return False


class UntilBack(Until):
    """One run back to the last state before the place where the group stands in which a predicate holds. The predicate is evaluated
    at each write, on the way, that changes what it reads. What it reads nowhere but there is watched, too, and searched again."""

    PURPOSE = "reverse-continue until"
    # A place is behind a write, and a node that does not run writes nothing.
    DECIDED = (NodeNotStarted, NodeEnded)
    _sees_ends = False

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
        stop points without a handler stop the group as usual."""
        session = self._session
        self._refuse_collected()
        try:
            reads, complete = self._look()
            if self.holds:
                return None
            while True:
                self._watch_all(reads, complete)
                reads, complete = set(), True

                def accepts(stop: "Stop") -> bool:
                    nonlocal complete
                    session.here = stop.node
                    if not self.ids.issuperset(stop.ids):
                        return True
                    read, all_read = self._look()
                    reads.update(read)
                    complete &= all_read
                    return self.holds

                session.backend.note_move()
                stop = session._run_back(self.ids, accepts)
                if (reads <= self._watched and (complete or self._polls)) or (stop is not None and stop.kind == "interrupt"):
                    session.backend.drop_move()
                    self.holds = stop is not None and self.ids.issuperset(stop.ids) and bool(stop.ids)
                    return stop
                session.come_back()
        finally:
            self._delete_points()
