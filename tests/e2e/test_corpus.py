"""Recordings of other versions replay or are refused by name (tests/corpus.py). What is kept on this machine of earlier versions is checked too."""

import json
import struct
import sys

import pytest
from conftest import ROOT
from debug_support import BUILD

sys.path.insert(0, str(ROOT / "tests"))
import corpus  # noqa: E402


@pytest.fixture
def made(tmp_path):
    return corpus.make(BUILD, tmp_path / "corpus")


def change_trace(recording, offset, value):
    """Stores a 32-bit number into the header of each trace."""
    for node in (recording / "nodes").iterdir():
        for name in ("trace", "trace.zst"):
            if (node / name).exists():
                data = bytearray((node / name).read_bytes())
                at = data.find(b"FRIDAYT1")
                struct.pack_into("<I", data, at + offset, value)
                (node / name).write_bytes(data)


def test_recordings_of_this_version_replay_and_those_of_others_are_refused_by_name(made):
    assert len(list(made.iterdir())) == len(corpus.PROGRAMS)
    lines, wrong = corpus.check(BUILD, made.parent)
    assert not wrong and all(line.endswith("repeats") for line in lines), lines
    change_trace(made / "pipes", 8, 99)
    about = json.loads((made / "files" / "recording.json").read_text())
    (made / "files" / "recording.json").write_text(json.dumps(about | {"format": 99}))
    lines, wrong = corpus.check(BUILD, made.parent)
    assert not wrong and [line for line in lines if "trace format version 99" in line] and [line for line in lines if "recording format 99" in line], lines
    # What is refused for another reason is not excused.
    (made / "timers" / "recording.json").write_text("{}")
    (made / "files" / "recording.json").unlink()
    assert corpus.check(BUILD, made.parent)[1] >= 1


def test_what_this_machine_keeps_of_earlier_versions():
    if not corpus.folder().is_dir():
        pytest.skip("machine: it keeps no corpus of recordings; tests/corpus.py make begins one")
    lines, wrong = corpus.check(BUILD, corpus.folder())
    assert not wrong, "\n".join(lines)
