"""Servers that refuse to be root, or give it up, in tests and benchmarks that may run as root."""
from __future__ import annotations

import os
import pathlib
from typing import Any, Iterable

NOBODY = 65534


def without_root(command: Iterable[Any]) -> list[Any]:
    """The command as somebody else if this is root, else as it is."""
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command] if os.geteuid() == 0 else list(command)


def open_to_all(directory: pathlib.Path) -> pathlib.Path:
    """Lets a server that has given up root reach `directory`, which lies in /tmp, and write there."""
    directory.chmod(0o777)
    return directory
