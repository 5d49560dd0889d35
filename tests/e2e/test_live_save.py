"""`friday live REC save` and `record --save-on`: what a recording holds at a moment becomes a recording of its own, while it goes on."""

import json
import os
import pathlib
import random
import shutil
import signal
import time

import pytest
from conftest import SLOWNESS, wait_until
from test_lean import set_random_values
from test_record_keep import CHAIN, FORKS, PYTHON, THREADS
from test_redis import Redis, put_and_get


def save(recorder, recording, *options, code=0):
    done = recorder.run([recorder.friday, "live", recording, "save", "--json", *options], timeout=60)
    assert done.returncode == code, done
    return json.loads(done.stdout) if code == 0 else done.stderr


def node_count(recording):
    return sum(name.isdigit() for name in os.listdir(recording / "nodes"))


@pytest.mark.limit(300)
@pytest.mark.parametrize("program", [CHAIN, THREADS, FORKS], ids=["chain", "threads", "forks"])
@pytest.mark.parametrize("options", [["--keep", "1s"], pytest.param([], marks=pytest.mark.full)], ids=["keep", "all"])
def test_at_any_moment(program, options, recorder):
    """Also while a part begins, while its image is written, and while blocks are compressed."""
    chance = random.Random(7)
    running = recorder.start_record([PYTHON, "-c", program, "8"], name="it", options=options)
    recording = running.recording
    wait_until(lambda: (recording / "nodes" / "0" / "node.json").exists() and recorder.info(recording)["nodes"][0]["events"] > 0,
               "nothing is recorded", 30 * SLOWNESS)
    saved, end = [], time.monotonic() + 6
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.1, 0.6))
        saved.append(save(recorder, recording, "-o", recorder.directory / f"saved-{len(saved)}"))
    recorder.finish_record(running)
    for each in saved:
        recorder.verify(each["path"], timeout=240)
    assert sum(each["under_way"] > 0 for each in saved) >= 2, saved
    recorder.verify(recording, timeout=240)


@pytest.mark.limit(300)
@pytest.mark.parametrize("lean", [[], pytest.param(["--lean"], marks=pytest.mark.full)], ids=["plain", "lean"])
def test_a_group_under_load(lean, recorder, ports, tmp_path):
    """Redis with two replicas: the programs and the recorder go on, and what is saved stays when the recording removes it."""
    redis = Redis(recorder, ports(3), tmp_path, record=["--keep", "6s", *lean])
    recording = redis.running.recording
    redis.wait_for_copies()
    saved, start = [], time.monotonic()
    while time.monotonic() < start + 13:
        redis.load(2000, "set,get,lpush")
        set_random_values(redis.ports[0], 300, 4000)
        if time.monotonic() > start + 4 * len(saved) + 3:
            saved.append(save(recorder, recording, "-o", recorder.directory / f"saved-{len(saved)}"))
    put_and_get(redis)
    redis.wait_for_copies()
    redis.end()
    shown = [recorder.verify(each["path"], timeout=240).stderr for each in saved]
    assert all(each["under_way"] >= 3 and each["linked"] > 0 for each in saved), saved
    assert not lean or "was made again" in shown[-1], shown
    assert any(not (recording / "nodes" / name).exists() for name in os.listdir(pathlib.Path(saved[0]["path"]) / "nodes")), "nothing was removed"


def test_who_saves_may_be_killed(recorder):
    """The recorder goes on compressing and removing, and the next one saves."""
    running = recorder.start_record([PYTHON, "-c", CHAIN, "6"], name="it", options=["--keep", "1s"])
    recording = running.recording
    wait_until(lambda: (recording / "nodes" / "2").exists(), "there are no parts", 30 * SLOWNESS)
    for _ in range(10):
        killed = recorder.start([recorder.friday, "live", recording, "save", "-o", recorder.directory / "never"])
        time.sleep(0.02)
        killed.signal(signal.SIGKILL)
        killed.finish()
        shutil.rmtree(recorder.directory / "never", ignore_errors=True)
    recorder.verify(save(recorder, recording)["path"], timeout=240)
    recorder.finish_record(running)
    assert node_count(recording) <= 4 and not list((recording / "nodes").glob("*/trace")), os.listdir(recording / "nodes")
    recorder.verify(recording, timeout=240)


CRASHES = """
import ctypes, os, sys, time
time.sleep(1)
print("lost 17 rows", flush=True)
time.sleep(0.2)
if sys.argv[1] == "crash":
    if os.fork() == 0:
        ctypes.string_at(8)
    os.wait()
time.sleep(3)
"""


def until_it_is_saved(recorder, running, how, trigger):
    """Lets the recording end, which is saved by what it was begun with or by `live save --when`. What that has said."""
    if how == "live":
        wait_until(lambda: (running.recording / "nodes" / "0" / "node.json").exists(), "nothing is recorded", 30 * SLOWNESS)
        done = recorder.run([recorder.friday, "live", running.recording, "save", "--when", trigger], timeout=60)
        assert done.returncode == 0, done
    finished = recorder.finish_record(running)
    return finished.stderr if how == "record" else done.stdout


@pytest.mark.parametrize("trigger, says", [("crash", "was killed by SIGSEGV"), ("/lost [0-9]+ rows/", "wrote what matches /lost [0-9]+ rows/: lost 17 rows")])
@pytest.mark.parametrize("how", ["record", "live"])
def test_when_something_happens(trigger, says, how, recorder):
    """In the moment, although the program goes on."""
    what = "crash" if trigger == "crash" else "no"
    options = ["--save-on", trigger] if how == "record" else []
    running = recorder.start_record([PYTHON, "-c", CRASHES, what], name="it", options=options)
    recording = running.recording
    said = until_it_is_saved(recorder, running, how, trigger)
    place = recording.parent / f"{recording.name}-saved-1"
    assert says in said
    assert not (recording.parent / f"{recording.name}-saved-2").exists()
    recorder.verify(place, timeout=240)
    info = recorder.info(place)["nodes"]
    assert info[0]["ended"] == "recording ended: it was saved (friday live) while it went on", info[0]
    assert info[0]["events"] < recorder.info(recording)["nodes"][0]["events"]


RECEIVES = """
import os, socket, sys, time
here, there = socket.socketpair()
reader, writer = os.pipe()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))
time.sleep(float(sys.argv[3]))
for number in range(5):
    here.send(b"row %d" % number)
    there.recv(100)
os.write(writer, b"lost 17 rows")
os.read(reader, 100)
datagrams.sendto(b"alarm", datagrams.getsockname())
datagrams.recvfrom(100)
open(sys.argv[1]).read()
time.sleep(float(sys.argv[2]))
"""
TRIGGERS = {
    "pipe": ("return message.channel == 'pipe' and message.data == b'lost 17 rows' and message.node == 'it' and message.call == 'read'",
             "node 0 (it) received what late.py waits for"),
    "stream": ("seen.append(message.data)\n    return seen[-5:] == [b'row %d' % n for n in range(5)] and message.channel == 'stream' and f'{len(seen)} rows'",
               "node 0 (it) received what late.py waits for: 5 rows"),
    "datagram": ("return message.length == 5 and message.peer and message.peer.startswith('127.0.0.1:') and abs(message.time - time.time()) < 60 and repr(message.data)",
                 "waits for: b'alarm'"),
}


def trigger_file(recorder, lines):
    path = recorder.directory / "late.py"
    path.write_text(f"import time\n\nseen = []\n\ndef save_when(message):\n    {lines}\n")
    return path


@pytest.mark.parametrize("what", TRIGGERS)
@pytest.mark.parametrize("how", ["record", "live"])
def test_when_a_message_is_received(what, how, recorder):
    lines, says = TRIGGERS[what]
    trigger = trigger_file(recorder, lines)
    running = recorder.start_record([PYTHON, "-c", RECEIVES, trigger, "3", str(0 if how == "record" else 2 * SLOWNESS)], name="it", options=["--save-on", trigger] if how == "record" else [])
    recording = running.recording
    said = until_it_is_saved(recorder, running, how, trigger)
    assert says in said
    recorder.verify(recording.parent / f"{recording.name}-saved-1", timeout=240)
    assert not (recording.parent / f"{recording.name}-saved-2").exists()


def test_what_a_file_is_not_asked_about(recorder):
    """What a program reads from files is no message, and what it only looks at is one when it takes it."""
    trigger = trigger_file(recorder, "return 'import time' in repr(message.data) and 'a file'")
    running = recorder.start_record([PYTHON, "-c", RECEIVES, trigger, "2", "0"], name="it", options=["--save-on", trigger])
    recorder.finish_record(running)
    assert not (running.recording.parent / f"{running.recording.name}-saved-1").exists()


@pytest.mark.parametrize("lines, says", [(None, "No such file or directory"), ("def save_when(message:", "line 1: SyntaxError"), ("import os\nos.nothing()", "line 2: AttributeError"),
                                         ("raise SystemExit", "line 1: SystemExit"), ("def save(message): pass", "has no function `save_when(message)`")])
def test_a_file_that_cannot_be_used(lines, says, recorder):
    trigger = recorder.directory / "late.py"
    if lines is not None:
        trigger.write_text(lines)
    done = recorder.run([recorder.friday, "record", "-o", recorder.directory / "never", "--save-on", trigger, "--", "/bin/true"], timeout=60)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done
    assert not (recorder.directory / "never").exists()


@pytest.mark.parametrize("lines, says", [("return message.nothing", "late.py, line 6: AttributeError"), ("raise SystemExit(7)", "late.py, line 6: SystemExit: 7"),
                                         ("while True: pass", "a file of --save-on does not return")])
def test_a_file_that_fails(lines, says, recorder):
    """The program, its recording and other triggers go on; nothing is left behind."""
    trigger = trigger_file(recorder, lines)
    goes_on = "while" not in lines
    running = recorder.start_record([PYTHON, "-c", RECEIVES, trigger, "1", "0"], name="it", options=["--save-on", trigger, *(["--save-on", "/nothing/"] if goes_on else [])])
    finished = recorder.finish_record(running)
    assert finished.stderr.count(says) == 1, finished
    recorder.verify(running.recording)


def test_what_says_no_moment(recorder):
    for text, says in [("crsh", "does not say when to save"), ("/(/", "is not a regular expression"), ("//", "does not say when to save")]:
        done = recorder.run([recorder.friday, "record", "-o", recorder.directory / "never", "--save-on", text, "--", "/bin/true"])
        assert done.returncode == 2 and says in done.stderr and not (recorder.directory / "never").exists(), done


def test_where_it_cannot_be(recorder):
    recording = recorder.record(["/bin/true"], name="it").path
    assert "exists already" in save(recorder, recording, "-o", recording, code=2)
    assert "lies inside of" in save(recorder, recording, "-o", recording / "nodes" / "9", code=2)
    assert "there is no directory" in save(recorder, recording, "-o", recorder.directory / "no" / "where", code=2)
    assert "there is no recording" in save(recorder, recorder.directory / "nothing", code=2)
    assert "is not being recorded any more" in save(recorder, recording, "--when", "crash", code=2)
    assert not [name for name in os.listdir(recorder.directory) if "partial" in name]
    recorder.verify(save(recorder, recording)["path"])
