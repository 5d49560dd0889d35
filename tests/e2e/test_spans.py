"""`first` and `when`: what they find equals what a run forward finds that looks at every write."""
import random

import pytest
from debug_support import break_at, friday, opened, ring  # noqa: F401

pytestmark = pytest.mark.limit(240)


def changes_of(session, expression, nodes=None):
    """All changes, from a run that stops at each."""
    point = session.watch(expression, nodes=nodes)
    found = []
    while (stop := session.run()).kind != "end":
        if stop.kind == "watch":
            hit = session.hit if session.hit is not None else session.changes(stop)[0]
            found.append((int(stop.node), str(stop.logical_time), stop.event, *map(str, hit.raw)))
    point.delete()
    return found


def place(session):
    return [(int(node), session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.all_nodes]


@pytest.mark.parametrize("expression,nodes", [("srv.successor", None), ("srv.seq", "2,3"), ("srv.node", "1")])
def test_when_lists_what_a_run_finds(ring, opened, expression, nodes):
    expected = changes_of(opened(ring), expression, nodes)
    session = opened(ring)
    session.set_checkpoints(True)
    point = session.breakpoint("process_data")
    session.run()
    session.run()
    before = place(session)
    found = session.when(expression, nodes=nodes)
    assert [(int(each.node), str(each.logical_time), each.event, str(each.old), str(each.new)) for each in found] == expected
    assert len(expected) > 1 and all(each.place for each in found)
    assert place(session) == before and point.enabled and session.points == {point.id: point}
    assert session.redo() is None
    assert session.run().ids == (point.id,)


def test_when_in_a_script_that_makes_no_checkpoints(ring, opened):
    session = opened(ring)
    break_at(session, "process_data")
    before = place(session)
    assert len(session.when("srv.successor")) > 5
    assert place(session) == before
    session.restart()
    assert len(session.when("srv.successor", nodes=[0])) == 2
    assert session.mark() == "start"


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12)]])
def test_first_finds_the_write_that_made_it_true(ring, opened, seed):
    chance = random.Random(seed)
    forward = opened(ring)
    node = chance.choice([0, 1, 2, 4])
    seen = changes_of(forward, "srv.seq", [node])
    assert len(seen) > 20
    session = opened(ring)
    session.set_checkpoints(chance.random() < 0.5)
    session.breakpoint("process_data")
    for _ in range(3):
        at = chance.randrange(1, len(seen))
        limit = max(int(new) for *_, new in seen[:at + 1])
        expected = next(each for each in seen if int(each[4]) >= limit)
        if chance.random() < 0.5:
            session.goto_end()
        stop = session.first(lambda: session.nodes[node].read("srv.seq") >= limit)
        assert (int(stop.node), str(stop.logical_time), stop.event) == expected[:3], f"{limit}, seed {seed}"
        assert int(session.nodes[node].read("srv.seq")) == limit
        session.restart()


def test_first_is_for_what_stays_true(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    assert session.first(lambda: True) is None and session.mark() == "start"
    with pytest.raises(friday.UsageError, match="neither here nor at the end"):
        session.first(lambda: False)
    with pytest.raises(ZeroDivisionError):
        session.first(lambda: 1 // 0)
    session.restart()
    break_at(session, "process_data")
    session.node.write("srv.seq", 5)
    for ask in (lambda: session.first(lambda: True), lambda: session.when("srv.seq")):
        with pytest.raises(friday.Unsupported, match="altered"):
            ask()
    session.restart("causal")
    for ask in (lambda: session.first(lambda: True), lambda: session.when("srv.seq")):
        with pytest.raises(friday.Unsupported, match="order clock"):
            ask()


def test_handlers_and_functions_of_the_session_are_set_aside(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    called = []
    point = session.watch("srv.seq", lambda: called.append("watch"))
    off = session.watch("srv.successor", lambda: called.append("off"))
    off.enable(False)
    session.at_end(lambda: called.append("end"))
    session.at_exit(lambda stop: called.append("exit"))
    session.when("srv.successor")
    assert session.first(lambda: session.nodes[2].read("srv.seq") > 3) is not None
    assert called == [] and point.enabled and not off.enabled
    with pytest.raises(friday.NoSymbol):
        session.when("nonsense")
    session.restart()
    session.run()
    assert {"watch", "end", "exit"} == set(called)
