"""The commands of the console about the past: `reverse-continue`, `info checkpoints`, `set checkpoints`."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .answers import Output, counted, table
from .commands import Command, Verb
from .errors import UsageError

if TYPE_CHECKING:
    from .sessions import Session

_SIZE = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)
_MOST_ROWS = 20


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
        for line in table(rows):
            out(line)
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
    if command.rest and (not command.rest.isdigit() or int(command.rest) == 0):
        raise UsageError("usage: reverse-continue [COUNT]")
    for _ in range(int(command.rest or 1)):
        stop = session.reverse_continue()
        if stop is None:
            raise UsageError(_no_hit(session))
        if not stop.ids:
            break
    tell(session, stop, out)


def _no_hit(session: "Session") -> str:
    """Says that no stop point was hit before, and what stop points there are."""
    users = [point for point in session.points.values() if not point.purpose]
    if not users:
        return "there is no stop point to go back to: `watch EXPR` or `break LOC` first"
    handled = [str(point.id) for point in users if point.run is not None]
    passed = f"; those with a handler ({', '.join(handled)}) are passed over" if handled else ""
    return f"no stop point was hit before this place, where the group stays{passed}; `restart` goes to the start of the recording"


VERBS: dict[str, Verb] = {"reverse-continue": _reverse_continue}
