"""Checkpoints of a group: friday_replay_walk goes through a recording at random, forward and by checkpoints made in places where the
group happens to be, and finds in all nodes the memory that a replay has there which goes straight from the start. friday_replay_pauses finds
the same stops with pauses and without."""

import json
import subprocess
import zlib

import pytest
from debug_support import break_at, friday
from test_targets import TARGETS, start  # noqa: F401  (a fixture)

# What makes processes and threads, has them wait for each other, shares memory and takes signals.
SAMPLE = {"fork_many", "threads_spin", "signals_threads", "execs", "sysv_ipc", "main_exits", "map_shared"}
ONE_EVENT = {"foreign_memory"}  # there is nothing to walk between


def walk(build, recording, seed, moves, seconds=250):
    done = subprocess.run([build / "bin" / "friday_replay_walk", recording, str(seed), str(moves)], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def each_target():
    return [pytest.param(target, id=target.name, marks=[] if target.name in SAMPLE else pytest.mark.full)
            for target in TARGETS if "gap" not in target.options and target.name == target.program and target.name not in ONE_EVENT]


@pytest.mark.limit(300)
@pytest.mark.parametrize("target", each_target())
def test_memory_is_the_same_by_checkpoints(target, start, build):  # noqa: F811
    recording = start(target, True, "--state-hash")
    walked = walk(build, recording.path, zlib.crc32(target.name.encode()), 12)
    assert walked["checkpoints"] > 1 and walked["returns"] > 0, walked


@pytest.mark.full
@pytest.mark.limit(300)
@pytest.mark.parametrize("seed", range(3))
def test_no_call_is_lost_when_a_thread_is_interrupted_at_it(recorder, build, seed):
    """A call in code that is not patched raises a signal, and an interrupt can come between the two (about one of 500 does)."""
    recording = recorder.record(["/usr/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000"], options=("--no-patch", "--state-hash"))
    assert walk(build, recording.path, seed, 1000)["checkpoints"] > 500


@pytest.mark.parametrize("size", [0, 4, pytest.param(16, marks=pytest.mark.full)])
def test_pauses_change_nothing_that_is_seen(recorder, build, size):
    """What a pause interrupts is not lost, nor seen twice: breakpoints, writes to the stack and events, with their counts, are those of a replay
    without pauses; also from the checkpoints that were made in them. Of the size 0 nothing is watched, and passages are counted."""
    recording = recorder.record([build / "targets" / "paused"])
    with friday.Session(recording.path) as session:
        break_at(session, "receive")
        node = session.nodes[0]
        message, tick = (int(node.read(f"(unsigned long){what}")) for what in ("to", "&tick"))
    done = subprocess.run([build / "bin" / "friday_replay_pauses", recording.path, "0", f"{tick:x}", f"{message:x}", str(size)], capture_output=True,
                          text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["stops"] > (200 if size else 40) and said["checkpoints"] == 30 and said["pauses"] > (1000 if size else 200), said
