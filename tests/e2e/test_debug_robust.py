"""What the debugger does when its parts fail: a gdb that dies or is not there, Ctrl-C in the middle of a run, an owner that
goes without a word. Nothing is lost, nothing hangs, no process is left behind.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import threading
import time

import pytest
from conftest import wait_until
from debug_support import BUILD, break_at, final_state, friday, opened, record_once, run_to_end, state, workers  # noqa: F401

pytestmark = pytest.mark.limit(60)
SYS_PIDFD_GETFD = 438  # os has no function for it


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """Two processes that compute for about a second, one of them with a call now and then."""
    loop = "for ($i = 0; $i < 15e6; $i++) { if ($i % 1e6 == 0) { %s } }"
    return record_once("busy", lambda recorder: recorder.record({"node": [
        {"name": "silent", "command": ["/usr/bin/perl", "-e", loop.replace("%s", "")]},
        {"name": "calling", "command": ["/usr/bin/perl", "-e", loop.replace("%s", "syswrite(STDERR, '.')")]}]}), tmp_path_factory)


def children():
    """Processes that this one has started and not waited for, zombies included: {pid: name}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(")") if entry.name.isdigit() else ("", "", "")
        except OSError:
            continue
        if rest and int(rest.split()[1]) == os.getpid():
            found[int(entry.name)] = name.partition("(")[2]
    return found


def gdbs():
    return [pid for pid, name in children().items() if name == "gdb"]


def unread(pid):
    """What a gdb has been sent on its standard input and has not read."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        copy = libc.syscall(SYS_PIDFD_GETFD, process, 0, 0)
    finally:
        os.close(process)
    if copy < 0:
        raise OSError(ctypes.get_errno(), f"the standard input of gdb {pid} cannot be looked at")
    with socket.socket(fileno=copy) as its_input:
        try:
            return its_input.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT).decode()
        except BlockingIOError:
            return ""


def is_stopped(pid):
    return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


@contextlib.contextmanager
def no_gdb_needed(seconds=40):
    """All gdbs stand still meanwhile. If one is sent anything, they go on at once, and the test fails and says what it was. Whoever
    waits for one that was still starting, without a word to it, hangs no longer than `seconds`."""
    stopped = gdbs()
    before, over, problems = {}, threading.Event(), []

    def wake():
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

    def asked():
        return [f"gdb {pid} was asked {text!r}" for pid in before if (text := unread(pid)[len(before[pid]):])]

    def look():
        late = time.monotonic() + seconds
        while not problems and not over.wait(0.05):
            try:
                problems.extend(asked())
            except OSError as error:
                problems.append(str(error))
            if time.monotonic() > late:
                problems.append(f"{seconds} s have passed, and no gdb was asked anything")
        if not over.is_set():
            wake()

    watcher = threading.Thread(target=look)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: all(map(is_stopped, stopped)), "the gdbs do not stop", 5)
        before.update({pid: unread(pid) for pid in stopped})
        watcher.start()
        yield stopped
        over.set()
        watcher.join()
        found = problems or asked()  # what nobody has waited for as well
        assert not found, "; ".join(found)
    finally:
        over.set()
        wake()


# ---- gdb

def test_a_question_to_a_gdb_that_stands_still_is_seen(workers, opened):
    session = opened(workers)
    break_at(session, "turn")
    with no_gdb_needed() as stopped:
        run_to_end(session)
        assert len(stopped) == 1
    with pytest.raises(AssertionError, match="was asked '[0-9]+-"), no_gdb_needed():
        assert "main (" in session.nodes[0].gdb("thread apply all backtrace")


def test_a_killed_gdb_is_replaced_and_its_node_is_unharmed(workers, opened):
    session = opened(workers)
    final_state(session)
    plain = session.backend.event(0)
    session.restart()
    point = session.breakpoint("turn", condition="number == 2")
    first = session.run()
    frames = session.backtrace()
    old = gdbs()
    assert len(old) == 1, "one gdb for one node"
    os.kill(old[0], signal.SIGKILL)
    wait_until(lambda: old[0] not in children() or session.backend.pump(0.01), "the gdb does not die", 5)
    assert session.backtrace() == frames and session.read(None, "number") == 2
    assert gdbs() != old and len(gdbs()) == 1
    # Stop points are Friday's own, not gdb's; killed while the group runs and while it stands.
    stop = session.run()
    assert stop.ids == (point.id,) and stop.thread == first.thread and stop.event > first.event
    os.kill(gdbs()[0], signal.SIGKILL)
    assert session.run().ids == (point.id,)
    os.kill(gdbs()[0], signal.SIGKILL)
    assert session.step(None, "next").kind == "step"
    point.delete()
    run_to_end(session)
    assert session.backend.event(0) == plain


def test_a_gdb_that_dies_during_its_own_work(workers, opened):
    session = opened(workers)
    break_at(session, "turn")
    frames = session.backtrace()
    with pytest.raises(friday.ComponentDied, match="gdb"):
        session.gdb("python import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert session.backtrace() == frames


def test_a_missing_gdb_is_named(workers, recorder):
    script = (f"import sys; sys.path.insert(0, {str(BUILD / 'python')!r}); import friday\n"
              f"session = friday.Session({str(workers.path)!r})\n"
              "try: session.breakpoint('turn')\n"
              "except friday.Error as error: print(type(error).__name__, error)\n"
              "print(session.run().kind)\n")
    done = recorder.run(["/usr/bin/python3", "-c", script], env={"PATH": "/nowhere"})
    assert done.returncode == 0, done.stderr
    said, end = done.stdout.splitlines()
    assert "no program gdb" in said and "Install Debian's package gdb" in said, said
    assert end == "end", "the replay itself needs no gdb"
    recorder.none_left()


# ---- Ctrl-C

def test_signals_sent_to_a_replayed_program_change_nothing(workers, opened):
    """Whatever somebody on this machine sends it, the signals of faults and of the shim's own among them."""
    session = opened(workers)
    undisturbed = final_state(session)
    session.restart()
    point = session.breakpoint("turn", condition="number == 2")
    session.run()
    programs = [pid for pid, name in children().items() if name != "gdb"]
    assert programs
    for pid in programs:
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS, signal.SIGUSR1, signal.SIGTERM, signal.SIGRTMAX):
            os.kill(pid, number)
    point.delete()
    assert final_state(session) == undisturbed


@pytest.mark.parametrize("sync", ["clock", "free"])
def test_interrupt_stops_the_group_soon(busy, opened, sync):
    session = opened(busy, sync=sync)
    plain = final_state(session)
    session.restart()
    took = []
    for _ in range(3):
        asked = []
        timer = threading.Timer(0.1, lambda: (asked.append(time.monotonic()), session.backend.interrupt()))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.run()
        took.append(time.monotonic() - asked[0])
        timer.join()
        # All of it can be looked at: each node stands somewhere in its own code or at a call.
        for node in session.all_nodes:
            assert "#0" in node.backtrace()
    print(f"interrupted after {max(took) * 1000:.0f} ms")
    assert max(took) < 1.0, "the aim is 0.1 s"
    assert final_state(session) == plain


def test_interrupts_while_nodes_fork_end_no_replay(opened, tmp_path_factory):
    """Each child is awaited at its first instructions; an interrupt that comes then stops the group behind the fork."""
    forks = record_once("forks", lambda recorder: recorder.record(["/bin/sh", "-c", "i=0; while [ $i -lt 150 ]; do (:); i=$((i + 1)); done"], name="sh"), tmp_path_factory)
    session = opened(forks)
    plain = final_state(session)
    for _ in range(3):
        session.restart()
        done, interrupts = threading.Event(), 0

        def interrupt(session=session, done=done):
            while not done.wait(0.0005):
                session.backend.interrupt()
        other = threading.Thread(target=interrupt)
        other.start()
        try:
            kind = None
            while kind != "end":
                try:
                    kind = session.run().kind
                except KeyboardInterrupt:
                    interrupts += 1
        finally:
            done.set()
            other.join()
        assert interrupts > 10
        assert state(session) == plain


# ---- Nothing is left behind

def test_closing_leaves_no_process(workers, busy):
    before = children()
    for recording, steps in ((workers, 0), (workers, 1), (busy, 0)):
        session = friday.Session(recording.path)
        if steps:
            break_at(session, "turn")
            session.read(None, "calls_now()")
        assert len(children()) > len(before)
        session.close()
        assert children() == before
        with pytest.raises(friday.UsageError):
            session.backend.alive()


@pytest.mark.parametrize("end", ["exit", "kill", "abort"])
def test_an_owner_that_goes_leaves_no_process(workers, recorder, end):
    script = (f"import os, sys; sys.path.insert(0, {str(BUILD / 'python')!r}); import friday\n"
              f"session = friday.Session({str(workers.path)!r})\n"
              "session.breakpoint('turn'); session.run(); session.backtrace()\n"
              "print(os.getpid(), flush=True)\n"
              f"{'sys.exit(0)' if end == 'exit' else 'os.abort()' if end == 'abort' else 'os.kill(os.getpid(), 9)'}\n")
    running = recorder.start(["/usr/bin/python3", "-c", script])
    done = running.finish()
    assert done.stdout.strip().isdigit(), done.stderr
    recorder.none_left()
    # The replayed processes have the recorded environment, not the test's: they are found by their files.
    name = str(workers.path).encode()

    def replayed():
        left = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and name in (entry / "maps").read_bytes():
                    left.append(entry.name)
            except OSError:
                pass
        return left

    wait_until(lambda: not replayed(), "replayed processes are left", 10)
