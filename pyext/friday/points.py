"""Stop points of a session, and the hits that handlers are called for."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import containers
from .backend import Stop
from .errors import NoSymbol
from .handlers import Handler
from .nodes import Node
from .teaching import refuse_changes

if TYPE_CHECKING:
    from .sessions import Session


class Hit:
    """`__HIT__`: what triggered the handler that runs."""
    __slots__ = ("_session", "stop", "point", "_id")

    def __init__(self, session: Session, stop: Stop, point: StopPoint | None, id_: int | None = None) -> None:
        self._session, self.stop, self.point = session, stop, point
        self._id = point.id if point else id_

    @property
    def id(self) -> int | None:
        """The global id of the stop point; None for one that was not set through this session."""
        return self._id

    @property
    def node(self) -> Node:
        """The node that triggered."""
        return self._session.nodes[self.stop.node]

    @property
    def mark(self) -> str | None:
        """The mark of the place of the hit, for `goto`. None if nobody has counted there: the stop point was set after the node's last
        event, or the write is of a kind that is not counted. `session.mark()` counts, once the handler has ended."""
        return self.stop.mark

    @property
    def expression(self) -> str | None:
        """watch: the expression that changed, the first of several."""
        return self._change[0]

    @property
    def old(self) -> Any:
        """watch: its value before the write; None if it could not be read. Raises BadExpression for a container whose
        items are in other memory, since their old values are not known."""
        return self._decode(self._change[1], self._no_memory)

    @property
    def new(self) -> Any:
        """watch: its value after the write; None if it cannot be read. Raises BadExpression for a container in the middle
        of a change, and after the group has moved on."""
        return self._decode(self._change[2], self._memory)

    @property
    def raw(self) -> tuple[Any, Any]:
        """watch: the value before and after the write, with containers shown as plain structs."""
        return tuple(None if raw is None else self._session.types[raw[0]].decode(raw[1], raw[2]) for raw in self._change[1:])

    @property
    def caught(self) -> str | None:
        """catch: the event before which the node stands, with its result, as "write(1, 0x7f3c10, 12) = 12" or "SIGUSR1"; for a signal of
        which the node has died, its name."""
        return self.stop.caught or self.stop.signal

    @property
    def writer(self) -> Node:
        """watch: the node that wrote. It differs from `node` if the two share the memory."""
        return self._session.nodes[self.stop.node if self.stop.writer is None else self.stop.writer[0]]

    @property
    def _change(self) -> tuple[str | None, Any, Any]:
        """The change that this stop point saw; for a hit without a stop point, the stop's first change."""
        changes = self.stop.changes
        return changes.get(self._id) or next(iter(changes.values()), (None, None, None))

    @property
    def thread(self) -> int | None:
        """The number of the thread, from 0 in the order of their start."""
        return self.stop.thread

    @property
    def location(self) -> str | None:
        """"process_data at chord.c:58", or the address."""
        return self.stop.location

    def _decode(self, raw: Any, memory: Callable[[int, int], bytes]) -> Any:
        if raw is None:
            return None
        type_ = self._session.types[raw[0]].resolved
        if not type_.containers:
            return type_.decode(raw[1], raw[2])
        return containers.value_of(type_, raw[1], raw[2], memory, self.stop.node)

    def _memory(self, address: int, size: int) -> bytes:
        if not self._session.stands_at(self.stop):
            raise containers.Gone("the group has moved on since that stop")
        return self._session.backend.read_memory(self.stop.node, address, size)

    def _no_memory(self, address: int, size: int) -> bytes:
        raise containers.Gone("the memory no longer holds the items from before the write")

    def __repr__(self) -> str:
        old, new = self.raw
        what = f" {self.expression}: {old!r} -> {new!r}" if self.expression else ""
        return f"<hit {self.id} on {self.node!r} at {self.location}{what}>"


class StopPoint:
    """A breakpoint, watchpoint, catchpoint or timer with its global id. As a decorator it takes the function as its handler."""

    def __init__(self, session: Session, kind: str, id_: int, what: str, nodes: tuple[Node, ...],
                 condition: str | None, temporary: bool) -> None:
        self.session = session
        self.kind = kind  # "breakpoint", "watch", "catch" or "timer"
        self.id = id_  # stop points of all kinds share one sequence of ids
        self.what = what  # location or expressions, as given
        self.nodes = nodes
        self.condition = condition  # in C
        self.temporary = temporary  # deleted when it is hit
        self.enabled = True
        self.deleted = False
        self.hits = 0  # how often it was hit with its condition true
        self.stops = True  # it stops the group, unless the handler executes `cont`
        self.handler: Handler | Callable[..., Any] | None = None  # runs at each hit
        self.run: Callable[[], Any] | None = None
        self.purpose = ""  # the command that set it, if the user has not

    def set_handler(self, handler: Handler | Callable[..., Any] | None, stops: bool) -> None:
        """Attaches the handler that each hit runs: a compiled block, a function without parameters, or one that takes the Hit."""
        self.handler, self.stops = handler, stops
        if handler is None or isinstance(handler, Handler):
            self.run = handler.run if handler else None
        elif _takes_argument(handler):
            self.run = lambda: handler(self.session.hit)
        else:
            self.run = handler

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.set_handler(function, stops=False)
        return function

    @property
    def label(self) -> str:
        """"watch 2 (srv.successor)"; for one that the user has not set, the command that set it."""
        return self.purpose or f"{self.kind} {self.id} ({self.what})"

    @property
    def places(self) -> Sequence[tuple[int, int | None, str]]:
        """Where a breakpoint stands on each node that has started, several places for inlined functions, overloads and templates:
        (node, address, "function at file:line"), or (node, None, reason) where it is pending."""
        return self.session.backend.places(self.id)

    def delete(self) -> None:
        """Deletes the stop point. Its own handler may do that."""
        self.session.delete(self.id)

    def enable(self, on: bool = True) -> None:
        """Enables or disables it."""
        self.session.enable(self.id, on)

    def disable(self) -> None:
        """Disables it; it keeps its id and handler."""
        self.session.enable(self.id, False)

    def ignore(self, count: int) -> None:
        """Ignores the next `count` hits."""
        self.session.backend.ignore(self.id, count)

    def set_condition(self, condition: str | None) -> None:
        """Sets or removes the condition, a C expression. Raises NoSymbol and BadExpression."""
        refuse_changes(condition)
        try:
            self.session.backend.condition(self.id, condition)
        except NoSymbol as error:
            raise self.session.names.teach_place([int(node) for node in self.nodes], self.what, error) from None
        self.condition = condition

    def __index__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        state = "" if self.enabled else ", disabled"
        return f"<{self.label}, {self.hits} hits{state}>"


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)
