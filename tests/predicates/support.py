"""What the tests of predicates share: a session on a recording in memory, and predicates on the command line."""

import io
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "unit"), str(ROOT)]
from fake_backend import Event, FakeBackend, Message  # noqa: E402, F401  (makes friday importable)

import friday  # noqa: E402


class Group(FakeBackend):
    """Nodes whose logical time is seconds since the start. Tables are snapshots, or lists that the fake hands out as they are."""

    def logical_time(self):
        return round(self.clock - 1000.0, 6)


def session_of(events, names="abc", start=None):
    """A session in which the nodes' variables begin as `start`."""
    backend = Group(names=list(names), events=list(events))
    for node in range(len(backend.infos)):
        backend.let(node, start or {})
    session = friday.Session(backend)
    session.collecting = True
    return session


def changes(*steps):
    """Events from (node, {expression: value}, seconds after the one before)."""
    return [Event(node, changes=values, seconds=seconds[0] if seconds else 1.0) for node, values, *seconds in steps]


def run(session):
    """Runs to the end; the messages of the violations."""
    assert session.run().kind == "end"
    return [violation.message for violation in session.violations]


def run_script(tmp_path, name, session, *args):
    """`friday run predicates/NAME.py` on a session: (exit code, violations as JSON, what was printed)."""
    report, out = tmp_path / "report.json", io.StringIO()
    code = friday.run_script(str(ROOT / "predicates" / f"{name}.py"), session, args, json_path=str(report), out=out)
    return code, json.loads(report.read_text())["violations"], out.getvalue()
