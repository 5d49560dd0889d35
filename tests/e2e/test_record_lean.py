"""`friday record --lean`: what recorded processes receive from each other is left out while they run, and is made again."""

import signal

import pytest
from conftest import SLOWNESS, wait_until
from test_lean import set_random_values
from test_redis import Redis

# Sends random bytes to another process, in pieces of random sizes, and prints the hash of what that one has received.
TALK = r"""
import hashlib, os, random, socket, sys
kind, total, largest = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
choose = random.Random(5)
datagrams = kind in ("packets", "datagrams", "udp")
if kind == "tcp":
    listener = socket.create_server(("127.0.0.1", 0))
elif kind == "pipe":
    out_of, into = os.pipe()
elif kind == "udp":
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); there.bind(("127.0.0.1", 0))
else:
    here, there = socket.socketpair(type={"pair": socket.SOCK_STREAM, "packets": socket.SOCK_SEQPACKET, "datagrams": socket.SOCK_DGRAM}[kind])
ready, go = os.pipe()
child = os.fork()
if child == 0:
    if kind == "tcp":
        here = socket.create_connection(listener.getsockname())
    elif kind == "udp":
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); here.connect(there.getsockname())
    sent = 0
    while sent < total:
        piece = choose.randbytes(min(choose.choice([10, 300, largest // 3, largest]), total - sent))
        if kind == "pipe":
            sent += os.write(into, piece)
        elif datagrams:
            here.send(piece)
            sent += len(piece)
            os.read(ready, 1)
        else:
            sent += here.send(piece)
    os._exit(0)
if kind == "tcp":
    there = listener.accept()[0]
got, state = 0, hashlib.sha256()
while got < total:
    data = os.read(out_of, choose.choice([100, 5000, 70_000])) if kind == "pipe" else there.recv(choose.choice([100, 5000, 70_000]) if not datagrams else 70_000)
    state.update(data)
    got += len(data)
    if datagrams:
        os.write(go, b"x")
os.waitpid(child, 0)
print(state.hexdigest())
"""

# Prints the hash of the payload of the channel by which the first node has received most.
RECEIVED = """
import collections, hashlib, sys
import friday
recording = friday.Recording(sys.argv[1])
counts, states = collections.Counter(), collections.defaultdict(hashlib.sha256)
for event in recording.events(0):
    for moved in event.transfers:
        if moved.direction == "in":
            counts[moved.channel] += moved.bytes
            states[moved.channel].update(moved.payload or b"")
print(states[counts.most_common(1)[0][0]].hexdigest())
"""


def received(recorder, recording):
    script = recorder.directory / "received.py"
    script.write_text(RECEIVED)
    done = recorder.run(["/usr/bin/python3", script, recording.path], env={"PYTHONPATH": str(recorder.friday.parent.parent / "python")}, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def left_out(recorder, recording):
    return {node["name"]: node["left_out"]["bytes"] for node in recorder.info(recording)["nodes"] if "left_out" in node}


@pytest.mark.limit(300)
@pytest.mark.parametrize("kind, largest", [("tcp", 50_000), ("tcp", 900_000), ("pipe", 9000), ("pair", 20_000), ("packets", 60_000), ("datagrams", 60_000), ("udp", 1400)])
def test_what_a_process_sends_to_another(kind, largest, recorder):
    total = 12_000_000
    recording = recorder.record(["/usr/bin/python3", "-c", TALK, kind, str(total), str(largest)], name="talk", options=["--lean"], timeout=120)
    assert recording.returncode == 0 and "are left out, as a replay makes them again" in recording.stderr, recording
    assert left_out(recorder, recording)["talk"] > 0.7 * total, left_out(recorder, recording)
    size = sum(file.stat().st_size for file in recording.path.glob("nodes/0/trace*"))
    assert size < 0.35 * total, size
    recorder.verify(recording, timeout=240)
    assert received(recorder, recording) == recording.stdout.strip()


def test_what_comes_from_outside_stays(recorder, ports, tmp_path):
    """Replicas lack what their primary sent; what the primary got from an unrecorded client stays."""
    redis = Redis(recorder, ports(3), tmp_path, record=["--lean"])
    redis.wait_for_copies()
    set_random_values(redis.ports[0], 3000, 4000)
    redis.wait_for_copies()
    recording = redis.end()
    lacks = left_out(recorder, recording)
    assert "redis-0" not in lacks and min(lacks["redis-1"], lacks["redis-2"]) > 5_000_000, lacks
    recorder.verify(recording, timeout=240)


@pytest.mark.parametrize("moment", [0.3, 0.6, 0.9])
def test_a_killed_recorder_loses_nothing(moment, recorder):
    running = recorder.start_record(["/usr/bin/python3", "-c", TALK, "tcp", "1000000000", "50000"], name="talk", options=["--lean"])
    packed = running.recording / "nodes" / "0" / "trace.zst"
    wait_until(lambda: packed.exists() and packed.stat().st_size > moment * 1_000_000, "nothing is compressed", 30 * SLOWNESS)
    running.signal(signal.SIGKILL)
    running.finish()
    recorder.none_left()
    assert left_out(recorder, running.recording), "something was left out"
    recorder.verify(running.recording, timeout=240)


def test_lean_needs_compression(recorder):
    done = recorder.record(["/bin/true"], options=["--lean", "--no-compress"])
    assert done.returncode == 2 and "excludes" in done.stderr and "--lean" in done.stderr, done
