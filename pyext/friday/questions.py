"""Commands that ask about nodes: `why` (what led to where a node stands) and `diff` (where two nodes' values differ)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from .answers import Output, counted, named, seconds, table
from .commands import Command, Verb
from .differences import differences, shown
from .errors import UsageError
from .info import last_step
from .frames import frame_of
from .running import one_node

if TYPE_CHECKING:
    from .backend import Message
    from .sessions import Session

_EVENTS = 6  # how many of the node's own events `why` shows
_STEPS = 8  # how many messages `why` follows back
_SHOWN = 100  # how many differences `diff` shows
_LONGEST = 400  # characters of a value that is equal on both
_RECEIVED = 64  # how many of a node's last messages are fetched at first; doubled until the wanted one is among them


def _why(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    if command.rest and command.nodes is not None:
        raise UsageError("usage: why [NODE]")
    node = session.nodes[command.rest] if command.rest else one_node(session, command)
    if node.state == "not started":
        out(f"{named(node)} has not started yet, so nothing has led to its state")
        return
    backend = session.backend
    last = backend.event(int(node))
    place, _ = frame_of(session, int(node))
    has = "has ended" if node.state == "ended" else "has done none of its events" if last < 0 else f"has done its event {last}"
    out(", ".join(filter(None, [f"{named(node)} {has}", place])))
    if last < 0:
        return
    out("its last events:")
    first = max(last - _EVENTS + 1, 0)
    for index, text in backend.events(int(node), first, last - first + 1):
        out(f"  {index:>8}  {text}")
    if step := last_step(session, [int(node)]):
        out(step)
    rows = [("message", "from", "event", "sent", "to", "event", "received", "bytes", "channel")]
    for message in chain(session, int(node), last):
        rows.append((str(message.number), _name(session, message.source), _event(message.source_event), seconds(message.sent) if message.sent else "",
                     _name(session, message.target), str(message.target_event), seconds(message.received), str(message.bytes), message.channel))
    if len(rows) == 1:
        out("it has received no message")
        return
    out("the messages that led here; each is the last that the sender of the one above it had received before sending:")
    for line in table(rows):
        out(f"  {line}")
    out(f"`goto message {rows[1][0]}` goes to the receipt of the first one")


def chain(session: "Session", node: int, event: int) -> "Iterator[Message]":
    """The last message that a node had received when it did an event, then the last that the sender of that message had received
    before it sent it, and so on."""
    for _ in range(_STEPS):
        message = _last_received(session, node, event)
        if message is None:
            return
        yield message
        if message.source is None or message.source_event is None:
            return
        node, event = message.source, message.source_event - 1


def _last_received(session: "Session", node: int, event: int) -> "Message | None":
    limit = _RECEIVED
    while True:
        messages = session.backend.messages(node, limit)
        for message in reversed(messages):
            if message.target == node and message.target_event is not None and message.target_event <= event:
                return message
        if len(messages) < limit:
            return None
        limit *= 2


def _name(session: "Session", node: int | None) -> str:
    return "outside" if node is None else session.nodes.all[node].name


def _event(event: int | None) -> str:
    return "" if event is None else str(event)


def _diff(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    words = command.rest.split(None, 2)
    if len(words) != 3:
        raise UsageError("usage: diff NODE NODE EXPR")
    left, right = session.nodes[words[0]], session.nodes[words[1]]
    values = [node.read(words[2]) for node in (left, right)]
    rows = [("", left.name, right.name)]
    more = 0
    for path, a, b in differences(words[2], *values):
        if len(rows) > _SHOWN:
            more += 1
        else:
            rows.append((path, shown(a), shown(b)))
    if len(rows) == 1:
        out(f"equal on {named(left)} and {named(right)}: {shown(values[0], _LONGEST)}")
        return
    out.table(rows)
    if more:
        out(f"and {counted(more, 'more difference')}")


VERBS: dict[str, Verb] = {"why": _why, "diff": _diff}
