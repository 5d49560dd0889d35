"""`friday run --slices N`: checks parts of one recording in parallel, each from a checkpoint that the recording holds.

A part knows nothing of what came before it. So the script must say that what it checks needs no earlier state: `needs_past = False`,
in the script or, for predicates that set themselves up (predicates/check.py), in their class. The parts meet at the checkpoints
and have nothing in common, so all violations together are those of a run of the whole recording.
"""
from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Callable

from .answers import counted
from .batch import Batch
from .errors import UsageError
from .recordings import Recording
from .reports import VIOLATED, Outcome, worst

if TYPE_CHECKING:
    from .runner import Options
    from .sessions import Session


class NeedsPast(UsageError):
    """A script cannot be run in slices."""


def begin_slice(session: "Session", script: str, last: bool) -> None:
    """Call when the script has set itself up. `last`: this slice ends where the recording ends. Raises NeedsPast."""
    said = [check.needs_past for check in session.checks]
    if "needs_past" in session.namespace:
        said.append(session.namespace["needs_past"])
    if not said or any(said):
        raise NeedsPast(f"{script} may need what came before a slice: run it without --slices, or let it say `needs_past = False` if each of its "
                        "checks looks at the state of its own moment only")
    if session.finished:
        raise NeedsPast(f"{script} runs the group itself, so it cannot be run in slices")
    if not last:
        session.at_end_functions.clear()


def run_slices(run: Outcome, options: "Options", count: int, words: "Callable[[Outcome, int, Options], list[str]]", jobs: int) -> None:
    """Runs a script in at most `count` slices, at most `jobs` at a time, and fills in the outcome of the whole. words: the command line
    of one. Raises what opening the recording raises, and UsageError if the nodes or their order are not those of checkpoints."""
    if options.nodes or options.sync != "clock":
        raise UsageError("--slices replays all nodes in the order clock, for which checkpoints are made")
    marks = Recording(run.recording).parts(count)
    if len(marks) + 1 < count:
        print(f"friday run: {counted(len(marks) + 1, 'slice')} only, as the recording holds no more checkpoints; `friday checkpoint` makes some", file=sys.stderr)
    parts = [dataclasses.replace(options, begin=begin, end=end, is_slice=True) for begin, end in zip(["", *marks], [*marks, ""])]
    runs = [Outcome(run.script, run.recording) for _ in parts]
    which = {id(one): part for one, part in zip(runs, parts)}
    batch = Batch(runs, lambda one, fd: words(one, fd, which[id(one)]), [f"slice {number} of {len(parts)}" for number in range(1, len(parts) + 1)])
    batch.run(jobs)
    _join(run, runs, options.stop_at_first)
    print(f"friday run: {run.summary} in {counted(len(parts), 'slice')}", file=sys.stderr)


def _join(whole: Outcome, parts: "list[Outcome]", first_only: bool) -> None:
    for part in parts:
        whole.violations += part.violations
        whole.texts += part.texts
        whole.dropped += part.dropped
        whole.altered += part.altered
        whole.seconds = max(whole.seconds, part.seconds)
        whole.points, whole.hits = max(whole.points, part.points), whole.hits + part.hits
        if first_only and whole.violations:
            del whole.violations[1:], whole.texts[1:]
    if all(part.code <= VIOLATED for part in parts):
        whole.never_hit = [each for each in parts[0].never_hit if all(each in part.never_hit for part in parts)]
    decides = next(part for part in parts if part.code == worst(parts))
    whole.ended(decides.code, "\n".join(dict.fromkeys(part.error for part in parts if part.error)), decides.word)
