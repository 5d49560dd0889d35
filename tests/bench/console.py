"""What a read costs in a session, and in plain gdb/MI on the same program in the same run; how soon Ctrl-C stops a group."""
from __future__ import annotations

import importlib
import os
import pathlib
import signal
import sys
import threading
import time
from typing import Any, Callable

from mi import Gdb
from replay import group_file
from support import Bench, Key, Number, Unavailable, median, trace_sizes

NAME = "console"
KEYS = {
    "read_us": Key("us", "about 1", "a read, over 64 expressions and 4 nodes in turn"),
    "gdb_read_us": Key("us", "", "plain gdb/MI: -data-evaluate-expression, over the same expressions and 4 gdbs"),
    "read_first_us": Key("us", "", "the first read of an expression on a node, which compiles it"),
    "interrupt_ms": Key("ms", "<= 100", "from Ctrl-C to a stop of 10 nodes that compute, the longest of some"),
    "interrupt_62_ms": Key("ms", "<= 100", "the same with 62 nodes"),
}
NODES = 4
EXPRESSIONS = [f"table[{i}].{member}" for i in range(16) for member in ("value", "next->value", "next->next->key", "key + 1")]


def load_friday(bench: Bench) -> Any:
    """The package friday of the build."""
    sys.path.insert(0, str(bench.build / "python"))
    try:
        friday = importlib.import_module("friday")
        importlib.import_module("_friday")
    except ImportError as error:
        raise Unavailable(f"the Python module of {bench.build} cannot be imported ({error}): build the target _friday") from None
    return friday


# -- in a session ------------------------------------------------------------------------------------------------------
def record_waiting(bench: Bench) -> pathlib.Path:
    """Four nodes that stay alive; recording ends when the last has come to wait."""
    program = str(bench.compile("steps.c"))
    recording = bench.path("reads-rec")
    group = group_file(bench, [{"name": f"s{i}", "command": [program, "10", "wait"], "start_delay": 0.05 * i} for i in range(NODES)], stop_after=1.0)
    bench.run([bench.friday, "record", "-o", recording, "--group", group])
    if len(trace_sizes(recording)) != NODES:
        raise RuntimeError(f"{recording} should hold {NODES} nodes")
    return recording


def session_reads(bench: Bench, friday: Any, times: int) -> dict[str, Number]:
    with friday.Session(str(record_waiting(bench))) as session:
        session.breakpoint("ready")
        for _ in range(NODES):
            stop = session.run()
            if stop.kind != "breakpoint":
                raise RuntimeError(f"the group stopped because of {stop.kind}")
        nodes = list(session.all_nodes)
        if len(nodes) != NODES:
            raise RuntimeError(f"{len(nodes)} nodes are alive instead of {NODES}")
        expected(lambda node, text: int(nodes[node].read(text)))
        session.restart()
        for _ in range(NODES):
            session.run()
        start = time.perf_counter()
        for node in nodes:
            node.read("table[17].value + 1")
        first = (time.perf_counter() - start) / NODES * 1e6
        rounds = 2 if bench.quick else 100
        found = [reads_us(lambda node, text: nodes[node].read(text), rounds) for _ in range(times)]
    return {"read_us": median(found), "read_first_us": Number(first)}


def reads_us(read: Callable[[int, str], Any], rounds: int) -> float:
    """Every read is of another node and another expression than the one before."""
    order = [(i % NODES, EXPRESSIONS[(i * 5 + i // len(EXPRESSIONS)) % len(EXPRESSIONS)]) for i in range(len(EXPRESSIONS) * NODES)]
    start = time.perf_counter()
    for _ in range(rounds):
        for node, text in order:
            read(node, text)
    return (time.perf_counter() - start) / (rounds * len(order)) * 1e6


def expected(read: Callable[[int, str], int]) -> None:
    """Both sides must read what the program holds, or their times mean nothing."""
    for node in range(NODES):
        for i, text in ((3, "table[3].value"), (5, "table[5].next->value")):
            right = i * i if "next" not in text else (i + 1) ** 2
            if (got := read(node, text)) != right:
                raise RuntimeError(f"{text} on node {node} is {got}, not {right}")


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------
def interrupt_ms(bench: Bench, friday: Any, nodes: int, rounds: int, times: int) -> Number:
    """The longest time from SIGINT to the group's stop, at moments all over a replay in which somebody always computes."""
    recording = bench.path("compute-rec")
    program = str(bench.compile("compute.c"))
    bench.run([bench.friday, "record", "-o", recording, "--group", group_file(bench, [{"name": f"c{i}", "command": [program, str(rounds)]} for i in range(nodes)])])
    taken: list[float] = []
    with friday.Session(str(recording), console=True) as session:
        seconds = time.perf_counter()
        if session.run().kind != "end":
            raise RuntimeError("the group did not run to its end")
        seconds = time.perf_counter() - seconds
        for i in range(times):
            session.restart()
            sent = [0.0]

            def interrupt() -> None:
                sent[0] = time.perf_counter()
                os.kill(os.getpid(), signal.SIGINT)

            timer = threading.Timer(0.3 * seconds * (i + 1) / (times + 1), interrupt)  # the first run may have been a slow one
            timer.start()
            stop = session.run()
            taken.append((time.perf_counter() - sent[0]) * 1e3)
            timer.join()
            if stop.kind != "interrupt":
                raise RuntimeError(f"the group stopped because of {stop.kind}")
    return Number(max(taken), median(taken).spread, len(taken))


# -- plain gdb ---------------------------------------------------------------------------------------------------------
def gdb_reads(bench: Bench, times: int) -> Number:
    gdbs = [Gdb(bench, [bench.compile("steps.c"), 10]) for _ in range(NODES)]
    for gdb in gdbs:
        gdb.command("-break-insert ready")
        gdb.resume("-exec-run")
    expected(lambda node, text: int(gdbs[node].read(text)))
    found = [reads_us(lambda node, text: gdbs[node].read(text), 1 if bench.quick else 10) for _ in range(times)]
    for gdb in gdbs:
        gdb.close()
    return median(found)


def run(bench: Bench) -> dict[str, Number]:
    times = 1 if bench.quick else 5
    numbers = {"gdb_read_us": gdb_reads(bench, times)}
    try:
        friday = load_friday(bench)
    except Unavailable as error:
        bench.note(f"only plain gdb was measured: {error}")
        return numbers
    interrupts = {"interrupt_ms": interrupt_ms(bench, friday, 10, 30 if bench.quick else 200, 3 if bench.quick else 20)}
    if not bench.quick:
        interrupts["interrupt_62_ms"] = interrupt_ms(bench, friday, 62, 40, 20)
    return {**numbers, **session_reads(bench, friday, times), **interrupts}
