"""A progress line on the terminal, which is erased before anything else is printed."""
from __future__ import annotations

import contextlib
import os
import shutil
import sys
import termios
import time
from typing import Any, Iterator, TextIO

_WIDTH = 30


class ProgressLine:
    """Call it with the part done (0 to 1), the events per second, and a text to show before them. Does nothing if the stream is
    not a terminal. typed_ahead: the terminal does not show what is typed while the line is there, which would go on behind it and move
    it up; whoever reads it shows it then, as readline does."""

    def __init__(self, stream: TextIO, *, typed_ahead: bool = False) -> None:
        self._stream = stream
        self._hides = typed_ahead
        self._shows_typed: list[Any] | None = None  # the settings of the terminal with which it shows what is typed, if it does not now
        self._on = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._drawn = False
        self._began = time.monotonic()

    def __call__(self, part: float, rate: float, more: str = "") -> None:
        if not self._on:
            return
        part = min(max(part, 0.0), 1.0)
        done = int(part * _WIDTH)
        spent = time.monotonic() - self._began
        left = f", {spent * (1 - part) / part:.0f} s left" if part > 0.02 and spent > 1 else ""
        self._draw(f"[{'#' * done}{'.' * (_WIDTH - done)}] {part:5.1%}  {more + ', ' if more else ''}{_count(rate)} events/s{left}")

    def say(self, text: str) -> None:
        """Shows a text instead, and the seconds that have passed, of work of which nobody knows how much there is."""
        if self._on:
            self._draw(f"{text} ({time.monotonic() - self._began:.0f} s)")

    def _draw(self, text: str) -> None:
        self._drawn = True  # set before drawing, since Ctrl-C may interrupt it
        self._hide_typed()
        self._stream.write("\r" + text[:shutil.get_terminal_size().columns - 1] + "\x1b[K")
        self._stream.flush()

    def clear(self) -> None:
        if self._drawn:
            self._drawn = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            if self._shows_typed is not None:
                settings, self._shows_typed = self._shows_typed, None
                with contextlib.suppress(OSError, termios.error):  # the terminal is gone
                    termios.tcsetattr(self._stream.fileno(), termios.TCSANOW, settings)

    def _hide_typed(self) -> None:
        if not self._hides or self._shows_typed is not None:
            return
        with contextlib.suppress(OSError, termios.error):
            terminal = self._stream.fileno()
            settings = termios.tcgetattr(terminal)
            if settings[3] & termios.ECHO and os.tcgetpgrp(terminal) == os.getpgrp():  # one in the background would be stopped
                self._shows_typed = settings
                termios.tcsetattr(terminal, termios.TCSANOW, [*settings[:3], settings[3] & ~termios.ECHO, *settings[4:]])

    @contextlib.contextmanager
    def shown(self) -> Iterator["ProgressLine"]:
        """A context in which writes to standard output and standard error erase the line first."""
        if not self._on:
            yield self
            return
        self._began = time.monotonic()
        saved = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = _ClearFirst(sys.stdout, self), _ClearFirst(sys.stderr, self)
        try:
            yield self
        finally:
            self.clear()
            sys.stdout, sys.stderr = saved


class _ClearFirst:
    """A text stream that erases the progress line before each write."""

    def __init__(self, stream: TextIO, line: ProgressLine) -> None:
        self._stream, self._line = stream, line

    def write(self, text: str) -> int:
        self._line.clear()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _count(rate: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if rate >= size:
            return f"{rate / size:.1f}{unit}"
    return f"{rate:.0f}"
