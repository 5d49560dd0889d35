"""The end of a node is an event of the group like any other: at the same place in every run, and predicates look at it."""

import pytest
from debug_support import BUILD, friday, opened, record_once, run_to_end  # noqa: F401
from predicates.routes import Routes


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """Node 1 exits while node 0 routes through it; later node 0 kills node 2, which waits in a call."""
    def record(recorder):
        nodes = [{"name": f"n{i}", "stdout": f"n{i}.out", "command": [str(BUILD / "targets" / "ends"), str(recorder.directory), str(i)]} for i in range(3)]
        recording = recorder.record({"node": nodes})
        assert "killed by SIGKILL" in recorder.run([recorder.friday, "info", recording.path]).stdout
        return recording
    return record_once("ends", record, tmp_path_factory)


def ends_seen(session):
    """Who ended, when, where each node stood then, and who lived."""
    seen = []
    session.at_exit(lambda stop: seen.append((stop.node, str(stop.logical_time), str(session.logical_time), [session.backend.event(n) for n in range(3)],
                                              list(map(int, session.all_nodes)))))
    return seen


WAYS = {"alone": lambda session: None,
        "timers": lambda session: session.every(lambda: None, seconds=0.001),
        "breakpoints": lambda session: session.breakpoint("nap", lambda: None),
        "watches": lambda session: session.watch("next_hop", lambda: None)}


def test_a_node_ends_at_the_same_instant_in_every_run(ends, opened):
    found = {}
    for name, way in WAYS.items():
        session = opened(ends)
        way(session)
        found[name] = ends_seen(session)
        run_to_end(session)
        again = ends_seen(session)
        session.restart()
        run_to_end(session)
        assert again == found[name][3:] == found[name][:3], name
    assert found["timers"] == found["breakpoints"] == found["watches"] == found["alone"]
    (first, second, third) = found["alone"][:3]
    assert [first[0], second[0], third[0]] == [1, 2, 0] and [each[4] for each in (first, second, third)] == [[0, 2], [0], []]
    assert all(each[1] == each[2] for each in (first, second, third)), "the group stands at the end"
    kills, killed = opened(ends).backend.outputs(0)[:2]
    assert first[3][0] < kills <= second[3][0] < killed, "it lived until it was killed, though it did nothing"
    assert 0.1 < float(second[1]) - float(first[1]) < 5


@pytest.mark.parametrize("sync", ["causal", "free"])
def test_ends_have_their_time_in_other_orders_too(ends, opened, sync):
    session = opened(ends)
    expected = ends_seen(session)
    run_to_end(session)
    other = opened(ends, sync=sync)
    seen = ends_seen(other)
    run_to_end(other)
    assert {each[0]: each[1] for each in seen} == {each[0]: each[1] for each in expected}


def test_predicates_look_at_the_end_of_a_node(ends, opened):
    """Nothing that they watch changes any more."""
    session = opened(ends)
    seen = ends_seen(session)
    routes = Routes(session, id="id", routes=lambda node: {2: hop} if (hop := int(node.read("next_hop"))) >= 0 else {}, watch="next_hop")
    run_to_end(session)
    (lapse,) = [lapse for lapse in routes.lapses if f"{lapse.until:.6f}" == seen[1][1]]
    assert lapse.fault.message == "packets to 2 end at 1, which has ended: 0 -> 1"
    assert 0 < lapse.since <= float(seen[0][1])  # from its call of exit on the node takes no part any more
    assert routes.reported[-1].message == lapse.fault.message


def test_a_script_can_stop_there(ends, opened):
    session = opened(ends)
    session.at_exit(lambda stop: session.stop())
    assert [session.run().kind for _ in range(4)] == ["exit", "exit", "exit", "end"]


def test_continue_until_sees_who_lives(ends, opened):
    session = opened(ends)
    stop, until = session.run_until(lambda: session.nodes[2].state == "ended" and int(session.nodes[0].read("id")) == 0)
    assert until.holds and (stop.kind, stop.node) == ("exit", 2) and not session.at_exit_functions
    stop, until = session.run_until(lambda: False)
    assert stop.kind == "end" and not until.holds and not session.at_exit_functions


def test_the_ends_of_other_nodes_are_seen_while_one_is_stepped(ends, opened):
    """At the same instants, by who looks at them: a step ends there."""
    whole = opened(ends)
    expected = ends_seen(whole)
    run_to_end(whole)
    session = opened(ends)
    seen = ends_seen(session)
    session.breakpoint("nap", nodes="0", temporary=True)
    session.run()
    stops = []
    while not stops or stops[-1] not in (("exit", 0), ("end", 0)):
        stop = session.step(0, "next")
        stops.append((stop.kind, stop.node))
        assert int(session.node) == 0, "the node that is stepped stays the selected one"
    assert seen == expected
    assert [node for kind, node in stops if kind == "exit"] == [1, 2, 0]
