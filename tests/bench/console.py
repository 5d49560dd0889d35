"""Measures what a user waits for at the prompt: the first read of an expression, the stop after Ctrl-C, and reads of containers
(containers.py). expressions.py measures other later reads."""
from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from typing import Any

import containers
from replay import group_file, record_waiting
from support import Bench, Key, Number, Unavailable, median

NAME = "console"
KEYS = {
    "read_first_us": Key("us", "", "the first read of an expression on a node, which compiles it"),
    "interrupt_ms": Key("ms", "<= 100", "from Ctrl-C to a stop of 10 nodes that compute, the longest of some"),
    "interrupt_62_ms": Key("ms", "<= 100", "the same with 62 nodes"),
    **containers.KEYS,
}
NODES = 4


def load_friday(bench: Bench) -> Any:
    """Imports the package friday from the build. Raises Unavailable."""
    sys.path.insert(0, str(bench.build / "python"))
    try:
        friday = importlib.import_module("friday")
        importlib.import_module("_friday")
    except ImportError as error:
        raise Unavailable(f"the Python module of {bench.build} cannot be imported ({error}): build the target _friday") from None
    return friday


# -- in a session ------------------------------------------------------------------------------------------------------
def first_read(bench: Bench, friday: Any) -> Number:
    with friday.Session(str(record_waiting(bench, bench.compile("steps.c"), 10, NODES))) as session:
        session.breakpoint("ready")
        for _ in range(NODES):
            stop = session.run()
            if stop.kind != "breakpoint":
                raise RuntimeError(f"the group stopped because of {stop.kind}")
        nodes = list(session.all_nodes)
        if len(nodes) != NODES:
            raise RuntimeError(f"{len(nodes)} nodes are alive instead of {NODES}")
        start = time.perf_counter()
        values = [int(node.read("table[17].value + 1")) for node in nodes]
        taken = time.perf_counter() - start
    if values != [17 * 17 + 1] * NODES:
        raise RuntimeError(f"what was read is not what the program holds: {values}")
    return Number(taken / NODES * 1e6)


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------
def interrupt_ms(bench: Bench, friday: Any, nodes: int, rounds: int, times: int) -> Number:
    """The longest time from SIGINT to the stop of the group, in milliseconds, at moments spread over a replay in which a node is always
    computing."""
    recording = bench.path("compute-rec")
    program = str(bench.compile("compute.c"))
    bench.run([bench.friday, "record", "-o", recording, "--group", group_file(bench, [{"name": f"c{i}", "command": [program, str(rounds)]} for i in range(nodes)])])
    taken: list[float] = []
    with friday.Session(str(recording), console=True) as session:
        runs = []
        for turn in range(3):  # during the first round the gdbs start, so it may take several times as long
            if turn:
                session.restart()
            start = time.perf_counter()
            if session.run().kind != "end":
                raise RuntimeError("the group did not run to its end")
            runs.append(time.perf_counter() - start)
        for i in range(times):
            session.restart()
            sent = [0.0]

            def interrupt() -> None:
                sent[0] = time.perf_counter()
                os.kill(os.getpid(), signal.SIGINT)

            timer = threading.Timer(0.5 * min(runs) * (i + 1) / (times + 1), interrupt)
            timer.start()
            stop = session.run()
            taken.append((time.perf_counter() - sent[0]) * 1e3)
            timer.join()
            if stop.kind != "interrupt":
                raise RuntimeError(f"the group stopped because of {stop.kind}")
    return Number(max(taken), median(taken).spread, len(taken))


def run(bench: Bench) -> dict[str, Number]:
    friday = load_friday(bench)
    numbers = {"read_first_us": first_read(bench, friday),
               "interrupt_ms": interrupt_ms(bench, friday, 10, 30 if bench.quick else 200, 3 if bench.quick else 20),
               **containers.run(bench, friday)}
    if not bench.quick:
        numbers["interrupt_62_ms"] = interrupt_ms(bench, friday, 62, 40, 20)
    return numbers
