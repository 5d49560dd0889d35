"""Measures what a stop costs, and a store that hits a watched page but not the watched bytes: in a session, and in plain gdb/MI on the
same program. expressions.py is part of this benchmark: it measures what a handler does at a stop.

A cost is the time of a whole replay with the stop point, minus that of one without it shortly before or after, divided by the number of
events.
"""
from __future__ import annotations

import json
import pathlib
import time
from typing import Any, Callable

import expressions
from console import load_friday
from mi import Gdb
from support import Bench, Key, Number, Unavailable, median

NAME = "stops"
KEYS = {
    "false_positive_us": Key("us", "<= 20", "a store to the page of a watched variable that changes nothing watched, 64 places in turn, none patched"),
    "false_positive_patched_ns": Key("ns", "<= 100", "the same with these places patched, which is what happens unless it is switched off"),
    "gdb_false_positive_us": Key("us", "", "plain gdb with a hardware watchpoint: a store beside what is watched"),
    "watch_null_us": Key("us", "<= 50", "a watchpoint with a Python handler that does nothing, a hit"),
    "gdb_watch_null_us": Key("us", "", "plain gdb/MI with a hardware watchpoint, a hit"),
    "breakpoint_null_us": Key("us", "<= 15", "a breakpoint with a Python handler that does nothing, a hit"),
    "ptrace_stop_us": Key("us", "", "the limit: a child at an int3, its tracer waits, reads and writes the registers and lets it go on"),
    "ptrace_call_us": Key("us", "", "the limit: a child that waits is stopped, sent into a function, and put back with all registers"),
    "memory_read_us": Key("us", "", "the limit: 8 bytes of a child's memory"),
    "gdb_breakpoint_null_us": Key("us", "", "plain gdb/MI: from -exec-continue to *stopped, a hit"),
    "software_watch_ratio": Key("x", "", "plain gdb with a software watchpoint: time of a slice of these stores / without it"),
    **expressions.KEYS,
}
PLACES = 64  # the number of places in stores.c that store


# -- in a session ------------------------------------------------------------------------------------------------------
def record_steps(bench: Bench, count: int) -> pathlib.Path:
    recording = bench.path("steps-rec")
    bench.run(bench.record_command(recording, [bench.compile("steps.c"), count]))
    return recording


def time_run(session: Any) -> float:
    session.restart()
    start = time.perf_counter()
    stop = session.run()
    if stop.kind != "end":
        raise RuntimeError(f"the group stopped early: {stop.kind}")
    return time.perf_counter() - start


def hit_us(session: Any, add: Callable[[Callable[[], None]], Any], count: int, times: int) -> Number:
    """The microseconds per hit that `count` hits add to a run without any stop point."""
    found = []
    for _ in range(times):
        bare = time_run(session)
        hits = 0

        def handler() -> None:
            nonlocal hits
            hits += 1

        point = add(handler)
        full = time_run(session)
        point.delete()
        if hits != count:
            raise RuntimeError(f"{hits} hits instead of {count}")
        found.append((full - bare) / count * 1e6)
    return median(found)


def session_stops(bench: Bench, friday: Any, times: int) -> dict[str, Number]:
    count = 1_000 if bench.quick else 20_000
    with friday.Session(str(record_steps(bench, count))) as session:
        return {"breakpoint_null_us": hit_us(session, lambda run: session.breakpoint("tick", run), count, times),
                "watch_null_us": hit_us(session, lambda run: session.watch("counter", run), count, times)}



def false_positive(session: Any, stores: int, times: int) -> Number:
    """The seconds that a watch adds to each of `stores` stores that hit its page but not the watched bytes."""
    found = []
    for _ in range(times):
        bare = time_run(session)
        hits: list[Any] = []
        point = session.watch("page.watched", lambda hit: hits.append(hit.new))
        full = time_run(session)
        point.delete()
        if hits != [1]:
            raise RuntimeError(f"the watch was hit with {hits}")
        found.append((full - bare) / stores)
    return median(found)


def session_stores(bench: Bench, friday: Any, times: int) -> dict[str, Number]:
    numbers = {}
    for key, passes, patched, unit in (("false_positive_us", 20 if bench.quick else 300, False, 1e6),
                                       ("false_positive_patched_ns", 2_000 if bench.quick else 400_000, True, 1e9)):
        recording = bench.path("stores-rec")
        bench.run(bench.record_command(recording, [bench.compile("stores.c"), passes]))
        with friday.Session(str(recording)) as session:
            session.backend.set_patch_stores(patched)
            cost = false_positive(session, passes * PLACES, times)
        numbers[key] = Number(cost.value * unit, cost.spread * unit, cost.count)
    return numbers


# -- plain gdb ---------------------------------------------------------------------------------------------------------
def gdb_hits(bench: Bench, arm: Callable[[Gdb], None], count: int, times: int) -> Number:
    found = []
    for _ in range(times):
        gdb = Gdb(bench, [bench.compile("steps.c"), count + 10])
        gdb.command("-break-insert -t main")
        gdb.resume("-exec-run")
        arm(gdb)
        gdb.resume()
        start = time.perf_counter()
        for _ in range(count):
            gdb.resume()
        found.append((time.perf_counter() - start) / count * 1e6)
        gdb.close()
    return median(found)


def arm_watch(gdb: Gdb) -> None:
    gdb.command("-break-watch counter")
    if b'type="hw watchpoint"' not in gdb.command("-break-list"):
        raise RuntimeError("gdb has no hardware watchpoint here")



def gdb_stores(bench: Bench, passes: int, watch: bool, software: bool = False) -> float:
    """The seconds from the first call of `ready`, before the stores, to the one after all stores."""
    gdb = Gdb(bench, [bench.compile("stores.c"), passes])
    gdb.command("-break-insert ready")
    gdb.resume("-exec-run")
    if watch:
        gdb.command(f"-gdb-set can-use-hw-watchpoints {0 if software else 1}")
        gdb.command("-break-watch page.watched")
    start = time.perf_counter()
    gdb.resume()  # runs to the only change of the watched variable, or without a watch to the next `ready`
    seconds = time.perf_counter() - start
    gdb.close()
    return seconds


def debug_registers_report(bench: Bench) -> bool:
    """Whether this machine's debug registers report what they watch; those of some virtual machines do not, and then gdb misses all hits."""
    checks = json.loads(bench.run([bench.friday, "doctor", "--json"]))["checks"]
    return next(check["works"] for check in checks if check["name"] == "debug registers")


def gdb_watches(bench: Bench, hits: int, times: int) -> dict[str, Number]:
    if not debug_registers_report(bench):
        bench.note("gdb's watches are not measured: this machine's debug registers report nothing")
        return {}
    passes = 2_000 if bench.quick else 400_000
    beside = median((gdb_stores(bench, passes, True) - gdb_stores(bench, passes, False)) / (passes * PLACES) * 1e6 for _ in range(times))
    return {"gdb_watch_null_us": gdb_hits(bench, arm_watch, hits, times), "gdb_false_positive_us": beside}


def software_watch(bench: Bench, times: int) -> Number:
    passes = 2_000 if bench.quick else 400_000
    # The slice is small; without a watch its time is taken from the large run.
    small = 2 if bench.quick else 20
    one = gdb_stores(bench, passes, False) / passes
    return median(gdb_stores(bench, small, True, software=True) / small / one for _ in range(min(times, 3)))


def limits_us(bench: Bench) -> dict[str, float]:
    """The least time that ptrace allows for a stop, a call and a read of memory (see trap.c)."""
    found = bench.run([bench.compile("trap.c"), 1_000 if bench.quick else 20_000]).split()
    return {key: float(ns) / 1e3 for key, ns in zip(("ptrace_stop_us", "ptrace_call_us", "memory_read_us"), found, strict=True)}


def run(bench: Bench) -> dict[str, Number]:
    times = 1 if bench.quick else 5
    hits = 50 if bench.quick else 500
    numbers = {"gdb_breakpoint_null_us": gdb_hits(bench, lambda gdb: gdb.command("-break-insert tick") and None, hits, times),
               **gdb_watches(bench, hits, times), "software_watch_ratio": software_watch(bench, times),
               **{key: Number(us) for key, us in limits_us(bench).items()}}
    try:
        friday = load_friday(bench)
    except Unavailable as error:
        bench.note(f"only plain gdb was measured: {error}")
        return numbers
    return {**numbers, **session_stores(bench, friday, times), **session_stops(bench, friday, times), **expressions.run(bench)}
