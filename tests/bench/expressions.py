"""Measures what reads, writes and calls cost in a session, and what the gdbs of 128 nodes cost, with plain gdb/MI for comparison.

This is part of the benchmark `stops`. A handler at each hit of tick() reads, writes or calls. The cost of an operation is the time of
a whole replay with this handler, minus the time with a handler that does nothing, divided by the number of operations. `counter`
changes at each hit, and nodes and expressions alternate.
"""
from __future__ import annotations

import os
import pathlib
import re
import sys
import time
from typing import Any, Callable

from console import load_friday
from mi import Gdb
from replay import record_waiting
from support import Bench, Key, Number, children_of, median
from native_gdb import no_calls  # in the directory above, which support.py has put on the path

GROUP, MANY = 62, 128
KEYS = {
    "read_us": Key("us", "<= 3", "a value of one node in a handler, nodes and expressions in turn"),
    "gdb_read_us": Key("us", "", "plain gdb/MI: -data-evaluate-expression"),
    "write_us": Key("us", "<= 3", "a value written to one node, in turn"),
    "gdb_write_us": Key("us", "", "plain gdb/MI: -data-evaluate-expression with an assignment"),
    "read62_us": Key("us", "<= 200", "a value of each of 62 nodes, in one handler"),
    "gdb_read62_us": Key("us", "", "plain gdb/MI: one front end asks 62 gdbs in turn, so 62 times gdb_read_us"),
    "write62_us": Key("us", "<= 200", "a value written to each of 62 nodes, in one handler"),
    "gdb_write62_us": Key("us", "", "plain gdb/MI: 62 times gdb_write_us"),
    "call_us": Key("us", "<= 30", "a call of a function that adds two numbers, on one node"),
    "gdb_call_us": Key("us", "", "the same by plain gdb/MI"),
    "call62_us": Key("us", "<= 2000", "the same on each of 62 nodes, in one handler"),
    "gdb_call62_us": Key("us", "", "plain gdb/MI: 62 times gdb_call_us"),
    "call_struct_us": Key("us", "", "a call of a function that returns a struct, of which a field is compared"),
    "call_copy_us": Key("us", "", "a call of a function that stores through a pointer: all memory it could change is kept"),
    "nodes128_breakpoint_s": Key("s", "<= 10", "a distributed breakpoint on 128 nodes of a program with 10 MB of DWARF, from the opened session"),
    "gdb_nodes128_breakpoint_s": Key("s", "", "plain gdbs on that program, one after another: from the start to the breakpoint set, times 128"),
    "nodes128_backtrace_s": Key("s", "<= 20", "then a backtrace on each, with 128 gdbs alive at the end"),
    "gdb_nodes128_backtrace_s": Key("s", "", "plain gdbs: from the start of each to its backtrace at the breakpoint, times 128"),
    "nodes128_pss_gib": Key("GiB", "<= 6", "proportional set size of these gdbs"),
    "gdb_nodes128_pss_gib": Key("GiB", "", "plain gdbs: what each has for itself, times 128, and what they share, once"),
}


# -- in a session ------------------------------------------------------------------------------------------------------
def replay_seconds(session: Any, handler: Callable[[], None], nodes: Any = None) -> float:
    """Seconds of a whole replay with this handler at each tick() of these nodes, by default of all."""
    session.restart()
    point = session.breakpoint("tick", handler, nodes=nodes)
    start = time.perf_counter()
    stop = session.run()
    taken = time.perf_counter() - start
    point.delete()
    if stop.kind != "end":
        raise RuntimeError(f"the group stopped early: {stop.kind}")
    return taken


class Work:
    """The handlers. Each does one kind of operation on one node or on all nodes, and counts the operations."""

    def __init__(self, session: Any) -> None:
        self.session, self.hits, self.done = session, 0, 0
        self.texts = ["counter", "table[3].value + 1", "table[7].next->value", "counter * 2"]

    def targets(self, all_nodes: bool) -> list[Any]:
        alive = self.session.all_nodes
        self.hits += 1
        chosen = list(alive) if all_nodes else [alive[self.hits % len(alive)]]
        self.done += len(chosen)
        return chosen

    def nothing(self, all_nodes: bool) -> Callable[[], None]:
        """A handler that only chooses the nodes; the other handlers are compared with it."""
        def handler() -> None:
            for _ in self.targets(all_nodes):
                pass
        return handler

    def read(self, all_nodes: bool) -> Callable[[], None]:
        def handler() -> None:
            text = self.texts[self.hits % len(self.texts)]
            for node in self.targets(all_nodes):
                node.read(text)
        return handler

    def write(self, all_nodes: bool) -> Callable[[], None]:
        def handler() -> None:
            target = ("scratch", "scratches[5]")[self.hits % 2]
            for node in self.targets(all_nodes):
                node.write(target, self.hits)
        return handler

    def call(self, all_nodes: bool, text: str = "sum(counter, 4)") -> Callable[[], None]:
        def handler() -> None:
            for node in self.targets(all_nodes):
                node.read(text)
        return handler


def costs(bench: Bench, friday: Any) -> dict[str, Number]:
    ticks, times = (5, 1) if bench.quick else (40, 5)
    numbers: dict[str, Number] = {}
    with friday.Session(str(record_waiting(bench, bench.compile("steps.c"), ticks, GROUP))) as session:
        session.breakpoint("tick", lambda: check(session))
        session.run()  # compiles the expressions and checks their values
        session.delete(next(iter(session.points)))
        work = Work(session)
        kinds = {"read": work.read, "write": work.write, "call": work.call,
                 "call_struct": lambda every: work.call(every, "pair(counter, 4).second == 4"),
                 "call_copy": lambda every: work.call(every, "add_to(&scratch, 3)")}
        for name, kind in kinds.items():
            for every, suffix in ((False, ""), (True, str(GROUP))):
                if name in ("call_struct", "call_copy") and every:
                    continue
                handler, found = kind(every), []
                replay_seconds(session, handler)
                for _ in range(times):
                    bare = replay_seconds(session, work.nothing(every))
                    work.done = 0
                    full = replay_seconds(session, handler)
                    found.append((full - bare) / work.done * (GROUP if every else 1) * 1e6)
                numbers[f"{name}{suffix}_us"] = median(found)
    return numbers


def check(session: Any) -> None:
    node = session.node
    if (node.read("table[3].value + 1") != 10 or node.read("sum(counter, 4)") != node.read("counter") + 4
            or not node.read("pair(counter, 4).second == 4")):
        raise RuntimeError("what is read is not what the program holds")


# -- 128 nodes ---------------------------------------------------------------------------------------------------------
def big_program(bench: Bench) -> pathlib.Path:
    """A program like steps.c with some 10 MB of debug information."""
    source, program = bench.directory / "big.c", bench.directory / "big"
    count = 300 if bench.quick else 4500
    text = (pathlib.Path(__file__).parent / "steps.c").read_text().replace("int main(", "static int first_main(")
    for i in range(count):
        fields = " ".join(f"int field_{i}_{j}; struct S{max(0, i - 1 - j % 7)}* link_{i}_{j};" for j in range(48))
        text += f"struct S{i} {{ {fields} }};\n" + (
            f"static int work_{i}(struct S{i}* s, int a, long b) {{ int local_{i} = a * {i}; for (int k = 0; k < a; k++) "
            f"{{ long inner_{i} = b + k; s->field_{i}_3 += (int)inner_{i} + local_{i}; }} return s->field_{i}_{i % 48}; }}\n")
    text += "int (*const all[])() = {" + ",".join(f"(int (*)())work_{i}" for i in range(count)) + "};\n"
    text += "int main(int argc, char** argv) { return first_main(argc, argv) + (all[0] == 0); }\n"
    source.write_text(text)
    bench.run(["cc", "-g", "-O0", "-w", "-o", program, source], timeout=300)
    return program


def memory_gib(pid: int, *kinds: str) -> float:
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(size) for kind, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M) if kind in kinds) / (1 << 20)


def own_and_shared_gib(pid: int) -> tuple[float, float]:
    return memory_gib(pid, "Private_Clean", "Private_Dirty"), memory_gib(pid, "Shared_Clean", "Shared_Dirty")


def gdbs_of_this() -> list[int]:
    return [pid for pid in children_of(os.getpid()) if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "gdb"]


def many_nodes(bench: Bench, friday: Any) -> dict[str, Number]:
    nodes = 20 if bench.quick else MANY
    program = big_program(bench)
    with friday.Session(str(record_waiting(bench, program, 3, nodes))) as session:
        start = time.perf_counter()
        session.breakpoint("ready")
        set_up = time.perf_counter() - start
        for _ in range(nodes):
            session.run()
        start = time.perf_counter()
        frames = session.gdb("backtrace", nodes="0-127" if nodes == MANY else None)
        backtrace = time.perf_counter() - start
        if len(frames) != nodes or not all("main" in text for text in frames.values()):
            raise RuntimeError("a backtrace does not contain main")
        gdbs = gdbs_of_this()
        if len(gdbs) < nodes:
            raise RuntimeError(f"{len(gdbs)} gdbs are alive instead of {nodes}")
        memory = sum(memory_gib(pid, "Pss") for pid in gdbs)
    return {"nodes128_breakpoint_s": Number(set_up), "nodes128_backtrace_s": Number(backtrace), "nodes128_pss_gib": Number(memory),
            **plain_gdbs(bench, program, nodes)}


# -- plain gdb ---------------------------------------------------------------------------------------------------------
def plain_gdb(bench: Bench) -> dict[str, Number]:
    gdb = Gdb(bench, [bench.compile("steps.c"), 10])
    gdb.command("-break-insert ready")
    gdb.resume("-exec-run")
    rounds = 5 if bench.quick else 200
    texts = {"gdb_read_us": ["counter", "table[3].value + 1", "table[7].next->value", "counter * 2"],
             "gdb_write_us": ["scratch = %d", "scratches[5] = %d"], "gdb_call_us": ["sum(counter, 4)"]}
    numbers = {}
    for key, chosen in texts.items():
        if key == "gdb_call_us" and (why := no_calls()):
            print(f"gdb_call_us and gdb_call{GROUP}_us are not measured: {why}", file=sys.stderr)
            continue
        found = []
        for _ in range(5):
            start = time.perf_counter()
            for i in range(rounds):
                text = chosen[i % len(chosen)]
                gdb.read(text % i if "%" in text else text)
            found.append((time.perf_counter() - start) / rounds * 1e6)
        numbers[key] = median(found)
    gdb.close()
    for key, one in list(numbers.items()):
        numbers[key.replace("_us", f"{GROUP}_us")] = Number(one.value * GROUP, one.spread * GROUP, one.count)
    return numbers


def plain_gdbs(bench: Bench, program: pathlib.Path, nodes: int) -> dict[str, Number]:
    """What `nodes` plain gdbs would take one after another, extrapolated from a few, since so many would not fit into memory."""
    some, set_up, backtrace = 3, [], []
    gdbs = []
    for _ in range(some):
        start = time.perf_counter()
        gdbs.append(gdb := Gdb(bench, [program, 3]))
        gdb.command("-break-insert ready")
        set_up.append((time.perf_counter() - start) * nodes)
        gdb.resume("-exec-run")
        if b'func="main"' not in gdb.command("-stack-list-frames"):
            raise RuntimeError("the backtrace of plain gdb does not contain main")
        backtrace.append((time.perf_counter() - start) * nodes)
    own, shared = zip(*(own_and_shared_gib(gdb.process.pid) for gdb in gdbs))
    for gdb in gdbs:
        gdb.close()
    return {"gdb_nodes128_breakpoint_s": median(set_up), "gdb_nodes128_backtrace_s": median(backtrace),
            "gdb_nodes128_pss_gib": Number(sum(own) / some * nodes + sum(shared) / some)}


def run(bench: Bench) -> dict[str, Number]:
    friday = load_friday(bench)
    return {**plain_gdb(bench), **costs(bench, friday), **many_nodes(bench, friday)}
