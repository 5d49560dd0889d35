"""The evaluation of the paper ("Friday: Global Comprehension for Distributed Replay", NSDI 2007, section 5) on this machine.

A Chord ring (tests/apps/chord) is recorded once: the nodes form the ring, which then runs for some minutes while several nodes are killed
and restarted each minute. Everything is measured on this recording, replayed in `clock` order: how fast it replays, and what predicates,
a watch, and each kind of operation at a hit cost, over six periods as in the paper's table 2. A cost is the time of a replay with it
minus the time of one without, each the best of several replays that alternate. Without --quick it writes docs/evaluation.md and its
figures.
"""
from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Sequence

import evaluation_page
import stops
from console import load_friday
from replay import group_file, ring_module
from support import ROOT, Bench, Key, Number, Unavailable, descendants, free_ports, need, wait_until

NAME = "evaluation"
PERIODS = 6
KEYS = {
    "plain_speedup": Key("x", ">= 50", "recorded seconds / seconds of the replay without predicates"),
    "ring_ratio": Key("", "", "consistency of the ring, for how much of the time: time of the replay with it / without"),
    "ring_added_us": Key("us", "<= 60", "the same: what a hit adds"),
    "oscillation_ratio": Key("", "", "fingers that go and come back"),
    "oscillation_added_us": Key("us", "<= 40", "the same: what a hit adds"),
    "misdelivered_ratio": Key("", "", "misdelivered requests, the published example: two calls for each live node at a delivery"),
    "misdelivered_added_us_per_call": Key("us", "<= 40", "the same: what a call adds"),
    "delivery_ratio": Key("", "", "misdelivered requests, predicates/misdelivered.py, which calls nothing"),
    "delivery_added_us": Key("us", "", "the same: what a look adds"),
    "disjoint_ratio": Key("", "", "connectivity graph and disjoint paths of ten nodes, the published example"),
    "false_positive_ratio": Key("", "", "a watch that is never hit, on the page of the node's variables"),
    "null_ratio": Key("", "", "a watch with a handler that does nothing"),
    "read_ratio": Key("", "", "that reads a variable"),
    "write_ratio": Key("", "", "that writes one"),
    "call_ratio": Key("", "", "that calls a function"),
    "safe_ratio": Key("", "", "that calls it safely, as all calls are here"),
    "software_watch_ratio": Key("x", "", "software watchpoints of plain gdb, on a slice of stores"),
}
PAPER = {"plain_speedup": "0.32", "ring_ratio": "2.53", "oscillation_ratio": "1.48", "misdelivered_ratio": "9.05", "disjoint_ratio": "14",
         **dict.fromkeys(("false_positive_ratio", "null_ratio", "read_ratio", "write_ratio", "call_ratio", "safe_ratio"), "2.55 to 2.89"),
         "software_watch_ratio": "8470"}
WATCHED = "srv.unanswered"  # written twice in each round of stabilisation
BESIDE = "srv.period"       # never written, on the same page


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is recorded and replayed: number of nodes, minutes recorded after the ring has formed, kills per minute, and replays
    of each kind."""
    nodes: int
    seconds: int
    kills: int
    replays: int
    period: int = 1000  # ms between two rounds of stabilisation
    gap: float = 0.1    # s between two starts
    rate: float = 15.0  # requests a second

    @property
    def together(self) -> int:
        """Seconds from the start after which the ring has formed."""
        return round(self.nodes * self.gap + 14 * self.period / 1000) + self.nodes // 3


def size_of(bench: Bench) -> Size:
    if bench.quick:
        return Size(nodes=8, seconds=12, kills=1, replays=1, period=250)
    return Size(nodes=62, seconds=60 if bench.short else 600, kills=4, replays=3 if bench.short else 2)


# -- recording ---------------------------------------------------------------------------------------------------------
@dataclasses.dataclass
class Ring:
    """A recorded ring. `load` has its rates per second (see measure_load()), `busy` is the machine's load average before the recording."""
    recording: pathlib.Path
    size: Size
    killed: list[str]
    busy: float
    load: dict[str, float] = dataclasses.field(default_factory=dict)


def find_process(recorder: int, program: pathlib.Path, name: str) -> int:
    """The pid of the node with this name among the descendants of a recorder."""
    def look() -> int | None:
        for pid in descendants(recorder):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == str(program).encode() and name.encode() in words:
                return pid
        return None
    return wait_until(look, f"the process of {name}")


def record_ring(bench: Bench, size: Size) -> Ring:
    """Records the ring. Random nodes are killed by SIGKILL, and restarted some seconds later with the same name, id and port."""
    ring, apps, busy = ring_module(), bench.build / "apps", os.getloadavg()[0]
    if not (apps / "chord").exists():
        raise Unavailable(f"{apps}/chord is not built")
    length = size.together + size.seconds
    plan = ring.make_plan(nodes=size.nodes, seconds=length, seed=1, gap=size.gap, period=size.period, rate=size.rate, late_at=size.nodes * size.gap + 2)
    group, recording = bench.path("group"), bench.path("ring-rec")
    group.write_text(ring.group_toml(plan, apps))
    began = time.monotonic()
    recorder = bench.start([bench.friday, "record", "-q", "-o", recording, "--group", group])
    chance, killed, restarted = random.Random(1), [], []
    slot = 60 / size.kills if size.seconds >= 60 else size.seconds / (size.kills + 1)
    for turn in range(int(size.seconds // slot)):
        victim = chance.choice([node for node in plan.nodes[1:] if node.name not in killed[-size.nodes // 2:]])
        time.sleep(max(0.0, began + size.together + turn * slot + slot / 4 - time.monotonic()))
        recorders = [recorder, *(process for name, process in restarted if name == victim.name)]
        signalled = find_process(recorders[-1].pid, apps / "chord", victim.name)
        subprocess.run(["kill", "-KILL", str(signalled)], check=True)
        killed.append(victim.name)
        time.sleep(slot / 4)
        command = [bench.friday, "record", "-q", "-o", recording, "--node", victim.name, "--", apps / "chord", *victim.args]
        restarted.append((victim.name, bench.start(command)))
    if recorder.wait(length + 60) not in (0, 128 + signal.SIGKILL):
        raise RuntimeError(f"recording the ring failed: {recorder.log.read_text()[-2000:]}")
    for _, process in restarted:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    return Ring(recording, size, killed, busy)


# -- replays -----------------------------------------------------------------------------------------------------------
@dataclasses.dataclass
class Replay:
    """The seconds that each of the six periods took in a replay (or the best of several), and the hits in each."""
    periods: list[float]
    hits: int = 0
    faults: int = 0
    events: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.periods)

    def better(self, other: "Replay") -> "Replay":
        return dataclasses.replace(self, periods=[min(pair) for pair in zip(self.periods, other.periods)])


Arm = Callable[[Any], Any]


class Replayer:
    """Replays of one recording in one session, with and without stop points."""

    def __init__(self, session: Any, start: float, seconds: float, replays: int) -> None:
        self.session, self.start, self.seconds, self.replays = session, start, seconds, replays

    def once(self, arm: Arm | None) -> Replay:
        """Replays once from the start of the recording. `arm` sets stop points and may return a function that returns a count."""
        session = self.session
        session.restart()
        armed = set(session.points)
        count = arm(session) if arm else None
        set_now = [point for number, point in session.points.items() if number not in armed]
        marks: list[tuple[float, float, int, int]] = []

        def mark() -> None:
            hits = sum(point.hits for point in set_now)
            marks.append((float(session.logical_time), time.perf_counter(), hits, session.backend.watch_statistics()["faults"]))

        session.every(mark, seconds=self.seconds / PERIODS / 10)
        stop = session.run()
        if stop.kind != "end":
            raise RuntimeError(f"the group stopped early: {stop.kind}")
        for number in list(session.points):
            session.delete(number)
        borders = [min(marks, key=lambda one: abs(one[0] - self.start - self.seconds * i / PERIODS)) for i in range(PERIODS + 1)]
        found = Replay([b[1] - a[1] for a, b in zip(borders, borders[1:])], borders[-1][2] - borders[0][2], borders[-1][3] - borders[0][3])
        if callable(count):
            found.events = count()
        return found

    def compare(self, arm: Arm, replays: int | None = None) -> tuple[Replay, Replay]:
        """Replays without and with the stop points in turn, several times; for each period the best of its times is taken."""
        without, with_it = self.once(None), self.once(arm)
        for _ in range((replays or self.replays) - 1):
            without, with_it = without.better(self.once(None)), with_it.better(self.once(arm))
        return without, with_it


def ratio(pair: tuple[Replay, Replay]) -> Number:
    """The mean ratio over the periods, and its standard deviation."""
    each = [b / a for a, b in zip(pair[0].periods, pair[1].periods)]
    return Number(statistics.mean(each), statistics.stdev(each), len(each))


def added_us(pair: tuple[Replay, Replay], events: int) -> Number:
    return Number((pair[1].total - pair[0].total) / max(1, events) * 1e6)


# -- what is replayed with what ----------------------------------------------------------------------------------------
def watch_with(handler: Callable[[Any], Callable[[], Any]], nodes: Any = None) -> Arm:
    return lambda session: session.watch(WATCHED, handler(session), nodes=nodes) and None


def block(source: str) -> Arm:
    def arm(session: Any) -> None:
        session.set_block(session.watch(WATCHED), source)
    return arm


def false_positive(session: Any, nodes: Any = None) -> None:
    session.watch(BESIDE, lambda: None, nodes=nodes)


KINDS: dict[str, Arm] = {
    "false_positive": false_positive,
    "null": watch_with(lambda session: lambda: None),
    "read": block("x = @(srv.node.id)\n"),
    "write": block("@((int)_friday_workspace = 5)\n"),
    "call": block("x = @(is_get(PACKET_GET))\n"),
    "safe": block("x = safe @(is_get(PACKET_GET))\n"),
}

MISDELIVERED = """
if float(__LOGICALCLOCK__) < begin:
  cont
for peer in __ALL__:
  if peer not in ids:  # it has just been started again, and has not read its id yet
    continue
  calls += 2
  @((chordID)_friday_workspace = atoid("%(ids[peer])s"))
  if @(is_between((chordID*)&_friday_workspace, @(packet_id), &successor->id)):
    misdelivered += 1
"""


def ring_predicate(session: Any) -> Any:
    from predicates.ring_times import RingTimes
    from predicates.timing import ShareOfTime
    check = RingTimes(session, watch=f"srv.successor, srv.predecessor, {WATCHED}", judge=ShareOfTime(share=0.5))
    return lambda: {"looks": check.looks, "held %": round(100 * check.times.share("holds"))}


def oscillation_predicate(session: Any) -> Any:
    from predicates.oscillation import Oscillation
    check = Oscillation(session, down_at="remove_finger", down="f->node.addr", up_at="insert_finger", up="addr")
    return lambda: {"looks": check.looks, "found": len(check.reported)}


def delivery_predicate(session: Any) -> Any:
    from predicates.misdelivered import Misdelivered
    check = Misdelivered(session, at="process_data", key="packet_id", id="srv.node.id", member="srv.successor", settled=10.0)
    return lambda: {"looks": check.looks, "found": check.misdelivered, "requests": check.requests}


def misdelivered_example(begin: float, session: Any) -> Any:
    """The example of section 4.1.2 of the paper, but for every request from `begin` on instead of a single one."""
    names = session.namespace
    session.execute(f"ids = {{}}\nmisdelivered = calls = 0\nbegin = {begin}")
    session.set_block(session.breakpoint("chord.c:58"), "ids[__NODE__] = @((char*)id)\n")
    session.set_block(session.breakpoint("process.c:69"), MISDELIVERED)
    return lambda: {"calls": names["calls"], "found": names["misdelivered"]}


# -- measuring ---------------------------------------------------------------------------------------------------------
def measure_load(session: Any, ring: Ring, replayer: Replayer) -> None:
    """Counts the load in the recording: writes of the watched variable and other writes to its page, per node and second, and
    deliveries per second. Raises RuntimeError if the load is less than the page states. It observes every store, which is
    slow, so it uses only the first of the six periods."""
    low, high = replayer.start, replayer.start + replayer.seconds / PERIODS
    seen = {"writes": 0, "stores": 0}

    def arm(session: Any) -> None:
        point: list[Any] = []

        def border() -> None:
            now = float(session.logical_time)
            if not point and now >= low:
                point.append(session.watch(f"-writes {WATCHED}", lambda: None))
            elif point and not point[0].deleted and now >= high:
                seen.update(writes=point[0].hits, stores=session.backend.watch_statistics()["faults"])
                point[0].delete()
        session.every(border, seconds=(high - low) / 20)

    session.backend.set_patch_stores(False)
    replayer.once(arm)
    session.backend.set_patch_stores(True)
    served = replayer.once(lambda session: session.breakpoint("process_data", lambda: None) and None)
    ring.load = {"writes": seen["writes"] / ring.size.nodes / (high - low), "others": seen["stores"] / max(1, seen["writes"]) - 1,
                 "deliveries": served.hits / ring.size.seconds}
    if ring.load["writes"] < 1 or ring.load["others"] < 3.7 or ring.load["deliveries"] < (10 if ring.size.nodes > 50 else 1):
        raise RuntimeError(f"the load is less than docs/evaluation.md states: {ring.load}")


def measure_ring(bench: Bench, friday: Any, ring: Ring) -> tuple[dict[str, Number], dict[str, dict[str, int]], dict[str, dict[int, tuple[float, float]]]]:
    numbers: dict[str, Number] = {}
    details: dict[str, dict[str, int]] = {}
    size = ring.size
    with friday.Session(str(ring.recording), sync="clock") as session:
        replayer = Replayer(session, size.together, size.seconds, size.replays)
        measure_load(session, ring, replayer)
        bench.note(f"load: {ring.load}")
        plain = replayer.once(None)
        for _ in range(size.replays):
            plain = plain.better(replayer.once(None))
        numbers["plain_speedup"] = Number(size.seconds / plain.total)
        for name, arm in KINDS.items():
            pair = replayer.compare(arm)
            numbers[f"{name}_ratio"] = ratio(pair)
            details[name] = {"hits": pair[1].hits, "faults": pair[1].faults}
            bench.note(f"{name}: {pair[0].total:.2f} s and {pair[1].total:.2f} s, {details[name]}")
        predicates: dict[str, tuple[Arm, str, str]] = {
            "ring": (ring_predicate, "ring_added_us", "looks"), "oscillation": (oscillation_predicate, "oscillation_added_us", "looks"),
            "delivery": (delivery_predicate, "delivery_added_us", "looks"), "misdelivered": (functools.partial(misdelivered_example, size.together), "misdelivered_added_us_per_call", "calls")}
        for name, (arm, key, counted) in predicates.items():
            pair = replayer.compare(arm, 1 if name == "misdelivered" else None)
            events = pair[1].events[counted] if counted == "calls" else pair[1].hits
            numbers[f"{name}_ratio"], numbers[key] = ratio(pair), added_us(pair, events)
            details[name] = {"hits": pair[1].hits, **pair[1].events}
            bench.note(f"{name}: {pair[0].total:.2f} s and {pair[1].total:.2f} s, {details[name]}")
        shares = measure_shares(replayer, size, plain)
    return numbers, details, shares


def measure_shares(replayer: Replayer, size: Size, plain: Replay) -> dict[str, dict[int, tuple[float, float]]]:
    """(hits or false positives per recorded second, slowdown) for each kind of stop and each share of nodes in percent."""
    taken: dict[str, dict[int, Replay]] = {}
    for name in ("false_positive", "null", "read"):
        taken[name] = {}
        for share in (25, 50, 75, 100):
            arm = KINDS[name] if share == 100 else limited(name, range(max(1, size.nodes * share // 100)))
            pair = replayer.compare(arm, max(1, size.replays - 1))
            plain, taken[name][share] = plain.better(pair[0]), pair[1]
    return {name: {0: (0.0, 1.0), **{share: ((one.faults if name == "false_positive" else one.hits) / size.seconds, one.total / plain.total)
                                     for share, one in shares.items()}} for name, shares in taken.items()}


def limited(name: str, nodes: Sequence[int]) -> Arm:
    """The same on some of the nodes, including those that are restarted under their names later."""
    def arm(session: Any) -> None:
        KINDS[name](_Some(session, [session.nodes[number].name for number in nodes]))
    return arm


class _Some:
    """A session in which watches are set on some of the nodes only."""

    def __init__(self, session: Any, names: Sequence[str]) -> None:
        self._session, self._names = session, names

    def watch(self, expressions: str, handler: Any = None, nodes: Any = None) -> Any:
        return self._session.watch(expressions, handler, nodes=",".join(self._names))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


# -- ten nodes of a path-vector toolkit --------------------------------------------------------------------------------
DISJOINT = """
def zero_matrix(rows, columns):
  return [[0] * columns for _ in range(rows)]
def compute_disjoint_paths():
  my_id = @(server->id)
  k = @(server->k)
  for sink in range(len(graph)):
    if len(vertex_disjoint_paths({row: [c for c, edge in enumerate(graph[row]) if edge] for row in range(10)}, my_id, sink)) >= k:
      time_found_k_paths[my_id][sink] = __VCLOCK__
graph = zero_matrix(10, 10)
time_found_k_paths = zero_matrix(10, 10)
"""
NEIGHBOURS = """
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
"""


def disjoint_example(session: Any) -> Any:
    from predicates.connectivity import vertex_disjoint_paths
    session.namespace["vertex_disjoint_paths"] = vertex_disjoint_paths
    session.execute(DISJOINT)
    source = (ROOT / "tests" / "apps" / "pathvector" / "server.cc").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "the published example breaks here" in text)
    session.set_block(session.breakpoint(f"server.cc:{line}"), NEIGHBOURS)
    return lambda: {"edges": sum(map(sum, session.namespace["graph"]))}


def measure_disjoint(bench: Bench, friday: Any, size: Size) -> tuple[Number, dict[str, int]]:
    import socket
    program, seconds = bench.build / "apps" / "pathvector", 4 if bench.quick else 20
    ports = ",".join(map(str, free_ports(10, socket.SOCK_DGRAM)))
    nodes = [{"name": f"n{i}", "command": [str(program), str(i), ports, str(seconds), "1", "k=2", "cut=3-4@2000"], "stdout": str(bench.path("out"))} for i in range(10)]
    recording = bench.path("pathvector-rec")
    bench.run([bench.friday, "record", "-q", "-o", recording, "--group", group_file(bench, nodes)], timeout=seconds + 60)
    with friday.Session(str(recording), sync="clock") as session:
        found = [(replay_seconds(session, None)[0], *replay_seconds(session, disjoint_example)) for _ in range(size.replays)]
    events = found[-1][2]
    if events["edges"] != 30:
        raise RuntimeError(f"the graph should have 30 edges, not {events['edges']}")
    return Number(min(one[1] for one in found) / min(one[0] for one in found)), events


def replay_seconds(session: Any, arm: Arm | None) -> tuple[float, dict[str, int]]:
    session.restart()
    count = arm(session) if arm else None
    start = time.perf_counter()
    session.run()
    taken = time.perf_counter() - start
    hits = sum(point.hits for point in session.points.values())
    for number in list(session.points):
        session.delete(number)
    return taken, {"hits": hits, **(count() if count else {})}


# -- all ---------------------------------------------------------------------------------------------------------------
def run(bench: Bench) -> dict[str, Number]:
    need("python3-matplotlib")
    friday = load_friday(bench)
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    size = size_of(bench)
    ring = record_ring(bench, size)
    bench.note(f"recorded {size.nodes} nodes for {size.together} + {size.seconds} s; killed {', '.join(ring.killed)}")
    numbers, details, shares = measure_ring(bench, friday, ring)
    numbers["disjoint_ratio"], details["disjoint"] = measure_disjoint(bench, friday, size)
    numbers["software_watch_ratio"] = stops.software_watch(bench, 1 if bench.quick else 3)
    place = bench.directory if bench.quick else ROOT / "docs"
    evaluation_page.write(place, ring, numbers, details, shares, KEYS, PAPER)
    return {key: numbers[key] for key in KEYS if key in numbers}
