"""`friday run --origin`: where the values come from that have broken a predicate.

At the first violation of each predicate, when its handlers are done, the group goes back from there for each value that the
handler had read, and then the run goes on from the place of the violation.
"""
from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from . import at
from .errors import ComponentDied, Error
from .origins import Hop, hop_place, input_texts, origin

if TYPE_CHECKING:
    from .sessions import Session
    from .violations import Violation

_MOST_VALUES = 4  # of one violation
_MOST_HOPS = 20  # of one value


class Tracer:
    """Traces the violations of a session, from when it is made."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._seen: set[str] = set()
        self._found: list["Violation"] = []
        self._reads: collections.deque[tuple[int, int, str]] = collections.deque(maxlen=64)  # (moves of the session, node, expression)
        real = session.read

        def read(node: Any, text: str, pieces: Any = None, kinds: str = "") -> Any:
            if pieces is None:
                self._reads.append((session.moves, session.id_of(node), text))
            else:
                from .language import fill
                where = session.id_of(node)
                self._reads.append((session.moves, where, fill(session, where, text, pieces, kinds)))
            return real(node, text, pieces, kinds)
        session.read = session.namespace[at.READ] = read
        session.set_checkpoints(True)

    def found(self, violation: "Violation") -> None:
        """Call with each violation as it is found."""
        if violation.predicate not in self._seen:
            self._seen.add(violation.predicate)
            self._found.append(violation)

    def trace(self) -> list["Violation"]:
        """Call when the handlers of a stop are done: fills in the marks and the origins of those that were found there, which it
        returns. The group stands where it stood then, and nobody notices that it was elsewhere."""
        session, found = self._session, self._found
        self._found = []
        if not found:
            return found
        moves = session.moves
        kept = {name: getattr(session, name) for name in ("here", "last_stop", "_standing", "_point", "_running", "finished", "restarts", "stop_asked")}
        reads = list(dict.fromkeys((where, text) for when, where, text in self._reads if when == moves))
        session._running = False
        try:
            for violation in found:
                violation.mark, violation.traced = violation.mark or _mark(session), True
                for where, text in reads[:_MOST_VALUES]:
                    violation.origins[f"@{where}({text})"] = _way(session, where, text)
                for name in list(violation.origins)[_MOST_VALUES:]:
                    del violation.origins[name]
        finally:
            for name, value in kept.items():
                setattr(session, name, value)
        return found


def _mark(session: "Session") -> str:
    try:
        return session.mark()
    except ComponentDied:
        raise
    except Error as error:
        return f"no mark: {error}"


def _way(session: "Session", node: int, expression: str) -> list[str]:
    try:
        return [hop_text(session, hop) for hop in origin(session, expression, node, _MOST_HOPS)]
    except ComponentDied:
        raise
    except Error as error:
        return [f"not followed: {error}"]


def hop_text(session: "Session", hop: Hop) -> str:
    """A hop on one line."""
    inputs = ", ".join(f"{name} = {value}" for each, (name, value) in zip(hop.inputs, input_texts(session, hop)) if not each.is_part)
    place = hop_place(hop)
    return f"node {hop.node} ({hop.node.name}){f' {place}' if place else ''}: {hop.shown}: {hop.text}{f' from {inputs}' if inputs else ''} [{hop.mark}]"
