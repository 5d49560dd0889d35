"""`friday run SCRIPT REC`: a script against a session, its violations, and the exit code."""
from __future__ import annotations

import json
import os
import sys
from typing import Any, Sequence, TextIO

from .errors import ComponentDied, Divergence, Error
from .handlers import compile_script, register_source
from .progress import ProgressLine
from .sessions import Progress, Session
from .violations import Violation, user_traceback

HELD, VIOLATED, BAD_INPUT, DIVERGED, DIED = 0, 1, 2, 3, 4


class Refused(Exception):
    """A recording that cannot be opened: `code` is the exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def open_session(recording: str, nodes: str | None, sync: str, *, console: bool = False,
                 symbols: Sequence[str] = ()) -> Session:
    """The session of a command line. Raises Refused."""
    try:
        return Session(recording, nodes=nodes, sync=sync, console=console, symbols=symbols)
    except ImportError as error:
        raise Refused(BAD_INPUT, f"this build has no replay core that Python can load: {error}") from error
    except ComponentDied as error:
        raise Refused(DIED, str(error)) from error
    except Error as error:
        raise Refused(BAD_INPUT, str(error)) from error


def main(path: str, recording: str, *, nodes: str | None = None, sync: str = "clock", json_path: str | None = None,
         args: Sequence[str] = (), symbols: Sequence[str] = ()) -> int:
    """The command `friday run`: opens the recording, runs the script with a progress line on a terminal, and returns the
    exit code. What keeps the script from running at all is said and written to json_path too."""
    try:
        try:
            open(path, encoding="utf-8").close()
        except OSError as error:
            raise Refused(BAD_INPUT, f"cannot read the script {path}: {error.strerror}") from error
        session = open_session(recording, nodes, sync, symbols=symbols)
    except Refused as refused:
        print(f"friday: {refused}", file=sys.stderr)
        if json_path is not None:
            _write_report(json_path, _report(refused.code, str(refused)))
        return refused.code
    progress = ProgressLine(sys.stderr)
    with session, progress.shown():
        return run_script(path, session, args, json_path=json_path, progress=progress)


def run_script(path: str, session: Session, args: Sequence[str] = (), *, json_path: str | None = None,
               progress: Progress | None = None, out: TextIO | None = None) -> int:
    """Runs a script in Friday's dialect with `friday.session` set, then the group to the end unless the script did or
    called `friday.stop()`. Violations go to out (stderr) as they are found, and with all else to json_path.

    Returns 0 all held, 1 violated, 2 bad script or an error in it, 3 diverged, 4 a component died."""
    stream = out or sys.stderr
    import friday
    before = friday.session
    friday.session = session
    session.collecting = True
    session.on_progress = progress
    session.on_violation = lambda violation: print(_marked(session, violation), file=stream)
    try:
        code, error = _guarded(path, session, args, stream)
    finally:
        friday.session = before
        session.on_violation = session.on_progress = None
    if session.violations_dropped:
        print(f"friday: {session.violations_dropped} more violations are not shown", file=stream)
    if json_path is not None and not _write_json(json_path, session, code, error, stream):
        code = code if code > VIOLATED else BAD_INPUT
    return code


def _guarded(path: str, session: Session, args: Sequence[str], stream: TextIO) -> tuple[int, str]:
    """The exit code and the error that ended the run, if any, already printed."""
    def failed(code: int, text: str) -> tuple[int, str]:
        print(text.rstrip("\n"), file=stream)
        return code, text

    try:
        _run(path, session, args)
    except Divergence as error:
        return failed(DIVERGED, f"friday: diverged: {error}")
    except ComponentDied as error:
        return failed(DIED, f"friday: {error}")
    except KeyboardInterrupt:
        code, text = failed(BAD_INPUT, "friday: interrupted: the recording was not checked to its end")
        return (VIOLATED if session.violations else code), text
    except SystemExit as error:
        if isinstance(error.code, str):
            return failed(BAD_INPUT, error.code)
        if error.code:
            return int(error.code), ""
    except OSError as error:
        if error.filename != path:
            return failed(BAD_INPUT, user_traceback(error))
        return failed(BAD_INPUT, f"friday: cannot read the script {path}: {error.strerror}")
    except Exception as error:
        return failed(BAD_INPUT, user_traceback(error))
    return (VIOLATED if session.violations else HELD), ""


def _run(path: str, session: Session, args: Sequence[str]) -> None:
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
        while not session.finished and not session.stop_asked:
            session.run()
    finally:
        sys.argv, sys.path[:] = saved


def _marked(session: Session, violation: Violation) -> str:
    """A violation for people; altered nodes are said first."""
    marks = [f"node {node} ({node.name}) was altered since {since}" for node, since in session.altered.items()]
    return "\n".join([*marks, str(violation)])


def _write_json(path: str, session: Session, code: int, error: str, stream: TextIO) -> bool:
    return _write_report(path, _report(code, error) | {
        "altered": [{"id": int(node), "name": node.name, "since": str(since)}
                    for node, since in _altered(session).items()],
        "violations": [violation.to_json() for violation in session.violations],
        "violations_not_kept": session.violations_dropped,
    }, stream)


def _report(code: int, error: str) -> dict[str, Any]:
    return {"altered": [], "exit": code, "error": error or None, "violations": [], "violations_not_kept": 0}


def _write_report(path: str, report: dict[str, Any], stream: TextIO | None = None) -> bool:
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
        return True
    except OSError as failure:
        print(f"friday: cannot write {path}: {failure.strerror}", file=stream or sys.stderr)
        return False


def _altered(session: Session) -> dict[Any, Any]:
    try:
        return session.altered
    except Error:  # a component has died
        return {}
