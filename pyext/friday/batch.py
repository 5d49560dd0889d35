"""`friday run`: opens the recording, runs the script, shows progress on a terminal."""
from __future__ import annotations

import sys
from typing import Sequence

from .errors import ComponentDied, Error
from .runner import run_script
from .sessions import Session

BAD_INPUT, DIED = 2, 4


class ProgressBar:
    """One line on a terminal that is written over: part of the logical time done, events per second."""

    WIDTH = 40

    def __init__(self) -> None:
        self.shown = False

    def __call__(self, done: float, rate: float) -> None:
        filled = round(max(0.0, min(1.0, done)) * self.WIDTH)
        bar = "#" * filled + "." * (self.WIDTH - filled)
        print(f"\r[{bar}] {done:6.1%}  {rate:,.0f} events/s \033[K", end="", file=sys.stderr, flush=True)
        self.shown = True

    def clear(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self.shown = False


def run(script: str, recording: str, args: Sequence[str], nodes: str | None, sync: str, json_path: str | None) -> int:
    """Returns the exit code of `friday run`: 0 held, 1 violated, 2 bad usage or input, 3 diverged, 4 a component died."""
    try:
        open(script, encoding="utf-8").close()
    except OSError as error:
        print(f"friday run: cannot read the script {script}: {error.strerror}", file=sys.stderr)
        return BAD_INPUT
    try:
        session = Session(recording, nodes=nodes, sync=sync)
    except ComponentDied as error:
        print(f"friday run: {error}", file=sys.stderr)
        return DIED
    except Error as error:
        print(f"friday run: {error}", file=sys.stderr)
        return BAD_INPUT
    bar = ProgressBar() if sys.stderr.isatty() else None
    try:
        return run_script(script, session, args, json_path=json_path, progress=bar)
    finally:
        if bar:
            bar.clear()
        session.close()
        sys.stdout.flush()
