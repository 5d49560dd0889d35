"""Python as a trigger: `friday live REC save --when FILE.py` and `friday record --save-on FILE.py`.

The file's function `save_when(message)` is asked about each message that a node receives while it is recorded. What it returns says
whether the recording is to be saved then: a text that says why, another true value, or a false one."""
from __future__ import annotations

import os
from dataclasses import dataclass

from .errors import UsageError
from .violations import user_frames


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """A message that a node has received through a socket or pipe; of a stream, what one call has got.

    node, node_id: the receiver; call: the system call; channel: "stream", "datagram", "seqpacket", "pipe", or "unknown" if a forked
    process has it from its parent; peer: the other side's address, None if it is not known; data: the contents, None if the recording
    has left them out by now; length: in bytes; time: the real time of the receipt, in seconds since 1970.
    """
    node: str
    node_id: int
    call: str
    channel: str
    peer: str | None
    data: bytes | None
    length: int
    time: float


def _line_of(error: BaseException, path: str) -> str:
    """Where in the file it was raised, as ", line 7"; empty if it was not raised there."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in user_frames(error) if frame.filename == path]
    return f", line {lines[-1]}" if lines else ""


class Trigger:
    """One such file. Raises UsageError if it cannot be used."""

    def __init__(self, path: str) -> None:
        self._path, self._name = path, os.path.basename(path)
        space: dict[str, object] = {"__name__": "__friday_trigger__", "__file__": path}
        try:
            with open(path, encoding="utf-8") as file:
                source = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        try:
            exec(compile(source, path, "exec"), space)
        except BaseException as error:  # also if it wants to exit
            raise UsageError(f"{path}{_line_of(error, path)}: {type(error).__name__}: {error}") from None
        self._function = space.get("save_when")
        if not callable(self._function):
            raise UsageError(f"{path} has no function `save_when(message)`, which says whether a message is a reason to save the recording")

    def ask(self, *fields: object) -> str | None:
        """Why the recording is to be saved, None if it is not. `fields`: those of a LiveMessage."""
        message = LiveMessage(*fields)  # type: ignore[arg-type]
        place = f"node {message.node_id} ({message.node})"
        try:
            answer = self._function(message)  # type: ignore[operator]
            if not answer:
                return None
        except BaseException as error:
            raise UsageError(f"{self._path}{_line_of(error, self._path)}: {type(error).__name__}: {error}; asked about a message that {place} received. "
                             "The file is not asked any more") from None
        return f"{place} received what {self._name} waits for" + (f": {answer}" if isinstance(answer, str) else "")
