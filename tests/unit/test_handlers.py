"""Handlers: whose a name is, `cont`, suites, metavariables, tracebacks; and the published examples, word for word."""
import traceback

import pytest
from fake_backend import Event, FakeBackend

import friday
from friday import commands
from friday.at import AtError
from friday.handlers import compile_script


def console(names=("a", "b"), events=(), **variables):
    backend = FakeBackend(names, events)
    session = friday.Session(backend, console=True)
    friday.session = session
    return session, backend


def do(session, text):
    shown = []
    commands.execute(session, text, show=shown.append)
    return shown


# -- whose a name is --------------------------------------------------------------------------------------------------
def test_names_declared_by_py_are_the_sessions_and_others_persist():
    session, backend = console(events=[Event(0, "f"), Event(1, "f"), Event(0, "f")])
    do(session, """
py total = 0
break f
  total += 1
  try:
    mine += 1
  except NameError:
    mine = 10
  cont
""")
    assert session.run().kind == "end"
    assert session.namespace["total"] == 3
    assert "mine" not in session.namespace
    assert session.points[1].handler.values == {"mine": 12}


def test_two_handlers_do_not_share_their_names():
    session, _ = console(events=[Event(0, "f"), Event(0, "g")])
    do(session, """
py seen = []
break f
  n = 1
  cont
break g
  try:
    n
  except NameError:
    seen.append("unset")
  n = 2
  cont
""")
    session.run()
    assert session.namespace["seen"] == ["unset"]
    assert [p.handler.values for p in session.points.values()] == [{"n": 1}, {"n": 2}]


def test_a_name_declared_after_the_handler_becomes_the_sessions():
    session, _ = console(events=[Event(0, "f"), Event(0, "f"), Event(0, "stop"), Event(0, "f")])
    do(session, "break f\n  n = 1\n  kept = __NODE__\n  cont\nbreak stop\n")
    assert session.run().location == "stop"
    do(session, "py n = 7")
    session.run()
    assert session.namespace["n"] == 1
    assert session.points[1].handler.values == {"kept": 0}


def test_a_name_without_value_is_explained():
    session, _ = console(events=[Event(0, "f")])
    do(session, "break f\n  count += 1\n  cont\n")
    with pytest.raises(NameError) as caught:
        session.run()
    assert any("`py count = ...`" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("binding", [
    "for n in [3]: pass", "with open('/dev/null') as n: pass", "import os as n", "def n(): pass", "class n: pass",
    "(n := 3)", "[n := i for i in [3]]", "n, *m = 1, 2", "match 3:\n    case n: pass", "n: int = 3"])
def test_all_ways_to_bind_a_name(binding):
    session, _ = console(events=[Event(0, "f"), Event(0, "f")])
    do(session, f"py hits = 0\nbreak f\n  {binding}\n  hits += 1\n  cont\n")
    session.run()
    assert "n" in session.points[1].handler.values and session.namespace["hits"] == 2
    assert "n" not in session.namespace and "i" not in session.points[1].handler.values


def test_names_of_functions_inside_a_handler_are_local():
    session, _ = console(events=[Event(0, "f")])
    do(session, "break f\n  def g():\n    inner = 1\n    return inner\n  x = g()\n  cont\n")
    session.run()
    assert session.points[1].handler.values.keys() == {"g", "x"}


# -- stop or go -------------------------------------------------------------------------------------------------------
def test_a_console_handler_stops_unless_it_executes_cont():
    session, backend = console(events=[Event(0, "f"), Event(0, "f")])
    do(session, "py n = 0\nbreak f\n  n += 1\n  if n == 2: cont\n")
    assert session.run().location == "f"
    assert session.run().kind == "end"
    assert session.namespace["n"] == 2


def test_cont_ends_the_handler_there_also_in_a_function():
    session, _ = console(events=[Event(0, "f"), Event(0, "f")])
    do(session, """
py seen = []
py
  def leave():
    seen.append(1)
    cont
    seen.append(2)
break f
  try:
    leave()
  except Exception:
    seen.append(3)
  seen.append(4)
""")
    assert session.run().kind == "end"
    assert session.namespace["seen"] == [1, 1]


def test_several_handlers_run_in_id_order_and_any_stop_wins():
    session, _ = console(events=[Event(0, "f")])
    do(session, """
py seen = []
break f
  seen.append(1)
  cont
break f
  seen.append(2)
break f
  seen.append(3)
  cont
""")
    assert session.run().ids == (1, 2, 3)
    assert session.namespace["seen"] == [1, 2, 3]


def test_a_handler_may_delete_itself_and_those_after_it():
    session, backend = console(events=[Event(0, "f"), Event(0, "f")])
    do(session, """
py seen = []
break f
  seen.append(__HIT__.id)
  session.delete(__HIT__.id)
  session.delete(2)
  cont
break f
  seen.append("never")
""")
    assert session.run().kind == "end"
    assert session.namespace["seen"] == [1] and not session.points and not backend.points


def test_cont_outside_of_a_handler_is_an_error():
    session, _ = console()
    with pytest.raises(friday.UsageError, match="ends a handler"):
        do(session, "py cont")


def test_a_handler_cannot_yield():
    session, backend = console()
    with pytest.raises(AtError, match="cannot yield"):
        do(session, "break f\n  yield 1\n")
    assert not session.points and not backend.points


# -- metavariables ----------------------------------------------------------------------------------------------------
def test_metavariables_inside_and_outside():
    session, backend = console(("a", "b", "c"), [Event(1, "f", {"x": 5}), Event(1, None, {"x": 6})])
    backend.state[2] = "ended"
    do(session, """
py seen = {}
break f
  seen.update(node=__NODE__, all=__ALL__, every=__EVERY__, time=(__LOGICALCLOCK__, __VCLOCK__), real=__REALCLOCK__)
  seen["inside"] = (@(__REALCLOCK__), @0(__REALCLOCK__), [@n(__REALCLOCK__) for n in __ALL__],
                    @(__VCLOCK__), @0(__NODE__))
  seen["text"] = f"{__NODE__} {__NODE__.name} {@(x)}"
  cont
watch x
  seen["hit"] = __HIT__.id, __HIT__.expression, __HIT__.old, __HIT__.new, __HIT__.thread, __HIT__.location
  cont
""")
    session.run()
    seen = session.namespace["seen"]
    assert (seen["node"], seen["all"], seen["every"], seen["time"]) == (1, (0, 1), (0, 1, 2), (1, 1))
    assert seen["real"] == 1001.01
    assert seen["inside"] == (1001.01, 1001.0, [1001.0, 1001.01], 1, 0)
    assert seen["text"] == "1 b 5"
    assert seen["hit"] == (2, "x", 5, 6, 0, None)


# -- suites -----------------------------------------------------------------------------------------------------------
def test_suites_capture_values_and_keep_their_own_names():
    session, backend = console(events=[Event(0, "f", {"x": 1}), Event(1, "f", {"x": 2}), Event(0, None, {"y": 1}),
                                       Event(0, None, {"y": 2}), Event(1, None, {"y": 9})])
    do(session, """
py seen = []
break f
  n = @(x)
  watchpoint(["y"], v=n):
    try:
      hits += 1
    except NameError:
      hits = 1
    seen.append((__NODE__, v, hits, n))
    v += 100
    cont
  cont
""")
    assert session.run().kind == "end"
    assert session.namespace["seen"] == [(0, 1, 1, 2), (0, 101, 2, 2), (1, 2, 1, 2)]
    assert [p.nodes for p in session.points.values()] == [(0, 1), (0,), (1,)]


def test_nodes_and_condition_restrict_a_suite_as_they_do_without_one():
    session, backend = console(names=("a", "b", "c"), events=[Event(0, "f"), Event(1, None, {"y": 1}), Event(2, None, {"y": 5}), Event(0, None, {"y": 6})])
    backend.conditions["y > 3"] = lambda node: node == 2
    do(session, """
py seen = []
break f
  wanted = "c"
  watchpoint(["y"], nodes=wanted, condition="y > 3", n=7)
    seen.append((__NODE__, n)); cont
  cont
""")
    session.run()
    assert session.namespace["seen"] == [(2, 7)]
    point = session.points[2]
    assert point.nodes == (2,) and point.condition == "y > 3"


def test_suites_nest_at_any_depth_and_have_ids():
    session, _ = console(events=[Event(0, "f"), Event(0, "g"), Event(0, "h"), Event(0, "h")])
    do(session, """
py seen = []
break f
  if True:
    first = breakpoint("g")
      second = breakpoint("h", outer=first.id)
        seen.append((outer, __HIT__.id))
        session.delete(__HIT__.id); cont
      cont
  cont
""")
    session.run()
    assert session.namespace["seen"] == [(2, 3)]


# -- errors -----------------------------------------------------------------------------------------------------------
def test_an_exception_shows_the_handlers_own_line_and_where_the_group_stood():
    session, _ = console(events=[Event(1, None, {"x": 1})])
    do(session, "watch x\n  a = 1\n\n  b = a / (@(x) - 1)\n  cont\n")
    with pytest.raises(ZeroDivisionError) as caught:
        session.run()
    text = "".join(traceback.format_exception(caught.value))
    assert 'File "<watch 1>", line 4, in watch 1' in text
    assert "b = a / (@(x) - 1)" in text and "        ^^^^^^^^^^^^^^" in text
    assert caught.value.__notes__ == ["in the handler of watch 1 (x) on node 1 (b) at 1 s, x changed"]


@pytest.mark.parametrize("script, line", [("\n  limit = 3\nlimit = 4\n", 2), ("  limit = 3\nelse:\n  pass\n", 1)])
def test_a_script_that_begins_with_an_indent_is_refused(script, line):
    """What stands behind the first block was not executed, without a word."""
    with pytest.raises(IndentationError) as error:
        compile_script(script, "s.py")
    assert (error.value.filename, error.value.lineno) == ("s.py", line)


def test_errors_of_syntax_have_the_line_of_the_text():
    session, _ = console()
    with pytest.raises(AtError) as caught:
        do(session, "# a\nbreak f\n  x = 1\n  @(x += 1)\n")
    assert caught.value.lineno == 4 and not session.points


# -- the published examples -------------------------------------------------------------------------------------------
def test_empty_successors():
    session, _ = console(events=[Event(0, None, {"srv.successor": 5}), Event(0, None, {"srv.successor": 0}),
                                 Event(1, None, {"srv.successor": 0})])
    do(session, """
py emptySuccessors = 0
watch srv.successor
  if not @(srv.successor):
    emptySuccessors += 1
  cont
""")
    assert session.run().kind == "end"
    assert session.namespace["emptySuccessors"] == 2


def test_nodes_by_application_id():
    session, backend = console(events=[Event(0, None, {"srv.node.id": 70}), Event(1, None, {"srv.node.id": 90})])
    do(session, """
py nodes = {}
watch srv.node.id
  nodes[@(srv.node.id)] = __NODE__
  cont
""")
    session.run()
    assert session.namespace["nodes"] == {70: 0, 90: 1}
    backend.let(1, {"x": 42})
    do(session, "map chord nodes\npy v = @chord[90](x)")
    assert session.namespace["v"] == 42 and session.namespace["chord"][70] == 0


def test_swap_x_here_and_y_there():
    session, backend = console(events=[Event(0, "here")])
    backend.let(0, {"x": 3, "f": backend.raw(0x40, "struct Node *"), "a": backend.raw(bytes(16), "struct Node"),
                    "b": 1, "c": "say \"hi\""})
    backend.let(1, {"y": 4})
    backend.functions.update(add_finger=lambda node, f, n: 0, is_between=lambda node, a, b, c: 1)
    do(session, """
py other = 1
py n = 2
break here
# swap x here and y there
  tempX = @(x)
  tempY = @other(y)
  @(x=%(tempY)d)
  @other(y=%(tempX)d)
  @(add_finger(@(f), %(n)d))
  safe @(is_between(@(a), @(b), @(c)))
  cont
""")
    assert session.run().kind == "end"
    assert backend.log[:3] == [(0, "x = 4"), (1, "y = 3"), (0, "add_finger(((struct Node *)0x40), 2)")]
    node, call = backend.log[3]
    assert call.startswith("is_between((*(struct Node *)0x") and call.endswith('), 1, "say \\"hi\\"")')
    assert session.altered.keys() == {0, 1}


def test_4_1_1_which_node_served_the_put_and_the_get():
    def packet(node, number, get, id_):
        return Event(node, "process_data", {"packet_id": number, "packet_header": int(get), "srv.node.id": id_})
    session, _ = console(events=[packet(0, 7, True, 100), packet(1, 7, False, 200), packet(0, 8, False, 300)])
    do(session, """
py failing_id = 7
py is_get = lambda header: header == 1
py getNode = None
py putNode = None
break process_data
  if @(packet_id) == failing_id:
    if is_get(@(packet_header)):
      getNode = @(srv.node.id)
    else:
      putNode = @(srv.node.id)
  cont
""")
    assert session.run().kind == "end"
    assert (session.namespace["getNode"], session.namespace["putNode"]) == (100, 200)


def test_4_1_2_misdelivered_requests(capsys):
    session, backend = console(events=[
        Event(0, "chord.c:58", {"(char*)id": "17"}), Event(1, "chord.c:58", {"(char*)id": "42"}),
        Event(0, "process.c:69", {"packet_id": 3, "successor->id": 90}),
        Event(0, "process.c:69", {"packet_id": 8, "successor->id": 90})])

    def is_between(node, workspace, packet, successor):
        assert (workspace, packet, successor) == ("(chordID*)&_friday_workspace", "8", "&successor->id")
        return int(backend.variables[node]["(chordID)_friday_workspace"][1][0] == 42)
    backend.functions.update(atoid=lambda node, text: int(text.strip('"')), is_between=is_between)
    text = """
py failing_id = 8
py ids = {}
break chord.c:58
  ids[__NODE__] = @((char*)id)
  cont
break process.c:69
  if @(packet_id) != failing_id:
    cont
  for peer in __ALL__:
    @((chordID)_friday_workspace = atoid("%(ids[peer])s"))
    if @(is_between((chordID*)&_friday_workspace, @(packet_id), &successor->id)):
      print("Request %s misdelivered to %s" % (@(packet_id), @(successor->id)))
  cont
"""
    do(session, text)
    assert session.run().kind == "end"
    assert session.namespace["ids"] == {0: "17", 1: "42"}
    assert [entry[1] for entry in backend.log if "workspace =" in entry[1]] == [
        '(chordID)_friday_workspace = atoid("17")', '(chordID)_friday_workspace = atoid("42")']
    assert capsys.readouterr().out == "Request 8 misdelivered to 90\n"


def test_4_1_3_asymmetric_links(capsys):
    session, backend = console(events=[
        Event(0, None, {"srv.successor": 1, "srv.successor->id": 20}),
        Event(1, None, {"srv.successor": 1, "srv.successor->id": 10})])
    backend.let(0, {"srv.node.id": 10, "srv.predecessor->id": 20})
    backend.let(1, {"srv.node.id": 20, "srv.predecessor->id": 99})
    do(session, """
py nodes = {10: 0, 20: 1}
watch srv.successor
  successor_id = @(srv.successor->id)
  if @(srv.node.id) != @nodes[successor_id](srv.predecessor->id):
    print(__NODE__, "'s successor link is asymmetric.")
  cont
""")
    assert session.run().kind == "end"
    assert capsys.readouterr().out == "0 's successor link is asymmetric.\n"


def test_4_1_4_share_of_time_in_an_inconsistent_state():
    def link(node, successor, predecessor, seconds):
        return Event(node, None, {"srv.successor": seconds, "srv.successor->id": successor, "srv.predecessor": seconds,
                                  "srv.predecessor->id": predecessor}, float(seconds))
    session, backend = console(events=[link(0, 20, 20, 2), link(1, 10, 10, 3), link(0, 20, 20, 5),
                                       link(1, 10, 20, 7), link(1, 10, 10, 11)])
    for node, id_ in ((0, 10), (1, 20)):
        backend.let(node, {"srv.node.id": id_, "srv.predecessor->id": 99, "srv.successor->id": 30 - id_})
    do(session, """
py nodes = {10: 0, 20: 1}
py consistent = {}
py lastEventTime = {}
py consistentTimes = inconsistentTimes = 0
py
  for id in nodes:
    consistent[id] = False
    lastEventTime[id] = @nodes[id](__REALCLOCK__)
watch srv.successor, srv.predecessor
  myID = @(srv.node.id)
  successorID = @(srv.successor->id)
  predecessorID = @(srv.predecessor->id)
  if not (@nodes[successorID](srv.predecessor->id) == @nodes[predecessorID](srv.successor->id) == myID):
    if consistent[myID]:
      consistentTimes += @(__REALCLOCK__) - lastEventTime[myID]
      consistent[myID] = False
      lastEventTime[myID] = @(__REALCLOCK__)
  else:
    if not consistent[myID]:
      inconsistentTimes += @(__REALCLOCK__) - lastEventTime[myID]
      consistent[myID] = True
      lastEventTime[myID] = @(__REALCLOCK__)
  cont
""")
    assert session.run().kind == "end"
    space = session.namespace
    assert space["consistent"] == {10: True, 20: True}
    assert space["inconsistentTimes"] == pytest.approx(5 + 10 + 11) and space["consistentTimes"] == pytest.approx(12)


def test_4_1_5_oscillation():
    session, _ = console(events=[
        Event(0, "insert_finger", {"addr": 50, "srv.node.addr": 1}), Event(0, "remove_finger", {"f->node.addr": 50}),
        Event(0, "insert_finger", {"addr": 50}), Event(0, "insert_finger", {"addr": 50})])
    do(session, """
py routeEvents = {1: {}}
break remove_finger
  finger = @(f->node.addr)
  events = routeEvents[@(srv.node.addr)]
  if finger not in events:
    events[finger] = []
  events[finger].append(("DOWN", __LOGICALCLOCK__))
  cont
break insert_finger
  finger = @(addr)
  events = routeEvents[@(srv.node.addr)]
  if finger in events:
    lastEvent, time = events[finger][-1]
    if lastEvent == "DOWN":
      events[finger].append(("UP", __LOGICALCLOCK__))
  cont
""")
    assert session.run().kind == "end"
    assert session.namespace["routeEvents"] == {1: {50: [("DOWN", 2), ("UP", 3)]}}
    assert session.points[2].handler.values["time"] == 3


MATRIX = """
py
  def zero_matrix(rows, columns):
    return [[0] * columns for _ in range(rows)]
"""


def test_4_2_1_connectivity_graph_by_nested_watchpoints_and_4_2_2_disjoint_paths():
    session, backend = console(("n0", "n1"))
    node0, node1 = backend.raw(0x5000, "struct Node *"), backend.raw(0x6000, "struct Node *")
    backend.events = [
        Event(0, "server.cpp:355", {"&((*(i->_M_node))->status)": backend.raw(0x5008, "struct Node *"),
                                    "(*(i->_M_node))": node0, "server->id": 0, "server->k": 1}),
        Event(1, "server.cpp:355", {"&((*(i->_M_node))->status)": backend.raw(0x6008, "struct Node *"),
                                    "(*(i->_M_node))": node1, "server->id": 1, "server->k": 9}),
        Event(0, None, {"*20488": 1, "(((Neighbor*)(20480))->status)": 1, "(((Neighbor*)(20480))->id)": 1}),
        Event(1, None, {"*24584": 1, "(((Neighbor*)(24576))->status)": 0, "(((Neighbor*)(24576))->id)": 0}),
        Event(1, None, {"*24584": 2, "(((Neighbor*)(24576))->status)": 1, "(((Neighbor*)(24576))->id)": 0}),
    ]
    text = MATRIX + """
py graph = zero_matrix(10, 10)
break server.cpp:355
  neighbor_pointer = "(*(i->_M_node))"
  neighbor_status_addr = @(&(%(neighbor_pointer)s->status))
  watchpoint(["*%d" % neighbor_status_addr], np=@(%(neighbor_pointer)s))
    status = @((((Neighbor*)(%(np)d))->status))
    neighbor_id = @((((Neighbor*)(%(np)d))->id))
    my_id = @(server->id)
    if status > 0:
      graph[my_id][neighbor_id] = 1
      compute_disjoint_paths()
    cont
  cont

py vertex_disjoint_paths = lambda graph, a, b: [b] if graph[a][b] else []
# 4.2.2 disjoint paths
py time_found_k_paths = zero_matrix(10, 10)
py
  def compute_disjoint_paths():
    my_id = @(server->id)
    k = @(server->k)
    for sink in range(len(graph)):
      if len(vertex_disjoint_paths(graph, my_id, sink)) >= k:
        time_found_k_paths[my_id][sink] = __VCLOCK__
"""
    do(session, text)
    assert session.run().kind == "end"
    graph, found = session.namespace["graph"], session.namespace["time_found_k_paths"]
    assert (graph[0][1], graph[1][0], sum(map(sum, graph))) == (1, 1, 2)
    assert found[0][1] == 3 and sum(map(sum, found)) == 3
    assert [(p.kind, p.nodes) for p in session.points.values()] == [
        ("breakpoint", (0, 1)), ("watch", (0,)), ("watch", (1,))]
