"""Measures how small a recording is, what it costs to make it so, and how fast payload that was left out is made again."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import threading
import time
import tomllib
from typing import Callable

from replay import group_file, record_redis
from support import ROOT, Bench, Key, Number, Redis, beside_native, load, median, need

NAME = "always"
KEYS = {
    "bytes_per_event": Key("bytes", "<= 8", "redis under SET of 3 bytes: stored bytes an event, as columns, without the start image"),
    "frames_per_event": Key("bytes", "", "the same blocks of records as zstd frames"),
    "pack_ns_per_event": Key("ns", "<= 200", "processor time of the packer an event"),
    "pack_ratio": Key("", "<= 0.5", "processor time to make columns / zstd frames of the records"),
    "unpack_ns_per_event": Key("ns", "", "processor time to read an event's columns"),
    "log_kb_s_replica": Key("KB/s", "", "a replica of redis under SET of 4,000 random bytes, pack --lean: stored bytes a second of load"),
    "live_kb_s_replica": Key("KB/s", "<= 100", "the same, record --lean"),
    "lean_load_ratio": Key("", ">= 0.98", "requests a second with record --lean / with record alone"),
    "full_kb_s_replica": Key("KB/s", "", "the same with all payload"),
    "regenerated": Key("", ">= 0.99", "share of the bytes that the replicas received which were left out and made again"),
    "standby_ratio": Key("", ">= 0.995", "SET requests a second, record --standby / native; server on one core, redis-benchmark on the other"),
    "standby_ratio_one": Key("", ">= 0.995", "the same on one core, where nothing runs while the server waits"),
    "restore_ratio": Key("", ">= 3", "seconds under load / seconds in which a replay makes the payload again"),
    "log_kb_s_ranges_server": Key("KB/s", "<= 100", "a server of the range-partitioned table under load, record --budget 100K: stored bytes a second, the start image among them"),
    "log_kb_s_ranges_master": Key("KB/s", "<= 100", "its master"),
    "ranges_left_out": Key("", "", "share of what a server received that its recording leaves out"),
    "first_answer_s": Key("s", "<= 5", "from the start of `friday replay --node SERVER --from -1s` to the value of a variable, what it lacks made again"),
    "late_start_pause_ms": Key("ms", "<= 10", "the longest answer of a redis of 100 MB to a client that asks without pause, while `friday live REC full` switches it on"),
    "late_start_pause_native_ms": Key("ms", "", "the same in a second without that"),
}


def set_random(port: int, requests: int, size: int, keys: int = 1000) -> None:
    """SET of values that no compression makes smaller, 50 at a time on one connection."""
    at_once = 50
    with socket.create_connection(("127.0.0.1", port)) as server:
        answers = server.makefile("rb")
        for first in range(0, requests, at_once):
            server.sendall(b"".join(b"*3\r\n$3\r\nSET\r\n$8\r\nkey%05d\r\n$%d\r\n%s\r\n" % (n % keys, size, os.urandom(size)) for n in range(first, first + at_once)))
            for _ in range(at_once):
                answers.readline()


def traces(recording: pathlib.Path, *nodes: int) -> list[pathlib.Path]:
    return [recording / "nodes" / str(node) / "trace" for node in nodes]


def stored(recording: pathlib.Path, node: int) -> int:
    return sum(file.stat().st_size for file in (recording / "nodes" / str(node)).glob("trace*"))


def columns(bench: Bench) -> dict[str, Number]:
    recording, _, _ = record_redis(bench, lambda port: load(bench, port, "set", 5_000 if bench.quick else 100_000))
    runs = [json.loads(bench.run([bench.build / "bin" / "friday_pack_cost", *traces(recording, 0, 1, 2)])) for _ in range(1 if bench.quick else 5)]
    each = lambda value: median(value(run) for run in runs)
    return {
        "bytes_per_event": each(lambda run: run["columns"] / run["events"]),
        "frames_per_event": each(lambda run: run["frames"] / run["events"]),
        "pack_ns_per_event": each(lambda run: run["column_seconds"] / run["events"] * 1e9),
        "pack_ratio": each(lambda run: run["column_seconds"] / run["frame_seconds"]),
        "unpack_ns_per_event": each(lambda run: run["back_seconds"] / run["events"] * 1e9)}


def lean(bench: Bench) -> dict[str, Number]:
    put = lambda port: set_random(port, 2_000 if bench.quick else 100_000, 4_000)
    runs, live_seconds, plain_seconds = 1 if bench.quick else 3, [], []
    for n in range(runs):
        recording, seconds, _ = record_redis(bench, put, "--lean")
        live = stored(recording, 1) / seconds / 1e3
        live_seconds.append(seconds)
        shutil.rmtree(recording)
        recording, busy, _ = record_redis(bench, put)
        plain_seconds.append(busy)
        if n + 1 < runs:
            shutil.rmtree(recording)
    full = stored(recording, 1)
    bench.run([bench.friday, "pack", "--lean", recording], timeout=600)
    info = json.loads(bench.run([bench.friday, "info", "--json", recording]))
    got = sum(pair["bytes"] for pair in info["messages"] if pair["to"] in (1, 2))
    seconds = []
    for _ in range(1 if bench.quick else 3):
        shutil.rmtree(recording / "cache", ignore_errors=True)
        seconds.append(json.loads(bench.run([bench.friday, "restore", "--json", recording], timeout=600))["seconds"])
    taken = median(seconds)
    return {
        "log_kb_s_replica": Number(stored(recording, 1) / busy / 1e3),
        "live_kb_s_replica": Number(live),
        "lean_load_ratio": Number(median(plain_seconds).value / median(live_seconds).value),
        "full_kb_s_replica": Number(full / busy / 1e3),
        "regenerated": Number(sum(node.get("left_out", {"bytes": 0})["bytes"] for node in info["nodes"] if node["id"] in (1, 2)) / got),
        "restore_ratio": Number(busy / taken.value, busy * taken.spread / taken.value**2, taken.count)}


def standby(bench: Bench) -> dict[str, Number]:
    return beside_native(bench, "standby_ratio", bench.path("standby-rec"), ["--standby"])


def ranges(bench: Bench) -> dict[str, Number]:
    """The case study of DCR, recorded within a budget: what is stored a second, and how soon a server of it answers a question."""
    rows = 2_000 if bench.quick else 60_000
    group = tomllib.loads((ROOT / "tests" / "apps" / "ranges" / "ranges.toml").read_text())
    for node in group["node"]:
        node["command"] = [word.replace("build/release/apps", f"{bench.build}/apps").replace("20000", str(rows)).replace("40000", str(2 * rows)) for word in node["command"]]
    recording, file = bench.path("ranges-rec"), group_file(bench, group["node"], **group["group"])
    bench.start([bench.friday, "record", "-q", "-o", recording, "--group", file, "--budget", "100K"]).wait(120)
    nodes = {node["name"]: node for node in json.loads(bench.run([bench.friday, "ls", "--json", recording]))[0]["nodes"]}
    lacks = {node["name"]: node["left_out"] for node in json.loads(bench.run([bench.friday, "info", "--missing", "--json", recording]))}
    info = json.loads(bench.run([bench.friday, "info", "--json", recording]))
    server = next(node for node in info["nodes"] if node["name"] == "server-0")["id"]
    got = sum(pair["bytes"] for pair in info["messages"] if pair["to"] == server)
    shutil.rmtree(recording / "cache", ignore_errors=True)
    began = time.monotonic()
    answer = bench.run([bench.friday, "replay", recording, "--node", "server-0", "--from", "-0.05s" if bench.quick else "-1s", "--batch", "--ex", "print server->committed_"])
    seconds = time.monotonic() - began
    if "= " not in answer:
        raise RuntimeError(f"no answer: {answer[-500:]}")
    rate = lambda name: stored(recording, nodes[name]["id"]) / nodes[name]["seconds"] / 1e3
    return {
        "log_kb_s_ranges_server": median(rate(f"server-{i}") for i in range(4)),
        "log_kb_s_ranges_master": Number(rate("master")),
        "ranges_left_out": Number(lacks["server-0"] / got),
        "first_answer_s": Number(seconds)}


def longest_answer(port: int, seconds: float, meanwhile: Callable[[], object] | None = None) -> float:
    """The longest time, in milliseconds, in which a redis answers PING, asked without pause for so long and while `meanwhile` runs."""
    busy = threading.Thread(target=meanwhile) if meanwhile else None
    with socket.create_connection(("127.0.0.1", port)) as server:
        if busy:
            busy.start()
        longest, end = 0.0, time.monotonic() + seconds
        while time.monotonic() < end or (busy and busy.is_alive()):
            asked = time.monotonic()
            server.sendall(b"PING\r\n")
            server.recv(100)
            longest = max(longest, time.monotonic() - asked)
    if busy:
        busy.join()
    return longest * 1e3


def late_start(bench: Bench) -> dict[str, Number]:
    """Switches a server of 100 MB on while a client asks it without pause."""
    recording = bench.path("late-rec")
    server = Redis(bench, recording=recording, options=["--standby"])
    set_random(server.port, 2_000 if bench.quick else 25_000, 4_000, keys=25_000)
    switch = lambda to: bench.run([bench.friday, "live", recording, to])
    asleep, switched = [], []
    for _ in range(2 if bench.quick else 7):
        asleep.append(longest_answer(server.port, 1.0))
        switched.append(longest_answer(server.port, 1.0, lambda: switch("full")))
        switch("off")
    server.shut_down()
    return {"late_start_pause_ms": median(switched), "late_start_pause_native_ms": median(asleep)}


def run(bench: Bench) -> dict[str, Number]:
    need("redis-server", "redis-tools")
    return {**columns(bench), **lean(bench), **standby(bench), **ranges(bench), **late_start(bench)}
