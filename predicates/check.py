"""The common form of the predicates: a Check sets its own stop points on a session, keeps a shadow of the values that it
is about, and reports violations with their evidence.

At each hit of a stop point the triggering node's row is read anew (one read a name, however many nodes there are), and
the predicate is looked at over the rows of all nodes. A subclass says what is wrong in one or both of two ways:

    faults()             what is wrong in the rows now: a state, that may heal; the judges (timing.py) decide
    changed(node, row)   what this change shows to be wrong for ever: two leaders of one term; reported at once

What is known of the moment at which a fault begins (the message received last, the stack) is taken then, and kept until
the fault is reported. A node takes part from the first hit on it until it ends or calls exit (ending.py). All nodes must be
replayed in `clock` order: only then do the rows stand at one consistent cut.

What a predicate does at a hit must not grow with the length of the recording: it reads and compares what is new, and keeps
what it needs to know of the rest. tests/predicates/test_growth.py counts that for each of them.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import inspect
import sys
from typing import Any, Callable, Hashable, Iterable, Mapping, Sequence

import friday
from friday.answers import counted
from predicates.ending import Endings
from predicates.names import Expression, Row, read, read_row, watched
from predicates.timing import AtOnce, Judge, Lapse, Lasting, ShareOfTime, TimeInState, WithinEvents

_ENDED = "the recording ended"
WORST = 5  # faults that the evidence of a share of time names


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing that is wrong. `key` tells it from others and stays the same while it lasts; `message` is a sentence for a
    person; `nodes` are those concerned, `values` show it."""

    key: Hashable
    message: str
    nodes: tuple[Any, ...]
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Check:
    """A predicate on a session.

    names: abstract names with their expressions; a row holds their values. optional: names that may be None in a row; a
    node of which any other is None does not take part. watch: the expressions whose change is a hit; by default those of
    `names`, or of `follow` where a subclass reads more than it need watch. at: instead, one or more places in the code
    (FUNC, FILE:LINE) at which a node's state is to be looked at, for predicates that do not hold between two stores. nodes:
    a node list. judge: one or several. armed: False sets no stop points. Raises UsageError when the session does not
    replay in clock order, NoSymbol for what the program lacks."""

    name = "check"
    optional: frozenset[str] = frozenset()
    of_states = True  # False: it needs the events on the way, a look at one state says nothing
    needs_past = True  # False: it can begin anywhere in a recording (`friday run --slices`). Which nodes take part, and which have left, is learnt on the way
    of_rows = False  # True: faults() follows from the rows alone, and is asked again only when one has changed

    def __init__(self, session: friday.Session, names: Mapping[str, Expression | None], *,
                 follow: Sequence[Expression] | None = None, watch: str | Sequence[str] | None = None,
                 at: str | Sequence[str] | None = None, nodes: Any = None, judge: Judge | Sequence[Judge] | None = None,
                 until: float | str | None = None, armed: bool = True) -> None:
        if session.backend.sync() != "clock":
            raise friday.UsageError(f"{self.name} compares nodes, and the session replays in {session.backend.sync()} order: use clock")
        self.session = session
        self.names: dict[str, Expression] = {name: expression for name, expression in names.items() if expression is not None}
        self.nodes = nodes
        self.judges: tuple[Judge, ...] = (judge,) if isinstance(judge, Judge) else tuple(judge or (AtOnce(),))
        # ShareOfTime reports no single lapse, so gdb need not be asked for the stack at each.
        self._tells_lapses = any(type(each).due is not Judge.due for each in self.judges)
        self._counts_events = any(each.counts_events for each in self.judges)
        self.until = until
        self._last_nodes = frozenset(session.choose(until)) if isinstance(until, str) else frozenset()
        self._endings = Endings.of(session) if armed else None
        self.reported: list[Fault] = []
        self._begin()
        if armed:
            session.checks.append(self)
            self._arm(watched(self.names.values() if follow is None else follow) if watch is None and at is None else watch, at)

    # -- for subclasses ----------------------------------------------------------------------------------------------
    def reset(self) -> None:
        """Forgets what was learnt: the session begins anew."""

    def faults(self) -> Iterable[Fault]:
        """What is wrong in `self.rows` now."""
        return ()

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        """A node's row was read anew: what that shows to be wrong, whatever comes later."""
        return ()

    def now(self) -> float:
        """Seconds of logical time; never runs back."""
        return max(self._latest, float(self.session.logical_time))

    def here(self) -> str:
        """Where the group stands, as evidence for later."""
        node = self.session.node
        return f"{self.session.logical_time} s, event {self.session.backend.event(int(node))} of {node.name}"

    # -- stop points -------------------------------------------------------------------------------------------------
    def _arm(self, watch: str | Sequence[str] | None, at: str | Sequence[str] | None) -> None:
        session = self.session
        if watch is not None:
            self._watch(watch)
        for place in [at] if isinstance(at, str) else at or ():
            session.breakpoint(place, self.hit, nodes=self.nodes)
        Endings.of(session).listeners.append(self)
        session.at_exit(self.node_ended)
        session.at_end(self._recording_ended)
        if isinstance(self.until, (int, float)):
            session.every(self._time_is_over, seconds=float(self.until))
        self._arm_times()

    def _watch(self, expressions: str | Sequence[str]) -> None:
        try:
            self.session.watch(expressions, self.hit, nodes=self.nodes)
        except friday.Error as error:
            error.add_note(f"{self.name} watches {expressions}: give watch= with the variables that these depend on, or at= with a place in the code")
            raise

    def _arm_times(self) -> None:
        periods = [judge.period for judge in self.judges if judge.period]
        if periods:
            self.session.every(self.pass_time, seconds=min(periods))

    def hit(self) -> None:
        """The handler of the stop points."""
        if not self.judging():
            return
        node = self.session.node
        row = read_row(node, self.names)
        if any(value is None and name not in self.optional for name, value in row.items()):
            self._stale = self._stale or node in self.rows
            self.rows.pop(node, None)
        else:
            self._stale = self._stale or self.rows.get(node) != row
            self.rows[node] = row
            for fault in self.changed(node, row):
                self.report(fault)
        self.look(counts=True)

    def judging(self) -> bool:
        """Whether what happens here counts. Every handler of a stop point asks this first. Begins anew when the session did."""
        self.follow_restart()
        if isinstance(self.until, (int, float)) and float(self.session.logical_time) > self.until:
            self._time_is_over()
        return not self.over and self.session.node not in self._left

    def follow_restart(self) -> None:
        if self.session.restarts != self._restarts:
            self._begin()

    def pass_time(self) -> None:
        """The handler of the timer: nothing changed, but it lasts longer."""
        self.follow_restart()
        if not self.over:
            self.look()

    # -- the ends of nodes -------------------------------------------------------------------------------------------
    def node_told(self, node: friday.Node, how: str) -> None:
        self.follow_restart()
        if node in self._last_nodes:
            self.close(how)

    def node_leaves(self, node: friday.Node, how: str) -> None:
        self.follow_restart()
        if node in self._last_nodes:
            self.close(how)
        if not self.over:
            self.last_look(node)
            self._left.add(node)
            self._stale = self.rows.pop(node, None) is not None or self._stale
            self.look()

    def last_look(self, node: friday.Node) -> None:
        """A node is about to leave, and its memory is still as it was at work: for predicates that read more than its row."""

    def node_ended(self, stop: friday.Stop) -> None:
        """A node has ended: it is no more among those that live, and the others may still count on it."""
        self.pass_time()

    def _time_is_over(self) -> None:
        self.follow_restart()
        self.close(f"{self.until:g} s had passed")

    def close(self, how: str) -> None:
        """Nothing is judged from here on. `how` says in words what came."""
        if not self.over:
            self.finish()
            self.over = how

    def _recording_ended(self) -> None:
        if self._last_nodes and not self.over:
            self.session.notice(f"{self.name}: until {self.until!r} did not come: none of these nodes was told to end, called exit or ended, so all of the recording was judged")
        self.close("")
        self.over = self.over or _ENDED

    # -- judging -----------------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        self.rows: dict[friday.Node, Row] = {}
        self.times = TimeInState()  # "holds" and "broken"
        self.lapses: list[Lapse] = []  # those that are over, too
        self._open: dict[Hashable, Lapse] = {}
        self._waiting: tuple[collections.deque[Lapse], ...] = tuple(collections.deque() for _ in self.judges)  # those that a judge has not called a violation yet
        self._once: set[Hashable] = set()
        self._stale = False  # rows have changed since faults() was asked
        self._latest = 0.0
        self._left: set[friday.Node] = set()  # nodes that take no part any more
        self.over = ""  # what ended the judging, in words
        self._restarts = self.session.restarts
        self.looks = 0  # hits of the stop points
        self.reset()

    def look(self, counts: bool = False) -> None:
        """Looks at all rows; `counts`: at a hit of a stop point."""
        now = self._latest = self.now()
        self.looks += counts
        if self._stale or not self.of_rows:
            self._stale = False
            self._update_lapses({fault.key: fault for fault in self.faults()}, now)
        self.times.enter("broken" if self._open else "holds", now)
        self._judge(now)

    def _update_lapses(self, current: dict[Hashable, Fault], now: float) -> None:
        for key in self._open.keys() - current.keys():
            self.end_lapse(key, now)
        for key, fault in current.items():
            if key not in self._open:
                self.begin_lapse(fault, now)

    def begin_lapse(self, fault: Fault, now: float) -> None:
        """From now on the predicate is broken by this fault."""
        lapse = Lapse(fault, now, self.origin() if self._tells_lapses else {}, since_event=self._events_done())
        self._open[fault.key] = lapse
        self.lapses.append(lapse)
        for judge, waiting in zip(self.judges, self._waiting):
            if type(judge).due is not Judge.due:
                waiting.append(lapse)

    def end_lapse(self, key: Hashable, now: float) -> None:
        """The fault is over. Its lapse lasted until now, and is judged a last time: nobody need have looked since it became a violation."""
        lapse = self._open.pop(key)
        lapse.until = now
        for index in range(len(self.judges)):
            self._judge_lapse(index, lapse, now, self._events_done())

    def _events_done(self) -> int:
        return self.session.backend.events_done() if self._counts_events else 0

    def _judge(self, now: float) -> None:
        """Judges the open lapses. Of two, the one that began first is due first, so that each is looked at once and those that wait are not."""
        done = self._events_done() if self._open else 0
        for index, waiting in enumerate(self._waiting):
            while waiting and (waiting[0].until is not None or self._judge_lapse(index, waiting[0], now, done)):
                waiting.popleft()

    def _judge_lapse(self, index: int, lapse: Lapse, now: float, done: int) -> bool:
        """Tells of a lapse that this judge calls a violation, once. Returns whether it has done so by now."""
        lapse.events = done - lapse.since_event
        reason = self.judges[index].due(lapse, now) if index not in lapse.judged else None
        if reason is not None:
            lapse.judged.add(index)
            began = {"since": lapse.since, **lapse.origin} if lapse.since < now else {"after": lapse.origin["after"]}
            self._tell(lapse.fault, ", ".join(filter(None, [lapse.fault.message, reason])), began)
        return index in lapse.judged

    def finish(self) -> None:
        """The recording, or what is judged of it, has ended."""
        self._tell_if_idle()
        now = self.now()
        self.times.finish(now)
        self._judge(now)
        for judge in self.judges:
            reason = judge.at_end(self.times)
            if reason is not None:
                self._tell(*self._share_evidence(reason, now))

    def _tell_if_idle(self) -> None:
        """A predicate that was never looked at has not held either: most often a name is mapped wrongly."""
        if not self.looks:
            self.session.notice(f"{self.name}: nothing was checked: its stop points were never hit")

    def _share_evidence(self, reason: str, now: float) -> tuple[Fault, str, dict[str, Any]]:
        worst = sorted(self.lapses, key=lambda lapse: -lapse.length(now))[:WORST]
        low, high = self.times.longest("broken") or (now, now)
        values = {"share": self.times.share("holds"), "held": self.times.total("holds"), "broken": self.times.total("broken"),
                  "longest": f"{high - low:.3f} s from {low:.3f} to {high:.3f}",
                  "worst": [f"{lapse.fault.message}: {lapse.length(now):.3f} s from {lapse.since:.3f}" for lapse in worst]}
        return Fault("share", reason, worst[0].fault.nodes if worst else (), values), reason, {}

    def report(self, fault: Fault) -> None:
        """Reports a fault that no time heals, once."""
        if fault.key not in self._once:
            self._once.add(fault.key)
            self._tell(fault, fault.message, {"after": self.origin(stack=False)["after"]})

    def _tell(self, fault: Fault, message: str, more: Mapping[str, Any]) -> None:
        self.reported.append(fault)
        self.session.violation(self.name, nodes=fault.nodes or None, message=message, **{**more, **self._ending(fault), **fault.values})

    def _ending(self, fault: Fault) -> dict[str, str]:
        """Evidence that a node of the fault was about to end: then it may be no fault of the system at work."""
        told = self._endings.told if self._endings and self.until is None else {}
        return {"ending": f"{told[node]}: --until all, until='all', judges until then" for node in fault.nodes if node in told}

    def origin(self, stack: bool = True) -> dict[str, Any]:
        """What led here: the place in time, the message that the triggering node received last, its stack."""
        node = self.session.node
        after, last = None, self.session.last_message()
        if last is not None:
            source = "an unrecorded peer" if last.source is None else last.source.name
            after = f"message {last.number} from {source}, {last.bytes} bytes, received at {last.received} s by event {last.target_event} of {node.name}"
        found = {"began": self.here(), "after": after}
        if stack:
            try:
                found["stack"] = node.backtrace()
            except friday.Error as error:
                found["stack"] = f"no backtrace: {error}"
        return found

    # -- now ---------------------------------------------------------------------------------------------------------
    @classmethod
    def validate(cls, session: friday.Session, **names: Any) -> None:
        """Looks at the present state of all live nodes, once; for the prompt and for handlers. Takes what the class takes.
        Raises friday.Violated with the evidence of the first fault, UsageError for a predicate about events."""
        if not cls.of_states:
            raise friday.UsageError(f"{cls.name} is about what happens on the way: set it up and run, a look at one state says nothing")
        check = cls(session, armed=False, **names)
        here = session.here
        found: list[Fault] = []
        try:
            for node in session.all_nodes if check.nodes is None else set(session.all_nodes) & set(session.choose(check.nodes)):
                session.here = int(node)
                row = read_row(node, check.names)
                if all(value is not None or name in cls.optional for name, value in row.items()):
                    check.rows[node] = row
                    found += check.changed(node, row)
        finally:
            session.here = here
        found += check.faults()
        if found:
            fault = found[0]
            raise friday.Violated(fault.message, predicate=cls.name, nodes=fault.nodes, **fault.values)

    def summary(self) -> str:
        """One line of text: the number of violations and, for a predicate about states, how long it held."""
        text = f"{self.name}: {counted(len(self.reported), 'violation')} in {counted(self.looks, 'look')}{self.judged_until()}"
        if type(self).faults is Check.faults:
            return text
        whole = self.times.total("holds") + self.times.total("broken")
        return f"{text}; held for {self.times.share('holds'):.1%} of {whole:.3f} s, broken {counted(len(self.lapses), 'time')}"

    def judged_until(self) -> str:
        """For summaries: what ended the judging before the recording ended."""
        return f" until {self.over}" if self.over and self.until is not None and self.over != _ENDED else ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.rows)} nodes, {len(self._open)} faults now, {len(self.reported)} reported>"


def name_of(node: friday.Node) -> str:
    """The name of a node without its restart count, which is the same across restarts."""
    return node.name.partition("#")[0]


# -- a predicate from the command line ---------------------------------------------------------------------------------
_KINDS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "float | None": float}


def _parser(check: type[Check]) -> argparse.ArgumentParser:
    """Options from the class's own parameters, and those that all predicates have."""
    parser = argparse.ArgumentParser(prog=f"friday run {sys.argv[0]} REC --", description=inspect.getdoc(check),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parameters = inspect.signature(check.__init__).parameters
    for parameter in parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "at":
            required = parameter.default is parameter.empty
            option = "--" + parameter.name.replace("_", "-")
            if parameter.annotation == "bool":
                parser.add_argument(option, action="store_true")
            else:
                parser.add_argument(option, required=required, default=None if required else parameter.default,
                                    type=_KINDS.get(parameter.annotation, str), metavar="N" if parameter.annotation in _KINDS else "EXPR",
                                    help=None if required or parameter.default is None else f"default: {parameter.default}")
    parser.add_argument("--watch", metavar="EXPRS", help="what to watch instead of the expressions themselves")
    must = "at" in parameters and parameters["at"].default is inspect.Parameter.empty
    parser.add_argument("--at", action="append", metavar="LOC", required=must, help="look when a node comes to this place; may be repeated")
    parser.add_argument("--nodes", metavar="LIST", help="the nodes that take part, all by default")
    parser.add_argument("--lasting", type=float, metavar="SECONDS", help="a violation only when broken for longer than this")
    parser.add_argument("--within", type=int, metavar="EVENTS", help="a violation only when still broken after so many events more of the group")
    parser.add_argument("--share", type=float, metavar="PART", help="a violation when it held for a smaller part of the time, 0 to 1")
    parser.add_argument("--until", type=_until, metavar="WHEN", help="judge only until then: seconds of logical time, or a node list such as `client` or `all`, "
                        "of which the first node that is told to end by a stop signal, calls exit or ends is meant")
    parser.add_argument("--summary", action="store_true", help="say at the end how long it held")
    return parser


def _until(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def main(check: type[Check]) -> Check:
    """`friday run predicates/NAME.py REC -- OPTIONS`: the predicate on the session that runs."""
    options = vars(_parser(check).parse_args(sys.argv[1:]))
    chosen = [make(options.pop(name)) if options.get(name) is not None else options.pop(name) for name, make in (
        ("lasting", lambda s: Lasting(seconds=s)), ("within", lambda n: WithinEvents(events=n)), ("share", lambda p: ShareOfTime(share=p)))]
    judges = [judge for judge in chosen if judge is not None]
    tell = options.pop("summary")
    if friday.session is None:
        raise friday.UsageError("a predicate runs on a session: friday run predicates/NAME.py REC -- OPTIONS")
    made = check(friday.session, **({"judge": judges} if judges else {}), **options)
    if tell:
        friday.session.at_end(lambda: print(made.summary()))
    return made


__all__ = ["Check", "Expression", "Fault", "Row", "main", "name_of", "read"]
