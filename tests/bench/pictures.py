#!/usr/bin/python3
"""Draws the figures of docs/performance.md: the parts of the cost of a hit, the cost of reads of many nodes, and of watching many nodes.

    pictures.py [--to DIRECTORY] [--quick]

They correspond to figures 3, 4 and 5 of the paper ("Friday: Global Comprehension for Distributed Replay"). The numbers are printed,
too. The parts of a hit are differences between whole replays, each of which does one thing more than the previous one.
"""
from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
from typing import Any, Callable, Sequence

sys.dont_write_bytecode = True

import evaluation  # noqa: E402
import expressions  # noqa: E402
import figures  # noqa: E402
import stops  # noqa: E402
from console import load_friday  # noqa: E402
from replay import record_waiting  # noqa: E402
from support import ROOT, Bench, Unavailable, need  # noqa: E402

COUNTS = (1, 15, 30, 45, 62)


# -- the parts of a hit ------------------------------------------------------------------------------------------------
def best(session: Any, arms: dict[str, Callable[[], Any]], count: int, times: int) -> dict[str, float]:
    """The microseconds per event that each stop point adds to a replay without any, each the best of several replays that alternate."""
    seconds: dict[str, list[float]] = {"": [], **{name: [] for name in arms}}
    for _ in range(times):
        for name, taken in seconds.items():
            point = arms[name]() if name else None
            taken.append(stops.time_run(session))
            if point is not None:
                point.delete()
    return {name: (min(taken) - min(seconds[""])) / count * 1e6 for name, taken in seconds.items() if name}


def parts_of_a_hit(bench: Bench, friday: Any) -> dict[str, dict[str, float]]:
    """The microseconds of each part of a hit, for a watchpoint and for a breakpoint."""
    count, passes, times = (500, 10, 1) if bench.quick else (10_000, 200, 12)
    stores = bench.path("stores-rec")
    bench.run(bench.record_command(stores, [bench.compile("stores.c"), passes]))
    with friday.Session(str(stores)) as session:
        session.backend.set_patch_stores(False)
        beside = best(session, {"missed": lambda: session.watch("page.watched", lambda: None)}, passes * stops.PLACES, times)
    fault = min(stops.limits_us(bench)["ptrace_stop_us"] for _ in range(times))
    never, always = "counter < 0", "counter >= 0"
    with friday.Session(str(stops.record_steps(bench, count))) as session:
        def read() -> None:
            session.node.read("table[3].value")

        found = best(session, {
            "passed": lambda: session.breakpoint("tick", lambda: None, condition=never),
            "break": lambda: session.breakpoint("tick", lambda: None, condition=always),
            "break, read": lambda: session.breakpoint("tick", read, condition=always),
            "check": lambda: session.watch("counter", lambda: None, condition=never),
            "watch": lambda: session.watch("counter", lambda: None, condition=always),
            "watch, read": lambda: session.watch("counter", read, condition=always)}, count, times)
    steps = {"watchpoint": [("fault", fault), ("emulate", beside["missed"]), ("check", found["check"]), ("Python", found["watch"]), ("read", found["watch, read"])],
             "breakpoint": [("fault", fault), ("check", found["passed"]), ("Python", found["break"]), ("read", found["break, read"])]}
    parts: dict[str, dict[str, float]] = {}
    for name, totals in steps.items():
        before, parts[name] = 0.0, {}
        for part, total in totals:
            parts[name][part] = max(0.0, total - before)
            before = max(before, total)
    return parts


# -- many nodes --------------------------------------------------------------------------------------------------------
class Some(expressions.Work):
    """Handlers that do an operation on the first `count` nodes at each hit."""

    def __init__(self, session: Any, count: int) -> None:
        super().__init__(session)
        self.count = count

    def targets(self, all_nodes: bool) -> list[Any]:
        self.hits += 1
        return list(self.session.all_nodes)[:self.count]


def line_through(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of the line that fits the points best (least squares), and the standard deviation of the slope."""
    x, y = zip(*points)
    slope, start = statistics.linear_regression(x, y)
    rest = sum((b - start - slope * a) ** 2 for a, b in points)
    middle = statistics.mean(x)
    return slope, (rest / max(1, len(points) - 2) / sum((a - middle) ** 2 for a in x)) ** 0.5


def last_to_begin(session: Any) -> int:
    point = session.breakpoint("ready")
    last = None
    while (stop := session.run()).kind == "breakpoint":
        last = stop.node
    point.delete()
    return int(last)


def questions(bench: Bench, friday: Any) -> tuple[dict[str, dict[float, float]], dict[str, list[float]]]:
    """The microseconds of a handler by its kind and the number of nodes that it reads from, and the standard deviations over the replays."""
    ticks, times, nodes = (5, 2, 6) if bench.quick else (500, 5, expressions.GROUP)
    found: dict[str, dict[float, float]] = {"read": {}, "write": {}, "call": {}}
    spread: dict[str, list[float]] = {name: [] for name in found}
    with friday.Session(str(record_waiting(bench, bench.compile("steps.c"), ticks, nodes))) as session:
        last = last_to_begin(session)  # while this node ticks, all nodes are alive
        bare = min(expressions.replay_seconds(session, lambda: None, [last]) for _ in range(times))
        for name in found:
            for count in sorted({min(count, nodes) for count in COUNTS}):
                work = Some(session, count)
                handler = getattr(work, name)(True)
                each = []
                for _ in range(times + 1):
                    hits = work.hits
                    each.append((expressions.replay_seconds(session, handler, [last]) - bare) / (work.hits - hits) * 1e6)
                each = each[1:]  # the first replay compiles the expressions
                found[name][count] = min(each)
                spread[name].append(statistics.stdev(each))
    return found, spread


def shares(bench: Bench, friday: Any) -> dict[str, dict[int, tuple[float, float]]]:
    """As evaluation.measure_shares(), for a small ring."""
    if not bench.quick:
        size = evaluation.Size(nodes=16, seconds=20, kills=1, replays=2, period=500)
    else:
        size = evaluation.size_of(bench)
    ring = evaluation.record_ring(bench, size)
    with friday.Session(str(ring.recording), sync="clock") as session:
        replayer = evaluation.Replayer(session, size.together, size.seconds, size.replays)
        plain = replayer.once(None)
        for _ in range(3):
            plain = plain.better(replayer.once(None))
        return evaluation.measure_shares(replayer, size, plain)


def draw(bench: Bench, friday: Any, place: pathlib.Path) -> None:
    parts = parts_of_a_hit(bench, friday)
    for name, each in parts.items():
        print(f"{name}: " + ", ".join(f"{part} {value:.1f} us" for part, value in each.items()))
    figures.stacks(place / "performance-hit.png", parts, y="us a hit")
    costs, spread = questions(bench, friday)
    named = {}
    for name, points in costs.items():
        slope, deviation = line_through(list(points.items()))
        print(f"{name}: {slope:.2f} +- {deviation:.2f} us a node")
        named[f"{name}: {slope:.1f} ± {deviation:.1f} us a node"] = (points, spread[name])
    figures.lines(place / "performance-nodes.png", {name: points for name, (points, _) in named.items()}, x="nodes asked", y="us a hit",
                  spread={name: bars for name, (_, bars) in named.items()})
    found = shares(bench, friday)
    for name, points in found.items():
        print(f"{name}: " + ", ".join(f"{share} %: {rate:.0f}/s, {slow:.2f}" for share, (rate, slow) in points.items()))
    figures.rates_and_slowdown(place / "performance-share.png", found)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draws the pictures of docs/performance.md.")
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "docs", metavar="DIRECTORY")
    parser.add_argument("--quick", action="store_true", help="short loops: shows that it works, the pictures are worth little")
    options = parser.parse_args()
    try:
        with Bench(quick=options.quick) as bench:
            need("python3-matplotlib")
            draw(bench, load_friday(bench), options.to)
    except Unavailable as error:
        print(f"pictures: not drawn: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
