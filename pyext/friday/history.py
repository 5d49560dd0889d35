"""The commands of the console about the past: `reverse-continue`, `bookmark`, `undo`, `redo`, `first`, `when`, `origin`,
`info mark|bookmarks|checkpoints`, `set checkpoints`."""
from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from .answers import Output, brief, counted, cut, shown, without_parameters
from .commands import Command, Verb, tell_dropped
from .errors import UsageError
from .handlers import compile_condition
from .origins import MOST_HOPS, hop_place, input_texts
from .spans import MOST_CHANGES, First
from .table import OWNED

if TYPE_CHECKING:
    from .origins import Hop, Input
    from .sessions import Session

_SIZE = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)
_MOST_ROWS = 20
_INPUT = re.compile(r"(\d+)\.(\d+)")
_HOP = re.compile(r"hop\s+(\d+)")
_MARK = re.compile(r"start|\d+#\d+(:0x[0-9a-f]+(\+\d+)?\*\d+)?")
PLACES = ("event", "message", "output", "hop", "when", "end")  # words that `goto` knows


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def info_checkpoints(session: "Session", command: Command, out: Output) -> None:
    known = session.backend.checkpoints()
    kept = known["kept"]
    if kept:
        step = -(-len(kept) // _MOST_ROWS)
        rows = [("number", "time", "events", "processes", "memory")]
        rows += [(str(number), f"{time:.6f} s", str(events), str(processes), _mib(size))
                 for number, (events, time, processes, size) in enumerate(kept) if number % step == 0 or number == len(kept) - 1]
        out.table(rows)
    held = sum(size for *_, size in kept)
    out.prose(f"{counted(len(kept), 'checkpoint')}, about {_mib(held)} of at most {_mib(known['budget'])}; "
              + ("`goto` starts from the nearest one before its place" if kept else "`goto` to an earlier place replays from the start"))
    if session.backend.sync() != "clock":
        out(f"none are made in the order {session.backend.sync()}: only in the order clock all nodes stand at one time")
    elif known["refusal"]:
        out.prose(f"no more are made: {known['refusal']}")
    elif not known["on"]:
        out("no more are made: `set checkpoints on` makes them")


def set_checkpoints(session: "Session", value: str, out: Output) -> None:
    """Carries out `set checkpoints on|off|SIZE`."""
    size = _SIZE.fullmatch(value)
    if value in ("on", "off"):
        session.set_checkpoints(value == "on")
    elif size:
        session.set_checkpoints(budget=int(size[1]) << 10 * " KMG".index(size[2].upper() or " "))
    elif value:
        raise UsageError("usage: set checkpoints on|off|SIZE, for example `set checkpoints 2G`")
    known = session.backend.checkpoints()
    out(f"checkpoints are {'on' if known['on'] else 'off'}, and take at most {_mib(known['budget'])}")


def _reverse_continue(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    from .running import tell  # written on top of this module
    if until := command.rest.partition("until ")[2]:
        return _reverse_until(session, until.strip(), out)
    if command.rest and (not command.rest.isdigit() or int(command.rest) == 0):
        raise UsageError(f"usage: {OWNED['reverse-continue'].usage}")
    for _ in range(int(command.rest or 1)):
        stop = session.reverse_continue()
        if stop is None:
            raise UsageError(_no_hit(session))
        if not stop.ids:
            break
    tell(session, stop, out)


def _reverse_until(session: "Session", expression: str, out: Output) -> None:
    from .running import change_lines, tell, watched  # written on top of this module
    with watched(session, out):
        stop, until = session.run_back_until(compile_condition(expression, "until", session.namespace))
    if stop is not None:
        if until.holds:
            out(f"it was true here: {expression}")
        tell(session, stop, out, until.ids)
        if until.holds and until.ended_by is not None:
            out(f"the next write ends it:{change_lines(session, until.ended_by)[0][1:]}")
        elif until.holds and stop.kind == "step":
            out("the next instruction ends it: the group stood behind it")
    elif until.holds:
        out("the expression is already true here")
    else:
        raise UsageError(f"not true at any place before this one, where the group stays: {expression}{until.doubt}")


def _no_hit(session: "Session") -> str:
    """Says that no stop point was hit before, and what stop points there are."""
    users = [point for point in session.points.values() if not point.purpose]
    if not users:
        return "there is no stop point to go back to: `watch EXPR` or `break LOC` first"
    handled = [str(point.id) for point in users if point.run is not None]
    passed = f"; those with a handler ({', '.join(handled)}) are passed over" if handled else ""
    return f"no stop point was hit before this place, where the group stays{passed}; `restart` goes to the start of the recording"


def goes_to(session: "Session", text: str) -> str | None:
    """The mark that a text means: it is one, or the name of a bookmark. None if it is neither."""
    return session.bookmarks.get(text, text if _MARK.fullmatch(text) else None)


def _bookmark(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    from .running import is_time  # written on top of this module
    name, *mark = command.rest.split() or [next(name for n in itertools.count(1) if (name := f"b{n}") not in session.bookmarks)]
    if len(mark) > 1 or mark and not _MARK.fullmatch(mark[0]):
        raise UsageError("usage: bookmark [NAME [MARK]]; a mark is NODE#EVENT or NODE#EVENT:0xADDRESS*TIMES, for example 3#1234")
    if is_time(name) or _MARK.fullmatch(name) or name in PLACES or name in OWNED["goto"].usage.split():
        kind = "a time" if is_time(name) else "a mark" if _MARK.fullmatch(name) else "another place"
        raise UsageError(f"`goto {name}` would mean {kind}, so a bookmark cannot have that name: begin it with another letter, such as `at-{name}`")
    session.bookmarks[name] = mark[0] if mark else session.mark()
    out(f"bookmark {name} is {session.bookmarks[name]}")


def info_bookmarks(session: "Session", command: Command, out: Output) -> None:
    if not session.bookmarks:
        out("no bookmarks: `bookmark NAME` keeps the place where the group stands")
        return
    out.table([("name", "mark"), *session.bookmarks.items()])


def info_mark(session: "Session", command: Command, out: Output) -> None:
    out(session.mark())


def _first(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    from .running import tell, watched  # written on top of this module
    if not command.rest:
        raise UsageError(f"usage: {OWNED['first'].usage}")
    first = First(session, compile_condition(command.rest, "first", session.namespace))
    with watched(session, out):
        stop = first.run()
    if stop is None:
        out(f"true from the start on: {command.rest}")
        return
    out(f"true from here on: {command.rest}")
    tell(session, stop, out, first.ids)


def _when(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    from .running import watched  # written on top of this module
    if not command.rest:
        raise UsageError(f"usage: {OWNED['when'].usage}")
    with watched(session, out):
        changes = session.when(command.rest, nodes=command.nodes)
    if not changes:
        out(f"no write changes {command.rest} in this recording")
        return
    session.changes_listed = changes
    out.table([("number", "time", "node", "change", "in"), *(
        (str(number), f"{float(each.logical_time):.6f} s", each.node.name, cut(f"{shown(each.old)} -> {shown(each.new)}"), brief(without_parameters(each.place)))
        for number, each in enumerate(changes, 1))])
    if len(changes) == MOST_CHANGES:
        out(f"and more: only the first {MOST_CHANGES} are listed")


def _undo(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    from .running import tell  # written on top of this module
    if command.rest:
        raise UsageError(f"usage: {command.verb}")
    altered = list(session.altered)
    stop = session.undo() if command.verb == "undo" else session.redo()
    if stop is None:
        why = "" if session.backend.sync() == "clock" else ": only in the order clock moves are kept (`set sync clock`)"
        if refusal := session.backend.checkpoints()["refusal"]:
            why = f": no checkpoints are made any more, since {refusal}"
        raise UsageError(("there is no move to take back" if command.verb == "undo" else "no move was taken back that could be made again") + why)
    tell_dropped(session, altered, out)
    tell(session, stop, out)


def _tell_hops(session: "Session", hops: "list[Hop]", out: Output) -> None:
    rows = [("hop", "node", "in", "value", "")]
    for number, hop in enumerate(hops, 1):
        rows.append((str(number), hop.node.name, hop_place(hop), hop.shown, hop.text))
    out.table(rows)
    for number, hop in enumerate(hops, 1):
        texts = [f"{name} = {value} (`origin {number}.{which}`)" for which, (name, value) in enumerate(input_texts(session, hop), 1)]
        computed, parts = ([text for text, each in zip(texts, hop.inputs) if each.is_part == is_part] for is_part in (False, True))
        if computed:
            out.prose("computed from " + ", ".join(computed), "  ")
        if parts:
            out.prose(f"hop {number} is a part of the value; the rest: " + ", ".join(parts), "  ")


def _origin(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    from .running import one_node, watched  # written on top of this module
    if not command.rest:
        raise UsageError(f"usage: {OWNED['origin'].usage}")
    what: Any = command.rest
    if number := _HOP.fullmatch(command.rest):
        inputs = hop(session, int(number[1])).inputs
        raise UsageError(f"`origin` takes an expression of the program: `goto hop {number[1]}` goes to this hop" + (
            f", and `origin {number[1]}.1` follows {inputs[0].name}" if inputs else ""))
    if chosen := _INPUT.fullmatch(command.rest):
        what = _input(session, int(chosen[1]), int(chosen[2]))
    with watched(session, out):
        hops = session.origin(what, node=None if isinstance(what, tuple) else one_node(session, command))
    session.hops = hops
    _tell_hops(session, hops, out)
    if len(hops) == MOST_HOPS and hops[-1].how in ("copied", "received", "sent", "forked"):
        out(f"and further: {MOST_HOPS} hops are shown; `goto hop {MOST_HOPS}` and ask again there")


def hop(session: "Session", number: int) -> "Hop":
    """A hop of the last `origin`, by its number."""
    if not 1 <= number <= len(session.hops):
        raise UsageError(f"there is no hop {number}: " + (f"the last `origin` has the hops 1 to {len(session.hops)}" if session.hops else "`origin EXPR` makes them"))
    return session.hops[number - 1]


def change_mark(session: "Session", number: int) -> str:
    """The mark of a change that the last `when` has listed, by its number."""
    listed = session.changes_listed
    if not 1 <= number <= len(listed):
        raise UsageError(f"there is no change {number}: " + (f"the last `when` has listed 1 to {len(listed)}" if listed else "`when EXPR` lists changes"))
    change = listed[number - 1]
    if change.mark is None:
        before = 0 if change.event is None else change.event + 1
        raise UsageError(f"change {number} has no mark, because nobody has counted at a write of this kind: it is before event {before} of node {change.node} "
                         f"(`goto event {before} {change.node}`)")
    return change.mark


def _input(session: "Session", number: int, which: int) -> "tuple[Hop, Input]":
    chosen = hop(session, number)
    if not 1 <= which <= len(chosen.inputs):
        raise UsageError(f"hop {number} has " + (f"the inputs 1 to {len(chosen.inputs)}" if chosen.inputs else "no inputs: only what was computed, or is a part of a value, has some"))
    return chosen, chosen.inputs[which - 1]


VERBS: dict[str, Verb] = {"reverse-continue": _reverse_continue, "bookmark": _bookmark, "undo": _undo, "redo": _undo, "first": _first, "when": _when,
                          "origin": _origin}
