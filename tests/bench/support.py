"""What the benchmarks share: programs to measure, processes that are certain to be ended, alternating pairs, and the form of a number.

A benchmark is a module with NAME, KEYS (key -> Key) and `run(bench)`, which returns {key: Number}. All processes that it starts
are descendants of this process, which is a child subreaper, and they are ended by their pids when the benchmark is over.
"""
from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Iterable, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ports import free_ports  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
PR_SET_CHILD_SUBREAPER = 36


class Unavailable(Exception):
    """Raised if a benchmark cannot run here. The message says what is missing."""


def need(*packages: str) -> None:
    """Raises Unavailable if any of these Debian packages is not installed. Called before a benchmark begins, so that it does not fail
    after minutes."""
    states = {name: subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", name], capture_output=True, text=True).stdout for name in packages}
    if missing := [name for name, state in states.items() if state != "installed"]:
        raise Unavailable(f"Debian's {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed; console/setup.sh --full installs all that benchmarks need")


@dataclasses.dataclass(frozen=True)
class Key:
    """What a number means, for the table: its unit ("" for a ratio), its target, and how it is measured."""
    unit: str
    aim: str
    meaning: str


@dataclasses.dataclass(frozen=True)
class Number:
    """A median, half the distance between the quartiles (0 if it was measured once), and the number of measurements."""
    value: float
    spread: float = 0.0
    count: int = 1


def median(values: Iterable[float]) -> Number:
    values = sorted(values)
    if len(values) < 4:
        return Number(statistics.median(values), (values[-1] - values[0]) / 2, len(values))
    low, middle, high = statistics.quantiles(values, n=4)
    return Number(middle, (high - low) / 2, len(values))


def short(value: float) -> str:
    """The number with three significant digits, without an exponent."""
    if value == 0:
        return "0"
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}" if abs(value) < 1000 else f"{round(value, -len(str(int(abs(value)))) + 3):,.0f}"


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, file.read_text().split())
        except OSError:
            pass  # the thread has ended
    return found


def descendants(pid: int) -> list[int]:
    found = children_of(pid)
    for child in list(found):
        found += descendants(child)
    return found


class Bench:
    """One run of the benchmarks: a temporary directory, the programs, and the processes that were started.

    Use it as a context: leaving it ends every process and removes the directory. `quick` shortens all loops, so that the numbers mean
    nothing and one only sees that the benchmarks work. `short` makes the recordings of some benchmarks shorter.
    """

    def __init__(self, *, build: pathlib.Path | None = None, quick: bool = False, short: bool = False) -> None:
        self.build = build or pathlib.Path(os.environ.get("FRIDAY_BUILD", ROOT / "build" / "release")).resolve()
        self.quick, self.short = quick, short
        self.friday = self.build / "bin" / "friday"
        if not self.friday.exists():
            raise Unavailable(f"{self.friday} is not built; name another build directory in FRIDAY_BUILD")
        self.cores = sorted(os.sched_getaffinity(0))
        self.notes: list[str] = []
        self._serial = 0

    def __enter__(self) -> "Bench":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._temporary = tempfile.TemporaryDirectory(prefix="friday-bench-", ignore_cleanup_errors=True)
        self.directory = pathlib.Path(self._temporary.name)
        return self

    def __exit__(self, *_: Any) -> None:
        self.end_all()
        self._temporary.cleanup()

    def end_all(self) -> None:
        """Ends every descendant by SIGTERM, and after two seconds by SIGKILL."""
        for number, patience in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 5.0)):
            end = time.monotonic() + patience
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            while children_of(os.getpid()) and time.monotonic() < end:
                try:
                    while os.waitpid(-1, os.WNOHANG)[0]:
                        pass
                except ChildProcessError:
                    return
                time.sleep(0.01)

    def note(self, text: str) -> None:
        """Prints a remark that is not a number."""
        self.notes.append(text)

    def path(self, stem: str) -> pathlib.Path:
        """A new name in the temporary directory."""
        self._serial += 1
        return self.directory / f"{stem}{self._serial}"

    # -- programs ----------------------------------------------------------------------------------------------------
    def compile(self, source: str) -> pathlib.Path:
        """Compiles a C file, named by its path from this directory, and returns the path of the program."""
        program = self.directory / pathlib.Path(source).stem
        if not program.exists():
            subprocess.run(["cc", "-O2", "-g", "-Wall", "-pthread", "-o", program, HERE / source], check=True, timeout=60)
        return program

    def start(self, command: Sequence[Any], *, cores: Iterable[int] | None = None, log: bool = True, **options: Any) -> subprocess.Popen:
        """Starts a process, pinned to `cores` if they are given, with its output in a file (Popen.log)."""
        words = [str(word) for word in command]
        if cores is not None:
            words = ["taskset", "-c", ",".join(map(str, cores))] + words
        path = self.path("log")
        with open(path, "wb") as out:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **options)
        process.log = path  # type: ignore[attr-defined]
        return process

    def run(self, command: Sequence[Any], *, cores: Iterable[int] | None = None, timeout: float = 60.0) -> str:
        """Runs a process to its end and returns its output. Raises RuntimeError with the output if it fails."""
        process = self.start(command, cores=cores)
        status = process.wait(timeout)
        text = process.log.read_text(errors="replace")  # type: ignore[attr-defined]
        if status != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: status {status}\n{text[-2000:]}")
        return text

    def record_command(self, recording: pathlib.Path, program: Sequence[Any], name: str | None = None, options: Sequence[str] = ()) -> list[Any]:
        return [self.friday, "record", "-o", recording, *options, *(["--node", name] if name else []), "--", *program]

    def verify(self, recording: pathlib.Path, *, sync: str = "clock", cores: Iterable[int] | None = None, timeout: float = 120.0) -> dict[str, Any]:
        """The report of `friday verify --json`. Raises RuntimeError if the recording does not verify, since its times would mean nothing."""
        return json.loads(self.run([self.friday, "verify", recording, "--sync", sync, "--json"], cores=cores, timeout=timeout))


# -- waiting -----------------------------------------------------------------------------------------------------------
def wait_until(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise RuntimeError(f"waited {seconds} s for this in vain: {what}")
        time.sleep(0.01)
    return value


# -- recordings --------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class TraceSize:
    committed: int
    events: int


def trace_size(file: pathlib.Path) -> TraceSize:
    """(committed bytes, events) from the header of a trace (docs/trace-format.md: `committed` at 128, `events` at 136)."""
    with open(file, "rb") as trace:
        if file.suffix == ".zst":  # in a compressed trace the header is the last page
            trace.seek(-4096, os.SEEK_END)
        head = trace.read(144)
    if head[:7] != b"FRIDAYT":
        raise RuntimeError(f"{file} is not a trace")
    return TraceSize(*struct.unpack_from("<QQ", head, 128))


def trace_sizes(recording: pathlib.Path) -> list[TraceSize]:
    """trace_size() of every node. During recording a node may have both forms of its trace; then `trace` has the header."""
    found = []
    for node in sorted((recording / "nodes").iterdir()):
        try:
            found.append(trace_size(node / "trace"))
        except FileNotFoundError:
            found.append(trace_size(node / "trace.zst"))
    return found


# -- redis -------------------------------------------------------------------------------------------------------------
class Redis:
    """A redis-server, native or recorded."""

    def __init__(self, bench: Bench, *, recording: pathlib.Path | None = None, options: Sequence[str] = (), cores: Iterable[int] | None = None) -> None:
        self.bench = bench
        self.port, = free_ports(1)
        command = self.command(self.port)
        if recording:
            command = bench.record_command(recording, command, options=options)
        self.process = bench.start(command, cores=cores, cwd=bench.directory)
        wait_until(lambda: answers(self.port), f"redis-server on {self.port}: {self.output()}")

    @staticmethod
    def command(port: int) -> list[str]:
        return ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no",
                "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]

    def cpu_seconds(self) -> float:
        """The processor time of the server's threads in seconds, without that of the recorder."""
        pid = re.search(r"process_id:(\d+)", ask(self.port, "info server"))[1]  # type: ignore[index]
        files = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9

    def output(self) -> str:
        return self.process.log.read_text(errors="replace")[-1000:]  # type: ignore[attr-defined]

    def shut_down(self) -> None:
        ask(self.port, "shutdown nosave")
        self.process.wait(20)


def answers(port: int) -> bool:
    try:
        return ask(port, "ping").startswith("+PONG")
    except OSError:
        return False


def ask(port: int, line: str) -> str:
    """The answer of redis to an inline command."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        sock.sendall(line.encode() + b"\r\n")
        try:
            return sock.recv(1 << 16).decode(errors="replace")
        except ConnectionResetError:
            return ""


def load(bench: Bench, port: int, test: str, requests: int, *, cores: Iterable[int] | None = None, depth: int = 1) -> float:
    """Requests per second by `redis-benchmark`, with `depth` requests at a time on each connection."""
    text = bench.run(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", test, "-n", requests, "-r", 1000, "-P", depth, "--csv"], cores=cores)
    found = re.search(rf'^"{test.upper()}","([\d.]+)"', text, re.MULTILINE)
    if not found:
        raise RuntimeError(f"redis-benchmark printed no result: {text[-500:]}")
    return float(found[1])


def alternate(pairs: int, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[list[Any], list[Any]]:
    """Calls both functions `pairs` times, in the order 1 2 2 1 1 2 ..., so that a drift of the machine affects both alike."""
    one: list[Any] = []
    two: list[Any] = []
    for turn in range(pairs):
        for who in ((1, 2) if turn % 2 == 0 else (2, 1)):
            (one if who == 1 else two).append((first if who == 1 else second)())
    return one, two


def beside_native(bench: Bench, key: str, recording: pathlib.Path, options: Sequence[str]) -> dict[str, Number]:
    """SET requests a second of a server that is recorded so / of a native one: `key`, with a processor for the server and one for the client, and
    KEY_one, on one for both. The two servers run all the time and get load in turn."""
    pairs, requests = (3, 5_000) if bench.quick else (13, 30_000)
    server, client = bench.cores[:1], bench.cores[-1:]
    native, recorded = Redis(bench, cores=server), Redis(bench, recording=recording, options=options, cores=server)
    found: dict[str, Number] = {}
    for suffix, cores in (("", client), ("_one", server)):
        ask = lambda one: load(bench, one.port, "set", requests, cores=cores)
        for one in (native, recorded):
            ask(one)
        n, r = alternate(pairs, lambda: ask(native), lambda: ask(recorded))
        found[f"{key}{suffix}"] = median(b / a for a, b in zip(n, r))
        bench.note(f"redis set{suffix}, native -> {' '.join(options)}: {median(n).value:.0f} -> {median(r).value:.0f} requests a second")
    native.shut_down()
    recorded.shut_down()
    return found
