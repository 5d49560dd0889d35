"""Each predicate on a state that holds and on one that is broken, with what it says; and as `friday run predicates/NAME.py`."""

import doctest
import importlib
import io
import itertools
import random
import struct

import pytest
from support import ROOT, Event, Message, changes, friday, run, run_script, session_of

from predicates.acknowledged import Acknowledged
from predicates.connectivity import DisjointPaths, vertex_disjoint_paths
from predicates.conservation import Conservation
from predicates.decided_quorums import DecidedQuorums
from predicates.leader import OneLeader
from predicates.log_prefix import LogPrefix
from predicates.misdelivered import Misdelivered, clockwise, numeric, xor
from predicates.monotonic import Monotonic
from predicates.oscillation import Oscillation
from predicates.quorum import QuorumIntersection, can_miss, members_of
from predicates.ring_times import RingTimes
from predicates.routes import Routes, find_black_holes, find_loops, walk
from predicates.shadow import Reads, Shadow
from predicates.timing import Lasting

MODULES = sorted(path.stem for path in (ROOT / "predicates").glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module("predicates" if name == "__init__" else f"predicates.{name}")
    assert doctest.testmod(module).failed == 0


# -- one leader --------------------------------------------------------------------------------------------------------
LEADER = dict(term="term", leads="role == LEADER")


def elections(*steps):
    return changes(*((node, {"term": term, "role == LEADER": leads}) for node, term, leads in steps))


def test_a_leader_each_term():
    session = session_of(elections((0, 1, True), (0, 2, False), (1, 2, True), (0, 3, True)))
    OneLeader(session, **LEADER)
    assert run(session) == []


def test_two_leaders_of_one_term_at_different_times():
    session = session_of(elections((0, 1, True), (0, 2, False), (1, 1, True), (1, 1, False), (1, 1, True)))
    OneLeader(session, **LEADER)
    assert run(session) == ["b leads in term 1, and a has led in it since 1.0 s, event 0 of a"]
    violation = session.violations[0]
    assert violation.values["leaders"] == ["a", "b"] and [node.name for node in violation.nodes] == ["a", "b"]


def test_a_leader_by_the_value_of_a_variable():
    up = lambda backend, value: backend.raw(value.to_bytes(4, "little"), "enum state")  # noqa: E731
    session = session_of([])
    session.backend.events = changes(*((node, {"term": 1, "role": up(session.backend, value)}) for node, value in ((0, 1), (1, 0), (1, 1))))
    OneLeader(session, term="term", leads="role", leader="UP")
    assert run(session) == ["b leads in term 1, and a has led in it since 1.0 s, event 0 of a"]


def test_a_leader_that_is_restarted_is_the_same():
    session = session_of(elections((0, 1, True), (1, 1, True)), names=("a", "a#2"))
    OneLeader(session, **LEADER)
    assert run(session) == []


def test_leader_by_friday_run(tmp_path):
    session = session_of(elections((0, 1, True), (1, 1, True)))
    code, violations, out = run_script(tmp_path, "leader", session, "--term", "term", "--leads", "role == LEADER")
    assert code == 1 and violations[0]["predicate"] == "one_leader" and "b leads in term 1" in out
    code, _, out = run_script(tmp_path, "leader", session_of([]), "--term", "term")
    assert code == 2


def test_leader_at_the_prompt():
    session = session_of([])
    for node in range(3):
        session.backend.let(node, {"term": 4, "role == LEADER": node > 0})
    with pytest.raises(friday.Violated, match="c leads in term 4, and b has led in it"):
        OneLeader.validate(session, **LEADER)
    assert session.here == 0


# -- log prefix --------------------------------------------------------------------------------------------------------
def logs(session, **entries):
    """A reader of logs: what each node holds, by name."""
    return lambda node: entries[node.name]


def test_logs_that_agree():
    session = session_of(changes((0, {"commit": 2}), (1, {"commit": 1}), (1, {"commit": 3})))
    LogPrefix(session, log=logs(session, a="xyz", b="xyzz"), committed="commit")
    assert run(session) == []


def test_logs_that_differ_beyond_what_is_committed():
    session = session_of(changes((0, {"commit": 2}), (1, {"commit": 2})))
    LogPrefix(session, log=logs(session, a="xyQ", b="xyR"), committed="commit")
    assert run(session) == []


def test_logs_that_differ():
    session = session_of(changes((0, {"commit": 2}), (1, {"commit": 1}), (1, {"commit": 2})))
    LogPrefix(session, log=logs(session, a="xy", b="xQ"), committed="commit")
    assert run(session) == ["b has committed Q as entry 1, but a had committed y there"]
    assert session.violations[0].values["committed_at"] == "1.0 s, event 0 of a"


def test_entries_that_differ_in_a_field_called_type():
    session = session_of(changes((0, {"commit": 1}), (1, {"commit": 1})))
    of = [struct.pack("<4i", type_, 0, 0, 7) for type_ in (1, 2)]
    for node, data in enumerate(of):
        session.backend.let(node, {"entry": session.backend.raw(data, "struct Entry")})
    LogPrefix(session, log=lambda node: [node.read("entry")], committed="commit", entry="type, term")
    assert run(session) == ["b has committed (2, 7) as entry 0, but a had committed (1, 7) there"]


def test_a_committed_entry_that_is_rewritten_is_found_at_the_end():
    log = ["x", "y"]
    session = session_of(changes((0, {"commit": 2}), (0, {"z": 1})))
    LogPrefix(session, log=lambda node: log, committed="commit")
    session.watch("z", lambda: log.__setitem__(0, "W"))
    assert run(session) == ["a has committed W as entry 0, but a had committed x there"]


def test_more_committed_than_there_is():
    session = session_of(changes((0, {"commit": 5})))
    LogPrefix(session, log=lambda node: "abc", committed="commit")
    assert run(session) == ["a has committed 5 entries, but its log ends before entry 3"]


def test_logs_cut_off_at_the_front():
    session = session_of(changes((0, {"commit": 4}), (1, {"commit": 4})), start={"first": 0})
    session.backend.let(1, {"first": 2})
    LogPrefix(session, log=logs(session, a="wxyz", b="yQ"), committed="commit", base="first")
    assert run(session) == ["b has committed Q as entry 3, but a had committed z there"]


# -- monotonic ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options, values, found", [
    ({}, (1, 2, 9), []),
    ({}, (1, 5, 3, 4), ["a: `n` fell from 5 to 3"]),
    ({"bits": 8}, (250, 255, 2), []),
    ({"bits": 8}, (250, 200), ["a: `n` fell from 250 to 200"])])
def test_monotonic(options, values, found):
    session = session_of(changes(*((0, {"n": value}) for value in values)))
    Monotonic(session, counter="n", **options)
    assert run(session) == found


def test_strictly_monotonic_at_a_place():
    events = [Event(0, "commit", {"n": n}) for n in (1, 2, 2)]
    session = session_of(events)
    Monotonic(session, counter="n", strictly=True, at="commit")
    assert run(session) == ["a: `n` stayed at 2"]
    assert session.violations[0].values["was"] == "2.0 s, event 1 of a"


def test_what_must_survive_a_restart():
    events = changes((0, {"n": 7}), (1, {"n": 3}))
    for lives, count in ((False, 0), (True, 1)):
        session = session_of(events, names=("a", "a#2"))
        Monotonic(session, counter="n", lives=lives)
        assert len(run(session)) == count


# -- conservation ------------------------------------------------------------------------------------------------------
def transfers(*steps):
    """Events from (node, "send" or "got", amount, number, what the node holds then)."""
    return [Event(node, at, {"amount": amount, "number": number, "held": held}) for node, at, amount, number, held in steps]


def conserved(session, **options):
    return Conservation(session, **{"held": "held", "amount": "amount", "transfer": "number", "sent_at": "send", "received_at": "got", **options})


def test_conserved():
    session = session_of(transfers((0, "send", 5, 1, 95), (1, "send", 2, 2, 98), (1, "got", 5, 1, 103), (0, "got", 2, 2, 97)))
    check = conserved(session)
    assert run(session) == [] and check.sums() == {"held": {"a": 97, "b": 103}, "on_the_way": [], "sum": 200}


def test_a_transfer_that_never_arrives():
    session = session_of(transfers((0, "send", 5, 1, 95), (1, "send", 2, 2, 98), (0, "got", 2, 2, 97)) + [Event(0, seconds=5)])
    conserved(session, lost_after=2)
    assert run(session) == ["5 that a sent has not arrived after 2 s"]
    assert session.violations[0].values["sent"] == "1.0 s, event 0 of a"


def test_an_account_that_loses():
    session = session_of(transfers((0, "send", 5, 1, 95), (1, "send", 1, 2, 99), (1, "got", 5, 1, 103), (0, "got", 1, 2, 96)))
    conserved(session)
    assert run(session) == ["b lost 1 that no transfer explains: it holds 103 and should hold 104"]
    assert session.violations[0].values["sum"] == 95 + 103 + 1


def test_received_twice_and_from_nowhere():
    session = session_of(transfers((0, "send", 5, 1, 95), (1, "got", 5, 1, 105), (1, "got", 5, 1, 110), (1, "got", 3, 9, 113)))
    conserved(session)
    assert run(session) == ["b received 5 (1) for the second time", "b received 3 (9) that nobody had sent"]


def test_another_amount_than_was_sent():
    session = session_of(transfers((0, "send", 5, 1, 95), (1, "got", 7, 1, 107)))
    conserved(session)
    assert run(session) == ["b received 7 in transfer 1, but a had sent 5"]


def test_transfers_told_by_their_amount():
    session = session_of(transfers((0, "send", 5, 0, 95), (0, "send", 5, 0, 90), (1, "got", 5, 0, 105), (1, "got", 5, 0, 110), (1, "got", 5, 0, 115)))
    conserved(session, transfer=None)
    assert run(session) == ["b received 5 (5) that nobody had sent"]


def test_conservation_cannot_be_seen_in_one_state():
    with pytest.raises(friday.UsageError, match="what happens on the way"):
        Conservation.validate(session_of([]), held="held", amount="a", sent_at="s", received_at="r")


# -- quorums -----------------------------------------------------------------------------------------------------------
def test_can_miss_against_all_quorums():
    universe = "abcd"
    sets = [set(chosen) for n in range(1, 5) for chosen in itertools.combinations(universe, n)]
    for a, b in itertools.product(sets, sets):
        for i, j in itertools.product(range(1, 5), range(1, 5)):
            brute = any(not set(p) & set(q) for p in itertools.combinations(a, i) for q in itertools.combinations(b, j))
            assert can_miss(a, i, b, j) == brute, (a, i, b, j)


def test_members():
    assert members_of(0b1011) == {0, 1, 3} and members_of([4, 5]) == {4, 5}


def test_quorums_that_meet_and_that_miss():
    session = session_of(changes((0, {"members": 0b111, "needed": 2}), (1, {"members": 0b111, "needed": 2}), (2, {"members": 0b11100, "needed": 2})))
    QuorumIntersection(session, members="members", needed="needed")
    assert run(session) == ["2 of [0, 1, 2] (a) and 2 of [2, 3, 4] (c) can decide without a common member"]
    assert session.violations[0].values["configurations"] == {"a": "2 of [0, 1, 2]", "b": "2 of [0, 1, 2]", "c": "2 of [2, 3, 4]"}


def test_quorums_that_miss_are_told_once_while_nodes_come_and_go():
    alike, other = {"members": 0b111, "needed": 2}, {"members": 0b11100, "needed": 2}
    session = session_of([*changes((0, alike), (1, other), (2, alike)), Event(0, ends=True), *changes((3, alike))], names="abcd")
    QuorumIntersection(session, members="members", needed="needed")
    assert run(session) == ["2 of [0, 1, 2] (a) and 2 of [2, 3, 4] (b) can decide without a common member"]


def test_a_majority_that_is_none():
    session = session_of(changes((0, {"members": 0b1111, "needed": 2})))
    QuorumIntersection(session, members="members", needed="needed")
    assert run(session) == ["2 of [0, 1, 2, 3] (a) and 2 of [0, 1, 2, 3] (a) can decide without a common member"]


def test_decisions_by_disjoint_voters():
    decide = lambda node, slot, votes: Event(node, "decide", {"slot": slot, "votes": votes})  # noqa: E731
    for events, same, found in (
            ([decide(0, 1, 0b011), decide(1, 2, 0b110)], False, []),
            ([decide(0, 1, 0b0011), decide(1, 1, 0b1100)], True, ["b decided 1 with the votes of [2, 3], and a decided 1 with those of [0, 1]: no node voted for both"]),
            ([decide(0, 1, 0b0011), decide(1, 2, 0b1100)], True, [])):
        session = session_of(events)
        DecidedQuorums(session, at="decide", decision="slot", voters="votes", same=same)
        assert run(session) == found


# -- routes ------------------------------------------------------------------------------------------------------------
LINE = {1: {2: 2, 3: 2}, 2: {1: 1, 3: 3}, 3: {1: 2, 2: 2}}


def test_walks():
    assert walk(LINE, 1, 3) == ("arrives", [1, 2, 3]) and find_loops(LINE) == {} and find_black_holes(LINE) == {}
    loop = {**LINE, 2: {1: 1, 3: 1}}
    assert find_loops(loop) == {(3, frozenset({1, 2})): [1, 2, 1]}
    assert find_black_holes({**LINE, 2: {1: 1}}) == {(3, 2): [1, 2]}
    assert find_black_holes({1: {3: 2}, 3: {}}) == {(3, 2): [1, 2]}


def routed(events, tables, **options):
    session = session_of(events)
    Routes(session, id="id", routes=lambda node: tables[node.name], watch="id, version", **options)
    return session


EVENTS = changes((0, {"id": 1, "version": 1}), (1, {"id": 2, "version": 1}), (2, {"id": 3, "version": 1}), (1, {"version": 2}, 9.0), (1, {"version": 3}, 5.0))


def test_routes_that_arrive():
    assert run(routed(EVENTS, dict(zip("abc", LINE.values())), judge=Lasting(seconds=3))) == []


def test_a_routing_loop():
    session = routed(EVENTS, {"a": {3: 2}, "b": {3: 1}, "c": {}}, judge=Lasting(seconds=3))
    assert run(session) == ["packets to 3 run in a loop: 1 -> 2 -> 1, for 10.000 s, longer than 3 s"]
    assert session.violations[0].values["next_hops"] == {"a": 2, "b": 1} and session.violations[0].values["since"] == 2.0


def test_a_black_hole():
    session = routed(EVENTS, {"a": {3: 2, 2: 2}, "b": {1: 1}, "c": {}}, judge=Lasting(seconds=3))
    assert run(session) == ["packets to 3 end at 2, which has no route: 1 -> 2, for 9.000 s, longer than 3 s"]


def test_routes_of_a_table_in_the_program():
    session = session_of(changes((0, {"id": 1}), (1, {"id": 2})))
    raw = session.backend.raw
    for node, (dest, hop) in enumerate(((2, 1), (1, 2))):
        session.backend.let(node, {"head": raw(0x100, "struct Node *"), "*head": raw(dest.to_bytes(8, "little") + bytes(8), "struct Node")})
    check = Routes(session, id="id", routes="head..next", destination="id", next_hop="id", watch="id")
    assert run(session) == [] and check.tables() == {1: {2: 2}, 2: {1: 1}}


# -- connectivity ------------------------------------------------------------------------------------------------------
def separators(graph, source, sink):
    """The fewest other vertices that separate two that are no neighbours."""
    others = [v for v in graph if v not in (source, sink)]
    for count in range(len(others) + 1):
        for gone in itertools.combinations(others, count):
            reached, todo = {source}, [source]
            while todo:
                for next_ in set(graph[todo.pop()]) - reached - set(gone):
                    reached.add(next_)
                    todo.append(next_)
            if sink not in reached:
                return count


@pytest.mark.parametrize("seed", range(30))
def test_disjoint_paths_against_mengers_theorem(seed):
    dice = random.Random(seed)
    vertices = range(7)
    graph = {v: [w for w in vertices if w != v and dice.random() < 0.4] for v in vertices}
    for source, sink in itertools.permutations(vertices, 2):
        paths = vertex_disjoint_paths(graph, source, sink)
        inner = [v for path in paths for v in path[1:-1]]
        assert len(inner) == len(set(inner)) and source not in inner and sink not in inner
        assert all(path[0] == source and path[-1] == sink and all(b in graph[a] for a, b in zip(path, path[1:])) for path in paths)
        if sink not in graph[source]:
            assert len(paths) == separators(graph, source, sink)
        assert len(vertex_disjoint_paths(graph, source, sink, 1)) == min(1, len(paths))


def connected(edges, k, **options):
    session = session_of(changes(*((i, {"id": i + 1}) for i in range(4))), names="abcd")
    return session, DisjointPaths(session, id="id", neighbours=lambda node: edges[node.name], k=k, watch="id", **options)


SQUARE = {"a": (2, 4), "b": (1, 3), "c": (2, 4), "d": (3, 1)}


def test_a_square_has_two_disjoint_paths_everywhere():
    session, check = connected(SQUARE, 2, judge=Lasting(seconds=5))
    assert run(session) == [] and len(check.found) == 12 and check.found[1, 3] == 4.0


def test_a_line_has_not():
    line = {"a": (2,), "b": (1, 3), "c": (2, 4), "d": (3,)}
    session, check = connected(line, 2)
    messages = run(session)
    assert "a has 1 of 2 disjoint paths to d" in messages
    assert session.violations[messages.index("a has 1 of 2 disjoint paths to d")].values["paths"] == [[1, 2, 3, 4]]
    assert run(connected(line, 1, judge=Lasting(seconds=5))[0]) == []


# -- oscillation -------------------------------------------------------------------------------------------------------
def test_a_value_that_comes_back_again_and_again():
    flips = changes(*((0, {"leader": value}) for value in (1, 2, 1, 2, 1, 2)))
    session = session_of(flips)
    Oscillation(session, value="leader", times=2, seconds=10)
    assert run(session) == ["1 went down and came up again 2 times within 3.000 s on a", "2 went down and came up again 2 times within 3.000 s on a"]
    assert session.violations[0].values["trips"] == ["down 2.000000, up 3.000000", "down 4.000000, up 5.000000"]


@pytest.mark.parametrize("options, values", [({"times": 3}, (1, 2, 1, 2, 1)), ({"times": 2, "seconds": 2.5}, (1, 2, 1, 2, 1)), ({"times": 1}, (1, 2, 3, 4))])
def test_values_that_do_not_oscillate(options, values):
    session = session_of(changes(*((0, {"leader": value}) for value in values)))
    Oscillation(session, value="leader", **options)
    assert run(session) == []


def test_things_that_are_removed_and_inserted():
    events = [Event(node, at, {"f": what, "addr": what}) for node, at, what in (
        (0, "insert", "x"), (0, "remove", "x"), (1, "insert", "x"), (0, "insert", "x"), (0, "insert", "y"), (0, "remove", "x"), (0, "insert", "x"))]
    session = session_of(events)
    check = Oscillation(session, down_at="remove", down="f", up_at="insert", up="addr", times=2, seconds=60)
    assert run(session) == ["x went down and came up again 2 times within 5.000 s on a"] and check.events == 7
    with pytest.raises(friday.UsageError, match="needs either value, or all of"):
        Oscillation(session, down_at="remove", down="f")


# -- misdelivered ------------------------------------------------------------------------------------------------------
def test_metrics():
    assert clockwise(250, 2, 8) == 8 and clockwise(2, 250, 8) == 248 and xor(5, 1, 8) == 4 and numeric(250, 2, 8) == numeric(2, 250, 8) == 8


JOINS = changes((0, {"id": 10}), (1, {"id": 20}), (2, {"id": 30}, 2.0))


def delivery(node, key, seconds=1.0):
    return Event(node, "serve", {"key": key}, seconds=seconds)


def test_requests_that_reach_their_owner():
    session = session_of([*JOINS, delivery(0, 5), delivery(0, 31), delivery(1, 11), delivery(1, 20), delivery(2, 25)])
    check = Misdelivered(session, at="serve", key="key", id="id", bits=8)
    assert run(session) == [] and check.requests == 5


def test_a_request_that_is_served_by_another():
    session = session_of([*JOINS, delivery(2, 15), delivery(2, 25)])
    check = Misdelivered(session, at="serve", key="key", id="id", bits=8)
    assert run(session) == ["a request for 0xf was served by c, but b owns the key"] and (check.requests, check.misdelivered) == (2, 1)
    values = session.violations[0].values
    assert values["ids"] == {"c": "0x1e", "b": "0x14"} and values["member_since"] == 2.0 and values["misdelivered"] == "1 of 1"


def test_an_owner_of_late_is_excused():
    events = [*JOINS, delivery(0, 25, 0.5), delivery(0, 25, 1.0)]
    session = session_of(events)
    Misdelivered(session, at="serve", key="key", id="id", bits=8, settled=1.0)
    assert run(session) == ["a request for 0x19 was served by a, but c owns the key"]
    assert session.violations[0].logical_time == 5.5


def test_the_dead_and_those_outside_own_nothing():
    events = [*JOINS, Event(1, ends=True), delivery(2, 15)]
    session = session_of(events, start={"in": 1})
    Misdelivered(session, at="serve", key="key", id="id", bits=8)
    assert run(session) == []
    session = session_of([*JOINS, delivery(2, 15)], start={"in": 1})
    session.backend.let(1, {"in": 0})
    Misdelivered(session, at="serve", key="key", id="id", member="in", bits=8)
    assert run(session) == []


def test_unknown_metric():
    with pytest.raises(friday.UsageError, match="there is no metric `far`: give one of clockwise, xor, numeric"):
        Misdelivered(session_of([]), at="serve", key="key", id="id", metric="far")


# -- the times of a ring -----------------------------------------------------------------------------------------------
def ring_links(*steps):
    return changes(*((node, {"srv.node.id": "abc".index("abc"[node]) + 1, "srv.successor->id": s, "srv.predecessor->id": p}, seconds)
                     for node, s, p, seconds in steps))


def test_times_of_a_ring():
    whole, wrong, heals = ((0, 2, 3, 0.0), (1, 3, 1, 0.0), (2, 1, 2, 1.0)), (0, 3, 3, 7.0), (0, 2, 3, 0.2)
    session = session_of([*ring_links(*whole, wrong), Event(0, seconds=1.8), *ring_links(heals), Event(0, seconds=10)])
    check = RingTimes(session, judge=Lasting(seconds=1.5))
    assert run(session) == ["a: its successor 0x3 has 0x2 as its predecessor, for 1.800 s, longer than 1.5 s",
                            "b: its predecessor 0x1 has 0x3 as its successor, for 1.800 s, longer than 1.5 s"]
    assert session.violations[0].values["links"] == {"id": 1, "successor": 3, "predecessor": 3}
    assert {node.name: times.total("broken") for node, times in check.by_node.items()} == {"a": 3.0, "b": 3.0, "c": 0.0}
    assert "b: consistent for 85.0%" in check.summary()


# -- all of them as scripts --------------------------------------------------------------------------------------------
SCRIPTS = {
    "acknowledged": ["--at", "f", "--index", "i", "--by", "b", "--log", "l", "--leads", "leads"],
    "leader": ["--term", "a", "--leads", "b"], "log_prefix": ["--log", "a", "--committed", "b"], "monotonic": ["--counter", "a", "--bits", "32"],
    "conservation": ["--held", "a", "--amount", "b", "--sent-at", "f", "--received-at", "g", "--lost-after", "3"],
    "quorum": ["--members", "a", "--needed", "b", "--lasting", "1"], "routes": ["--id", "a", "--routes", "b[:n]", "--lasting", "2"],
    "connectivity": ["--id", "a", "--neighbours", "b", "--k", "2", "--share", "0.9"], "oscillation": ["--value", "a", "--times", "4"],
    "misdelivered": ["--at", "f", "--key", "k", "--id", "a", "--settled", "1"], "ring_times": ["--share", "0.95", "--summary"], "ring": [],
    "decided_quorums": ["--at", "f", "--decision", "d", "--voters", "v"], "shadow": ["--write-at", "f", "--read-at", "g", "--key", "k", "--value", "v"]}


def test_every_predicate_is_a_script():
    assert SCRIPTS.keys() == {path.stem for path in (ROOT / "predicates").glob("*.py") if '__name__ == "__main__"' in path.read_text()}


@pytest.mark.parametrize("name", SCRIPTS)
def test_predicates_as_scripts(tmp_path, name, capsys):
    session = session_of([Event(0)])
    assert run_script(tmp_path, name, session, *SCRIPTS[name]) == (0, [], "")
    assert session.points
    printed = capsys.readouterr()
    assert ("held for" in printed.out) == (name == "ring_times")
    assert "nothing was checked: its stop points were never hit" in printed.err
    assert run_script(tmp_path, name, session_of([]), "--no-such-option")[0] == 2
    run_script(tmp_path, name, session_of([]), "--help")
    assert "usage: friday run" in capsys.readouterr().out


# -- shadow state ------------------------------------------------------------------------------------------------------
def test_a_shadow_keeps_what_the_program_forgets():
    session = session_of(changes((0, {"owner": 1}), (1, {"owner": 1}), (1, {"owner": 4}), (0, {"owner": 4}), (0, {"owner": 1})))
    session.backend.sent = [Message(1, 1, 0, received=4)]
    shadow = Shadow(session, {"owner": "owner"})
    assert run(session) == []
    assert {node.name: value for node, value in shadow.values("owner").items()} == {"a": 1, "b": 4}
    assert [(node.name, change.time) for node, change in shadow.first("owner", 4).items()] == [("b", 3.0), ("a", 4.0)]
    assert [(change.old, change.new) for change in shadow.history("a", "owner")] == [(None, 1), (1, 4), (4, 1)]
    assert str(shadow.history("a", "owner")[1]) == (
        "4.000000 s a: owner 1 -> 4, after message 1 from b, 8 bytes, received at 4 s by event 0 of a")


def test_a_shadow_has_bounds():
    session = session_of(changes(*((0, {"n": n}) for n in range(10))))
    shadow = Shadow(session, {"n": "n"}, keep=4)
    run(session)
    assert len(shadow.changes) == 4 and shadow.dropped == 6 and shadow.values("n") == {0: 9}


def store(*steps):
    """Events from (node, "put" or "get", key, value)."""
    return [Event(node, at, {"key": key, "value": value}) for node, at, key, value in steps]


@pytest.mark.parametrize("steps, options, found", [
    ([(0, "put", 7, 1), (1, "get", 7, 1), (2, "put", 7, 2), (1, "get", 7, 2), (1, "get", 8, 0)], {}, []),
    ([(0, "put", 7, 1), (2, "put", 7, 2), (1, "get", 7, 1)], {}, ["b read 1 under the key 7, but c had written 2"]),
    ([(0, "put", 7, 1), (2, "put", 7, 2), (1, "get", 7, 1), (1, "get", 7, 1)], {"fresh": 1.0}, ["b read 1 under the key 7, but c had written 2"]),
    ([(0, "get", 7, 0), (0, "get", 7, 5)], {"unwritten": "0"}, ["a read 5 under the key 7, which no node has written"])])
def test_reads_of_what_was_written(steps, options, found):
    session = session_of(store(*steps))
    check = Reads(session, write_at="put", read_at="get", key="key", value="value", **options)
    assert run(session) == found and check.wrong == len(found)


def test_the_example_of_ones_own_predicate_in_the_docs(tmp_path):
    page = (ROOT / "docs" / "predicates.md").read_text()
    script = tmp_path / "one_owner.py"
    script.write_text(page.rpartition("```python\n")[2].partition("```")[0])
    session = session_of(changes((0, {"lock": 1}), (0, {"lock": 0}), (1, {"lock": 1}), (2, {"lock": 1})))
    assert friday.run_script(str(script), session, ["--holds", "lock"], out=io.StringIO()) == 1
    assert [violation.message for violation in session.violations] == ["b, c hold the lock"]


# -- members that come and go ------------------------------------------------------------------------------------------
def test_a_node_that_has_not_joined_may_lead_a_group_of_its_own():
    for members, count in (([0b0111, 0b1000], 0), ([0b0111, 0b1100], 1)):
        session = session_of(changes(*((node, {"term": 1, "leads": True, "members": members[node]}) for node in (0, 1))))
        OneLeader(session, term="term", leads="leads", members="members")
        assert len(run(session)) == count
        assert not count or session.violations[0].values["members"] == [[0, 1, 2], [2, 3]]


def decisions(*steps, **options):
    """(slot, voters, members) decided in turn by the nodes."""
    session = session_of([Event(i % 3, "decide", {"slot": slot, "votes": votes, "members": members}) for i, (slot, votes, members) in enumerate(steps)])
    DecidedQuorums(session, at="decide", decision="slot", voters="votes", members="members", **options)
    return run(session)


def test_a_majority_is_one_of_the_members():
    assert decisions((1, 0b00111, 0b11111), (2, 0b00011, 0b00111)) == [], "two of three, where two of five would not do"
    assert decisions((1, 0b00011, 0b11111)) == ["a decided 1 with the votes of [0, 1], no majority of its members [0, 1, 2, 3, 4]"]
    assert decisions((1, 0b11000111, 0b00011111)) == [], "votes from outside do not count"
    assert decisions((1, 0b11000011, 0b00011111)) == ["a decided 1 with the votes of [0, 1, 6, 7], no majority of its members [0, 1, 2, 3, 4]"]


def test_members_change_by_steps():
    """Each step keeps a voter in common with the one before; the first and the last have none."""
    steps = (1, 0b00011, 0b00111), (2, 0b00110, 0b01110), (3, 0b11000, 0b11100)
    assert decisions(steps[0], steps[1], (3, 0b01100, 0b11100)) == []
    assert decisions(*steps) == ["c decided 3 with the votes of [3, 4], and b decided 2 with those of [1, 2]: no node voted for both"]
    assert decisions(steps[0], steps[2]) == ["b decided 3 with the votes of [3, 4], and a decided 1 with those of [0, 1]: no node voted for both"]


def test_a_quorum_is_a_majority_unless_something_else_is_said():
    session = session_of(changes((0, {"members": 0b00111}), (1, {"members": 0b00111}), (2, {"members": 0b01111})))
    QuorumIntersection(session, members="members")
    assert run(session) == []
    session = session_of(changes((0, {"members": 0b00011}), (1, {"members": 0b01100})))
    QuorumIntersection(session, members="members")
    assert run(session) == ["2 of [0, 1] (a) and 2 of [2, 3] (b) can decide without a common member"]


# -- until -------------------------------------------------------------------------------------------------------------
FALLS = [*changes((0, {"n": 5}), (1, {"n": 5}), (1, {"n": 4}), (0, {"n": 3}))]


@pytest.mark.parametrize("until, found", [
    (None, ["b: `n` fell from 5 to 4", "a: `n` fell from 5 to 3"]), (3.5, ["b: `n` fell from 5 to 4"]), (2.5, []), (99, ["b: `n` fell from 5 to 4", "a: `n` fell from 5 to 3"])])
def test_until_a_time(until, found):
    session = session_of(FALLS)
    check = Monotonic(session, counter="n", until=until)
    assert run(session) == found
    assert check.summary() == {None: "monotonic: 2 violations in 4 looks", 3.5: "monotonic: 1 violation in 3 looks until 3.5 s had passed",
                               2.5: "monotonic: 0 violations in 2 looks until 2.5 s had passed", 99: "monotonic: 2 violations in 4 looks"}[until]


@pytest.mark.parametrize("until, count, words", [("c", 1, "c ended at 4.0 s"), ("all", 0, "a ended at 2.5 s"), ("b-*", 1, ""), ("c,b-*", 1, "c ended at 4.0 s")])
def test_until_a_node_ends(until, count, words, capsys):
    events = [*changes((1, {"n": 5}), (0, {"m": 1})), Event(0, ends=True, seconds=0.5), *changes((1, {"n": 4}, 0.5)), Event(2, ends=True), *changes((1, {"n": 3}))]
    session = session_of(events, names=("a", "b-1", "c"))
    check = Monotonic(session, counter="n", until=until)
    assert len(run(session)) == count + (until == "b-*"), "what comes after the end is not judged"
    assert check.summary().endswith(words)
    assert ("until 'b-*' did not come: none of these nodes was told to end" in capsys.readouterr().err) == (until == "b-*")


def test_until_a_node_of_which_there_is_none():
    with pytest.raises(friday.NoNode):
        Monotonic(session_of([]), counter="n", until="nobody")


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_predicate_takes_until(tmp_path, name):
    session = session_of([Event(0)])
    assert run_script(tmp_path, name, session, *SCRIPTS[name], "--until", "all") == (0, [], "")
    assert run_script(tmp_path, name, session_of([]), *SCRIPTS[name], "--until", "nobody")[0] == 2


def test_the_last_entries_are_compared_when_a_node_leaves():
    """Also when others go on: what it held is gone then."""
    log = {"a": ["x", "y"], "b": ["x", "y"]}
    session = session_of([*changes((0, {"commit": 2}), (1, {"commit": 2})), Event(1, "spoil"), Event(1, ends=True), *changes((0, {"z": 1}))])
    LogPrefix(session, log=lambda node: log[node.name], committed="commit")
    session.breakpoint("spoil", lambda: log["b"].__setitem__(0, "W"))
    assert run(session) == ["b has committed W as entry 0, but a had committed x there"]
    assert session.violations[0].logical_time == 4.0 and session.violations[0].values["compared_at"] == "2.0 s, event 0 of b"


def test_a_log_that_shrinks_below_what_is_committed():
    log = list("wxyz")
    session = session_of([*changes((0, {"commit": 4})), Event(0, "cut"), *changes((0, {"commit": 5}))])
    LogPrefix(session, log=lambda node: log, committed="commit")
    session.breakpoint("cut", lambda: log.pop())
    assert run(session) == ["a has committed 5 entries, but its log ends before entry 3"]


def test_entries_cut_off_before_they_were_compared_are_counted():
    session = session_of(changes((0, {"commit": 2, "first": 0}), (0, {"commit": 6, "first": 4})))
    check = LogPrefix(session, log=lambda node: "wx" if node.read("first") == 0 else "34", committed="commit", base="first")
    assert run(session) == [] and check.summary().endswith("2 entries were cut off before they were compared")


# -- acknowledged entries --------------------------------------------------------------------------------------------
def counted_for(*steps, logs, nodes="abcd", **options):
    """(node that counts, index, mask of who is counted), while each node's log is what `logs` says; a step may also change a log or begin to lead."""
    events = [Event(step[0], "count", {"index": step[1], "by": step[2]}) if len(step) == 3 else Event(step[0], changes={"leads": step[1]}) for step in steps]
    session = session_of(events, names=nodes, start={"leads": 0})
    check = Acknowledged(session, at="count", index="index", log=lambda node: logs[node.name], **{"by": "by", **options})
    return check, run(session)


def test_whoever_is_counted_holds_the_entry():
    logs = {"a": "xyz", "b": "xyz", "c": "xy", "d": "xQz"}
    check, found = counted_for((0, 2, 0b0001), (0, 2, 0b0010), (0, 1, 0b0110), logs=logs)
    assert found == [] and check.acknowledged.keys() == {1}
    _, found = counted_for((0, 2, 0b0100), (0, 1, 0b1010), (0, 0, 0b1110), logs=logs)
    assert found == ["a counts c for entry 2, and the log of c ends before entry 2", "a counts d for entry 1, and d holds Q there"]
    _, found = counted_for((0, 7, 0b0010), logs=logs)
    assert found == ["a takes entry 7 for acknowledged, and the log of a ends before entry 3"]
    _, found = counted_for((0, 0, 0b110000), logs=logs)
    assert found == ["a counts member 4, member 5 for entry 0, and no node that lives has this identifier"]


def test_what_a_client_is_told_is_held_by_a_majority_of_the_members():
    logs = {"a": "xyz", "b": "xyz", "c": "xy", "d": "x"}
    assert counted_for((0, 1, 0), logs=logs, by=None)[1] == []
    assert counted_for((0, 2, 0), logs=logs, by=None)[1] == ["a takes entry 2 for acknowledged, and of 4 members only a, b hold it"]
    assert counted_for((0, 2, 0b0111), logs=logs, by=None, members="by")[1] == [], "d is no member"


def test_who_leads_has_what_was_acknowledged():
    logs = {"a": "xyz", "b": "xyz", "c": "xy", "d": "xQ"}
    _, found = counted_for((0, 1, 0b0110), (2, 1), (3, 1), logs=logs, leads="leads")
    assert found == ["d leads without entry 1, which a took for acknowledged: d holds Q there"]
    _, found = counted_for((0, 2, 0b0010), (2, 1), logs=logs, leads="leads")
    assert found == [], "two of four are no majority"


def test_entries_cut_off_at_the_front_were_held():
    logs = {"a": "xyz", "b": "z", "c": "", "d": ""}
    session = session_of([Event(0, "count", {"index": 1, "by": 2}), Event(0, "count", {"index": 1, "by": 4})], names="abcd", start={"first": 0})
    session.backend.let(1, {"first": 2})
    Acknowledged(session, at="count", index="index", by="by", log=lambda node: logs[node.name], base="first")
    assert run(session) == ["a counts c for entry 1, and the log of c ends before entry 0"]


@pytest.mark.parametrize("early", [0, None])
def test_a_node_that_has_just_started_has_no_identifier_yet(early):
    """It is read again when somebody is counted whom nobody seems to be."""
    ids, logs = {"a": 7, "b": 8, "c": early}, {"a": "x", "b": "x", "c": ""}

    def identifier(node):
        if ids[node.name] is None:
            raise friday.BadAddress("cannot read 0x8", address=8)
        return ids[node.name]
    session = session_of([Event(0, "count", {"index": 0, "by": 1 << 8}), Event(2, "ready"), Event(0, "count", {"index": 0, "by": 1 << 9})])
    Acknowledged(session, at="count", index="index", by="by", log=lambda node: logs[node.name], id=identifier)
    session.breakpoint("ready", lambda: (ids.update(c=9), logs.update(c="x")))
    assert run(session) == []
