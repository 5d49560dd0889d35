"""Measures what recording costs real servers: work per second, recorded / native, on one core and on all cores.

The native and the recorded server run at the same time and get load in turn; the other one is then idle. On one core means that server
and recorder share a core and the load comes from another one; on all cores nothing is pinned.
"""
from __future__ import annotations

import os
import pathlib
import re
import socket
import subprocess
import sys
import time
from typing import Any, Callable, Iterable

import record
from identity import open_to_all, without_root
from support import Bench, Key, Number, Redis, alternate, ask, free_ports, load, median, need, trace_sizes, wait_until

NAME = "fidelity"
POSTGRES = pathlib.Path("/usr/lib/postgresql/15/bin")
Cores = Iterable[int] | None

RATIOS = {
    "redis_set_ratio": (">= 0.85", "SET requests a second of redis-benchmark with 50 connections, recorded / native"),
    "redis_get_ratio": (">= 0.85", "the same for GET"),
    "redis_pipelined_ratio": (">= 0.85", "SET, 16 requests at once on each connection"),
    "memcached_get_ratio": (">= 0.85", "gets of 100 bytes a second, 16 connections, memcached -t 4"),
    "apache_ratio": (">= 0.85", "requests a second of `ab -k -c 8` for a small file, Apache 2.4 event"),
    "pgbench_ratio": (">= 0.85", "transactions a second of pgbench -c 1, PostgreSQL 15 without fsync"),
    "pingpong_ratio": (">= 0.6", "round trips a second of a byte between two processes, both recorded, by pipes"),
    "futex_ratio": ("", "turns a second that four threads take by a mutex and a condition variable"),
    "fork_ratio": ("", "children a second that are forked, end, and are waited for"),
}
KEYS = {}
for _key, (_aim, _meaning) in RATIOS.items():
    KEYS[_key] = Key("", _aim, _meaning + "; one core")
    KEYS[_key + "_multi"] = Key("", "", "the same on all cores")
KEYS["call_added_ns"] = Key("ns", "<= 60", "what recording adds to one call: the worst of getppid, a read from a pipe, clock_gettime")
KEYS["waiter_us"] = Key("us", "", "a recorded thread wakes up while another computes or calls: how late it runs, the median, worst of five kinds")
KEYS["waiter_p99_us"] = Key("us", "<= 2000", "the same: what one in a hundred exceeds")
KEYS["waiter_writer_p99_us"] = Key("us", "", "the same of one that is not recorded, while a program beside it writes 100 MB/s to a file, as a recorder does")
KEYS["trace_bytes_per_s"] = Key("bytes/s", "", "of redis's trace under SET, one core")


class Server:
    """A server on loopback, native or recorded, pinned or not. `make` returns its command for a port."""

    def __init__(self, bench: Bench, make: Callable[[int], list[Any]], cores: Cores, *, recorded: bool) -> None:
        self.port, = free_ports(1)
        self.recording = bench.path("rec") if recorded else None
        command = make(self.port)
        self.process = bench.start(bench.record_command(self.recording, command) if recorded else command, cores=cores, cwd=bench.directory)
        wait_until(lambda: listens(self.port) or self.process.poll() is not None, f"no server at {self.port}: {self.output()}", 60)
        if self.process.poll() is not None:
            raise RuntimeError(f"{command} ended: {self.output()}")

    def output(self) -> str:
        return self.process.log.read_text(errors="replace")[-1500:]  # type: ignore[attr-defined]

    def end(self) -> None:
        """Ends the server. Raises RuntimeError if its recording was not complete, since then something else was measured."""
        self.process.terminate()
        self.process.wait(60)
        if self.recording and "recording ended" in self.output():
            raise RuntimeError(self.output())


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def compare(bench: Bench, key: str, make: Callable[[int], list[Any]], rate: Callable[[int, Cores], float], *, pairs: int,
            prepare: Callable[[int], None] = lambda port: None) -> dict[str, Number]:
    """The ratios of a server on one core and on all cores."""
    found = {}
    for suffix, server, client in (("", bench.cores[:1], bench.cores[-1:]), ("_multi", None, None)):
        both = [Server(bench, make, server, recorded=recorded) for recorded in (False, True)]
        for one in both:
            prepare(one.port)
            rate(one.port, client)
        native, recorded = alternate(pairs, lambda: rate(both[0].port, client), lambda: rate(both[1].port, client))
        for one in both:
            one.end()
        found[key + suffix] = median(r / n for n, r in zip(native, recorded))
        bench.note(f"{key}{suffix}, native -> recorded: {median(native).value:.0f} -> {median(recorded).value:.0f} a second")
    return found


# -- the servers -------------------------------------------------------------------------------------------------------
def redis(bench: Bench, pairs: int) -> dict[str, Number]:
    count = 5_000 if bench.quick else 40_000
    found: dict[str, Number] = {}
    for key, test, depth in (("redis_set_ratio", "set", 1), ("redis_get_ratio", "get", 1), ("redis_pipelined_ratio", "set", 16)):
        found |= compare(bench, key, Redis.command, lambda port, cores: load(bench, port, test, count * depth // 4 if depth > 1 else count, cores=cores, depth=depth),
                         pairs=pairs)
    return found


def memcached(bench: Bench, pairs: int) -> dict[str, Number]:
    program, count = bench.compile("requests.c"), 5_000 if bench.quick else 60_000

    def rate(port: int, cores: Cores) -> float:
        return float(bench.run([program, port, 16, count, "get key", "END"], cores=cores))

    def put(port: int) -> None:
        ask(port, "set key 0 0 100\r\n" + "v" * 100)

    identity = ["-u", "nobody"] if os.geteuid() == 0 else []
    return compare(bench, "memcached_get_ratio", lambda port: ["/usr/bin/memcached", "-t", 4, "-l", "127.0.0.1", "-p", port, "-U", 0, *identity],
                   rate, pairs=pairs, prepare=put)


APACHE = """
ServerRoot {place}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {place}/pid
ErrorLog {place}/error.log
DefaultRuntimeDir {place}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
{user}
StartServers 1
ServerLimit 1
ThreadsPerChild 16
MinSpareThreads 1
MaxSpareThreads 16
MaxRequestWorkers 16
MaxKeepAliveRequests 0
DocumentRoot {place}
"""


def apache(bench: Bench, pairs: int) -> dict[str, Number]:
    count = 2_000 if bench.quick else 20_000

    def command(port: int) -> list[Any]:
        place = bench.path("apache")
        place.mkdir()
        open_to_all(place)
        (place / "page").write_text("a small page\n")
        user = "User nobody\nGroup nogroup" if os.geteuid() == 0 else ""
        (place / "apache.conf").write_text(APACHE.format(place=place, port=port, user=user))
        return ["/usr/sbin/apache2", "-D", "FOREGROUND", "-f", place / "apache.conf"]

    def rate(port: int, cores: Cores) -> float:
        text = bench.run(["/usr/bin/ab", "-q", "-k", "-n", count, "-c", 8, f"http://127.0.0.1:{port}/page"], cores=cores)
        return float(re.search(r"Requests per second: +([\d.]+)", text)[1])  # type: ignore[index]

    return compare(bench, "apache_ratio", command, rate, pairs=pairs)


def pgbench(bench: Bench, pairs: int) -> dict[str, Number]:
    count = 200 if bench.quick else 3_000
    open_to_all(bench.directory)

    def command(port: int) -> list[Any]:
        place = bench.path("postgres")
        place.mkdir()
        open_to_all(place)
        bench.run(without_root([POSTGRES / "initdb", "-D", place / "data", "-U", "tester", "-A", "trust", "--no-sync", "--locale=C"]))
        return without_root([POSTGRES / "postgres", "-D", place / "data", "-p", port, "-c", "listen_addresses=127.0.0.1",
                             "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "autovacuum=off"])

    def client(port: int, *options: Any, cores: Cores = None) -> str:
        return bench.run([POSTGRES / "pgbench", "-h", "127.0.0.1", "-p", port, "-U", "tester", *options, "postgres"], cores=cores)

    def prepare(port: int) -> None:
        ready = [POSTGRES / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
        wait_until(lambda: subprocess.run(ready, stdout=subprocess.DEVNULL).returncode == 0, "postgres is not ready", 60)
        client(port, "-i", "-q")

    def rate(port: int, cores: Cores) -> float:
        return float(re.search(r"tps = ([\d.]+)", client(port, "-n", "-c", 1, "-t", count, cores=cores))[1])  # type: ignore[index]

    return compare(bench, "pgbench_ratio", command, rate, pairs=pairs, prepare=prepare)


# -- loops -------------------------------------------------------------------------------------------------------------
def storm(bench: Bench, kind: str, count: int, pairs: int) -> dict[str, Number]:
    program = bench.compile("storms.c")
    found = {}
    for suffix, cores in (("", bench.cores[:1]), ("_multi", None)):
        line = [program, kind, count // 10 if bench.quick else count]
        rate = lambda command: float(re.search(r"^([\d.]+)$", bench.run(command, cores=cores), re.MULTILINE)[1])  # type: ignore[index]  # noqa: E731
        native, recorded = alternate(pairs, lambda: rate(line), lambda: rate(bench.record_command(bench.path("storm-rec"), line)))
        found[f"{kind}_ratio{suffix}"] = median(r / n for n, r in zip(native, recorded))
        bench.note(f"{kind}{suffix}, native -> recorded: {median(native).value:.0f} -> {median(recorded).value:.0f} a second")
    return found


WRITER = """
import os, sys, time
with open(sys.argv[1], "wb", buffering=0) as file:
    while os.getppid() == int(sys.argv[2]):
        began = time.monotonic()
        if file.tell() >= 1 << 30:
            file.truncate(0), file.seek(0)
        file.write(bytes(1 << 20))
        time.sleep(max(0, began + 0.0105 - time.monotonic()))
"""


def waiters(bench: Bench) -> dict[str, Number]:
    """How long a thread waits to run, for each kind of work that the other thread does meanwhile (tests/targets/waiter.c)."""
    program, count = bench.compile("../targets/waiter.c"), 100 if bench.quick else 1_000
    rounds = 1 if bench.quick else 5
    late: dict[str, list[tuple[float, float]]] = {}

    def ask(command: list[Any]) -> tuple[float, float]:
        found = re.search(r"^(\d+) (\d+)$", bench.run(command), re.MULTILINE)
        return float(found[1]), float(found[2])  # type: ignore[index]

    for kind in ("calls", "compute", "blocking", "pause", "spin"):
        line = [program, kind, count]
        native, recorded = alternate(rounds, lambda: ask(line), lambda: ask(bench.record_command(bench.path("waiter-rec"), line)))
        late[kind] = recorded
        bench.note(f"us late while another is in {kind}, native -> recorded: " + ", ".join(
            f"{what} {median(n[i] for n in native).value:.0f} -> {median(r[i] for r in recorded).value:.0f}" for i, what in enumerate(("median", "p99"))))
    writer = bench.start([sys.executable, "-c", WRITER, bench.path("written"), os.getpid()])
    beside = median(ask([program, "calls", count])[1] for _ in range(rounds))
    writer.terminate()
    writer.wait(10)
    return {"waiter_writer_p99_us": beside} | {
        key: max((median(pair[i] for pair in pairs) for pairs in late.values()), key=lambda number: number.value)
        for i, key in enumerate(("waiter_us", "waiter_p99_us"))}


def trace_rate(bench: Bench) -> Number:
    """The bytes per second by which the trace of redis grows under SET requests."""
    server = Server(bench, Redis.command, bench.cores[:1], recorded=True)
    load(bench, server.port, "set", 2_000, cores=bench.cores[-1:])
    size = lambda: sum(s.committed for s in trace_sizes(server.recording))  # type: ignore[arg-type]  # noqa: E731
    before, started = size(), time.monotonic()
    load(bench, server.port, "set", 10_000 if bench.quick else 100_000, cores=bench.cores[-1:])
    grown, seconds = size() - before, time.monotonic() - started
    server.end()
    return Number(grown / seconds)


def run(bench: Bench) -> dict[str, Number]:
    need("redis-server", "redis-tools", "memcached", "apache2", "apache2-utils", "postgresql-15")
    pairs = 3 if bench.quick else 9
    numbers: dict[str, Number] = {}
    for part in (redis, memcached, apache, pgbench):
        try:
            numbers |= part(bench, pairs)
        except RuntimeError as error:
            bench.note(f"{part.__name__}: no number: {error}")
    for kind, count in (("pingpong", 30_000), ("futex", 5_000), ("fork", 300)):
        numbers |= storm(bench, kind, count, pairs)
    numbers["call_added_ns"] = max(record.call_costs(bench).values(), key=lambda number: number.value)
    numbers |= waiters(bench)
    numbers["trace_bytes_per_s"] = trace_rate(bench)
    return numbers
