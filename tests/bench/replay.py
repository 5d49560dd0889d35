"""Measures how fast a recording replays, in `clock` and in `free` order."""
from __future__ import annotations

import importlib.util
import pathlib
import signal
import socket
import time
from typing import Callable

from support import ROOT, Bench, Key, Number, Redis, Unavailable, ask, free_ports, load, median, need, trace_sizes, wait_until

NAME = "replay"
KEYS = {
    "ring_speedup": Key("x", "", "ring of 8 nodes and their client: recorded seconds / seconds of the replay in `clock`"),
    "redis_speedup": Key("x", "", "redis, a primary and two replicas under load: recorded seconds / seconds in `clock`"),
    "redis_busy_speedup": Key("x", "", "the same, but only the seconds under load count as recorded"),
    "plain_free_speedup": Key("x", "", "the same recording without any order between nodes (`free`), on all cores"),
    "events_per_s": Key("1/s", "", "events of redis's recording replayed in `clock`"),
    "free_events_per_s": Key("1/s", "", "and in `free`"),
    "handover_us": Key("us", "3.6", "from one node to the next: a token round 2 processes, (clock - free) / hand-overs, both on one core"),
    "handover_8_us": Key("us", "3.6", "the same with 8 processes"),
}


def literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return str(value) if isinstance(value, (int, float)) else '"' + str(value) + '"'


def group_file(bench: Bench, nodes: list[dict], **settings: object) -> pathlib.Path:
    """Writes a GROUP.toml for nodes that are given as dictionaries, and returns its path."""
    text = "[group]\n" + "".join(f"{key} = {literal(value)}\n" for key, value in settings.items())
    for node in nodes:
        text += "[[node]]\n" + "".join(f"{key} = {literal(value)}\n" for key, value in node.items())
    path = bench.path("group")
    path.write_text(text)
    return path


def record_waiting(bench: Bench, program: pathlib.Path, count: int, nodes: int) -> pathlib.Path:
    """Records nodes that run steps.c, or a program like it, and wait at the end. The recording ends when all nodes wait."""
    recording, outputs = bench.path("waiting-rec"), [bench.path("out") for _ in range(nodes)]
    group = group_file(bench, [{"name": f"s{i}", "command": [str(program), str(count), "wait"], "stdout": str(output)} for i, output in enumerate(outputs)])
    recorder = bench.start([bench.friday, "record", "-o", recording, "--group", group])
    wait_until(lambda: recorder.poll() is not None or all(output.exists() and output.read_text() for output in outputs), "the nodes come to wait", 180)
    recorder.send_signal(signal.SIGINT)
    if recorder.wait(60) or len(trace_sizes(recording)) != nodes:
        raise RuntimeError(f"{recording} should hold {nodes} nodes: {recorder.log.read_text()[-2000:]}")
    return recording


def speed(bench: Bench, recording: pathlib.Path, sync: str, times: int, **options) -> tuple[Number, int]:
    """The seconds of a replay (the median of several), and its number of events."""
    results = [bench.verify(recording, sync=sync, **options) for _ in range(times)]
    return median(result["seconds"] for result in results), results[0]["events"]


def replays(bench: Bench) -> int:
    return 1 if bench.quick else 5


# -- the ring ----------------------------------------------------------------------------------------------------------
def ring_module():
    spec = importlib.util.spec_from_file_location("ring", ROOT / "tests" / "apps" / "chord" / "ring.py")
    module = importlib.util.module_from_spec(spec)
    import sys
    sys.modules["ring"] = module  # dataclasses look up the module of their class there
    spec.loader.exec_module(module)
    return module


def ring(bench: Bench) -> dict[str, Number]:
    apps = bench.build / "apps"
    if not (apps / "chord").exists():
        raise Unavailable(f"{apps}/chord is not built")
    ring = ring_module()
    seconds = 5.0 if bench.quick else 10.0
    plan = ring.make_plan(nodes=8, seconds=seconds, seed=1, gap=0.1, record_client=True, rate=200)
    group, recording = bench.path("group"), bench.path("ring-rec")
    group.write_text(ring.group_toml(plan, apps))
    bench.run([bench.friday, "record", "-o", recording, "--group", group], timeout=seconds + 30)
    replay, events = speed(bench, recording, "clock", replays(bench))
    bench.note(f"ring: {seconds:g} s, {events} events, replayed in {replay.value:.3f} s")
    return {"ring_speedup": Number(seconds / replay.value, replay.spread / replay.value * seconds / replay.value, replay.count)}


# -- redis -------------------------------------------------------------------------------------------------------------
def record_redis(bench: Bench, put: Callable[[int], object], *options: str) -> tuple[pathlib.Path, float, float]:
    """Records a redis primary and two replicas, into which `put` loads values by the primary's port from outside of the recording: the
    recording, the seconds of the load, and those of all."""
    ports, nodes = free_ports(3), []
    for index, port in enumerate(ports):
        folder = bench.path("redis")
        folder.mkdir()
        command = Redis.command(port) + (["--replicaof", "127.0.0.1", str(ports[0])] if index else [])
        nodes.append({"name": f"redis-{index}", "command": command, "cwd": str(folder), "stdout": str(folder / "out"), "stderr": str(folder / "err")})
    recording = bench.path("redis-rec")
    started = time.monotonic()
    process = bench.start([bench.friday, "record", "-o", recording, "--group", group_file(bench, nodes), *options])
    wait_until(lambda: is_synced(ports[0]), "two replicas in sync")
    busy = time.monotonic()
    put(ports[0])
    busy = time.monotonic() - busy
    process.send_signal(signal.SIGINT)
    process.wait(60)
    return recording, busy, time.monotonic() - started


def set_and_get(bench: Bench, port: int, requests: int) -> None:
    for test in ("set", "get"):
        load(bench, port, test, requests)


def redis(bench: Bench) -> dict[str, Number]:
    """Replays the recording of a redis primary and two replicas under SET and GET from redis-benchmark."""
    recording, busy, seconds = record_redis(bench, lambda port: set_and_get(bench, port, 5_000 if bench.quick else 100_000))
    clock, events = speed(bench, recording, "clock", replays(bench))
    free, _ = speed(bench, recording, "free", replays(bench))
    bench.note(f"redis: {seconds:.2f} s ({busy:.2f} s under load), {events} events, replayed in {clock.value:.3f} s (clock), {free.value:.3f} s (free)")
    ratio = lambda top, below: Number(top / below.value, top * below.spread / below.value**2, below.count)
    return {"redis_speedup": ratio(seconds, clock), "redis_busy_speedup": ratio(busy, clock), "plain_free_speedup": ratio(seconds, free),
            "events_per_s": ratio(events, clock), "free_events_per_s": ratio(events, free)}


def is_synced(port: int) -> bool:
    try:
        return ask(port, "info replication").count("state=online") == 2
    except OSError:
        return False


# -- the baton ---------------------------------------------------------------------------------------------------------
def handover(bench: Bench, processes: int) -> Number:
    """The time of a hand-over between nodes. A message goes round a ring of processes: in `clock` order each step is a hand-over of the
    baton, in `free` order on one core only the kernel's context switches remain."""
    passes = 2_000 if bench.quick else 40_000
    rounds = passes // processes
    ports = free_ports(processes, socket.SOCK_DGRAM)
    program = bench.compile("token.c")
    nodes = [{"name": f"t{i}", "command": [str(program), str(ports[i]), str(ports[(i + 1) % processes]), str(rounds)] + (["first"] if i == 0 else [])}
             for i in range(processes)]
    recording = bench.path("token-rec")
    bench.run([bench.friday, "record", "-o", recording, "--group", group_file(bench, nodes)], timeout=60)
    core = bench.cores[:1]
    events = sum(size.events for size in trace_sizes(recording))
    found = []
    for _ in range(2 if bench.quick else 7):
        clock, free = (bench.verify(recording, sync=sync, cores=core)["seconds"] for sync in ("clock", "free"))
        found.append((clock - free) / (rounds * processes) * 1e6)
    bench.note(f"token round {processes}: {rounds * processes} passes, {events} events; last pair {clock:.3f} s (clock), {free:.3f} s (free, one core)")
    return median(found)


def run(bench: Bench) -> dict[str, Number]:
    need("redis-server", "redis-tools")
    return {**ring(bench), **redis(bench), "handover_us": handover(bench, 2), "handover_8_us": handover(bench, 8)}
