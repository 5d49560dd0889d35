"""`friday log`: what all nodes wrote, as one stream; and the calls that were refused to programs."""

import errno
import json
import re
import subprocess

import pytest
from conftest import wait_until
from debug_support import friday, ring  # noqa: F401
from record_support import PYTHON

LINE = re.compile(r"^ *(\d+\.\d{6})  (\S+) +(out|err)  (.*)$")

# Writes a line in pieces, one of them in another thread's turn, and ends without a newline.
PIECES = r"""
import os, sys
os.write(1, b"one ")
os.write(2, b"oops\n")
os.write(1, b"line\nand\x1b[31m \xff\ttwo\n\n")
os.writev(1, [b"gath", b"ered", b"\n"])
os.write(1, b"no newline")
"""


def log(recorder, recording, *options):
    done = recorder.run([recorder.friday, "log", *options, getattr(recording, "path", recording)])
    assert done.returncode == 0, done.stderr
    return done


def lines_of(done):
    found = [LINE.match(line) for line in done.stdout.splitlines()]
    assert all(found), done.stdout
    return [(float(line[1]), line[2], line[3], line[4]) for line in found]


def test_lines_are_put_together_and_shown_safely(recorder):
    recording = recorder.record([PYTHON, "-c", PIECES], name="writer")
    lines = lines_of(log(recorder, recording))
    assert [line[2:] for line in lines] == [("err", "oops"), ("out", "one line"), ("out", "and\\x1b[31m \\xff\ttwo"), ("out", ""), ("out", "gathered"),
                                            ("out", "no newline")]
    assert [line[0] for line in lines] == sorted(line[0] for line in lines)
    told = [json.loads(line) for line in log(recorder, recording, "--json").stdout.splitlines()]
    assert [(t["name"], t["stream"], t["text"], t["whole"], t["missing_bytes"]) for t in told] == [
        ("writer", "err", "oops", True, 0), ("writer", "out", "one line", True, 0), ("writer", "out", "and\x1b[31m \ufffd\ttwo", True, 0),
        ("writer", "out", "", True, 0), ("writer", "out", "gathered", True, 0), ("writer", "out", "no newline", False, 0)]
    assert told[1]["first_event"] < told[0]["event"] < told[1]["event"], "the line on standard output was begun first"
    assert recorder.verify(recording).returncode == 0


def test_the_log_of_a_ring_is_what_its_nodes_wrote(recorder, ring):  # noqa: F811
    lines = lines_of(log(recorder, ring))
    for node in range(4):
        assert [text for _, name, stream, text in lines if name == f"n{node}" and stream == "out"] == ring.output(node).splitlines()
    times = [line[0] for line in lines]
    assert times == sorted(times) and len({line[1] for line in lines[:40]}) > 1
    half = times[len(times) // 2]
    assert [line for line in lines if line[0] >= half] == [line for line in lines_of(log(recorder, ring, "--from", str(half - 5e-7))) if line[0] >= half]
    assert lines_of(log(recorder, ring, "--to", str(half + 5e-7))) == [line for line in lines if line[0] <= half]
    assert lines_of(log(recorder, ring, "--node", "1,n2", "--grep", r"finger \w+")) == [
        line for line in lines if line[1] in ("n1", "n2") and re.search(r"finger \w+", line[3])]


def test_effects_stand_behind_their_causes(recorder):
    """A line that a node writes before it sends stands before the line that another writes because of it."""
    echo = "import sys\nfor line in sys.stdin:\n  print('got', line.strip(), flush=True)\n"
    ask = ("import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdin=subprocess.PIPE, text=True)\n"
           "for n in range(50):\n  print('sent', n, flush=True); p.stdin.write(f'{n}\\n'); p.stdin.flush()\np.stdin.close(); p.wait()\n")
    recording = recorder.record([PYTHON, "-c", ask, echo], name="asker")
    texts = [line[3] for line in lines_of(log(recorder, recording))]
    assert sorted(texts) == sorted([f"{word} {n}" for n in range(50) for word in ("sent", "got")])
    assert all(texts.index(f"sent {n}") < texts.index(f"got {n}") for n in range(50))


def test_what_was_not_kept_is_counted(recorder):
    recording = recorder.record([PYTHON, "-c", PIECES], options=("--keep-output", "none"))
    done = log(recorder, recording)
    assert {line[3] for line in lines_of(done)} >= {"[5 bytes that the recording does not have]"} and "lacks the text of 5 writes" in done.stderr
    # A program that pours out blocks: 1 MiB and half of its trace are kept.
    pour = f"import os\nfor n in range(64): os.write(1, b'x' * {1 << 16})\n"
    recording = recorder.record([PYTHON, "-c", pour], options=("--keep-output", "1M"))
    told = [json.loads(line) for line in log(recorder, recording, "--json").stdout.splitlines()]
    kept, lost = sum(len(t["text"]) for t in told), sum(t["missing_bytes"] for t in told)
    assert kept + lost == 4 << 20 and 1 << 20 <= kept < 4 << 20
    size = json.loads(recorder.run([recorder.friday, "info", "--json", recording.path]).stdout)["nodes"][0]["trace_bytes"]
    assert kept <= (1 << 20) + size // 2 + (1 << 16)


def test_bad_questions_are_answered(recorder, ring):  # noqa: F811
    for options, message in ((("--grep", "(", ring.path), "is not a regular expression"), (("--node", "n99", ring.path), "n99"),
                             (("/absent",), "there is no recording"), (("--follow", "--from", "1", ring.path), "follow")):
        done = recorder.run([recorder.friday, "log", *options])
        assert done.returncode == 2 and message in done.stderr and not done.stdout, done


@pytest.mark.parametrize("options", [(), ("--no-compress",)])
def test_lines_are_followed_while_they_are_written(recorder, tmp_path, options):
    gate = tmp_path / "gate"
    # 5 MiB of input between two lines: what stands before has been moved to the compressed file meanwhile.
    program = ("import os, sys, time\nprint('first', flush=True)\nfor n in range(80): os.read(os.open('/dev/zero', os.O_RDONLY), 1 << 16)\n"
               "print('second', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\nprint('third', flush=True)\n")
    running = recorder.start_record([PYTHON, "-c", program, gate], name="worker", options=options)
    wait_until(lambda: (running.recording / "nodes/0/node.json").exists(), "no node is described")
    out = tmp_path / "followed"
    with out.open("w") as file:
        follower = subprocess.Popen([recorder.friday, "log", "--follow", running.recording], stdout=file, stderr=subprocess.PIPE, text=True,
                                    env=recorder.environment())
    try:
        wait_until(lambda: "second" in out.read_text(), "the second line does not come")
        assert "third" not in out.read_text()
        gate.touch()
        recording = recorder.finish_record(running)
        assert follower.wait(timeout=30) == 0, follower.stderr.read()
    finally:
        follower.kill()
    followed = [LINE.match(line) for line in out.read_text().splitlines()]
    finished = lines_of(log(recorder, recording))
    assert [line[4] for line in followed] == ["first", "second", "third"] == [line[3] for line in finished]
    assert [float(line[1]) for line in followed] == pytest.approx([line[0] for line in finished], abs=1e-3)


def test_refused_calls_are_told(recorder):
    # PTRACE_ATTACH of a child that is recorded too, and io_uring_setup.
    ask = ("import ctypes, os, signal\nlibc = ctypes.CDLL(None, use_errno=True)\nchild = os.fork()\nif not child: signal.pause()\n"
           "print([libc.syscall(101, 16, child, 0, 0) for _ in range(3)], ctypes.get_errno(), libc.syscall(425, 8, 0))\n"
           "os.kill(child, signal.SIGKILL)\nos.waitpid(child, 0)\n")
    recording = recorder.record([PYTHON, "-c", ask], name="asker")
    assert f"[-1, -1, -1] {errno.ENOSYS} -1" in recording.stdout
    told = [line for line in recording.stderr.splitlines() if "refused with" in line]
    assert len(told) == 2 and re.search(r"friday: ptrace was refused with ENOSYS 3 times in asker \(a process cannot be traced while it is recorded\): ", told[0])
    assert "io_uring_setup was refused with ENOSYS 1 time in asker" in told[1], told
    info = recorder.info(recording)
    assert [(r["call"], r["count"], r["nodes"], r["answered"]) for r in info["refused"]] == [
        ("ptrace", 3, {"asker": 3}, "ENOSYS"), ("io_uring_setup", 1, {"asker": 1}, "ENOSYS")]
    assert "refused   ptrace was refused" in recorder.run([recorder.friday, "info", recording.path]).stdout
    assert recorder.verify(recording).returncode == 0
    plain = recorder.record(["/bin/true"])
    assert "was refused" not in plain.stderr and recorder.info(plain)["refused"] == []


def test_a_traced_child_is_not_recorded_and_its_tracer_is(recorder, targets, tmp_path):
    recording = recorder.record([targets / "tracer"], name="tracer", cwd=tmp_path)
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n"), recording
    nodes = recorder.info(recording)["nodes"]
    assert [node["name"] for node in nodes] == ["tracer", "tracer/child-1", "tracer/child-2"]
    assert "a program that it traces (ptrace) is not recorded: " in nodes[0]["notice"]
    for node in nodes[1:]:
        assert "ptrace (101), PTRACE_TRACEME, which makes its parent its tracer: a process is not recorded while it is traced" in node["ended"], node
    dump = recorder.run([recorder.friday, "dump", recording.path, "--node", "tracer"]).stdout
    assert "ptrace(PTRACE_GETREGSET" in dump and "ptrace(PTRACE_SINGLESTEP" in dump
    recorder.verify(recording, "--times", "2")
    # Of a program that no recorded one has started, the recorder is the parent, and no tracer.
    alone = recorder.record([PYTHON, "-c", "import ctypes, os; print(ctypes.CDLL(None).syscall(101, 0, 0, 0, 0), flush=True); os.kill(os.getpid(), 10)"])
    assert alone.stdout == "-1\n" and "ptrace was refused with ENOSYS 1 time" in alone.stderr
    assert recorder.verify(alone).returncode == 0


def test_dump_chooses_events(recorder, ring):  # noqa: F811
    def dump(*options):
        done = recorder.run([recorder.friday, "dump", "--json", "--node", "n1", *options, ring.path])
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    everything = dump()
    assert dump("--call", "sendto,recvfrom") == [e for e in everything if e.get("call") in ("sendto", "recvfrom")] != []
    assert dump("--thread", "0") == [e for e in everything if e["thread"] == 0]
    middle = everything[len(everything) // 2]["seconds"]
    assert dump("--from", str(middle), "--call", "write") == [e for e in everything if e["seconds"] >= middle and e.get("call") == "write"]
    assert dump("--to", str(middle)) == [e for e in everything if e["seconds"] <= middle]
    peers = {part["peer"] for e in everything for part in e["parts"] if "peer" in part}
    peer = sorted(peers)[0]
    assert dump("--peer", peer) == [e for e in everything if any(peer in part.get("peer", "") for part in e["parts"])] != []
    finger = [line for line in ring.output(1).splitlines() if "finger up" in line]
    assert len(dump("--grep", "finger up", "--call", "write")) == len(finger) > 0
    assert dump("--grep", r"^/.*\.so", "--call", "openat") == [
        e for e in everything if e.get("call") == "openat" and any(re.search(r"^/.*\.so", part.get("path", "")) for part in e["parts"])]
    done = recorder.run([recorder.friday, "dump", "--node", "n1", "--call", "sendtoo", ring.path])
    assert done.returncode == 2 and "the nearest is `sendto`" in done.stderr
