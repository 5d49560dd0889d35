"""What the debugger's tests share: recordings made once for all of them, sessions on the real core, and an end to hangs.

    def test_one(ring, opened):
        session = opened(ring)
        stop = break_at(session, "process_data")

The program's own output (one line a change of a link, with the real time) is the independent witness that these tests
compare the debugger's hits with.
"""

import faulthandler
import os
import pathlib
import re
import sys

import pytest
from _pytest.faulthandler import fault_handler_stderr_key
from conftest import ROOT, Recorder, limit_of

BUILD = pathlib.Path(os.environ.get("FRIDAY_BUILD", ROOT / "build" / "release")).resolve()
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "tests" / "apps" / "chord")]
import friday  # noqa: E402
import ring as ring_plan  # noqa: E402

NODES, SECONDS, SEED = 5, 6, 3
HANG = 30  # seconds beyond its own limit after which a test that does not end takes the whole run with it, with a traceback
_recordings = {}


class RingRecording:
    """The recorded ring: 5 nodes, the last joins late, one leaves early, and the fault is planted."""

    def __init__(self, recording, plan):
        self.path, self.plan, self.nodes = recording.path, plan, recording.nodes()
        self.events = {node["id"]: node["events"] for node in recording.nodes() if "events" in node}

    def output(self, node):
        return (self.path / f"n{int(node)}.out").read_text()

    def changes(self, node, link):
        """What the node printed of a link: (real time, old id or None, new id or None)."""
        found = re.findall(rf"^n{int(node)} ([\d.]+) {link} (\w+) -> (\w+) ", self.output(node), re.M)
        number = lambda text: None if text == "none" else int(text, 16)  # noqa: E731
        return [(float(time), number(old), number(new)) for time, old, new in found]

    def fingers(self, node, direction):
        """The addresses of fingers that went up or down."""
        return re.findall(rf"finger {direction} (\S+)", self.output(node))


def record_once(name, make, factory):
    """The recording of that name, made by make(recorder) when first asked for in this run of pytest."""
    if name not in _recordings:
        recorder = Recorder(BUILD / "bin" / "friday", factory.mktemp(name))
        try:
            _recordings[name] = make(recorder)
        finally:
            recorder.kill_all()
    return _recordings[name]


def record_ring(recorder):
    plan = ring_plan.make_plan(nodes=NODES, seconds=SECONDS, seed=SEED, kills=1, gap=0.2, period=150, fault=True,
                               truth=str(recorder.directory / "truth.json"))
    return record_plan(recorder, plan)


def record_plan(recorder, plan):
    group = recorder.directory / "group.toml"
    group.write_text(ring_plan.group_toml(plan, BUILD / "apps"))
    path = recorder.directory / "ring"
    done = recorder.run([recorder.friday, "record", "-o", path, "--group", group])
    assert done.returncode == 0, done.stderr
    from conftest import Recording
    return RingRecording(Recording(path, done, SECONDS), plan)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    return record_once("ring", record_ring, tmp_path_factory)


def recorded_target(name):
    """A fixture: a program of tests/targets, recorded once."""
    @pytest.fixture(scope="module")
    def recording(tmp_path_factory):
        return record_once(name, lambda recorder: recorder.record([BUILD / "targets" / name]), tmp_path_factory)
    return recording


def plain_end_of(recording):
    """A fixture: the final state of the recording that a fixture of that name gives, where nothing was asked on the way."""
    @pytest.fixture(scope="module")
    def plain_end(request):
        with friday.Session(request.getfixturevalue(recording).path) as session:
            return final_state(session)
    return plain_end


workers = recorded_target("workers")  # four threads that take turns


@pytest.fixture
def opened(request):
    """opened(recording, ...): a friday.Session on it, closed at the end of the test."""
    sessions = []
    # A core that hangs cannot be reached by a signal handler of Python.
    faulthandler.dump_traceback_later(limit_of(request.node) + HANG, exit=True, file=request.config.stash[fault_handler_stderr_key])

    def open_session(recording, **options):
        path = recording if isinstance(recording, (str, pathlib.Path)) else recording.path
        sessions.append(friday.Session(path, **options))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()
    faulthandler.cancel_dump_traceback_later()


def break_at(session, location, **options):
    """Runs to the next hit of a breakpoint that is then deleted; returns the stop."""
    point = session.breakpoint(location, **options)
    stop = session.run()
    assert stop.kind == "breakpoint" and stop.ids == (point.id,), stop
    point.delete()
    return stop


def run_to_end(session):
    stop = session.run()
    assert stop.kind == "end", stop
    return stop


def line_of(file, text):
    """FILE:LINE of the line of a chord source that holds `text`."""
    lines = (ROOT / "tests" / "apps" / "chord" / file).read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if text in line]
    assert len(found) == 1, f"{file}: {len(found)} lines hold {text!r}"
    return f"{file}:{found[0]}"


def state(session):
    """Events done and the hash of the state of each node, now."""
    return {int(node): (session.backend.event(node) + 1, session.backend.state_hash(node)) for node in session.nodes}


def final_state(session):
    """The same at the end, to which it runs."""
    run_to_end(session)
    return state(session)


def end_without_points(session):
    """The same without stop points: a watched page is split off its mapping, which the state shows."""
    run_to_end(session)
    for point in list(session.points):
        session.delete(point)
    return state(session)
