"""Commands that run the group, and how a stop is told: node, stop point, place, thread, time, source line."""
from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING, Any

from .answers import Output, named, seconds
from .commands import Command, Verb
from .errors import Error, UsageError
from .progress import ProgressLine

if TYPE_CHECKING:
    from .backend import Stop
    from .nodes import Node
    from .sessions import Session

_FRAME = re.compile(r"#\d+\s+(?:0x[0-9a-f]+ in )?")
_SOURCE = re.compile(r"\d+\t")


def frame_of(session: "Session", node: int) -> tuple[str, str]:
    """The place where a node stands as gdb says it, without the frame's number, and the source line, each "" if unknown."""
    try:
        first, *rest = session.backend.gdb(node, "frame").splitlines() or [""]
    except Error:
        return "", ""
    while rest and not _SOURCE.match(rest[0]) and rest[0][:1] == " ":  # gdb breaks long lists of arguments
        first += " " + rest.pop(0).strip()
    source = rest[0] if rest and _SOURCE.match(rest[0]) else ""
    return _FRAME.sub("", first, count=1), source


def stop_lines(session: "Session", stop: "Stop") -> list[str]:
    """A stop in words."""
    node = session.nodes.all[stop.node]
    if stop.kind == "end":
        return [f"the recording ends here, at {seconds(session.logical_time)}; `restart` goes back to its start"]
    if stop.kind == "exit":
        return [ended_line(session, stop)]
    if stop.kind == "interrupt":
        node = session.node
        if node.state != "alive":
            return [f"interrupted at {seconds(session.logical_time)}"]
    place, source = frame_of(session, int(node))
    place = place or stop.location or ""
    thread = None if stop.kind == "interrupt" or stop.thread is None else f"thread {stop.thread}"
    where = ", ".join(filter(None, [place, thread, seconds(session.logical_time)]))
    if stop.ids:
        ids = ", ".join(f"{stop.kind} {id_}" for id_ in stop.ids)
        lines = [f"{named(node)} stopped at {ids}, {where}"]
    elif stop.kind == "interrupt":
        lines = [f"interrupted; {named(node)} is in {where}"]
    else:
        lines = [f"{named(node)}: {where}"]
    if stop.expression is not None:
        hit = session.hit
        lines.append(f"  {stop.expression}: {_shown(hit.old)} -> {_shown(hit.new)}")
    if stop.message:
        lines += [f"  {line}" for line in stop.message.splitlines()]
    return lines + ([source] if source else [])


def _shown(value: Any) -> str:
    return "undefined" if value is None else str(value)


def ended_line(session: "Session", stop: "Stop") -> str:
    return f"{named(session.nodes.all[stop.node])} ended at {seconds(stop.logical_time)}: {stop.message or 'no more events'}"


def tell(session: "Session", stop: "Stop", out: Output) -> None:
    """Says why the group stands; the node that stopped is the selected one now."""
    if stop.ids:
        session.here = stop.node
    for line in stop_lines(session, stop):
        out(line)


@contextlib.contextmanager
def _watched(session: "Session", out: Output) -> Any:
    """On a terminal, a run has a progress line that gives way to what is printed."""
    line = ProgressLine(sys.stderr)
    session.on_progress = line if out.fold else None
    try:
        with line.shown() if out.fold else contextlib.nullcontext():
            yield
    finally:
        session.on_progress = None


def _continue(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    if command.rest:
        if not command.rest.isdigit() or int(command.rest) == 0:
            raise UsageError("continue [COUNT]")
        if session.last_stop is None or not session.last_stop.ids:
            raise UsageError("continue COUNT passes hits of the stop points where the group stands: it stands at none")
        for id_ in session.last_stop.ids:
            if id_ in session.points:
                session.points[id_].ignore(int(command.rest) - 1)
    with _watched(session, out):
        stop = session.run()
    tell(session, stop, out)


def one_node(session: "Session", command: Command) -> "Node":
    """The node of a command that is for one."""
    if command.nodes is None:
        return session.node
    nodes = session.nodes.parse(command.nodes)
    if len(nodes) != 1:
        raise UsageError(f"`{command.verb}` moves one node, and `{command.nodes}` are {len(nodes)}; the others follow")
    return nodes[0]


def _step(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    verb, rest, count = command.verb, command.rest, 1
    node = one_node(session, command)
    if verb == "until":
        verb = f"until {rest}".strip()
    elif rest:
        if not rest.isdigit() or verb == "finish":
            raise UsageError(f"{verb} [COUNT]" if verb != "finish" else "finish takes no argument")
        count = int(rest)
    session.here = int(node)
    for _ in range(count):
        stop = session.step(node, verb)
        if stop.kind != "step":
            break
    tell(session, stop, out)


def _advance(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    node = one_node(session, command)
    if not command.rest:
        raise UsageError("advance LOC")
    point = session.breakpoint(command.rest, nodes=node, temporary=True)
    try:
        with _watched(session, out):
            stop = session.run()
    finally:
        if not point.deleted:
            point.delete()
    tell(session, stop, out)


def _restart(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    session.restart()
    kept = len(session.points)
    out(f"at the start of the recording; {kept or 'no'} stop point{'s' if kept != 1 else ''} kept")


VERBS: dict[str, Verb] = {
    "continue": _continue, "restart": _restart, "advance": _advance,
    **dict.fromkeys(("step", "next", "stepi", "nexti", "finish", "until"), _step),
}
