"""Messages between nodes: each transfer through a socket or pipe, with the places where it was sent and received."""
from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

from .answers import counted

if TYPE_CHECKING:
    from .backend import Message as RawMessage
    from .nodes import Node
    from .recordings import RecordedNode
    from .sessions import Session


@dataclass(frozen=True, slots=True)
class Message:
    """A message through a socket or pipe. In a stream, it is the part of one send that one receive got.

    number: from 1, in the order of receipt; source, target: the sending and the receiving node, None for an end that is not among the
    replayed nodes or is the same node (in a Recording these are RecordedNodes, and None stands for an end that was not recorded);
    source_event, target_event: the indexes of the calls that send and receive it on these nodes; sent, received: the logical times of these calls; bytes: its
    length; channel: "stream", "datagram" or "pipe". `session.goto(m.target_event, node=m.target)` goes to the place before its receipt.

        for m in session.messages(dst="n3"):
            if b"PREPARE" in (m.data or b""):
                print(m)
    """
    number: int
    source: "Node | RecordedNode | None"
    source_event: int | None
    sent: Any
    target: "Node | RecordedNode | None"
    target_event: int | None
    received: Any
    bytes: int
    channel: str
    _contents: "Callable[[int], tuple[builtins.bytes | None, str | None]]" = field(repr=False, compare=False)
    _session: "Session | None" = field(repr=False, compare=False, default=None)

    @property
    def is_sent(self) -> bool:
        """Whether it has been sent; always False if no replayed node sends it. In a Recording: whether a recorded node sends it."""
        return self._done(self.source, self.source_event)

    @property
    def is_received(self) -> bool:
        """Whether it has been received; always False if no replayed node receives it. In a Recording: whether a recorded node receives it."""
        return self._done(self.target, self.target_event)

    @property
    def mark(self) -> str | None:
        """The mark of the place before its receipt, or if no replayed node receives it, before it is sent; None if neither is in the recording."""
        for node, event in (self.target, self.target_event), (self.source, self.source_event):
            if node is not None and event is not None:
                return f"{node.id}#{event}" if event else None
        return None

    @property
    def data(self) -> builtins.bytes | None:
        """The contents, as the receiver got them; fewer than `bytes` if the recording has only the beginning, None if it has none of them:
        `missing` says why. They are read from the recording each time, also those of a message that has not been received yet."""
        return self._contents(self.number)[0]

    @property
    def missing(self) -> str | None:
        """Why `data` is not the whole message, for example "no replayed node receives it, and of what a program sends only a hash is kept";
        None if it is."""
        return self._contents(self.number)[1]

    def _done(self, node: "Node | RecordedNode | None", event: int | None) -> bool:
        return node is not None and event is not None and (self._session is None or self._session.backend.event(int(node)) >= event)

    def to_json(self) -> dict[str, Any]:
        """The message as a dictionary for JSON: nodes by their names, logical times as text."""
        return {"number": self.number, "source": None if self.source is None else self.source.name, "source_event": self.source_event,
                "sent": None if self.sent is None else str(self.sent), "target": None if self.target is None else self.target.name,
                "target_event": self.target_event, "mark": self.mark, "received": None if self.received is None else str(self.received),
                "bytes": self.bytes, "channel": self.channel}

    def __str__(self) -> str:
        """"message 13 from n2 (event 40, 5.024 s) to n1 (event 38, 5.027 s), 16 bytes"."""
        return (f"message {self.number} from {_end(self.source, self.source_event, self.sent)} to "
                f"{_end(self.target, self.target_event, self.received)}, {counted(self.bytes, 'byte')}")


def _end(node: "Node | None", event: int | None, time: Any) -> str:
    return "outside" if node is None else f"{node.name} (event {event}, {time} s)"


def with_nodes(session: "Session", raw: "RawMessage") -> Message:
    """A message of the backend, with nodes in place of their ids."""
    def node(id_: int | None) -> "Node | None":
        return None if id_ is None else session.nodes[id_]

    return Message(raw.number, node(raw.source), raw.source_event, raw.sent, node(raw.target), raw.target_event, raw.received,
                   raw.bytes, raw.channel, session.backend.message_contents, session)
