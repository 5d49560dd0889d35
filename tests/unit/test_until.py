"""`continue until` and `reverse-continue until`: when the predicate is evaluated, and what it may not read."""
import pytest
from fake_backend import Event
from fake_console import feed, make

import friday.until
from friday.until import Until


@pytest.fixture
def out(capsys):
    return lambda: capsys.readouterr().out


def until_session(events, text, lets=()):
    console, backend = make(events=events)
    for node, variables in lets:
        backend.let(node, variables)
    feed(console, text)
    return console, backend


def test_continue_until_watches_what_the_expression_reads_also_in_functions(out):
    events = [Event(0, None, {"x": 1}), Event(1, None, {"y": 5}), Event(1, None, {"x": 9}), Event(0, None, {"x": 4}), Event(2, None, {"x": 7})]
    lets = [(node, {"x": 0, "y": 0}) for node in range(3)]
    console, backend = until_session(events, "py def most(): return max(@n(x) for n in __ALL__)\ncontinue until most() >= 9", lets)
    assert backend.done == 3 and not backend.points and not console.session.points
    said = out()
    assert "now true: most() >= 9\nnode 1 (b): gdb frame, thread 0, 3.000 s\n  x: 0 -> 9\n" in said
    feed(console, "continue until most() >= 9\ncontinue until @0(x) == 4 and @2(x) == 7\ncontinue until @0(x) == 1")
    said = out()
    assert said.startswith("the expression is already true here\n") and backend.done == 5
    assert "not true at any point from there to the end: @0(x) == 1" in said


def test_continue_until_what_reads_nothing_or_fails_for_now_is_looked_at_on_the_way(out, capsys):
    events = [Event(0), Event(1, starts=True), Event(1, None, {"x": 3}), Event(0)]
    console, backend = make(names=("a", "b"), events=events, started=[0])
    backend.let(1, {"x": 0})
    feed(console, "continue until @1(x) == 3")
    assert backend.done == 3 and "now true: @1(x) == 3" in out()
    console, backend = make(events=[Event(0)] * 5)
    feed(console, "continue until session.backend.done >= 2")
    assert backend.done == 2 and not backend.points
    feed(console, "continue until nonsense\ncontinue until 1 +")
    assert "NameError" in (said := capsys.readouterr().err) and "SyntaxError" in said and not backend.points


@pytest.mark.parametrize("condition, done", [
    ("@0(x) == 0 and __LOGICALCLOCK__ >= 2", 2), ("@0(x) == 0 and __REALCLOCK__ >= 1002", 2), ("@0(x) == 0 and @1(__REALCLOCK__) >= 1002", 2),
    ("@0(x) == 0 and count == 2", 3), ("@0(x) == 0 and session.nodes[1].state == 'alive'", 4), ("@0(x) == 0 and len(__ALL__) == 2", 4),
    ("@0(x) == 0 and session.nodes[0].view('rows')[1] == 5", 5)])
def test_continue_until_what_changes_without_a_write_that_is_watched(out, condition, done):
    """Clocks, what handlers collect, which nodes are alive, and the items of a view: although a variable that is watched is read, too."""
    events = [Event(0, "f"), Event(0), Event(0, "f"), Event(1, starts=True), Event(0, None, {"rows": [1, 5]}), Event(0)]
    console, backend = make(names=("a", "b"), events=events, started=[0])
    backend.let(0, {"x": 0, "rows": [1, 2]})
    feed(console, f"py count = 0\nbreak f\n  count += 1\n  cont\n\ncontinue until {condition}")
    assert backend.done == done and f"now true: {condition}" in out()


def test_reverse_continue_until_what_handlers_collect_is_refused(capsys):
    console, backend = until_session([Event(0, "f"), Event(0, "f")], "py count = 0\npy def many(): return count > 1\nbreak f\n  count += 1\n  cont\n\ncontinue",
                                     [(0, {"x": 0})])
    for condition in ("@0(x) == 5 and count == 1", "many()"):
        feed(console, f"reverse-continue until {condition}")
        assert "`count` is what handlers collect, and while the group is searched backwards it is not what it was" in capsys.readouterr().err


def test_other_stop_points_stop_a_continue_until(out):
    console, backend = until_session([Event(0, "f"), Event(0, "g", {"x": 2})], "break f\ncontinue until @0(x) == 2", [(0, {"x": 0})])
    said = out()
    assert backend.done == 1 and "stopped at breakpoint 1, gdb frame" in said and "true now" not in said
    assert list(console.session.points) == [1]


@pytest.mark.parametrize("value, condition", [
    ("5", "@0(x) > value"), ("'five'", "@0(x) > len(value)"), ("(1, 2)", "@0(x) in value"), ("session.nodes[0]", "@value(x) == 1"),
    ("5", "one(3).value + @0(x) == 4")])
def test_reverse_continue_until_may_read_what_handlers_only_read(capsys, value, condition):
    """A number, a text or a node cannot change itself, and the attribute of an object is no name of the session."""
    console, backend = until_session(
        [Event(0, "f", {"x": 1})], f"py class one:\n  def __init__(self, value): self.value = value\n\npy value = {value}\n"
        "break f\n  if value == 3: print(one(3).value)\n  cont\n\ncontinue", [(0, {"x": 0})])
    backend.run_back = lambda passed, accepts: None
    feed(console, f"reverse-continue until {condition}")
    assert capsys.readouterr().err in ("", f"not true at any place before this one, where the group stays: {condition}\n")


@pytest.mark.parametrize("setting, change", [
    ("5", "value += 1"), ("(1, 2)", "value = (3,)"), ("5", "del value"), ("5", "change()"), ("[5]", "value.append(1)"), ("([5], 1)", "value[0].append(1)")])
def test_reverse_continue_until_may_not_read_what_handlers_change(capsys, setting, change):
    """Also in a function that a handler calls, and what a tuple holds."""
    console, backend = until_session(
        [Event(0, "f", {"x": 1})], f"py\n  value = {setting}\n  def change():\n    global value\n    value = 7\n\n"
        f"break f\n  if @(x) == 7:\n    {change}\n  cont\n\ncontinue",
        [(0, {"x": 0})])
    feed(console, "reverse-continue until @0(x) == 5 and value")
    assert "`value` is what handlers collect" in capsys.readouterr().err


def test_reverse_continue_until_says_what_it_cannot_decide(capsys, monkeypatch):
    """What a container held before the first write to it is nowhere."""
    console, backend = until_session([Event(0, None, {"x": 1}), Event(0, None, {"x": 2})], "py session.goto_end()", [(0, {"x": 0})])

    def run_back(passed, accepts):
        if accepts is not None:
            backend.restart()
            while (stop := backend.resume()).kind == "watch":
                assert not accepts(stop)
    backend.run_back = run_back

    def unknown(hit):
        raise friday.BadExpression("gone")
    monkeypatch.setattr(friday.until, "_old_value", unknown)
    feed(console, "reverse-continue until @0(x) == 7")
    assert ("not true at any place before this one, where the group stays: @0(x) == 7; whether it was true before the first write to what it reads, at 1 s, is not "
            "known: a write does not tell what a container or a text held before it. `goto 1` and look\n") in capsys.readouterr().err


@pytest.fixture
def evaluated(monkeypatch):
    """A list that gets an item for each evaluation of a predicate."""
    evaluations, real = [], Until._evaluate
    monkeypatch.setattr(Until, "_evaluate", lambda until, reads: evaluations.append(1) or real(until, reads))
    return evaluations


@pytest.mark.parametrize("condition, often", [
    ("@0(x) == 5", False), ("big()", False), ("all(@n(x) == 5 for n in __ALL__)", False), ("max(@0(x), math.pi) == 5", False), ("@on[0](x) == 5", False),
    ("session.nodes[0].read('x') == 5", False), ("@0(x) == limit", True), ("over()", True),
    ("@0(x) == 5 or @0(x) == 6 and unset", True), ("@0(x) == 5 and session.violations", True),
    ("@0(x) == 5 or len(big.hits)", True)])
def test_after_handlers_only_what_reads_python_is_evaluated_again(capsys, evaluated, condition, often):
    console, backend = make(names=("a",), events=[Event(0, "f")] * 50 + [Event(0, None, {"x": 5})])
    backend.let(0, {"x": 0})
    feed(console, "py\n  import math\n  limit = 5\n  def big(): return @0(x) == 5\n  def over(): return @0(x) == limit\n  big.hits = ()\n\n"
         "map on {0: 0}\nbreak f\n  cont\n")
    feed(console, f"continue until {condition}")
    assert capsys.readouterr().err == "" and backend.done == 51 and (len(evaluated) > 50) == often, len(evaluated)


def test_of_a_function_what_it_reads_outside_of_it_counts(evaluated):
    console, backend = make(names=("a",), events=[Event(0, "f")] * 50)
    backend.let(0, {"x": 0})
    session, hits = console.session, []
    session.breakpoint("f", lambda: hits.append(1))
    session.run_until(lambda: session.nodes[0].read("x") == 5)
    assert len(hits) == 50 and len(evaluated) == 1
    session.restart()
    assert session.run_until(lambda: session.nodes[0].read("x") == 0 and len(hits) == 60)[1].holds and backend.done == 10


def test_a_disabled_stop_point_has_run_no_handler(evaluated):
    console, backend = make(names=("a",), events=[Event(0, "f")] * 50)
    backend.let(0, {"x": 0})
    feed(console, "py limit = 5\nbreak f\n  cont\n")
    console.session.points[1].enabled = False  # as by a handler before it at the same event
    feed(console, "continue until @0(x) == limit")
    assert len(evaluated) == 1


def test_errors_of_the_predicate_after_handlers_go_the_way_of_those_at_its_own_stop_points(capsys):
    console, backend = make(names=("a",), events=[Event(0, "f")] * 3)
    backend.let(0, {"x": 1})
    feed(console, "py count = 0\nbreak f\n  count += 1\n  cont\n\ncontinue until @0(x) // (2 - count) == 5")
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said and "in continue until on node 0 (a) at 2" in said and backend.done == 2 and not console.session._after_handlers
    session = console.session
    session.restart()
    session.namespace["count"], session.collecting = 0, True

    def holds():
        assert session.nodes[0].read("x") and session.namespace["count"] < 2, "too many"
    session.run_until(holds)
    assert [violation.message.splitlines()[0] for violation in session.violations] == ["too many", "too many"] and backend.done == 3
