"""What orders two processes of a host in `causal`: each way of waiting for another is recorded, the call that waits is found to come
behind the call that lets it go, and is not when that one kind of edge is left out. The calls overlap, so no clock tells."""
import json
import subprocess

import pytest

# How edges.c waits, and the kinds of edges that say so: the signal that tells of a child's end is one that is sent, and an end that is waited for.
WAYS = {"pipe": "pipe", "socketpair": "stream", "passed": "stream", "kept": "stream", "close": "end of stream", "shutdown": "end of stream",
        "flock": "lock", "flock-death": "lock", "flock-exec": "lock", "fcntl": "lock", "fcntl-close": "lock", "ofd": "lock",
        "semaphore": "semaphore", "eventfd": "eventfd", "message": "queue", "mqueue": "queue",
        "sigwait": "signal", "signalfd": "signal", "child": "signal, wait", "datagram": "datagram", "connect": "connect", "fifo": "pipe", "wait": "wait",
        "death": "end of stream", "killed": "end of stream"}
# Those in which the second call begins only after the first: as a rule the clock tells as well.
IN_TURN = {"file": "file", "turn": "shared memory", "fork": "fork", "exec": "exec", "handler": "signal"}


@pytest.fixture
def ordered(build):
    """ordered(recording, kind...): whether `causal` puts let-go before acquire, without edges of these kinds."""
    def ordered(recording, *without):
        done = subprocess.run([build / "bin" / "friday_order_check", recording.path, "let-go", "acquire", *without], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout == "ordered\n"
    return ordered


@pytest.mark.parametrize("way", WAYS)
def test_only_its_edge_orders_them(way, recorder, targets, ordered, tmp_path):
    recording = recorder.record([targets / "edges", way], name="it", cwd=tmp_path)
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n"), recording
    assert len(recording.nodes()) == (3 if way == "flock-exec" else 2)
    assert ordered(recording), "the edge is missing"
    assert not ordered(recording, *WAYS[way].split(", ")), "something else orders them too"
    for sync in ("clock", "causal"):
        recorder.verify(recording, "--sync", sync)


@pytest.mark.parametrize("way", IN_TURN)
def test_only_its_edge_and_the_clock_order_them(way, recorder, targets, ordered, tmp_path):
    recording = recorder.record([targets / "edges", way], name="it", cwd=tmp_path)
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n"), recording
    assert len(recording.nodes()) == 2
    assert ordered(recording) and ordered(recording, "host"), "the edge is missing"
    assert not ordered(recording, "host", IN_TURN[way]), "something else orders them too"
    for sync in ("clock", "causal"):
        recorder.verify(recording, "--sync", sync)


@pytest.mark.parametrize("how", ["race", "locks", "spin", "files", "groups", "segments"])
def test_shared_memory_in_causal_order(how, recorder, targets, tmp_path):
    recording = recorder.record([targets / "shared_processes", how], name="it", cwd=tmp_path)
    assert recording.returncode == 0, recording
    recorder.verify(recording, "--sync", "causal", "--times", "2")


def test_only_the_parent_knows_how_a_child_was_killed(recorder, targets):
    recording = recorder.record([targets / "signals_stop"], name="it")
    ended = {node["name"]: node["ended"] for node in json.loads(recorder.run([recorder.friday, "info", "--json", recording.path]).stdout)["nodes"]}
    assert ended == {"it": "exited with 0", "it/child-1": "exited with 3", "it/child-2": "killed by SIGKILL"}
