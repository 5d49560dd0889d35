"""Measures what recording costs: the throughput of redis, recorded / native, and the time that it adds to single system calls."""
from __future__ import annotations

import collections
import re
import time
from typing import Any

from support import Bench, Key, Number, Redis, alternate, load, median, need, trace_sizes

NAME = "record"
KEYS = {
    "redis_set_ratio": Key("", ">= 0.85", "SET requests a second, recorded / native; server on one core, redis-benchmark on the other"),
    "redis_get_ratio": Key("", ">= 0.85", "the same for GET"),
    "redis_set_ratio_one": Key("", "", "SET, server and redis-benchmark on the same core"),
    "redis_get_ratio_one": Key("", "", "GET, server and redis-benchmark on the same core"),
    "redis_set_cpu_ratio": Key("", "", "processor time of the server a SET, native / recorded, from the same pairs: other load on the machine hardly moves it"),
    "redis_get_cpu_ratio": Key("", "", "the same for GET"),
    "call_loop_added_ns": Key("ns", "15-35", "what recording adds to one call: the worst of the next three"),
    "getppid_added_ns": Key("ns", "", "getppid in a loop"),
    "pipe_added_ns": Key("ns", "", "read of 64 bytes that lie ready in a pipe"),
    "clock_added_ns": Key("ns", "", "clock_gettime, natively without the kernel"),
    "bytes_per_event": Key("bytes", "", "of redis's trace, start image and payloads included"),
    "until_failure_overhead": Key("", "<= 1.05", "seconds of the runs of friday record --until-failure / of a shell loop of friday record --group"),
}


def call_costs(bench: Bench) -> dict[str, Number]:
    """The nanoseconds that recording adds to a call, by its kind, from pairs of a recorded and a native process on the same core."""
    program = [bench.compile("calls.c"), 5, 20_000 if bench.quick else 100_000]
    core = bench.cores[-1:]

    def times(command: list[Any]) -> dict[str, float]:
        found = collections.defaultdict(list)
        for kind, ns in re.findall(r"^(getppid|pipe|clock) ([\d.]+)$", bench.run(command, cores=core), re.MULTILINE):
            found[kind].append(float(ns))
        return {kind: median(values).value for kind, values in found.items()}

    native, recorded = alternate(2 if bench.quick else 9, lambda: times(program),
                                 lambda: times(bench.record_command(bench.path("calls-rec"), program)))
    bench.note("ns a call, native -> recorded: " + ", ".join(
        f"{kind} {median(t[kind] for t in native).value:.0f} -> {median(t[kind] for t in recorded).value:.0f}" for kind in native[0]))
    return {kind: median(r[kind] - n[kind] for n, r in zip(native, recorded)) for kind in native[0]}


def redis_ratios(bench: Bench) -> tuple[dict[str, Number], float]:
    """Compares a recorded and a native server, which both run all the time and get load in turn; the other one is then idle."""
    pairs, requests = (3, 5_000) if bench.quick else (13, 30_000)
    server, client = bench.cores[:1], bench.cores[-1:]
    recording = bench.path("redis-rec")
    native, recorded = Redis(bench, cores=server), Redis(bench, recording=recording, cores=server)
    found: dict[str, Number] = {}
    for suffix, cores in (("", client), ("_one", server)):
        for test in ("set", "get"):
            def ask(one: Redis) -> tuple[float, float]:
                """Requests per second, and requests per second of the server's processor time."""
                before = one.cpu_seconds()
                rate = load(bench, one.port, test, requests, cores=cores)
                return rate, requests / (one.cpu_seconds() - before)

            for one in (native, recorded):
                load(bench, one.port, test, requests // 3, cores=cores)
            n, r = alternate(pairs, lambda: ask(native), lambda: ask(recorded))
            found[f"redis_{test}_ratio{suffix}"] = median(b[0] / a[0] for a, b in zip(n, r))
            if not suffix:
                found[f"redis_{test}_cpu_ratio"] = median(b[1] / a[1] for a, b in zip(n, r))
            what = f"redis {test}{suffix}, native -> recorded"
            bench.note(f"{what}: {median(a[0] for a in n).value:.0f} -> {median(b[0] for b in r).value:.0f} requests a second, "
                       f"{1e6 / median(a[1] for a in n).value:.2f} -> {1e6 / median(b[1] for b in r).value:.2f} us of the server a request")
    native.shut_down()
    recorded.shut_down()
    sizes = trace_sizes(recording)
    return found, sum(s.committed for s in sizes) / sum(s.events for s in sizes)


GROUP = """[group]
stop_when_ends = "client"
[[node]]
name = "server"
command = ["redis-server", "--port", "{port:server}", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
stdout = "server.log"
ready = "port {port:server}"
[[node]]
name = "client"
command = ["redis-benchmark", "-p", "{port:server}", "-q", "-t", "set", "-n", "REQUESTS"]
stdout = "client.log"
record = false
"""


def until_failure_overhead(bench: Bench) -> Number:
    """Both record the same group again and again, and keep no recording."""
    runs, pairs = (2, 2) if bench.quick else (5, 5)
    group = bench.path("group.toml")
    group.write_text(GROUP.replace("REQUESTS", "1000" if bench.quick else "5000"))
    kept = bench.path("runs")
    series = [bench.friday, "record", "-o", kept, "--group", group, "--until-failure", runs, "--keep", "failed"]
    loop = ["/bin/sh", "-c", f"for run in $(seq {runs}); do '{bench.friday}' record -o '{kept}-'$run --group '{group}' || exit; rm -rf '{kept}-'$run; done"]

    def seconds(command: list[Any]) -> float:
        began = time.monotonic()
        bench.run(command, timeout=120.0)
        return time.monotonic() - began

    looped, until = alternate(pairs, lambda: seconds(loop), lambda: seconds(series))
    bench.note(f"{runs} runs of redis under load: a loop of friday record {median(looped).value:.2f} s, --until-failure {median(until).value:.2f} s")
    return median(b / a for a, b in zip(looped, until))


def run(bench: Bench) -> dict[str, Number]:
    need("redis-server", "redis-tools")
    numbers, bytes_per_event = redis_ratios(bench)
    added = call_costs(bench)
    for kind, number in added.items():
        numbers[f"{kind}_added_ns"] = number
    numbers["call_loop_added_ns"] = max(added.values(), key=lambda number: number.value)
    numbers["bytes_per_event"] = Number(bytes_per_event)
    numbers["until_failure_overhead"] = until_failure_overhead(bench)
    return numbers
