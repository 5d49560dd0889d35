"""Stop points that cannot be or do harm: what has no place, what never resolves, conditions that fail at each hit, handlers that take
the ground from under themselves. Each has a clear answer, in bounded time, and the session lives on to the recorded end.
"""

import re

import pytest
from debug_support import BUILD, break_at, final_state, friday, opened, plain_end_of, record_once, run_to_end  # noqa: F401

pytestmark = pytest.mark.limit(60)
BAD = ["no_such_name > 3", "x +", "x ==", "*", "x->member", "(struct nothing*)x", "x)", "square", "no_such_function(x)"]


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    """Two runs of one program, at addresses of their own, and one of another."""
    nodes = [{"name": "a", "command": [BUILD / "targets" / "debug_session_O0"]}, {"name": "b", "command": [BUILD / "targets" / "debug_session_O0"]},
             {"name": "cxx", "command": [BUILD / "targets" / "debug_session_cxx_O0"]}]
    return record_once("harm", lambda recorder: recorder.record({"node": nodes}), tmp_path_factory)


plain_end = plain_end_of("group")


# ---- What cannot be watched, or not usefully

@pytest.mark.parametrize("expression, words", [
    ("no_such_variable", "no_such_variable"), ("head->no_member", "no_member"), ("$rax", "no place in memory"), ("$rip", "no place in memory"), ("1 + 2", "no place in memory"),
    ("square(3)", "watched|no place"), ("&total", "no place in memory"), ("", "needs an expression|expression"), ("*(long*)16", "no program can have memory")])
def test_what_has_no_place_is_refused(group, opened, plain_end, expression, words):
    session = opened(group)
    with pytest.raises(friday.Error, match=words):
        session.watch(expression, nodes="0,1")
    assert not session.points
    assert final_state(session) == plain_end


def test_what_is_switched_off_is_switched_on_again_where_it_can_be(group, opened, plain_end):
    session = opened(group)
    hits = []
    points = [session.breakpoint("factorial", lambda: hits.append(("factorial", int(session.node)))), session.watch("ratio", lambda: hits.append(("ratio", int(session.node)))),
              session.breakpoint("-pending no_such_function")]
    for point in points:
        point.disable()
        point.enable()
        assert point.enabled
    assert final_state(session) == plain_end
    assert {(what, node) for what, node in hits} == {("factorial", 0), ("factorial", 1), ("ratio", 0), ("ratio", 1)}, hits
    assert hits.count(("factorial", 0)) == hits.count(("factorial", 1)) == 5


def test_code_and_what_never_changes(group, opened, plain_end):
    """Code can be watched; nothing writes to it, not even a breakpoint in the midst of it."""
    session = opened(group)
    hits = []
    session.watch("*(long*)main", lambda: hits.append("code"), nodes="0,1")
    session.watch("*(char(*)[64])factorial", lambda: hits.append("code"), nodes="0,1")
    session.breakpoint("factorial", lambda: hits.append("break"), nodes="0,1")
    final = final_state(session)
    assert hits == ["break"] * 10
    assert {node: events for node, (events, _) in final.items()} == {node: events for node, (events, _) in plain_end.items()}


def test_the_whole_heap(group, opened, plain_end):
    session = opened(group)
    break_at(session, "use_inline", nodes="2")
    node = session.nodes[2]
    inside = int(node.read("(long)current"))
    maps = [(int(low, 16), int(high, 16)) for low, high in re.findall(r"^ *0x([0-9a-f]+) +0x([0-9a-f]+) .*rw-p", node.gdb("info proc mappings"), re.M)]
    low, high = next(each for each in maps if each[0] <= inside < each[1])
    assert high - low >= 0x20000
    changes = []
    session.watch(f"*(char(*)[{high - low}]){low:#x}", lambda hit: changes.append(hit.location), nodes="2")
    final = final_state(session)
    assert len(changes) > 10 and any("free" in place for place in changes) and any("malloc" in place for place in changes)
    assert {number: events for number, (events, _) in final.items()} == {number: events for number, (events, _) in plain_end.items()}


# ---- Conditions that fail

@pytest.mark.parametrize("condition", BAD)
def test_a_condition_that_cannot_hold_is_refused_or_told(group, opened, condition):
    session = opened(group)
    try:
        point = session.breakpoint("square", condition=condition, nodes="0")
    except friday.Error as error:
        assert error.message
        return
    stop = session.run()
    assert stop.ids == (point.id,)
    if condition != "square":  # a function's address is not 0
        assert "could not be evaluated" in stop.message


def test_ten_thousand_conditions_with_errors(group, opened, plain_end):
    session = opened(group)
    points = []
    for number in range(10_000):
        points.append(session.backend.add_breakpoint([0, 1], "square", f"*(int*){number} > 3"))
    assert len(set(points)) == 10_000
    stop = session.run()
    assert stop.ids[-1] == points[-1] and "could not be evaluated" in stop.message and "9999 other conditions could not be evaluated either" in stop.message
    for id_ in points:
        session.backend.delete(id_)
    assert final_state(session) == plain_end


def test_a_condition_that_fails_at_each_hit(group, opened, plain_end):
    session = opened(group)
    told = []
    session.breakpoint("square", lambda: told.append("square"), condition="*(int*)0 == x", nodes="0,1")
    session.breakpoint("move", lambda: told.append("move"), condition="*(int*)8", nodes="0,1")
    assert final_state(session) == plain_end
    assert len(told) == 2 * 4 + 2 * 3


# ---- Places

def test_addresses_of_another_node(group, opened, plain_end):
    """Each node has its own layout: an address of one means nothing, or something else, on the other."""
    session = opened(group)
    place = int(session.nodes[0].gdb("output/u (unsigned long)&factorial"))
    other = int(session.nodes[1].gdb("output/u (unsigned long)&factorial"))
    if place == other:
        pytest.skip("machine: both nodes have the program at one address")
    with pytest.raises(friday.Error, match="no code at|middle of the instruction"):
        session.breakpoint(f"*{place:#x}", nodes="1")
    hits = []
    session.breakpoint(f"*{place:#x}", lambda hit: hits.append(int(hit.node)))  # of those that have it
    assert final_state(session) == plain_end
    assert hits == [0] * 5


# ---- Handlers

def test_a_handler_that_deletes_everything_and_sets_new_ones(group, opened, plain_end):
    session = opened(group)
    log = []

    def everything(hit):
        log.append(("all", int(hit.node)))
        for id_ in list(session.points):
            session.delete(id_)
        session.breakpoint("walk", lambda hit: log.append(("walk", int(hit.node))), nodes="0,1")
        session.watch("ratio", lambda hit: log.append(("ratio", int(hit.node))), nodes="0,1")

    session.breakpoint("factorial", everything, nodes="0,1")
    session.breakpoint("factorial", lambda: log.append("never"), nodes="0,1")
    session.breakpoint("measure", lambda: log.append("never"), nodes="2")
    session.watch("total", lambda: None, nodes="0,1")
    final = final_state(session)
    assert [entry for entry in log if entry[0] == "all"] == [log[0]], "it has deleted itself too"
    assert sorted(entry for entry in log if entry[0] == "walk") == [("walk", 0), ("walk", 1)] and "never" not in log[1:]
    assert {node: events for node, (events, _) in final.items()} == {node: events for node, (events, _) in plain_end.items()}


@pytest.mark.parametrize("kind", ["breakpoint", "watch"])
def test_a_stop_point_deleted_by_its_own_handler(group, opened, plain_end, kind):
    session = opened(group)
    hits = []
    point = session.breakpoint("square", nodes="0,1") if kind == "breakpoint" else session.watch("total", nodes="0,1")

    def once():
        hits.append(1)
        point.delete()

    point.set_handler(once, stops=False)
    assert final_state(session)[0][0] == plain_end[0][0] and hits == [1] and not session.points


def test_stop_points_deleted_at_each_others_hits(group, opened, plain_end):
    """Each hit of one deletes the other and sets it again."""
    session = opened(group)
    hits, points = {"square": 0, "factorial": 0}, {}

    def at(name, other):
        def handler():
            hits[name] += 1
            points[other].delete()
            points[other] = session.breakpoint(other, at(other, name), nodes="0,1")
        return handler

    for name, other in (("square", "factorial"), ("factorial", "square")):
        points[name] = session.breakpoint(name, at(name, other), nodes="0,1")
    assert final_state(session) == plain_end
    assert hits == {"square": 8, "factorial": 10}


def test_a_handler_that_fails_at_each_hit(group, opened):
    session = opened(group)
    point = session.breakpoint("square", lambda: 1 / 0, nodes="0")
    for _ in range(4):
        with pytest.raises(ZeroDivisionError):
            session.run()
        assert session.read(None, "x") in (1, 2, 3, 4)
    point.delete()
    run_to_end(session)


def test_a_name_that_only_an_outer_frame_has(group, opened):
    """gdb translates names in the scope of the innermost frame: that it knows none there is no last word on the frame selected."""
    session = opened(group)
    break_at(session, "factorial", nodes="0", condition="n == 5")
    node = session.nodes[0]
    assert node.read("n") == 5
    node.gdb("frame 1")
    assert node.read("sum") == 38 and node.read("sum + 1") == 39
