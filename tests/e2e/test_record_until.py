"""`friday record --until-failure`: a group again and again until a run fails, what is kept, and what the end says."""

import json
import os
import pathlib
import re
import signal
import time

import pytest
from conftest import wait_until
from record_support import PYTHON

# A server that answers each number with the next one, but is wrong from its third start on; starts are counted in a file.
SERVER = r"""
import os, pathlib, socket, sys
starts = pathlib.Path(sys.argv[2])
count = len(starts.read_text()) + 1 if starts.exists() else 1
starts.write_text("x" * count)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
pathlib.Path("ready").write_text("yes")
while True:
    peer, _ = listener.accept()
    with peer:
        peer.sendall(str(int(peer.recv(100)) + (2 if count == int(sys.argv[3]) else 1)).encode())
"""
CLIENT = r"""
import pathlib, socket, sys, time
end = time.monotonic() + 20
while True:
    try:
        peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
        break
    except ConnectionRefusedError:
        assert time.monotonic() < end
        time.sleep(0.01)
peer.sendall(b"41")
answer = int(peer.recv(100))
print("answer", answer)
sys.exit(0 if answer == 42 else 3)
"""


@pytest.fixture
def counting(tmp_path):
    """counting(bad=3, **group): a server and a client; the client exits with 3 in the run `bad`."""
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)

    def make(bad=3, record_client=False, **group):
        return {"group": {"stop_when_ends": "client", **group}, "node": [
            {"name": "server", "command": [PYTHON, tmp_path / "server.py", "{port:server}", tmp_path / "starts", str(bad)], "cwd": "{dir}"},
            {"name": "client", "command": [PYTHON, tmp_path / "client.py", "{port:server}"], "record": record_client}]}

    return make


def rows(path):
    return [json.loads(line) for line in (path / "runs.jsonl").read_text().splitlines()]


def until(recorder, group, runs, *options, timeout=100):
    running = recorder.start_record(group, path=recorder.directory / "runs", options=["--until-failure", str(runs), *options])
    return recorder.finish_record(running, timeout)


def recordings(path):
    return sorted((entry.name for entry in path.glob("run-*")), key=lambda name: int(name[4:]))


def test_ends_at_the_first_failure(recorder, counting):
    done = until(recorder, counting(bad=4), 10)
    assert done.returncode == 3, done.stderr  # the client's own code
    assert [row["result"] for row in rows(done.path)] == ["passed"] * 3 + ["FAILED"]
    assert rows(done.path)[-1]["why"] == "client: exit 3"
    assert {"name": "client", "recorded": False, "end": "exit 3", "stopped": False} in rows(done.path)[-1]["programs"]
    assert recordings(done.path) == ["run-2", "run-3", "run-4"]  # the failed one and the last two good ones
    failed = done.path / "run-4"
    assert (failed / "client.log").read_text() == "answer 43\n"
    assert (failed / "dir" / "ready").read_text() == "yes"
    for name in recordings(done.path):  # ordinary recordings, each with ports of its own
        recorder.verify(done.path / name)
    port = {recorder.info(done.path / name)["nodes"][0]["argv"][2] for name in recordings(done.path)}
    assert len(port) == 3 and all(re.fullmatch(r"\d+", each) for each in port)
    assert "client (not recorded): exit 3" in done.stderr
    table = done.stderr[done.stderr.index("why, and where"):].splitlines()
    assert re.match(r" +1 +[\d.]+ +passed +not kept", table[1])
    assert re.match(rf" +4 +[\d.]+ +FAILED +client: exit 3 +{re.escape(str(failed))}", table[4])


def test_all_runs_pass(recorder, counting):
    done = until(recorder, counting(bad=0), 3, "--keep", "failed")
    assert done.returncode == 0, done.stderr
    assert recordings(done.path) == []
    assert re.search(r"1-3 +[\d.]+ +passed +not kept; the seconds are the mean", done.stderr)
    again = until(recorder, counting(bad=0), 1, "--keep", "all")
    assert again.returncode == 0, again.stderr
    assert recordings(again.path) == ["run-4"]  # numbers go on
    assert len(rows(again.path)) == 4


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bad_exit_that_nothing_judges_is_named_once(recorder, jobs):
    """By default nobody must succeed; that a program did not is said at the end, with what to write if it should."""
    group = {"node": [{"name": name, "command": ["/bin/sh", "-c", f"exit {code}"]} for name, code in (("a", 3), ("b", 0))]}
    done = until(recorder, group, 2, "-j", str(jobs))
    assert done.returncode == 0 and [row["result"] for row in rows(done.path)] == ["passed"] * 2, done.stderr
    assert done.stderr.count("in 2 runs that passed, a ended with exit code 3, and nothing in the group file says that this is a failure") == 1
    assert 'add to [group]: must_succeed = ["a"]' in done.stderr
    group["group"] = {"must_succeed": ["b"]}
    assert "must_succeed" not in until(recorder, group, 1).stderr


def test_a_placeholder_that_is_mistyped_is_named(recorder):
    done = recorder.group({"node": [{"name": "a", "command": ["/bin/echo", "{prot:web}"]}]})
    assert done.returncode == 0 and done.stdout == "{prot:web}\n"
    assert "friday record: {prot:web} in the group file is no placeholder, so it stays as it is: was {port:web} meant?\n" in done.stderr


def test_several_failures(recorder, tmp_path):
    """A script judges by the number of the run and the recording."""
    check = ["/bin/sh", "-c", 'echo "run {run} saw $(cat {recording}/echo.log)"; exit $(({run} % 2 * 9))']
    done = until(recorder, {"group": {"check": check}, "node": [{"name": "echo", "command": ["/bin/echo", "{run}"]}]}, 5, "--failures", "2")
    assert done.returncode == 9, done.stderr
    assert [row["why"] for row in rows(done.path)] == ["check: exit 9: run 1 saw 1", "", "check: exit 9: run 3 saw 3"]
    assert (done.path / "run-2" / "check.log").read_text() == "run 2 saw 2\n"


def test_the_check_is_the_exit_code_of_one_run_too(recorder):
    node = {"name": "a", "command": ["/bin/echo", "hello"]}
    done = recorder.group({"group": {"check": ["/bin/sh", "-c", "echo no hello; exit 5"]}, "node": [node]})
    assert done.returncode == 5 and "friday: the run failed: check: exit 5: no hello" in done.stderr
    recorder.verify(done)
    done = recorder.group({"group": {"must_succeed": ["a"]}, "node": [{"name": "a", "command": ["/bin/sh", "-c", "exit 6"]}]})
    assert done.returncode == 6, done.stderr


def test_a_crash_of_a_child_fails(recorder):
    script = "import os, signal\nif os.fork() == 0:\n    os.kill(os.getpid(), signal.SIGSEGV)\nos.wait()"
    done = until(recorder, {"node": [{"name": "a", "command": [PYTHON, "-c", script]}]}, 2)
    assert done.returncode == 128 + signal.SIGSEGV, done.stderr
    assert rows(done.path)[0]["why"] == "a/child-1 crashed: SIGSEGV"


def test_a_group_that_hangs_is_ended_and_named(recorder):
    node = {"name": "sleeper", "command": ["/bin/sleep", "100"]}
    done = until(recorder, {"group": {"timeout": 3}, "node": [node, {"name": "short", "command": ["/bin/true"]}]}, 2)
    assert done.returncode == 124, done.stderr
    assert rows(done.path)[0]["why"] == "hung: not ended after timeout = 3 s: sleeper had not ended"
    recorder.none_left()


def test_a_check_that_hangs_is_ended_and_named(recorder):
    group = {"group": {"check": ["/bin/sh", "-c", "trap '' TERM; sleep 100 & sleep 100"], "check_timeout": 0.3},
             "node": [{"name": "a", "command": ["/bin/true"]}]}
    began = time.monotonic()
    done = until(recorder, group, 2)
    assert done.returncode == 124 and time.monotonic() - began < 20, done.stderr
    assert rows(done.path)[0]["why"] == "check hung: not ended after check_timeout = 0.3 s"
    recorder.none_left()


def test_a_predicate_judges(recorder, tmp_path):
    """A predicate, as friday run takes it, finds the second recording at fault."""
    script = tmp_path / "alone.py"
    script.write_text("import friday\nassert [node.name for node in friday.Recording(friday.session.recording).nodes] == ['a'], 'not alone'\n")
    done = until(recorder, {"node": [{"name": "a", "command": ["/bin/sh", "-c", "[ {run} != 2 ] || /bin/true; :"]}]}, 4, "--predicate", script)
    assert done.returncode == 1, done.stderr
    assert [row["result"] for row in rows(done.path)] == ["passed", "FAILED"]
    assert rows(done.path)[1]["why"] == "alone: not alone"
    broken = tmp_path / "broken.py"
    broken.write_text("this is no Python\n")
    done = recorder.record({"node": [{"name": "a", "command": ["/bin/true"]}]}, options=["--predicate", broken])
    assert done.returncode == 2 and "the predicate broken cannot be run: SyntaxError" in done.stderr


@pytest.mark.parametrize("moment", ["run", "check"])
def test_ctrl_c_ends_the_series(recorder, tmp_path, moment):
    flag = tmp_path / "flag"
    waiting = f"[ {{run}} = 3 ] || exit 0; touch {flag}; sleep 100 & wait"
    group = {"group": {"check": ["/bin/sh", "-c", waiting if moment == "check" else "true"]},
             "node": [{"name": "a", "command": ["/bin/sh", "-c", waiting if moment == "run" else "true"]}]}
    running = recorder.start_record(group, path=tmp_path / "runs", options=["--until-failure", "10", "--keep", "1"])
    wait_until(flag.exists, "the third run does not begin")
    running.process.send_signal(signal.SIGINT)
    done = recorder.finish_record(running)
    assert done.returncode == 130, done.stderr
    assert [row["result"] for row in rows(done.path)] == ["passed", "passed", "interrupted"]
    assert recordings(done.path) == ["run-2", "run-3"]
    recorder.verify(done.path / "run-3")
    assert "3 runs: 0 failed, 2 passed" in done.stderr and "interrupted: interrupted" not in done.stderr
    assert f"friday: interrupted; the same command adds further runs to {done.path}\n" in done.stderr
    recorder.none_left()


@pytest.mark.parametrize("group, options, words", [
    ({"group": {"check": ["./absent.sh"]}, "node": [{"name": "a", "command": ["/bin/true"]}]}, [], "check ./absent.sh was not found"),
    ({"node": [{"name": "a", "command": ["/bin/true"]}]}, ["--predicate", "/absent.py"], "cannot read the predicate /absent.py"),
    ({"group": {"must_succeed": ["b"]}, "node": [{"name": "a", "command": ["/bin/true"]}]}, [], "must_succeed names b"),
    ({"node": [{"name": "a", "command": ["/bin/echo", "{port}"]}]}, [], r"command: a port needs a name"),
    ({"node": [{"name": "a", "command": ["/bin/true"]}]}, ["--keep", "some"], "--keep some: write failed, all, or"),
])
def test_is_refused_before_the_first_run(recorder, group, options, words):
    done = until(recorder, group, 3, *options)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert not done.path.exists() or recordings(done.path) == []


def test_is_refused_in_a_recording(recorder):
    made = recorder.group({"node": [{"name": "a", "command": ["/bin/true"]}]}, path=recorder.directory / "runs")
    before = sorted(path for path in made.path.rglob("*"))
    done = until(recorder, {"node": [{"name": "a", "command": ["/bin/true"]}]}, 3)
    assert done.returncode == 2 and "is a recording" in done.stderr
    assert sorted(path for path in made.path.rglob("*")) == before


@pytest.mark.mounts
def test_a_full_disk_ends_the_series(recorder, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    assert os.system(f"mount -t tmpfs -o size=48m none {small}") == 0
    try:
        script = f"import os\nfor i in range(200000): os.read(0, 0)\nopen('{tmp_path}/done', 'a').write('x')"
        running = recorder.start_record({"node": [{"name": "a", "command": [PYTHON, "-c", script]}]}, path=small / "runs",
                                        options=["--until-failure", "50", "--keep", "all", "--no-compress"])
        done = recorder.finish_record(running)
        assert done.returncode == 2, done.stderr
        assert "disk" in done.stderr and "run" in done.stderr
        assert re.search(r"\d+ runs?: 0 failed", done.stderr), done.stderr
        assert len(pathlib.Path(tmp_path / "done").read_text()) < 50
    finally:
        os.system(f"umount -l {small}")
