"""Processes that make very many threads in their life: what Friday maps for a thread goes with it, in a recorded process, in one whose
recording has ended, and in a replayed one."""

import pathlib
import subprocess

import pytest
from debug_support import break_at, opened  # noqa: F401
from test_debug_robust import children

AREAS = range(0x150000000000, 0x160000000000)  # from kAreasAddress to kScheduleAddress (core/shim/shim_abi.h)
MOST = 64  # two mappings for each of the ten threads that the program has at a time, and some for those that have not quite gone


def areas_of(pid):
    """How many mappings the process has for its threads."""
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sum(int(line.split("-")[0], 16) in AREAS for line in lines)


def start(recorder, targets, *arguments):
    program = targets / "threads_many"
    running = recorder.start_record([program, *arguments], name="it", stdin=subprocess.PIPE)
    assert running.process.stdout.readline() == "READY\n"
    return running, next(pid for pid, line in recorder.processes().items() if line.startswith(str(program)))


def test_a_recorded_process_and_its_replay(recorder, targets, opened):
    running, pid = start(recorder, targets, "3000", "asks")
    assert 1 <= areas_of(pid) < MOST
    recording = recorder.finish_record(running)
    assert (recording.returncode, recording.stdout) == (0, "SUCCESS\n"), recording
    recorder.verify(recording)
    session = opened(recording)
    break_at(session, "success")
    replayed = next(pid for pid, name in children().items() if name == "friday-stub")
    assert 1 <= areas_of(replayed) < MOST


def test_a_process_whose_recording_has_ended(recorder, targets):
    """It makes more threads than a process may have at a time."""
    running, pid = start(recorder, targets, "70000", "unrecorded")
    assert 1 <= areas_of(pid) < MOST
    recording = recorder.finish_record(running)
    assert (recording.returncode, recording.stdout) == (0, "SUCCESS\n"), recording
    assert recording.ended_at("it") == "clone"


@pytest.mark.full
def test_more_threads_than_a_process_may_have_at_a_time(recorder, targets, opened):
    recording = recorder.record([targets / "threads_many", "70000"], name="it", timeout=600)
    assert (recording.returncode, recording.stdout) == (0, "SUCCESS\n"), recording
    recorder.verify(recording, timeout=600)
    session = opened(recording)
    stop = break_at(session, "work", condition="(long)number == 69990")
    assert stop.thread == 69994, "the first thread has number 0, that which stays has 1, and 65536 and 65537 are left out"
