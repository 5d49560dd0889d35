"""OpenSSH from Debian: a recorded sshd, whose process for each login that is not through yet is locked up by a seccomp filter, and
unrecorded clients that copy files both ways."""

import concurrent.futures
import os
import pathlib
import pwd

import pytest
from conftest import wait_until
from programs import TIMES, Server, load, need, place  # noqa: F401

SERVER, CLIENT, KEYS = "/usr/sbin/sshd", "/usr/bin/sftp", "/usr/bin/ssh-keygen"


@pytest.fixture
def empty_directory():
    """What sshd started by root locks that process up in; without systemd nobody has made it."""
    path = pathlib.Path("/run/sshd")
    made = os.geteuid() == 0 and not path.exists()
    if made:
        path.mkdir(mode=0o755)
    yield
    if made:
        path.rmdir()


def copy(recorder, port, place, number):  # noqa: F811
    """A file to the server and back."""
    sent = place / f"sent{number}"
    sent.write_bytes(os.urandom(300_000))
    batch = place / f"batch{number}"
    batch.write_text(f"put {sent} {place}/there{number}\nls {place}\nget {place}/there{number} {place}/back{number}\n")
    load(recorder, [CLIENT, "-q", "-b", batch, "-P", port, "-i", place / "user", "-F", "none", "-o", "StrictHostKeyChecking=no",
                    "-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=60",
                    f"{pwd.getpwuid(os.geteuid()).pw_name}@127.0.0.1"])
    assert (place / f"back{number}").read_bytes() == sent.read_bytes()


@pytest.mark.full
@pytest.mark.limit(300)
def test_logins(recorder, ports, place, empty_directory):  # noqa: F811
    need("openssh-server", "openssh-client")
    port, = ports(1)
    for name in ("host", "user"):
        load(recorder, [KEYS, "-q", "-t", "ed25519", "-N", "", "-f", place / name])
    options = {"HostKey": place / "host", "AuthorizedKeysFile": place / "user.pub", "ListenAddress": f"127.0.0.1:{port}", "PidFile": "none",
               "StrictModes": "no", "UsePAM": "no", "PermitRootLogin": "yes", "Subsystem": "sftp internal-sftp", "ForceCommand": "internal-sftp"}
    (place / "config").write_text("".join(f"{key} {value}\n" for key, value in options.items()))
    server = Server(recorder, [SERVER, "-D", "-e", "-f", place / "config"], port)
    with concurrent.futures.ThreadPoolExecutor(3) as clients:
        try:
            list(clients.map(lambda number: copy(recorder, port, place, number), range(5)))
        except AssertionError:
            if "account is locked" in recorder.run([recorder.friday, "log", server.running.recording]).stdout:
                pytest.skip("machine: sshd lets nobody in, since this account is locked")
            raise
    wait_until(lambda: len(recorder.processes()) <= 2, "sessions do not end", 60)  # the recorder, and the server that listens
    recording = server.end()
    filtered = [node["name"] for node in recorder.info(recording)["nodes"] if "seccomp filter" in node["ended"]]
    assert len(filtered) == 5, f"processes behind a filter: {filtered}"
    recorder.none_left()
    recorder.verify(recording, "--times", TIMES)
