"""`friday record --schedule`: communication alone is kept of programs that run in parallel, and it is what a full recording of them has."""

import collections
import json
import subprocess

import pytest
from conftest import ROOT
from debug_support import friday
from test_redis import Redis, put_and_get
from test_standby import PROMISES

PYTHON = "/usr/bin/python3"
BOOKING = ROOT / "tests" / "apps" / "booking"

# Who sends what to whom is the same in each run, whatever comes first: a server with threads, clients that speak to it at once, datagrams
# of which the longest have 30,000 bytes, a pipe, a pair of sockets and a socket that is passed on.
CHATTER = r"""
import os, socket, struct, threading, time

def exactly(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(min(size - len(data), 5000))
        assert more, "the stream ends early"
        data += more
    return data

def fork(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child

listener = socket.create_server(("127.0.0.1", 0))
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind(("127.0.0.1", 0))
ours, theirs = socket.socketpair()
reads, writes = os.pipe()

def serve(connection):
    while True:
        head = connection.recv(4, socket.MSG_WAITALL)
        if not head:
            return connection.close()
        size, = struct.unpack("!I", head)
        connection.sendall(head + bytes(reversed(exactly(connection, size))))

def server():
    threads = [threading.Thread(target=serve, args=(listener.accept()[0],)) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()

def client(number):
    connection = socket.create_connection(listener.getsockname())
    for turn in range(40):
        text = (b"%d/%d " % (number, turn)) * (1 + turn * turn * 6)
        connection.sendall(struct.pack("!I", len(text)) + text)
        assert connection.recv(4, socket.MSG_WAITALL) == struct.pack("!I", len(text))
        assert exactly(connection, len(text)) == bytes(reversed(text))

def datagrams():
    socket_ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for size in (1, 499, 500, 501, 30000):
        socket_.sendto(b"d" * size, echo.getsockname())
        assert len(socket_.recv(65536)) == size

def passes():
    passed, kept = socket.socketpair()
    socket.send_fds(theirs, [b"here"], [passed.fileno()])
    passed.close()
    assert kept.recv(100) == b"by the one that was passed"
    os.write(writes, b"end")

for child in (server, datagrams, passes): fork(child)
clients = [fork(lambda number=number: client(number)) for number in range(4)]
for size in (1, 499, 500, 501, 30000):
    data, peer = echo.recvfrom(65536)
    echo.sendto(data, peer)
message, descriptors, _, _ = socket.recv_fds(ours, 100, 1)
os.write(descriptors[0], b"by the one that was passed")
assert os.read(reads, 100) == b"end"
for _ in range(7): assert os.wait()[1] == 0
print("SUCCESS")
"""


def said(path):
    """How many bytes each node has sent to each, by kind, and the beginnings of the datagrams."""
    data = friday.Recording(path)
    names = {int(node): node.name for node in data.nodes}
    sums, datagrams = collections.Counter(), collections.Counter()
    for message in data.messages():
        pair = (names.get(message.source, "outside"), names.get(message.target, "outside"), message.channel)
        sums[pair] += message.bytes
        if message.channel == "datagram":
            datagrams[(*pair, message.bytes, (message.data or b"")[:500])] += 1
    return sums, datagrams


@pytest.mark.parametrize("options", [[], ["--no-compress"], ["--no-patch"]], ids=["packed", "plain", "trapped"])
def test_what_is_kept_is_what_a_full_recording_has(options, recorder, tmp_path):
    program = [PYTHON, "-c", CHATTER]
    full = recorder.record(program, name="it", options=options)
    kept = recorder.record(program, name="it", options=["--schedule", *options])
    assert (full.stdout, kept.stdout) == ("SUCCESS\n", "SUCCESS\n"), (full, kept)
    assert said(kept.path) == said(full.path)
    about, before = recorder.info(kept), recorder.info(full)
    ends = lambda info: sorted((node["name"], node["ended"]) for node in info["nodes"])
    assert ends(about) == ends(before) and about["contradictions"] == 0 and about["matched"]["unplaced_receives"] == 0
    assert about["events"] < before["events"]


def test_only_the_first_bytes_are_kept(recorder, tmp_path):
    for option, size in (([], 500), (["--first-bytes", "7"], 7), (["--first-bytes", "0"], 0)):
        recording = recorder.record([PYTHON, "-c", CHATTER], name="it", options=["--schedule", *option])
        data = friday.Recording(recording.path)
        moved = [transfer for node in data.nodes for event in data.events(node) for transfer in event.transfers if transfer.direction == "in" and transfer.bytes > size]
        assert moved and {len(transfer.payload or b"") for transfer in moved} == {size}
        assert sum(transfer.bytes for transfer in moved) > 1_000_000
        texts = {message.data for message in data.messages() if message.channel == "datagram" and message.bytes == 30000}
        assert texts == ({b"d" * size} if size else {None}) or (size == 0 and texts == {b""}), texts


def test_it_is_read_and_not_replayed(recorder, tmp_path):
    recording = recorder.record([PYTHON, "-c", "import os, socket\na, b = socket.socketpair()\na.send(b'text'); b.recv(9); open('/dev/null').read(); os.getcwd()"], name="it", options=["--schedule"])
    dump = recorder.run([recorder.friday, "dump", "--node", "0", recording.path]).stdout
    assert "sendto" in dump and "text" in dump and "getcwd" not in dump and "/dev/null" not in dump
    assert "cannot be replayed" in recorder.run([recorder.friday, "info", recording.path]).stdout
    for command in (["replay"], ["verify"], ["checkpoint", "--every", "1"]):
        done = recorder.run([recorder.friday, command[0], recording.path, *command[1:]])
        assert done.returncode != 0 and "only the schedule was kept" in done.stderr, (command, done)
    other = recorder.record(["/bin/true"], name="other", options=["--schedule"])
    copied = recorder.run([recorder.friday, "merge", "-o", tmp_path / "merged", recording.path, other.path])
    assert copied.returncode == 0 and recorder.run([recorder.friday, "info", tmp_path / "merged"]).returncode == 0, copied


def test_what_the_kernel_promises(recorder, tmp_path):
    (tmp_path / "promises.c").write_text(PROMISES)
    subprocess.run(["cc", "-O2", "-w", "-o", tmp_path / "promises", tmp_path / "promises.c", "-lpthread"], check=True)
    recording = recorder.record([tmp_path / "promises", "5"], name="it", options=["--schedule"])
    assert (recording.returncode, recording.stdout) == (0, "1\n"), recording


def test_a_server(recorder, ports, tmp_path):
    """Nothing of Redis' files and clocks is kept, and each command and answer."""
    redis = Redis(recorder, ports(1), tmp_path, "--appendonly", "yes", record=["--schedule"])
    put_and_get(redis)
    recording = redis.end()
    calls = {json.loads(line).get("call") for line in recorder.run([recorder.friday, "dump", "--node", "0", "--json", recording.path]).stdout.splitlines()}
    assert {"read", "write", "accept4", "close"} <= calls and not calls & {"clock_gettime", "epoll_wait", "fdatasync", "open", "openat"}, calls
    assert not list((recording.path / "files").iterdir()), "files were copied"


@pytest.mark.full
@pytest.mark.limit(400)
def test_a_study_of_schedules(recorder, tmp_path):
    study = tmp_path / "study"
    done = recorder.run([recorder.friday, "diagnose", "--schedule", "-q", "-o", study, "--group", BOOKING / "service.toml", "-n", "40", "--keep", "0", "--",
                         PYTHON, BOOKING / "customer.py", "{port:web}", "{port:redis}", "f1"], cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    first = json.loads(recorder.run([recorder.friday, "compare", "--json", study], timeout=60).stdout)["orders"][0]
    assert "SET price:" in first["messages"][1]["text"], first


@pytest.mark.parametrize("options, named", [(["--standby"], "--standby"), (["--chaos"], "--chaos"), (["--lean"], "--lean"), (["--keep", "10m"], "--keep"), (["--state-hash"], "--state-hash")])
def test_what_needs_more_than_a_schedule(options, named, recorder, tmp_path):
    done = recorder.run([recorder.friday, "record", "-o", tmp_path / "rec", "--schedule", *options, "--", "/bin/true"])
    assert done.returncode == 2 and named in done.stderr and "leave one of them away" in done.stderr and not (tmp_path / "rec").exists()
    assert "--schedule" in recorder.run([recorder.friday, "record", "-o", tmp_path / "rec", "--first-bytes", "5", "--", "/bin/true"]).stderr
