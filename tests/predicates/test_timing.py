"""The judges of "too inconsistent", and the times they go by; then a predicate under each of them."""

import re

import pytest
from support import Event, Message, changes, friday, run, session_of

from predicates.check import Check, Fault
from predicates.timing import AtOnce, Lapse, Lasting, ShareOfTime, TimeInState, WithinEvents


def test_times_add_up():
    times = TimeInState()
    for state, time in (("holds", 1.0), ("broken", 3.0), ("broken", 3.5), ("holds", 4.0), ("broken", 9.0)):
        times.enter(state, time)
    times.finish(9.5)
    assert (times.total("holds"), times.total("broken"), times.changes) == (7.0, 1.5, 3)
    assert times.share("broken") == 1.5 / 8.5 and times.longest("broken") == (3.0, 4.0) and times.longest("other") is None
    times.finish(11.5)
    assert times.total("broken") == 3.5
    times.leave(12.0)
    times.enter("holds", 20.0)
    times.finish(21.0)
    assert (times.total("holds"), times.total("broken")) == (8.0, 4.0), "in between it was in no state"


def test_time_that_runs_back_is_refused():
    times = TimeInState()
    times.enter("holds", 2.0)
    with pytest.raises(ValueError, match="backwards, from 2.0 to 1.0"):
        times.enter("broken", 1.0)


def test_no_time_at_all():
    times = TimeInState()
    assert times.share("holds") == 0.0
    times.enter("holds", 1.0)
    assert times.share("holds") == 1.0 and times.share("broken") == 0.0


@pytest.mark.parametrize("make, text", [
    (lambda: Lasting(seconds=0), "above 0"), (lambda: WithinEvents(events=0), "at least 1"), (lambda: ShareOfTime(share=95), "at most 1")])
def test_bad_bounds_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_what_each_judge_waits_for():
    lapse = Lapse(None, since=5.0, events=2)
    assert AtOnce().due(lapse, 5.0) == ""
    assert Lasting(seconds=2).due(lapse, 7.0) is None
    assert Lasting(seconds=2).due(lapse, 7.5) == "for 2.500 s, longer than 2 s"
    assert WithinEvents(events=3).due(lapse, 9.0) is None
    assert WithinEvents(events=2).due(lapse, 5.0) == "still so after 2 events"


class Equal(Check):
    """All nodes hold the same x."""

    name = "equal"

    def __init__(self, session, **options):
        super().__init__(session, {"x": "x"}, **options)

    def faults(self):
        values = {row["x"] for row in self.rows.values()}
        if len(values) > 1:
            yield Fault("differ", f"x is {sorted(values)}", tuple(self.rows), {"x": {n.name: r["x"] for n, r in self.rows.items()}})


# a and b agree from 1 s, differ from 10 to 13 s, agree until the end at 20 s.
STEPS = changes((0, {"x": 1}, 0.5), (1, {"x": 1}, 0.5), (0, {"x": 2}, 9.0), (2, {"y": 1}, 1.0), (2, {"y": 2}, 1.5), (1, {"x": 2}, 0.5), (2, {"y": 3}, 7.0))


def judged(judge, **options):
    session = session_of(STEPS)
    return session, Equal(session, judge=judge, **options)


def test_at_once_reports_the_state_with_its_evidence():
    session, check = judged(None)
    assert run(session) == ["x is [1, 2]"]
    (violation,) = session.violations
    assert violation.predicate == "equal" and [node.name for node in violation.nodes] == ["a", "b"]
    assert violation.values["x"] == {"a": 2, "b": 1} and violation.logical_time == 10.0
    assert check.times.total("broken") == 3.0 and len(check.lapses) == 1


def test_lasting_reports_when_it_has_lasted_and_keeps_the_beginning():
    session, _ = judged(Lasting(seconds=2))
    assert run(session) == ["x is [1, 2], for 2.500 s, longer than 2 s"]
    values = session.violations[0].values
    assert values["since"] == 10.0 and values["began"] == "10.0 s, event 1 of a" and "main" in values["stack"]


def test_lasting_lets_transients_pass():
    session, check = judged(Lasting(seconds=4))
    assert run(session) == [] and len(check.lapses) == 1


BROKEN_FOR_FOUR = changes((0, {"x": 1}), (1, {"x": 2}), (2, {"y": 1}), (2, {"y": 2}), (2, {"y": 3}), (0, {"x": 2}))


@pytest.mark.parametrize("events, within, found", [
    (BROKEN_FOR_FOUR, 5, []),
    (BROKEN_FOR_FOUR, 4, []),  # nobody looked in between, and at the fourth it is whole again
    (BROKEN_FOR_FOUR, 3, ["x is [1, 2], healed only after 4 events"]),
    ([*BROKEN_FOR_FOUR[:-1], *changes((0, {"x": 3}), (0, {"x": 2}))], 4, ["x is [1, 2], still so after 4 events"]),
    ([*BROKEN_FOR_FOUR[:-1], *changes((0, {"x": 3}), (0, {"x": 2}))], 5, []),
    (BROKEN_FOR_FOUR[:-1], 3, ["x is [1, 2], still so after 3 events"])])  # at the end
def test_within_events_counts_those_of_the_group(events, within, found):
    session = session_of(events)
    Equal(session, judge=WithinEvents(events=within))
    assert run(session) == found


def test_a_lapse_is_judged_when_it_is_over():
    """Nobody looked while it lasted, and it is too long already."""
    session = session_of([*changes((0, {"x": 1}), (1, {"x": 2})), *changes(*[(2, {"y": n}) for n in range(8)]), *changes((0, {"x": 2}))])
    judge = Lasting(seconds=2)
    judge.period = None
    Equal(session, judge=judge)
    (found,) = run(session)
    assert re.fullmatch(r"x is \[1, 2\], for \d\.\d{3} s, longer than 2 s", found)


def test_share_of_time_names_the_worst():
    session, _ = judged(ShareOfTime(share=0.9))
    assert run(session) == ["held for 84.6% of the time, less than 90.0%"]
    values = session.violations[0].values
    assert (values["held"], values["broken"]) == (16.5, 3.0)
    assert values["longest"] == "3.000 s from 10.000 to 13.000" and values["worst"] == ["x is [1, 2]: 3.000 s from 10.000"]
    session, _ = judged(ShareOfTime(share=0.8))
    assert run(session) == []


def test_several_judges_each_speak_once():
    session, _ = judged([Lasting(seconds=1), ShareOfTime(share=0.95)])
    assert run(session) == ["x is [1, 2], for 2.500 s, longer than 1 s", "held for 84.6% of the time, less than 95.0%"]


def test_a_node_that_ends_takes_no_part():
    session = session_of([*changes((0, {"x": 1}), (1, {"x": 2})), Event(1, ends=True), *changes((0, {"x": 3}))])
    check = Equal(session, judge=Lasting(seconds=5))
    assert run(session) == [] and [node.name for node in check.rows] == ["a"]


def test_restart_begins_anew():
    session, check = judged(None)
    run(session)
    session.restart()
    session.violations.clear()
    assert run(session) == ["x is [1, 2]"] and len(check.lapses) == 1


def test_the_message_that_led_there_is_evidence():
    session = session_of(STEPS)
    session.backend.sent = [Message(1, 1, 0, received=2, target_event=1), Message(2, None, 2, received=3)]
    Equal(session)
    run(session)
    assert session.violations[0].values["after"] == "message 1 from b, 8 bytes, received at 2 s by event 1 of a"


def test_validate_looks_at_the_present_state():
    session = session_of([])
    for node, x in enumerate((1, 1, 2)):
        session.backend.let(node, {"x": x})
    with pytest.raises(friday.Violated, match=r"x is \[1, 2\]") as caught:
        Equal.validate(session)
    assert caught.value.evidence == {"x": {"a": 1, "b": 1, "c": 2}}
    Equal.validate(session, nodes="a,b")
    assert session.points == {}


def test_other_orders_are_refused():
    session = session_of([])
    session.backend.order = "free"
    with pytest.raises(friday.UsageError, match="free order: use clock"):
        Equal(session)


@pytest.mark.parametrize("of_rows", [True, False])
def test_what_follows_from_rows_alone_is_asked_when_one_has_changed(of_rows):
    session = session_of(changes((0, {"y": 1}), (0, {"y": 2}), (1, {"y": 1}), (0, {"x": 2}), (0, {"y": 3}), (1, {"y": 2}), (1, {"x": 2}), (1, {"y": 4})),
                         start={"x": 1, "y": 0})
    asked = []

    class Counting(Equal):
        def faults(self):
            asked.append(float(session.logical_time))
            yield from super().faults()

    Counting.of_rows = of_rows
    check = Counting(session, watch="x, y", judge=Lasting(seconds=1.5))
    assert run(session) == ["x is [1, 2], for 2.000 s, longer than 1.5 s"], "it lasts although nobody asked meanwhile"
    assert check.looks == 8 and (asked == [1.0, 3.0, 4.0, 7.0] if of_rows else {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0} <= set(asked))
    assert [(lapse.since, lapse.until) for lapse in check.lapses] == [(4.0, 7.0)]
