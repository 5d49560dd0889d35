"""What the tests of `friday record` share: a program that works until it is told to stop, and what is said when recording goes wrong."""

import re

import pytest
from conftest import wait_until


# A program that works until it is told to stop, counts in a file, and ends by itself after a while all the same.
WORKER = r"""
import os, signal, sys, time
stop = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stop.append(1))
end = time.monotonic() + float(sys.argv[2])
done = 0
while not stop and time.monotonic() < end:
    done += 1
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(done))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(0.001)
print("stopped" if stop else "ran out", done)
"""
PYTHON = "/usr/bin/python3"


@pytest.fixture
def worker(tmp_path):
    """worker(name, seconds): a command, and the file that it counts in."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER)

    def make(name="count", seconds=40):
        return [PYTHON, script, tmp_path / name, str(seconds)], tmp_path / name

    return make


def when(file, then=":"):
    """A command that does something when the file exists."""
    return ["/bin/sh", "-c", f"until [ -e {file} ]; do sleep 0.02; done; {then}"]


def count_in(file):
    try:
        return int(file.read_text() or 0)
    except FileNotFoundError:
        return 0


def wait_for_work(file, more=20):
    start = count_in(file)
    wait_until(lambda: count_in(file) >= start + more, f"{file} does not count on")


def said(recording_or_process, *words):
    """One message on stderr, with these words and without a stack trace."""
    text = recording_or_process.stderr
    lines = [line for line in text.splitlines() if line]
    assert len(lines) == 1, text
    assert lines[0].startswith("friday record: "), text
    for word in words:
        assert re.search(word, lines[0]), f"{word!r} is not in: {lines[0]}"
    return lines[0]


def program_of(recorder, text):
    return wait_until(lambda: [pid for pid, line in recorder.processes().items() if text in line and "record -o" not in line], f"no {text} runs")[0]
