"""A session that was restarted, wherever it stood, is like a new one: the same stops at the same places, to the same end."""
import json
import random

import pytest
from debug_support import BUILD, friday, opened, record_once  # noqa: F401

pytestmark = pytest.mark.limit(120)


def diverging(recorder):
    """A recording of which one byte that the program reads is another one: its replay diverges when it writes the sum."""
    recording = recorder.record([BUILD / "targets" / "diverge"], name="it")
    dump = recorder.run([recorder.friday, "dump", recording.path, "--node", "0", "--json"])
    read = [e["event"] for e in map(json.loads, dump.stdout.splitlines()) if e.get("call") == "read"][-1]
    edited = recorder.run([BUILD / "bin" / "friday_trace_edit", recording.path / "nodes" / "0" / "trace", str(read), "byte", "3"])
    assert edited.returncode == 0, edited.stderr
    return recording


RECORDINGS = {
    "shared_watch": lambda recorder: recorder.record([BUILD / "targets" / "shared_watch", recorder.directory / "file"], name="it"),
    "threads_loops": lambda recorder: recorder.record([BUILD / "targets" / "threads_loops"], name="it"),  # yields in loops without a call
    "fork_many": lambda recorder: recorder.record([BUILD / "targets" / "fork_many"], name="it"),
    "diverge": diverging,
}


@pytest.fixture(params=RECORDINGS)
def recorded(request, tmp_path_factory):
    return record_once(f"restarts_{request.param}", RECORDINGS[request.param], tmp_path_factory), request.param


def next_stop(session):
    try:
        stop = session.run()
    except friday.Divergence as e:
        return ("divergence", str(e))
    return (stop.kind, stop.event, float(stop.logical_time), *(() if stop.kind == "end" else (int(stop.node), session.backend.gdb(int(stop.node), "output $pc"))))


@pytest.mark.parametrize("seed", range(2))
def test_a_restart_begins_anew(recorded, opened, seed):
    chance = random.Random(seed)
    recording, name = recorded
    session = opened(recording)
    session.breakpoint("main")
    session.breakpoint("write")
    if name == "shared_watch":
        session.watch("shared->value")
    expected = []
    while not expected or expected[-1][0] not in ("end", "divergence"):
        expected.append(next_stop(session))
    assert len(expected) >= 3
    for _ in range(4):
        session.restart()
        stops = chance.randrange(len(expected) + 1)
        for i in range(stops):
            assert next_stop(session) == expected[i]
        if 0 < stops < len(expected) and chance.random() < 0.5:
            session.step(expected[stops - 1][3], "stepi")
    session.restart()
    assert [next_stop(session) for _ in expected] == expected
