"""Going back by checkpoints with a debugger at work: wherever a session goes, forward and back, with stop points coming and going, the
memory of all nodes, what is read of them and the next stop are those of a replay that goes there straight from the start."""
import os
import pathlib
import random

import pytest
from debug_support import friday, opened, ring  # noqa: F401

pytestmark = pytest.mark.limit(120)

WATCHED, READ = "srv.successor", "srv.node.id"


def hashes(session):
    return {int(node): session.backend.state_hash(int(node)) for node in session.all_nodes}


def reads(session):
    """What a variable of each started node is; a node that stands in a library has it, too."""
    found = {}
    for node in session.all_nodes:
        try:
            found[int(node)] = int(node.read(READ))
        except friday.NodeNotStarted:
            pass
    return found


@pytest.fixture
def truth(ring, opened):
    """Of some places the state that a straight run has there, and all stops of a straight run at a watch."""
    chance = random.Random(7)
    session = opened(ring)
    times = sorted(chance.uniform(1, ring.plan.seconds - 1) for _ in range(15))
    places = dict.fromkeys(session.backend.find_time(time) for time in times)
    states = []
    for node, event in places:
        session.goto(event, node=node)
        states.append((node, event, float(session.logical_time), hashes(session), reads(session)))
    session.restart()
    session.watch(WATCHED)
    stops = []
    while (stop := session.run()).kind != "end":
        stops.append((float(stop.logical_time), int(stop.node), stop.event))
    return states, stops


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12)]])
def test_a_place_is_the_same_from_a_checkpoint(ring, opened, truth, seed):
    states, stops = truth
    chance = random.Random(seed)
    session = opened(ring)
    session.set_checkpoints(True)
    watch = None
    for _ in range(25):
        node, event, time, memory, values = chance.choice(states)
        assert session.goto(event, node=node).kind == "reached"
        assert (float(session.logical_time), hashes(session), reads(session)) == (time, memory, values), f"before event {event} of node {node}"
        what = chance.randrange(5)
        if what == 0:
            session.checkpoint()
        elif what == 1 and watch is None:
            watch = session.watch(WATCHED)
        elif what == 2 and watch is not None:
            watch.delete()
            watch = None
        elif what == 3:
            session.nodes[node].write(READ, 1)  # a branch that going back drops
            with pytest.raises(friday.Unsupported, match="altered"):
                session.checkpoint()
            session.goto(1, node=node)
            assert not session.altered
        if watch is not None and what != 3:
            stop = session.run()
            later = [s for s in stops if s[0] >= time]
            assert (float(stop.logical_time), int(stop.node), stop.event) == later[0] if later else stop.kind == "end"
    kept = session.backend.checkpoints()["kept"]
    assert len(kept) > 2 and [events for events, *_ in kept] == sorted(events for events, *_ in kept)
    session.set_checkpoints(budget=1)
    assert len(session.backend.checkpoints()["kept"]) == 2  # the first and the last


def test_checkpoints_are_refused_by_name(ring, opened):
    session = opened(ring, sync="causal")
    with pytest.raises(friday.Unsupported, match="order clock"):
        session.checkpoint()
    session.set_checkpoints(True)
    session.goto(50, node=1)
    assert session.backend.checkpoints()["kept"] == []
    session.goto(20, node=1)
    assert session.backend.event(1) == 19


def test_timers_go_on_where_the_group_has_come_back_to(ring, opened):
    session = opened(ring)
    session.checkpoint()
    session.every(seconds=0.25)(session.stop)
    ticks = []
    while (stop := session.run()).kind != "end":
        ticks.append(float(stop.logical_time))
    assert len(ticks) > 10
    where = session.backend.find_time(ticks[5] + 0.01)
    session.goto(where[1], node=where[0])
    assert float(session.run().logical_time) == ticks[6]


def test_no_process_is_left(ring, opened):
    session = opened(ring)
    session.goto(40, node=1)
    session.checkpoint()
    session.goto(80, node=1)
    session.goto(60, node=1)
    twins = sum(processes for _, _, processes, _ in session.backend.checkpoints()["kept"])
    assert twins
    pids = children()
    assert len(pids) >= twins
    session.close()
    assert not pids & children()


def children():
    """The replayed processes below this one."""
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue
        name, _, rest = text.partition(") ")
        if name.endswith("(friday-stub") and int(rest.split()[1]) == os.getpid():
            found.add(entry.name)
    return found


def test_a_timer_that_was_due_is_not_due_again(ring, opened):
    """The node that `goto` stops may have moved long before the others, and the time of the group is not that of its last event."""
    session = opened(ring)
    session.every(seconds=0.01)(session.stop)
    ticks = []
    while (stop := session.run()).kind != "end":
        ticks.append(float(stop.logical_time))
    chance = random.Random(3)
    for time in sorted(chance.uniform(ticks[0], ticks[-2]) for _ in range(20)):
        node, event = session.backend.find_time(time)
        session.goto(event, node=node)
        here = float(session.logical_time)
        assert float(session.run().logical_time) in (here, next(tick for tick in ticks if tick > here)), (time, here)
