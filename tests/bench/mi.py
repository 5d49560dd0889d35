"""Drives plain gdb over GDB/MI as a front end does, for comparison with Friday."""
from __future__ import annotations

import os
import re
import select
import subprocess
import time
from typing import Any, Sequence

from support import Bench, Unavailable


class Gdb:
    """One gdb with one program. Commands are answered in order; a stop that arrives before wait_stop() is called is kept."""

    def __init__(self, bench: Bench, program: Sequence[Any]) -> None:
        try:
            self.process = subprocess.Popen(["gdb", "-nx", "-q", "--interpreter=mi3", "--args", *map(str, program)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
                                            start_new_session=True)
        except FileNotFoundError:
            raise Unavailable("gdb is not installed") from None
        self.out = self.process.stdout.fileno()
        self.input = self.process.stdin.fileno()
        self.rest = b""
        self.lines: list[bytes] = []
        self.stops: list[bytes] = []
        self.token = 0
        for command in ("-gdb-set confirm off", "-gdb-set pagination off", "-gdb-set debuginfod enabled off", "-inferior-tty-set /dev/null"):
            self.command(command)

    def _line(self, timeout: float = 20.0) -> bytes:
        end = time.monotonic() + timeout
        while not self.lines:
            if not select.select([self.out], [], [], max(0.0, end - time.monotonic()))[0]:
                raise RuntimeError(f"gdb said nothing for {timeout} s")
            data = os.read(self.out, 65536)
            if not data:
                raise RuntimeError("gdb has ended")
            *self.lines, self.rest = (self.rest + data).split(b"\n")
        return self.lines.pop(0)

    def command(self, text: str) -> bytes:
        """Gives gdb a command and returns its result record after the `^`. Raises RuntimeError for `^error`."""
        self.token += 1
        os.write(self.input, b"%d%s\n" % (self.token, text.encode()))
        mark = b"%d^" % self.token
        while not (line := self._line()).startswith(mark):
            if line.startswith(b"*stopped"):
                self.stops.append(line)
        answer = line[len(mark):]
        if answer.startswith(b"error"):
            raise RuntimeError(f"{text}: {answer.decode(errors='replace')}")
        return answer

    def wait_stop(self) -> bytes:
        """Waits for the next `*stopped` record and returns it."""
        while not self.stops:
            line = self._line()
            if line.startswith(b"*stopped"):
                self.stops.append(line)
        return self.stops.pop(0)

    def resume(self, command: str = "-exec-continue") -> bytes:
        self.command(command)
        return self.wait_stop()

    def read(self, expression: str) -> bytes:
        found = re.match(rb'done,value="(.*)"', self.command(f'-data-evaluate-expression "{expression}"'))
        if not found:
            raise RuntimeError(f"{expression} has no value")
        return found[1]

    def close(self) -> None:
        try:
            os.write(self.input, b"-gdb-exit\n")
            self.process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
