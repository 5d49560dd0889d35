"""The ring predicate: healthy and corrupted states by hand, then the links of real rings, ten with the fault, ten without."""

import io
import json
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "unit"), str(ROOT / "tests" / "apps" / "chord"), str(ROOT)]
import ring as chord  # noqa: E402  (the planner of rings)
from fake_backend import Event, FakeBackend  # noqa: E402  (makes friday importable)
from predicates.ring_state import RingState, is_between  # noqa: E402

import friday  # noqa: E402

IDS = {"a": 10, "b": 20, "c": 30, "d": 40}


def whole_ring(names="abcd", time=0.0, **options):
    """A RingState in which the nodes of `names` form a ring since `time`."""
    state = RingState(**options)
    order = sorted(names, key=IDS.get)
    for i, name in enumerate(order):
        link(state, name, order[(i + 1) % len(order)], order[i - 1], time)
    return state


def link(state, name, successor, predecessor, time):
    return state.update(name, IDS[name], successor=IDS.get(successor), predecessor=IDS.get(predecessor), time=time)


@pytest.mark.parametrize(
    "x, a, b, between",
    [(5, 1, 9, True), (1, 1, 9, False), (9, 1, 9, False), (0, 9, 1, True), (5, 9, 1, False), (5, 3, 3, True), (3, 3, 3, False)],
)
def test_is_between(x, a, b, between):
    assert is_between(x, a, b) is between


def test_whole_ring_is_consistent():
    state = whole_ring()
    assert state.wrong == [] and state.advance(1e6) == [] and state.finish(1e6) == []


def test_link_past_a_live_node_is_suspect_at_once_and_reported_when_it_lasts():
    state = whole_ring(period=0.25)
    (suspect,) = link(state, "a", "c", "d", 7.0)
    assert suspect.unexplained and (suspect.node, suspect.other, suspect.since) == ("a", "b", 7.0)
    suspect.evidence["after"] = "a message"
    assert state.advance(7.0 + state.grace) == []
    assert state.advance(9.8) == [suspect] and suspect.reported == 9.8
    assert suspect.evidence == {"after": "a message"}
    assert suspect.message(9.8) == (
        "a (0xa): its successor 0x1e skips b (0x14), a live node of the ring, since 7.000, 2.800 s; "
        "a moved the link past that node, which no join or death explains"
    )
    assert state.advance(20) == [] and state.finish(20) == [], "one report a break"
    assert state.violations == [suspect]


def test_link_past_a_live_node_that_heals_is_no_violation():
    state = whole_ring(grace=2.0)
    assert link(state, "a", "c", "d", 7.0)
    assert link(state, "a", "b", "d", 8.9) == []
    assert state.advance(100) == [] and state.wrong == []


def test_unexplained_break_shortly_before_the_end_counts():
    state = whole_ring(detection=1.0, grace=5.0)
    link(state, "a", "c", "d", 7.0)
    assert state.finish(7.9) == []
    assert [b.other for b in state.finish(8.1)] == ["b"]


def test_a_join_is_a_transient():
    state = whole_ring("acd", grace=2.0)
    assert link(state, "b", "c", "b", 10.0) == []
    assert {(b.node, b.link, b.other) for b in state.wrong} >= {("a", "successor", "b"), ("c", "predecessor", "b")}
    link(state, "c", "d", "b", 10.2)
    link(state, "a", "b", "d", 10.4)
    link(state, "b", "c", "a", 10.4)
    assert state.wrong == [] and state.finish(100) == []


def test_a_join_that_the_neighbour_never_learns_of_is_a_violation():
    state = whole_ring("acd", grace=2.0)
    link(state, "b", "c", "b", 10.0)
    link(state, "c", "d", "b", 10.2)
    link(state, "b", "c", "a", 10.4)
    assert state.advance(12.0) == []
    (found,) = state.advance(12.1)
    assert not found.unexplained
    assert found.message(12.1) == "a (0xa): its successor 0x1e skips b (0x14), a live node of the ring, since 10.000, 2.100 s"


def test_a_node_that_has_not_joined_is_not_skipped():
    state = whole_ring("acd")
    link(state, "b", None, "b", 1.0)
    assert state.wrong == [] and state.finish(100) == []


def test_a_death_is_a_transient():
    state = whole_ring(grace=2.0)
    state.ended("b", 5.0)
    assert {(b.kind, b.node, b.link) for b in state.wrong} == {("dead", "a", "successor"), ("dead", "c", "predecessor")}
    assert link(state, "a", "c", "d", 6.0) == []
    link(state, "c", "d", "a", 6.5)
    assert state.wrong == [] and state.finish(100) == []


def test_a_link_to_a_dead_node_that_stays_is_a_violation():
    state = whole_ring(grace=2.0)
    state.ended("b", 5.0)
    link(state, "c", "d", "a", 6.0)
    (found,) = state.advance(7.5)
    assert found.message(7.5) == "a (0xa): its successor 0x14 is b, which has ended, since 5.000, 2.500 s"


def test_nodes_behind_a_dead_successor_are_not_held_against_it_yet():
    state = whole_ring("acd", grace=2.0)
    state.ended("c", 5.0)
    link(state, "b", "d", "b", 5.5)
    assert [(b.kind, b.link, b.other) for b in state.wrong if b.node == "a"] == [("dead", "successor", "c")]
    link(state, "a", "d", "d", 6.8)
    assert "a" not in {b.node for b in state.advance(7.6)}, "the skip counts from 6.8"
    assert ("a", "successor", "b") in {(b.node, b.link, b.other) for b in state.advance(8.9)}


def test_a_death_after_the_fact_explains_nothing():
    state = whole_ring(grace=2.0)
    (suspect,) = link(state, "a", "c", "d", 7.0)
    state.ended("c", 8.0)
    link(state, "a", "d", "d", 9.0)
    assert suspect in state.advance(9.5) and suspect.value == IDS["c"]


def test_wrong_predecessor_is_a_violation():
    state = whole_ring(grace=2.0)
    assert link(state, "d", "a", "b", 7.0) == []
    (found,) = state.advance(10.0)
    assert (found.node, found.link, found.other) == ("d", "predecessor", "c")


def test_the_dead_and_those_outside_the_ring_break_nothing():
    state = whole_ring(grace=2.0)
    link(state, "a", "c", "d", 7.0)
    state.ended("a", 7.5)
    link(state, "d", "b", "c", 8.5)
    link(state, "b", "c", "d", 8.5)
    assert state.finish(100) == []


def test_a_node_that_comes_back_under_another_id_starts_anew():
    state = whole_ring("abc", grace=2.0)
    state.ended("b", 5.0)
    link(state, "a", "c", "c", 6.0)
    link(state, "c", "a", "a", 6.0)
    state.update("b", 35, successor=10, predecessor=30, time=7.0)
    state.update("c", 30, successor=35, predecessor=10, time=7.1)
    state.update("a", 10, successor=30, predecessor=35, time=7.1)
    assert state.wrong == [] and state.finish(100) == []


def test_unknown_nodes_are_taken_for_alive():
    """Of a recording in which only some nodes are replayed."""
    state = RingState(grace=2.0)
    link(state, "a", "c", "d", 0.0)
    assert state.finish(100) == []


def test_bad_period_is_refused():
    with pytest.raises(ValueError, match="must be positive"):
        RingState(period=0)


# --- The script, against a recording in memory ---

def events_of(steps):
    """Events from (seconds, node, successor, predecessor); a node without links ends. Ids are those of IDS."""
    names = sorted(IDS)
    for seconds, name, *links in steps:
        changes = {}
        if links:
            link_names = ("srv.successor", "srv.predecessor")
            changes = {link: 0x1000 + IDS[to] for link, to in zip(link_names, links)}
            changes |= {f"{link}->id": IDS[to] for link, to in zip(link_names, links)}
        yield Event(names.index(name), changes=changes, seconds=seconds, ends=not links)


def run_script(tmp_path, steps):
    """(exit code, violations as JSON) of predicates/ring.py."""
    backend = FakeBackend(names=sorted(IDS), events=events_of(steps))
    for node, name in enumerate(sorted(IDS)):
        backend.let(node, {"srv.node.id": IDS[name], "srv.period": 250, "srv.successor": 0, "srv.predecessor": 0})
        backend.let(node, {"srv.last_message.sender": IDS["b"], "srv.last_message.seq": 7})
        backend.let(node, {"srv.last_message.type": backend.raw(b"\1\0\0\0", "enum state")})
    report = tmp_path / "report.json"
    code = friday.run_script(str(ROOT / "predicates" / "ring.py"), friday.Session(backend), json_path=str(report), out=io.StringIO())
    return code, json.loads(report.read_text())["violations"]


WHOLE = [(0.0, "a", "b", "d"), (0.0, "b", "c", "a"), (0.0, "c", "d", "b"), (0.0, "d", "a", "c")]


def test_script_holds_on_a_ring_that_heals(tmp_path):
    steps = WHOLE + [(5.0, "b"), (1.2, "a", "c", "d"), (0.3, "c", "d", "a"), (9.0, "a", "c", "d")]
    assert run_script(tmp_path, steps) == (0, [])


def test_script_reports_a_lasting_break_with_its_evidence(tmp_path):
    code, (violation,) = run_script(tmp_path, WHOLE + [(5.0, "a", "c", "d"), (1.0, "c", "d", "b"), (9.0, "c", "d", "b")])
    assert code == 1
    assert violation["predicate"] == "ring" and [node["name"] for node in violation["nodes"]] == ["a"]
    values = violation["values"]
    assert (values["id"], values["link"], values["value"], values["other"]) == (f"{10:016x}", "successor", f"{30:016x}", f"{20:016x}")
    assert values["after"] == {"sender": f"{20:016x}", "type": "UP", "seq": 7}
    assert values["since"] == 1005.0 and values["unexplained"] and "main" in values["stack"]
    assert "skips b (0x14), a live node of the ring, since 1005.000" in violation["message"]


# --- Links of real rings ---

SEEDS = range(1, 11)
PERIOD = 150


def link_changes(plan, result, directory):
    """(time, name, id, successor, predecessor) of all nodes and (time, name) of deaths, in order of time."""
    number = lambda text: None if text == "-" else int(text, 16)
    changes = [(time, name) for name, time in result.ended.items() if time < result.stopped and name != "client"]
    for node in plan.nodes:
        for line in (directory / f"{node.name}.links").read_text().splitlines():
            time, name, *ids = line.split()
            if float(time) < result.stopped:
                changes.append((float(time), name, *map(number, ids)))
    return sorted(changes, key=lambda change: change[0])


def feed(changes, end, **options):
    """All that RingState finds wrong: (suspects, violations)."""
    state, suspects = RingState(**options), []
    for time, name, *links in changes:
        if links:
            suspects += state.update(name, links[0], successor=links[1], predecessor=links[2], time=time)
        else:
            state.ended(name, time)
        state.advance(time)
    state.finish(end)
    return suspects, state.violations


@pytest.fixture(scope="module")
def rings(tmp_path_factory):
    """For each seed a ring with deaths and a ring with the fault: (plan, changes, end, truth)."""
    def one(job):
        seed, fault = job
        directory = tmp_path_factory.mktemp(f"ring{seed}{fault}")
        truth = directory / "truth.json"
        plan = chord.make_plan(
            nodes=8, seconds=9, gap=0.1, period=PERIOD, late_at=3.0, seed=seed, fault=fault, kills=0 if fault else 2,
            truth=str(truth), trace_links=str(directory), rate=20,
        )
        result = chord.run_native(plan, apps=chord.find_apps(), directory=directory)
        return plan, link_changes(plan, result, directory), result.stopped, json.loads(truth.read_text()) if fault else None

    def both(fault):
        with ThreadPoolExecutor(len(SEEDS)) as pool:
            return dict(zip(SEEDS, pool.map(one, [(seed, fault) for seed in SEEDS])))

    return {fault: both(fault) for fault in (False, True)}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_found_in_a_healthy_ring(rings, seed):
    plan, changes, end, _ = rings[False][seed]
    assert len({change[1] for change in changes if len(change) == 2}) == 2, "two nodes should have died"
    assert feed(changes, end, period=PERIOD / 1000)[1] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_fault_is_found_where_and_when_it_was_planted(rings, seed):
    plan, changes, end, truth = rings[True][seed]
    suspects, violations = feed(changes, end, period=PERIOD / 1000)
    (found,) = violations
    assert found in suspects and found.unexplained
    assert (found.node, found.link, found.kind) == (truth["node"], "successor", "skips")
    assert (f"{found.id:016x}", f"{found.value:016x}", f"{found.other_id:016x}") == (
        truth["id"], truth["wrong_successor"], truth["skipped"])
    assert abs(found.since - truth["time"]) < 0.05
