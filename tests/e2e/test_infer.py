"""Payload of programs that are not recorded, which was let go: what a replay infers of it, and what it says of what it does not know."""

import json
import random
import socket
import struct

import pytest
from ports import free_ports

pytestmark = pytest.mark.limit(120)

SOME = random.Random(25)
KNOWN = b"The quick brown fox jumps over the lazy dog, and then once more\0"


def message(kind, body, check=0, size=96):
    """Shorter ones are not worth being let go."""
    body += noise(size - len(body)) if len(body) < size else b""
    return struct.pack("<H14sI12s", len(body), kind.encode(), check, b"") + body


def noise(size):
    return bytes(SOME.randrange(1, 256) for _ in range(size))


def sum_of(body):
    total = 0
    for byte in body:
        total = (total * 31 + byte) & 0xffffffff
    return total


@pytest.fixture(autouse=True)
def solver(build):
    if not (build / "lib" / "friday-infer").exists():
        pytest.skip("machine: friday-infer is not built (console/setup.sh --infer)")


@pytest.fixture
def record(recorder, targets):
    """record(LEVEL of optimisation, MESSAGES): a recording of the target alone; its client is this test."""
    def run(level, messages, *options, behind=b""):
        port, = free_ports(1)
        path = recorder.directory / "rec"
        running = recorder.start([recorder.friday, "record", "-q", *options, "-o", path, "--", targets / f"missing_bytes_o{level}", port, recorder.directory / "file"])
        assert running.process.stdout.readline() == "listening\n"
        with socket.create_connection(("127.0.0.1", port)) as client:
            for each in messages:
                client.sendall(each)
                if behind:
                    assert client.recv(1) == b"g"
                    client.sendall(behind)
                assert client.recv(1) == b"k"
        done = running.finish(30)
        assert done.returncode == 0, done
        return path
    return run


def let_go(recorder, path, *patterns):
    done = recorder.run([recorder.friday, "pack", path, "--json", *(word for pattern in patterns or ["stream"] for word in ("--let-go", pattern))])
    assert done.returncode == 0, done
    return sum(node["let_go"] for node in json.loads(done.stdout)["nodes"])


def restore(recorder, path):
    done = recorder.run([recorder.friday, "restore", path, "--json"], timeout=100)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def verify(recorder, path):
    done = recorder.run([recorder.friday, "verify", path])
    assert done.returncode == 0, done


CIPHERED = bytes(byte ^ (0x5eed1234 >> i % 24 & 255) for i, byte in enumerate(KNOWN))


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("kind,body,check,behind,determined,inferred", [
    ("seek", noise(4) + struct.pack("<I", 123456), 0, b"", 4, 0),
    ("length", noise(8) + struct.pack("<H", 333), 0, b"x" * 333, 2, 0),
    ("orders", b"puegGGeup.", 0, b"", 9, 1),  # of what ends them is known what it is not
    ("cipher", CIPHERED, 0x5eed1234, b"", 64, 0),
], ids=["seek", "length", "orders", "cipher"])
def test_what_must_have_been(kind, body, check, behind, determined, inferred, level, recorder, record):
    """Bytes of which the code, by the path that it took, allows one value only."""
    path = record(level, [message(kind, body, check)], behind=behind)
    gone = let_go(recorder, path)
    assert gone == 96 + max(0, len(behind) - 32)
    found = restore(recorder, path)
    assert (found["determined"], found["inferred"], found["unknown"]) == (determined, inferred, gone - determined - inferred), found
    verify(recorder, path)


def test_what_a_hash_proves(recorder, record):
    """If all that a block of the trace lacks can be found out, its hash says whether it is right."""
    path = record(0, [message("cipher", CIPHERED, 0x5eed1234, size=64)])
    assert let_go(recorder, path) == 64
    found = restore(recorder, path)
    assert (found["proved"], found["determined"]) == (64, 0), found
    verify(recorder, path)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("kind,body,check", [
    ("text", b"move 4321\nand more", 0),
    ("sum", (some := noise(96)), sum_of(some)),
    ("word", b"south of here and there", 0),
], ids=["text", "sum", "word"])
def test_what_may_have_been(kind, body, check, level, recorder, record):
    """Many texts and many sums lead to the same doings: what is found leads there, too."""
    path = record(level, [message(kind, body, check)])
    let_go(recorder, path)
    found = restore(recorder, path)
    assert found["determined"] + found["inferred"] >= 4 and found["determined"] + found["inferred"] + found["unknown"] == 96, found
    verify(recorder, path)


@pytest.mark.parametrize("level", [0, 2])
def test_what_nothing_depends_on(level, recorder, record):
    """What is only passed on is unknown, and what is sent of it is not compared."""
    path = record(level, [message("copy", noise(500)), message("seek", noise(4) + struct.pack("<I", 77))])
    let_go(recorder, path)
    found = restore(recorder, path)
    assert (found["determined"], found["inferred"], found["unknown"]) == (4, 0, 592), found
    verify(recorder, path)


def test_many_messages(recorder, record):
    orders = [bytes(SOME.choice(b"puegG") for _ in range(SOME.randrange(1, 60))) for _ in range(20)]
    messages = [message("orders", each + b".") for each in orders]
    messages += [message("seek", noise(4) + struct.pack("<I", SOME.randrange(1 << 31)) + noise(SOME.randrange(100))) for _ in range(20)]
    messages += [message("copy", noise(SOME.randrange(100, 3000))) for _ in range(10)]
    SOME.shuffle(messages)
    path = record(2, messages)
    gone = let_go(recorder, path)
    found = restore(recorder, path)
    determined = sum(map(len, orders)) + 4 * 20
    assert (found["determined"], found["inferred"], found["unknown"]) == (determined, 20, gone - determined - 20), found
    verify(recorder, path)


def test_let_go_while_recording(recorder, record):
    path = record(2, [*[message("copy", noise(1000)) for _ in range(300)], message("seek", noise(4) + struct.pack("<I", 4711) + noise(80))], "--let-go", "stream")
    size = sum(each.stat().st_size for each in (path / "nodes" / "0").iterdir())
    assert size < 150_000, size
    missing = json.loads(recorder.run([recorder.friday, "info", "--missing", path, "--json"]).stdout)
    assert missing[0]["let_go"] > 290_000 and not missing[0]["inferred"], missing
    found = restore(recorder, path)
    assert found["determined"] in (0, 4) and found["unknown"] > 290_000, found
    verify(recorder, path)


def test_who_sees_it_is_told(recorder, record):
    """An answer that depends on such bytes says so, another one does not."""
    path = record(0, [message("seek", noise(4) + struct.pack("<I", 99) + noise(60))])
    let_go(recorder, path)
    commands = ["break on_seek", "continue", "print m->length", "print m->body[50]", "finish", "print out"]
    done = recorder.run([recorder.friday, "replay", path, "--batch", *(word for command in commands for word in ("--ex", command))])
    lines = done.stdout.splitlines()
    said = [number for number, line in enumerate(lines) if line.startswith("inferred on")]
    assert said, done.stdout
    length = next(number for number, line in enumerate(lines) if line.strip().endswith("= 96"))
    assert length + 1 not in said, done.stdout


def test_what_shows_the_bytes_themselves(recorder, record):
    """There is nothing to show, and the error says what there is instead."""
    path = record(0, [message("seek", noise(4) + struct.pack("<I", 99) + noise(60))])
    let_go(recorder, path)
    done = recorder.run([recorder.friday, "dump", path])
    assert done.returncode == 2 and "let go for good" in done.stderr and "friday restore" in done.stderr, done


def test_bad_requests(recorder, record):
    path = record(0, [message("copy", noise(100))])
    done = recorder.run([recorder.friday, "pack", path, "--let-go", "no such channel"])
    assert done.returncode == 0 and "no channel of this name" in done.stdout, done
    let_go(recorder, path)
    done = recorder.run([recorder.friday, "pack", path, "--let-go", "stream"])
    assert done.returncode == 2 and "once only" in done.stderr, done
    recorder.none_left()
