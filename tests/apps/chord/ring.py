#!/usr/bin/python3
"""Plans a Chord ring and writes it as a group description for `friday record --group`.

A plan follows from its seed alone but for the ports: who is where on the ring, which node a planted fault hits, who is
killed. All nodes but the last start a moment apart; the last joins late, right behind the node that the seed makes the
victim, so that with the fault on the victim is the one that handles this join. A healthy ring of the same seed differs in
nothing but the switch.

    >>> plan = make_plan(nodes=8, seconds=30, seed=3, fault=True, ports=range(5000, 5008))
    >>> print(group_toml(plan, apps="/build/apps"))     # doctest: +SKIP

From the shell:

    ring.py --nodes 8 --seconds 30 --seed 3 --fault --kills 2 --output GROUP.toml
    ring.py --nodes 8 --seconds 10 --seed 3 --fault --native DIR      # run it here, unrecorded, output into DIR
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from ports import free_ports  # noqa: E402

MASK = (1 << 64) - 1
RING_MARGIN = 1.5  # seconds after the last early start in which the ring comes together


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """One program of the group. `start` is in seconds after the group's start; `dies` too, or None."""

    name: str
    args: tuple[str, ...]
    program: str = "chord"
    start: float = 0.0
    record: bool = True
    index: int = -1
    port: int = 0
    id: int = 0
    dies: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A ring and its client. `victim` is the index of the node whose turn the fault is, `late` that of the late joiner."""

    nodes: tuple[Node, ...]
    client: Node | None
    seconds: float
    seed: int
    fault: bool
    victim: int
    late: int
    late_at: float

    @property
    def programs(self) -> tuple[Node, ...]:
        return self.nodes + ((self.client,) if self.client else ())


def mix(x: int) -> int:
    """The finaliser of splitmix64, as in id.c."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fault_victim(seed: int, nodes: int) -> int:
    """The index of the node that the fault hits, as fault_victim() in fault.c has it."""
    return mix(seed) % (nodes - 1) if nodes > 1 else 0


def find_apps() -> pathlib.Path:
    """The directory of the built programs: $FRIDAY_APPS, or that of the build which is newest."""
    if "FRIDAY_APPS" in os.environ:
        return pathlib.Path(os.environ["FRIDAY_APPS"])
    built = list(pathlib.Path(__file__).resolve().parents[3].glob("build/*/apps/chord"))
    if not built:
        raise FileNotFoundError("no build/*/apps/chord: build the target chord, or name its directory in FRIDAY_APPS")
    return max(built, key=lambda path: path.stat().st_mtime).parent


def successor_of(point: int, ids: list[int]) -> int:
    """The first of `ids` after `point`, clockwise."""
    return min(ids, key=lambda i: (i - point - 1) & MASK)


def ring_ids(nodes: int, seed: int) -> list[int]:
    """Ids in order of starting; the last lies halfway between the victim and the node after it."""
    rng = random.Random(f"ring {seed}")
    slot = (MASK + 1) // (4 * nodes)
    ids = [place * slot + rng.randrange(slot // 2) for place in rng.sample(range(4 * nodes), nodes - 1)]
    victim = ids[fault_victim(seed, nodes)]
    width = (successor_of(victim, ids) - victim) & MASK or MASK
    return ids + [(victim + width // 2) & MASK]


def choose_killed(kills: int, ids: list[int], victim: int, seed: int) -> list[int]:
    """Nodes that may die without undoing the fault: not the first, the victim, the late joiner, nor the one after it."""
    late = len(ids) - 1
    after = ids.index(successor_of(ids[late], ids))
    choice = [i for i in range(1, late) if i not in (victim, after)]
    if kills > len(choice):
        raise ValueError(f"{kills} kills asked for, but only {len(choice)} of {len(ids)} nodes may be killed")
    return random.Random(f"kills {seed}").sample(choice, kills)


def make_plan(
    *,
    nodes: int,
    seconds: float,
    seed: int,
    fault: bool = False,
    kills: int = 0,
    gap: float = 0.2,
    period: int = 250,
    late_at: float | None = None,
    ports: list[int] | None = None,
    rate: float = 50.0,
    client: bool = True,
    record_client: bool = False,
    truth: str | None = None,
    trace_links: str | None = None,
) -> Plan:
    """Lays out a ring of `nodes` that runs for `seconds`.

    `gap` is the time between two starts in seconds, `period` that between two rounds of stabilisation in milliseconds,
    `late_at` when the last node joins (default: at 0.4 of the run, but not before the ring came together), `rate` the client's
    requests a second. `truth` is the file in which the fault is written down; `trace_links` is a directory for link
    traces. Raises ValueError when the run is too short or has too few nodes.
    """
    if nodes < 4:
        raise ValueError(f"a ring of {nodes} nodes: the fault needs a victim, two neighbours and a late joiner, so at least 4")
    together = (nodes - 2) * gap + RING_MARGIN
    late_at = max(0.4 * seconds, together) if late_at is None else late_at
    if not together <= late_at < seconds:
        raise ValueError(f"the ring is together after {together:.1f} s, the last joins at {late_at:.1f} s, the end is at {seconds} s")
    ports = list(ports) if ports is not None else free_ports(nodes, socket.SOCK_DGRAM)
    ids, victim = ring_ids(nodes, seed), fault_victim(seed, nodes)
    killed = choose_killed(kills, ids, victim, seed)
    dies = {index: late_at + (seconds - late_at) * (0.3 + 0.4 * n / kills) for n, index in enumerate(killed)}

    def one(index: int) -> Node:
        name, start = f"n{index}", late_at if index == nodes - 1 else index * gap
        args = ["--name", name, "--port", str(ports[index]), "--id", f"{ids[index]:016x}", "--period", str(period), "--seed", str(seed)]
        if index > 0:
            args += ["--join", f"127.0.0.1:{ports[0]}"]
        if index in dies:
            args += ["--seconds", f"{dies[index] - start:.3f}"]
        if fault:
            # A busy machine starts a node late; the margin is well behind the first joins, which end with `together`.
            after = max(0.0, late_at - start - 1.2)
            args += ["--fault", "--index", str(index), "--nodes", str(nodes), "--fault-after", str(round(after * 1000))]
            args += ["--truth", truth] if truth else []
        if trace_links:
            args += ["--trace-links", os.path.join(trace_links, f"{name}.links")]
        return Node(name=name, args=tuple(args), start=start, index=index, port=ports[index], id=ids[index], dies=dies.get(index))

    asker = None
    if client:
        peers = ",".join(f"127.0.0.1:{port}" for port in ports)
        asking = seconds - together - 1.2  # the client waits a second for its last answers
        args = ("--nodes", peers, "--rate", f"{rate:g}", "--seconds", f"{asking:.3f}", "--seed", str(seed), "--verbose")
        asker = Node(name="client", program="chordclient", args=args, start=together, record=record_client)
    return Plan(
        nodes=tuple(one(i) for i in range(nodes)), client=asker, seconds=seconds, seed=seed, fault=fault, victim=victim,
        late=nodes - 1, late_at=late_at,
    )


def group_toml(plan: Plan, apps: str | os.PathLike) -> str:
    """The plan as the text of a GROUP.toml; `apps` is the directory of the programs."""
    lines = ["[group]", f"stop_after = {plan.seconds:.3f}"]
    for node in plan.programs:
        command = [os.path.join(os.path.abspath(apps), node.program), *node.args]
        lines += ["", "[[node]]", f"name = {json.dumps(node.name)}", f"command = {json.dumps(command)}"]
        lines += [f"start_delay = {node.start:.3f}", f'stdout = "{node.name}.out"', f'stderr = "{node.name}.err"']
        lines += [f"record = {json.dumps(node.record)}", 'stop_signal = "TERM"']
    return "\n".join(lines) + "\n"


@dataclasses.dataclass
class NativeRun:
    """What a ring left behind: output and errors by name, summaries by index, exit codes and real time of the end by name.

    `stopped` is the real time at which the nodes that were left were told to stop.
    """

    out: dict[str, str]
    err: dict[str, str]
    summary: dict[int, dict[str, str]]
    codes: dict[str, int]
    ended: dict[str, float]
    stopped: float
    client: dict[str, int]


def last_line(text: str, start: str) -> dict[str, str]:
    """The KEY=VALUE words of the last line that begins with `start`; empty when there is none."""
    lines = [line for line in text.splitlines() if line.startswith(start)]
    return dict(word.split("=", 1) for word in lines[-1].split() if "=" in word) if lines else {}


def run_native(plan: Plan, *, apps: str | os.PathLike, directory: str | os.PathLike) -> NativeRun:
    """Runs the plan here without a recorder; each program's output goes to NAME.out in `directory`."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    running: dict[str, subprocess.Popen] = {}
    ended: dict[str, float] = {}
    waiting = sorted(plan.programs, key=lambda node: node.start)
    began = time.monotonic()

    def reap() -> None:
        for name, process in running.items():
            if name not in ended and process.poll() is not None:
                ended[name] = time.time()

    def start(node: Node) -> None:
        with open(directory / f"{node.name}.out", "w") as out, open(directory / f"{node.name}.err", "w") as err:
            running[node.name] = subprocess.Popen([os.path.join(apps, node.program), *node.args], stdout=out, stderr=err)

    try:
        while (now := time.monotonic() - began) < plan.seconds:
            while waiting and waiting[0].start <= now:
                start(waiting.pop(0))
            reap()
            time.sleep(min(0.05, max(0.0, (waiting[0].start if waiting else plan.seconds) - now)))
    finally:
        stopped = time.time()
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        reap()
    out = {name: (directory / f"{name}.out").read_text() for name in running}
    err = {name: (directory / f"{name}.err").read_text() for name in running}
    summary = {node.index: fields for node in plan.nodes if (fields := last_line(out.get(node.name, ""), "summary "))}
    client = {key: int(value) for key, value in last_line(out.get("client", ""), "client put=").items()}
    codes = {name: process.returncode for name, process in running.items()}
    return NativeRun(out=out, err=err, summary=summary, codes=codes, ended=ended, stopped=stopped, client=client)


def links_wrong(run: NativeRun, plan: Plan) -> list[str]:
    """How the links at the end of a run differ from those of a whole ring of the nodes that were still there."""
    alive = [node for node in plan.nodes if node.dies is None and node.index in run.summary]
    ids = [node.id for node in alive]
    wrong = []
    for node in alive:
        after = successor_of(node.id, ids)
        before = max(ids, key=lambda i: (i - node.id) & MASK if i != node.id else -1)
        for link, right in (("successor", after), ("predecessor", before)):
            if run.summary[node.index][link] != f"{right:016x}":
                wrong.append(f"{node.name}: {link} is {run.summary[node.index][link]}, not {right:016x}")
    return wrong


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the group description of a Chord ring, or run the ring unrecorded.")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="store_true", help="plant the routing fault at the node that the seed chooses")
    parser.add_argument("--kills", type=int, default=0, help="nodes that end in mid-run")
    parser.add_argument("--gap", type=float, default=0.2, help="seconds between two starts")
    parser.add_argument("--period", type=int, default=250, help="milliseconds between two rounds of stabilisation")
    parser.add_argument("--late", type=float, dest="late_at", metavar="SECONDS", help="when the last node joins")
    parser.add_argument("--base-port", type=int, help="first port (default: free ones)")
    parser.add_argument("--rate", type=float, default=50.0, help="the client's requests a second")
    parser.add_argument("--no-client", dest="client", action="store_false")
    parser.add_argument("--record-client", action="store_true")
    parser.add_argument("--truth", help="file that is written when the fault is planted (absolute in the description)")
    parser.add_argument("--trace-links", metavar="DIR", help="write every change of a link to DIR/NAME.links")
    parser.add_argument("--apps", help="directory of chord and chordclient (default: $FRIDAY_APPS or the newest build)")
    parser.add_argument("--output", "-o", help="the description; - or nothing for standard output")
    parser.add_argument("--native", metavar="DIR", help="run the ring now, unrecorded; its output goes to DIR")
    o = vars(parser.parse_args(argv))
    apps, output, native, base = (o.pop(name) for name in ("apps", "output", "native", "base_port"))
    o["ports"] = range(base, base + o["nodes"]) if base else None
    o["truth"] = os.path.abspath(o["truth"]) if o["truth"] else None
    o["trace_links"] = os.path.abspath(o["trace_links"]) if o["trace_links"] else None
    try:
        apps = apps or find_apps()
        plan = make_plan(**o)
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))
    if native:
        run = run_native(plan, apps=apps, directory=native)
        wrong = links_wrong(run, plan)
        print(*wrong, f"client: {run.client}", sep="\n")
        return 1 if wrong else 0
    text = group_toml(plan, apps)
    if output and output != "-":
        pathlib.Path(output).write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
