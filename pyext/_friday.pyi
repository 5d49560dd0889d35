"""The replay core: _friday.Session is the Backend of friday.Session (pyext/friday/backend.py says what each method means)."""
from collections.abc import Sequence

from friday import Backend

class Session(Backend):
    def __init__(self, recording: str, nodes: str | None = None, sync: str = "clock", symbols: Sequence[str] = ...) -> None: ...
    def complete(self, node: int, prefix: str) -> list[str]:
        """What may follow the start of a C expression or a location on a node."""
    def location(self, node: int, pc: int) -> str:
        """The function, file and line of a code address, or the address."""
    def state_hash(self, node: int) -> str:
        """A hash of the node's memory now, in hex."""
    def watch_statistics(self) -> dict[str, int]:
        """Of all nodes since the start: "faults", stores to watched pages that faulted, and "hits", those that changed what is watched."""

def pump_while_idle(session: Session | None) -> None:
    """Serves the session's gdbs while Python waits for a line; None ends it."""
