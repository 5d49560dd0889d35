"""The directory of a recording: full disks, several recorders at once, who may read it, copies of files, and replay without the program."""

import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time

import pytest
from conftest import wait_until
from record_support import PYTHON, said, worker


# -- full disks --------------------------------------------------------------------------------------------------------
@pytest.fixture
def small_disk(tmp_path):
    """small_disk(MiB): a directory on a file system of that size."""
    mounted = []

    def make(size):
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "none", place], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"machine: mount is not permitted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.mounts
def test_disk_full_before_the_start(recorder, small_disk):
    done = recorder.record(["/bin/echo", "hello"], path=small_disk(4) / "rec")
    assert done.returncode == 2
    said(done, "this system refuses 16 MiB of disk for a trace", "No space left on device", "Make room")


@pytest.mark.mounts
def test_disk_that_fills_while_recording(recorder, small_disk, tmp_path):
    """The program goes on, the recording ends in good order, says why, and replays to its end."""
    script = tmp_path / "reader.py"
    script.write_text("total = 0\nfor i in range(600):\n    with open('/dev/urandom', 'rb', buffering=0) as f:\n        total += len(f.read(100000))\nprint(total)\n")
    recording = recorder.record([PYTHON, script], name="it", path=small_disk(48) / "rec")
    assert (recording.returncode, recording.stdout) == (0, "60000000\n"), recording.stderr
    assert "the disk is full; the program went on" in recording.stderr
    assert recording.node("it")["recording_end"]["reason"] == 3
    assert recorder.info(recording)["nodes"][0]["ended"] == "recording ended: the disk was full; the program went on"
    recorder.verify(recording)


@pytest.mark.mounts
def test_disk_full_when_a_child_is_forked(recorder, small_disk, targets):
    """No room for the child's trace: parent and child go on; only what was recorded replays."""
    recording = recorder.record([targets / "fork_pipe"], name="it", path=small_disk(30) / "rec")
    assert recording.returncode == 0 and recording.stdout == "SUCCESS\n", recording.stderr
    assert "No space left on device" in recording.stderr and "descriptor was left" not in recording.stderr, recording.stderr
    recorder.none_left()


# -- several at once ---------------------------------------------------------------------------------------------------
def test_two_recorders_add_to_one_recording(recorder, worker, tmp_path):
    (one, _), (two, _) = worker("one", 2), worker("two", 2)
    path = tmp_path / "rec"
    first = recorder.start_record(one, name="first", path=path)
    second = recorder.start_record(two, name="second", path=path)
    results = [recorder.finish_record(first), recorder.finish_record(second)]
    assert [r.returncode for r in results] == [0, 0], results
    assert {node["name"] for node in results[0].nodes()} == {"first", "second"}
    assert len({node["id"] for node in results[0].nodes()}) == 2
    recorder.verify(path)
    third = recorder.record(["/bin/echo", "later"], name="third", path=path)
    assert third.returncode == 0 and third.node("third")["id"] == 2
    recorder.verify(path)


def test_many_starts_at_once(recorder, tmp_path):
    """Ten recorders race for the directory and for ids."""
    path = tmp_path / "rec"
    running = [recorder.start_record(["/bin/echo", str(i)], name=f"n{i}", path=path) for i in range(10)]
    results = [recorder.finish_record(r) for r in running]
    assert [r.returncode for r in results] == [0] * 10, [r.stderr for r in results]
    assert sorted(node["id"] for node in results[0].nodes()) == list(range(10))
    recorder.verify(path)


# -- the files ---------------------------------------------------------------------------------------------------------
def test_only_the_owner_may_read(recorder, targets):
    mask = os.umask(0)
    try:
        recording = recorder.record([targets / "fork_pipe"])
    finally:
        os.umask(mask)
    for path in [recording.path, *recording.path.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path} has mode {mode:o}"
    assert "readable by you only" in recording.stderr


def test_files_of_a_group_are_private_too(recorder):
    mask = os.umask(0)
    try:
        recording = recorder.group({"node": [{"name": "a", "command": ["/bin/echo", "secret"], "stdout": "a.out"}]})
    finally:
        os.umask(mask)
    assert stat.S_IMODE((recording.path / "a.out").stat().st_mode) == 0o600


def test_mapped_files_are_kept_once(recorder):
    recording = recorder.record({"node": [{"name": f"n{i}", "command": ["/bin/echo", "x"]} for i in range(4)]})
    files = list((recording.path / "files").iterdir())
    assert files and not [f for f in files if f.suffix == ".tmp"]
    assert sum(f.stat().st_size for f in files) < 8 << 20


# Writes each of its files in another way, and reads back what it wrote.
KEEPER = r"""
import mmap, os
with open("mapped", "wb+") as file:
    file.truncate(8192)
    with mmap.mmap(file.fileno(), 8192) as shared:
        shared[0:5] = b"first"
        os.pwrite(file.fileno(), b"by a call", 4096)
        shared[100:200] = shared[4096:4196]
        print(shared[0:5], shared[100:109])
with open("written", "w") as file:
    file.write("kept")
with open("draft", "w") as file:
    file.write("renamed")
os.rename("draft", "final")
with open("short-lived", "w") as file:
    file.write("gone")
os.unlink("short-lived")
print(sorted(os.listdir(".")))
"""


def test_a_file_that_is_mapped_again_and_again_is_asked_for_once(recorder, tmp_path, monkeypatch):
    """The collector looks at a file that has not changed for long once; at one that was just written each time."""
    script = tmp_path / "maps.py"
    script.write_text("import mmap, sys\nwith open(sys.argv[1], 'rb') as f:\n    for i in range(int(sys.argv[2])):\n"
                      "        with mmap.mmap(f.fileno(), 100, mmap.MAP_PRIVATE, mmap.PROT_READ) as m:\n            print(m[:4])\n")
    monkeypatch.setenv("FRIDAY_LOG", "record=debug")

    def asked(path, times):
        log = tmp_path / f"log-{path.name}-{times}"
        monkeypatch.setenv("FRIDAY_LOG_FILE", str(log))
        recording = recorder.record([PYTHON, script, path, times], name=f"{path.name}-{times}")
        assert recording.returncode == 0, recording.stderr
        recorder.verify(recording)
        return log.read_text().count("asks: module")

    old, fresh = pathlib.Path(PYTHON), tmp_path / "fresh"
    assert asked(old, 100) == asked(old, 1)
    fresh.write_text("x" * 200)
    os.utime(fresh, (0, 0))
    assert asked(fresh, 100) > 90, "its status change time is of this moment"


def test_files_that_have_changed_since(recorder, tmp_path):
    """A replay neither needs the program's files as they were nor touches what is there now."""
    place = tmp_path / "place"
    place.mkdir()
    recording = recorder.record([PYTHON, "-c", KEEPER], name="it", cwd=place)
    assert recording.returncode == 0 and recording.stdout.endswith("['final', 'mapped', 'written']\n"), recording
    (place / "mapped").write_bytes(b"another")
    (place / "written").unlink()
    (place / "final").rename(place / "draft")
    (place / "short-lived").mkdir()
    (place / "final").write_text("of today")

    def state():
        return {path.name: (path.stat().st_mtime_ns, path.stat().st_ino, path.is_file() and path.read_bytes()) for path in (place, *place.iterdir())}

    today = state()
    for sync in ("clock", "causal"):
        recorder.verify(recording, "--sync", sync, "--times", "2")
    assert state() == today


def test_recording_replays_without_its_program(recorder, targets, tmp_path):
    """Program, library and data files may be gone."""
    place = tmp_path / "moved"
    place.mkdir()
    for name in ("load_library", "load_library_part.so"):
        shutil.copy(targets / name, place / name)
    recording = recorder.record([place / "load_library"])
    assert recording.stdout == "SUCCESS\n"
    place.rename(tmp_path / "gone")
    recorder.verify(recording)


@pytest.mark.parametrize("recorded", [(), ("setarch", "-R")], ids=["random", "fixed"])
@pytest.mark.parametrize("replayed", [(), ("setarch", "-R")], ids=["random", "fixed"])
def test_with_and_without_random_addresses(recorder, friday, targets, recorded, replayed):
    """Where everything lies is in the start image."""
    recording = recorder.record([targets / "threads"], prefix=recorded)
    done = recorder.run([*replayed, friday, "verify", recording.path])
    assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="machine: it has no /dev/shm")
def test_a_copy_that_takes_long_is_told_of(recorder, tmp_path):
    """The recorder is stopped while it copies, until it has been at it for as long as it is quiet."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        large = os.path.join(directory, "large")
        with open(large, "wb") as file:
            for _ in range(1024):
                file.write(b"x" * (1 << 20))
        running = recorder.start_record([PYTHON, "-c", f"import mmap; file = open({large!r}); mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)"], name="it")

        def copying():
            return [part for part in running.recording.glob("files/*.tmp") if part.exists() and part.stat().st_size > 64 << 20]

        wait_until(copying, "nothing large is copied")
        began = time.monotonic()
        os.kill(running.pid, signal.SIGSTOP)
        wait_until(lambda: time.monotonic() - began > 2.1, "time stands still")
        os.kill(running.pid, signal.SIGCONT)
        recording = recorder.finish_record(running, 60)
    assert recording.returncode == 0
    assert re.search(rf"^friday record: copying into the recording {re.escape(large)}: 1\.\d of 2\.0 GiB$", recording.stderr, re.M), recording.stderr
