"""Measures going back in time: what checkpoints cost a run, how soon an earlier place is reached, steps and searches backward, a hop of
`origin`, and how soon a long recording opens at a late place by a checkpoint that it holds.

The ring is the one of the evaluation: 62 nodes for ten minutes (--short: one minute), of which some are killed and come again.
"""
from __future__ import annotations

import pathlib
import random
import re
import subprocess
import sys
import time
from typing import Any, Callable, Iterator

from evaluation import Size, record_ring
from replay import record_redis, ring_module, set_and_get
from support import Bench, Key, Number, Redis, Unavailable, ask, median, need

NAME = "history"
RING_STEPS = {"step": "reverse-stepi", "next": "reverse-next"}
REDIS_STEPS = {"step": "reverse-stepi", "next": "reverse-nexti"}  # it has no lines
KEYS = {
    **{f"forward_ratio_{name}": Key("", "<= 1.10", f"{what}: a run forward with checkpoints / without") for name, what in (("ring", "the ring of 62"), ("redis", "a Redis primary and two replicas under SET and GET"))},
    "checkpoint_ms_per_node": Key("ms", "<= 1", "a checkpoint of the ring of 62, for each live node"),
    "checkpoint_mib_per_node": Key("MiB", "<= 1", "its memory, as `info checkpoints` estimates it, for each node"),
    "checkpoint_ms_redis": Key("ms", "<= 10", "a checkpoint of a Redis with 100 MB of data"),
    "checkpoint_mib_redis": Key("MiB", "<= 10", "its memory, as `info checkpoints` estimates it"),
    "goto_ms": Key("ms", "<= 1,000", "to random places of the ring of 62, when a run has been through"),
    "goto_p99_ms": Key("ms", "", "the worst but one of 100"),
    "goto_from_start_ms": Key("ms", "", "the same places by a restart without checkpoints"),
    "goto_speedup": Key("", ">= 10", "how many times sooner the median place is reached by a checkpoint"),
    **{f"reverse_{step}_ms_{name}": Key("ms", "<= 100", f"`{command}` on {what}")
       for name, what, commands in (("ring", "a ring of 8", RING_STEPS), ("redis", "Redis, which is stripped", REDIS_STEPS)) for step, command in commands.items()},
    **{f"reverse_{step}_p99_ms_{name}": Key("ms", "<= 500", f"the worst but one of them, {what}")
       for name, what in (("ring", "a ring of 8"), ("redis", "Redis")) for step in ("step", "next")},
    "reverse_continue_ratio": Key("", "<= 1.5", "back to the only write of a value, long ago / a run forward over that span with that watch"),
    "open_at_ms": Key("ms", "<= 2,000", "`friday replay --at` nine tenths of the recording of 62, from a checkpoint in the recording, until the console answers"),
    "open_at_without_ms": Key("ms", "", "the same without one"),
    "saved_mib_per_checkpoint": Key("MiB", "", "what a checkpoint of 62 nodes adds to the recording, the first one left out"),
    "passage_counted_ns": Key("ns", "<= 10", "to the two millionth passage of a function since the last event, for each passage, in a node without stop points"),
    "passage_stopped_ns": Key("ns", "", "to the 20,000th, in a node with a breakpoint that is not hit"),
    "gdb_record_full_ratio": Key("", "", "gdb's own `record full`: a slice of tests/bench/steps.c (two thousand calls) recorded by it / the same in gdb without"),
    "origin_hop_ms": Key("ms", "<= 500", "a hop of `origin`, on the ring of 8"),
}


def session_of(bench: Bench, recording: pathlib.Path, checkpoints: bool = True) -> Any:
    if str(bench.build / "python") not in sys.path:
        sys.path.insert(0, str(bench.build / "python"))
    import friday
    session = friday.open(str(recording))
    if checkpoints:
        session.set_checkpoints(True)
    return session


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def worst(values: list[float]) -> Number:
    """The worst but one of a hundred."""
    return Number(sorted(values)[-max(1, len(values) // 100) - (len(values) >= 100)], 0.0, len(values))


def forward_ratio(bench: Bench, recording: pathlib.Path) -> Number:
    """Runs to the end in turn, each in a session of its own."""
    def run(checkpoints: bool) -> float:
        with session_of(bench, recording, checkpoints) as session:
            return timed(session.run)
    run(True)
    ratios = []
    for turn in range(1 if bench.quick else 3):
        order = [run(each) for each in ((True, False, False, True) if turn % 2 else (False, True, True, False))]
        with_, without = (order[0] + order[3], order[1] + order[2]) if turn % 2 else (order[1] + order[2], order[0] + order[3])
        ratios.append(with_ / without)
    return median(ratios)


def places(session: Any, count: int, seed: int) -> Iterator[tuple[int, int]]:
    chance, last = random.Random(seed), session.backend.total_events()
    for _ in range(count):
        yield session.backend.at_position(chance.randrange(last // 20, last))


def gotos(bench: Bench, recording: pathlib.Path) -> dict[str, Number]:
    with session_of(bench, recording) as session:
        session.run()
        kept = session.backend.checkpoints()["kept"]
        times = []
        for node, event in places(session, 10 if bench.quick else 100, 1):
            times.append(1000 * timed(lambda: session.goto(event, node=node)))
        making = []
        for node, event in places(session, 5 if bench.quick else 20, 2):
            session.goto(event, node=node)
            nodes = len(session.all_nodes)
            making.append(1000 * timed(session.checkpoint) / max(1, nodes))
        bench.note(f"{len(kept)} checkpoints of a run, {sum(each[3] for each in kept) >> 20} MiB")
    with session_of(bench, recording, False) as session:
        slow = []
        for node, event in places(session, 2 if bench.quick else 9, 1):
            session.restart()
            slow.append(1000 * timed(lambda: session.goto(event, node=node)))
    memory = [each[3] / (1 << 20) / max(1, each[2]) for each in kept]
    return {"goto_ms": median(times), "goto_p99_ms": worst(times), "goto_from_start_ms": median(slow),
            "goto_speedup": Number(median(slow).value / median(times).value), "checkpoint_ms_per_node": median(making),
            "checkpoint_mib_per_node": median(memory)}


def redis_checkpoints(bench: Bench) -> dict[str, Number]:
    """A Redis with 100 MB, and then requests, at random places of which checkpoints are made."""
    recording = bench.path("large-redis-rec")
    server = Redis(bench, recording=recording)
    megabytes = 5 if bench.quick else 100
    for at in range(0, megabytes * 1000, 1000):
        ask(server.port, f"eval \"for i={at},{at + 999} do redis.call('set',i,string.rep('x',1000)) end\" 0")
    set_and_get(bench, server.port, 1_000 if bench.quick else 10_000)
    server.shut_down()
    making, memory = [], []
    with session_of(bench, recording) as session:
        chance, last = random.Random(7), session.backend.total_events()
        for _ in range(3 if bench.quick else 20):
            node, event = session.backend.at_position(chance.randrange(last // 2, last * 9 // 10))
            session.goto(event, node=node)
            making.append(1000 * timed(session.checkpoint))
        memory = [each[3] / (1 << 20) for each in session.backend.checkpoints()["kept"]]
    return {"checkpoint_ms_redis": median(making), "checkpoint_mib_redis": median(memory)}


def gdb_record_full(bench: Bench) -> Number:
    """Functions are bound before, as gdb's recorder does not know the instructions by which the loader saves registers."""
    program = bench.compile("steps.c")
    ratios = []
    for _ in range(1 if bench.quick else 5):
        seconds = []
        for record in ("", "record full"):
            script = ["set confirm off", "set environment LD_BIND_NOW=1", "break tick", "run 2000", "delete", *([record] if record else []), "tbreak ready",
                      "python import time; began = time.perf_counter()", "continue", "python print('took', time.perf_counter() - began)", "kill"]
            text = bench.run(["gdb", "-nx", "-batch", *(word for line in script for word in ("-ex", line)), program], timeout=300)
            if "Breakpoint" not in text or not (found := re.search(r"took ([\d.]+)", text)):
                raise RuntimeError(f"gdb: {text[-1000:]}")
            seconds.append(float(found[1]))
        ratios.append(seconds[1] / seconds[0])
    return median(ratios)


def steps_back(bench: Bench, recording: pathlib.Path, name: str, function: str, commands: dict[str, str]) -> dict[str, Number]:
    """Each after a stop at a breakpoint: the first one lays a trail there, the others follow it."""
    numbers = {}
    for key, command in commands.items():
        times = []
        with session_of(bench, recording) as session:
            session.run()
            chance = random.Random(3)
            point = session.breakpoint(function)
            while len(times) < (6 if bench.quick else 100):
                node, event = session.backend.at_position(chance.randrange(session.backend.total_events() // 10, session.backend.total_events() * 8 // 10))
                session.goto(event, node=node)
                stop = session.run()
                if stop.kind != "breakpoint":
                    continue
                session.step(stop.node, "stepi")
                for _ in range(3):
                    times.append(1000 * timed(lambda: session.step(stop.node, command)))
            point.delete()
        numbers[f"reverse_{key}_ms_{name}"] = median(times)
        numbers[f"reverse_{key}_p99_ms_{name}"] = worst(times)
    return numbers


def reverse_continue(bench: Bench, recording: pathlib.Path) -> Number:
    """The id of a node is written once, when it starts."""
    ratios = []
    for _ in range(1 if bench.quick else 5):
        with session_of(bench, recording) as session:
            session.run()
            session.watch("srv.node.id", nodes=0)
            back = timed(session.reverse_continue)
            forward = timed(session.run)
            ratios.append(back / forward)
    return median(ratios)


def open_at(bench: Bench, recording: pathlib.Path, seconds: float) -> dict[str, Number]:
    def opened() -> float:
        began = time.perf_counter()
        done = subprocess.run([bench.friday, "replay", recording, "--at", f"{seconds:.1f}", "--batch", "-ex", "info mark"], capture_output=True, text=True, timeout=600)
        if done.returncode or "#" not in done.stdout:
            raise RuntimeError(f"friday replay --at: {done.stdout}{done.stderr}")
        return 1000 * (time.perf_counter() - began)
    without = [opened() for _ in range(1 if bench.quick else 2)]
    bench.run([bench.friday, "checkpoint", recording, "--at", f"{seconds / 2:.1f}"], timeout=600)
    first = size_of(recording)
    bench.run([bench.friday, "checkpoint", recording, "--at", f"{seconds * 0.7:.1f}", "--at", f"{seconds - 0.2:.1f}"], timeout=600)
    added = (size_of(recording) - first) / 2 / (1 << 20)
    return {"open_at_without_ms": median(without), "open_at_ms": median([opened() for _ in range(1 if bench.quick else 5)]), "saved_mib_per_checkpoint": Number(added)}


def size_of(recording: pathlib.Path) -> int:
    return sum(each.stat().st_size for each in (recording / "checkpoints").iterdir())


def origin(bench: Bench, recording: pathlib.Path) -> Number:
    times = []
    with session_of(bench, recording) as session:
        session.run()
        asked, most = 0, 2 if bench.quick else 8
        for node, event in places(session, 1000, 5):
            if asked == most:
                break
            if session.nodes.all[node].name.startswith("client"):
                continue
            session.goto(event, node=node)
            if not session.nodes[node].read("srv.successor"):
                continue  # it has not found its place yet
            asked += 1
            began = time.perf_counter()
            hops = session.origin("srv.successor->id", node=node)
            times += [1000 * (time.perf_counter() - began) / len(hops)] * len(hops)
    return median(times)


def passages(bench: Bench) -> dict[str, Number]:
    """What a passage costs on the way to a mark: the time to a far one less that to the first, divided by their distance."""
    recording = bench.path("passages-rec")
    bench.run([bench.friday, "record", "-q", "-o", recording, "--", bench.build / "targets" / "far_passages"], timeout=60)
    numbers = {}
    for key, nth, stops in (("passage_counted_ns", 2_000_000, False), ("passage_stopped_ns", 20_000, True)):
        with session_of(bench, recording) as session:
            point = session.breakpoint("turn")
            session.run()
            first = session.mark()
            point.delete()
            if stops:
                session.breakpoint("again")
            far, times = f"{first.removesuffix('1')}{nth}", []
            for _ in range(2 if bench.quick else 9):
                near = timed(lambda: session.goto(first))
                times.append(1e9 * (timed(lambda: session.goto(far)) - near) / (nth - 1))
            numbers[key] = median(times)
    return numbers


def record_small_ring(bench: Bench) -> pathlib.Path:
    ring, apps = ring_module(), bench.build / "apps"
    seconds = 4.0 if bench.quick else 10.0
    plan = ring.make_plan(nodes=8, seconds=seconds, seed=1, gap=0.1, record_client=True, rate=100)
    group, recording = bench.path("group"), bench.path("ring-rec")
    group.write_text(ring.group_toml(plan, apps))
    bench.run([bench.friday, "record", "-o", recording, "--group", group], timeout=seconds + 30)
    return recording


def run(bench: Bench) -> dict[str, Number]:
    if not (bench.build / "apps" / "chord").exists():
        raise Unavailable(f"{bench.build}/apps/chord is not built")
    need("redis-server", "redis-tools")
    small = record_small_ring(bench)
    redis, _, _ = record_redis(bench, lambda port: set_and_get(bench, port, 2_000 if bench.quick else 20_000))
    numbers = {"origin_hop_ms": origin(bench, small), **steps_back(bench, small, "ring", "process_data", RING_STEPS),
               **steps_back(bench, redis, "redis", "-pending read", REDIS_STEPS)}
    numbers |= passages(bench) | redis_checkpoints(bench)
    numbers["gdb_record_full_ratio"] = gdb_record_full(bench)
    numbers["forward_ratio_redis"] = forward_ratio(bench, redis)
    size = Size(nodes=8, seconds=8, kills=1, replays=1, period=250) if bench.quick else Size(nodes=62, seconds=60 if bench.short else 600, kills=4, replays=1)
    large = record_ring(bench, size).recording
    numbers |= gotos(bench, large)
    numbers["forward_ratio_ring"] = forward_ratio(bench, large)
    numbers["reverse_continue_ratio"] = reverse_continue(bench, large)
    return numbers | open_at(bench, large, 0.9 * (size.together + size.seconds))
