"""Programs that end by a fault: the replay ends at the same instruction, and gdb stands there."""

import re

import pytest
from conftest import ROOT
from debug_support import BUILD, opened, record_once  # noqa: F401

pytestmark = pytest.mark.limit(60)

LINES = (ROOT / "tests" / "targets" / "crash.c").read_text().splitlines()
# How crash.c ends, by which signal, and a part of the line that does it.
CRASHES = [("fault", 11, "*(volatile int*)16 = 1"), ("divide", 8, "return 100 / zero"), ("illegal", 4, "__builtin_trap()"), ("overflow", 11, "p -= 1024"),
           ("bus", 7, "*(volatile char*)page"), ("abort", 6, "abort()")]


@pytest.mark.parametrize("how, number, text", CRASHES, ids=[crash[0] for crash in CRASHES])
def test_crash(how, number, text, opened, tmp_path_factory):
    recording = record_once(f"crash_{how}", lambda recorder: recorder.record([BUILD / "targets" / "crash", how]), tmp_path_factory)
    assert recording.returncode == 128 + number
    places = set()
    for _ in range(2):
        session = opened(recording)
        stop = session.run()
        assert stop.kind == "end", stop
        frames = session.backtrace().splitlines()
        # At the instruction itself; abort() is in the library, and so is what it calls.
        frame = next(frame for frame in frames if "crash.c:" in frame) if how == "abort" else frames[0]
        assert how != "abort" or "abort" in "".join(frames[:frames.index(frame)]), frames
        found = re.search(r"(\w+) ?\(.*crash\.c:(\d+)", frame)
        assert found, frame
        function, line = found.groups()
        assert function == "main" and text in LINES[int(line) - 1], frame
        places.add((str(session.gdb("info registers rip")), repr(stop)))
    assert len(places) == 1, places
