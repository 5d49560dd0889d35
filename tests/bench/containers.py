"""Measures what reads of containers and conditions on them cost, beside a plain field and beside plain gdb. This is part of the benchmark
`console`."""
from __future__ import annotations

import time
from typing import Any, Callable

from mi import Gdb
from replay import record_waiting
from support import HERE, Bench, Key, Number, median

PLAIN = "srv.plain.term"
READS = {  # by container; each reads one int, as the plain field is
    "vector": "srv.log[srv.commit - 1].term", "vector_bool": "srv.flags[7]", "deque": "srv.deque[50].term", "string": "srv.text.size()",
    "string_compare": 'srv.text == "a text"', "optional": "srv.optional->term", "variant": "std::get<1>(srv.variant).term", "unique_ptr": "srv.unique->term",
    "shared_ptr": "srv.shared->term", "map": "srv.map[50].term", "map_of_text": 'srv.by_name["50"]', "set": "srv.set.count(50)", "unordered_map": "srv.hash[50].term",
    "array": "srv.array[2].term", "pair": "srv.pair.second.term", "tuple": "std::get<1>(srv.tuple).term", "list": "srv.list.front().term",
}
CONDITIONS = {  # each is false
    "field": "srv.plain.term == 2", "argument": "count == -1", "vector": "srv.log[srv.commit - 1].term == -1", "size": "srv.log.size() > 1000",
    "text": 'srv.text == "another"', "optional": "srv.optional->term == 3", "unique_ptr": "srv.unique->term == 3", "deque": "srv.deque[50].term == 3",
    "map": "srv.map.count(500) != 0", "several": 'srv.log.size() > 1000 || srv.log.back().owner == "x" || srv.flags[7] == 0',
}
BY_GDB = ("field", "argument", "vector", "size", "unique_ptr", "deque")  # gdb has operators for these; for the others it would call the program
KEYS = {
    **{f"container_read_ratio_{name}": Key("", "<= 3", f"`{text}` read, as a multiple of `{PLAIN}` in the same run") for name, text in READS.items()},
    **{f"condition_us_{name}": Key("us", "", f"a breakpoint passed whose condition is `{text}`".replace("|", "\\|")) for name, text in CONDITIONS.items()},
    **{f"gdb_condition_us_{name}": Key("us", "", "the same in plain gdb, on the program itself") for name in BY_GDB},
}


def program(bench: Bench) -> Any:
    path = bench.directory / "containers"
    if not path.exists():
        bench.run(["c++", "-std=c++20", "-O1", "-g", "-o", path, HERE / "containers.cc"], timeout=120)
    return path


def reads(bench: Bench, session: Any) -> dict[str, Number]:
    node, count = session.node, 10 if bench.quick else 100

    def seconds(text: str) -> float:
        """The shortest of some loops: a loop is so short that other work on the machine interrupts only some."""
        taken = []
        for _ in range(8):
            start = time.perf_counter()
            for _ in range(count):
                node.read(text)
            taken.append(time.perf_counter() - start)
        return min(taken)
    numbers = {}
    for name, text in READS.items():
        ratios = []
        for turn in range(3 if bench.quick else 9):
            seconds(text), seconds(PLAIN)  # the first ones compile them
            taken = [seconds(each) for each in ((text, PLAIN, PLAIN, text) if turn % 2 else (PLAIN, text, text, PLAIN))]
            own, plain = (taken[0] + taken[3], taken[1] + taken[2]) if turn % 2 else (taken[1] + taken[2], taken[0] + taken[3])
            ratios.append(own / plain)
        numbers[f"container_read_ratio_{name}"] = median(ratios)
    return numbers


def passing(run: Callable[[str | None], float], count: int, times: int, texts: dict[str, str]) -> dict[str, Number]:
    """Microseconds that a hit costs whose condition is false, by what a run takes with the breakpoint and without it."""
    numbers = {}
    for name, text in texts.items():
        run(text)
        numbers[name] = median((run(text) - run(None)) / count * 1e6 for _ in range(times))
    return numbers


def by_gdb(bench: Bench, count: int, times: int) -> dict[str, Number]:
    def run(condition: str | None) -> float:
        gdb = Gdb(bench, [program(bench), count])
        try:
            gdb.command("-break-insert main")
            gdb.resume("-exec-run")
            if condition is not None:
                gdb.command(f'-break-insert -c "{condition}" tick')
            start = time.perf_counter()
            gdb.resume()
            return time.perf_counter() - start
        finally:
            gdb.close()
    found = passing(run, count, times, {name: CONDITIONS[name] for name in BY_GDB})
    return {f"gdb_condition_us_{name}": number for name, number in found.items()}


def run(bench: Bench, friday: Any) -> dict[str, Number]:
    count, times = (50, 1) if bench.quick else (1000, 3)
    with friday.Session(str(record_waiting(bench, program(bench), count, 1))) as session:
        def replay(condition: str | None) -> float:
            session.restart()
            point = session.breakpoint("tick", condition=condition) if condition else None
            start = time.perf_counter()
            stop = session.run()
            taken = time.perf_counter() - start
            if stop.kind != "end":
                raise RuntimeError(f"a condition that is false stopped the group: {stop.kind} {stop.message}")
            if point:
                point.delete()
            return taken
        numbers = {f"condition_us_{name}": number for name, number in passing(replay, count, times, CONDITIONS).items()}
        session.restart()
        session.breakpoint("tick").stops = True
        session.run()
        numbers.update(reads(bench, session))
    return {**numbers, **by_gdb(bench, 20 if bench.quick else 200, times)}
