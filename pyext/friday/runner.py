"""The command `friday run SCRIPT REC`: runs a script on a session, reports the violations and determines the exit code. Several
scripts or recordings are run in processes of their own (batch.py)."""
from __future__ import annotations

import os
import select
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Sequence, TextIO

from . import reports
from .batch import Batch, Channel
from .errors import ComponentDied, Divergence, Error
from .handlers import compile_script, register_source
from .progress import ProgressLine
from .reports import BAD_INPUT, DIED, DIVERGED, HELD, INTERRUPTED, VIOLATED, Outcome
from .sessions import Progress, Session
from .slices import NeedsPast, begin_slice, run_slices
from .teaching import to_know
from .tracing import Tracer
from .violations import Violation, user_traceback


_MOST_SHOWN = 20  # violations of a predicate that a run of its own prints; the reports have all


class Refused(Exception):
    """Raised if a recording cannot be opened. `code` is the exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Options:
    """How scripts run. nodes, sync, symbols, unconfined: as for a Session. stop_at_first: the first violation ends the run. origin: says
    of the first violation of each predicate where the values come from that were read. begin, end: places of the recording, marks
    or times in seconds; the run begins at the first and ends before the second. is_slice: other runs check what lies before and
    behind."""
    nodes: str | None = None
    sync: str = "clock"
    symbols: tuple[str, ...] = ()
    unconfined: bool = False
    stop_at_first: bool = False
    origin: bool = False
    begin: str = ""
    end: str = ""
    is_slice: bool = False

    def words(self) -> list[str]:
        """The options of the command line that mean the same."""
        values = [("--node", self.nodes), ("--sync", self.sync), ("--from", self.begin), ("--to", self.end), *(("--symbols", path) for path in self.symbols)]
        flags = [("--unconfined", self.unconfined), ("--stop-at-first", self.stop_at_first), ("--origin", self.origin),
                 ("--slice", self.is_slice)]
        return [word for name, value in values if value for word in (name, value)] + [name for name, on in flags if on]


class FirstViolation(BaseException):
    """Raised at the first violation to end the run (--stop-at-first)."""


def open_session(recording: str, nodes: str | None, sync: str, *, console: bool = False,
                 symbols: Sequence[str] = (), unconfined: bool = False) -> Session:
    """Opens the session for a command line. Raises Refused."""
    try:
        return Session(recording, nodes=nodes, sync=sync, console=console, symbols=symbols, unconfined=unconfined)
    except ImportError as error:
        raise Refused(BAD_INPUT, f"this build has no replay core that Python can load: {error}") from error
    except ComponentDied as error:
        raise Refused(DIED, str(error)) from error
    except Error as error:
        raise Refused(BAD_INPUT, str(error)) from error


def main(scripts: Sequence[str], recordings: Sequence[str], options: Options = Options(), *, json_path: str | None = None, junit_path: str | None = None,
         args: Sequence[str] = (), jobs: int | None = None, worker: int | None = None, slices: int = 1, executable: str = "") -> int:
    """The command `friday run`: runs each script on each recording, with a progress line on a terminal. Returns the exit code. An
    error that keeps the scripts from running at all is printed and written to json_path. worker: if this process is one run of
    a batch, the descriptor to which it reports."""
    began = time.monotonic()
    pairs = [Outcome(script, recording) for script in scripts for recording in recordings]
    for path in scripts:
        try:
            open(path, encoding="utf-8").close()
        except OSError as error:
            order = "; the scripts come first, then the recordings" if os.path.isdir(path) else ""
            return _refuse(pairs, f"cannot read the script {path}: {error.strerror}{order}", json_path)
    for path in filter(None, (json_path, junit_path)):
        try:
            open(path, "a", encoding="utf-8").close()
        except OSError as error:
            return _refuse(pairs, f"cannot write {path}: {error.strerror}", None)
    processors = len(os.sched_getaffinity(0))

    def words(pair: Outcome, fd: int, own: Options = options) -> list[str]:
        return [executable, "run", pair.script, pair.recording, "--worker", str(fd), *own.words(), "--", *args]
    if slices > 1:
        if len(pairs) > 1 or options.begin or options.end:
            return _refuse(pairs, "--slices divides the run of one script on one recording, from its start to its end", json_path)
        try:
            run_slices(pairs[0], options, slices, words, jobs or processors)
            _conclude(pairs[0])
        except Error as error:
            return _refuse(pairs, str(error), json_path)
    elif len(pairs) > 1:
        batch = Batch(pairs, words)
        batch.run(jobs or processors)
        print("\n".join(reports.summary_lines(pairs, batch.labels, time.monotonic() - began)), file=sys.stderr)
    else:
        _run_one(pairs[0], options, args, Channel(worker) if worker is not None else None)
    return max(reports.worst(pairs), _written(reports.write_json, json_path, pairs), _written(reports.write_junit, junit_path, pairs))


def _refuse(pairs: Sequence[Outcome], message: str, json_path: str | None) -> int:
    print(f"friday: {message}", file=sys.stderr)
    for pair in pairs:
        pair.ended(BAD_INPUT, message)
    return max(BAD_INPUT, _written(reports.write_json, json_path, pairs))


def _run_one(run: Outcome, options: Options, args: Sequence[str], channel: Channel | None) -> None:
    """Carries out one run in this process and returns its exit code."""
    began = time.monotonic()
    line = ProgressLine(sys.stderr)
    try:
        session = open_session(run.recording, options.nodes, options.sync, symbols=options.symbols, unconfined=options.unconfined)
    except Refused as refused:
        print(f"friday: {refused}", file=sys.stderr)
        run.ended(refused.code, str(refused))
    else:
        if channel is None:  # the slices of a run would all say the same
            for text in to_know(session):
                print(f"friday: {text}", file=sys.stderr)
        with session, line.shown():
            _carry_out(run, session, args, options, progress=channel.progress if channel else line, out=sys.stderr, channel=channel)
        if channel is None or run.never_hit and not options.is_slice:  # whoever made a process for this run says how it ended
            _conclude(run)
    run.seconds = time.monotonic() - began
    if channel is not None:
        channel.end(run)


def _conclude(run: Outcome) -> None:
    for text in run.conclusion():
        print(f"friday: {text}", file=sys.stderr)


def run_script(path: str, session: Session, args: Sequence[str] = (), *, json_path: str | None = None,
               progress: Progress | None = None, out: TextIO | None = None, stop_at_first: bool = False) -> int:
    """Runs a script in Friday's dialect with `friday.session` set, and then runs the group to the end, unless the script has done so
    or has called `friday.stop()`. The first 20 violations of each predicate are printed to `out` (by default stderr) as they are found; the
    whole report is written to json_path. stop_at_first: the first violation ends the run.

    Returns the exit code: 0 if everything held, 1 for a violation, 2 for an error in the script, 3 if the replay diverged, 4 if a
    component died."""
    run, began = Outcome(path, session.recording), time.monotonic()
    stream = out or sys.stderr
    _carry_out(run, session, args, Options(stop_at_first=stop_at_first), progress=progress, out=stream)
    run.seconds = time.monotonic() - began
    return max(run.code, _written(reports.write_json, json_path, [run], stream))


def _carry_out(run: Outcome, session: Session, args: Sequence[str], options: Options, *, out: TextIO, progress: Progress | None = None,
               channel: Channel | None = None) -> None:
    """Runs the script and fills in its outcome. Of each predicate the first violations are printed. channel: is told of all."""
    seen: dict[str, int] = {}
    most = _MOST_SHOWN if channel is None else 1

    def tell(violation: Violation) -> None:
        count = seen[violation.predicate] = seen.get(violation.predicate, 0) + 1
        if count <= most:
            print(_marked(session, violation), file=out)
        if channel is not None:
            channel.violation(violation)
        if options.stop_at_first and session.tracer is None:
            raise FirstViolation

    def tell_origin(violation: Violation) -> None:
        print("\n".join([f"origins of what {violation.predicate} had read", *violation.origin_lines()]), file=out)
        if options.stop_at_first:
            raise FirstViolation

    if options.origin:
        session.tracer = Tracer(session)
    session.on_traced = tell_origin
    import friday
    before = friday.session
    friday.session = session
    session.collecting = True
    session.on_progress = progress
    session.on_violation = tell
    try:
        run.ended(*_guarded(run.script, session, args, options, out))
    finally:
        friday.session = before
        session.on_violation = session.on_progress = session.on_traced = None
    run.violations = [violation.to_json() for violation in session.violations]
    run.texts = [str(violation) for violation in session.violations]
    run.dropped = session.violations_dropped
    points = [point for point in session.points.values() if not point.purpose]
    run.points, run.hits = len(points), session.hits
    run.never_hit = [point.label for point in points if point.enabled and not point.hits] if session.finished else []
    run.altered = [{"id": int(node), "name": node.name, "since": str(since)} for node, since in _altered(session).items()]
    for predicate, count in seen.items():
        if count > most:
            print(f"friday: {count - most} more of {predicate}", file=out)
    if run.dropped:
        print(f"friday: there were {run.dropped} more violations, which are not kept", file=out)


def _guarded(path: str, session: Session, args: Sequence[str], options: Options, stream: TextIO) -> tuple[int, str, str]:
    """Runs the script and turns what it raises into (exit code, error or "", word or ""). The error has been printed; a word is
    given if it is not the usual one of the code."""

    def failed(code: int, text: str, word: str = "") -> tuple[int, str, str]:
        print(text.rstrip("\n"), file=stream)
        return code, text, word

    try:
        _run(path, session, args, options)
    except FirstViolation:
        pass
    except NeedsPast as error:
        return (failed(BAD_INPUT, f"friday: {error}") if not options.begin else (BAD_INPUT, str(error), ""))
    except Divergence as error:
        return failed(DIVERGED, f"friday: diverged: {error}")
    except ComponentDied as error:
        return failed(DIED, f"friday: {error}")
    except KeyboardInterrupt:
        text = "friday: interrupted: the recording was not checked to its end"
        return failed(VIOLATED if session.violations else BAD_INPUT, text, INTERRUPTED)
    except SystemExit as error:
        if isinstance(error.code, str):
            return failed(BAD_INPUT, error.code)
        if error.code:
            return int(error.code) & 0xff or BAD_INPUT, "", ""
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _is_output_gone():
            text = "friday: nobody reads the output any more: the recording was not checked to its end"
            return failed(VIOLATED if session.violations else BAD_INPUT, text, INTERRUPTED)
        if error.filename != path:
            return failed(BAD_INPUT, user_traceback(error))
        return failed(BAD_INPUT, f"friday: cannot read the script {path}: {error.strerror}")
    except Exception as error:
        return failed(BAD_INPUT, user_traceback(error))
    return (VIOLATED if session.violations else HELD), "", ""


def _is_output_gone() -> bool:
    poll = select.poll()
    poll.register(1, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _go_between(session: Session, options: Options) -> None:
    """Brings the session to where the run begins, and sets where it ends."""
    if options.end:
        session.last_place = session.event_at(options.end)
    if options.begin:
        if "#" in options.begin and ":" in options.begin:
            session.goto(options.begin)
        else:
            node, event = session.event_at(options.begin)
            session.goto(event, node=node)


def _run(path: str, session: Session, args: Sequence[str], options: Options) -> None:
    _go_between(session, options)
    with open(path, encoding="utf-8") as file:
        source = file.read()
    space = session.namespace
    space.update({"__name__": "__main__", "__file__": path})
    register_source(path, source)
    saved = sys.argv, sys.path[:]
    sys.argv = [path, *args]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        try:
            exec(compile_script(source, path), space)
        except AssertionError as error:  # a check of the script itself
            session.report_assertion(None, error)
            return
        if options.is_slice:
            begin_slice(session, path, last=not options.end)
        while not session.finished and not session.stop_asked:
            session.run()
    finally:
        sys.argv, sys.path[:] = saved


def _marked(session: Session, violation: Violation) -> str:
    """The text of a violation, after a line that names the altered nodes if there are any."""
    marks = [f"node {node} ({node.name}) was altered since {since}" for node, since in session.altered.items()]
    return "\n".join([*marks, str(violation)])


def _written(write: Callable[[str, Sequence[Outcome]], None], path: str | None, runs: Sequence[Outcome], stream: TextIO | None = None) -> int:
    """Writes a report if a path is given. Returns the code, or BAD_INPUT if the report cannot be written."""
    try:
        if path is not None:
            write(path, runs)
        return HELD
    except OSError as failure:
        print(f"friday: cannot write {path}: {failure.strerror}", file=stream or sys.stderr)
        return BAD_INPUT


def _altered(session: Session) -> dict[Any, Any]:
    try:
        return session.altered
    except Error:  # a component has died
        return {}
