"""Expressions on arguments that optimised code no longer has, in the innermost frame and in outer ones."""

import pytest
from debug_support import ROOT, break_at, friday, opened, plain_end_of, recorded_target, run_to_end, state  # noqa: F401

pytestmark = pytest.mark.limit(60)

recorded = recorded_target("passed_arguments")
plain_end = plain_end_of("recorded")
NAMES = ["anna", "bert", "carl", "dora"]
HOLDS = {  # of the call of judge() with each number
    "line == \"carl\"": lambda i: NAMES[i] == "carl",
    "ages.size() > 2": lambda i: i >= 2,
    "ages.count(\"carl\")": lambda i: i >= 2,
    "ages.at(line) == 10": lambda i: i == 1,
    "order->amounts[2] == 3 * key && order->name != \"anna's order\"": lambda i: i > 0,
    "order->amounts.size() == key": lambda i: i == 3,
}




def last_line():
    """The location of the last statement of judge(), where its arguments are known only by what the caller has passed."""
    text = (ROOT / "tests" / "targets" / "passed_arguments.cc").read_text().splitlines()
    return f"passed_arguments.cc:{text.index('  return seen;') + 1}"


@pytest.mark.parametrize("condition", HOLDS)
def test_a_condition_on_them(recorded, opened, plain_end, condition):  # noqa: F811
    session = opened(recorded)
    calls, held = [], []
    session.breakpoint("judge", lambda: calls.append(len(calls)))
    session.breakpoint(last_line(), lambda: held.append(calls[-1]), condition=condition)
    run_to_end(session)
    assert calls == [0, 1, 2, 3] and held == [i for i in calls if HOLDS[condition](i)]
    assert not [notice for notice in session.backend.take_notices() if "condition" in notice]
    assert state(session) == plain_end, "a function of the program was called"


def test_what_is_not_there_is_an_error(recorded, opened):  # noqa: F811
    session = opened(recorded)
    break_at(session, last_line())
    node = session.node
    assert node.read("line") == "anna" and node.read("line[3]") == ord("a") and node.read("ages") == {"anna": 0}
    for expression, error in (("line[100]", "which holds 4 items"), ("ages.at(\"carl\")", "no item with the key"), ("order->amounts[3]", "which holds 3 items")):
        with pytest.raises(friday.BadAddress, match=error):
            node.read(expression)
    with pytest.raises(friday.NoSymbol):
        node.read("order->nobody.size()")


@pytest.mark.parametrize("up", [0, 1, 2])
def test_they_are_read_in_outer_frames(recorded, opened, plain_end, up):  # noqa: F811
    """From main, where they are variables; and from judge; never of the frame within."""
    session = opened(recorded)
    break_at(session, last_line() if up == 0 else "mark")
    node = session.node
    if up:
        node.gdb(f"up {up}")
    order = "order->" if up < 2 else "order."
    assert node.read("line == \"anna\"") == 1 and node.read("line.size() + ages.size()") == 5 and node.read("ages[line]") == 0
    assert node.read(f"{order}amounts[2]") == 0 and node.read(f"{order}name.empty()") == 0
    run_to_end(session)
    assert state(session) == plain_end, "a function of the program was called"


@pytest.mark.parametrize("condition, error", [
    ("nosuch == 3", 'No symbol "nosuch"'), ("lines == 3", "the nearest is `line`"), ("order->nosuch", "there are name, amounts"),
    ("order->amounts[1].x == 3", "not a structure"), ("line.nosuch == 1", "no member or method named nosuch"), ("key ==", "syntax error"),
    ("line == \"x\" && nosuch", 'No symbol "nosuch"'), ("(nosuch)key", 'No symbol "nosuch"'),
])
def test_a_condition_that_means_nothing_is_refused_when_it_is_set(recorded, opened, condition, error):  # noqa: F811
    session = opened(recorded)
    point = session.breakpoint("judge", condition="key > 1")
    for refused in (lambda: session.breakpoint("judge", condition=condition), lambda: point.set_condition(condition)):
        with pytest.raises((friday.NoSymbol, friday.BadExpression), match=error):
            refused()
    assert list(session.points) == [point.id] and point.condition == "key > 1", "nothing was set or changed"
    assert session.run().ids == (point.id,) and session.node.read("key") == 2


@pytest.mark.parametrize("condition", ["seen >= 0", "ages.count(line)", "sizeof(Order) > 4", "(long)order > 4", "order->name.size() == 12", "$rsp > 0"])
def test_a_condition_that_means_something_is_not_refused(recorded, opened, condition):  # noqa: F811
    session = opened(recorded)
    point = session.breakpoint("judge", condition=condition)
    assert session.run().ids == (point.id,)


def test_print_evaluates_operations_on_containers_without_a_call(recorded, opened, plain_end):  # noqa: F811
    session = opened(recorded)
    break_at(session, last_line())
    node = session.node
    for expression, said in (("line", '"anna"'), ("line[1]", "110 'n'"), ("/x line[1]", "0x6e"), ("ages[\"anna\"]", "0"), ("ages.at(line) + 4", "4"),
                             ("order->amounts.size() > 2", "true"), ("*order", "{name = \"anna's order\", amounts = std::vector of length 3, capacity 3 = {0, 0, 0}}"),
                             ("order->amounts[2] - 1", "-1"), ("sizeof(order->name)", "32"), ("$rip != 0", "true")):
        assert node.gdb(f"print {expression}").partition(" = ")[2].strip() == said, expression
    assert "(int *) 0x" in node.gdb("p &order->amounts[2]") and node.gdb("p *$").endswith("= 0\n") and node.gdb("p line[2]") and "0x" in node.gdb("p &$"), "what was shown is in gdb's history"
    for expression, error in (("line[100]", "index 100 is outside of line, which holds 4 items"), ("ages[\"carl\"]", "no item with the key")):
        with pytest.raises(friday.BadAddress, match=error):
            node.gdb(f"print {expression}")
    with pytest.raises(friday.NoSymbol):
        node.gdb("print nosuch[1]")
    run_to_end(session)
    assert state(session) == plain_end, "a function of the program was called"


def test_a_watch_of_them_says_that_it_does_not_follow_them(recorded, opened):  # noqa: F811
    session = opened(recorded)
    break_at(session, last_line())
    session.watch("order->amounts[1]")
    assert [notice for notice in session.backend.take_notices() if "watch 2" in notice] == [
        "watch 2: order->amounts[1] is watched at its present address, as with -l: only gdb finds the variables in it"]
