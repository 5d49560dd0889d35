"""The order computed for real recordings is one that could have happened: no receive before its send, no cycle, and on one host
nothing against CLOCK_MONOTONIC. friday_order_check judges by the raw records."""
import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

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
