"""How recordings end: groups that stop, Ctrl-C and other signals, killed programs and recorders, and what is known of each end."""

import json
import os
import re
import signal

import pytest
from conftest import wait_until
from record_support import PYTHON, count_in, program_of, wait_for_work, when, worker


def test_group_stops_after(recorder, worker):
    (command, _), (other, _) = worker("a"), worker("b")
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
    assert re.search("friday: node 1 it/child-1: .*; killed, or ended in an unknown way\n", recording.stderr), recording.stderr
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
        return [line for line in recording.stderr.splitlines() if "recorded in" not in line and "this system refuses" not in line], nodes

    few, nodes = lines("for i in 1 2 3 4 5 6 7 8 9 10 11; do (:); done")
    assert len(few) == len(nodes) == 12 and all(re.fullmatch(r"friday: node \d+ it.*; exit 0", line) for line in few)
    many, nodes = lines("for i in {1..15}; do (:); done; (exit 3); (exit 4); :")
    assert [line.split("; ")[1] for line in many[:-1]] == ["exit 3", "exit 4"] and len(nodes) == 18
    events = sum(node["events"] for node in nodes if node["ended"] == "exited with 0")
    assert re.fullmatch(rf"friday: 16 more nodes: {events} events, \d+ KiB; ended with 0", many[-1])
    failed, nodes = lines("for i in {1..15}; do (exit 7); done; exit 5")
    assert len(failed) == 13 and failed[-1] == "friday: ... and 4 more; `friday info` lists all" and len(nodes) == 16
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


# -- how an end is known -----------------------------------------------------------------------------------------------
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
