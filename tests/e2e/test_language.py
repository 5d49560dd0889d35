"""Rules of the language on the real core that no published example shows: names across restarts, watches of an address, stop points
that change others, the order of handlers, and whose a name is.
"""

import pytest
from debug_support import BUILD, NODES, friday, opened, ring, run_to_end  # noqa: F401
from friday.commands import execute

pytestmark = pytest.mark.limit(60)


@pytest.fixture
def typed(opened, ring):  # noqa: F811
    """typed(TEXT): a session of the console in which these lines were carried out."""
    def run(text, recording=ring):
        session = opened(recording, console=True)
        execute(session, text, show=lambda line: None)
        return session
    return run


def test_a_name_is_the_life_that_runs_and_stop_points_follow_it(recorder, typed):
    path = recorder.directory / "lives"
    for _ in range(2):
        recorder.record([BUILD / "targets" / "swap"], name="it", path=path)
    session = typed("py seen = []\nit break here\n  seen.append((__NODE__.name, @\"it\"(__NODE__).name, @(x), [n.name for n in __ALL__], len(__EVERY__)))\n  cont", path)
    run_to_end(session)
    assert session.namespace["seen"] == [("it", "it", 3, ["it"], 2), ("it#2", "it#2", 3, ["it#2"], 2)]
    assert [int(node) for node in session.points[1].nodes] == [0, 1]
    with pytest.raises(friday.NodeEnded):
        session.nodes[0].write("x", 5)
    assert session.nodes[0].read("x") == 3


def test_an_address_is_watched_as_an_int_unless_a_type_is_given(typed):
    session = typed("tbreak stabilize")
    session.run()
    node = session.node
    address = int(node.read("&srv.seq"))
    execute(session, f"{node} watch *{address:#x}\n  as_int = __HIT__.new\n  cont\n{node} watch *(unsigned char*){address:#x}\n  as_byte = __HIT__.new\n  cont",
            show=lambda line: None)
    run_to_end(session)
    first, second = session.points.values()
    assert first.hits > 100 and first.hits == second.hits and first.handler.values["as_int"] == node.read("srv.seq")
    assert first.handler.values["as_int"].type.size == 4 and second.handler.values["as_byte"] == node.read("srv.seq") % 256


def test_an_address_with_a_length_is_so_many_ints(typed):
    session = typed("tbreak stabilize")
    session.run()
    node = session.node
    address = int(node.read("&srv.seq"))
    seen = []
    point = session.watch(f"*{address:#x}@2", lambda hit: seen.append((list(hit.new), node.read("srv.seq"))), nodes=node)
    run_to_end(session)
    assert len(seen) > 100 and point.hits == len(seen) and all(len(new) == 2 and new[0] == seq for new, seq in seen), seen[:3]


def test_a_handler_changes_the_condition_the_ignore_count_and_the_state_of_stop_points(typed):
    all_of_them = typed("py gets = []\nbreak process_data\n  gets.append(bool(@(packet_header == PACKET_GET)))\n  cont")
    run_to_end(all_of_them)
    gets = all_of_them.namespace["gets"]
    session = typed("""
py first, second = [], []
break process_data
  first.append(len(second))
  if len(first) == 3: session.points[1].set_condition("packet_header == PACKET_GET"); session.points[2].ignore(3)
  if len(first) == 10: session.points[1].disable()
  cont
break process_data
  second.append(bool(@(packet_header == PACKET_GET)))
  cont
""")
    run_to_end(session)
    first, second = session.namespace["first"], session.namespace["second"]
    assert second == gets[:3] + gets[6:], "three hits are passed over"
    assert len(first) == 10 and not session.points[1].enabled and first[:3] == [0, 1, 2]
    wanted = [i for i, get in enumerate(gets) if i < 3 or get][:10]
    assert first == [i if i < 3 else max(i - 3, 3) for i in wanted], (first, wanted)


def test_handlers_of_one_event_run_in_the_order_of_ids_and_may_change_each_other(typed):
    session = typed("""
py order = []
break process_data
  order.append(1)
  if len(order) > 20: session.points[3].delete(); session.points[1].delete()
  cont
break process_data
  order.append(2)
  cont
break process_data
  order.append(3)
  cont
break process_data if packet_header == PACKET_GET
  order.append(4)
""")
    stops = 0
    while session.run().kind != "end":
        stops += 1
    order = session.namespace["order"]
    with_three = order[:next(i for i, what in enumerate(order) if what == 1 and i >= 20) + 1]
    assert set(session.points) == {2, 4} and stops == order.count(4) > 3, order
    assert order.count(1) == order.count(3) + 1 and 3 not in order[len(with_three):] and order.count(2) > order.count(1)
    assert all(order[i + 1] == 2 for i, what in enumerate(with_three[:-1]) if what == 1)


def test_cont_ends_the_handler_from_within_a_function_and_names_keep_their_owner(typed):
    session = typed("""
py total = 0
py
  def look(least):
    global total
    total += 1
    local = @(srv.seq)
    if local < least: cont
    return local
break stabilize
  seen = look(20)
  mine = total
""")
    stop = session.run()
    assert stop.kind == "breakpoint" and session.points[1].hits == session.namespace["total"] > 3
    values = session.points[1].handler.values
    assert values["seen"] == session.node.read("srv.seq") >= 20 and values["mine"] == session.namespace["total"]
    assert "local" not in session.namespace and "seen" not in session.namespace


def test_temporary_and_ignored_and_conditional(typed, ring):  # noqa: F811
    session = typed("tbreak process_data\nbreak process_data\nignore 2 3\ncondition 2 packet_header == PACKET_PUT")
    assert session.run().ids == (1,)
    before = session.logical_time
    assert session.run().ids == (2,) and session.node.read("packet_header").name == "PACKET_PUT" and session.logical_time > before
    assert list(session.points) == [2] and session.points[2].hits == 1
