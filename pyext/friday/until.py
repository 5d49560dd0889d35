"""`continue until EXPR` and `Session.run(until=...)`: runs the group up to the first state in which a predicate holds.

The predicate is any Python. What it reads of the nodes is seen while it is evaluated, and each such expression is
watched on its node: the predicate is evaluated again after every write that changes one of them. Reads that appear
later (another branch, another node) are watched from then on. What cannot be watched (calls, locals out of scope), a predicate
that fails for now (a node that has not started), and one that reads nothing are looked at every `POLL` seconds of the recording
as well. The end of a node changes who is alive: the predicate is evaluated there, too.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from . import at
from .errors import BadAddress, Error, NodeEnded, NodeNotStarted, NoNode, OptimizedOut, OutOfScope
from .language import fill

if TYPE_CHECKING:
    from .backend import Stop
    from .points import StopPoint
    from .sessions import Session

POLL = 0.01

_NOT_YET = (NodeNotStarted, NodeEnded, BadAddress, OutOfScope, OptimizedOut, NoNode)


class Until:
    """One run up to a predicate. Its stop points are gone when `run` returns; `holds` says whether the predicate stopped it."""

    def __init__(self, session: "Session", predicate: Callable[[], Any]) -> None:
        self.holds = False
        self._session = session
        self._predicate = predicate
        self._watched: set[tuple[int, str]] = set()
        self._points: list[StopPoint] = []
        self._polls = False

    @property
    def ids(self) -> frozenset[int]:
        """The stop points that it has set."""
        return frozenset(point.id for point in self._points)

    def run(self, resume: "Callable[[], Stop]") -> "Stop | None":
        """None: the predicate holds already. Raises what the predicate raises, but for what may be another time."""
        def node_ended(_: "Stop") -> None:
            self._check()

        try:
            self._check()
            if self.holds:
                return None
            self._session.at_exit(node_ended)
            return resume()
        finally:
            if node_ended in self._session.at_exit_functions:
                self._session.at_exit_functions.remove(node_ended)
            for point in self._points:
                if not point.deleted:
                    point.delete()

    def _check(self) -> None:
        """Evaluates the predicate where the group stands; a handler of the stop points set here."""
        if self.holds:  # another of them at the same event
            return
        reads: set[tuple[int, str]] = set()
        complete = False
        try:
            self.holds = bool(self._evaluate(reads))
            complete = bool(reads)
        except _NOT_YET:
            pass
        if self.holds:
            self._session.stop()
            return
        for node, text in reads - self._watched:
            self._watched.add((node, text))
            complete &= self._watch(node, text)
        if not complete and not self._polls:
            self._polls = True
            self._add(self._session.every(self._check, seconds=POLL))

    def _add(self, point: "StopPoint") -> None:
        point.purpose = "continue until"
        self._points.append(point)

    def _evaluate(self, reads: set[tuple[int, str]]) -> Any:
        session = self._session
        real, here = session.read, session.here

        def read(node: Any, text: str, *rest: Any) -> Any:
            where = session.id_of(node)
            reads.add((where, text if not rest else fill(session, where, text, *rest)))
            return real(node, text, *rest)
        session.read = session.namespace[at.READ] = read
        try:
            return self._predicate()
        finally:
            session.read = session.namespace[at.READ] = real
            session.here = here

    def _watch(self, node: int, text: str) -> bool:
        try:
            self._add(self._session.watch([text], self._check, nodes=node))
            return True
        except Error:
            return False
