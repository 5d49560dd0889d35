"""What reading expressions has cost in a session: `Session.costs`, and `info costs` at the console."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .answers import Output, table
from .errors import UsageError

if TYPE_CHECKING:
    from .commands import Command
    from .sessions import Session

MOST = 40  # lines of `info costs`


@dataclass(frozen=True)
class Cost:
    """What an expression has cost so far. Each time is that within Friday's core, without making a value of Python."""

    expression: str
    """Its text; "" for all expressions behind the first 4096 together."""
    by: str
    """Who evaluated it the last time: "plan" (the core, compiled), "call" (the core called a function of the program) or "gdb"."""
    reason: str
    """For "gdb": why no plan can evaluate it. Otherwise ""."""
    count: int
    """How often it was evaluated, in conditions too, on all nodes together."""
    first: float
    """Seconds of the first time, in which gdb may have made its plan."""
    rest: float
    """Seconds of all other times together."""

    @property
    def seconds(self) -> float:
        """All times together."""
        return self.first + self.rest

    @property
    def each(self) -> float:
        """Seconds of a time, without the first one if there are others."""
        return self.rest / (self.count - 1) if self.count > 1 else self.first


def costs_of(session: "Session") -> tuple[Cost, ...]:
    return tuple(sorted((Cost(*each) for each in session.backend.costs()), key=lambda cost: -cost.seconds))


def duration(seconds: float) -> str:
    """A time with a unit in which it is easy to read: 2.1 us, 11.8 ms, 1.5 s."""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def info_costs(session: "Session", command: "Command", out: Output) -> None:
    """`info costs [PATTERN]`: one line an expression, the dearest first."""
    if command.nodes is not None:
        raise UsageError("`info costs` counts all nodes together: no node list stands before it")
    wanted = command.rest.partition(" ")[2].strip()
    found = [cost for cost in costs_of(session) if wanted in cost.expression]
    if not found:
        out(f"no expression with `{wanted}` has been read" if wanted else "no expression has been read")
        return
    rows = [("by", "count", "each", "first", "total", "expression")]
    for cost in found[:MOST]:
        rows.append((cost.by, str(cost.count), duration(cost.each), duration(cost.first), duration(cost.seconds), cost.expression or "(others)"))
    lines = table(rows)
    out(lines[0])
    for cost, line in zip(found, lines[1:]):
        out(line)
        if cost.reason:
            out(f"      {cost.reason}")
    if len(found) > MOST:
        out(f"and {len(found) - MOST} more; `info costs TEXT` shows those that contain a text")
