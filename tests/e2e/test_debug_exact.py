"""Stop points never change what is replayed: with none, with one and with a hundred set, the nodes of the ring end after the
same events in the same state, in every order of replay.
"""

import pytest
from debug_support import NODES, end_without_points, friday, opened, plain_end_of, ring, run_to_end  # noqa: F401

pytestmark = pytest.mark.limit(60)

FUNCTIONS = ("process_data", "process_packet", "insert_finger", "remove_finger", "stabilize", "send_packet", "receive_packet",
             "set_successor", "set_predecessor", "fix_fingers", "recvfrom", "sendto")
PLACES = ("srv.successor", "srv.predecessor", "srv.successor->id", "srv.fingers", "srv.fingers->node.id", "srv.seq", "srv.puts",
          "srv.nsuccessors", "srv.last_message", "srv.notify.to", "*(char(*)[4096])known", "*(char(*)[64])&srv.failed", "srv.random")


def set_points(session, count):
    """Half breakpoints, half watches, whose conditions hold nowhere."""
    for n in range(count):
        never = f"srv.node.id == {n} && srv.sock == -{n + 7}"
        if n % 2 == 0:
            session.breakpoint(FUNCTIONS[n // 2 % len(FUNCTIONS)], condition=never)
        else:
            session.watch(PLACES[n // 2 % len(PLACES)], condition=never)


plain_end = plain_end_of("ring")


@pytest.mark.parametrize("sync", ["clock", "causal", "free"])
@pytest.mark.parametrize("count", [0, 1, 100])
def test_the_end_is_the_same(ring, opened, plain_end, sync, count):
    session = opened(ring, sync=sync)
    set_points(session, count)
    assert end_without_points(session) == plain_end
    assert all(point.hits == 0 for point in session.points.values())


@pytest.mark.parametrize("count", [1, 100, 10_000])
def test_the_end_is_the_same_with_many_ranges(ring, opened, plain_end, count):
    """Ranges all over the programs' variables: each byte of some pages in its own watch, or in several."""
    session = opened(ring)
    hits = [0]

    def hit():
        hits[0] += 1

    for turn in range(max(count // 100, 1)):
        places = [f"*((char*)&srv + {(turn * 100 + i) * 3 % 4000})" for i in range(min(count, 100))]
        session.watch(places, hit)
    assert end_without_points(session) == plain_end
    assert hits[0] > 0


def test_points_that_come_and_go(ring, opened, plain_end):
    """Set, disabled, enabled and deleted at stops in the middle of the run."""
    session = opened(ring)
    steady = session.breakpoint("process_data")
    others = []
    for turn in range(12):
        stop = session.run()
        assert stop.ids == (steady.id,)
        kind, place = (session.watch, PLACES[turn]) if turn % 2 else (session.breakpoint, FUNCTIONS[turn])
        others.append(kind(place, lambda: None))
        for number, point in enumerate(others):
            if (number + turn) % 3 == 0:
                point.enable(not point.enabled)
        if turn % 4 == 3:
            others.pop(0).delete()
    steady.delete()
    assert end_without_points(session) == plain_end


@pytest.mark.parametrize("nodes", ["1,3", "4"])
def test_some_nodes_alone(ring, opened, plain_end, nodes):
    session = opened(ring, nodes=nodes)
    chosen = [int(n) for n in nodes.split(",")]
    hits = []
    session.breakpoint("send_packet", lambda: hits.append(int(session.node)))
    session.watch("srv.received", lambda hit: hits.append(int(hit.node)))
    run_to_end(session)
    for point in list(session.points):
        session.delete(point)
    assert set(hits) == set(chosen) and session.backend.states().count("ended") == len(chosen)
    for node in chosen:
        assert (session.backend.event(node) + 1, session.backend.state_hash(node)) == plain_end[node]
    for node in set(range(NODES)) - set(chosen):
        with pytest.raises(friday.NoNode):
            session.nodes[node].read("srv.seq")
        with pytest.raises(friday.Error):
            session.breakpoint("send_packet", nodes=node)
