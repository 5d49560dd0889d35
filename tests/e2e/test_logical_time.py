"""The order computed for real recordings is one that could have happened: no receive before its send, no cycle, and on one host
nothing against CLOCK_MONOTONIC. friday_order_check judges by the raw records."""
import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT
from debug_support import friday

RING = ROOT / "tests" / "apps" / "chord" / "ring.py"

# Workers that are forked, talk over TCP, a Unix socket and pipes, are signalled, and are waited for.
FAMILY = r"""
import os, signal, socket
signal.signal(signal.SIGUSR1, lambda *_: None)
for family, name in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, "talk.sock")):
    listener = socket.socket(family)
    listener.bind(name)
    listener.listen()
    children = []
    for worker in range(3):
        ready, said = os.pipe()
        pid = os.fork()
        if pid == 0:
            talk = socket.socket(family)
            talk.connect(listener.getsockname())
            os.write(said, b"connected")
            for round in range(50):
                talk.sendall(b"%d asks %d " % (worker, round) * (1 + round))
                assert talk.recv(6, socket.MSG_WAITALL) == b"answer"
            os.kill(os.getppid(), signal.SIGUSR1)
            talk.shutdown(socket.SHUT_WR)
            talk.recv(1)
            os._exit(worker)
        os.close(said)
        children.append((pid, ready))
    for pid, ready in children:
        peer, _ = listener.accept()
        while True:
            text = peer.recv(100000)
            if not text:
                break
            # A question has come as a whole when its last word is there as often as its number says.
            while text.count(b" asks ") <= int(text.split()[2]):
                text += peer.recv(100000)
            peer.sendall(b"answer")
        peer.close()
        os.read(ready, 100)
    for worker, (pid, _) in enumerate(children):
        os.waitpid(pid, 0)
print("said enough")
"""


def check(build, recording):
    done = subprocess.run([build / "bin" / "friday_order_check", recording], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_family_of_processes(recorder, build):
    recording = recorder.record([sys.executable, "-S", "-c", FAMILY])
    assert recording.stdout.endswith("said enough\n"), recording
    seen = check(build, recording.path)
    assert seen["forks"] == 6 and seen["waits"] == 6
    assert seen["stream_bytes"] > 3 * 50 * 10
    edges = seen["edges"]
    assert edges["connect"] == 6 and edges["fork"] == 6 and edges["wait"] == 6 and edges["pipe"] == 6
    assert edges["signal"] >= 2 and edges["end of stream"] >= 6 and edges["stream"] >= 600


def test_pipeline(recorder, build):
    recording = recorder.record(["/bin/sh", "-c", "seq 20000 | sort -r | tail -n 1"])
    assert recording.stdout == "1\n", recording
    seen = check(build, recording.path)
    assert seen["edges"]["pipe"] > 2 and seen["edges"]["fork"] == 3


@pytest.mark.limit(120)
def test_ring(recorder, build):
    group = recorder.directory / "ring.toml"
    subprocess.run([sys.executable, RING, "--nodes", "8", "--seconds", "8", "--seed", "3", "--kills", "1", "-o", group], check=True,
                   timeout=30, env={**os.environ, "FRIDAY_APPS": str(build / "apps")})
    running = recorder.start([recorder.friday, "record", "-o", recorder.directory / "rec", "--group", group])
    done = running.finish(80)
    assert done.returncode == 0, done.stderr
    seen = check(build, recorder.directory / "rec")
    assert seen["packets"] > 500 and seen["edges"]["datagram"] >= seen["packets"]


def dumped(recorder, recording, node):
    out = recorder.run([recorder.friday, "dump", recording.path, "--node", node, "--json"]).stdout
    return [json.loads(line) for line in out.splitlines()]


def test_there_is_one_time_of_an_event(recorder):
    """What `dump`, `info` and a session say of it: seconds since the recording's first event, those of a `return` when it came back."""
    waits = ("import ctypes, os, threading, time\n"
             "r, w = os.pipe()\n"
             "thread = threading.Thread(target=lambda: (time.sleep(.1), os.write(w, b'x'), time.sleep(.01)))\n"
             "thread.start(); os.read(r, 1); thread.join()\n"
             "child = os.fork() or os._exit(3)\n"
             "ctypes.CDLL(None).waitpid(child, None, 0)\n")
    recording = recorder.group({"node": [{"name": "late", "command": [sys.executable, "-c", waits], "start_delay": 0.3},
                                         {"name": "early", "command": ["/bin/true"]}]})
    late, early = dumped(recorder, recording, "late"), dumped(recorder, recording, "early")
    assert early[0]["seconds"] == 0 and late[0]["seconds"] > 0.2
    times = [event["seconds"] for event in late]
    assert times == sorted(times)
    reads = {event["type"]: event["seconds"] for event in late if event.get("call") == "read" and event["type"] != "call"}
    assert reads["return"] - reads["release"] > 0.09
    told = {node["name"]: node["seconds"] for node in recorder.info(recording)["nodes"]}
    assert told["late"] == pytest.approx(times[-1] - times[0], abs=1e-6) and told["early"] == pytest.approx(early[-1]["seconds"], abs=1e-6)
    with friday.Session(recording.path, nodes="late") as session:
        assert float(session.logical_time) == pytest.approx(times[0], abs=1e-6)
    waited = [part for event in late if event.get("call") == "wait4" for part in event["parts"] if "status" in part]
    assert waited == [{**waited[0], "status": None}], "no place was given for a status"


def test_without_an_order_there_is_no_time(recorder):
    """Of a recording of which another node's trace is damaged the events are shown, and why they have no times."""
    recording = recorder.group({"node": [{"name": name, "command": ["/bin/true"]} for name in ("whole", "broken")]}, options=["--no-compress"])
    trace = recording.path / "nodes" / str(recording.node("broken")["id"]) / "trace"
    damaged = bytearray(trace.read_bytes())
    damaged[-200:-196] = b"\xff\xff\xff\xff"
    trace.write_bytes(damaged)
    done = recorder.run([recorder.friday, "dump", recording.path, "--node", "whole", "--json"])
    assert done.returncode == 0 and "no times are shown" in done.stderr and "damaged" in done.stderr, done.stderr
    assert {json.loads(line)["seconds"] for line in done.stdout.splitlines()} == {None}
