"""What a predicate found: records with their evidence, for people and as JSON."""
from __future__ import annotations

import os
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import Error
from .language import as_json

if TYPE_CHECKING:
    from .messages import Message
    from .nodes import Node
    from .sessions import Session

# Of the frames of this package.
PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Violated(AssertionError):
    """Raised by a predicate that does not hold. `predicate` is its name, `nodes` the nodes concerned (None: the one
    that triggered), `evidence` the values that show it."""

    def __init__(self, message: str, *, predicate: str = "", nodes: Any = None, **evidence: Any) -> None:
        super().__init__(message)
        self.predicate = predicate
        self.nodes = nodes
        self.evidence = evidence


@dataclass(slots=True)
class Violation:
    """One violation: times are of the moment it was found, `real_time` in seconds since the epoch on the first node's
    clock, `event` the index of that node's event, `source` the line of the handler, `values` fit for JSON, `after` the message
    that led there: the last one that the first node had received."""
    predicate: str
    nodes: tuple["Node", ...]
    logical_time: Any
    real_time: float
    event: int
    message: str
    values: dict[str, Any] = field(default_factory=dict)
    backtraces: dict[str, str] = field(default_factory=dict)
    source: str = ""
    after: "Message | None" = None

    def to_json(self) -> dict[str, Any]:
        """As --json writes it."""
        return {"predicate": self.predicate, "nodes": as_json(self.nodes), "logical_time": str(self.logical_time),
                "real_time": self.real_time, "event": self.event, "message": self.message, "values": self.values,
                "backtraces": self.backtraces, "source": self.source, "after": self.after and self.after.to_json()}

    def __str__(self) -> str:
        where = ", ".join(f"{node} ({node.name})" for node in self.nodes)
        lines = [f"violation of {self.predicate} on node {where}",
                 f"  at logical time {self.logical_time}, real time {self.real_time:.6f}, event {self.event}"]
        lines += [f"  {self.message}"] if self.message else []
        lines += [f"  {name} = {str(value).rstrip()}".replace("\n", "\n    ") for name, value in self.values.items()]
        lines += [f"  after {self.after}"] if self.after and "after" not in self.values else []
        lines += [f"  in {self.source}"] if self.source else []
        for name, text in self.backtraces.items():
            lines += [f"  {name}:", *(f"    {line}" for line in text.splitlines())]
        return "\n".join(lines)


def user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an exception without those of this package."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(PACKAGE)]


def user_traceback(error: BaseException) -> str:
    """The exception as Python shows it, without the frames of this package."""
    shown = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in shown.stack if not frame.filename.startswith(PACKAGE)]
    shown.stack = traceback.StackSummary.from_list(frames) if frames else None  # None: no header
    return "".join(shown.format())


def collect_evidence(session: "Session", name: str, nodes: "tuple[Node, ...]", message: str, evidence: dict[str, Any],
                     error: BaseException | None) -> Violation:
    """The record of a violation that is found now."""
    backend = session.backend
    first = next((int(node) for node in nodes if node.state != "not started"), session.here)
    values = {key: as_json(value) for key, value in evidence.items()}
    hit = session.hit
    if hit is not None and hit.expression is not None and not session.finished:
        values.setdefault(hit.expression, {"old": as_json(hit.old), "new": as_json(hit.new)})
    source = ""
    frames = user_frames(error) if error is not None else []
    if frames:
        frame = frames[0]  # the handler's own line
        source = f"{frame.filename}:{frame.lineno}: {frame.line}"
        message = message or frame.line or ""
    return Violation(name, nodes, backend.logical_time(), backend.real_time(first), backend.event(first), message,
                     values, {node.name: _backtrace(node) for node in nodes}, source, session.last_message(first))


def _backtrace(node: "Node") -> str:
    try:
        return node.backtrace()
    except Error as error:
        return f"no backtrace: {error}"
