"""What handlers have collected goes back in time with the group: after any walk it is what a straight run has collected there."""
import random

import pytest
from debug_support import friday, opened, ring  # noqa: F401
from predicates.oscillation import Oscillation
from predicates.ring import Ring
from predicates.ring_times import RingTimes

pytestmark = pytest.mark.limit(240)

SCRIPT = """
import collections
import functools
from collections import Counter, defaultdict, deque
total = 0
seen = []
by_node = Counter()
last = deque(maxlen=3)
class Seen:
    count = 0
    __slots__ = ("rows", "other")
    def __init__(self):
        self.rows = {}
    def add(self, key):
        self.rows.setdefault(key, []).append(len(self.rows))
        type(self).count += 1
    @staticmethod
    def note(key, noted=[]):
        noted.append(key)
        return noted
kept = Seen()
alias = seen
def tally(key, *, all={}):
    tally.calls += 1
    all[key] = tally.calls
    return all
tally.calls = 0
into = functools.partial(lambda rows, key, of: rows.append(key) or of.add(key), [], of=set())
"""
HANDLER = """
total += 1
mine = (mine if total > 1 else 0) + 2
seen.append(int(__NODE__))
by_node[int(__NODE__)] += 1
last.append(total)
kept.add(int(__NODE__))
session.state.latest = mine
session.state.told = dict(tally(int(__NODE__))), list(Seen.note(total))
into(total)
cont
"""


def prepared(session):
    session.execute(SCRIPT)
    session.set_block(session.watch("srv.successor"), HANDLER)
    session.at_exit(lambda stop: session.namespace["seen"].append(-int(stop.node)))
    session.breakpoint("stabilize", condition="srv.successor == srv.predecessor")
    return session


def collected(session):
    space = session.namespace
    assert space["alias"] is space["seen"]
    return (space["total"], list(space["seen"]), dict(space["by_node"]), list(space["last"]), {k: list(v) for k, v in space["kept"].rows.items()}, space["Seen"].count,
            getattr(session.state, "latest", None), getattr(session.state, "told", None), space["tally"].calls, list(space["into"].args[0]), set(space["into"].keywords["of"]))


def truth_at(ring, opened, places):
    """What a straight run has collected before each of these places."""
    session = prepared(opened(ring))
    found = {}
    for node, event in sorted(places, key=lambda place: session.backend.cut_named(f"{place[0]}#{place[1]}")):
        session.last_place = (node, event)
        session.finished = False
        while not session.finished:
            session.run()
        session.at_end_functions.clear()
        found[node, event] = collected(session)
    return found


def go_to_end(session):
    while session.run().kind != "end":
        pass


def walk(session, chance, places, truth, collect, moves):
    """Goes to the end, then to the places at random and sometimes to the end again: collect() gives what is true there. Returns that of the end."""
    go_to_end(session)
    at_end = collect()
    for _ in range(moves):
        node, event = chance.choice(places)
        session.goto(event, node=node)
        assert collect() == truth[node, event], f"before event {event} of node {node}"
        if chance.random() < 0.4:
            go_to_end(session)
            assert collect() == at_end
    return at_end


@pytest.mark.parametrize("seed", [1, 2, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 12)]])
def test_it_is_what_it_was_there(ring, opened, seed):
    chance = random.Random(seed)
    session = prepared(opened(ring))
    places = list(dict.fromkeys(session.backend.find_time(chance.uniform(0.3, ring.plan.seconds - 0.3)) for _ in range(12)))
    truth = truth_at(ring, opened, places)
    session.set_checkpoints(True, names=True)
    session.console = True
    walk(session, chance, places, truth, lambda: collected(session), 16)


SHIPPED = {
    "ring": Ring,
    "ring times": RingTimes,
    "oscillation": lambda session: Oscillation(session, value="srv.successor", times=1, seconds=2.0),
}


def told_by(check):
    """What a shipped predicate knows and has reported."""
    state = getattr(check, "state", None)
    return (check.looks, sorted((str(fault.key), fault.message) for fault in check.reported), {node.name: dict(row) for node, row in check.rows.items()},
            state and sorted(state.alive()))


@pytest.mark.parametrize("name", ["ring", *[pytest.param(name, marks=pytest.mark.full) for name in SHIPPED if name != "ring"]])
def test_a_shipped_predicate_is_what_it_was(name, ring, opened):
    chance, session, truth = random.Random(name), opened(ring), {}
    places = list(dict.fromkeys(session.backend.find_time(chance.uniform(0.3, ring.plan.seconds - 0.3)) for _ in range(6)))
    for place in places:
        straight = opened(ring)
        check = SHIPPED[name](straight)
        straight.at_end_functions.clear()  # this is not where the recording ends
        straight.last_place = place
        while not straight.finished:
            straight.run()
        truth[place] = told_by(check)
    assert len({told[0] for told in truth.values()}) > 1
    session.set_checkpoints(True, names=True)
    session.console = True
    check = SHIPPED[name](session)
    assert walk(session, chance, places, truth, lambda: told_by(check), 12)[0] > 5


def test_going_back_by_hits_undo_and_restart(ring, opened):
    session = prepared(opened(ring))
    session.set_checkpoints(True, names=True)
    session.console = True
    stops = []
    while (stop := session.run()).kind != "end":
        stops.append((stop.node, stop.event, collected(session)))
    assert len(stops) > 1
    for node, event, state in reversed(stops):
        stop = session.reverse_continue()
        assert (stop.node, stop.event, collected(session)) == (node, event, state)
    session.restart()
    assert collected(session) == (0, [], {}, [], {}, 0, None, None, 0, [], set())
    session.backend.note_move(session.states.tag())
    session.run()
    first = collected(session)
    session.undo()
    assert collected(session)[0] == 0
    session.redo()
    assert collected(session) == first


def test_undo_keeps_what_the_handler_of_the_place_has_collected(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True, names=True)
    session.execute("hits = []")
    session.console = True
    session.set_block(session.watch("srv.successor"), "hits.append(1)")
    counts = []
    for _ in range(5):
        session.backend.note_move(session.states.tag())
        session.run()
        counts.append(len(session.namespace["hits"]))
    assert counts == [1, 2, 3, 4, 5]
    for count in (4, 3, 2):
        session.undo()
        assert len(session.namespace["hits"]) == count
    session.redo()
    assert len(session.namespace["hits"]) == 3


def test_searches_leave_it_as_it_is(ring, opened):
    """Handlers of the search's own stop points are no part of the past of the user's: neither their state nor what runs again changes."""
    session = prepared(opened(ring))
    notices = []
    session.notice = notices.append
    session.set_checkpoints(True, names=True)
    session.console = True
    while session.run().kind != "end":
        pass
    places = sorted({session.backend.find_time(part * ring.plan.seconds) for part in (0.3, 0.5, 0.8)})
    for node, event in places:
        session.goto(event, node=node)
        state = collected(session)
        assert len(session.when("srv.seq", nodes=[1])) > 20
        assert collected(session) == state
        session.goto(places[0][1], node=places[0][0])
        session.goto(event, node=node)
        assert collected(session) == state, "after `when` the past of the handlers is still known"
    found = session.first(lambda: session.nodes[1].read("srv.seq") >= 5)
    state = collected(session)
    session.restart()
    session.goto(found.event + 1, node=found.node)
    assert collected(session) == state
    for point in list(session.points.values()):
        point.delete()
    session.restart()
    session.watch("srv.seq", nodes=[1])
    for _ in range(6):
        session.run()
        session.when("srv.seq", nodes=[1])
    assert notices == []


def test_a_handlers_own_names_go_back_behind_a_declaration(ring, opened):
    """A name that `py` declares makes the handler be compiled again; the others that it has go back as before."""
    session = opened(ring)
    session.set_checkpoints(True, names=True)
    session.console = True
    session.execute("n = 0")
    session.set_block(session.watch("srv.successor"), "n += 1\nown = n\nrows = rows + [n] if n > 1 else [n]\nother = n\ncont")
    session.every(seconds=0.1)
    handler = session.points[1].handler
    stops = []
    while session.run().kind != "end":
        stops.append((session.mark(), handler.values.get("own"), handler.values.get("rows")))
        if len(stops) == 2:
            session.execute("other = 0")
            assert "other" not in handler.own
    assert len(stops) > 3 and stops[1][1] != stops[-1][1], "the handler ran behind the declaration, too"
    for mark, own, rows in (stops[0], stops[-1], stops[1]):
        session.goto(mark)
        assert (session.namespace["n"], handler.values.get("own"), handler.values.get("rows")) == (own or 0, own, rows)


def test_what_the_user_sets_belongs_to_no_time(ring, opened):
    session = prepared(opened(ring))
    session.set_checkpoints(True, names=True)
    session.console = True
    while session.run().kind != "end":
        pass
    session.execute("def helper(x):\n    return x + 1\nnote = 'mine'\ndel alias\nalias = seen")
    session.restart()
    assert session.namespace["helper"](1) == 2 and session.namespace["note"] == "mine" and collected(session)[0] == 0


def test_nothing_is_said_or_set_twice(ring, opened, capsys):
    session = opened(ring)
    session.set_checkpoints(True, names=True)
    session.console = True
    session.execute("n = 0\nset_up = []")
    session.set_block(session.watch("srv.successor"), "n += 1\nprint('hit', n)\nif n == 2:\n    set_up.append(breakpoint('stabilize', nodes=0, condition='0'))\ncont")
    while session.run().kind != "end":
        pass
    said, points = capsys.readouterr().out, len(session.points)
    total = session.namespace["n"]
    node, event = session.backend.find_time(1.2)
    session.goto(event, node=node)
    assert 0 < session.namespace["n"] < total and capsys.readouterr().out == "" and len(session.points) == points
    assert said.count("hit") == total


def test_what_cannot_be_copied_is_named_once(ring, opened, tmp_path):
    session = opened(ring)
    notices = []
    session.notice = notices.append
    session.set_checkpoints(True, names=True)
    session.execute(f"import threading\nlock = threading.Lock()\nfile = open({str(tmp_path / 'log')!r}, 'w')\nn = 0")
    session.set_block(session.watch("srv.successor"), "n += 1\nfile.write('x')\ncont")
    while session.run().kind != "end":
        pass
    total = session.namespace["n"]
    session.restart()
    assert session.namespace["n"] == 0 < total and not session.namespace["file"].closed
    assert sorted(text.partition(",")[0] for text in notices if "cannot go back" in text) == ["file holds a TextIOWrapper", "lock holds a lock"]


def test_handlers_that_only_look_cost_little(ring, opened):
    """No copy is taken of what does not change, and nothing runs again."""
    session = opened(ring)
    session.set_checkpoints(True, names=True)
    session.watch("srv.seq")
    session.run()
    again = []
    session.run_again = again.append
    session.run()
    session.goto("1#20")
    assert not again and not session.states._log
