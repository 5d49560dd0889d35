"""Watches of local variables, of thread-local ones, of parts of objects, and what is refused."""

import re

import pytest
from debug_support import BUILD, break_at, final_state, friday, opened, plain_end_of, record_once, recorded_target, run_to_end, state  # noqa: F401

pytestmark = pytest.mark.limit(60)


locals_ = recorded_target("watch_locals")
plain_end = plain_end_of("locals_")


def changes(session, expression):
    """(old, new) of each hit up to the end."""
    seen = []
    point = session.watch(expression, lambda hit: seen.append((hit.old, hit.new)))
    run_to_end(session)
    session.delete(point)
    return seen


def test_each_entry_of_a_function_is_watched(locals_, opened, plain_end):
    session = opened(locals_)
    new = [value for _, value in changes(session, "count::total")]
    runs = [[1, 3, 6, 10], [1, 3], [1, 3, 6], [1, 3, 6]]
    assert [value for value in new if value] == [value for run in runs for value in run]
    assert state(session) == plain_end


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    return record_once("debug_session_O0", lambda recorder: recorder.record([BUILD / "targets" / "debug_session_O0"]), tmp_path_factory)


def test_a_variable_of_an_inner_block_is_watched_from_when_the_block_begins(blocks, opened):
    session = opened(blocks)
    limits = []
    session.breakpoint("sum_squares", lambda: limits.append(int(session.read(None, "n"))))
    new = [value for _, value in changes(session, "sum_squares::i")]
    assert limits and [value for value in new if value != 1] == [value for limit in limits for value in range(2, limit + 2)], (limits, new)
    assert [notice for notice in session.backend.take_notices() if "this system refuses debug registers" not in notice] == []


@pytest.mark.parametrize("expression, given", [("main::value", "main"), ("value", "here"), ("main::value", "here"), ("-l value", "here")])
def test_a_local_is_watched_in_the_child_of_a_fork(tmp_path_factory, opened, expression, given):
    recording = record_once("fork_pipe", lambda recorder: recorder.record([BUILD / "targets" / "fork_pipe"]), tmp_path_factory)
    session = opened(recording)
    if given == "here":
        break_at(session, "pipe")
        session.node.gdb("frame function main")
    values = {0: [], 1: []}
    session.watch(expression, lambda hit: values[int(hit.node)].append(hit.new))
    run_to_end(session)
    received = [each for i in range(1000) for each in (i, i * 3 + 1)]
    seen = [new for old, new in zip([0, *received], received) if new != old]  # of the child, where each is stored over the one before
    assert values[0][:1000] == [i * 3 + 1 for i in range(1000)], values[0][:9]
    assert values[1] == seen, values[1][:9]


def test_the_calls_to_come_are_watched_also_if_one_is_under_way(locals_, opened):
    session = opened(locals_)
    break_at(session, "count")
    new = [value for _, value in changes(session, "count::total")]
    assert [value for value in new if value] == [1, 3, 6, 10, 1, 3, 1, 3, 6, 1, 3, 6]


def test_a_local_of_a_frame_further_out_is_what_gdb_says(locals_, opened):
    """A plan would read it by the registers of the innermost frame, where gdb refuses it or finds another value."""
    session = opened(locals_)
    compared = set()
    for place in ("changed", "write"):
        break_at(session, place)
        node, outer = session.node, re.findall(r"^#[1-9]\d* +(?:0x[0-9a-f]+ in )?(\w+) \(", session.node.gdb("backtrace"), re.M)
        for function in outer:
            names = re.findall(r"^(\w+) =", node.gdb(f"frame function {function}") and node.gdb("info locals") + node.gdb("info args"), re.M)
            node.gdb("frame 0")
            for name in names:
                expression = f"{function}::{name}"
                try:
                    wanted = node.gdb(f"output/x {expression}")
                except friday.Error as error:
                    with pytest.raises(type(error)):
                        node.read(expression)
                    compared.add("refused")
                    continue
                if re.fullmatch(r"0x[0-9a-f]+", wanted):
                    value = node.read(expression)
                    assert int.from_bytes(value.bytes, "little") == int(wanted, 16), expression
                    compared.add("read")
    assert "read" in compared


def test_recursion_watches_each_activation(locals_, opened, plain_end):
    session = opened(locals_)
    seen = [(old, new) for old, new in changes(session, "nest::here") if new % 10 == 1]
    assert [new for _, new in seen][:3] == [1, 11, 21], "nest(2)"
    assert all(old == new - 1 for old, new in seen)
    assert state(session) == plain_end


@pytest.mark.usefixtures("debug_registers")
def test_more_activations_than_debug_registers_are_named(locals_, opened, plain_end):
    session = opened(locals_)
    changes(session, "nest::here")
    told = session.backend.take_notices()
    assert any("nest::here is not watched in this call of nest" in text and "watch -page" in text for text in told), told


def test_what_a_call_stores_in_a_local(locals_, opened, plain_end):
    session = opened(locals_)
    assert [new for _, new in changes(session, "take::value") if new > 0] == [5, 6, 7]
    session.restart()
    assert changes(session, "taken[2]") == [(0, 3)], "and in memory that is watched by its page"
    assert state(session) == plain_end


def test_a_local_of_the_frame_where_the_node_stands(locals_, opened, plain_end):
    session = opened(locals_)
    break_at(session, "count")
    assert [new for _, new in changes(session, "total") if new] == [1, 3, 6, 10], "this call only"
    assert any("total is gone" in text and "count" in text for text in session.backend.take_notices())
    assert state(session) == plain_end


def test_a_jump_out_of_the_function_ends_the_watch(locals_, opened, plain_end):
    session = opened(locals_)
    assert [new for _, new in changes(session, "leap::inside") if new >= 30] == [30, 31]
    assert state(session) == plain_end


@pytest.mark.parametrize("expression, values", [("structs::p.x", [1, 2, 3]), ("structs::p.width", [1, 2, 3]), ("structs::text[2]", [2])])
def test_parts_of_local_objects(locals_, opened, expression, values):
    session = opened(locals_)
    assert [int(new) for _, new in changes(session, expression) if int(new)][:3] == values


@pytest.mark.usefixtures("debug_registers")
def test_a_large_local_needs_its_page(locals_, opened, plain_end):
    session = opened(locals_)
    break_at(session, "structs")
    with pytest.raises(friday.Error, match="watch -page"):
        session.watch("text")
    seen = changes(session, "-page text")
    assert len(seen) >= 3
    assert state(session) == plain_end


def test_thread_local_variables(locals_, opened, plain_end):
    session = opened(locals_)
    break_at(session, "worker")
    first = session.read(None, "(long)argument") * 100
    assert [new for _, new in changes(session, "own")] == [first + 1, first + 2, first + 3], "of the thread that stood there"
    assert state(session) == plain_end


def test_slices_places_and_writes_of_the_same_value(locals_, opened):
    session = opened(locals_)
    assert len(changes(session, "numbers[2]@3")) == 3
    session.restart()
    assert [new for _, new in changes(session, "-l numbers[4]")] == [5]
    session.restart()
    assert [(old, new) for old, new in changes(session, "-writes numbers[4]")] == [(0, 5), (5, 5)]


@pytest.mark.parametrize("expression, words", [("-quick numbers", "no option -quick"), ("-page", "needs an expression"), ("$rax", "no place in memory"),
                                               ("2 + 3", "no place"), ("nothing_there", "nothing_there")])
def test_what_is_refused(locals_, opened, plain_end, expression, words):
    session = opened(locals_)
    with pytest.raises(friday.Error, match=words):
        session.watch(expression)
    assert final_state(session) == plain_end


def test_locals_that_optimised_code_has_lost_are_said_to_be_and_no_others_of_their_name(tmp_path_factory, opened):
    session = opened(record_once("lost_locals", lambda recorder: recorder.record([BUILD / "targets" / "lost_locals"]), tmp_path_factory))
    node = session.node
    break_at(session, "write")
    assert node.read("shadowed") == 5, "the global"
    node.gdb("frame function lose")
    for name in ("gone", "shadowed"):
        assert "<optimized out>" in node.gdb(f"print {name}")
        with pytest.raises(friday.OptimizedOut, match="optimized out"):
            node.read(name)
        with pytest.raises(friday.Error, match="optimized out"):
            session.watch(name)
    assert node.read("computed") == 8 and node.read("n") == 4 and node.read("'lost_locals.c'::shadowed") == 5


def test_a_function_stands_for_its_address(locals_, opened):
    session = opened(locals_)
    break_at(session, "nest")
    node = session.node
    assert node.read("nest") == node.read("&nest") == node.read("*nest") != 0 and node.read("(nest)") == node.read("&nest")


def test_expressions_are_meant_in_the_frame_that_is_selected(locals_, opened):
    """Also names that were read in the innermost frame before; a move of the group selects that one again."""
    session = opened(locals_)
    break_at(session, "changed", condition="value == 20")
    node = session.node
    break_at(session, "nest", condition="depth == 0")
    levels = {int(depth): int(level) for level, depth in re.findall(r"^#(\d+) .*nest \(depth=(?:depth@entry=)?(\d+)\)", node.gdb("backtrace"), re.M)}
    assert len(levels) >= 3 and levels[0] == 0, node.gdb("backtrace")
    assert node.read("depth") == 0 and node.read("sizeof(depth)") == 8
    for depth, level in levels.items():
        node.gdb(f"frame {level}")
        assert node.read("depth") == depth and node.read("depth * 2 + 1") == 2 * depth + 1
        if depth:
            assert node.read("here") == 10 * depth
    node.gdb(f"frame {levels[2]}")
    session.backend.write(int(node), "here", "77")
    assert node.read("here") == 77 and node.altered is not None
    node.gdb("down")
    assert node.read("here") == 10
    node.gdb("frame 0")
    assert node.read("depth") == 0
    node.gdb("up")
    session.restart()
    break_at(session, "nest", condition="depth == 1")
    assert session.node.read("depth") == 1


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    return record_once("rounds", lambda recorder: recorder.record([BUILD / "targets" / "rounds"]), tmp_path_factory)


def look_where_each_stands(session):
    """Where gdb sees a node wait in one of the two functions, that one's variable has its value, and the other's is not in scope."""
    looked = 0
    for node in session.all_nodes:
        function = re.match(r"#0 .*?\b(even|odd) \(", node.backtrace())
        if not function or node == session.node:
            continue
        here, elsewhere, factor = ("even_number", "odd_number", 2) if function[1] == "even" else ("odd_number", "even_number", 3)
        number, found, turns = int(node.read("number")), int(node.read(here)), int(node.read("turns"))
        assert found == factor * (turns - 1) + max(number - 1, 0), (int(node), function[1], number, found, turns)
        with pytest.raises(friday.OutOfScope):
            node.read(elsewhere)
        looked += 1
    return looked


def test_a_variable_is_sought_where_its_node_stands(rounds, opened):
    """A node that waits is not asked where it stands as long as it has not moved."""
    session, looked = opened(rounds), 0
    point = session.breakpoint("pass", nodes=[0])  # the others move without a stop of theirs
    for hit in range(290):
        stop = session.run()
        assert stop.kind == "breakpoint", stop
        looked += look_where_each_stands(session)
        if hit % 7 == 3:
            session.step(session.node, "next")
            looked += look_where_each_stands(session)
        if hit % 11 == 5:
            session.node.write("turns", int(session.node.read("turns")))
            looked += look_where_each_stands(session)
        if hit % 13 == 6:
            session.step(session.node, "finish")
            looked += look_where_each_stands(session)
        if hit == 100:
            session.restart()
    session.delete(point)
    for event in range(260, 400, 3):
        session.goto(event, node=1)
        looked += look_where_each_stands(session)
    assert looked > 600, looked


def test_without_debug_registers_it_is_said(locals_, opened):
    """Where they do not report what they watch, the page of a stack is protected, with a notice, and reads are refused."""
    session = opened(locals_)
    assert len(changes(session, "count::total")) > 3
    told = [notice for notice in session.backend.take_notices() if "this system refuses debug registers" in notice]
    session.restart()
    break_at(session, "count")
    try:
        session.watch("-reads told")
    except friday.Unsupported as error:
        assert "do not report what they watch" in str(error) and len(told) == 1
    else:
        assert not told
