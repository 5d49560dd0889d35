"""The session: nodes, stop points and running from plain Python, `friday run` with its exit codes, and commands."""
import io
import json

import pytest
from fake_backend import Event, FakeBackend, FakeStop, Info, Message

import friday
from friday import commands


def make(names=("a", "b"), events=(), console=False, **more):
    backend = FakeBackend(names, events, **more)
    session = friday.Session(backend, console=console)
    friday.session = session
    return session, backend


# -- nodes ------------------------------------------------------------------------------------------------------------
RING = ("n0", "redis-1", "redis-2", "redis-1/child-1", "redis-1#2", "web")


@pytest.fixture
def ring():
    session, backend = make(RING)
    backend.state[:] = ["alive", "ended", "alive", "alive", "alive", "not started"]
    return session


@pytest.mark.parametrize("text,every,ids", [
    ("0", False, [0]), ("0,4", False, [0, 4]), ("0-5,!3", False, [0, 1, 2, 4, 5]), ("!3", False, [0, 2, 4]),
    ("redis-*", False, [2, 3, 4]), ("redis-*", True, [1, 2, 3, 4]), ("redis-?", False, [2, 4]),
    ("all", False, [0, 2, 3, 4]),
    ("redis-1", False, [4]), ("redis-1", True, [1, 4]), ("redis-1#2", True, [4]), ("redis-1/child-1", True, [3]),
    ("n0, web", False, [0, 5]), ("1", False, [1])])
def test_node_lists(ring, text, every, ids):
    assert ring.nodes.parse(text, every) == tuple(ids)


def test_bad_node_lists_say_what_is_wrong(ring):
    for text, message in (("redis-3", "the nearest is `redis-"), ("9", "nodes 0 to 5"), ("4-9", "no node 6-9, which `4-9` names; the recording has nodes 0 to 5"), ("3-1", "names no node"),
                          ("0,,1", "empty item"), ("x*", "names no node")):
        with pytest.raises(friday.Error, match=message):
            ring.nodes.parse(text)


def test_a_node_is_its_id(ring):
    node = ring.nodes["redis-1"]
    assert node == 4 and {node: 1}[4] == 1 and (node.name, node.state, node.id) == ("redis-1#2", "alive", 4)
    assert str(node) == "4" and repr(node) == "<node 4 redis-1#2>" and ring.nodes[4] is node and len(ring.nodes) == 6
    assert ring.nodes["4"] is node and ring.nodes[0] and not ring.nodes[0].id and ring.nodes[0] != node and ring.nodes[0] is not None is not (ring.nodes[0] == None)  # noqa: E711
    for compare in (lambda: node == "redis-1", lambda: node != "redis-1", lambda: "redis-1" == node):
        with pytest.raises(friday.UsageError, match="a node was compared with the text 'redis-1', which no node equals: compare node.name"):
            compare()
    with pytest.raises(TypeError, match="for several nodes write"):
        ring.nodes[(0, 1)]


def test_reads_writes_and_calls_have_a_plain_spelling():
    session, backend = make()
    backend.let(1, {"x": 7, "s": "text", "n": backend.raw(bytes(16), "struct Node")})
    backend.functions["f"] = lambda node, *args: len(args)
    node = session.nodes["b"]
    assert (node.read("x"), node.eval("s"), node.read("n").id) == (7, "text", 0)
    node.write("x", 8)
    node.write("s", "new")
    node.write("n", node.read("n"))
    assert node.call("f", 1, "a", node.read("x")) == 3
    assert backend.log == [(1, "x = 8"), (1, 's = "new"'), (1, "n", bytes(16)), (1, 'f(1, "a", 8)')]
    assert session.altered == {1: 0} and node.altered == 0
    assert node.backtrace() == "#0 main () at prog.c:1\n" and node.gdb("bt") == "gdb bt\n"
    assert session.gdb("bt", nodes="b") == {1: "gdb bt\n"}


def test_the_node_of_a_read():
    session, backend = make(("a", "b#2"), started=(0,))
    backend.let(0, {"x": 1})
    session.execute("v = @(x), @0(x), @'a'(x), @session.nodes[0](x)")
    assert session.namespace["v"] == (1, 1, 1, 1)
    for source, error in (("@7(x)", friday.NoNode), ("@'c'(x)", friday.NoNode), ("@1(x)", friday.NodeNotStarted),
                          ("@'b'(x)", friday.NodeNotStarted), ("@__ALL__(x)", TypeError), ("@(y)", friday.NoSymbol)):
        with pytest.raises(error):
            session.execute(source)
    with pytest.raises(friday.NoSymbol, match="node 0: no symbol \"y\".*the nearest is `x`"):
        session.execute("@(y)")


def test_an_ended_node_is_read_at_its_last_state_and_says_so(capsys):
    session, backend = make(events=[Event(1, None, {"x": 3}), Event(1, ends=True), Event(0, "f")])
    session.breakpoint("f")
    session.run()
    assert (session.nodes[1].read("x"), session.nodes[1].read("x")) == (3, 3)
    assert capsys.readouterr().err == "friday: node 1 (b) has ended: these are its last values\n"
    assert session.all_nodes == (0,) and session.every_node == (0, 1)
    with pytest.raises(friday.NodeEnded):
        session.nodes[1].write("x", 1)


def test_plans_are_kept_and_the_oldest_forgotten(monkeypatch):
    monkeypatch.setattr("friday.language._KEEP_PLANS", 10)
    session, backend = make()
    for i in range(30):
        backend.let(0, {f"a[{i}]": i})
    session.execute("for i in range(30):\n  assert @(a[%(i)d]) == i and @(a[0]) == 0\nfor i in range(5): @(a[29])")
    assert len(backend.plans) < 40 and len(session.plans) <= 10
    assert sorted(p for p in backend.plans if p) == sorted(session.plans)


# -- stop points and running ------------------------------------------------------------------------------------------
def test_decorators_and_functions_go_on_unless_stop_is_called():
    session, backend = make(events=[Event(0, "f"), Event(1, "f"), Event(0, None, {"x": 1}), Event(0, None, {"x": 2})])
    seen = []

    @session.breakpoint("f", nodes="b")
    def at_f():
        seen.append(("f", session.node.name))

    def at_x(hit):
        seen.append((hit.expression, hit.old, hit.new, hit.id, hit.node.name))
        if hit.new == 1:
            session.stop()
    point = session.watch("x, y", at_x)
    assert point.what == "x, y" and isinstance(at_f, type(at_x))
    stop = session.run()
    assert stop.kind == "watch" and seen == [("f", "b"), ("x", None, 1, 2, "a")]
    assert session.run().kind == "end" and seen[-1] == ("x", 1, 2, 2, "a")


def test_stop_points_without_a_handler_stop():
    session, backend = make(events=[Event(0, "f"), Event(0, "f"), Event(0, "f"), Event(0, "g")])
    point = session.breakpoint("f")
    once = session.breakpoint("g", temporary=True)
    point.ignore(1)
    assert session.run().ids == (1,) and backend.done == 2
    point.disable()
    assert session.run().ids == (2,) and once.id not in session.points and backend.done == 4
    assert repr(point) == "<breakpoint 1 (f), 1 hits, disabled>"
    with pytest.raises(friday.UsageError, match="no stop point 2; there are: 1"):
        session.delete(2)
    point.enable()
    point.delete()
    assert not backend.points


def test_conditions():
    session, backend = make(events=[Event(0, "f"), Event(1, "f")])
    backend.conditions["x > 3"] = lambda node: node == 1
    session.breakpoint("f", condition="x > 3")
    assert session.run().node == 1


def test_timers_and_the_end():
    session, _ = make(events=[Event(0) for _ in range(10)])
    seen = []

    @session.every(seconds=3)
    def tick():
        seen.append(session.logical_time)

    @session.at_end
    def end():
        seen.append("end")
    session.run()
    assert seen == [3, 6, 9, "end"]
    with pytest.raises(friday.UsageError, match="above 0"):
        session.every(seconds=0)


def test_progress():
    session, backend = make(events=[Event(0)] * 4)
    backend.pause = True
    seen = []
    session.run(progress=lambda done, rate: seen.append((done, rate)), interval=0.0)
    assert seen == [(0.0, 1000.0)]


def test_a_handler_cannot_resume():
    session, _ = make(events=[Event(0, "f")])
    session.breakpoint("f", session.run)
    with pytest.raises(friday.UsageError, match="a handler cannot resume"):
        session.run()


def test_assertions_of_handlers_reach_pytest():
    session, _ = make(events=[Event(0, "f")])

    @session.breakpoint("f")
    def check():
        assert session.node == 1, "wrong node"
    with pytest.raises(AssertionError, match="wrong node") as caught:
        session.run()
    assert "in the handler of breakpoint 1 (f) on node 0 (a) at 1 s" in caught.value.__notes__


def test_divergence_is_an_exception_and_says_altered_nodes_first():
    session, backend = make(events=[Event(0, "f")])
    place = {"address": 16, "function": "write", "offset": 4, "module": "libc.so.6", "module_offset": 8, "file": "", "line": 0,
             "text": "write+0x4 in libc.so.6"}
    backend.final = FakeStop("divergence", node=1, message="- write 5\n+ write 6", divergence={
        "node": 1, "event": 12, "kind": "argument", "expected": "write 5", "actual": "write 6", "chain": [place],
        "events": [{"index": 12, "differs": True, "text": "write 5"}]})
    backend.let(0, {"x": 1})
    session.nodes[0].write("x", 2)
    with pytest.raises(friday.Divergence) as caught:
        session.run()
    assert str(caught.value) == "<node 0 a> was altered since 0\n- write 5\n+ write 6"
    error = caught.value
    assert (error.expected, error.actual, error.kind, error.thread) == ("write 5", "write 6", "argument", None)
    assert str(error.chain[0]) == "write+0x4 in libc.so.6" and error.events[0].differs


def test_interrupt_raises_in_scripts_and_returns_in_the_console():
    for console in (False, True):
        session, backend = make(console=console)
        backend.final = FakeStop("interrupt")
        if console:
            assert session.run().kind == "interrupt"
        else:
            with pytest.raises(KeyboardInterrupt):
                session.run()


def test_an_interrupt_that_came_just_before_a_handler_ends_a_long_one():
    def computes():
        while len(seen) == 1:
            pass
    seen = []
    session, backend = make(events=[Event(0, "f"), Event(0, "f")])
    session.breakpoint("f", lambda: seen.append(1) or computes())
    backend.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        session.run()
    assert seen == [1] and not backend.interrupted
    backend.interrupted = True  # the second one is short: the group answers when it goes on
    assert session.run().kind == "end" and len(seen) == 2 and backend.interrupted


def test_restart_clears_the_marks():
    session, backend = make(events=[Event(0, None, {"x": 1}), Event(1, ends=True)])
    session.run()
    session.nodes[0].write("x", 2)
    assert session.finished and session.ended == {1} and session.altered
    session.restart()
    assert not session.finished and not session.ended and not session.altered


# -- messages ---------------------------------------------------------------------------------------------------------
def test_messages_by_sender_and_receiver():
    session, backend = make(("a", "b", "c"), [Event(0), Event(1), Event(0)])
    backend.sent = [Message(1, 1, 0, 1, target_event=0), Message(2, 0, 1, 2, target_event=0, source_event=0),
                    Message(3, 1, 0, 3, target_event=1), Message(4, 2, None, None, target_event=None)]
    numbers = lambda **ends: [m.number for m in session.messages(**ends)]  # noqa: E731
    assert numbers() == [1, 2, 3, 4] and numbers(src="b") == [1, 3] and numbers(src=1, dst="a") == [1, 3]
    assert numbers(src=["a", 2]) == [2, 4] and numbers(dst="!a") == [2] and numbers(src="c", dst="a") == []
    with pytest.raises(friday.NoNode):
        session.messages(src="nobody")
    first, _, third, fourth = session.messages()
    assert (first.source.name, first.target, fourth.target) == ("b", session.nodes["a"], None)
    assert session.last_message("a") is None and not first.is_received
    session.run()
    assert first.is_received and third.is_received and not fourth.is_received
    assert session.last_message("a") == third and session.last_message("c") is None


def test_symbols_by_pattern():
    session, backend = make(started={0})
    backend.gdb = lambda node, command: json.dumps({"whole": True, "names": {"srv": [["", "/s/a.c", 3, False]], "serve": [["", "/s/a.c", 9, True]]}})
    assert list(session.nodes[0].symbols()) == ["serve", "srv"]
    assert session.nodes[0].symbols("sr*") == {"srv": [friday.Place("", "/s/a.c", 3, False)]}
    with pytest.raises(friday.NodeNotStarted):
        session.nodes[1].symbols()


# -- maps -------------------------------------------------------------------------------------------------------------
def test_maps_by_id_by_node_and_by_expression():
    session, backend = make(("a", "b", "c"))
    for node, id_ in ((0, 1), (1, 2), (2, 0)):
        backend.let(node, {"id": id_})
    session.execute("by_id = {@n(id): n for n in __ALL__}\nby_node = {n: @n(id) for n in __ALL__}")
    for name, expression in (("chord", "by_id"), ("node_of", "by_node"), ("live", "@(id)")):
        session.map(name, expression)
        for node, id_ in ((0, 1), (1, 2), (2, 0)):
            assert session.namespace[name][id_] == node
    assert session.here == 0
    with pytest.raises(friday.NoNode, match=r"live\[9\]"):
        session.namespace["live"][9]
    with pytest.raises(friday.UsageError, match="is not a name"):
        session.map("a b", "{}")


# -- friday run -------------------------------------------------------------------------------------------------------
def run_text(tmp_path, text, events=(), args=(), names=("a", "b"), setup=None):
    script = tmp_path / "check.py"
    script.write_text(text)
    backend = FakeBackend(names, events)
    session = friday.Session(backend)
    if setup:
        setup(backend)
    out = io.StringIO()
    code = friday.run_script(str(script), session, args, json_path=str(tmp_path / "out.json"), out=out)
    return code, out.getvalue(), json.loads((tmp_path / "out.json").read_text()), session


def test_a_script_that_holds(tmp_path):
    code, out, report, session = run_text(tmp_path, """
import sys
import friday
seen = []

@friday.session.watch("x", nodes="a")
def check():
    assert @(x) < int(sys.argv[1])
    seen.append(@(x))

breakpoint("f")
    hits = len(seen)
    cont
""", [Event(0, None, {"x": 1}), Event(0, "f"), Event(1, None, {"x": 9})], ["5"])
    assert (code, out) == (0, "") and session.namespace["seen"] == [1] and session.namespace["__name__"] == "__main__"
    assert session.finished
    assert report.pop("seconds") > 0
    assert report == {"script": str(tmp_path / "check.py"), "recording": "", "altered": [], "exit": 0, "outcome": "held", "error": None,
                      "violations": [], "violations_not_kept": 0, "hits": 2, "never_hit": []}


def test_violations_have_their_evidence(tmp_path):
    code, out, report, _ = run_text(tmp_path, """
import friday

def helper(value):
    assert value < 2, f"{value} is too much"

@friday.session.watch("x")
def small():
    helper(@(x))

@friday.session.watch("y")
def reported():
    friday.violation("ring", nodes=["a", __NODE__], message="broken", link=@(y), at=__LOGICALCLOCK__)

@friday.session.breakpoint("f")
def raised():
    raise friday.Violated("no leader", predicate="leader", nodes="b", term=3)
""", [Event(0, None, {"x": 1}), Event(1, None, {"x": 5}), Event(1, None, {"y": 8}), Event(0, "f")])
    assert code == 1 and report["exit"] == 1
    first, second, third = report["violations"]
    assert first == {
        "predicate": "small", "nodes": [{"id": 1, "name": "b"}], "node": {"id": 1, "name": "b"}, "logical_time": "2", "real_time": 1002.01, "event": 0,
        "message": "5 is too much", "values": {"x": {"old": None, "new": 5}},
        "backtraces": {"b": "#0 main () at prog.c:1\n"}, "source": f"{tmp_path}/check.py:9: helper(@(x))",
        "after": None, "mark": None}
    assert (second["predicate"], second["message"], second["values"]["link"], second["values"]["at"]) == (
        "ring", "broken", 8, 3)
    assert second["node"] == {"id": 1, "name": "b"} and second["event"] == 1 and third["node"]["name"] == "b"
    assert [n["name"] for n in second["nodes"]] == ["a", "b"] and second["backtraces"].keys() == {"a", "b"}
    assert (third["predicate"], third["values"], third["nodes"][0]["id"]) == ("leader", {"term": 3}, 1)
    assert "violation of small on node 1 (b)\n  at logical time 2, real time 1002.010000, event 0\n" in out
    assert "  5 is too much\n" in out and "    #0 main () at prog.c:1\n" in out


def test_the_message_that_led_there_is_evidence(tmp_path):
    def setup(backend):
        backend.sent = [Message(1, 1, 0, 1, target_event=0, source_event=4, sent=1), Message(2, None, 0, 3, target_event=2, bytes=5)]
    code, out, report, _ = run_text(tmp_path, "@session.breakpoint('f')\ndef g(): assert False\n",
                                    [Event(0), Event(0, "f"), Event(0, "f")], setup=setup)
    first, second = [violation["after"] for violation in report["violations"]]
    assert first == {"number": 1, "source": "b", "source_event": 4, "sent": "1", "target": "a", "target_event": 0, "mark": None, "received": "1",
                     "bytes": 8, "channel": "datagram"}
    assert (second["number"], second["source"], second["mark"]) == (2, None, "0#2")
    assert "  after message 1 from b (event 4, 1 s) to a (event 0, 1 s), 8 bytes\n" in out
    assert "  after message 2 from outside to a (event 2, 3 s), 5 bytes\n" in out


def test_too_many_violations_are_counted(tmp_path):
    code, out, report, session = run_text(
        tmp_path, "friday.session.max_violations = 2\n@session.breakpoint('f')\ndef g(): assert False\n",
        [Event(0, "f")] * 5)
    assert code == 1 and len(report["violations"]) == 2 and report["violations_not_kept"] == 3
    assert "3 more violations" in out and report["violations"][0]["message"] == "def g(): assert False"


def test_stop_ends_the_run_and_a_handlerless_stop_does_not(tmp_path):
    events = [Event(0, "f"), Event(0, "g"), Event(0, "h")]
    code, _, _, session = run_text(tmp_path, "session.breakpoint('f')\n@session.breakpoint('g')\n"
                                             "def g(): friday.stop()\n", events)
    assert code == 0 and session.backend.done == 2 and not session.finished
    code, _, _, session = run_text(tmp_path, "session.breakpoint('f')\nstop = session.run()\n"
                                             "assert stop.location == 'f'\n", events)
    assert code == 0 and session.finished


@pytest.mark.parametrize("text,code,message", [
    ("assert False, 'top'", 1, "top"),
    ("x = 1\n@(x += 1)", 2, 'check.py", line 2\n    @(x += 1)\n        ^\n'),
    ("x = = 1", 2, "invalid syntax"),
    ("1 / 0", 2, "ZeroDivisionError"),
    ("session.breakpoint('nowhere')", 2, "no function `nowhere`"),
    ("@9(x)", 2, "no node 9"),
    ("import sys; sys.exit('bad arguments')", 2, "bad arguments"),
    ("import sys; sys.exit(1)", 1, ""),
    ("import sys; sys.exit()", 0, ""),
    ("raise KeyboardInterrupt", 2, "not checked to its end"),
    ("raise friday.ComponentDied('gdb has died', node=1)", 4, "friday: node 1: gdb has died"),
    ("open('/no/such/file')", 2, "No such file"),
])
def test_exit_codes(tmp_path, text, code, message):
    got, out, report, _ = run_text(tmp_path, text, [Event(0, "f")])
    assert got == code and message in out and report["exit"] == code
    assert "pyext/friday" not in out


def test_diverged(tmp_path):
    def setup(backend):
        backend.final = FakeStop("divergence", node=0, message="the diff")
    code, out, report, _ = run_text(tmp_path, "", setup=setup)
    assert (code, out) == (3, "friday: diverged: the diff\n") and report["error"] == out.strip()


def test_an_exception_in_a_handler_ends_the_run_with_its_line_and_place(tmp_path):
    code, out, _, _ = run_text(tmp_path, "@session.watch('x')\ndef check():\n    return 1 / (@(x) - 1)\n",
                               [Event(1, None, {"x": 1})])
    assert code == 2
    assert 'check.py", line 3, in check\n    return 1 / (@(x) - 1)\n' in out
    assert "in the handler of watch 1 (x) on node 1 (b) at 1 s, x changed" in out and "pyext/friday" not in out


def test_a_missing_script_and_an_unwritable_report(tmp_path):
    out = io.StringIO()
    assert friday.run_script("/no/such/script.py", friday.Session(FakeBackend()), out=out) == 2
    assert out.getvalue() == "friday: cannot read the script /no/such/script.py: No such file or directory\n"
    (tmp_path / "s.py").write_text("")
    assert friday.run_script(str(tmp_path / "s.py"), friday.Session(FakeBackend()), json_path="/no/such/dir/x",
                             out=out) == 2
    assert "cannot write /no/such/dir/x" in out.getvalue()


# -- commands ---------------------------------------------------------------------------------------------------------
def do(session, text):
    shown = []
    commands.execute(session, text, show=shown.append)
    return shown


def test_commands_take_node_lists_and_blocks():
    session, backend = make(("a", "b", "c"), [Event(2, "f"), Event(1, "f")], console=True)
    shown = do(session, """
py x = 1
python
y = 2
end
1,2 break f if cond
commands 1
x += 1
cont
end
b,c info threads
map m {7: 1}
node b
py m[7], x
""")
    backend.conditions["cond"] = lambda node: True
    assert shown == ["breakpoint 1 (f) on b, c", "[b] gdb info threads", "[c] gdb info threads", "<node 1 b>"]
    session.run()
    assert (session.namespace["x"], session.namespace["y"]) == (3, 2) and session.points[1].condition == "cond"
    do(session, "ignore 1 3\ncondition 1\ndisable 1\nenable 1\ncommands 1\nend\ndelete")
    assert not session.points


def test_py_shows_the_value_of_an_expression(capsys):
    session, backend = make(console=True)
    backend.let(0, {"x": 5})
    do(session, "py @(x) + 1\npy y = 3\npy for i in range(2):\n  print(i)\n")
    assert capsys.readouterr().out == "6\n0\n1\n"


@pytest.mark.parametrize("text,message", [
    ("  x = 1", "line 1: this indented line belongs to no command"), ("commands 1\nx = 1", "line 1: the block of `commands 1` needs a line `end`"),
    ("delete x", "give a global id"), ("delete 4", "no stop point 4"), ("break", r"break \[-pending\] LOC"), ("watch x if", r"watch \[-l\]"),
    ("ignore 1", "ignore ID COUNT"), ("map m", "map NAME"), ("info threads\n  x", "takes no block"),
    ("9 info threads", "no node 9"), ("watch a,,b", "empty expression")])
def test_bad_commands(text, message):
    session, _ = make(console=True)
    with pytest.raises(friday.UsageError if "node 9" not in message else friday.NoNode, match=message):
        do(session, text)


def test_gdb_as_a_statement(capsys):
    session, backend = make(console=True, events=[Event(1, "f")])
    do(session, "py n = 4\nbreak f\n  gdb x/%(n)dx $sp; cont\n")
    assert session.run().kind == "end"
    assert backend.log == [(1, "gdb x/4x $sp")] and capsys.readouterr().out == "gdb x/4x $sp\n"


def test_without_a_session_module_functions_say_so():
    friday.session = None
    with pytest.raises(friday.UsageError, match="no session"):
        friday.stop()


def test_node_ids_may_have_gaps():
    """A process that was announced and never forked leaves one."""
    states = ["alive", "ended", "alive"]
    nodes = friday.nodes.Nodes(None, [Info(0, "a"), Info(2, "b"), Info(5, "c")], lambda: states)
    assert [node.name for node in nodes] == ["a", "b", "c"] and nodes[5].name == "c" and nodes["2"].name == "b"
    assert nodes.states() == {0: "alive", 2: "ended", 5: "alive"}
    assert [int(node) for node in nodes.parse("0-4", every=True)] == [0, 2]
    assert [int(node) for node in nodes.parse("*")] == [0, 5]
    with pytest.raises(friday.NoNode, match="0 to 5"):
        nodes[1]


@pytest.mark.parametrize("condition", ["x = 3", "x += 1", "x++ > 3", "f(y) && x <<= 1", "--x"])
def test_a_condition_that_changes_the_program_is_refused(condition):
    session = friday.Session(FakeBackend())
    for add in (lambda: session.breakpoint("f", condition=condition), lambda: session.watch("x", condition=condition),
                lambda: session.breakpoint("f").set_condition(condition)):
        with pytest.raises(friday.UsageError, match="would change the program at each hit"):
            add()


@pytest.mark.parametrize("condition", ["x == 3", "x <= 1 || y >= 2", "x != '='", 'same(name, "a = b++")', "x - -1 > 2", "x << 1"])
def test_a_condition_that_asks_is_none_of_these(condition):
    friday.teaching.refuse_changes(condition)


def test_a_stop_point_that_never_had_a_place_is_said_at_the_end(capsys):
    session = friday.Session(FakeBackend(events=[Event(0, at="f"), Event(0, at="g")]))
    session.breakpoint("-pending nowhere_at_all", lambda: None)
    session.breakpoint("f", lambda: None)
    assert session.run().kind == "end"
    assert capsys.readouterr().err == "friday: breakpoint 1 (-pending nowhere_at_all) was never placed: it is not there\n"


@pytest.mark.parametrize("console", [False, True])
def test_a_condition_that_could_not_be_evaluated_is_said_once_where_the_group_goes_on(capsys, console):
    backend = FakeBackend(events=[Event(0, at="f"), Event(0, at="f"), Event(0, at="g")])
    backend.conditions["text"] = lambda node: True
    session, hits = friday.Session(backend, console=console), []
    session.breakpoint("f", lambda: hits.append(1), condition="text")
    resume = backend.resume

    def failing(timeout):
        stop = resume(timeout)
        stop.message = "the condition of stop point 1 is neither true nor false" if stop.ids else None
        return stop
    backend.resume = failing
    assert session.run().kind == "end" and hits == [1, 1]
    assert capsys.readouterr().err.count("the condition of stop point 1 is neither true nor false; it counts as true (at 1 s on node 0)") == 1


def test_where_a_stop_point_cannot_be_each_program_is_named():
    backend = FakeBackend(names=["a", "b"])
    backend.infos[0].program, backend.infos[1].program = "/bin/server", "/opt/client"
    backend.add_breakpoint = refuse = lambda *_: (_ for _ in ()).throw(friday.NoSymbol('Function "main.main" not defined.'))
    session = friday.Session(backend)
    for nodes, asked in ((None, "; none of these programs has it: server, client"), ([1], "")):
        with pytest.raises(friday.NoSymbol) as error:
            session.breakpoint("main.main", nodes=nodes)
        assert error.value.message == f'Function "main.main" not defined{asked}; `-pending main.main` waits for a library that has it'
    backend.add_watch = refuse
    session.names._of_program = {"/bin/server": {}, "/opt/client": {}}
    with pytest.raises(friday.NoSymbol, match='^Function "main.main" not defined: client has no debug information'):
        session.watch("main.main", nodes=[1])
