"""The records of violations, with their evidence, as text and as JSON."""
from __future__ import annotations

import ast
import os
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import BadExpression, Error
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
    """One violation. `nodes` are the nodes concerned, `node` is the one of them that triggered, or else the first. `logical_time` and
    `real_time` are those at which it was found; `real_time` is in seconds since 1970 on the clock of `node`. `event` is the index of the last
    event of `node`, and `after` the last message that it had received. `source` is the line of the handler; `values` can be written as JSON.
    `mark` is the place, for `goto`, if it is known without a run that counts; `friday run --origin` fills it in for the first violation of each
    predicate, with the `origins` of what was read."""
    predicate: str
    nodes: tuple["Node", ...]
    logical_time: Any
    real_time: float
    event: int
    message: str
    values: dict[str, Any] = field(default_factory=dict)
    backtraces: dict[str, str] = field(default_factory=dict)
    source: str = ""
    node: "Node | None" = None
    after: "Message | None" = None
    mark: str = ""
    origins: dict[str, list[str]] = field(default_factory=dict)
    traced: bool = False  # by --origin

    def to_json(self) -> dict[str, Any]:
        """The violation as the dictionary that --json writes."""
        traced = {"origins": self.origins} if self.traced else {}
        return {"predicate": self.predicate, "nodes": as_json(self.nodes), "node": as_json(self.node), "logical_time": str(self.logical_time),
                "real_time": self.real_time, "event": self.event, "message": self.message, "values": self.values,
                "backtraces": self.backtraces, "source": self.source, "after": self.after and self.after.to_json(), "mark": self.mark or None, **traced}

    def origin_lines(self) -> list[str]:
        """The mark, if it is known, and the origins as text, if the violation was traced."""
        lines = [f"  stands at {self.mark}"] if self.mark else []
        for value, hops in self.origins.items():
            lines += [f"  where {value} comes from:", *(f"    {number}. {hop}" for number, hop in enumerate(hops, 1))]
        return lines

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
        return "\n".join([*lines, *self.origin_lines()])


def user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an exception, without those of this package."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(PACKAGE)]


def user_traceback(error: BaseException) -> str:
    """The exception as Python shows it, without the frames of this package."""
    shown = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in shown.stack if not frame.filename.startswith(PACKAGE) and frame.filename != ast.__file__]
    shown.stack = traceback.StackSummary.from_list(frames) if frames else None  # without frames Python prints no header
    return "".join(shown.format())


def collect_evidence(session: "Session", name: str, nodes: "tuple[Node, ...]", message: str, evidence: dict[str, Any],
                     error: BaseException | None) -> Violation:
    """Makes the record of a violation that has just been found, with its evidence."""
    backend = session.backend
    node = session.node
    if node not in nodes or node.state == "not started":
        node = next((each for each in nodes if each.state != "not started"), node)
    values = {key: as_json(value) for key, value in evidence.items()}
    hit = session.hit
    if hit is not None and hit.expression is not None and not session.finished:
        try:
            changed = hit.old, hit.new
        except BadExpression:  # of a container whose items are not known
            changed = hit.raw
        values.setdefault(hit.expression, dict(zip(("old", "new"), map(as_json, changed))))
    stop = None if session.finished else session.last_stop
    mark = stop.mark if stop is not None else None
    source = ""
    frames = user_frames(error) if error is not None else []
    if frames:
        frame = frames[0]  # the handler's own line
        source = f"{frame.filename}:{frame.lineno}: {frame.line}"
        message = message or frame.line or ""
    return Violation(name, nodes, backend.logical_time(), node.real_time, backend.event(int(node)), message, values,
                     {each.name: _backtrace(each) for each in nodes}, source, node, session.last_message(node), mark or "")


def _backtrace(node: "Node") -> str:
    try:
        return node.backtrace()
    except Error as error:
        return f"no backtrace: {error}"
