"""`friday record` when things go wrong, and what it promises: bad input, kills, Ctrl-C, full disks, two at once, file modes."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time

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


# -- bad input ---------------------------------------------------------------------------------------------------------
def test_no_command(recorder):
    done = recorder.record([])
    assert done.returncode == 2
    said(done, "nothing to record", "--group")


def test_absent_program(recorder):
    done = recorder.record(["/absent/program"])
    assert done.returncode == 2
    said(done, "/absent/program was not found")
    assert not done.path.exists(), "a recording was made of nothing"
    assert said(recorder.record(["no-such-program-on-the-path"]), "PATH")


def test_name_that_means_something_else(recorder):
    for name in ("7", "a/b", "all", "n*"):
        done = recorder.record(["/bin/echo"], name=name)
        assert done.returncode == 2
        said(done, "cannot name a node")


def test_static_program(recorder, targets):
    done = recorder.record([targets / "static", "fault"])
    assert done.returncode == 2
    said(done, "statically linked", "link it dynamically")


def test_who_may_not_execute_what_it_wrote_records_nothing(recorder):
    """PR_SET_MDWE, which systemd's MemoryDenyWriteExecute= sets: no code could be patched. It is inherited, so it is set before the recorder starts."""
    forbid = ("import ctypes, os, sys; os.execvp(sys.argv[1], sys.argv[1:]) "
              "if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0 else sys.exit(99)")
    done = recorder.record(["/bin/echo", "hello"], prefix=["/usr/bin/python3", "-c", forbid])
    if done.returncode == 99:
        pytest.skip("machine: its kernel is older than 6.3 and has no PR_SET_MDWE")
    assert done.returncode == 2
    said(done, "PR_SET_MDWE", "MemoryDenyWriteExecute=no")


@pytest.mark.parametrize("content, words", [
    (b"", "no program"), (b"MZ" + bytes(100), "neither an ELF program nor a script"), (b"\x7fELF" + bytes(100), "not an x86-64"),
    (b"#!\n" + bytes(100), "interpreter"), (b"#!/absent/interpreter\n" + bytes(100), "/absent/interpreter"),
])
def test_no_program_at_all(recorder, tmp_path, content, words):
    file = tmp_path / "program"
    file.write_bytes(content)
    file.chmod(0o755)
    done = recorder.record([file])
    assert done.returncode == 2
    said(done, words)


def test_setuid_program(recorder, tmp_path):
    copy = tmp_path / "setuid"
    shutil.copy("/bin/echo", copy)
    if os.geteuid() == 0:
        os.chown(copy, 65534, 65534)  # as root only another owner's setuid bit changes who runs it
        copy.chmod(0o4755)
    else:
        # An ordinary user's own setuid bit changes nothing; another group of theirs does.
        groups = [g for g in os.getgroups() if g != os.getegid()]
        if not groups:
            pytest.skip("machine: this user belongs to one group only, so no program of theirs can be set-id")
        os.chown(copy, -1, groups[0])
        copy.chmod(0o2755)
    done = recorder.record([copy, "hello"])
    assert done.returncode == 2
    said(done, "setuid or setgid", "LD_PRELOAD", "without the bit")


def test_script_is_recorded(recorder, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho \"script $1\"\n")
    script.chmod(0o755)
    recording = recorder.record([script, "argument"])
    assert (recording.returncode, recording.stdout) == (0, "script argument\n")
    recorder.verify(recording)


def test_directory_that_is_no_recording(recorder, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("mine")
    done = recorder.record(["/bin/echo"], path=tmp_path / "full")
    assert done.returncode == 2
    said(done, "not a recording", "new or empty directory")
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["letter"]


def test_recording_that_is_a_file(recorder, tmp_path):
    (tmp_path / "file").write_text("mine")
    done = recorder.record(["/bin/echo"], path=tmp_path / "file")
    assert done.returncode == 2
    said(done, "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_directory_that_does_not_exist(recorder, tmp_path):
    done = recorder.record(["/bin/echo"], path=tmp_path / "absent" / "rec")
    assert done.returncode == 2
    said(done, "cannot create the recording", "No such file or directory")


def test_unwritable_directory(recorder, tmp_path):
    if os.geteuid() == 0:
        path = pathlib.Path("/proc/friday-recording")  # where not even root may create anything
    else:
        (tmp_path / "closed").mkdir(mode=0o500)
        path = tmp_path / "closed" / "rec"
    done = recorder.record(["/bin/echo"], path=path)
    assert done.returncode == 2
    said(done, "cannot create the recording")


@pytest.mark.parametrize("name", ["with a space", "with:a colon", "$ORIGIN"])
def test_an_installation_that_the_loader_cannot_name(recorder, tmp_path, name):
    """The loader takes LD_PRELOAD for several names where a path has a space or a colon, and expands what begins with $."""
    place = tmp_path / name
    for part in ("bin/friday", "lib/friday-shim.so", "lib/friday-stub"):
        (place / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pathlib.Path(recorder.friday).parents[1] / part, place / part)
    friday, recording = place / "bin" / "friday", tmp_path / "rec"
    done = recorder.run([friday, "record", "-o", recording, "--", "/bin/sh", "-c", "/bin/echo from another program"])
    assert done.returncode == 0 and done.stdout == "from another program\n", done.stderr
    done = recorder.run([friday, "verify", recording])
    assert done.returncode == 0 and "verified: 2 nodes" in done.stdout, done.stdout + done.stderr


def test_relative_paths(recorder, tmp_path):
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    shutil.copy("/bin/echo", work / "bin" / "echo")
    recording = recorder.record(["bin/echo", "relative"], path="rec", cwd=work)
    assert (recording.returncode, recording.stdout) == (0, "relative\n")
    recording.path = work / "rec"
    assert recording.nodes()[0]["program"] == str(work / "bin" / "echo")
    recorder.verify(recording)


def test_trailing_slash_and_empty_directory(recorder, tmp_path):
    (tmp_path / "empty").mkdir()
    recording = recorder.record(["/bin/echo", "x"], path=f"{tmp_path}/empty/")
    assert recording.returncode == 0
    recorder.verify(recording)


# -- group files -------------------------------------------------------------------------------------------------------
BAD_GROUPS = [
    ("", "no \\[\\[node\\]\\]"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"", ":3: "),
    ("[[node]]\nname = \"a\"\n", "node a has no command"),
    ("[[node]]\ncommand = [\"/bin/true\"]\n", "has no name"),
    ("[[node]]\nname = \"a\"\ncommand = \"/bin/true\"\n", ":3: command must be a list"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/sleep\", 1]\n", ":3: command must be a list of strings"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\ncolour = \"red\"\n", ":4: unknown key \"colour\".*known: name, command"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nstart_delay = -1\n", ":4: start_delay must not be negative"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nstart_delay = \"soon\"\n", ":4: start_delay must be a number"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nstop_signal = \"WINCH\"\n", ":4: unknown stop_signal"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nenv = { A = 1 }\n", ":4: A must be a string"),
    ("[group]\nstop_when_ends = \"b\"\n[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n", "stop_when_ends names b"),
    ("[group]\nstop_later = 3\n[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n", ":2: unknown key \"stop_later\""),
    ("group = 3\n[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n", ":1: unknown entry \"group\""),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n", "two nodes are named a"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n[[node]]\nname = \"b\"\ncommand = [\"/absent\"]\n", "node b: the program /absent was not found"),
]


@pytest.mark.parametrize("text, words", BAD_GROUPS, ids=range(len(BAD_GROUPS)))
def test_bad_group_file(recorder, tmp_path, text, words):
    file = tmp_path / "group.toml"
    file.write_text(text)
    done = recorder.run([recorder.friday, "record", "-o", tmp_path / "rec", "--group", file])
    assert done.returncode == 2
    said(done, words)
    assert not (tmp_path / "rec").exists()


def test_group_and_command(recorder, tmp_path):
    done = recorder.run([recorder.friday, "record", "-o", tmp_path / "rec", "--group", "group.toml", "--", "/bin/true"])
    assert done.returncode == 2
    said(done, "not both")


def test_group_file_that_is_absent(recorder, tmp_path):
    done = recorder.run([recorder.friday, "record", "-o", tmp_path / "rec", "--group", tmp_path / "absent.toml"])
    assert done.returncode == 2
    said(done, "absent.toml")


# -- groups ------------------------------------------------------------------------------------------------------------
def test_keys_of_a_group_file(recorder, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    recording = recorder.group({"group": {"stop_after": 30}, "node": [
        {"name": "one", "command": ["/bin/sh", "-c", "pwd; echo $COLOUR; echo error >&2"], "cwd": str(work), "env": {"COLOUR": "dark red"},
         "stdout": "one.out", "stderr": str(tmp_path / "one.err")},
        {"name": "two", "command": ["/bin/echo", "from two"], "start_delay": 2},
        {"name": "helper", "command": ["/bin/echo", "not recorded"], "record": False},
    ]})
    assert recording.returncode == 0, recording.stderr
    assert (recording.path / "one.out").read_text() == f"{work}\ndark red\n"
    assert (tmp_path / "one.err").read_text() == "error\n"
    assert sorted(recording.stdout.splitlines()) == ["from two", "not recorded"]
    assert {node["name"] for node in recording.nodes()} == {"one", "two"}
    assert recording.node("two")["started_ns"] - recording.node("one")["started_ns"] >= 1e9  # one starts at once, but that takes its time
    recorder.verify(recording)


def test_group_stops_after(recorder, worker):
    (command, file), (other, _) = worker("a"), worker("b")
    running = recorder.start_record({"group": {"stop_after": 3}, "node": [  # time enough to be ready for its end
        {"name": "a", "command": list(map(str, command)), "stop_signal": "INT"}, {"name": "b", "command": list(map(str, other))}]})
    recording = recorder.finish_record(running)
    assert recording.returncode == 0, recording.stderr
    assert recording.stdout.count("stopped") == 2 and 2.9 < recording.seconds < 12
    assert [node["ended"] for node in recording.nodes()] == [{"how": "exit", "detail": 0}] * 2
    recorder.none_left()
    recorder.verify(recording)


def test_group_stops_when_one_ends(recorder, worker):
    command, file = worker()
    recording = recorder.group({"group": {"stop_when_ends": "short"}, "node": [
        {"name": "long", "command": list(map(str, command))}, {"name": "short", "command": when(file)}]})
    assert recording.returncode == 0, recording.stderr
    assert "stopped" in recording.stdout
    recorder.none_left()
    recorder.verify(recording)


def test_interrupted_group(recorder, worker):
    commands = [worker(f"count{i}") for i in range(3)]
    running = recorder.start_record({"node": [{"name": f"n{i}", "command": list(map(str, c))} for i, (c, _) in enumerate(commands)]})
    for _, file in commands:
        wait_for_work(file)
    running.interrupt()
    recording = recorder.finish_record(running, 20)
    assert recording.returncode == 0, recording.stderr
    assert recording.stdout.count("stopped") == 3
    assert [node["ended"] for node in recording.nodes()] == [{"how": "exit", "detail": 0}] * 3
    recorder.none_left()
    recorder.verify(recording)


def test_interrupted_group_with_a_stubborn_node(recorder, tmp_path):
    """One that ignores its stop signal is killed after a while; a second Ctrl-C does so at once."""
    script = tmp_path / "stubborn.sh"
    script.write_text(f"trap 'touch {tmp_path}/told' TERM\ntrap '' INT\ntouch {tmp_path}/ready\nwhile :; do sleep 0.01; done\n")
    running = recorder.start_record({"node": [{"name": "stubborn", "command": ["/bin/sh", str(script)]}]})
    wait_until((tmp_path / "ready").exists, "the node is not ready")
    running.interrupt()
    wait_until((tmp_path / "told").exists, "the node was not told to stop")
    running.interrupt()
    recording = recorder.finish_record(running, 20)
    assert recording.seconds < 8
    assert recording.node("stubborn")["ended"] == {"how": "signal", "detail": 9}
    recorder.none_left(15)
    recorder.verify(recording)


def test_interrupted_program(recorder, worker):
    """Both end in good order."""
    command, file = worker()
    running = recorder.start_record(command, name="it")
    wait_for_work(file)
    running.signal(signal.SIGINT)
    recording = recorder.finish_record(running, 20)
    assert recording.returncode == 0 and recording.stdout.startswith("stopped")
    recorder.verify(recording)


def test_terminated_recorder_ends_its_program(recorder, worker):
    command, file = worker()
    running = recorder.start_record(command, name="it")
    wait_for_work(file)
    running.signal(signal.SIGTERM)
    recording = recorder.finish_record(running, 20)
    assert recording.stdout.startswith("stopped")
    recorder.none_left()
    recorder.verify(recording)


TELLER = r"""
import signal, sys
awaited = [getattr(signal, name) for name in sys.argv[1:]]
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
print("ready", *(s.name for s in blocked), flush=True)
told = []
while len(told) < len(awaited):
    told.append(signal.Signals(signal.sigwait(awaited)).name)
    print(*told, flush=True)
"""


@pytest.fixture
def teller(tmp_path):
    """teller(signal, ...): a command that ends when it got as many of them; it says what it has got after each."""
    script = tmp_path / "teller.py"
    script.write_text(TELLER)
    return lambda *names: [PYTHON, script, *names]


def test_signals_to_the_recorder_are_the_programs(recorder, teller):
    """Each one that a service manager may send; SIGTERM twice over kills nobody."""
    names = ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGPWR", "SIGINT", "SIGTERM", "SIGQUIT"]
    running = recorder.start_record(teller(*names), name="it")
    assert running.process.stdout.readline() == "ready\n"
    for count, name in enumerate(names, 1):
        running.signal(getattr(signal, name))
        assert running.process.stdout.readline().split() == names[:count]
    recording = recorder.finish_record(running, 20)
    assert recording.returncode == 0
    recorder.verify(recording)


def test_program_that_goes_on_after_ctrl_c(recorder, teller, tmp_path):
    """On a terminal: it gets one signal each time, and the recorder leaves it alone; it blocks what it was started with."""
    script = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); os.execvp(sys.argv[1], sys.argv[1:])"
    command = [PYTHON, "-c", script, recorder.friday, "record", "-o", tmp_path / "rec", "--", *teller("SIGINT", "SIGQUIT", "SIGUSR1")]
    pid, terminal = os.forkpty()
    if pid == 0:
        os.execv(PYTHON, list(map(str, command)))
    with open(terminal, "r+b", buffering=0) as keys:
        read = lambda: keys.readline().replace(b"^C", b"").replace(b"^\\", b"").split()  # the terminal's echo
        assert read() == [b"ready", b"SIGUSR2"]
        keys.write(b"\x03")
        assert read()[-1] == b"SIGINT"
        keys.write(b"\x1c")
        assert read()[-2:] == [b"SIGINT", b"SIGQUIT"]
        os.kill(pid, signal.SIGUSR1)
        assert read() == [b"SIGINT", b"SIGQUIT", b"SIGUSR1"]
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    recorder.verify(tmp_path / "rec")


def test_nodes_of_a_group_may_make_sessions(recorder, targets, tmp_path):
    """No node leads its process group, so setsid(2) is not refused; what has left it so is ended with the group all the same."""
    file = tmp_path / "told"
    running = recorder.start_record({"node": [{"name": "it", "command": [str(targets / "sessions"), "daemon", str(file)]},
                                              {"name": "other", "command": [str(targets / "sessions")]}]})
    wait_until(lambda: file.exists() and file.read_text() == "begun ", "the daemon does not begin")

    def ended():
        descriptions = [json.loads(each.read_text()) for each in running.recording.glob("nodes/*/node.json")]
        return sum(each["ended"]["how"] == "exit" for each in descriptions) == 2

    wait_until(ended, "the group's own programs do not end")  # who makes a daemon may do so behind its beginning
    running.interrupt()
    recording = recorder.finish_record(running, 30)
    assert recording.returncode == 0 and recording.stdout == "SUCCESS\n" * 2, recording.stderr
    assert file.read_text() == "begun ended"
    recorder.none_left()
    sessions = [recorder.run([recorder.friday, "dump", recording.path, "--node", name]).stdout for name in ("it", "other")]
    assert all(re.search(r"setsid\(\) = \d", text) for text in sessions), "each node is the leader of its group"
    recorder.verify(recording)


def test_signal_to_the_group_is_the_groups(recorder, teller):
    """What the whole process group is sent the program has got; it is not passed on once more. What only the recorder is sent is."""
    running = recorder.start_record(teller("SIGUSR1", "SIGUSR2"), name="it")
    assert running.process.stdout.readline() == "ready\n"
    os.killpg(running.pid, signal.SIGUSR1)
    assert running.process.stdout.readline() == "SIGUSR1\n"
    running.signal(signal.SIGUSR2)
    assert running.process.stdout.readline() == "SIGUSR1 SIGUSR2\n"
    recording = recorder.finish_record(running, 20)
    assert recording.returncode == 0 and recording.stdout == ""
    recorder.verify(recording)


def test_closed_terminal_ends_the_group(recorder, worker):
    command, file = worker()
    running = recorder.start_record({"node": [{"name": "it", "command": list(map(str, command))}]})
    wait_for_work(file)
    running.signal(signal.SIGHUP)
    recording = recorder.finish_record(running, 20)
    assert recording.stdout.startswith("stopped")
    recorder.none_left()


# -- kills -------------------------------------------------------------------------------------------------------------
def program_of(recorder, text):
    return wait_until(lambda: [pid for pid, line in recorder.processes().items() if text in line and "record -o" not in line], f"no {text} runs")[0]


def test_daemon_outlives_who_started_it(recorder, targets):
    """The recording goes on until the last of the group has ended."""
    recording = recorder.record([targets / "daemonise"], name="it")
    assert (recording.returncode, recording.stdout) == (0, "SUCCESS\n"), recording.stderr
    ended = {node["name"]: node["ended"]["detail"] for node in recording.nodes()}
    assert ended == {"it": 0, "it/child-1": 0, "it/child-1/child-1": 7}
    for sync in ("clock", "causal"):
        recorder.verify(recording, "--sync", sync)


def test_killed_program(recorder, worker):
    command, file = worker()
    running = recorder.start_record(command, name="it")
    wait_for_work(file)
    os.kill(program_of(recorder, "worker.py"), signal.SIGKILL)
    recording = recorder.finish_record(running, 20)
    assert recording.returncode == 128 + signal.SIGKILL
    assert recording.node("it")["ended"] == {"how": "signal", "detail": 9}
    recorder.verify(recording)


def test_killed_child(recorder):
    """Its end only its parent is told, whose recording tells it later."""
    recording = recorder.record(["/bin/bash", "-c", "while :; do :; done & sleep .1; kill $!; wait; exit 3"], name="it")
    assert recording.returncode == 3
    assert re.search("friday: node 1 it/child-1: .*; killed, or ended without a word\n", recording.stderr), recording.stderr
    assert "killed by SIGTERM" in {node["ended"] for node in recorder.info(recording)["nodes"]}


def test_exit_code_is_what_wait_tells(recorder):
    """A child ends with -1."""
    script = "import ctypes, os; os.fork() or ctypes.CDLL(None)._exit(-1); raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))"
    recording = recorder.record([PYTHON, "-c", script], name="it")
    assert recording.returncode == 255
    assert re.findall("; (exit .*)", recording.stderr) == ["exit 255", "exit 255"]
    assert [node["ended"] for node in recorder.info(recording)["nodes"]] == ["exited with 255"] * 2
    recorder.verify(recording)


def test_lines_of_many_nodes_are_folded(recorder):
    """Of more than 12 only those are named that ended otherwise than well."""
    def lines(script):
        recording = recorder.record(["/bin/bash", "-c", script], name="it")
        nodes = recorder.info(recording)["nodes"]
        return [line for line in recording.stderr.splitlines() if "recorded in" not in line], nodes

    few, nodes = lines("for i in 1 2 3 4 5 6 7 8 9 10 11; do (:); done")
    assert len(few) == len(nodes) == 12 and all(re.fullmatch(r"friday: node \d+ it.*; exit 0", line) for line in few)
    many, nodes = lines("for i in {1..15}; do (:); done; (exit 3); (exit 4); :")
    assert [line.split("; ")[1] for line in many[:-1]] == ["exit 3", "exit 4"] and len(nodes) == 18
    events = sum(node["events"] for node in nodes if node["ended"] == "exited with 0")
    assert re.fullmatch(rf"friday: 16 more nodes: {events} events, \d+ KiB; ended with 0", many[-1])
    failed, nodes = lines("for i in {1..15}; do (exit 7); done; exit 5")
    assert len(failed) == 13 and failed[-1] == "friday: ... and 4 more; friday info has all" and len(nodes) == 16
    well, nodes = lines("for i in {1..13}; do (:); done; :")
    assert len(well) == 1 and well[0].startswith("friday: 14 nodes: ")


def test_killed_recorder(recorder, worker):
    """The program goes on unharmed; what was stored until then replays."""
    command, file = worker(seconds=4)
    running = recorder.start_record(command, name="it")
    wait_for_work(file, 50)
    pid = program_of(recorder, "worker.py")
    os.kill(running.pid, signal.SIGKILL)
    wait_for_work(file, 50)
    out, _ = running.process.communicate(timeout=30)
    assert out.startswith("ran out"), "the program was harmed"
    assert int(out.split()[-1]) == count_in(file) >= 100
    recorder.none_left()
    assert pid != running.pid
    recorder.verify(running.recording)


def test_killed_recorder_of_a_program_that_forks_and_threads(recorder, tmp_path):
    """After the recorder's death new threads, children and libraries still work, without anybody to ask."""
    script = tmp_path / "family.py"
    script.write_text(f"""
import os, pathlib, subprocess, threading, time
ready, go = pathlib.Path({str(tmp_path / 'ready')!r}), pathlib.Path({str(tmp_path / 'go')!r})
ready.touch()
end = time.monotonic() + 30
while not go.exists() and time.monotonic() < end:
    time.sleep(0.001)
sums = []
threads = [threading.Thread(target=lambda: sums.append(sum(range(1000)))) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
pid = os.fork()
if pid == 0:
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(sums))
import sqlite3, decimal, ctypes
print(subprocess.run(["/bin/echo", "from a child"], capture_output=True, text=True).stdout.strip())
""")
    running = recorder.start_record([PYTHON, script], name="it")
    wait_until((tmp_path / "ready").exists, "the program is not ready")
    os.kill(running.pid, signal.SIGKILL)
    running.process.wait(10)
    (tmp_path / "go").touch()
    out, err = running.process.communicate(timeout=40)
    assert out == "3 4\nfrom a child\n", err
    recorder.none_left()
    recorder.verify(running.recording)


# -- calls that are not handled ----------------------------------------------------------------------------------------
def test_strict_ends_the_group(recorder, targets, worker):
    command, file = worker()
    recording = recorder.record({"node": [{"name": "worker", "command": list(map(str, command))},
                                          {"name": "it", "command": when(file, f"exec {shlex.quote(str(targets / 'unhandled'))}")}]}, options=["--strict"])
    assert recording.returncode == 1, recording.stderr
    assert "stopped" in recording.stdout
    assert recording.ended_at("it/exec-1") == "seccomp"
    recorder.none_left()
    recorder.verify(recording)


def test_not_strict_goes_on(recorder, targets):
    recording = recorder.record([targets / "unhandled"], name="it")
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n")
    assert "the program went on" in recording.stderr
    end = recording.node("it")["recording_end"]
    assert end["text"] == "0x1" and end["detail"] == 317, "SECCOMP_SET_MODE_FILTER"


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
    (one, file_one), (two, file_two) = worker("one", 2), worker("two", 2)
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


def test_environment_of_the_caller_is_kept(recorder):
    recording = recorder.record(["/usr/bin/env"], env={"LD_PRELOAD": "", "GLIBC_TUNABLES": "glibc.malloc.check=0", "WORD": "kept"})
    assert "WORD=kept" in recording.stdout.splitlines()
    assert [line for line in recording.stdout.splitlines() if line.startswith("GLIBC_TUNABLES=glibc.malloc.check=0:")]
    recorder.verify(recording)


def test_low_descriptor_limit(recorder):
    """The shim's socket finds a place below any limit."""
    recording = recorder.record(["/bin/sh", "-c", "echo low"], prefix=["/usr/bin/prlimit", "--nofile=20"])
    assert (recording.returncode, recording.stdout) == (0, "low\n"), recording.stderr
    recorder.verify(recording)


def test_limit_of_addresses_is_handed_on(recorder, targets):
    """A program that is not recorded runs as well; a recorded one has what was asked for."""
    script = f"ulimit -v 60000; /bin/sh -c 'ulimit -v'; exec {shlex.quote(str(targets / 'static'))} thread"
    recording = recorder.record(["/bin/sh", "-c", script], name="it")
    assert (recording.returncode, recording.stdout.splitlines()[0]) == (33, "60000"), recording.stderr
    recorder.verify(recording)


def test_small_limit_of_data(recorder):
    """It counts code that can be written: less than that of libcrypto, which is patched page by page."""
    recording = recorder.record(["/usr/bin/prlimit", "--data=12000000", PYTHON, "-c", "import ssl; print(1)"])
    assert (recording.returncode, recording.stdout) == (0, "1\n"), recording.stderr
    recorder.verify(recording)


def test_calls_that_came_through_the_catch_all_are_counted(recorder, targets):
    """Code made at run time makes 302 calls; all others come from code that was patched, or trapped ones are few."""
    few = recorder.info(recorder.record([targets / "output"], name="it"))["nodes"][0]["calls_caught"]
    many = recorder.info(recorder.record([targets / "jit"], name="it"))["nodes"][0]["calls_caught"]
    assert few < 50 and 302 <= many < 352


def test_code_of_libraries_that_come_later_is_patched(recorder, targets):
    """A library loaded five times makes a thousand calls each time: none through the catch-all, and `friday info` counts its call sites."""
    before = recorder.info(recorder.record([targets / "output"], name="it"))["nodes"][0]
    later = recorder.info(recorder.record([targets / "load_library"], name="it"))["nodes"][0]
    assert later["calls_caught"] < 50
    assert later["call_sites"]["patched"] >= before["call_sites"]["patched"] + 5


def test_an_end_of_which_nobody_was_told_is_not_called_an_exit(recorder):
    """waitpid(pid, NULL, 0) gives the parent no status."""
    script = "import ctypes, os, signal\nr, w = os.pipe()\np = os.fork()\nif not p: os.write(w, b'x'), signal.pause()\nos.read(r, 1)\nos.kill(p, signal.SIGKILL)\nctypes.CDLL(None).waitpid(p, {}, 0)"
    for place, end in (("None", "unknown (recording was cut off)"), ("ctypes.byref(ctypes.c_int())", "killed by SIGKILL")):
        recording = recorder.record(["/usr/bin/python3", "-c", script.format(place)], name="it")
        told = recorder.run([recorder.friday, "info", recording.path]).stdout
        assert re.findall(r"^  ended +(.*)$", told, flags=re.M) == ["exited with 0", end], told


@pytest.mark.parametrize(("ending", "end"), [
    ("os.abort()", "killed by SIGABRT"), ("ctypes.string_at(0)", "killed by SIGSEGV"), ("os.kill(os.getpid(), signal.SIGTERM)", "killed by SIGTERM"),
    ("threading.Thread(target=os.abort).start(), signal.pause()", "killed by SIGABRT"), ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
    ("signal.pthread_kill(threading.get_ident(), signal.SIGCONT), os.kill(os.getpid(), signal.SIGUSR1)", "killed by SIGUSR1"),
    ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]), os.kill(os.getpid(), signal.SIGTERM), os.write(w, b'x'), signal.pause()", "unknown (recording was cut off)"),
    ("os._exit(5)", "exited with 5")])
def test_how_a_daemon_kills_itself_is_known(recorder, ending, end):
    """The process that forked it has ended: nobody is told by the kernel who is recorded. One that others kill is unknown."""
    script = f"""
import ctypes, os, signal, threading
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if (daemon := os.fork()) == 0:
        os.close(r)
        {ending}
    os.write(w, b"%d " % daemon)
    os._exit(0)
os.close(w)
os.wait()
told = b""
while not (b"x" in told and b" " in told) and (got := os.read(r, 100)):
    told += got
if b"x" in told: os.kill(int(told.replace(b"x", b"").split()[0]), signal.SIGKILL)
"""
    recording = recorder.record(["/usr/bin/python3", "-c", script], name="it")
    told = recorder.run([recorder.friday, "info", recording.path]).stdout
    assert re.findall(r"^  ended +(.*)$", told, flags=re.M) == ["exited with 0", "exited with 0", end], told
    recorder.verify(recording)


@pytest.mark.parametrize("told_by", ["handler", "sigwaitinfo", "signalfd"])
@pytest.mark.parametrize(("ending", "end"), [("os.abort()", "killed by SIGABRT"), ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"), ("os._exit(7)", "exited with 7")])
def test_an_end_is_known_by_the_signal_that_told_the_parent(recorder, told_by, ending, end):
    """Of a child that nobody waits for, or whose parent asks wait(2) for no status, SIGCHLD says how it ended."""
    script = f"""
import ctypes, os, select, signal
libc, how = ctypes.CDLL(None), {told_by!r}
if how == "handler":
    r, w = os.pipe()
    os.set_blocking(w, False)
    signal.set_wakeup_fd(w)
    signal.signal(signal.SIGCHLD, lambda *_: None)
else:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    r = libc.signalfd(-1, (ctypes.c_uint64 * 16)(1 << signal.SIGCHLD - 1), 0)
child = os.fork()
if child == 0:
    {ending}
if how == "sigwaitinfo": signal.sigwaitinfo([signal.SIGCHLD])
else: os.read(r, 128)
libc.waitpid(child, None, 0)
"""
    recording = recorder.record(["/usr/bin/python3", "-c", script], name="it")
    told = recorder.run([recorder.friday, "info", recording.path]).stdout
    assert re.findall(r"^  ended +(.*)$", told, flags=re.M) == ["exited with 0", end], told
    recorder.verify(recording)


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
    assert re.search(rf"^friday record: copying {re.escape(large)} into the recording: 1\.\d of 2\.0 GiB$", recording.stderr, re.M), recording.stderr
