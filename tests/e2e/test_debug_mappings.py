"""A watch on memory that the program itself protects, moves, discards, unmaps and maps again."""

import pytest
from debug_support import break_at, final_state, opened, recorded_target, run_to_end  # noqa: F401

pytestmark = pytest.mark.limit(60)


maps = recorded_target("watch_maps")


def test_every_change_is_seen_and_the_replay_ends_as_recorded(maps, opened):
    plain = final_state(opened(maps))
    session = opened(maps)
    break_at(session, "stored")
    seen = []
    session.watch("cell->value", lambda hit: seen.append((hit.old, hit.new)))
    stores = []
    session.breakpoint("stored", lambda: stores.append((int(session.read(None, "value")), seen[-1:])))
    run_to_end(session)
    assert [value for value, _ in stores] == [2, 3, 4, 5, 6, 7]
    for value, last in stores:
        assert last and last[0][1] == value, "each store was seen before its breakpoint"
    assert (2, 0) in seen, "discarded memory"
    assert (4, None) in seen or (4, 0) in seen, "unmapped memory"
    assert final_state(session) == plain


def test_an_address_where_nothing_is_mapped_yet_is_waited_for(maps, opened):
    session = opened(maps)
    break_at(session, "stored")
    cell, size = int(session.node.read("&cell->value")), int(session.node.read("sizeof cell->value"))
    session.restart()
    seen, stores = [], []
    session.watch(f"*(long*){cell:#x}" if size == 8 else f"*(int*){cell:#x}", lambda hit: seen.append(hit.new))
    session.breakpoint("stored", lambda: stores.append((int(session.read(None, "&cell->value")), int(session.read(None, "value")), seen[-1:])))
    run_to_end(session)
    there = [(value, last) for place, value, last in stores if place == cell]
    assert there and all(last == [value] for value, last in there), stores


def test_memory_that_is_mapped_after_the_watch_was_set(maps, opened):
    session = opened(maps)
    seen, stores = [], []
    session.watch("cell->value", lambda hit: seen.append(hit.new))
    session.breakpoint("stored", lambda: stores.append((int(session.read(None, "value")), seen[-1:])))
    run_to_end(session)
    assert stores == [(value, [value]) for value in range(1, 8)]


far = recorded_target("watch_far")


@pytest.mark.parametrize("breakpoints", [[], ["exit"], ["stored", "exit"]], ids=lambda names: "-".join(names) or "none")
def test_memory_that_is_mapped_while_other_stores_to_the_page_of_its_pointer_are_passed_over(breakpoints, far, opened):
    """What was known of the mappings is out of date when the pointer is stored, though the program has not stopped since."""
    assert far.returncode == 0, far
    session = opened(far)
    seen = []
    for place in breakpoints:
        session.breakpoint(place, lambda: None)
    session.watch("state.cell->value", lambda hit: seen.append((hit.old, hit.new)))
    run_to_end(session)
    assert seen == [(None, 0), *((n, n + 1) for n in range(5))], seen


def test_a_place_stays_where_it_was_when_the_pointer_moves_on(maps, opened):
    """`cell` points elsewhere after the fourth store: what is stored there is no hit of a watch of the place it had."""
    session = opened(maps)
    break_at(session, "stored")
    place, seen, whole = int(session.read(None, "&cell->value")), [], []
    session.watch("-l cell->value", lambda hit: seen.append((hit.old, hit.new, int(hit.node.read("&cell->value")))))
    session.watch("cell->value", lambda hit: whole.append(hit.new))
    run_to_end(session)
    assert [(old, new) for old, new, at in seen if new] == [(1, 2), (0, 3)], "the stores before it moved"
    assert (2, 0, place) in seen, "discarded memory"
    assert {4, 5, 6, 7} < set(whole), "the other watch goes along"
