"""How the work of each predicate grows with the length of a recording, and with the number of nodes.

The work is what can be counted: the lines of the predicates that are executed, and the bytes that are read from the nodes. A recording
that is twice as long may take twice the work and a little more, not four times. No time is measured."""

import random
import sys

import pytest
from support import ROOT, Event, changes, session_of

from predicates.acknowledged import Acknowledged
from predicates.connectivity import DisjointPaths
from predicates.conservation import Conservation
from predicates.decided_quorums import DecidedQuorums
from predicates.leader import OneLeader
from predicates.log_prefix import LogPrefix
from predicates.misdelivered import Misdelivered
from predicates.monotonic import Monotonic
from predicates.oscillation import Oscillation
from predicates.quorum import QuorumIntersection
from predicates.ring import Ring
from predicates.ring_times import RingTimes
from predicates.routes import Routes
from predicates.shadow import Reads, Shadow
from predicates.timing import Lasting

FOLDER = str(ROOT / "predicates")
LONGER = 2.4  # times the work for twice the length
NAMES = [f"n{i}" for i in range(64)]


def work(session):
    """What a run costs: lines executed in predicates/, and bytes read."""
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        lines += event == "line"
        return count

    session.backend.bytes_read = 0
    before = sys.gettrace()
    sys.settrace(count)
    try:
        assert session.run().kind == "end"
    finally:
        sys.settrace(before)
    assert lines > 50, "nothing was counted"
    return lines, session.backend.bytes_read


def growth(make, n):
    """The quotients of the work for 2 * n and for n: (lines, bytes)."""
    (lines, read), (more_lines, more_read) = (work(make(size)) for size in (n, 2 * n))
    return more_lines / lines, more_read / max(read, 1)


# -- the length of the recording: each function makes a session of n events with a predicate ---------------------------------
def log_prefix(n):
    session = session_of(changes(*((node, {"committed": k + 1}) for k in range(n) for node in (0, 1, 2))), start={"log": list(range(2 * n)), "committed": 0})
    LogPrefix(session, log="log", committed="committed")
    return session


def log_prefix_counted(n):
    whole = list(range(2 * n))
    session = session_of(changes(*((node, {"length": k + 1, "committed": k}) for k in range(n) for node in (0, 1))), start={"log": whole, "length": 0, "committed": 0})
    LogPrefix(session, log="log[:length]", committed="committed")
    return session


def acknowledged(n):
    """Leaders change as often as entries are acknowledged."""
    steps = [(Event(0, "count", {"index": k, "by": 6}), Event(k % 3, changes={"leads": k + 1})) for k in range(n)]
    session = session_of([event for step in steps for event in step], start={"log": list(range(2 * n)), "leads": 0})
    Acknowledged(session, at="count", index="index", by="by", log="log", leads="leads")
    return session


def decided_quorums(n, **options):
    dice = random.Random(7)
    votes = [sum(1 << voter for voter in dice.sample(range(64), 33)) for _ in range(n)]
    session = session_of([Event(k % 3, "decide", {"slot": k, "votes": str(vote), "members": str((1 << 64) - 1)}) for k, vote in enumerate(votes)])
    mask = lambda name: lambda node: int(node.read(name))  # noqa: E731
    DecidedQuorums(session, at="decide", decision="slot", voters=mask("votes"), **({"members": mask("members")} if options else {}))
    return session


def decided_alone(n):
    """Each decides alone: every decision is a fault, of which each is reported once."""
    session = session_of([Event(k % 3, "decide", {"slot": k, "votes": 1 << k % 3}) for k in range(n)])
    DecidedQuorums(session, at="decide", decision="slot", voters="votes")
    return session


def conservation(n, lost=False):
    steps = [(k, event) for k in range(n) for event in ([(0, "send")] if lost else [(0, "send"), (1, "got")])]
    held = [0, 0]
    events = []
    for k, (node, at) in steps:
        held[node] += -1 if at == "send" else 1
        events.append(Event(node, at, {"amount": 1, "number": k, "held": held[node]}))
    session = session_of(events)
    Conservation(session, held="held", amount="amount", transfer="number", sent_at="send", received_at="got")
    return session


def leader(n, members=False):
    session = session_of(changes(*((k % 3, {"term": k, "leads": True, "members": 7}) for k in range(n))))
    OneLeader(session, term="term", leads="leads", **({"members": "members"} if members else {}))
    return session


def monotonic(n):
    session = session_of(changes(*((k % 3, {"counter": k}) for k in range(n))))
    Monotonic(session, counter="counter")
    return session


def oscillation(n):
    session = session_of(changes(*((0, {"leader": k % 5}) for k in range(n))))
    Oscillation(session, value="leader", times=3, seconds=10)
    return session


def quorum(n):
    session = session_of(changes(*((k % 3, {"members": 7 | 8 << k % 2, "needed": 3}) for k in range(n))))
    QuorumIntersection(session, members="members", needed="needed")
    return session


def misdelivered(n):
    session = session_of([*changes((0, {"id": 10}), (1, {"id": 20}), (2, {"id": 30})), *(Event(k % 3, "serve", {"key": k % 256}) for k in range(n))])
    Misdelivered(session, at="serve", key="key", id="id", bits=8)
    return session


def ring_links(n):
    return [(k % 3, {"srv.node.id": k % 3 + 1, "srv.successor->id": (k + (k % 7 > 0)) % 3 + 1, "srv.predecessor->id": (k + 2) % 3 + 1, "srv.period": 250,
                     "srv.last_message.sender": 0, "srv.last_message.type": 0, "srv.last_message.seq": 0}) for k in range(n)]


def ring(n):
    session = session_of(changes(*ring_links(n)))
    Ring(session)
    return session


def ring_times(n):
    session = session_of(changes(*ring_links(n)))
    RingTimes(session)
    return session


def routes(n):
    tables = {name: {3: 2, 2: 2} for name in "abc"}
    session = session_of(changes(*((k % 3, {"id": k % 3 + 1, "version": k}) for k in range(n))))
    Routes(session, id="id", routes=lambda node: dict(tables[node.name]), watch="id, version", judge=Lasting(seconds=3))
    return session


def connectivity(n):
    session = session_of(changes(*((k % 3, {"id": k % 3 + 1, "version": k}) for k in range(n))))
    DisjointPaths(session, id="id", neighbours=lambda node: [1, 2, 3][:2 + node.read("version") % 2], watch="id, version", judge=Lasting(seconds=3))
    return session


def shadow(n):
    session = session_of(changes(*((k % 3, {"owner": k}) for k in range(n))))
    found = Shadow(session, {"owner": "owner"})
    session.watch("owner", lambda: (found.first("owner", 4), found.values("owner")))
    return session


def reads(n):
    session = session_of([Event(k % 3, ("put", "get")[k % 2], {"key": k // 2, "value": k}) for k in range(n)])
    Reads(session, write_at="put", read_at="get", key="key", value="value")
    return session


LENGTHS = {function.__name__: function for function in (acknowledged, log_prefix, log_prefix_counted, decided_quorums, decided_alone, conservation, leader, monotonic, oscillation,
                                                        quorum, misdelivered, ring, ring_times, routes, connectivity, shadow, reads)}
LENGTHS["decided_quorums with members"] = lambda n: decided_quorums(n, members=True)
LENGTHS["conservation of what is lost"] = lambda n: conservation(n, lost=True)
LENGTHS["leader with members"] = lambda n: leader(n, members=True)


@pytest.mark.parametrize("name", LENGTHS)
def test_twice_the_recording_is_twice_the_work(name):
    lines, read = growth(LENGTHS[name], 60)
    assert lines < LONGER and read < LONGER, f"{lines:.2f} times the lines, {read:.2f} times the bytes"


def test_every_predicate_is_counted():
    scripts = {path.stem for path in (ROOT / "predicates").glob("*.py") if '__name__ == "__main__"' in path.read_text()}
    assert scripts <= LENGTHS.keys()


def test_nodes_that_have_ended_cost_nothing():
    """A server forks a process for each request, and all of them end."""
    def session(n):
        events = [event for k in range(1, n) for event in (Event(k, changes={"counter": k}), Event(k, ends=True), Event(0, changes={"counter": k}))]
        made = session_of(events, names=[f"n{k}" for k in range(n)])
        Monotonic(made, counter="counter")
        return made

    lines, _ = growth(session, 60)
    assert lines < LONGER


# -- the number of nodes -----------------------------------------------------------------------------------------------------
def coming(n):
    """A session in which n nodes come, and then one of them changes ten times."""
    events = changes(*((node, {"version": 1, "id": node}) for node in range(n)), *((0, {"version": v}) for v in range(2, 12)))
    return session_of(events, names=NAMES[:n])


def connected(n):
    """A ring of nodes with chords, of which one loses and regains an edge."""
    session = coming(n)

    def neighbours(node):
        near = {(node.id + step) % n for step in (1, 2, n - 1, n - 2)}
        return near - {1} if node.id == 0 and node.read("version") % 2 else near
    check = DisjointPaths(session, id="id", neighbours=neighbours, k=2, watch="id, version", judge=Lasting(seconds=1000))
    return session, check


def test_a_lost_edge_is_looked_at_where_it_was_used():
    for n in (8, 16):
        session, check = connected(n)
        session.run()
        built = n * n * n  # while nodes come, each pair that has too few paths is looked at again
        assert check.flows < built + 10 * n * n / 2, "each change looks at a part of the pairs only"
        fresh = connected(n)[1]
        fresh.rows = check.rows
        assert {fault.key: len(fault.values["paths"]) for fault in fresh.faults()} == {fault.key: len(fault.values["paths"]) for fault in check.faults()}


def routed(n):
    session = coming(n)
    tables = {node: {d: (node + 1) % n for d in range(n) if d != node} for node in range(n)}

    def table(node):
        return {**tables[int(node)], **({1: 2} if node.id == 0 and node.read("version") % 2 else {})}
    Routes(session, id="id", routes=table, watch="id, version", judge=Lasting(seconds=1000))
    return session


def test_routes_grow_with_the_tables():
    """While n nodes come, n times n ways of n destinations: that many tables' entries are looked at, each a number of times that does not grow."""
    lines, _ = growth(routed, 8)
    assert lines < 8 * 1.2


def test_members_that_all_differ():
    def session(n):
        made = session_of(changes(*((node, {"members": 3 << node, "needed": 2}) for node in range(n)), *((0, {"members": 3 << k % 2}) for k in range(40))), names=NAMES[:n])
        made.check = QuorumIntersection(made, members="members", needed="needed", judge=Lasting(seconds=1000))
        return made

    small, large = session(10), session(20)
    small.run(), large.run()
    assert large.check.comparisons < 4.5 * small.check.comparisons


@pytest.mark.parametrize("seed", range(8))
def test_quorums_are_found_as_by_comparing_all(seed):
    """Any sets of voters, small ones too: a decision is reported exactly if an earlier one shares no voter with it."""
    dice = random.Random(seed)
    votes = [frozenset(dice.sample(range(6), dice.randint(1, 5))) for _ in range(40)]
    session = session_of([Event(0, "decide", {"slot": k}) for k in range(len(votes))])
    check = DecidedQuorums(session, at="decide", decision="slot", voters=lambda node: votes[node.read("slot")])
    session.run()
    expected = {k for k, mine in enumerate(votes) if any(not mine & other for other in votes[:k])}
    assert {fault.values["decision"] for fault in check.reported} == expected
    assert all(not set(fault.values["voters"]) & set(fault.values["earlier_voters"]) for fault in check.reported)


@pytest.mark.parametrize("seed", range(6))
def test_paths_are_those_of_a_fresh_look(seed):
    """Edges and nodes come and go at random: what is kept of earlier looks never shows another answer than a look at the graph as it is."""
    dice = random.Random(seed)
    session = session_of([], names=NAMES[:7])
    check = DisjointPaths(session, id="id", neighbours="x", k=2, watch="id", armed=False)
    nodes = list(session.nodes)
    for _ in range(60):
        node = dice.choice(nodes)
        if dice.random() < 0.1:
            check.rows.pop(node, None)
        else:
            check.rows[node] = {"id": int(node), "neighbours": frozenset(int(other) for other in nodes if other != node and dice.random() < 0.5)}
        fresh = DisjointPaths(session, id="id", neighbours="x", k=2, watch="id", armed=False)
        fresh.rows = dict(check.rows)
        short = lambda one: {(fault.key, len(fault.values["paths"])) for fault in one.faults()}  # noqa: E731
        assert short(check) == short(fresh)


@pytest.mark.parametrize("seed", range(6))
def test_loops_and_holes_are_those_of_a_fresh_look(seed):
    dice = random.Random(seed)
    session = session_of([], names=NAMES[:6])
    check = Routes(session, id="id", routes=lambda node: {}, watch="id", armed=False)
    nodes = list(session.nodes)
    for _ in range(80):
        node = dice.choice(nodes)
        if dice.random() < 0.1:
            check.rows.pop(node, None)
        else:
            check.rows[node] = {"id": int(node), "routes": {d: dice.choice([int(n) for n in nodes if n != node]) for d in range(6) if d != node and dice.random() < 0.7}}
        fresh = Routes(session, id="id", routes=lambda node: {}, watch="id", armed=False)
        fresh.rows = dict(check.rows)
        assert {fault.key for fault in check.faults()} == {fault.key for fault in fresh.faults()}
