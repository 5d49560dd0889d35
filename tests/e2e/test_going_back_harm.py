"""What keeps the group from going back is said, and leaves a session that lives."""
import contextlib
import os
import pathlib
import resource
import shutil
import threading

import pytest
from debug_support import break_at, friday, opened, recorded_target, ring  # noqa: F401

pytestmark = pytest.mark.limit(120)

outgrows = recorded_target("outgrows")  # for a while it is too large to be copied


@pytest.fixture
def own(ring, tmp_path):
    path = tmp_path / "own"
    shutil.copytree(ring.path, path)
    return path


def place(session):
    return [(int(node), session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.all_nodes]


@pytest.mark.parametrize("gone", ["files", "nodes/2/trace.zst"])
def test_what_the_nodes_are_made_of_is_gone(own, opened, gone):
    """Without checkpoints the nodes would have to be rebuilt. They are not, and the group stands where it stood."""
    session = opened(own)
    session.watch("srv.successor")
    session.run()
    before = place(session)
    part = own / gone
    if not part.exists():
        part = own / "nodes" / "2" / "trace"
    part.rename(own / "aside")
    with pytest.raises(friday.Error, match="cannot be rebuilt, so the group stands where it stood"):
        session.restart()
    assert place(session) == before
    (own / "aside").rename(part)
    assert session.run().kind == "watch"
    session.restart()
    assert session.run().kind == "watch"


def test_a_budget_too_small_for_one_checkpoint(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True, budget=1)
    session.watch("srv.successor")
    stops = []
    while (stop := session.run()).kind != "end":
        stops.append((stop.node, stop.event))
    assert len(session.backend.checkpoints()["kept"]) <= 2
    back = []
    while (stop := session.reverse_continue()) is not None:
        back.append((stop.node, stop.event))
    assert back == stops[::-1]


def descendants():
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


@pytest.mark.skipif(os.geteuid() == 0, reason="machine: root has no limit of processes")
def test_where_no_process_can_be_made(ring, opened):
    """The twins of a checkpoint cannot be forked: that is said once, and going back replays from the start."""
    session = opened(ring)
    for pid in descendants():
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_NPROC, (0, 0))
    session.set_checkpoints(True)
    session.watch("srv.successor")
    stops = []
    while (stop := session.run()).kind != "end" and len(stops) < 20:
        stops.append((stop.node, stop.event))
    said = [text for text in session.backend.take_notices() if "no more checkpoints are made" in text]
    assert len(said) == 1 and session.backend.checkpoints()["refusal"], said
    for node, event in stops[-2::-1][:5]:
        stop = session.reverse_continue()
        assert (stop.node, stop.event) == (node, event)


def refusals(session):
    return [text for text in session.backend.take_notices() if "no more checkpoints are made" in text]


@pytest.mark.skipif(pathlib.Path("/proc/sys/vm/overcommit_memory").read_text().strip() != "0",
                    reason="machine: vm.overcommit_memory is not 0, so Linux copies any process")
def test_where_there_is_no_memory_for_a_copy(outgrows, opened):
    """The same with a node that is too large to be copied, which Linux finds out in the middle of fork(2). When it has become small there are
    checkpoints again, and the places where none could be made are reached from the start."""
    session = opened(outgrows)
    session.set_checkpoints(False)
    break_at(session, "grown")
    there, before, processes = session.mark(), place(session), descendants()
    with pytest.raises(friday.Unsupported, match="the kernel makes no copy of a replayed process: ENOMEM"):
        session.checkpoint()
    assert descendants() <= processes and place(session) == before
    session.set_checkpoints(True)
    point = session.breakpoint("pass")
    stops = [session.run().event for _ in range(20)]
    assert len(set(stops)) == 20
    assert len(refusals(session)) == 1 and "ENOMEM" in session.backend.checkpoints()["refusal"]
    assert session.backend.checkpoints()["kept"] == [] and descendants() <= processes
    for event in stops[-2::-1][:5]:
        assert session.reverse_continue().event == event
    point.delete()
    break_at(session, "shrunk")
    session.set_checkpoints(True)
    session.checkpoint()
    assert not refusals(session) and session.backend.checkpoints()["kept"] and session.backend.checkpoints()["refusal"] == ""
    session.goto(there)
    assert place(session) == before
    assert session.run().kind == "end"
    session.close()
    assert not (left := descendants()), left


def test_ten_thousand_stop_points(ring, opened):
    """Of which one has a condition that holds, at each hit another one."""
    session = opened(ring)
    session.set_checkpoints(True)
    for number in range(10_000):
        session.backend.add_breakpoint([1], "stabilize", f"srv.seq % 10000 == {number}")
    stops = []
    while len(stops) < 12 and (stop := session.run()).kind != "end":
        assert len(stop.ids) == 1
        stops.append((stop.event, stop.ids, place(session)))
    assert len(stops) > 3
    for event, ids, there in stops[-2::-1]:
        stop = session.reverse_continue()
        assert stop is not None and (stop.event, stop.ids, place(session)) == (event, ids, there)


BACK = {
    "reverse_continue": lambda session: session.reverse_continue(),
    "run_back_until": lambda session: session.run_back_until(lambda: session.nodes[1].read("srv.seq") < 0),
    "goto": lambda session: session.goto(20, node=1),
    "restart": lambda session: session.restart(),
    "first": lambda session: session.first(lambda: session.nodes[1].read("srv.seq") > 20),
    "when": lambda session: session.when("srv.seq"),
    "reverse-finish": lambda session: session.step(1, "reverse-finish"),
    "reverse-next": lambda session: session.step(1, "reverse-next"),
    "reverse-step": lambda session: session.step(1, "reverse-step"),
    "reverse-stepi": lambda session: session.step(1, "reverse-stepi"),
    "undo": lambda session: (session.goto(20, node=1), session.undo())[1],
}
QUICK = ("goto", "restart", "reverse-finish", "reverse-next", "reverse-step", "reverse-stepi", "undo")  # most often done before the interrupt comes


@pytest.mark.parametrize("how", BACK)
def test_ctrl_c_while_it_goes_back(ring, opened, how):
    """The session lives, wherever the group stands then, and the group goes back to where it stood."""
    session = opened(ring)
    session.set_checkpoints(True)
    session.watch("srv.successor", condition="srv.seq < 0")  # never
    session.goto(session.backend.event_count(1) - 20, node=1)
    mark, before, interrupted = session.mark(), place(session), 0
    for delay in (0.001, 0.01, 0.03, 0.1, 0.3):
        timer = threading.Timer(delay, session.backend.interrupt)
        timer.start()
        try:
            stop = BACK[how](session)
            stop = stop[0] if isinstance(stop, tuple) else stop
            interrupted += getattr(stop, "kind", None) == "interrupt"
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            timer.cancel()
            timer.join()
            with contextlib.suppress(KeyboardInterrupt):  # one that came behind the answer
                session.backend.gdb(1, "print 1")
        session.goto(mark)
        assert place(session) == before, delay
    assert interrupted or how in QUICK
    session.close()
    assert not (left := descendants()), left


def test_back_of_a_node_that_has_not_started(ring, opened):
    """There is nothing behind its start, and nothing happens."""
    session = opened(ring)
    session.set_checkpoints(True)
    session.goto(3, node=0)
    before = place(session)
    late = next(node for node in session.every_node if session.backend.states()[int(node)] == "not started")
    for how in ("reverse-stepi", "reverse-step", "reverse-finish"):
        with pytest.raises(friday.NodeNotStarted):
            session.step(late, how)
    assert place(session) == before
    assert session.run().kind == "end"
