"""Threads at the edges of a process's life: its main thread has ended before the others, or a new one has not run yet. The process can
be stopped, its memory read and compared."""
import json

import pytest

SCRIPT = """
import friday
node = friday.session.nodes[0]
for at in ({first}, {second}):
    friday.session.goto(at)
    print(node.eval("counter") > 0, node.eval("kept[5]"), node.gdb("info symbol &counter").split()[0])
"""


@pytest.fixture
def recorded(recorder, targets):
    def recorded(number):
        recording = recorder.record([targets / "main_exits", str(number)], name="it")
        assert recording.returncode == 0, recording.stderr
        return recording
    return recorded


def test_its_memory_is_hashed(recorder, recorded):
    hashes = set()
    for number in (1, 2):
        done = recorder.verify(recorded(number), "--hash", "--json")
        hashes.add(json.loads(done.stdout)["nodes"][0]["hash"])
    assert len(hashes) == 2, "a hash of nothing"


@pytest.mark.parametrize("sync", ["clock", "free"])
def test_it_can_be_stopped(recorder, recorded, tmp_path, sync):
    recording = recorded(7)
    events = json.loads(recorder.verify(recording, "--json").stdout)["events"]
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(first=events // 2, second=events - 20))
    done = recorder.run([recorder.friday, "run", "--sync", sync, script, recording.path], timeout=60)
    assert done.returncode == 0, done
    assert done.stdout.splitlines() == ["True 7 counter", "True 7 counter"]


def test_a_thread_that_has_not_run_yet_is_there_in_every_replay(recorder, targets):
    """The recording ends behind the call that made the thread, and the kernel may or may not have let it run by then."""
    recording = recorder.record([targets / "sealed_traps", "threads"], name="it")
    recorder.verify(recording, "--times", "600")


WAITS = """
import os, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
for _ in range(200): os.getppid()
os._exit(0)
"""


def test_memory_is_compared_while_a_thread_waits(recorder):
    """A thread that waits for a futex writes nothing, so it keeps no other thread's memory from being looked at."""
    recording = recorder.record(["/usr/bin/python3", "-c", WAITS], name="it", options=("--state-hash",))
    events = [json.loads(line) for line in recorder.run([recorder.friday, "dump", recording.path, "--node", "it", "--json"]).stdout.splitlines()]
    started = next(n for n, event in enumerate(events) if event["type"] == "thread start")
    looked_at = [part["memory_bytes"] for event in events[started:] for part in event["parts"] if "memory_bytes" in part]
    assert looked_at and any(looked_at), "only registers were looked at"
    assert looked_at[-1] > 0, "nor was the memory at the end"
