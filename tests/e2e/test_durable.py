"""What ends a recording early, and what is left of it: `--max-size`, limits of the machine, `kill -9` of program and recorder at
any moment, also while blocks are being compressed."""

import json
import os
import random
import re
import signal
import struct

import pytest
from conftest import wait_until
from crafting import records, seal

PYTHON = "/usr/bin/python3"
BLOCK, HEADER, COMMITTED, CHECKSUM = 4 << 20, 4096, 128, 216
HEAD = struct.Struct("<II8sQQQQ")  # a compressed block's skippable frame (docs/trace-format.md)

# Reads a device in pieces, slowly enough for the recorder's thread if asked, and says how far it is.
READER = r"""
import os, sys, time
source, count, pause, progress = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
total = 0
for done in range(count):
    total += len(os.read(source, 100000))
    if pause:
        time.sleep(pause)
    if done % 50 == 49:
        with open(progress, "w") as file:
            file.write(str(done + 1))
print(total)
"""


@pytest.fixture
def reader(tmp_path):
    """reader(device, count, pause): a command that receives 100 kB a round, and the file with its progress."""
    script = tmp_path / "reader.py"
    script.write_text(READER)

    def make(device="/dev/zero", count=400, pause=0.0, progress="progress"):
        return [PYTHON, script, device, str(count), str(pause), tmp_path / progress], tmp_path / progress

    return make


def at_least(file, count):
    return lambda: file.exists() and int(file.read_text() or 0) >= count


def program_of(recorder, text):
    return wait_until(lambda: [pid for pid, line in recorder.processes().items() if text in line and "record -o" not in line], f"no {text} runs")[0]


def trace(recording, node=0):
    path = getattr(recording, "path", recording)
    return path / "nodes" / str(node) / "trace"


def packed(recording, node=0):
    return trace(recording, node).with_name("trace.zst")


def size_on_disk(recording):
    path = getattr(recording, "path", recording)
    return sum(file.stat().st_blocks * 512 for file in path.glob("nodes/*/trace*"))


def ended(recorder, recording, node=0):
    return recorder.info(recording)["nodes"][node]["ended"]


# -- compression -------------------------------------------------------------------------------------------------------
def test_a_long_trace_is_compressed(recorder, reader):
    command, _ = reader(count=400)
    recording = recorder.record(command, name="it")
    assert (recording.returncode, recording.stdout) == (0, "40000000\n"), recording.stderr
    assert packed(recording).exists() and not trace(recording).exists()
    assert size_on_disk(recording) < 4 << 20
    assert re.search(r"3\d MiB \(\d+ KiB on disk\)", recording.stderr), recording.stderr
    recorder.verify(recording)
    assert ended(recorder, recording) == "exited with 0"
    assert packed(recording).stat().st_mode & 0o777 == 0o600


def test_no_compress(recorder, reader):
    command, _ = reader(count=200)
    recording = recorder.record(command, name="it", options=["--no-compress"])
    assert trace(recording).exists() and not packed(recording).exists()
    recorder.verify(recording)


def test_both_forms_show_the_same(recorder, reader):
    """The same program compressed and not; and the bytes themselves by the zstd tool's own rules: frames one after the other."""
    command, _ = reader(count=200)
    dumps = []
    for options in [], ["--no-compress"]:
        recording = recorder.record(command, name="it", options=options)
        done = recorder.run([recorder.friday, "dump", "--node", "it", "--json", recording.path])
        assert done.returncode == 0
        events = [json.loads(line) for line in done.stdout.splitlines()]
        dumps.append([(e["type"], e.get("call"), e["result"]) for e in events if e.get("call") == "read" and e["result"] == 100000])
    assert len(dumps[0]) == 200 and dumps[0] == dumps[1]


def test_a_trace_is_uncompressed_without_write_permission(recorder, reader):
    command, _ = reader(count=200)
    recording = recorder.record(command, name="it")
    trace(recording).parent.chmod(0o500)
    try:
        recorder.verify(recording)
    finally:
        trace(recording).parent.chmod(0o700)


def blocks(data):
    """(offset in the file, offset in the trace, length of the frame) of each block."""
    at = 0
    while at + HEAD.size <= len(data):
        magic, _, _, offset, _, stored, _ = HEAD.unpack_from(data, at)
        if magic != 0x184D2A50:
            break
        yield at, offset, stored
        at += HEAD.size + stored


@pytest.mark.parametrize("what", ["contents", "cut", "order", "end", "hash"])
def test_damage_to_a_compressed_trace(recorder, reader, what):
    command, _ = reader("/dev/urandom", 200)
    recording = recorder.record(command, name="it")
    data = bytearray(packed(recording).read_bytes())
    places = list(blocks(data))
    assert len(places) >= 4
    first, second, third = places[0][0], places[1][0], places[2][0]
    if what == "contents":
        data[second + HEAD.size + places[1][2] // 2] ^= 0x40
    elif what == "cut":
        data = data[:third + 1000]
    elif what == "order":
        data = data[:first] + data[second:third] + data[first:second] + data[third:]
    elif what == "end":
        data[-100] ^= 1
    else:
        data[second + HEAD.size - 1] ^= 1
    packed(recording).write_bytes(data)
    done = recorder.replay(recording)
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "node 0" in said and "damaged" in said and "trace.zst" in said or "compressed block" in said, said


def test_a_recording_is_read_while_blocks_leave_it(recorder, reader):
    """`dump` of a live recording shows a prefix of it, whole, whichever form its parts have at that moment. The trace grows
    more slowly than any machine reads it: each dump reads it anew, and all of it."""
    command, progress = reader(count=100000, pause=0.004)
    running = recorder.start_record(command, name="it")
    seen = 0
    wait_until(lambda: packed(running.recording).exists() and packed(running.recording).stat().st_size > 0, "nothing is compressed", 60)
    for _ in range(6):
        done = recorder.run([recorder.friday, "dump", "--node", "it", running.recording])
        assert done.returncode == 0, done.stderr
        numbers = [int(line.split()[0]) for line in done.stdout.splitlines() if line[:8].strip().isdigit()]
        assert numbers == list(range(len(numbers))) and len(numbers) > seen
        seen = len(numbers)
    assert trace(running.recording).exists()
    os.kill(program_of(recorder, "reader.py"), signal.SIGKILL)
    recording = recorder.finish_record(running)
    recorder.verify(recording)


# -- kills -------------------------------------------------------------------------------------------------------------
def check_after_kill(recorder, recording, least):
    """Nothing that was stored is lost, and what is left replays."""
    node = recorder.info(recording)["nodes"][0]
    assert "problem" not in node, node
    assert node["events"] >= least
    recorder.verify(recording)


@pytest.mark.parametrize("who", ["program", "recorder", "both"])
@pytest.mark.parametrize("round", range(2))
def test_killed_at_a_random_moment(recorder, reader, who, round):
    command, progress = reader(count=3000, pause=0.001)
    running = recorder.start_record(command, name="it")
    moment = random.Random(f"{who}{round}{os.getpid()}").randrange(50, 900)  # what is left needs more room than is ever given ahead
    wait_until(at_least(progress, moment // 50 * 50), "the program does not read", 60)
    program = program_of(recorder, "reader.py")
    if who in ("recorder", "both"):
        os.kill(running.pid, signal.SIGKILL)
    if who in ("program", "both"):
        os.kill(program, signal.SIGKILL)
    out, err = running.process.communicate(timeout=60)
    recorder.none_left(60)
    if who == "recorder":
        assert out == "300000000\n", "the program was harmed: " + err
    check_after_kill(recorder, running.recording, moment)
    end = ended(recorder, running.recording)
    assert {"program": "SIGKILL", "recorder": "friday record had ended", "both": "cut off"}[who] in end, end


def test_recorder_killed_while_it_compresses(recorder, reader):
    """A block that was not through is torn, and the trace still has it."""
    command, progress = reader("/dev/urandom", 30000, 0.0005)
    running = recorder.start_record(command, name="it")
    wait_until(lambda: packed(running.recording).exists() and packed(running.recording).stat().st_size > BLOCK, "nothing is compressed", 60)
    os.kill(program_of(recorder, "reader.py"), signal.SIGSTOP)
    os.kill(running.pid, signal.SIGKILL)
    running.process.wait(20)
    with packed(running.recording).open("ab") as file:  # what a kill in the middle of a write leaves behind
        file.write(HEAD.pack(0x184D2A50, 40, b"FRIDAYZ1", HEADER + BLOCK, BLOCK, 1 << 20, 7) + bytes(1000))
    check_after_kill(recorder, running.recording, 50)
    os.kill(program_of(recorder, "reader.py"), signal.SIGCONT)
    os.kill(program_of(recorder, "reader.py"), signal.SIGKILL)


def test_torn_last_record(recorder):
    """What stands behind the last committed record is no data, whatever it is."""
    recording = recorder.record(["/bin/cat", "/etc/hostname"], name="it")
    data = bytearray(trace(recording).read_bytes())
    end = struct.unpack_from("<Q", data, COMMITTED)[0]
    for tail in (b"\xff" * 4096, struct.pack("<IHHII", 200, 16, 0, 0, 0) + b"half a record"):
        trace(recording).write_bytes(data[:end] + tail)
        recorder.verify(recording)
    # And one inside the committed range is told with its place.
    struct.pack_into("<Q", data, COMMITTED, end + 40)
    struct.pack_into("<Q", data, CHECKSUM, 0)
    trace(recording).write_bytes(data[:end] + struct.pack("<IHHII", 200, 16, 0, 0, 0) + bytes(24))
    done = recorder.replay(recording)
    assert done.returncode == 2 and "exceeds the 40 bytes left" in done.stderr + done.stdout, done


# -- a size limit ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [[], ["--no-compress"]], ids=["compressed", "plain"])
def test_max_size(recorder, reader, options):
    command, _ = reader("/dev/urandom", 600)
    recording = recorder.record(command, name="it", options=["--max-size", "24M", *options])
    assert (recording.returncode, recording.stdout) == (0, "60000000\n"), "the program was harmed: " + recording.stderr
    assert "recording ended: the recording has the size that --max-size allows; the program went on" in recording.stderr
    assert 16 << 20 < size_on_disk(recording) <= (24 << 20) + 65536
    assert recording.node("it")["recording_end"]["reason"] == 8
    assert ended(recorder, recording) == "recording ended: the size limit was reached; the program went on"
    recorder.verify(recording)


def test_max_size_counts_what_is_on_disk(recorder, reader):
    """40 MB of zeros are next to nothing once compressed: the recording goes on to its end."""
    command, _ = reader("/dev/zero", 800)
    recording = recorder.record(command, name="it", options=["--max-size", "24M"])
    assert recording.returncode == 0 and "recording ended" not in recording.stderr, recording.stderr
    assert ended(recorder, recording) == "exited with 0"
    recorder.verify(recording)


def test_max_size_in_a_group_file(recorder, reader):
    (one, _), (two, _) = reader("/dev/urandom", 300, progress="one"), reader("/dev/urandom", 300, progress="two")
    recording = recorder.group({"group": {"max_size": "40M"}, "node": [
        {"name": "one", "command": list(map(str, one))}, {"name": "two", "command": list(map(str, two))}]})
    assert recording.returncode == 0 and recording.stdout == "30000000\n" * 2
    assert "the size that --max-size allows" in recording.stderr
    assert size_on_disk(recording) <= (40 << 20) + 65536
    recorder.verify(recording)


def test_max_size_and_new_processes(recorder):
    """A child for which nothing is left runs unrecorded, and that is said."""
    recording = recorder.record(["/bin/sh", "-c", "for i in 1 2 3; do (:; /bin/echo $i); done"], name="it", options=["--max-size", "4M"])
    assert recording.returncode == 0 and recording.stdout == "1\n2\n3\n", recording.stderr
    assert re.search(r"\d+ processes were not recorded: the recording has the size that --max-size allows", recording.stderr), recording.stderr
    recorder.verify(recording)


def test_max_size_and_new_processes_with_threads(recorder):
    script = ("import os, threading\n"
              "for i in range(3):\n"
              "    child = os.fork()\n"
              "    if child == 0:\n"
              "        thread = threading.Thread(target=os.write, args=(1, b'in a thread\\n'))\n"
              "        thread.start()\n"
              "        thread.join()\n"
              "        os._exit(0)\n"
              "    assert os.waitpid(child, 0)[1] == 0\n")
    recording = recorder.record([PYTHON, "-c", script], name="it", options=["--max-size", "4M"])
    assert recording.returncode == 0 and recording.stdout == "in a thread\n" * 3, recording.stderr
    assert "not recorded: the recording has the size" in recording.stderr, recording.stderr
    assert "descriptor" not in recording.stderr, recording.stderr
    notices = [node.get("notice", "") for node in recorder.info(recording)["nodes"]]
    assert "a process that it made is not recorded: the recording has the size that --max-size allows" in notices, notices
    recorder.verify(recording)


def test_a_record_larger_than_what_is_given_at_once(recorder):
    """One call that fills 200 MB."""
    script = "import os; print(len(os.read(os.open('/dev/zero', os.O_RDONLY), 200_000_000)))"
    recording = recorder.record([PYTHON, "-S", "-c", script], name="it")
    assert (recording.returncode, recording.stdout) == (0, "200000000\n"), recording.stderr
    assert ended(recorder, recording) == "exited with 0"
    recorder.verify(recording)


@pytest.mark.parametrize("size, words", [("3M", "too small"), ("lots", "not a size"), ("12Q", "not a size"), ("-4M", "not a size"), ("99999999T", "not a size"), ("1.5G", "not a size")])
def test_impossible_sizes(recorder, size, words):
    done = recorder.record(["/bin/true"], options=[f"--max-size={size}"])
    assert done.returncode == 2 and words in done.stderr and not done.path.exists(), done.stderr


def test_limit_of_file_sizes(recorder, reader):
    """`ulimit -f` of the recorder ends the recording, neither the recorder nor the program."""
    command, _ = reader("/dev/urandom", 1400)
    recording = recorder.record(command, name="it", options=["--no-compress"], prefix=["/usr/bin/prlimit", f"--fsize={96 << 20}"])
    assert (recording.returncode, recording.stdout) == (0, "140000000\n"), recording.stderr
    assert "the limit of files" in recording.stderr
    assert ended(recorder, recording) == "recording ended: the size limit was reached; the program went on"
    recorder.verify(recording)


# -- what else reads recordings ----------------------------------------------------------------------------------------
def test_merge_of_compressed_traces(recorder, reader, tmp_path):
    command, _ = reader(count=200)
    first = recorder.record(command, name="first")
    second = recorder.record(command, name="second", options=["--no-compress"])
    done = recorder.run([recorder.friday, "merge", "--separate-hosts", "-o", tmp_path / "all", first.path, second.path])
    assert done.returncode == 0, done.stderr
    assert packed(tmp_path / "all", 0).exists() and not trace(tmp_path / "all", 0).exists() and trace(tmp_path / "all", 1).exists()
    recorder.verify(tmp_path / "all")
    assert [node["events"] for node in recorder.info(tmp_path / "all")["nodes"]] == [recorder.info(r)["nodes"][0]["events"] for r in (first, second)]


def test_merge_of_what_a_killed_recorder_left(recorder, reader, tmp_path):
    """Both forms side by side, with holes in the one."""
    command, progress = reader("/dev/urandom", 30000, 0.0005)
    running = recorder.start_record(command, name="first")
    wait_until(lambda: packed(running.recording).exists() and packed(running.recording).stat().st_size > BLOCK, "nothing is compressed", 60)
    os.kill(running.pid, signal.SIGKILL)
    os.kill(program_of(recorder, "reader.py"), signal.SIGKILL)
    running.process.communicate(timeout=20)
    recorder.none_left()
    second = recorder.record(["/bin/echo", "x"], name="second")
    done = recorder.run([recorder.friday, "merge", "-o", tmp_path / "all", running.recording, second.path])
    assert done.returncode == 0, done.stderr
    assert packed(tmp_path / "all", 0).exists() and trace(tmp_path / "all", 0).exists()
    recorder.verify(tmp_path / "all")


def test_killed_while_its_image_was_written(recorder):
    """Nothing of that program can be replayed; the others can."""
    nodes = [{"name": "killed", "command": ["/bin/sh", "-c", "kill -9 $$"]}, {"name": "other", "command": ["/bin/true"]}]
    recording = recorder.group({"node": nodes}, options=["--no-compress"])
    file = recording.path / "nodes" / "0" / "trace"
    data = bytearray(file.read_bytes())
    cut = list(records(data))[10][0]
    struct.pack_into("<QQI", data, COMMITTED, cut, 0, 0)  # and `events` and `ended`
    seal(data)
    file.write_bytes(data[:cut])
    done = recorder.verify(recording)
    assert "verified: 1 node," in done.stdout, done
    assert ended(recorder, recording) == "killed by SIGKILL"
