"""`friday diagnose --jobs`: several runs at a time, each in a process of its own."""

import json
import os
import signal

import pytest
from conftest import wait_until

pytestmark = pytest.mark.limit(200)
GROUP = '[group]\ntimeout = 60\n[[node]]\nname = "server"\ncommand = ["/usr/bin/python3", "{server}", "{{port:server}}"]\nready = "output listening"\nstdout = "{{dir}}/server.out"\n'
# Answers one question after the other. Nobody else may have the port: what its users would see is another run's answer.
SERVER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    connection = listener.accept()[0]
    while data := connection.recv(100): connection.sendall(data)
"""
# Ends as its run's number is odd or even, as soon as so many runs have been there at a time.
SCRIPT = """
import os, pathlib, socket, sys, time
port, run, here, together = int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
(here / f"at-{run}").touch()
(here / f"port-{run}").write_text(str(port))
end = time.monotonic() + 30
while len(list(here.glob("at-*"))) < together and not (here / "met").exists():
    if time.monotonic() > end: sys.exit(9)
    time.sleep(0.01)
(here / "met").touch()
connection = socket.create_connection(("127.0.0.1", port))
connection.sendall(run.encode())
good = connection.recv(100).decode() == run
(here / f"at-{run}").unlink()
sys.exit(int(run) % 2 if good else 8)
"""
SLOW = ["/bin/sh", "-c", "touch $0/at-{run}; sleep 100 & wait"]


@pytest.fixture
def diagnose(recorder, tmp_path):
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    (tmp_path / "group.toml").write_text(GROUP.format(server=server))

    def start(*options, script):
        return recorder.start([recorder.friday, "diagnose", "-o", tmp_path / "study", "--group", tmp_path / "group.toml", *options, "--", *script])

    return start


def rows(tmp_path):
    return [json.loads(line) for line in (tmp_path / "study" / "runs.jsonl").read_text().splitlines()]


def workers_of(running):
    return [int(word) for word in open(f"/proc/{running.pid}/task/{running.pid}/children").read().split()]


def test_as_many_as_are_asked_for(recorder, diagnose, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = diagnose("-j", "4", "-n", "12", "--keep", "all", script=["/usr/bin/python3", script, "{port:server}", "{run}", tmp_path, "4"]).finish(150)
    assert done.returncode == 0 and "12 runs: 6 failed, 6 passed" in done.stdout, done.stdout + done.stderr
    assert [(row["run"], row["result"], row["code"]) for row in rows(tmp_path)] == [(n, "FAILED" if n % 2 else "passed", n % 2) for n in range(1, 13)]
    assert all((tmp_path / "study" / "messages" / f"run-{n}").exists() for n in range(1, 13))
    assert {name for row in rows(tmp_path) for name in [each["name"] for each in row["programs"]]} == {"server", "script"}
    for number in (1, 12):
        replayed = recorder.run([recorder.friday, "verify", tmp_path / "study" / f"run-{number}"])
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    recorder.none_left()


def test_it_ends_when_so_many_have_failed(recorder, diagnose, tmp_path):
    done = diagnose("-j", "3", "-n", "50", "--failures", "4", script=["/bin/false"]).finish(100)
    assert done.returncode == 0 and 4 <= len(rows(tmp_path)) <= 6, done.stdout + done.stderr
    assert [row["run"] for row in rows(tmp_path)] == [*range(1, len(rows(tmp_path)) + 1)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_of_them(recorder, diagnose, tmp_path, number):
    running = diagnose("-j", "3", "-n", "50", script=[*SLOW, tmp_path])
    wait_until(lambda: len(list(tmp_path.glob("at-*"))) == 3, "three runs do not begin")
    if number == signal.SIGINT:
        running.interrupt()  # as from a terminal
    else:
        os.kill(running.pid, number)
    assert running.finish(60).returncode == 130
    assert [(row["run"], row["result"]) for row in rows(tmp_path)] == [(n, "interrupted") for n in (1, 2, 3)]
    recorder.none_left()


def test_a_run_whose_process_is_killed(recorder, diagnose, tmp_path):
    """The other runs end. Its own programs go on, as those of every recorder that is killed, and that is said."""
    running = diagnose("-j", "2", "-n", "50", script=[*SLOW, tmp_path])
    wait_until(lambda: len(list(tmp_path.glob("at-*"))) == 2, "two runs do not begin")
    os.kill(workers_of(running)[0], signal.SIGKILL)
    done = running.finish(60)
    assert done.returncode == 2 and "the process that made the run has ended with SIGKILL; the programs of the run may still be there" in done.stderr
    left = recorder.processes()
    assert left and all("/at-1" in command or "server.py" in command or "sleep" in command for command in left.values()), left
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    recorder.none_left()


def test_the_first_process_is_killed(recorder, diagnose, tmp_path):
    running = diagnose("-j", "2", "-n", "50", script=[*SLOW, tmp_path])
    wait_until(lambda: len(list(tmp_path.glob("at-*"))) == 2, "two runs do not begin")
    os.kill(running.pid, signal.SIGKILL)
    running.finish(60)
    recorder.none_left(30)


def test_what_cannot_be_started(recorder, diagnose, tmp_path):
    done = diagnose("-j", "4", script=["/no/such/program"]).finish(60)
    assert done.returncode == 2 and "/no/such/program" in done.stderr and not list((tmp_path / "study").glob("run-*")), done.stderr
    plain = recorder.run([recorder.friday, "record", "-o", tmp_path / "rec", "-j", "4", "/bin/true"])
    assert plain.returncode == 2 and "--until-failure" in plain.stderr
