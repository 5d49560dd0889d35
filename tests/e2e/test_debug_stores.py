"""Stores that hit a watched page again and again: they are patched, and nothing that the program does shows it."""

import re

import pytest
from debug_support import BUILD, break_at, end_without_points, opened, plain_end_of, record_once, recorded_target, run_to_end  # noqa: F401
from test_debug_robust import children

pytestmark = pytest.mark.limit(60)


stores = recorded_target("hot_stores")
plain_end = plain_end_of("stores")


@pytest.mark.parametrize("expression", ["block->watched", "fixed.watched", "*(char (*)[4096])&fixed"])
def test_the_end_is_the_same(stores, opened, plain_end, expression):
    session = opened(stores)
    session.watch(expression, lambda: None)
    assert end_without_points(session) == plain_end


def test_every_change_is_seen_where_it_happens(stores, opened, plain_end):
    """`changed` is called behind each change of what is watched: it and the watch must say the same."""
    session = opened(stores)
    seen = {int(node): None for node in session.nodes}
    told = {int(node): [] for node in session.nodes}
    session.watch("block->watched", lambda hit: seen.update({int(hit.node): hit.new}))
    session.breakpoint("changed", lambda hit: told[int(hit.node)].append((seen[int(hit.node)], hit.node.read("block->watched"))))
    assert end_without_points(session) == plain_end
    for node, values in told.items():
        assert len(values) >= 3 and all(heard == value for heard, value in values), (node, values)


def test_steps_and_breakpoints_among_patched_stores(stores, opened, plain_end):
    session = opened(stores)
    session.watch("fixed.watched", lambda: None)
    hot = session.breakpoint("store_to", nodes=0)
    for _ in range(40):
        assert session.run().ids == (hot.id,)
    for command in ("stepi", "stepi", "stepi", "next", "step", "finish"):
        assert session.step(0, command).kind in ("step", "breakpoint")
    assert "store_to" in session.gdb("disassemble store_to", nodes=0)[session.nodes[0]]
    hot.delete()
    assert end_without_points(session) == plain_end


def test_breakpoints_in_a_window_that_is_patched_already(stores, opened, plain_end):
    """The first store of `sum_with_carry` has three bytes, so its patch takes a part of what follows. It was made 300 times before the
    program's second fault, and is made 300 times in each of nine further rounds."""
    session = opened(stores)
    session.watch("fixed.watched", lambda: None)
    handler = session.breakpoint("on_fault", nodes=0)
    for _ in range(2):
        assert session.run().ids == (handler.id,)
    handler.delete()
    code = re.findall(r"^\s+(0x\w+) <\+\d+>:\s+(.*)$", session.nodes[0].gdb("disassemble sum_with_carry"), re.M)
    first = next(number for number, (_, text) in enumerate(code) if re.match(r"mov\s+%r\w+,\(%r\w+\)", text))
    place, behind = (int(address, 16) for address, _ in code[first:first + 2])
    assert behind == place + 3
    process, = (pid for pid, name in children().items() if name == "friday-stub")

    def real_bytes():
        with open(f"/proc/{process}/mem", "rb") as memory:
            memory.seek(place)
            return memory.read(4)

    assert real_bytes()[0] == 0xE9, "a jump: it is patched"
    hits = []
    for address in (place, behind):
        session.breakpoint(f"*{address:#x}", lambda hit, address=address: hits.append(address - place), nodes=0)
    assert real_bytes()[3] == 0xCC and real_bytes()[0] != 0xE9
    assert end_without_points(session) == plain_end
    assert hits == [0, 3] * (9 * 300)


WAYS = ["chosen[at].value", "((struct Item*)untyped)->value", "(*path)->value", "items[inner[inner[at]]].key", "low + high",
        "(flags & 6) != 0", "low > high"]


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    return record_once("watch_ways", lambda recorder: recorder.record([BUILD / "targets" / "watch_ways"]), tmp_path_factory)


@pytest.mark.parametrize("chosen", [*([way] for way in WAYS), WAYS])
def test_an_expression_is_watched_by_all_that_leads_to_it(ways, opened, chosen):
    """The hits of each expression are the changes that the program saw itself."""
    witness = [[int(word) for word in line.split()] for line in ways.stdout.splitlines()]
    session = opened(ways)
    break_at(session, "ready")
    seen = {way: [] for way in chosen}
    for way in chosen:
        session.watch(way, lambda hit, way=way: seen[way].append((int(hit.old), int(hit.new))))
    run_to_end(session)
    for way in chosen:
        values = witness[WAYS.index(way)]
        assert seen[way] == [(old, new) for old, new in zip(values, values[1:]) if old != new], way
        assert len(seen[way]) >= 5
