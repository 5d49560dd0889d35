"""What can go wrong, as Python exceptions. All derive from `Error`, which knows the node and the event concerned.

The binding raises these classes by the code of the core's error: `by_code` is the one table for both directions.
"""
from __future__ import annotations


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
    """The request makes no sense as put."""
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
    """The variable exists but not in the frame where the node stands."""
    code = "out_of_scope"


class OptimizedOut(Error):
    """The compiler kept the value nowhere at this instruction."""
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


class Divergence(Error):
    """The replay does something else than the recording: printed like a diff. `expected` and `actual` are texts."""
    code = "diverged"

    def __init__(self, message: str = "", *, expected: str = "", actual: str = "", node: int | None = None,
                 event: int | None = None) -> None:
        super().__init__(message, node=node, event=event)
        self.expected = expected
        self.actual = actual


class BadRecording(Error):
    """A recording that cannot be used: truncated, corrupt, of another version, or of another machine."""
    code = "bad_input"


class ComponentDied(Error):
    """gdb, a node's process or another part of Friday ended by itself."""
    code = "component_died"


class Unsupported(Error):
    """Understood, but not possible here."""
    code = "unsupported"


by_code: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (Error, UsageError, NoNode, NoSymbol, OutOfScope, OptimizedOut, BadExpression, BadAddress, NodeEnded,
                 NodeNotStarted, CallFailed, Divergence, BadRecording, ComponentDied, Unsupported)
}
