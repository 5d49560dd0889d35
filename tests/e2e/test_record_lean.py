"""`friday record --lean`: what recorded processes receive from each other is left out while they run, and is made again."""

import json
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
elif kind == "unix":
    listener = socket.socket(socket.AF_UNIX); listener.bind("here.sock"); listener.listen()
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
    elif kind == "unix":
        here = socket.socket(socket.AF_UNIX); here.connect("here.sock")
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
if kind in ("tcp", "unix"):
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
        if moved.direction == "in" and (not sys.argv[2] or event.arguments[2] == int(sys.argv[2])):
            channel = 0 if sys.argv[2] else moved.channel
            counts[channel] += moved.bytes
            states[channel].update(moved.payload or b"")
print(states[counts.most_common(1)[0][0]].hexdigest())
"""


def received(recorder, recording, size=""):
    """Or the hash of all that it has received by calls with this size."""
    script = recorder.directory / "received.py"
    script.write_text(RECEIVED)
    done = recorder.run(["/usr/bin/python3", script, recording.path, str(size)], env={"PYTHONPATH": str(recorder.friday.parent.parent / "python")}, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def left_out(recorder, recording):
    return {node["name"]: node["left_out"]["bytes"] for node in recorder.info(recording)["nodes"] if "left_out" in node}


@pytest.mark.limit(300)
@pytest.mark.parametrize("kind, largest", [("tcp", 50_000), ("tcp", 900_000), ("unix", 30_000), ("pipe", 9000), ("pair", 20_000), ("packets", 60_000), ("datagrams", 60_000), ("udp", 1400)])
def test_what_a_process_sends_to_another(kind, largest, recorder):
    total = 12_000_000
    recording = recorder.record(["/usr/bin/python3", "-c", TALK, kind, str(total), str(largest)], name="talk", options=["--lean"], cwd=recorder.directory, timeout=120)
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


@pytest.mark.parametrize("moment", [pytest.param(0.3, marks=pytest.mark.full), 0.6, pytest.param(0.9, marks=pytest.mark.full)])
def test_a_killed_recorder_loses_nothing(moment, recorder):
    running = recorder.start_record(["/usr/bin/python3", "-c", TALK, "tcp", "1000000000", "50000"], name="talk", options=["--lean"])
    packed = running.recording / "nodes" / "0" / "trace.zst"
    wait_until(lambda: packed.exists() and packed.stat().st_size > moment * 1_000_000, "nothing is compressed", 30 * SLOWNESS)
    running.signal(signal.SIGKILL)
    running.finish()
    recorder.none_left()
    assert left_out(recorder, running.recording), "something was left out"
    recorder.verify(running.recording, timeout=240)


# A child sends much through one connection and a little through another, at a steady rate; the parent receives both.
TWO_CHANNELS = r"""
import os, random, socket, sys, threading, time
choose = random.Random(9)
listener = socket.create_server(("127.0.0.1", 0))
seconds = float(sys.argv[1])
if os.fork() == 0:
    bulk = socket.create_connection(listener.getsockname())
    control = socket.create_connection(listener.getsockname())
    start = time.monotonic()
    for n in range(10_000):
        bulk.sendall(choose.randbytes(60_000))
        if n % 5 == 0:
            control.sendall(b"heartbeat %08d " % n + choose.randbytes(200))
        if time.monotonic() - start > seconds:
            break
        time.sleep(0.02)
    os._exit(0)
def drain(connection):
    while connection.recv(20_000):
        pass
threads = [threading.Thread(target=drain, args=[listener.accept()[0]]) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os.wait()
"""


def channels(recorder, recording, node):
    done = recorder.run([recorder.friday, "info", "--channels", "--node", str(node), "--json", recording.path])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["nodes"][0]["channels"]


def two_channels(recorder, *options):
    """What `info` says of the connection with much and of the one with little."""
    recording = recorder.record(["/usr/bin/python3", "-c", TWO_CHANNELS, "5"], name="talk", options=options)
    assert recording.returncode == 0, recording
    found = [channel for channel in channels(recorder, recording, 0) if channel["kind"] == "stream"]
    assert len(found) == 2 and found[0]["received"]["bytes"] > 50 * found[1]["received"]["bytes"] > 0, found
    recorder.verify(recording)
    return recording, *found


def test_a_budget_keeps_channels_of_control(recorder):
    recording, bulk, control = two_channels(recorder, "--budget", "50K")
    assert "left_out" not in control and control["regenerable"] > 0.9 * control["received"]["bytes"], control
    assert bulk["left_out"]["bytes"] > 0.8 * bulk["received"]["bytes"] and bulk["left_out"]["now"], bulk
    assert [sender["node"] for sender in bulk["left_out"]["senders"]] == [1]
    done = recorder.run([recorder.friday, "info", "--channels", recording.path])
    assert done.returncode == 0 and ", from node 1; so since " in done.stdout and "could be left out" in done.stdout, done.stdout
    assert sum(file.stat().st_size for file in recording.path.glob("nodes/0/trace*")) < 2_000_000


def test_patterns_of_channels(recorder):
    _, bulk, control = two_channels(recorder, "--budget", "50K", "--drop-channel", "stream")
    assert control["left_out"]["bytes"] > 0.3 * control["received"]["bytes"], control
    _, bulk, control = two_channels(recorder, "--budget", "50K", "--keep-channel", "127.0.0.1:*", "--drop-channel", "stream")
    assert "left_out" not in control and "left_out" not in bulk, "what is to be kept is"


@pytest.mark.parametrize("budget", ["0", "1"])
def test_hardly_any_budget(budget, recorder):
    recording, bulk, control = two_channels(recorder, "--budget", budget)
    assert control["left_out"]["bytes"] > 0.3 * control["received"]["bytes"] and bulk["left_out"]["bytes"] > 0.9 * bulk["received"]["bytes"]
    assert f"more than --budget {budget}: " in recording.stderr, recording


@pytest.mark.parametrize("options, says", [(["--budget", "much"], "is not a size"), (["--keep-channel", "pipe"], "--budget"),
                                           (["--budget", "1K", "--no-compress"], "does not go with")])
def test_what_a_budget_is(options, says, recorder):
    done = recorder.record(["/bin/true"], options=options)
    assert done.returncode == 2 and says in done.stderr, done


# Reads a file of random bytes again and again, now and then with a change at one place.
READS = r"""
import hashlib, os, random
choose = random.Random(3)
data = bytearray(choose.randbytes(300_000))
state = hashlib.sha256()
for n in range(60):
    if n % 20 == 0:
        data[choose.randrange(len(data))] ^= 1
        with open("file", "wb") as file:
            file.write(data)
    fd = os.open("file", os.O_RDONLY)
    while piece := os.read(fd, 32_768):
        state.update(piece)
    os.close(fd)
print(state.hexdigest())
"""


def test_what_is_read_again_is_kept_once(recorder):
    recording = recorder.record(["/usr/bin/python3", "-c", READS], name="reads", options=["--lean"], cwd=recorder.directory)
    assert recording.returncode == 0, recording
    kept = list(recording.path.glob("payload/*"))
    size = sum(file.stat().st_size for file in [*recording.path.glob("nodes/0/trace*"), *kept])
    assert len(kept) == 1 and size < 2_500_000, (kept, size)
    assert not left_out(recorder, recording), "no replay is needed for that"
    recorder.verify(recording)
    assert received(recorder, recording, 32_768) == recording.stdout.strip()
    other = recorder.record(["/bin/true"], name="other")
    done = recorder.run([recorder.friday, "merge", "-o", recorder.directory / "both", other.path, recording.path])
    assert done.returncode == 0, done
    kept[0].unlink()
    recorder.verify(recorder.directory / "both")
    done = recorder.run([recorder.friday, "verify", recording.path])
    assert done.returncode == 2 and str(kept[0]) in done.stderr, done


def test_the_size_has_a_limit(recorder):
    """The packer has nothing to do that would free room; the program goes on."""
    recording = recorder.record(["/usr/bin/python3", "-c", TALK, "tcp", "12000000", "50000"], name="talk", options=["--lean", "--max-size", "4M"], cwd=recorder.directory)
    assert recording.returncode == 0 and len(recording.stdout) == 65 and "the size that --max-size allows" in recording.stderr, recording
    assert sum(file.stat().st_size for file in recording.path.glob("nodes/*/trace*")) <= 4 << 20
    recorder.verify(recording)


def test_lean_needs_compression(recorder):
    done = recorder.record(["/bin/true"], options=["--lean", "--no-compress"])
    assert done.returncode == 2 and "does not go with" in done.stderr and "--lean" in done.stderr, done
