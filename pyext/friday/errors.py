"""What can go wrong, as Python exceptions. All derive from `Error`, which knows the node and the event concerned.

The binding raises these classes by the code of the core's error: `by_code` is the one table for both directions.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence


class Error(Exception):
    """An expected failure. `node` is the id of the node concerned, `event` the index of its event; None when there is
    none. The message says what was asked, what was found, and what to do."""

    code = "error"

    def __init__(self, message: str = "", *, node: int | None = None, event: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.event = event

    def __str__(self) -> str:
        place = "" if self.node is None else f"node {int(self.node)}"
        if self.event is not None:
            place += f", event {self.event}" if place else f"event {self.event}"
        return f"{place}: {self.message}" if place else self.message


class UsageError(Error):
    """The request itself is invalid."""
    code = "usage"


class NoNode(Error):
    """No node of the recording has this id or name."""
    code = "no_node"


class NoSymbol(Error):
    """The expression names something that the program does not have; `nearest` is the closest name, or None."""
    code = "no_symbol"

    def __init__(self, message: str = "", *, nearest: str | None = None, node: int | None = None,
                 event: int | None = None) -> None:
        if nearest:
            message = f"{message}; the nearest is `{nearest}`"
        super().__init__(message, node=node, event=event)
        self.nearest = nearest


class OutOfScope(Error):
    """The variable exists but not in the frame where the node stands; `scopes` are the functions that have it."""
    code = "out_of_scope"

    def __init__(self, message: str = "", *, scopes: Sequence[str] = (), node: int | None = None,
                 event: int | None = None) -> None:
        super().__init__(message, node=node, event=event)
        self.scopes = tuple(scopes)


class OptimizedOut(Error):
    """At this instruction the compiled program does not keep the value anywhere."""
    code = "optimized_out"


class BadExpression(Error):
    """gdb cannot parse or evaluate the expression."""
    code = "bad_expression"


class BadAddress(Error):
    """Memory of the node that cannot be read or written there; `address` when it is known."""
    code = "bad_address"

    def __init__(self, message: str = "", *, address: int | None = None, node: int | None = None,
                 event: int | None = None) -> None:
        super().__init__(message, node=node, event=event)
        self.address = address


class NodeEnded(Error):
    """The node has ended: it can be read, but not written, called or resumed."""
    code = "node_ended"


class NodeNotStarted(Error):
    """The node has not started yet at the current logical time."""
    code = "node_not_started"


class CallFailed(Error):
    """A called function of the program did not return; `how` is "crashed", "blocked" or "looped"."""
    code = "call_failed"

    def __init__(self, message: str = "", *, how: str = "crashed", node: int | None = None,
                 event: int | None = None) -> None:
        super().__init__(message, node=node, event=event)
        self.how = how


@dataclass(frozen=True)
class CodePlace:
    """A place in a program's code. What is not known is empty or 0."""
    address: int
    function: str
    offset: int  # in the function
    module: str  # "libc.so.6"
    module_offset: int
    file: str  # of the source
    line: int
    text: str  # the whole place as text

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class NearEvent:
    """A recorded event close to the one that differs."""
    index: int
    differs: bool
    text: str


class Divergence(Error):
    """The replay did something other than the recording. The message is the whole report, printed like a diff; its parts:

    node_name, thread: who did it. mark: the place before the event, for `goto`. kind: what differs first: "type", "call", "thread", "argument", "input", "result",
    "state", "memory", "end" or "damaged". call: what the thread did, by name. logical_time, real_time: of the event as it was
    recorded, seconds since the group's start and since the epoch. chain: the call site and its callers, innermost first.
    expected, actual: one line each. events: five of the node's events before, the one that differs, five after. causes: what the
    recording does not contain and that may be the cause, one sentence each."""
    code = "diverged"

    def __init__(self, message: str = "", *, node: int | None = None, event: int | None = None, node_name: str = "",
                 thread: int | None = None, kind: str = "", call: str = "", logical_time: float = 0.0,
                 real_time: float = 0.0, mark: str = "", expected: str = "", actual: str = "", chain: Sequence[Mapping[str, Any]] = (),
                 events: Sequence[Mapping[str, Any]] = (), causes: Sequence[str] = ()) -> None:
        super().__init__(message, node=node, event=event)
        self.causes = list(causes)
        self.node_name, self.thread, self.kind, self.call = node_name, thread, kind, call
        self.logical_time, self.real_time, self.mark = logical_time, real_time, mark
        self.expected, self.actual = expected, actual
        self.chain = [CodePlace(**place) for place in chain]
        self.events = [NearEvent(**near) for near in events]

    @classmethod
    def _of(cls, message: str, report: Mapping[str, Any]) -> "Divergence":
        """From the core's report, the one that `friday verify --json` prints too."""
        return cls(message, **{"node_name" if key == "name" else key: value for key, value in report.items() if key != "text"})

    def __str__(self) -> str:
        return self.message or super().__str__()


class BadRecording(Error):
    """A recording that cannot be used: truncated, corrupt, of another version, or of another machine."""
    code = "bad_input"


class ComponentDied(Error):
    """gdb, a node's process or another part of Friday died for a reason that has nothing to do with the recording: the replay failed, it
    neither ended nor diverged."""
    code = "component_died"

    def __str__(self) -> str:
        return self.message if self.message.startswith("node ") else super().__str__()


class Unsupported(Error):
    """The request is valid, but not possible here."""
    code = "unsupported"


by_code: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (Error, UsageError, NoNode, NoSymbol, OutOfScope, OptimizedOut, BadExpression, BadAddress, NodeEnded,
                 NodeNotStarted, CallFailed, Divergence, BadRecording, ComponentDied, Unsupported)
}
