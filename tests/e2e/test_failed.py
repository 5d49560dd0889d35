"""A replayed process, or a gdb, that somebody kills: the replay has failed, which is neither an end nor a divergence."""

import json
import os
import pathlib
import signal

import pytest
from conftest import wait_until
from debug_support import BUILD, friday, opened, record_once  # noqa: F401

pytestmark = pytest.mark.limit(90)

KILLED = "failed: its process was killed by SIGKILL, which was not recorded; something on this machine ended it. Replay again"
# Computes for a while without a call.
COMPUTES = ["/usr/bin/python3", "-c", "x = 0\nfor i in range(40000000): x += i"]


def replayed(root=None):
    """The processes of nodes below a process, by default this one, in the order in which they were made."""
    parents, names, starts = {}, {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, tail = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            pid, _, name = head.partition(" (")
            parents[int(pid)], names[int(pid)], starts[int(pid)] = int(tail.split()[1]), name, int(tail.split()[19])

    def below(pid):
        while pid not in (root or os.getpid(), 0, 1):
            pid = parents.get(pid, 0)
        return pid == (root or os.getpid())

    found = [pid for pid, name in names.items() if name.startswith("friday-") and name != "friday" and below(parents[pid])]
    return sorted(found, key=lambda pid: (starts[pid], pid))  # the numbers of processes begin anew when they have been used up


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def seconds_used(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    return record_once("rounds", lambda recorder: recorder.record([BUILD / "targets" / "rounds"], name="it"), tmp_path_factory)


@pytest.fixture(scope="module")
def computes(tmp_path_factory):
    return record_once("computes", lambda recorder: recorder.record(COMPUTES, name="it"), tmp_path_factory)


@pytest.mark.parametrize("sync", ["clock", "causal", "free"])
@pytest.mark.parametrize("who", ["here", "another"])
def test_killed_at_a_stop(rounds, opened, sync, who):
    """The node that stopped, or one that waits for its turn; what was done until then is still told."""
    session = opened(rounds, sync=sync)
    point = session.breakpoint("pass")
    for _ in range(30):
        stop = session.run()
        assert stop.ids == (point.id,)
    which = stop.node if who == "here" else next(int(node) for node in session.all_nodes if int(node) != stop.node)
    event = session.backend.event(which)
    pids = replayed()
    assert len(pids) == 3
    os.kill(pids[which], signal.SIGKILL)
    exits = []
    session.on_exit = exits.append
    point.delete()
    for _ in range(2):  # it stays so
        with pytest.raises(friday.ComponentDied) as failed:
            session.run()
        assert str(failed.value).startswith(f"node {which} ") and str(failed.value).endswith(KILLED), failed.value
        assert failed.value.node == which
    assert session.nodes[which].state == "failed" and which not in [stop.node for stop in exits]
    assert session.backend.event(which) == event
    with pytest.raises(friday.ComponentDied):
        session.nodes[which].read("turns")
    exits.clear()
    session.restart()
    assert session.run().kind == "end" and len(exits) == 3


def test_a_question_meets_it_first(rounds, opened):
    """Memory of a process that is gone is not unreadable memory of the program."""
    session = opened(rounds)
    session.breakpoint("pass", nodes=1)
    session.run()
    place = int(session.nodes[0].read("&turns"))
    victim = replayed()[1]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: is_gone(victim), "the kill has no effect")
    for question in (lambda: session.nodes[1].read("turns"), lambda: session.backend.read_memory(1, place, 8),
                     lambda: session.backend.state_hash(1), lambda: session.step(1, "stepi")):
        with pytest.raises(friday.ComponentDied):
            question()


@pytest.mark.parametrize("sync", ["clock", "free"])
@pytest.mark.parametrize("how", ["text", "json"])
def test_killed_in_mid_run(recorder, computes, sync, how):
    running = recorder.start([recorder.friday, "verify", computes.path, "--sync", sync, *(["--json"] if how == "json" else [])])
    wait_until(lambda: any(seconds_used(pid) > 0.2 for pid in replayed(running.pid)), "the node does not run")
    os.kill(replayed(running.pid)[0], signal.SIGKILL)
    done = running.finish()
    assert done.returncode == 4, done
    assert KILLED in done.stdout and "diverge" not in done.stdout and "verified" not in done.stdout
    if how == "json":
        found = json.loads(done.stdout)
        assert found["held"] is False and found["failed"].endswith(KILLED) and found["nodes"][0]["end"] == "failed"
        assert "problem" not in found and "divergence" not in found
    recorder.none_left()


@pytest.mark.parametrize("what", ["node", "another"])
def test_killed_under_a_script(recorder, rounds, tmp_path, what):
    """`friday run` says so and exits with 4; what a script has found until then stays."""
    script = tmp_path / "kill.py"
    script.write_text(f"""
import os, signal, sys
sys.path[:0] = {[str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parent.parent)]!r}
from test_failed import replayed

@friday.session.breakpoint("pass", nodes=1)
def hit():
    if friday.session.hit.point.hits == 20:
        friday.session.violation("seen", message="before it")
        os.kill(replayed()[{1 if what == "node" else 0}], signal.SIGKILL)
""")
    report = tmp_path / "report.json"
    done = recorder.run([recorder.friday, "run", script, rounds.path, "--json", report])
    assert done.returncode == 4, done
    assert KILLED in done.stderr and "diverge" not in done.stderr
    found = json.loads(report.read_text())
    assert found["exit"] == 4 and found["outcome"] == "died" and len(found["violations"]) == 1


def test_the_console(recorder, rounds, tmp_path):
    commands = tmp_path / "commands"
    commands.write_text(f"""
py import os, signal, sys
py sys.path[:0] = {[str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parent.parent)]!r}
break pass
continue
py from test_failed import replayed
py os.kill(replayed()[0], signal.SIGKILL)
continue
""")
    done = recorder.run([recorder.friday, "replay", rounds.path, "--batch", "-x", commands])
    assert done.returncode == 4, done
    assert f"node 0 (it) {KILLED}" in done.stderr
