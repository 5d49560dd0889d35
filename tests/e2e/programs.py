"""What the tests of real servers share: their packages, a server under `friday record`, and the check of the recording.

A test asks for the fixture `place`, a directory that servers which give up root can use too, and starts its server with
`Server`. `check` then demands that every process was recorded to its end and that several replays end in equal memory.
"""

import contextlib
import gzip
import http.client
import os
import pathlib
import subprocess
import tempfile

import pytest
from conftest import ROOT, answers, wait_until
from identity import open_to_all

TIMES = 10  # replays of each recording


def need(*packages):
    """Installs what is missing of the Debian packages of the full run: all at once, by the set-up that names them."""
    def missing():
        return [name for name in packages if "installed" != subprocess.run(
            ["dpkg-query", "-W", "-f", "${db:Status-Status}", name], capture_output=True, text=True).stdout]

    if missing():
        done = subprocess.run(["bash", ROOT / "console" / "setup.sh", "--full"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0 and not missing(), f"console/setup.sh --full: {done.stdout[-2000:]}{done.stderr[-2000:]}, missing: {missing()}"


@contextlib.contextmanager
def new_place():
    """A directory that servers can use whoever they run as; pytest closes its own to others whenever it starts."""
    with tempfile.TemporaryDirectory(prefix="friday-place-", ignore_cleanup_errors=True) as directory:
        yield open_to_all(pathlib.Path(directory))


@pytest.fixture
def place():
    with new_place() as directory:
        yield directory


class Server:
    """A recorded program that listens on TCP ports of loopback."""

    def __init__(self, recorder, command, *ports, name="server", **options):
        self.recorder = recorder
        self.running = recorder.start_record(command, name=None if isinstance(command, dict) else name, **options)
        for port in ports:
            wait_until(lambda: answers(port) or not self.running.alive(), f"no server at {port}", 60)
        assert self.running.alive(), self.running.finish()

    def end(self, number=15, returncode=0):
        """Tells the recorder to end the program with SIGTERM, or sends another signal to the program itself."""
        if number == 15:
            self.running.signal(15)
        else:
            for pid in children(self.running.pid):
                os.kill(pid, number)
        return self.finish(returncode)

    def finish(self, returncode=0):
        recording = self.recorder.finish_record(self.running, 120)
        assert recording.returncode == returncode, recording
        return recording


def children(pid):
    return [int(word) for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for word in file.read_text().split()]


def load(recorder, command, timeout=300, **options):
    """Runs an unrecorded client to its end and returns what it printed."""
    done = recorder.run(command, timeout=timeout, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def fetch(port, path):
    """Status and body of a page of an HTTP server on loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, (gzip.decompress(body) if answer.getheader("Content-Encoding") == "gzip" else body).decode()


def check(recorder, recording, *, times=TIMES):
    """Every node was recorded to its end, nothing runs any more, and all replays end in the same memory."""
    assert "recording ended" not in recording.stderr, recording.stderr
    for node in recording.nodes():
        # Only its parent learns that a child was killed.
        assert node["ended"]["how"] in ("exit", "exec", "signal") or "/child-" in node["name"], node
    recorder.none_left()
    recorder.verify(recording, "--times", times, timeout=600)
