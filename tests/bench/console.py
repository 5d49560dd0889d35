"""Measures what a user waits for at the prompt: the prompt itself, the first read of an expression, the stop after Ctrl-C, and reads of containers
(containers.py). expressions.py measures other later reads."""
from __future__ import annotations

import importlib
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import containers
from replay import group_file, record_waiting
from support import ROOT, Bench, Key, Number, Unavailable, free_ports, median

NAME = "console"
KEYS = {
    "read_first_us": Key("us", "", "the first read of an expression on a node, which compiles it"),
    "interrupt_ms": Key("ms", "<= 100", "from Ctrl-C to a stop of 10 nodes that compute, the longest of some"),
    "interrupt_62_ms": Key("ms", "<= 100", "the same with 62 nodes"),
    **{f"first_prompt_s_{nodes}": Key("s", f"<= {aim}", f"from the start of `friday replay` on a terminal to its prompt, {nodes} node{'s' if nodes > 1 else ''}")
       for nodes, aim in ((1, 0.5), (16, 1), (62, 2))},
    "log_prefix_s": Key("s", "<= 10", "predicates/log_prefix.py on the replicated store of four nodes with a log of 30,000 entries"),
    **containers.KEYS,
}
NODES = 4
ENTRIES = 30_000


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


# -- the first prompt --------------------------------------------------------------------------------------------------
def first_prompt(bench: Bench, recording: pathlib.Path) -> float:
    """The seconds from the start of the console on a terminal to its prompt."""
    ours, theirs = pty.openpty()
    begin = time.monotonic()
    with subprocess.Popen([bench.friday, "replay", recording], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as console:
        os.close(theirs)
        shown = b""
        while b"(friday " not in shown:
            if not select.select([ours], [], [], 60)[0]:
                console.terminate()
                raise RuntimeError(f"no prompt within 60 s: {shown[-500:]!r}")
            shown += os.read(ours, 4096)
        taken = time.monotonic() - begin
        os.write(ours, b"quit\n")
    os.close(ours)
    return taken


def first_prompts(bench: Bench) -> dict[str, Number]:
    program = bench.compile("steps.c")
    counts = (1, 16) if bench.quick else (1, 16, 62)
    recordings = {nodes: record_waiting(bench, program, 10, nodes) for nodes in counts}
    return {f"first_prompt_s_{nodes}": median(first_prompt(bench, recording) for _ in range(2 if bench.quick else 6)) for nodes, recording in recordings.items()}


# -- a predicate on a long log -----------------------------------------------------------------------------------------
def log_prefix(bench: Bench) -> Number:
    entries = 300 if bench.quick else ENTRIES
    ports, folder = ",".join(map(str, free_ports(4))), bench.path("store")
    folder.mkdir()
    programs = bench.build / "apps"
    nodes: list[dict[str, Any]] = [{"name": f"n{i}", "command": [str(programs / "replicas"), "--id", str(i), "--ports", ports, "--directory", str(folder), "--careful", "--calm"]} for i in range(4)]
    nodes.append({"name": "client", "record": False, "stdout": str(folder / "client.out"), "command": [str(programs / "replicasclient"), "--ports", ports, "--entries", str(entries), "--paced", "0"]})
    recording = bench.path("store-rec")
    bench.run([bench.friday, "record", "-q", "-o", recording, "--group", group_file(bench, nodes, stop_when_ends="client")], timeout=300)
    begin = time.monotonic()
    said = bench.run([bench.friday, "run", ROOT / "predicates" / "log_prefix.py", recording, "--", "--log", "store->log_", "--entry", "term, value", "--committed", "store->committed_", "--summary"], timeout=600)
    taken = time.monotonic() - begin
    bench.note(f"log_prefix: {said.splitlines()[-1]}")
    return Number(taken)


def run(bench: Bench) -> dict[str, Number]:
    friday = load_friday(bench)
    numbers = {"read_first_us": first_read(bench, friday),
               "interrupt_ms": interrupt_ms(bench, friday, 10, 30 if bench.quick else 200, 3 if bench.quick else 20),
               **first_prompts(bench), "log_prefix_s": log_prefix(bench), **containers.run(bench, friday)}
    if not bench.quick:
        numbers["interrupt_62_ms"] = interrupt_ms(bench, friday, 62, 40, 20)
    return numbers
