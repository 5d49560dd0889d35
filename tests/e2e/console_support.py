"""`friday replay` behind a real pseudo-terminal: what a person types and sees.

    with Terminal(recorder, [recorder.friday, "replay", path]) as terminal:
        terminal.expect(PROMPT)
        terminal.send("break f\\r")
"""

import errno
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest
from conftest import SLOWNESS

PROMPT = r"^\(friday \d+[^)\n]* @\d+\.\d+s\) $"
BLOCK = r"^> $"
_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([@-~])|\x1b[=>]|([\r\n\b\x07])")


class Screen:
    """The lines that a terminal without end would show: cursor moves and erasures within a line are carried out."""

    def __init__(self):
        self.lines, self.column = [""], 0
        self.cleared = None  # number of the line that was last erased as a whole
        self._rest = ""  # an escape sequence that is not whole yet

    def write(self, text):
        text, at = self._rest + text, 0
        self._rest = ""
        for found in _CONTROL.finditer(text):
            self._put(text[at:found.start()])
            self._control(found[1], found[2] or found[3] or "")
            at = found.end()
        tail = text[at:]
        if (escape := tail.rfind("\x1b")) >= 0:
            tail, self._rest = tail[:escape], tail[escape:]
        self._put(tail)

    def _put(self, text):
        if text:
            line = self.lines[-1].ljust(self.column)
            self.lines[-1] = line[:self.column] + text + line[self.column + len(text):]
            self.column += len(text)

    def _control(self, number, kind):
        line, count = self.lines[-1], int(number) if number and number.isdigit() else 1
        if kind == "\n":
            self.lines.append("")
            self.column = 0
        elif kind == "\r":
            self.column = 0
        elif kind in "\bD" and kind:
            self.column = max(self.column - count, 0)
        elif kind == "C":
            self.column += count
        elif kind == "K":
            self.lines[-1] = line[:self.column]
            self.cleared = self.cleared if self.column else len(self.lines) - 1
        elif kind == "P":
            self.lines[-1] = line[:self.column] + line[self.column + count:]
        elif kind == "@":
            self.lines[-1] = line[:self.column] + " " * count + line[self.column:]


class Terminal:
    """A program whose standard streams are a terminal."""

    def __init__(self, recorder, command, *, env=None, cwd=None, columns=120):
        self.parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            list(map(str, command)), stdin=child, stdout=child, stderr=child, preexec_fn=own_terminal,
            cwd=cwd or recorder.directory,
            env=recorder.environment({"TERM": "xterm", "INPUTRC": "/dev/null", "XDG_STATE_HOME": str(recorder.directory / "state"),
                                      "NO_COLOR": "1", **(env or {})}))
        os.close(child)
        self._screen = Screen()
        self.raw = ""  # all that came, escape sequences too
        self._line, self._column = 0, 0  # up to where expect() has taken what is shown

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.parent)

    @property
    def text(self):
        """What is shown behind the last thing expected."""
        lines = self._screen.lines[self._line:]
        return "\n".join([lines[0][self._column:], *lines[1:]])

    def _read(self, seconds):
        if not select.select([self.parent], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.parent, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        self.raw += data.decode(errors="replace")
        self._screen.write(data.decode(errors="replace"))
        if self._screen.cleared == self._line:
            self._screen.cleared, self._column = None, 0
        return bool(data)

    def send(self, text):
        os.write(self.parent, text.encode())

    def expect(self, pattern, seconds=30):
        """Waits until a pattern is shown; returns what is shown up to its end. The next expect() begins there."""
        end = time.monotonic() + seconds * SLOWNESS
        while not (found := re.search(pattern, self.text, re.M)):
            if not self._read(0.1):
                pytest.fail(f"it ended without {pattern!r} on the terminal; shown: {self.text!r}")
            if time.monotonic() > end:
                pytest.fail(f"no {pattern!r} on the terminal; shown: {self.text!r}")
        shown = self.text[:found.end()]
        self._line += shown.count("\n")
        self._column = len(shown) - shown.rfind("\n") - 1 + (0 if "\n" in shown else self._column)
        return shown

    def command(self, line, seconds=30):
        """Types a line at a prompt; what is shown until the next one, without both."""
        self.send(line + "\r")
        shown = self.expect(PROMPT, seconds)
        return re.sub(PROMPT, "", shown.partition("\n")[2], flags=re.M)

    def finish(self, seconds=30):
        """The exit code, when the program ends by itself."""
        end = time.monotonic() + seconds * SLOWNESS
        while self._read(0.05):
            if time.monotonic() > end:
                pytest.fail(f"it did not end; shown: {self.text!r}")
        return self.process.wait(seconds * SLOWNESS)
