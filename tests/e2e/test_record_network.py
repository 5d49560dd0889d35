"""Groups with a network of their own: partitions, delays, losses and random faults happen to real programs, are steps in the
recording, replay, and leave nothing behind."""

import json
import os
import pathlib
import re
import shutil
import signal

import pytest
from conftest import ROOT, SLOWNESS, wait_until
from debug_support import friday
from record_support import PYTHON, count_in, wait_for_work

REFUSE = pathlib.Path(__file__).with_name("refuse_calls.py")
UNSHARE = 272

pytestmark = pytest.mark.limit(240)


@pytest.fixture(autouse=True)
def network(recorder):
    """Skips where this user gets no network of namespaces."""
    done = recorder.run([recorder.friday, "doctor", "--json"])
    row = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "network of namespaces")
    if not row["works"]:
        pytest.skip(f"machine: {row['message']}")


# Answers each datagram, and each line of each connection.
ECHO = """
import socket, threading
def lines(peer):
    for line in peer.makefile("rb"):
        peer.sendall(line)
listener = socket.create_server(("0.0.0.0", 7000), backlog=16)
threading.Thread(target=lambda: [threading.Thread(target=lines, args=(listener.accept()[0],), daemon=True).start() for _ in iter(int, 1)], daemon=True).start()
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", 7000))
print("up", flush=True)
while True:
    data, peer = sock.recvfrom(2000)
    sock.sendto(data, peer)
"""
# Sends a numbered datagram every few milliseconds, and says of each when it was sent and how long the answer took, or -1.
PROBE = """
import socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(0.15)
number = 0
while True:
    number += 1
    sent = time.monotonic()
    sock.sendto(str(number).encode(), (sys.argv[1], 7000))
    took = -1
    try:
        while sock.recv(2000) != str(number).encode():
            pass
        took = time.monotonic() - sent
    except OSError:
        pass
    print(sent, took, flush=True)
    time.sleep(0.004)
"""


def node(name, code, *arguments, **keys):
    return {"name": name, "command": [PYTHON, "-c", code, *arguments], "stdout": f"{name}.out", **keys}


def pair(**keys):
    return [node("n1", ECHO, ready="output up"), node("n2", PROBE, "{address:n1}", **keys)]


def answers(recording, name="n2"):
    """[(when it was sent, seconds until the answer or -1)]"""
    return [tuple(map(float, line.split())) for line in (recording.path / f"{name}.out").read_text().splitlines()]


def steps(recording, name):
    """{what: CLOCK_MONOTONIC} of a node's steps."""
    directory = next(path for path in recording.path.glob("nodes/*") if json.loads((path / "node.json").read_text())["name"] == name)
    return {step["what"]: step["at_ns"] / 1e9 for step in map(json.loads, (directory / "steps.jsonl").read_text().splitlines())}


def test_a_partition_is_silence_until_it_is_healed(recorder):
    at = 1 + SLOWNESS
    recording = recorder.group({"group": {"stop_after": at + 2}, "network": {}, "node": pair(),
                                "event": [{"at": at, "partition": [["n1"], ["n2"]]}, {"at": at + 1, "heal": True}]})
    assert recording.returncode == 0, recording.stderr
    mark = steps(recording, "n2")
    cut = [took for sent, took in answers(recording) if mark["partition"] < sent < mark["heal"] - 0.2]
    before = [took for sent, took in answers(recording) if sent < mark["partition"] - 0.2]
    after = [took for sent, took in answers(recording) if sent > mark["heal"] + 0.2]
    assert len(cut) >= 3 and set(cut) == {-1}, "nothing is heard, and no error is given"
    assert len(before) > 5 and min(before) > 0 and len(after) > 5 and min(after) > 0
    info = recorder.info(recording)
    assert [(step["what"], step["detail"], step["name"]) for step in info["steps"]] == [
        ("partition", "n1 | n2", "n1"), ("partition", "n1 | n2", "n2"), ("heal", "all", "n1"), ("heal", "all", "n2")]
    assert [(step.what, step.detail) for step in friday.Recording(recording.path).steps()] == [(step["what"], step["detail"]) for step in info["steps"]]
    assert "friday record did: partition node 0 n1, n1 | n2\n" in recorder.run([recorder.friday, "info", recording.path]).stdout
    recorder.verify(recording)
    recorder.none_left()


def test_a_delay_is_in_the_round_trip_and_a_loss_in_what_is_missing(recorder):
    at = 1 + SLOWNESS
    recording = recorder.group({"group": {"stop_after": at + 5}, "network": {"subnet": "192.168.77.0/28"}, "node": pair(), "event": [
        {"at": at, "delay": {"between": ["n1", "n2"], "ms": 30}}, {"at": at + 1.5, "heal": True},
        {"at": at + 2, "loss": {"from": "n1", "to": "n2", "percent": 40}}]})
    assert recording.returncode == 0, recording.stderr
    mark = steps(recording, "n2")
    slow = [took for sent, took in answers(recording) if mark["delay"] < sent < mark["heal"] - 0.2]
    quick = [took for sent, took in answers(recording) if sent < mark["delay"] - 0.2]
    lossy = [took for sent, took in answers(recording) if sent > mark["loss"]]
    assert len(slow) > 5 and min(slow) >= 0.06, "30 ms there and 30 ms back"
    assert min(quick) < 0.03 and -1 not in quick
    missing = lossy.count(-1) / len(lossy)
    assert len(lossy) > 15 and 0.1 < missing < 0.75, (missing, len(lossy))
    assert "seed 1" in recording.stderr
    recorder.verify(recording)


# Sends lines over one connection and says when each has come back, until its time is over.
STREAM = """
import socket, sys, time
file = socket.create_connection((sys.argv[1], 7000)).makefile("rwb", buffering=0)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    file.write(b"x" * 3000 + b"\\n")
    assert len(file.readline()) == 3001
    print(time.monotonic(), flush=True)
    time.sleep(0.005)
"""


def test_a_connection_outlives_a_partition_that_is_one_way(recorder):
    at = 1 + SLOWNESS
    recording = recorder.group({"group": {"stop_when_ends": "n2"}, "network": {}, "node": [
        node("n1", ECHO, ready="output up"), node("n2", STREAM, "{address:n1}", str(at + 3))],
        "event": [{"at": at, "partition": {"from": "n1", "to": "n2"}}, {"at": at + 0.8, "heal": {"between": ["n1", "n2"]}}]})
    assert recording.returncode == 0, recording.stderr
    times = [float(line) for line in (recording.path / "n2.out").read_text().split()]
    mark = steps(recording, "n2")
    assert not [time for time in times if mark["partition"] + 0.1 < time < mark["heal"]]
    assert times[-1] > mark["heal"]
    recorder.verify(recording)


def test_nodes_of_a_host_share_it_and_a_client_without_recording_reaches_it(recorder):
    local = "import socket, sys; print(socket.create_connection((sys.argv[1], 7000)).getpeername()[0])"
    recording = recorder.group({"group": {"stop_when_ends": "outside"}, "network": {}, "node": [
        node("server", ECHO, ready="port 7000", host="h"), node("inside", local, "127.0.0.1", host="h", ready="exit"),
        node("outside", local, "{address:inside}", record=False)]})
    assert recording.returncode == 0, recording.stderr
    assert [(recording.path / f"{name}.out").read_text() for name in ("inside", "outside")] == ["127.0.0.1\n", "10.77.0.1\n"]
    recorder.verify(recording)


def test_each_host_has_a_loopback_of_its_own(recorder):
    """The same ports of 127.0.0.1 on two hosts are not taken for each other, in the network or in the order of the recording."""
    talk = """
import socket, sys
a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(("127.0.0.1", 7000)); b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); b.bind(("127.0.0.1", 7001))
for i in range(200):
    a.sendto(b"%d of %s" % (i, sys.argv[1].encode()), ("127.0.0.1", 7001))
    assert b.recv(100) == b"%d of %s" % (i, sys.argv[1].encode())
"""
    recording = recorder.group({"network": {}, "node": [node("n1", talk, "n1"), node("n2", talk, "n2")]})
    assert recording.returncode == 0, recording.stderr
    assert not recorder.info(recording)["messages"], "no message passed from one node to the other"
    recorder.verify(recording)


WORK = "import time, sys\ni = 0\nwhile True:\n    i += 1\n    open(sys.argv[1], 'w').write(str(i))\n    time.sleep(0.005)"


@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_nothing_is_left_behind(recorder, tmp_path, how):
    """After Ctrl-C, and after a kill -9 of the recorder: neither programs, also those that left their session, nor the relay."""
    counts = [tmp_path / "a", tmp_path / "b"]
    daemon = f"import os\nif os.fork() == 0:\n    os.setsid()\n    exec({WORK!r})\nos.wait()"
    running = recorder.start_record({"network": {}, "node": [node("a", WORK, counts[0]), node("b", daemon, counts[1], record=False)]})
    for file in counts:
        wait_until(lambda file=file: count_in(file) > 0, "nobody works")
    inside = [os.stat(f"/proc/{pid}/ns/net").st_ino for pid, line in recorder.processes().items() if str(counts[0]) in line and "record" not in line]
    assert inside and inside[0] != os.stat("/proc/self/ns/net").st_ino
    if how == "interrupt":
        running.interrupt()
        recording = recorder.finish_record(running)
        recorder.verify(recording)
    else:
        wait_for_work(counts[0])
        running.signal(signal.SIGKILL)
        running.finish()
        recorder.verify(running.recording)
    recorder.none_left()
    found = [pid for pid in os.listdir("/proc") if pid.isdigit() and _namespace(pid) in inside]
    assert not found, "something still runs in the network"


def _namespace(pid):
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None


def test_a_relay_that_dies_ends_the_run(recorder, tmp_path):
    running = recorder.start_record({"network": {}, "node": [node("a", WORK, tmp_path / "a"), node("b", WORK, tmp_path / "b")]})
    wait_until(lambda: count_in(tmp_path / "b") > 0, "nobody works")
    relay = wait_until(lambda: [pid for pid in recorder.processes() if _name(pid) == "friday-relay"], "there is no relay")[0]
    os.kill(relay, signal.SIGKILL)
    recording = recorder.finish_record(running)
    assert recording.returncode == 1 and "the relay of the group's network ended" in recording.stderr
    recorder.verify(recording)
    recorder.none_left()


def _name(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def test_random_faults_are_steps_and_come_again_with_their_seed(recorder):
    """Each run of a series draws its own, the table names the seed of the run that failed, and --seed gives the same plan."""
    until = 2 + SLOWNESS
    group = {"group": {"stop_after": until, "check": ["/bin/sh", "-c", "echo it is so; exit 3"]}, "network": {}, "node": pair(), "faults": {
        "seed": "4{run}", "kinds": ["partition", "delay", "loss"], "from": SLOWNESS, "every": 0.2, "lasts": 0.3}}
    runs = recorder.record(group, path=recorder.directory / "runs", options=["--until-failure", "2", "--failures", "2", "--keep", "all"])
    assert runs.returncode == 3, runs.stderr
    assert "check: exit 3: it is so; seed 41" in runs.stderr and re.search(r"FAILED +check: exit 3: it is so  seed 42  ", runs.stderr), runs.stderr
    assert [json.loads(line)["seed"] for line in (runs.path / "runs.jsonl").read_text().splitlines()] == [41, 42]

    def plan(path):
        return [(step["what"], step["detail"]) for step in recorder.info(path)["steps"] if step["name"] == "n1"]

    first, second = plan(runs.path / "run-1"), plan(runs.path / "run-2")
    assert first and second and first != second
    again = recorder.record(group, options=["--seed", "42"])
    assert again.returncode == 3 and "had the seed 42" in again.stderr
    assert plan(again) == second
    recorder.verify(again)


# Writes to a primary and reads from its replica, each a redis, and says whether the replica had the value within half a second.
REPLICATED = """
import socket, sys, time
def ask(address, *words):
    with socket.create_connection((address, 6379), 5) as peer:
        peer.sendall(b"*%d\\r\\n" % len(words) + b"".join(b"$%d\\r\\n%s\\r\\n" % (len(word), word) for word in words))
        return peer.recv(100)
number = 0
while True:
    number += 1
    began = time.monotonic()
    assert ask(sys.argv[1], b"SET", b"k", b"%d" % number) == b"+OK\\r\\n"
    while not (seen := ask(sys.argv[2], b"GET", b"k").endswith(b"\\r\\n%d\\r\\n" % number)) and time.monotonic() < began + 0.5:
        time.sleep(0.01)
    print(began, int(seen), flush=True)
    time.sleep(0.02)
"""


def test_a_replica_of_redis_lags_while_it_is_cut_off(recorder):
    """Real servers: what is written to the primary meanwhile is not on the replica, which both clients reach; then it is."""
    if not shutil.which("redis-server"):
        pytest.fail("there is no redis-server; console/setup.sh installs it")
    at = 3 * SLOWNESS
    redis = ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir", "{dir}", "--repl-diskless-sync-delay", "0"]
    recording = recorder.group({"group": {"stop_after": at + 5}, "network": {}, "node": [
        {"name": "primary", "command": redis, "ready": "port 6379", "stdout": "primary.out"},
        {"name": "replica", "command": [*redis, "--replicaof", "{address:primary}", "6379"], "ready": "output MASTER <-> REPLICA sync: Finished", "stdout": "replica.out"},
        node("client", REPLICATED, "{address:primary}", "{address:replica}", record=False)],
        "event": [{"at": at, "partition": [["primary"], ["replica"]]}, {"at": at + 1.5, "heal": True}]})
    assert recording.returncode == 0, recording.stderr
    mark = steps(recording, "replica")
    seen = answers(recording, "client")
    assert {0} == {got for sent, got in seen if mark["partition"] < sent < mark["heal"] - 0.5}
    assert 1 in {got for sent, got in seen if sent < mark["partition"] - 0.5}
    assert seen[-2][1] == 1, "it has caught up"
    recorder.verify(recording)


def test_a_careful_store_loses_nothing_to_a_partition(recorder, build):
    """The store of tests/apps/replicas, of which one node is cut off from the other three while a client that reaches all puts values."""
    ports = ",".join(f"{{address:n{i}}}:700{i}" for i in range(4))
    at, paced = 1.0, round(12 * SLOWNESS)  # the client takes a third of a second for each paced value
    nodes = [{"name": f"n{i}", "stdout": f"n{i}.out", "command": [
        build / "apps" / "replicas", "--id", str(i), "--ports", ports, "--directory", "{dir}", "--careful"]} for i in range(4)]
    client = {"name": "client", "record": False, "stdout": "{dir}/client.out", "command": [build / "apps" / "replicasclient", "--ports", ports, "--paced", str(paced)]}
    recording = recorder.group({"group": {"stop_when_ends": "client", "timeout": 100 * SLOWNESS, "check": [PYTHON, ROOT / "tests/apps/replicas/check.py", "{dir}"]},
                                "network": {}, "node": [*nodes, client],
                                "event": [{"at": at, "partition": [["n0"], ["n1", "n2", "n3"]]}, {"at": at + 1, "heal": True}]}, timeout=120)
    assert recording.returncode == 0, recording.stderr
    assert re.search(r"^1\d\d acknowledged, 0 lost$", (recording.path / "check.log").read_text(), re.M)
    assert [(step["what"], step["name"]) for step in recorder.info(recording)["steps"]] == [(what, f"n{i}") for what in ("partition", "heal") for i in range(4)]
    recorder.verify(recording)


def test_where_the_machine_refuses_nothing_is_started(recorder, tmp_path):
    """The recorder says what doctor says, and never runs the group without the network that it asks for."""
    refuse = [PYTHON, REFUSE, str(UNSHARE), "--"]
    checks = json.loads(recorder.run([*refuse, recorder.friday, "doctor", "--json"]).stdout)["checks"]
    message = next(check["message"] for check in checks if check["name"] == "network of namespaces")
    group = {"network": {}, "node": [{"name": "n1", "command": ["/bin/touch", tmp_path / "started"]}]}
    done = recorder.finish_record(recorder.start_record(group, prefix=refuse))
    assert done.returncode == 2 and message in done.stderr and "user namespaces" in message, done.stderr
    assert not (tmp_path / "started").exists() and not done.path.exists()


@pytest.mark.parametrize("event, words", [
    ({"at": 1, "partition": [["n1"], ["n9"]]}, r":\d+: partition names n9, which is no node of this group"),
    ({"at": 1, "loss": {"between": ["n1", "n2"], "percent": 101}}, r":\d+: percent is 101, but must be from 0 to 100"),
])
def test_a_file_is_refused_before_anything_starts(recorder, tmp_path, event, words):
    flag = tmp_path / "started"
    group = {"network": {}, "node": [{"name": f"n{i}", "command": ["/bin/touch", flag]} for i in (1, 2)], "event": [event]}
    recording = recorder.group(group)
    assert recording.returncode == 2 and re.search(words, recording.stderr), recording.stderr
    assert not flag.exists() and not recording.path.exists()
