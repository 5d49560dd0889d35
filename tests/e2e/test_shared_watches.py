"""A watch on memory that several replayed processes map sees what each of them does to it, and says who."""

import pytest
from debug_support import BUILD, opened, record_once, run_to_end  # noqa: F401

WRITERS = [(0, 1, 1), (1, 2, 2), (2, 3, 3), (3, 4, 4), (4, 5, 0)]  # old, new, the node that stores; 5 only looks


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return record_once("shared_watch", lambda recorder: recorder.record([BUILD / "targets" / "shared_watch", recorder.directory / "file"], name="it"),
                       tmp_path_factory)


def hits_of(session, expression, **options):
    seen = []

    def note():
        hit = session.hit
        if hit.old is not None and hit.new is not None:  # it is undefined while the program has not mapped it
            seen.append((int(hit.old), int(hit.new), int(hit.writer), int(session.node), float(session.logical_time), float(hit.stop.logical_time)))
    session.watch(expression, note, **options)
    return seen


@pytest.mark.parametrize("sync", ["clock", "causal", "free"])
@pytest.mark.parametrize("patched", [True, False])
def test_the_owner_is_told_of_all_that_others_store(shared, opened, sync, patched):
    session = opened(shared, sync=sync)
    session.backend.set_patch_stores(patched)
    session.breakpoint("main", temporary=True)
    session.run()
    seen = hits_of(session, "shared->value", nodes=0)
    run_to_end(session)
    assert [hit[:3] for hit in seen] == WRITERS
    assert {hit[3] for hit in seen} == {0}
    if sync == "clock":
        assert all(now == stop for *_, now, stop in seen) and sorted(hit[4] for hit in seen) == [hit[4] for hit in seen]


def test_each_store_is_one_hit_where_all_watch(shared, opened):
    session = opened(shared)
    session.breakpoint("map", temporary=True)
    session.run()
    seen = hits_of(session, "shared->value")
    run_to_end(session)
    assert [hit[:3] for hit in seen] == WRITERS, seen


@pytest.mark.usefixtures("debug_registers")
def test_debug_registers_see_reads_of_others(shared, opened):
    session = opened(shared)
    session.breakpoint("stores", temporary=True)
    session.run()
    seen = hits_of(session, "-access shared->value", nodes=0)
    run_to_end(session)
    assert [hit[:3] for hit in seen if hit[0] != hit[1]] == WRITERS, seen
    assert (4, 4, 5) in [hit[:3] for hit in seen], "node 5 reads it"


def test_continue_until_is_true_when_another_process_makes_it_so(shared, opened):
    session = opened(shared)
    session.breakpoint("stores", temporary=True)
    session.run()
    for value, writer in ((1, 1), (2, 2), (3, 3), (4, 4)):
        stop, until = session.run_until(lambda: int(session.read(0, "shared->value")) == value)
        assert until.holds and stop.kind == "watch" and stop.node == 0 and stop.writer[0] == writer, (value, stop)
        assert {1: "stores", 3: "maps_late"}.get(value, "") in stop.writer[2]
