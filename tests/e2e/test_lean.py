"""Payload that is left out of a recording and made again: the recording reads as before, byte for byte, and says what it lacks."""

import json
import random
import shutil
import signal
import socket
import time

import pytest
from debug_support import ring  # noqa: F401
from test_redis import Redis

# Hashes of everything that a recording says of each event, what the programs received included.
EVERYTHING = """
import hashlib, json, sys
import friday
recording = friday.Recording(sys.argv[1])
found = {}
for node in recording.nodes:
    state, received = hashlib.sha256(), 0
    for event in recording.events(int(node)):
        memory = event.memory
        received += sum(len(data) for _, data in memory)
        state.update(repr((event.index, event.kind, event.call, event.arguments, event.result, memory, event.transfers)).encode())
    found[int(node.id)] = [state.hexdigest(), received]
edges = [(e.kind, int(e.source), e.source_event, int(e.target), e.target_event, e.bytes) for e in recording.edges()]
print(json.dumps([found, hashlib.sha256(repr(edges).encode()).hexdigest(), len(edges)]))
"""


@pytest.fixture(autouse=True)
def whole_at_first(monkeypatch):
    """What these tests record is whole, whatever FRIDAY_LEAN says."""
    monkeypatch.delenv("FRIDAY_LEAN", raising=False)


def everything(recorder, recording):
    script = recorder.directory / "everything.py"
    script.write_text(EVERYTHING)
    done = recorder.run(["/usr/bin/python3", script, recording], env={"PYTHONPATH": str(recorder.friday.parent.parent / "python")}, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def set_random_values(port, count, size):
    """An unrecorded client."""
    choose = random.Random(7)
    with socket.create_connection(("127.0.0.1", port)) as client:
        for n in range(count):
            value = choose.randbytes(size)
            client.sendall(b"*3\r\n$3\r\nSET\r\n$7\r\nkey%04d\r\n$%d\r\n%s\r\n" % (n, size, value))
            answer = b""
            while not answer.endswith(b"\r\n"):
                answer += client.recv(100)
            assert answer == b"+OK\r\n"


def same_again(recorder, recording, least):
    """Leaves out payload, at least so many bytes, and compares all that can be asked before and after."""
    before, were = everything(recorder, recording.path), recorder.states(recording.path, 300)
    path, bytes_out = recorder.lean(recording.path)
    assert bytes_out >= least, bytes_out
    assert not list(path.glob("cache/restored-*")) and not list(path.glob("cache/rehearsal*"))
    assert recorder.states(path, 300) == were
    assert everything(recorder, path) == before
    assert bool(bytes_out) == bool(list(path.glob("cache/restored-*")))
    return path


@pytest.mark.limit(400)
def test_what_replicas_have_received_is_made_again(recorder, ports, tmp_path):
    redis = Redis(recorder, ports(3), tmp_path)
    redis.wait_for_copies()
    set_random_values(redis.ports[0], 1000, 4000)
    redis.wait_for_copies()
    recording = redis.end()
    path = same_again(recorder, recording, 2 * 1000 * 3900)
    sizes = [sum(trace.stat().st_size for trace in (path / "nodes" / str(recording.node(f"redis-{n}")["id"])).glob("trace*")) for n in range(3)]
    # The client is not recorded, so what it sent stays.
    assert sizes[0] > 4_000_000 and max(sizes[1:]) < 700_000, sizes
    with_nothing_else = recorder.directory / "without-cache"
    shutil.copytree(path, with_nothing_else, ignore=lambda *_: ["cache"])
    partial = recorder.replay(with_nothing_else, "--node", "redis-2")
    assert partial.returncode == 0, partial.stdout + partial.stderr


def test_datagrams_of_a_ring(recorder, ring):
    same_again(recorder, ring, 10_000)


@pytest.mark.parametrize("way", ["write", "sendfile", "splice", "vmsplice", "receive", "aio"])
def test_bodies_that_the_kernel_carries(way, recorder, targets, tmp_path):
    recording = recorder.record([targets / "carriers", way], name="it", cwd=tmp_path)
    assert recording.returncode == 0, recording
    same_again(recorder, recording, 0)


@pytest.mark.parametrize("how", ["lines", "pipe", "socket"])
def test_many_at_one_stream(how, recorder, targets, tmp_path):
    """Where only the contents told whose bytes came first, they stay."""
    recording = recorder.record([targets / "crowded", how], name="it", cwd=tmp_path)
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n"), recording
    same_again(recorder, recording, 0)


def test_lean_recordings_are_merged(recorder, talk):
    were = recorder.states(talk.path, 300)
    path, _ = recorder.lean(talk.path)
    other = recorder.record(["/bin/true"], name="other")
    done = recorder.run([recorder.friday, "merge", "-o", recorder.directory / "both", other.path, path])
    assert done.returncode == 0, done
    both = recorder.directory / "both"
    recorder.verify(both)
    assert list(both.glob("cache/restored-*")), "its nodes have other numbers"
    assert [state[1:] for state in recorder.states(both, 300)][-len(were):] == [state[1:] for state in were]


MESSAGES = r"""
import array, os, random, socket, sys
choose = random.Random(int(sys.argv[1]))
kinds = [lambda: socket.socketpair(), lambda: socket.socketpair(type=socket.SOCK_DGRAM),
         lambda: socket.socketpair(type=socket.SOCK_SEQPACKET), None]
for kind in kinds:
    if kind:
        here, there = kind()
    else:
        out_of, into = os.pipe()
    stream = kind is kinds[0] or not kind
    texts = [choose.randbytes(choose.choice([1, 30, 64, 100, 4000, 9000, 40_000])) for _ in range(60)]
    if os.fork() == 0:
        for text in texts:
            cuts = sorted(choose.randrange(len(text) + 1) for _ in range(3))
            pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
            if kind:
                left = text
                if stream and choose.random() < 0.5:
                    here.sendall(left)
                else:
                    sent = here.sendmsg(pieces)
                    if stream:
                        here.sendall(left[sent:])
            else:
                sent = os.writev(into, pieces)
                while sent < len(text):
                    sent += os.write(into, text[sent:])
        os._exit(0)
    if kind:
        here.close()
    else:
        os.close(into)
    total = sum(map(len, texts)) if stream else len(texts)
    got = 0
    while got < total:
        size = choose.choice([10, 100, 5000, 70_000])
        if not kind:
            data = os.read(out_of, size)
        elif stream:
            first, second = bytearray(choose.randrange(1, 200)), bytearray(size)
            n = there.recvmsg_into([first, second])[0]
            data = (bytes(first) + bytes(second))[:n]
        else:
            data = there.recv(100_000)
        assert data or not stream
        got += len(data) if stream else 1
    os.wait()
print("done")
"""


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.full] if n > 1 else []) for n in range(6)])
def test_random_messages(seed, recorder):
    recording = recorder.record(["/usr/bin/python3", "-c", MESSAGES, str(seed)], name="talk")
    assert recording.returncode == 0 and recording.stdout == "done\n", recording
    same_again(recorder, recording, 200_000)


@pytest.fixture
def talk(recorder):
    recording = recorder.record(["/usr/bin/python3", "-c", MESSAGES, "3"], name="talk")
    assert recording.returncode == 0, recording
    return recording


def test_what_cannot_be_made_again_is_named(recorder, talk):
    path, _ = recorder.lean(talk.path)
    less = recorder.directory / "less"
    shutil.copytree(path, less)
    shutil.rmtree(less / "nodes" / "1")
    for command in (["restore"], ["verify"], ["dump", "--node", "0"]):
        done = recorder.run([recorder.friday, *command, less])
        assert done.returncode == 2 and "node 0 (talk): " in done.stderr and "neither in the recording nor" in done.stderr, done
    done = recorder.run([recorder.friday, "dump", "--node", "2", less])
    assert done.returncode == 0 and " exit_group(" in done.stdout, "this node lacks nothing"
    info = recorder.info(less)["nodes"][0]
    assert info["left_out"]["bytes"] > 10_000 and not info["left_out"]["restored"], info


# Hands on what it receives at a port, or, without one, random bytes, to a port, or to nobody.
HANDS_ON = r"""
import random, socket, sys
seed, listen, to = map(int, sys.argv[1:4])
data = bytearray(random.Random(seed).randbytes(700_000))
if listen:
    with socket.create_server(("127.0.0.1", listen)) as server:
        here = server.accept()[0]
    data = bytearray()
    while piece := here.recv(10_000):
        data += piece
if to:
    with socket.create_connection(("127.0.0.1", to)) as there:
        there.sendall(data)
print(sum(data))
"""


@pytest.fixture
def chains(recorder, ports):
    """Two chains, a0 to a1 to a2 and b0 to b1: a recording without what they have received from each other."""
    a1, a2, b1 = ports(3)
    commands = {"a2": (0, a2, 0), "a1": (0, a1, a2), "a0": (1, 0, a1), "b1": (0, b1, 0), "b0": (2, 0, b1)}
    nodes = [{"name": name, "command": ["/usr/bin/python3", "-c", HANDS_ON, *map(str, words)], **({"ready": f"port {words[1]}"} if words[1] else {})}
             for name, words in commands.items()]
    recording = recorder.record({"node": nodes})
    assert recording.returncode == 0, recording
    path, left_out = recorder.lean(recording.path)
    assert left_out > 1_900_000
    shutil.rmtree(path / "cache")
    return path


def restored(recorder, path):
    return {node["name"] for node in recorder.info(path)["nodes"] if node.get("left_out", {}).get("restored")}


def missing(recorder, path, *options):
    done = recorder.run([recorder.friday, "info", "--missing", "--json", path, *options])
    nodes = json.loads(done.stdout)
    assert done.returncode == (0 if all(node["replayable"] for node in nodes) else 1), done
    return {node["name"]: node for node in nodes}


def test_only_senders_of_what_is_wanted_are_replayed(recorder, chains):
    assert set(missing(recorder, chains)) == {"a1", "a2", "b1"}
    for wanted, then in (("a0,b0", set()), ("b1", {"b1"}), ("a1", {"b1", "a1"}), ("a2", {"b1", "a1", "a2"})):
        recorder.verify(chains, "--node", wanted)
        assert restored(recorder, chains) == then, wanted
    shutil.rmtree(chains / "cache")
    recorder.verify(chains, "--node", "a2")
    assert restored(recorder, chains) == {"a1", "a2"}, "a1 sent it, and lacks what a0 sent"
    done = recorder.run([recorder.friday, "restore", "--node", "a*", chains])
    assert done.returncode == 0 and "lacks nothing" in done.stdout
    recorder.verify(chains)
    assert restored(recorder, chains) == {"a1", "a2", "b1"}


def test_who_needs_what_nobody_has_is_said_and_the_others_are_replayed(recorder, chains):
    number = {node["name"]: node["id"] for node in recorder.info(chains)["nodes"]}
    shutil.rmtree(chains / "nodes" / str(number["a0"]))
    lacks = missing(recorder, chains)
    assert {name: node["replayable"] for name, node in lacks.items()} == {"a1": False, "a2": False, "b1": True}
    assert lacks["a1"]["nowhere"] == lacks["a1"]["left_out"] > 600_000 and lacks["a1"]["events"][0] < lacks["a1"]["events"][1]
    assert lacks["a2"]["nowhere"] == 0 and lacks["a2"]["blocked_by"] == number["a1"] and lacks["a2"]["senders"][0]["name"] == "a1"
    assert set(missing(recorder, chains, "--node", "b*")) == {"b1"}
    text = recorder.run([recorder.friday, "info", "--missing", chains]).stdout
    assert "from nodes that the recording does not have: events " in text and "it cannot be replayed, as node" in text
    recorder.verify(chains, "--node", "b*")
    for wanted in ("a1", "a2", "all"):
        done = recorder.replay(chains, *(() if wanted == "all" else ("--node", wanted)))
        assert done.returncode == 2 and "neither in the recording nor" in done.stderr and "info --missing" in done.stderr, done
    assert restored(recorder, chains) == {"b1"}


def test_what_was_made_again_is_checked(recorder, talk):
    path, _ = recorder.lean(talk.path)
    assert recorder.run([recorder.friday, "restore", path]).returncode == 0
    kept = path / "cache" / "restored-0"
    data = bytearray(kept.read_bytes())
    data[len(data) // 2] ^= 1
    kept.write_bytes(data)
    done = recorder.run([recorder.friday, "verify", path])
    assert done.returncode == 2 and "cache/restored-0 is damaged" in done.stderr, done
    kept.unlink()
    recorder.verify(path)
    kept.write_bytes(kept.read_bytes()[:-1])
    recorder.verify(path)


def test_twice_is_refused_and_nothing_to_do_is_said(recorder, talk, tmp_path):
    path, _ = recorder.lean(talk.path)
    done = recorder.run([recorder.friday, "pack", "--lean", path])
    assert done.returncode == 2 and "leaves out payload already" in done.stderr, done
    done = recorder.run([recorder.friday, "pack", "--lean", "--check", path])
    assert done.returncode == 2 and "one at a time" in done.stderr, done
    alone = recorder.record(["/bin/true"], name="alone")
    done = recorder.run([recorder.friday, "pack", "--lean", alone.path])
    assert done.returncode == 0 and "all stays as it is" in done.stdout, done
    done = recorder.run([recorder.friday, "restore", alone.path])
    assert done.returncode == 0 and "lacks nothing" in done.stdout, done


def test_a_kill_loses_nothing(recorder, talk):
    """kill -9 at any moment: the recording verifies and says the same as before."""
    before = everything(recorder, talk.path)
    start = time.monotonic()
    recorder.lean(talk.path)
    took = time.monotonic() - start
    for n in range(8):
        path = recorder.directory / f"killed{n}"
        shutil.copytree(talk.path, path)
        running = recorder.start([recorder.friday, "pack", "--lean", path])
        time.sleep(took * (n + 1) / 8)
        running.signal(signal.SIGKILL)
        running.finish()
        recorder.none_left()
        recorder.verify(path)
        assert everything(recorder, path) == before
