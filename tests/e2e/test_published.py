"""The published examples of the language, typed as they were printed, on the recorded ring: the console carries out the text, and
what it finds is compared with what the programs printed or with the same question in plain Python.

Lines that an example takes for granted (`failing_id`, a dictionary with an entry a node) are typed before it.
"""

import os
import re

import pytest
from debug_support import BUILD, NODES, break_at, friday, opened, ring  # noqa: F401
from friday.commands import execute

pytestmark = pytest.mark.limit(120)

EMPTY_SUCCESSORS = """
py emptySuccessors = 0
watch srv.successor
  if not @(srv.successor):
    emptySuccessors += 1
  cont
"""

NODES_BY_ID = """
py nodes = {}
watch srv.node.id
  nodes[@(srv.node.id)] = __NODE__
  cont
"""

SWAP = """
break here
# swap x here and y there
  tempX = @(x)
  tempY = @other(y)
  @(x=%(tempY)d)
  @other(y=%(tempX)d)
  @(add_finger(@(f), %(n)d))
  safe @(is_between(@(a), @(b), @(c)))
"""

PUT_AND_GET = """
py getNode = None
py putNode = None
break process_data
  if @(packet_id) == failing_id:
    if is_get(@(packet_header)):
      getNode = @(srv.node.id)
    else:
      putNode = @(srv.node.id)
  cont
"""

MISDELIVERED = """
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

ASYMMETRIC = """
watch srv.successor
  successor_id = @(srv.successor->id)
  if @(srv.node.id) != @nodes[successor_id](srv.predecessor->id):
    print(__NODE__, "'s successor link is asymmetric.")
  cont
"""

TIME_INCONSISTENT = """
py consistent = {}
py lastEventTime = {}
py consistentTimes = inconsistentTimes = 0
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
"""

OSCILLATION = """
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
"""


@pytest.fixture
def typed(opened, ring):  # noqa: F811
    """typed(TEXT): a session of the console in which these lines were carried out, and all that was answered."""
    def run(text):
        session = opened(ring, console=True)
        execute(session, text, show=lambda line: None)
        return session
    return run


def test_empty_successors(typed, ring):  # noqa: F811
    session = typed(EMPTY_SUCCESSORS)
    assert session.run().kind == "end"
    gone = [change for node in range(NODES) for change in ring.changes(node, "successor") if change[2] is None]
    assert session.namespace["emptySuccessors"] == len(gone)
    assert sum(len(ring.changes(node, "successor")) for node in range(NODES)) == session.points[1].hits > NODES


def test_nodes_by_application_id(typed, ring):  # noqa: F811
    session = typed(NODES_BY_ID)
    assert session.run().kind == "end"
    assert session.namespace["nodes"] == {node.id: node.index for node in ring.plan.nodes}
    execute(session, "map chord nodes")
    assert [session.namespace["chord"][node.id].name for node in ring.plan.nodes] == [node.name for node in ring.plan.nodes]


def test_swap_x_here_and_y_there(recorder, opened):  # noqa: F811
    program = BUILD / "targets" / "swap"
    for fifo in ("there", "back"):
        os.mkfifo(recorder.directory / fifo)
    recording = recorder.group({"group": {}, "node": [{"name": name, "command": [program, which], "cwd": str(recorder.directory)}
                                                      for name, which in (("other", "first"), ("here", "second"))]})
    session = opened(recording, console=True)
    execute(session, "py other = session.nodes['other']\npy n = 12\n" + SWAP.replace("break here", "1 break here") + "  cont\n", show=lambda line: None)
    with pytest.raises(friday.Divergence, match="altered"):  # the program looks at its variables
        session.run()
    other, here = session.nodes
    assert (here.read("x"), here.read("y"), other.read("x"), other.read("y")) == (4, 4, 3, 3)
    assert here.read("fingers").count == 1 and here.read("fingers.hops[0]") == 12 and set(session.altered) == {here, other}


def served(session):
    """(node, id, is a get) of each put and get, in the order in which they were served."""
    found = []
    session.breakpoint("process_data", lambda hit: found.append(
        (hit.node.id, int(hit.node.read("packet_id")), hit.node.read("packet_header").name == "PACKET_GET")))
    assert session.run().kind == "end"
    return found


def test_4_1_1_which_node_served_the_put_and_the_get(typed, opened, ring):  # noqa: F811
    requests = served(opened(ring))
    failing = next(id for _, id, get in requests if get and any(other == id and not other_get for _, other, other_get in requests))
    session = typed(f"py failing_id = {failing}\npy is_get = lambda header: header.name == 'PACKET_GET'\n" + PUT_AND_GET)
    assert session.run().kind == "end"
    last = {get: ring.plan.nodes[node].id for node, id, get in requests if id == failing}
    assert (session.namespace["getNode"], session.namespace["putNode"]) == (last[True], last[False])


def test_4_1_2_misdelivered_requests(typed, opened, ring, capsys):  # noqa: F811
    ids = {node.index: node.id for node in ring.plan.nodes}
    wrong = []  # (request, successor), once for each node between them that is alive

    def forwarded(hit):
        request, successor = int(hit.node.read("packet_id")), int(hit.node.read("successor->id"))
        for peer in hit._session.all_nodes:
            if 0 < (ids[peer] - request) % 2**64 < (successor - request) % 2**64:
                wrong.append((request, successor))
    plain = opened(ring)
    plain.breakpoint("process.c:69", forwarded)
    assert plain.run().kind == "end"
    assert wrong, "the fault misdelivers requests"
    failing = wrong[0][0]
    session = typed(f"py failing_id = {failing}\n" + MISDELIVERED)
    capsys.readouterr()
    assert session.run().kind == "end"
    expected = [f"Request {request} misdelivered to {successor}" for request, successor in wrong if request == failing]
    assert capsys.readouterr().out.splitlines() == expected
    assert session.namespace["ids"] == {node.index: f"{node.id:016x}" for node in ring.plan.nodes}
    assert not session.altered, "what only writes the workspace and calls functions that write nothing alters no node"


def test_4_1_3_asymmetric_links(typed, opened, ring, capsys):  # noqa: F811
    def of(id):
        return next(node.index for node in ring.plan.nodes if node.id == id)
    expected = []
    plain = opened(ring)

    def changed(hit):
        if hit.node.read("srv.node.id") != plain.nodes[of(hit.node.read("srv.successor->id"))].read("srv.predecessor->id"):
            expected.append(f"{hit.node} 's successor link is asymmetric.")
    plain.watch("srv.successor", changed)
    assert plain.run().kind == "end"
    session = typed(NODES_BY_ID + ASYMMETRIC)
    capsys.readouterr()
    assert session.run().kind == "end"
    said = capsys.readouterr().out.splitlines()
    assert said == expected and f"{ring.plan.victim} 's successor link is asymmetric." in said


def times_in_state(session, plan):
    """Example 4.1.4 in plain Python: ({id: in step at the end}, seconds in step, seconds out of step). Time counts from the first event."""
    of = {node.id: node.index for node in plan.nodes}
    break_at(session, "main")
    state, spent = {node.id: (False, session.nodes.all[0].real_time) for node in plan.nodes}, {True: 0.0, False: 0.0}

    def changed(hit):
        me = hit.node.read("srv.node.id")
        after, before = (session.nodes[of[hit.node.read(f"srv.{link}->id")]] for link in ("successor", "predecessor"))
        mutual = after.read("srv.predecessor->id") == me and before.read("srv.successor->id") == me
        was, since = state[me]
        if mutual != was:
            now = hit.node.real_time
            spent[was] += now - since
            state[me] = mutual, now
    session.watch(["srv.successor", "srv.predecessor"], changed)
    assert session.run().kind == "end"
    return {id: mutual for id, (mutual, _) in state.items()}, spent[True], spent[False]


def test_4_1_4_share_of_time_in_an_inconsistent_state(typed, opened, ring):  # noqa: F811
    consistent, in_step, out_of_step = times_in_state(opened(ring), ring.plan)
    assert not consistent[ring.plan.nodes[ring.plan.victim].id] and in_step > 0 and out_of_step > 0
    start = {node.id: f"consistent[{node.id}], lastEventTime[{node.id}] = False, session.nodes.all[0].real_time"
             for node in ring.plan.nodes}
    given = "".join(f"py nodes[{node.id}] = {node.index}\n" for node in ring.plan.nodes)
    lines = TIME_INCONSISTENT.strip().split("\n")
    text = "\n".join(["py nodes = {}", given, "tbreak main"])
    session = typed(text)
    assert session.run().kind == "breakpoint"
    execute(session, "\n".join([*lines[:3], *(f"py {line}" for line in start.values()), *lines[3:]]), show=lambda line: None)
    assert session.run().kind == "end"
    space = session.namespace
    assert space["consistent"] == consistent
    assert (space["consistentTimes"], space["inconsistentTimes"]) == pytest.approx((in_step, out_of_step), rel=1e-12)


def test_4_1_5_oscillation(typed, ring):  # noqa: F811
    empty = {f"127.0.0.1:{node.port}": {} for node in ring.plan.nodes}
    session = typed(f"py routeEvents = {empty!r}\n" + OSCILLATION)
    assert session.run().kind == "end"
    for node in ring.plan.nodes:
        events = session.namespace["routeEvents"][f"127.0.0.1:{node.port}"]
        downs = ring.fingers(node.index, "down")
        assert {addr: [what for what, _ in seen].count("DOWN") for addr, seen in events.items()} == {a: downs.count(a) for a in downs}
        for addr, seen in events.items():
            ups = [line for line in re.findall(r"finger (up|down) (\S+)", ring.output(node.index)) if line[1] == addr]
            after = [direction.upper() for direction, _ in ups[[d for d, _ in ups].index("down"):]]
            assert [what for what, _ in seen][:len(after)] == after and [time for _, time in seen] == sorted(time for _, time in seen)
    assert any(session.namespace["routeEvents"].values())
