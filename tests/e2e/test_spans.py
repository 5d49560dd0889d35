"""`first` and `when`: what they find equals what a run forward finds that looks at every write."""
import random
import re
import subprocess

import pytest
from debug_support import break_at, friday, opened, ring  # noqa: F401

pytestmark = pytest.mark.limit(240)


def changes_of(session, expression, nodes=None):
    """All changes, from a run that stops at each."""
    point = session.watch(expression, nodes=nodes)
    found = []
    while (stop := session.run()).kind != "end":
        if stop.kind == "watch":
            hit = session.hit if session.hit is not None else session.changes(stop)[0]
            found.append((int(stop.node), str(stop.logical_time), stop.event, *map(str, hit.raw)))
    point.delete()
    return found


def place(session):
    return [(int(node), session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.all_nodes]


@pytest.mark.parametrize("expression,nodes", [("srv.successor", None), ("srv.seq", "2,3"), ("srv.node", "1")])
def test_when_lists_what_a_run_finds(ring, opened, expression, nodes):
    expected = changes_of(opened(ring), expression, nodes)
    session = opened(ring)
    session.set_checkpoints(True)
    point = session.breakpoint("process_data")
    session.run()
    session.run()
    before = place(session)
    found = session.when(expression, nodes=nodes)
    assert [(int(each.node), str(each.logical_time), each.event, str(each.old), str(each.new)) for each in found] == expected
    assert len(expected) > 1 and all(each.place for each in found)
    assert place(session) == before and point.enabled and session.points == {point.id: point}
    assert session.redo() is None
    assert session.run().ids == (point.id,)


def test_goto_a_row_of_when(ring, recorder):
    """Each row has a number, also where two have the same time, and the group stands behind the write there."""
    (recorder.directory / "ask").write_text("goto end\n1 when srv.seq\ngoto when 2\n1 print srv.seq\ngoto when 1\n1 print srv.seq\n")
    done = recorder.run([recorder.friday, "replay", ring.path, "--batch", "-x", recorder.directory / "ask"])
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\d+ +\d+\.\d+ s ", line)]
    values = re.findall(r"\$\d+ = (\d+)", done.stdout)
    assert [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)] and values == [rows[1][6], rows[0][6]], done.stdout


def test_when_in_a_script_that_makes_no_checkpoints(ring, opened):
    session = opened(ring)
    break_at(session, "process_data")
    before = place(session)
    assert len(session.when("srv.successor")) > 5
    assert place(session) == before
    session.restart()
    assert len(session.when("srv.successor", nodes=[0])) == 2
    assert session.mark() == "start"


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12)]])
def test_first_finds_the_write_that_made_it_true(ring, opened, seed):
    chance = random.Random(seed)
    forward = opened(ring)
    node = chance.choice([0, 1, 2, 4])
    seen = changes_of(forward, "srv.seq", [node])
    assert len(seen) > 20
    session = opened(ring)
    session.set_checkpoints(chance.random() < 0.5)
    session.breakpoint("process_data")
    for _ in range(3):
        at = chance.randrange(1, len(seen))
        limit = max(int(new) for *_, new in seen[:at + 1])
        expected = next(each for each in seen if int(each[4]) >= limit)
        if chance.random() < 0.5:
            session.goto_end()
        stop = session.first(lambda: session.nodes[node].read("srv.seq") >= limit)
        assert (int(stop.node), str(stop.logical_time), stop.event) == expected[:3], f"{limit}, seed {seed}"
        assert int(session.nodes[node].read("srv.seq")) == limit
        session.restart()


def test_first_says_nothing_of_handlers_that_there_are_not_and_of_ends_that_only_it_has_seen(ring, recorder):
    """`continue until` watches by a handler of its own, and the search looks at nodes that have ended."""
    (recorder.directory / "ask").write_text("continue until @1(srv.seq) == 4\nfirst @1(srv.seq) >= 3\ngoto end\nfirst @1(srv.seq) >= 3\n")
    done = recorder.run([recorder.friday, "replay", ring.path, "--batch", "-x", recorder.directory / "ask"])
    assert done.stdout.count("true from here on: @1(srv.seq) >= 3") == 2, done.stdout + done.stderr
    assert "last values" not in done.stdout and "what handlers have collected" not in done.stdout, done.stdout


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 8)]])
def test_first_is_not_led_astray_by_what_was_true_before(ring, opened, seed):
    """A condition that is true in two spans, and stays true from the second one on: the search may come upon the first."""
    chance = random.Random(seed)
    node = chance.choice([0, 1, 2, 4])
    seen = [each for each in changes_of(opened(ring), "srv.seq", [node]) if each[4] != "None"]
    values = [int(each[4]) for each in seen]
    low, high = sorted(chance.sample(range(1, max(values)), 2))
    session = opened(ring)
    session.set_checkpoints(True)
    stop = session.first(lambda: not low <= session.nodes[node].read("srv.seq") < high)
    expected = next(each for each, value in zip(seen, values) if value >= high)
    assert (int(stop.node), str(stop.logical_time), stop.event) == expected[:3], f"{low} to {high}, seed {seed}"
    session.goto_end()
    stop = session.first(lambda: session.nodes[node].read("srv.seq") % 2 == values[-1] % 2)  # true every other time
    assert (int(stop.node), str(stop.logical_time), stop.event) == seen[-1][:3], f"seed {seed}"


def test_when_is_right_as_the_first_question(ring, opened):
    """Nothing has run, so that there is no checkpoint: the group is restarted, and what handlers have collected is put back."""
    expected = changes_of(opened(ring), "srv.seq", [1])
    session = opened(ring)
    session.set_checkpoints(True)
    assert [str(each.new) for each in session.when("srv.seq", nodes=[1])] == [new for *_, new in expected]


@pytest.fixture
def texts(recorder, tmp_path):
    source = tmp_path / "texts.cc"
    source.write_text("""#include <map>
#include <string>
#include <unistd.h>
#include <vector>
std::string state;
std::map<int, int> orders;
std::vector<int> sizes(1);
int main() {
  for (const char* next : {"new", "held", "sold for a price that needs memory of its own", "gone"}) {
    state = next;
    orders[static_cast<int>(state.size())] = 1;
    getppid();
  }
  for (int i = 100; i < 140; i++) orders[i] = i;
  orders[4] = 2;
  getppid();
}
""")
    program = tmp_path / "texts"
    subprocess.run(["g++", "-g", "-O1", "-o", program, source], check=True)
    return recorder.record([program], name="texts", cwd=tmp_path)


def test_a_question_by_which_gdb_alters_the_node_says_so(texts, recorder):
    """gdb has the program allocate memory for a text literal that it cannot compare without."""
    for question in ('print sizes[0] == "a"', 'watch sizes[0] if sizes[0] == "a"'):
        done = recorder.run([recorder.friday, "replay", texts.path, "-ex", "break getppid", "-ex", "continue", "-ex", question, "-ex", "info nodes"])
        assert "altered by this command: node 0 (texts); from here on it is not what was recorded" in done.stdout and "altered since" in done.stdout, done.stdout
    done = recorder.run([recorder.friday, "replay", texts.path, "-ex", "break getppid", "-ex", "continue", "-ex", "print sizes[0]", "-ex", "set var sizes._M_impl._M_start = 0"])
    assert "altered by this command" not in done.stdout, done.stdout


def test_when_shows_strings_as_text_and_no_element_that_is_out_of_reach_for_a_moment(texts, opened):
    session = opened(texts)
    session.set_checkpoints(True)
    changes = session.when("state")
    assert all(isinstance(each.new, str) for each in changes) and [changes[i].new for i in (0, -1)][1] == "gone", changes
    wholes = iter(str(each.new) for each in changes)  # between these are parts: a copy of several stores
    for text in ("new", "held", "sold for a price that needs memory of its own", "gone"):
        assert text in wholes, changes
    # The tree is balanced anew many times after that.
    assert [(each.old, each.new) for each in session.when("orders[4]")][:3] == [(None, 0), (0, 1), (1, 2)]
    with pytest.raises(friday.OutOfScope, match="`when main::next` lists the changes in each call"):
        session.when("next")


def test_first_is_for_what_stays_true(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    assert session.first(lambda: True) is None and session.mark() == "start"
    break_at(session, "process_data")
    place = [(session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.nodes]
    with pytest.raises(friday.UsageError, match="neither here nor at the end"):
        session.first(lambda: False)
    assert [(session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.nodes] == place
    with pytest.raises(ZeroDivisionError):
        session.first(lambda: 1 // 0)
    session.restart()
    break_at(session, "process_data")
    session.node.write("srv.seq", 5)
    for ask in (lambda: session.first(lambda: True), lambda: session.when("srv.seq")):
        with pytest.raises(friday.Unsupported, match="altered"):
            ask()
    session.restart("causal")
    for ask in (lambda: session.first(lambda: True), lambda: session.when("srv.seq")):
        with pytest.raises(friday.Unsupported, match="order clock"):
            ask()


def test_handlers_and_functions_of_the_session_are_set_aside(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    called = []
    point = session.watch("srv.seq", lambda: called.append("watch"))
    off = session.watch("srv.successor", lambda: called.append("off"))
    off.enable(False)
    session.at_end(lambda: called.append("end"))
    session.at_exit(lambda stop: called.append("exit"))
    session.when("srv.successor")
    assert session.first(lambda: session.nodes[2].read("srv.seq") > 3) is not None
    assert called == [] and point.enabled and not off.enabled
    with pytest.raises(friday.NoSymbol):
        session.when("nonsense")
    session.restart()
    session.run()
    assert {"watch", "end", "exit"} == set(called)


PREDICATES = {
    "of one node": (lambda read: read(1, "srv.seq") % 7 == 3, [(1, "srv.seq")]),
    "before the first write": (lambda read: read(1, "srv.seq") == 0, [(1, "srv.seq")]),
    "of two nodes": (lambda read: read(1, "srv.seq") > read(2, "srv.seq"), [(1, "srv.seq"), (2, "srv.seq")]),
    "by a branch": (lambda read: read(1, "srv.seq") % 5 == 1 and read(2, "srv.seq") % 2, [(1, "srv.seq"), (2, "srv.seq")]),
    "true only at the start": (lambda read: read(2, "srv.seq") == 0 and read(1, "srv.seq") == 0, [(1, "srv.seq"), (2, "srv.seq")]),
}


def stands(session):
    return [(int(node), session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.all_nodes[:3]]


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 8)]])
@pytest.mark.parametrize("which", PREDICATES)
def test_run_back_until_finds_the_last_moment_of_a_run_forward(ring, opened, which, seed):
    """From behind a write to the write that has ended it: the group stands directly before that one."""
    chance = random.Random(f"{which} {seed}")
    predicate, reads = PREDICATES[which]

    def holds(session, old=None):
        try:
            return bool(predicate(lambda node, text: old if old is not None and node == session.last_stop.node else session.read(node, text)))
        except friday.NodeNotStarted:
            return False

    session = opened(ring)
    session.set_checkpoints(True)
    points = [session.watch(text, nodes=[node]) for node, text in reads]
    seen = []  # (the place, whether the predicate holds before the write and behind it)
    while (stop := session.run()).kind == "watch":
        seen.append((stands(session), holds(session, session.changes(stop)[0].raw[0]), holds(session)))
    assert len(seen) > 30
    wanted = [0, *sorted(chance.sample(range(5, len(seen)), 6))]
    session.restart()
    found = 0
    for number in range(wanted[-1] + 1):
        assert session.run().kind == "watch"
        if number not in wanted:
            continue
        for point in points:
            point.enable(False)
        here = stands(session)
        assert here == seen[number][0]
        ended = next((place for place, before, _ in reversed(seen[:number + 1]) if before), None)
        mark = session.mark()
        stop, until = session.run_back_until(lambda: predicate(session.read))
        assert list(session.points.values()) == points
        if seen[number][2]:
            assert stop is None and until.holds and stands(session) == here
        elif ended is None:
            assert stop is None and not until.holds and not until.doubt and stands(session) == here
        else:
            assert until.holds and stop.kind == "step" and holds(session)
            assert until.ended_by is None or f"{until.ended_by.new}" != f"{until.ended_by.old}"
            for point in points:
                point.enable()
            assert session.run().kind == "watch" and stands(session) == ended
            found += 1
        session.goto(mark)
        for point in points:
            point.enable()
    assert found or which.startswith("true only")


def test_run_back_until_stops_at_the_users_points_and_says_what_is_wrong(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    session.goto_end()
    point = session.breakpoint("process_data", nodes=[1])
    stop, until = session.run_back_until(lambda: False)
    assert stop.ids == (point.id,) and not until.holds and point.hits == 1
    point.delete()
    before = place(session)
    with pytest.raises(NameError):
        session.run_back_until(lambda: session.read(1, "srv.seq") < 0 or nobody)  # noqa: F821
    assert place(session) == before and not session.points

    def only_earlier():
        return session.read(1, "srv.seq") < 5 and 1 // 0
    with pytest.raises(ZeroDivisionError):
        session.run_back_until(only_earlier)
    assert place(session) == before and not session.points


def test_reverse_continue_until_at_the_console(ring, recorder):
    (recorder.directory / "ask").write_text("goto end\nreverse-continue until @1(srv.seq) == 5\npy print(@1(srv.seq))\nrc until @1(srv.seq) == 5\n"
                                            "rc until @1(srv.seq) > 5\n")
    done = recorder.run([recorder.friday, "replay", ring.path, "--batch", "-x", recorder.directory / "ask"])
    assert "it was true here: @1(srv.seq) == 5\n" in done.stdout and "already true here" in done.stdout, done.stdout + done.stderr
    assert "5\n" in done.stdout.partition("it was true here")[2]
    assert "the next write ends it: srv.seq: 5 -> 6\n" in done.stdout
    assert "not true at any place before this one, where the group stays: @1(srv.seq) > 5\n" in done.stderr
    wrong = recorder.run([recorder.friday, "replay", ring.path, "--batch", "-ex", "rc until"])
    assert "usage: reverse-continue [COUNT | until PYTHON-EXPR]" in wrong.stderr
