"""The debugger on a recorded ring: stop points on some and on all nodes, what they report, reads at a stop, and a replay
that ends as it was recorded whatever was asked on the way.
"""

import re

import pytest
from debug_support import NODES, break_at, final_state, friday, line_of, opened, plain_end_of, ring, run_to_end  # noqa: F401

pytestmark = pytest.mark.limit(120)


def count_hits(session, location, **options):
    """Runs to the end; how often each node came by."""
    hits = dict.fromkeys(range(NODES), 0)

    def count():
        hits[int(session.node)] += 1

    session.breakpoint(location, count, **options)
    run_to_end(session)
    return hits


def puts_and_gets(ring):
    counts = {}
    for node in range(NODES):
        words = dict(re.findall(r"(\w+)=(\S+)", ring.output(node).splitlines()[-1]))
        counts[node] = int(words["puts"]) + int(words["gets"])
    return counts


plain_end = plain_end_of("ring")


# ---- Breakpoints

def test_breakpoint_by_function_hits_each_time_on_each_node(ring, opened):
    assert count_hits(opened(ring), "process_data") == puts_and_gets(ring)


def test_breakpoint_by_file_and_line(ring, opened):
    assert count_hits(opened(ring), line_of("process.c", "reply.id = packet_id;")) == puts_and_gets(ring)


def test_breakpoint_by_address_is_of_one_node_only(ring, opened):
    session = opened(ring)
    address = int(session.gdb("output/u (unsigned long)&process_data", nodes=2)[2])
    hits = count_hits(session, f"*{address:#x}", nodes=2)
    assert hits == {node: (puts_and_gets(ring)[2] if node == 2 else 0) for node in range(NODES)}


def test_breakpoint_on_some_nodes(ring, opened):
    hits = count_hits(opened(ring), "process_data", nodes="0,2")
    assert hits == {node: (count if node in (0, 2) else 0) for node, count in puts_and_gets(ring).items()}


def test_condition_holds_at_each_hit(ring, opened):
    session = opened(ring)
    gets = []
    session.breakpoint("process_data", lambda: gets.append(session.read(None, "packet_header").name),
                       condition="packet_header == PACKET_GET")
    run_to_end(session)
    assert gets and set(gets) == {"PACKET_GET"}
    assert sum(session.nodes[n].read("srv.gets") for n in range(NODES)) == len(gets)


def test_bad_condition_is_refused_or_stops_and_says_so(ring, opened):
    session = opened(ring)
    with pytest.raises(friday.NoSymbol, match="the condition `no_such_thing > 3`: No symbol"):
        session.breakpoint("process_data", condition="no_such_thing > 3")
    session.breakpoint("process_data", condition="*(int*)16 > 3")
    stop = session.run()
    assert stop.kind == "breakpoint" and stop.message.startswith("the condition of stop point 1 could not be evaluated: ") and "0x10" in stop.message


def test_ignore_lets_hits_pass(ring, opened):
    session = opened(ring)
    seen = []
    point = session.breakpoint("process_data", nodes=0)
    point.set_handler(lambda: seen.append(session.read(None, "packet->request")), stops=False)
    run_to_end(session)
    session.restart()
    everything, seen[:] = list(seen), []
    point.ignore(5)
    run_to_end(session)
    assert seen == everything[5:]


def test_disable_enable_delete(ring, opened):
    session = opened(ring)
    point = session.breakpoint("process_packet", nodes=1)
    first = session.run()
    other = session.breakpoint("process_data", nodes=2)
    point.disable()
    assert session.run().ids == (other.id,)
    point.enable()
    other.delete()
    again = session.run()
    assert again.ids == (point.id,) and again.event > first.event
    point.delete()
    run_to_end(session)
    with pytest.raises(friday.UsageError):
        session.backend.delete(point.id)


def test_two_stop_points_of_one_place_are_one_stop(ring, opened):
    session = opened(ring)
    first = session.breakpoint("process_data")
    second = session.breakpoint("process_data", condition="packet_id != 0")
    third = session.breakpoint("process_data", condition="packet_id == 0")
    assert session.run().ids == (first.id, second.id)
    first.delete(), second.delete(), third.delete()
    run_to_end(session)


def test_locations_that_do_not_exist(ring, opened):
    session = opened(ring)
    for location in ("no_such_function", "process.c:99999", "nofile.c:3"):
        with pytest.raises(friday.NoSymbol):
            session.breakpoint(location)
    assert session.backend.states() == ["not started"] * NODES
    run_to_end(session)


@pytest.mark.parametrize("sync", ["clock", "causal", "free"])
def test_the_way_to_the_first_event_belongs_to_its_turn(ring, opened, plain_end, sync):
    session = opened(ring, sync=sync)
    seen = []
    session.breakpoint("main", lambda hit: seen.append((int(hit.node), [int(node) for node in session.nodes if node.state != "not started"])))
    assert final_state(session) == plain_end
    assert sorted(node for node, _ in seen) == list(range(NODES))
    if sync == "clock":
        assert seen == [(node, list(range(node + 1))) for node in range(NODES)], "each when its time has come"


@pytest.mark.parametrize("sync", ["clock", "causal", "free"])
def test_a_breakpoint_deleted_at_its_first_hit_leaves_no_trap_behind(ring, opened, plain_end, sync):
    session = opened(ring, sync=sync)
    for location in ("main", "process_packet"):
        break_at(session, location)
    assert final_state(session) == plain_end


@pytest.mark.parametrize("sync", ["clock", "causal"])
def test_nodes_stand_at_a_consistent_cut_at_each_stop(ring, opened, sync):
    """Whatever one of them has received by then another has sent."""
    session = opened(ring, sync=sync)
    messages = [m for m in session.messages() if m.source is not None and m.target is not None]
    assert len(messages) > 100
    looks = []

    def look():
        done = [session.backend.event(node) for node in range(NODES)]
        received = [m for m in messages if done[int(m.target)] >= m.target_event]
        sent = sum(done[int(m.source)] >= m.source_event for m in messages)
        looks.append((len(received), sent))
        for m in received:
            assert done[int(m.source)] >= m.source_event, f"{m} is received but not sent"

    session.breakpoint("process_packet", look)
    run_to_end(session)
    assert len(looks) > 100 and any(0 < received < sent for received, sent in looks), "some were on their way"


# ---- Watchpoints

def test_watch_reports_each_change_with_its_values(ring, opened):
    session = opened(ring)
    seen = {node: [] for node in range(NODES)}
    known = {node: {0: None} for node in range(NODES)}  # id of each Node a link pointed at

    def changed(hit):
        node = session.node
        assert hit.expression == "srv.successor" and hit.new == node.read("srv.successor") and hit.old != hit.new
        if hit.new:
            known[node][int(hit.new)] = int(node.read("srv.successor->id"))
        seen[node].append((hit._session.real_time, known[node][int(hit.old)], known[node][int(hit.new)]))

    session.watch("srv.successor", changed)
    run_to_end(session)
    for node in range(NODES):
        printed = ring.changes(node, "successor")
        assert [change[1:] for change in seen[node]] == [change[1:] for change in printed]
        for (at, *_), (said, *_) in zip(seen[node], printed):
            assert abs(at - said) < 0.1
    assert sum(map(len, seen.values())) >= 2 * NODES - 2


def test_watch_of_a_plain_variable(ring, opened):
    session = opened(ring)
    ids = {}
    session.watch("srv.node.id", lambda: ids.setdefault(int(session.node), []).append(int(session.node.read("srv.node.id"))))
    run_to_end(session)
    assert ids == {node.index: [node.id] for node in ring.plan.nodes}


def test_pointer_chain_is_armed_again_link_by_link(ring, opened):
    session = opened(ring)
    seen = {node: [] for node in range(NODES)}
    session.watch("srv.successor->id", lambda hit: seen[int(session.node)].append((hit.old, hit.new)))
    run_to_end(session)
    for node in range(NODES):
        printed = [(old, new) for _, old, new in ring.changes(node, "successor")]
        assert seen[node] == printed  # a NULL link is no value: None


def test_several_expressions_in_one_watch(ring, opened):
    session = opened(ring)
    seen = {node: [] for node in range(NODES)}
    point = session.watch("srv.successor, srv.predecessor", lambda hit: seen[int(session.node)].append(hit.expression))
    run_to_end(session)
    for node in range(NODES):
        for link in ("successor", "predecessor"):
            assert seen[node].count(f"srv.{link}") == len(ring.changes(node, link))
    assert point.hits == sum(map(len, seen.values()))


def test_same_write_is_no_hit(ring, opened):
    """srv.npings is set to 0 at every packet of the predecessor, most often when it is 0 already."""
    session = opened(ring)
    values = []
    session.watch("srv.npings", lambda hit: values.append((hit.old, hit.new)), nodes=0)
    writes = []
    session.breakpoint(line_of("node.c", "if (srv.predecessor && node->id"), lambda: writes.append(1), nodes=0)
    run_to_end(session)
    assert all(old != new for old, new in values)
    assert all(before[1] == after[0] for before, after in zip(values, values[1:]))
    assert 0 < len(values) < len(writes)


def test_one_byte(ring, opened):
    """The lowest byte of a counter changes with each packet."""
    session = opened(ring)
    values = []
    session.watch("*(unsigned char*)&srv.received", lambda hit: values.append(hit.new), nodes=1)
    run_to_end(session)
    received = int(session.nodes[1].read("srv.received"))
    assert [int(v) for v in values] == [n & 255 for n in range(1, received + 1)]


def test_a_page_wide_range(ring, opened):
    """4096 bytes of the table of known nodes: each new Node is written into it."""
    session = opened(ring)
    hits = []
    session.watch("*(char(*)[4096])known", lambda hit: hits.append(hit.location), nodes=1)
    run_to_end(session)
    known = int(session.nodes[1].read("nknown"))
    assert known >= 2 and len(hits) >= 2 * known
    assert all("node_ref" in place or "str" in place or "mem" in place for place in hits), set(hits)


def test_watch_on_one_node_and_condition(ring, opened):
    session = opened(ring)
    seen = []
    session.watch("srv.seq", lambda hit: seen.append((int(session.node), int(hit.new))), nodes=2, condition="srv.seq % 10 == 0")
    run_to_end(session)
    last = int(session.nodes[2].read("srv.seq"))
    assert seen == [(2, n) for n in range(10, last + 1, 10)]


def test_what_cannot_be_watched(ring, opened):
    session = opened(ring)
    for expression in ("srv.nothing", "2 + 1", "is_get(1)"):
        with pytest.raises(friday.Error):
            session.watch(expression)
    run_to_end(session)


# ---- Reads at a stop

def test_reads_of_all_kinds_on_all_nodes(ring, opened):
    session = opened(ring)
    read = session.read
    break_at(session, "process_data", condition="packet_header == PACKET_GET")
    here = session.node
    assert read(None, "packet_header").name == "PACKET_GET" and int(read(None, "packet_header")) == 10
    assert read(None, "packet_id") == read(None, "packet->id") == read(None, "*packet").id
    assert [n.read("srv.name") for n in session.all_nodes] == [n.name for n in session.all_nodes]
    for node in session.all_nodes:
        planned = ring.plan.nodes[int(node)]
        assert node.read("srv.node.id") == planned.id
        assert node.read("srv.node.addr") == f"127.0.0.1:{planned.port}"
        struct = node.read("srv.node")
        assert (struct.id, struct.addr) == (planned.id, f"127.0.0.1:{planned.port}")
        assert len(struct.bytes) == 32 and hash(struct) == hash(node.read("srv.node"))
        successor = node.read("srv.successor")
        assert node.read("*srv.successor").id == node.read("srv.successor->id")
        assert node.read(f"((Node*){int(successor)})->id") == node.read("srv.successor->id")
        assert node.read("srv.sock") > 2 and node.read("sizeof(srv)") == 504
        assert node.read("srv.period == 150 && srv.node.id != 0")
    # Equal values on different nodes are equal values.
    for node in session.all_nodes:
        target = node.read("*srv.successor")
        owner = next(n for n in session.nodes if ring.plan.nodes[int(n)].id == target.id)
        assert owner.read("srv.node") == target
    assert here == session.node


def test_reading_twice_gives_the_same(ring, opened):
    session = opened(ring)
    session.breakpoint("process_data", nodes="1,2")
    for _ in range(5):
        session.run()
        nodes = [node for node in session.all_nodes if node.read("srv.fingers")]
        names = ["srv", "srv.successor", "srv.fingers", "*srv.fingers", "srv.last_message", "known", "srv.received"]
        once = [[node.read(name).bytes if name in ("srv", "known") else node.read(name) for name in names]
                for node in nodes]
        twice = [[node.read(name).bytes if name in ("srv", "known") else node.read(name) for name in names]
                 for node in nodes]
        assert once and once == twice


def test_nodes_that_have_not_started_and_that_have_ended(ring, opened, capsys):
    session = opened(ring)
    late = session.nodes[ring.plan.late]
    break_at(session, "set_successor", nodes=1)
    assert late.state == "not started" and late not in session.all_nodes
    with pytest.raises(friday.NodeNotStarted):
        late.read("srv.node.id")
    gone = next(node.index for node in ring.plan.nodes if node.dies is not None)
    ended = []
    session.on_exit = lambda stop: ended.append((stop.node, stop.message))
    break_at(session, line_of("fault.c", "srv.notify.to = NULL;"))
    run_to_end(session)
    assert (gone, "exited with 0") in ended and len(ended) >= NODES - 1
    node = session.nodes[gone]
    capsys.readouterr()
    assert node.state == "ended" and node.read("srv.node.id") == ring.plan.nodes[gone].id
    assert "has ended" in capsys.readouterr().err
    for change in (lambda: node.write("srv.seq", 1), lambda: node.read('atoid("12")')):
        with pytest.raises(friday.NodeEnded):
            change()


def test_errors_of_expressions(ring, opened):
    session = opened(ring)
    break_at(session, "process_data")
    for expression, error in (("no_such", friday.NoSymbol), ("srv.no_member", friday.NoSymbol), ("1 +", friday.BadExpression),
                              ("*(int*)16", friday.BadAddress), ("((Node*)0)->id", friday.BadAddress)):
        with pytest.raises(error):
            session.read(None, expression)
    with pytest.raises(friday.NoNode):
        session.read(99, "srv")
    with pytest.raises(friday.NoNode):
        session.read("n99", "srv")


# ---- The replay goes on as recorded

@pytest.mark.parametrize("stops", [1, 100])
def test_stops_leave_no_trace(ring, opened, plain_end, stops):
    session = opened(ring)
    done = 0
    point = session.breakpoint("process_packet", condition="srv.received % 3 == 0" if stops > 1 else None)
    watch = session.watch("srv.fingers, srv.predecessor")
    for _ in range(stops):
        stop = session.run()
        assert stop.kind in ("breakpoint", "watch")
        for node in session.all_nodes:
            node.read("srv.successor")
            node.read("srv.last_message")
        if done % 10 == 0:
            session.backtrace()
        done += 1
    point.delete(), watch.delete()
    assert final_state(session) == plain_end


@pytest.mark.parametrize("sync", ["causal", "free"])
def test_other_orders(ring, opened, plain_end, sync):
    session = opened(ring, sync=sync)
    seen = {node: 0 for node in range(NODES)}

    def count():
        seen[int(session.node)] += 1

    session.breakpoint("process_data", count)
    changes = {node: [] for node in range(NODES)}
    session.watch("srv.successor->id", lambda hit: changes[int(session.node)].append((hit.old, hit.new)))
    assert final_state(session) == plain_end
    assert seen == puts_and_gets(ring)
    assert changes == {node: [(old, new) for _, old, new in ring.changes(node, "successor")] for node in range(NODES)}


def test_restart_gives_the_same_again(ring, opened, plain_end):
    session = opened(ring)
    trail = []
    session.watch("srv.successor", lambda hit: trail.append((int(session.node), hit.stop.event, str(hit.stop.logical_time))))
    session.breakpoint("insert_finger", lambda hit: trail.append((int(session.node), hit.stop.event, hit.location)))
    assert final_state(session) == plain_end
    first, trail[:] = list(trail), []
    session.restart()
    assert final_state(session) == plain_end
    assert trail == first and len(first) > 10


def test_subset_of_nodes(ring, opened, plain_end):
    session = opened(ring, nodes="1,2")
    hits = []
    session.breakpoint("process_data", lambda: hits.append(int(session.node)))
    run_to_end(session)
    assert {n: hits.count(n) for n in (1, 2)} == {n: puts_and_gets(ring)[n] for n in (1, 2)} and set(hits) == {1, 2}
    for node in (1, 2):
        assert (session.backend.event(node) + 1, session.backend.state_hash(node)) == plain_end[node]
    with pytest.raises(friday.NoNode):
        session.read(0, "srv")


# ---- Errors that teach

def test_errors_say_what_is_near_where_it_is_and_which_address(ring, opened):
    session = opened(ring)
    break_at(session, "stabilize")
    node = session.node

    def raised(kind, ask, *arguments):
        with pytest.raises(kind) as caught:
            ask(*arguments)
        assert type(caught.value) is kind
        return caught.value

    assert raised(friday.NoSymbol, node.read, "srv.sucessor->id").nearest == "successor"
    assert raised(friday.NoSymbol, node.read, "srvv.successor").nearest == "srv"
    assert raised(friday.NoSymbol, node.write, "srv.sucessor", 1).nearest == "successor"
    assert raised(friday.NoSymbol, node.gdb, "print srv.perod + 0.5").nearest == "period"
    assert raised(friday.NoSymbol, session.breakpoint, "stabilise").nearest == "stabilize"
    assert raised(friday.NoSymbol, session.watch, "srv.sucessor").nearest == "successor"
    assert raised(friday.NoSymbol, node.read, "completely_unlike_anything").nearest is None
    for ask in (node.read, node.gdb):
        scope = raised(friday.OutOfScope, ask, "packet_id" if ask == node.read else "print packet_id")
        assert scope.scopes == ("process_data", "route_data") and "process.c:" in str(scope)
    assert raised(friday.BadAddress, node.read, "*(int*)16").address == 16
    assert raised(friday.BadAddress, node.read, "((Node*)0)->id").address == 0
    assert raised(friday.BadAddress, node.read, "((Node*)64)->id + 0.5").address == 64
    assert raised(friday.BadAddress, node.read, "*(Node*)4096").address == 4096
    assert raised(friday.BadAddress, node.write, "*(int*)16", 1).address == 16
    assert raised(friday.BadAddress, node.gdb, "x 16").address == 16
    assert raised(friday.AtError, session.execute, "x = @((char)@(srv.period))").readings == (
        "gdb's array operator (write `@ (n)` with a blank)", "a cast of a nested read (write `((T)(@(x)))`)")
