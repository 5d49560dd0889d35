"""`continue until` and `reverse-continue until`: when the predicate is evaluated, and what it may not read."""
import pytest
from fake_backend import Event
from fake_console import feed, make


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
