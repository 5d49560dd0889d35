"""Running backward with stop points of all kinds, chosen at random, in programs that were not written for it: from a random place the hit that
`reverse_continue` finds is the last one before it in a run forward that lists all. FRIDAY_BACKWARD_SEEDS=FIRST-LAST chooses the seeds."""
import os
import random

import pytest
from debug_support import friday, opened, record_once  # noqa: F401
from test_walks import FUNCTIONS, RECORDINGS, WATCHES

pytestmark = pytest.mark.limit(600)

CALLS = ("write", "read", "futex", "mmap", "sendto", "recvfrom", "wait4", "rt_sigaction", "exit_group", "close")
IN_SAMPLE = ("ring", "forks")
ENOUGH, MOST, PLACES = 3, 400, 6  # hits of a choice of stop points, and from how many of them the group goes back


def add_point(session, name, chance):
    kind = chance.choice(["breakpoint", "breakpoint", "call", "timer", *(["watch"] * 2 if name in WATCHES else []), "signal or fork"])
    nodes = [chance.choice(session.every_node)] if chance.random() < 0.3 else None
    if kind == "breakpoint":
        condition = chance.choice([None, None, "$rdi % 2 == 0", "(long)$rsp % 3 == 0"])
        return session.breakpoint(f"-pending {chance.choice(FUNCTIONS)}", condition=condition, nodes=nodes)
    if kind == "call":
        return session.catch(f"syscall {chance.choice(CALLS)}", nodes=nodes)
    if kind == "timer":
        return session.every(seconds=chance.choice([0.01, 0.1, 0.5]))
    if kind == "watch":
        return session.watch(chance.choice(WATCHES[name]), nodes=nodes)
    return session.catch(chance.choice(["signal", "fork"]), nodes=nodes)


def key(session, stop):
    return (stop.kind, int(stop.node), stop.event, stop.ids, stop.pc, session.backend.state_hash(int(stop.node)))


def listed(session):
    """The hits of a run forward, with their marks and times; as many as MOST."""
    session.restart()
    hits = []
    while (stop := session.run()).kind != "end" and len(hits) < MOST:
        if stop.ids:
            hits.append((key(session, stop), stop.mark, float(session.logical_time)))
    return hits


def choose_points(session, name, chance):
    """Stop points that are hit some times, but not so often that it takes minutes to list all."""
    for _ in range(100):
        points = [add_point(session, name, chance) for _ in range(chance.randrange(1, 5))]
        hits = listed(session)
        if ENOUGH <= len(hits) < MOST:
            return hits
        for point in points:
            point.delete()
    raise AssertionError("no choice of stop points is hit often enough, and not too often")


def seeds():
    first, _, last = os.environ.get("FRIDAY_BACKWARD_SEEDS", "1-12").partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("name,seed", [pytest.param(name, seed, marks=[] if seed == 1 and name in IN_SAMPLE else pytest.mark.full)
                                       for name in RECORDINGS for seed in seeds()])
def test_backward_from_a_random_place(name, seed, tmp_path_factory, opened):
    chance, session = random.Random(f"{name} {seed}"), opened(record_once(f"walk-{name}", RECORDINGS[name], tmp_path_factory))
    session.set_checkpoints(True)
    hits = choose_points(session, name, chance)
    shown = f"seed {seed}, stop points {[str(point) for point in session.points.values()]}"
    for _ in range(PLACES):
        at = chance.randrange(1, len(hits))
        if chance.random() < 0.5:
            session.goto(hits[at][1])
            where = f"hit {at} at {hits[at][1]}"
        else:
            between = chance.uniform(hits[at - 1][2], hits[at][2])
            node, event = session.backend.find_time(between)
            session.goto(event, node=node)
            now = float(session.logical_time)
            before = [i for i, hit in enumerate(hits) if hit[2] < now]
            if not before or any(hit[2] == now for hit in hits):
                continue  # which of two at one time comes first, the time does not say
            at, where = before[-1] + 1, f"event {event} of node {node}, before hit {before[-1] + 1}"
        places = [i for i in range(at) if hits[i][1] != hits[i + 1][1]]  # of several hits at one place, the last one is found
        for back in places[:-4:-1]:
            stop = session.reverse_continue()
            assert stop is not None, f"nothing was found before {where}, {shown}"
            assert key(session, stop) == hits[back][0], f"from {where}: {back}, {shown}"
            assert stop.mark in (None, hits[back][1]), f"from {where}: {back}, {shown}"  # there is none where a count was not made
