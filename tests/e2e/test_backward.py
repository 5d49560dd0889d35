"""Running backward: from wherever the group stands, the hit that `reverse_continue` finds is the last one before that place in a run
forward that lists all."""
import contextlib
import random
import re
import threading

import pytest
from debug_support import BUILD, friday, opened, record_once, recorded_target, ring, workers  # noqa: F401

pytestmark = pytest.mark.limit(240)


def key(session, stop):
    """What makes a hit one and the same in every run."""
    return (stop.kind, int(stop.node), stop.event, stop.ids, stop.pc, session.backend.state_hash(int(stop.node)))


def all_hits(session):
    hits = []
    while (stop := session.run()).kind != "end":
        if stop.ids:
            hits.append(key(session, stop))
    return hits


def set_points(session):
    session.watch("srv.successor")
    session.breakpoint("process_data", condition="packet->seq % 2 == 0")
    session.watch("srv.seq", nodes=[2])


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12)]])
def test_backward_finds_what_forward_lists(ring, opened, seed):
    chance = random.Random(seed)
    forward = opened(ring)
    set_points(forward)
    hits = all_hits(forward)
    assert len(hits) > 30
    session = opened(ring)
    session.set_checkpoints(True)
    set_points(session)
    for _ in range(12 if seed == 1 else 40):
        session.restart()
        at = chance.randrange(len(hits))
        for _ in range(at + 1):
            stop = session.run()
        assert key(session, stop) == hits[at]
        for back in range(at - 1, max(at - 4, -1), -1):
            stop = session.reverse_continue()
            assert stop is not None and key(session, stop) == hits[back], f"from hit {back + 1}, seed {seed}"
        if chance.random() < 0.5:
            assert key(session, session.run()) == hits[max(at - 3, 0) + 1 if at else 1]


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12)]])
def test_backward_from_anywhere(ring, opened, seed):
    """From places between hits: before an event, and some instructions behind a hit."""
    chance = random.Random(seed)
    session = opened(ring)
    session.set_checkpoints(True)
    set_points(session)
    hits, times = [], []
    while (stop := session.run()).kind != "end":
        if stop.ids:
            hits.append(key(session, stop))
            times.append(float(stop.logical_time))
    for _ in range(8 if seed == 1 else 40):
        time = chance.uniform(times[0] + 1e-2, times[-1])
        if chance.random() < 0.5:  # often nothing is hit behind the last checkpoint
            node, event = session.backend.find_time(time - chance.uniform(0, 5e-3))
            session.goto(event, node=node)
            session.checkpoint()
        node, event = session.backend.find_time(time)
        stop = session.goto(event, node=node)
        expected = max(i for i, at in enumerate(times) if at < float(session.logical_time))
        stop = session.reverse_continue()
        assert stop is not None and key(session, stop) == hits[expected], f"from {time}, seed {seed}"
        for _ in range(chance.randrange(1, 6)):
            if (moved := session.step(session.nodes[stop.node], "stepi")).ids:
                expected += 1
                assert key(session, moved) == hits[expected]
        behind = session.reverse_continue()
        assert behind is not None and key(session, behind) == hits[expected if not moved.ids else expected - 1], f"from {time}, seed {seed}"


def test_behind_the_last_checkpoint_nothing_was_hit(ring, opened):
    """The search goes on before it, where it must find the last hit and not the first."""
    session = opened(ring)
    session.set_checkpoints(True)
    set_points(session)
    hits, times = [], []
    while (stop := session.run()).kind != "end":
        if stop.ids:
            hits.append(key(session, stop))
            times.append(float(stop.logical_time))
    session.set_checkpoints(False)
    session.set_checkpoints(budget=1)  # the first and the last are left
    gaps = [at for at in range(3, len(hits)) if times[at] - times[at - 1] > 1e-2]
    assert len(gaps) > 5
    for at in gaps[:: len(gaps) // 5]:
        node, event = session.backend.find_time(times[at] - 5e-3)
        session.goto(event, node=node)
        if times[at - 1] < float(session.logical_time) < times[at]:
            session.checkpoint()
            assert key(session, session.run()) == hits[at]
            assert key(session, session.reverse_continue()) == hits[at - 1]


def test_where_there_is_nothing_to_go_back_to(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    assert session.reverse_continue() is None  # at the start
    node, event = session.backend.find_time(1)
    session.goto(event, node=node)
    before = (session.logical_time, session.backend.state_hash(node), session.backend.event(node))
    for point in (None, session.watch("srv.seq", condition="0"), session.breakpoint("process_data", lambda hit: None)):
        assert session.reverse_continue() is None
        assert (session.logical_time, session.backend.state_hash(node), session.backend.event(node)) == before, point
    session.nodes[node].write("srv.node.id", 1)
    with pytest.raises(friday.Unsupported, match="altered"):
        session.reverse_continue()
    session.restart("free")
    with pytest.raises(friday.Unsupported, match="order clock"):
        session.reverse_continue()


locals_ = recorded_target("watch_locals")


@pytest.mark.parametrize("function,variable", [("count", "total"), ("take", "value"), ("nest", "here"), ("structs", "p.x")])
def test_a_local_variable_is_watched_backward(locals_, opened, function, variable):
    """Also where the checkpoint from which the search starts lies before the function was entered."""
    session = opened(locals_)
    session.set_checkpoints(True)
    session.checkpoint()
    session.breakpoint(function, temporary=True)
    assert session.run().kind == "breakpoint"
    session.watch(variable)
    hits = []
    while (stop := session.run()).kind == "watch":
        hits.append((key(session, stop), str(session.changes(stop)[0].new)))
    assert len(hits) >= 2
    session.restart()
    for point in list(session.points.values()):
        point.delete()
    session.checkpoint()
    session.breakpoint(function, temporary=True)
    session.run()
    session.watch(variable)
    for _ in hits:
        stop = session.run()
    assert key(session, stop)[0] == "watch"
    for before, value in reversed(hits[:-1]):
        stop = session.reverse_continue()
        assert stop is not None and (key(session, stop)[:3], str(session.changes(stop)[0].new)) == (before[:3], value)


def place_of(session, node):
    return session.nodes[node].read("$pc"), session.backend.state_hash(node), session.backend.event(node)


STEPPED = {"watch_locals": "take", "fork_pipe": "main", "sockets_tcp": "main", "signals_compute": "main", "threads_yield": "main", "debug_session_O2": "main"}


@pytest.mark.parametrize("program", [pytest.param(name, marks=[] if name == "watch_locals" else pytest.mark.full) for name in STEPPED])
def test_single_steps_back_are_those_forward(program, tmp_path_factory, opened):
    """Through calls into the C library, system calls and signal handlers: the registers' pc, the memory and the events of the node."""
    recording = record_once(program, lambda recorder: recorder.record([BUILD / "targets" / program]), tmp_path_factory)
    session = opened(recording)
    session.set_checkpoints(True)
    session.breakpoint(STEPPED[program], temporary=True)
    node = int(session.run().node)
    places = [place_of(session, node)]
    for _ in range(150):
        session.step(node, "stepi")
        places.append(place_of(session, node))
    for expected in places[-2::-1]:
        session.step(node, "reverse-stepi")
        assert place_of(session, node) == expected
    session.step(node, "stepi")
    assert place_of(session, node) == places[1]


@pytest.mark.parametrize("which", ["ring", "workers"])
def test_steps_back_from_the_end_of_a_node(which, request, opened):
    """The first step leads to before its last call, as one from before the event of this call does; the next ones go on from there."""
    path = request.getfixturevalue(which)
    session, other = opened(path), opened(path)
    for each in (session, other):
        each.set_checkpoints(True)
    for node in range(len(session.nodes)):
        while session.run().kind != "end":
            pass
        assert session.nodes[node].state == "ended"
        last, places = session.backend.event(node), []
        for _ in range(12):
            assert session.step(node, "reverse-stepi").kind == "step"
            places.append(place_of(session, node))
        other.goto(last, node=node)
        for place in places:
            other.step(node, "reverse-stepi")
            assert place_of(other, node) == place


def test_a_step_back_over_a_call_during_which_processes_with_catchpoints_begin(tmp_path_factory, opened):
    """The shell waits while the child of its child begins: a process that exists neither at the checkpoint nor where the step begins."""
    command = ["/bin/sh", "-c", "(/bin/echo one; /bin/echo two; exit 0); exit 0"]
    recording = record_once("waiting", lambda recorder: recorder.record(command), tmp_path_factory)
    session, other = opened(recording), opened(recording)
    for each in (session, other):
        each.set_checkpoints(True)
    while session.run().kind != "end":
        pass
    events = session.backend.event(0)
    session.catch("syscall write wait4 exit_group")
    for event in range(events - 8, events):
        for each in (session, other):
            each.goto(event, node=0)
            assert each.step(0, "reverse-stepi").kind == "step"
        assert place_of(session, 0) == place_of(other, 0)
    session.restart()
    assert session.run().kind == "catch"


def test_steps_back_over_lines_and_calls(locals_, opened):
    session = opened(locals_)
    session.set_checkpoints(True)
    session.breakpoint("count", temporary=True)
    node = int(session.run().node)
    forward = []
    for _ in range(12):
        forward.append((line_of(session), str(session.read(node, "total"))))
        session.step(node, "next")
    for line, total in forward[:0:-1]:
        session.step(node, "reverse-next")
        assert (line_of(session), str(session.read(node, "total"))) == (line, total)
    session.breakpoint("changed", temporary=True)
    session.run()
    assert session.step(node, "reverse-finish").kind == "step"
    assert "count" in session.nodes[node].gdb("frame")


def line_of(session):
    return int(re.search(r":(\d+)$", session.node.gdb("frame").splitlines()[0])[1])


def test_the_first_instruction_has_none_before(locals_, opened):
    session = opened(locals_)
    session.set_checkpoints(True)
    session.breakpoint("_start", temporary=True)
    session.run()
    stop = session.step(None, "reverse-stepi")
    while not stop.message:
        stop = session.step(None, "reverse-stepi")
    assert "nothing to go back to" in stop.message


@pytest.mark.parametrize("program", ["fork_many", "execs", "shared_turns", "workers"])
def test_backward_through_many_processes(program, tmp_path_factory, opened):
    """Processes that are forked, replaced and ended, and share memory; calls, timers and functions of libraries; also from the end, where
    nodes have ended one after the other."""
    recording = record_once(program, lambda recorder: recorder.record([BUILD / "targets" / program]), tmp_path_factory)
    chance, session = random.Random(1), opened(recording)
    session.set_checkpoints(True)
    for function in ("write", "read", "malloc"):
        session.breakpoint(f"-pending {function}")
    session.catch("syscall futex read clone fork exit_group")
    session.every(seconds=0.05)
    hits = all_hits(session)
    places = [hit for hit, then in zip(hits, [*hits[1:], None]) if then is None or hit[1:3] + hit[4:] != then[1:3] + then[4:]]  # two at one place are one
    for _ in range(2):
        for expected in places[-1:-4:-1]:
            stop = session.reverse_continue()
            assert stop is not None and key(session, stop) == expected
        session.goto_end()
    for _ in range(4):
        session.restart()
        at = chance.randrange(1, len(places))
        for _ in range(hits.index(places[at]) + 1):
            while not (stop := session.run()).ids:
                pass
        assert key(session, stop) == places[at]
        assert (stop := session.reverse_continue()) is not None and key(session, stop) == places[at - 1]


def test_without_checkpoints_a_search_starts_at_the_start(ring, opened, locals_):
    session = opened(ring)
    assert not session.backend.checkpoints()["kept"]
    watch = session.watch("srv.successor")
    hits = [key(session, session.run()) for _ in range(6)]
    assert key(session, session.reverse_continue()) == hits[4]
    watch.delete()
    session.watch("srv.seq", condition="0")
    before = key(session, session.last_stop)[1:]
    assert session.reverse_continue() is None
    assert session.backend.state_hash(before[0]) == before[-1]
    session = opened(locals_)
    session.breakpoint("count", temporary=True)
    session.run()
    session.watch("total")
    values = [str(session.changes(session.run())[0].new) for _ in range(4)]
    assert [str(session.changes(session.reverse_continue())[0].new) for _ in range(3)] == values[2::-1]


neighbours = recorded_target("neighbours")


@pytest.mark.full
@pytest.mark.parametrize("patched", [True, False])
def test_a_step_back_from_a_store_that_was_patched_is_one_instruction(neighbours, opened, patched):
    """A patched store is executed in a copy together with the instruction behind it."""
    session = opened(neighbours)
    session.backend.set_patch_stores(patched)
    session.watch("records[1].note")
    node = session.nodes[0]
    note = lambda: tuple(node.read(f"((unsigned long*)records[1].note)[{half}]") for half in (0, 1))  # noqa: E731
    hits = []
    while (stop := session.run()).kind != "end":
        hits.append((stop.pc, note()))
    assert len(hits) >= 50 and len({pc for pc, _ in hits}) == 2, "both stores write to the note"
    for back in range(1, 6):
        stop = session.reverse_continue()
        assert stop is not None and (stop.pc, note()) == hits[-back]
        behind = node.read("(unsigned long)$pc")
        session.step(0, "reverse-stepi")  # `pc` of a watch's stop is the store
        assert (node.read("(unsigned long)$pc"), note()) == (stop.pc, hits[-back - 1][1]), back
        session.step(0, "stepi")
        assert (node.read("(unsigned long)$pc"), note()) == (behind, hits[-back][1]), back
        last = session.origin("records[1].note", node=0, most=1)[0]
        assert last.how != "lost", last


def test_what_begins_as_zero_is_not_from_the_file(neighbours, opened):
    """The file has no bytes of .bss: behind its data stand others."""
    session = opened(neighbours)
    session.run()
    (hop,) = session.origin("records[0].balance", node=0)
    assert hop.how == "begin" and hop.text == "there when the recording of the node began", hop


def test_looking_into_the_past_leaves_the_selection(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    session.breakpoint("process_data", nodes=[2])
    session.run()
    session.backend.gdb(2, "frame 1")
    for look in (lambda: session.when("srv.seq", nodes=[1]), lambda: session.origin("srv.seq", node=1), lambda: session.origin("srv.seq", node=2)):
        look()
        assert session.here == 2 and session.backend.gdb(2, "frame").startswith("#1 "), look
    session.here = 3
    session.backend.note_move(session.states.tag())
    session.goto_end()
    session.here = 1
    session.undo()
    assert session.here == 3, "the node that was selected there"


def test_an_interrupted_origin_interrupts_nothing_else(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    session.goto(session.backend.event_count(1) - 20, node=1)
    chance, interrupted = random.Random(3), 0
    for _ in range(12):
        timer = threading.Timer(chance.uniform(0.02, 0.4), session.backend.interrupt)
        timer.start()
        try:
            session.origin("srv.successor", node=1)
        except KeyboardInterrupt:
            interrupted += 1
            timer.join()
            assert session.backend.gdb(1, "print 1 + 1").endswith("= 2\n")
        finally:
            timer.cancel()
            timer.join()
            with contextlib.suppress(KeyboardInterrupt):  # one that came behind the answer
                session.backend.gdb(1, "print 1")
    assert interrupted > 3
