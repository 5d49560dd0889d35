"""Runs several scripts or recordings of one `friday run` in parallel, each in a process of its own that reports over a pipe.

The pipe carries one JSON object on each line: {"progress": [part, events per second]}, {"violation": {...}, "text": ...} for each
violation as it is found, and {"end": {...}} at the end. So the violations are known even if the process is killed, and a run
without an end has died. What a run prints is printed here, each line with the run's label before it.

Ctrl-C, SIGTERM, SIGHUP or a closed output interrupts the runs; those that have not ended GRACE seconds later, or when the
signal comes again, are killed. A run's process has the kernel kill it when this process dies, and so do the replayed processes
and gdbs that it starts.
"""
from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Sequence

from .progress import ProgressLine
from .reports import BAD_INPUT, DIED, INTERRUPTED, NOT_RUN, VIOLATED, Outcome, short_names
from .violations import Violation

GRACE = 5.0  # seconds from an interrupt to the kill
_REDRAW = 0.2  # seconds between two drawings of the progress line
_KEPT = 64 << 10  # characters of a run's output that are kept for the reports
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Channel:
    """The end of the pipe at which a run's process reports; the other end belongs to a _Running."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._stream = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)  # type: ignore[attr-defined]

    def progress(self, part: float, rate: float) -> None:
        self._tell({"progress": [part, rate]})

    def violation(self, violation: Violation) -> None:
        self._tell({"violation": violation.to_json(), "text": str(violation)})

    def end(self, run: Outcome) -> None:
        self._tell({"end": {"code": run.code, "word": run.word, "error": run.error, "altered": run.altered, "dropped": run.dropped,
                           "points": run.points, "hits": run.hits, "never_hit": run.never_hit}})

    def _tell(self, message: dict[str, Any]) -> None:
        self._stream.write(json.dumps(message) + "\n")


class _Lines:
    """Splits bytes into lines and calls `take` for each line that is complete."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take, self._rest = take, b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="backslashreplace"))

    def finish(self) -> None:
        if self._rest:
            self.feed(b"\n")


class _Running:
    """A run and its process."""

    def __init__(self, run: Outcome, command: Callable[[Outcome, int], list[str]], show: Callable[[str, bool], None]) -> None:
        self.run, self.part, self.rate = run, 0.0, 0.0
        self.began = time.monotonic()
        self.asked = False  # to end
        self._ended = False
        channel, far_end = os.pipe()
        try:
            self.process = subprocess.Popen(command(run, far_end), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                            pass_fds=[far_end], start_new_session=True)
        except BaseException:
            os.close(channel)
            raise
        finally:
            os.close(far_end)
        self.exited = os.pidfd_open(self.process.pid)
        assert self.process.stdout and self.process.stderr
        self._files = [self.process.stdout, self.process.stderr, os.fdopen(channel, "rb", buffering=0)]
        self.readers = {self._files[0].fileno(): _Lines(lambda line: self._printed(line, show, False)),
                        self._files[1].fileno(): _Lines(lambda line: self._printed(line, show, True)), channel: _Lines(self._told)}
        for descriptor in self.readers:
            os.set_blocking(descriptor, False)

    def read(self, descriptor: int) -> bool:
        """Reads what is there. Returns False at the end of the pipe."""
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return True
        self.readers[descriptor].feed(data)
        return bool(data)

    def finish(self) -> None:
        """Call it when the process has exited: reads what is left in the pipes. Processes that it started may still hold them
        open, so their end is not waited for."""
        code = self.process.wait()
        for descriptor, lines in self.readers.items():
            try:
                while data := os.read(descriptor, 1 << 16):
                    lines.feed(data)
            except BlockingIOError:
                pass
            lines.finish()
        for file in self._files:
            file.close()
        os.close(self.exited)
        self.run.seconds = time.monotonic() - self.began
        if self._ended:
            return
        how = f"killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"it ended with {code} without a report"
        if self.asked:
            self.run.ended(VIOLATED if self.run.violations else BAD_INPUT, f"interrupted: {how}", INTERRUPTED)
        else:
            self.run.ended(DIED, f"the process of this run died: {how}")

    def _printed(self, line: str, show: Callable[[str, bool], None], is_error: bool) -> None:
        self.run.output = (self.run.output + line + "\n")[-_KEPT:]
        show(line, is_error)

    def _told(self, line: str) -> None:
        message = json.loads(line)
        if "progress" in message:
            self.part, self.rate = message["progress"]
        elif "violation" in message:
            self.run.violations.append(message["violation"])
            self.run.texts.append(message["text"])
        else:
            end = message["end"]
            for name in ("altered", "dropped", "points", "hits", "never_hit"):
                setattr(self.run, name, end[name])
            self.run.ended(end["code"], end["error"], end["word"])
            self._ended = True


class Batch:
    """The runs of one command. command: returns the command line for the process of a run that reports to a descriptor. labels: what
    names each run in what is printed; by default its recording, and its script if these differ."""

    def __init__(self, runs: Sequence[Outcome], command: Callable[[Outcome, int], list[str]], labels: Sequence[str] = ()) -> None:
        self.runs = runs
        self.labels = labels or _labels(runs)
        self._command = command
        self._label = {id(run): label for run, label in zip(runs, self.labels)}
        self._running: list[_Running] = []
        self._done = 0
        self._signals = 0
        self._kill_at: float | None = None
        self._line = ProgressLine(sys.stderr)

    def run(self, jobs: int) -> None:
        """Carries out all runs, at most `jobs` at a time, and fills in the outcome of each."""
        before = {number: signal.signal(number, self._signalled) for number in _SIGNALS}
        try:
            with self._line.shown(), selectors.DefaultSelector() as selector:
                waiting = list(self.runs)
                while waiting and not self._signals or self._running:
                    while waiting and not self._signals and len(self._running) < jobs:
                        self._start(waiting.pop(0), selector)
                    for key, _ in selector.select(_REDRAW):
                        self._serve(key.data, key.fd, selector)
                    self._end_those_asked()
                    self._draw()
                for run in waiting:
                    run.ended(BAD_INPUT, "interrupted before it began", NOT_RUN)
        finally:
            for running in self._running:  # empty unless an exception came from here
                running.process.kill()
            for number, action in before.items():
                signal.signal(number, action)

    def _signalled(self, number: int, frame: object) -> None:
        self._signals += 1

    def _start(self, run: Outcome, selector: selectors.BaseSelector) -> None:
        label = self._label[id(run)]
        running = _Running(run, self._command, lambda line, is_error: self._show(f"[{label}] {line}", is_error))
        self._running.append(running)
        for descriptor in (*running.readers, running.exited):
            selector.register(descriptor, selectors.EVENT_READ, running)

    def _show(self, line: str, is_error: bool) -> None:
        """Prints a line of a run. If it cannot be printed because the reader is gone, the batch ends as after a signal."""
        stream = sys.stderr if is_error else sys.stdout
        try:
            print(line, file=stream, flush=True)
        except OSError:
            self._signals += 1
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())  # so that flushing the rest does not fail
            os.close(null)

    def _serve(self, running: _Running, descriptor: int, selector: selectors.BaseSelector) -> None:
        if running not in self._running:
            return  # its end was already handled in this iteration
        if descriptor != running.exited:
            if not running.read(descriptor):
                selector.unregister(descriptor)
            return
        for each in (*running.readers, running.exited):
            if each in selector.get_map():
                selector.unregister(each)
        running.finish()
        self._running.remove(running)
        self._done += 1
        self._show(f"[{self._label[id(running.run)]}] {running.run.summary} in {running.run.seconds:.1f} s ({self._done} of {len(self.runs)})", True)

    def _end_those_asked(self) -> None:
        """After a signal, interrupts the runs, and later kills those that have not ended."""
        now = time.monotonic()
        if not self._signals:
            return
        if self._kill_at is None:
            self._kill_at = now + GRACE
            for running in self._running:
                running.asked = True
                running.process.send_signal(signal.SIGINT)
        elif self._signals > 1 or now >= self._kill_at:
            for running in self._running:
                running.process.kill()

    def _draw(self) -> None:
        count = len(self.runs)
        part = (self._done + sum(running.part for running in self._running)) / count
        rate = sum(running.rate for running in self._running)
        self._line(part, rate, f"{self._done} of {count} done")


def _labels(runs: Sequence[Outcome]) -> list[str]:
    """A label for each run: the name of its recording, with that of its script if the scripts differ."""
    recordings = short_names([run.recording for run in runs])
    if len({run.script for run in runs}) == 1:
        return recordings
    return [f"{script} {recording}" for script, recording in zip(short_names([run.script for run in runs]), recordings)]
