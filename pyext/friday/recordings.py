"""A recording as data, without a replay: nodes, events, messages, channels, and which event happens before which.

    import friday
    recording = friday.Recording("ring.rec")
    late = [m for m in recording.messages() if m.sent and m.received and float(m.received) - float(m.sent) > 0.1]
    for event in recording.events("n3", call="connect"):
        print(event)

None of the recorded programs runs and no gdb is needed, so it is fast, and it works on machines that lack the programs' files. To
read variables, use a Session. Events are read one at a time: a long recording needs no more memory than a short one.
"""
from __future__ import annotations

import builtins
import difflib
import functools
import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator

from .errors import NoNode, UsageError
from .identity import NodeId
from .messages import Message


class RecordedNode(NodeId):
    """One recorded process. It is its id: an int, equal to it and usable wherever an id is. It is true, node 0 too, and comparing it with a
    text raises UsageError."""

    def __new__(cls, about: dict[str, Any]) -> "RecordedNode":
        node = super().__new__(cls, about["id"])
        node._about = about
        return node

    _about: dict[str, Any]

    @property
    def id(self) -> int:
        """The id as a plain int."""
        return int(self)

    @property
    def name(self) -> str:
        """"redis-1"; of a forked process "redis-1/child-1", of one started again under the name "redis-1#2"."""
        return self._about["name"]

    @property
    def alias(self) -> str:
        """The name that was given to the wrapper (`ip netns exec`, a shell, env, ...) that started this program: "redis-1" of "redis-1/exec-1".
        The name means this node then. Otherwise ""."""
        return self._about["alias"]

    @property
    def program(self) -> str:
        """The path of the executable, on the host that it ran on."""
        return self._about["program"]

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments that it was started with; the first is the program's name."""
        return self._about["argv"]

    @property
    def host(self) -> str:
        """The name of the host that it ran on."""
        return self._about["host"]

    @property
    def pid(self) -> int:
        """Its process id on that host."""
        return self._about["pid"]

    @property
    def parent(self) -> int | None:
        """The id of the node that forked it; None if it was not forked by a recorded node."""
        return self._about["parent"]

    @property
    def event_count(self) -> int:
        """The number of recorded events; their indexes are 0 to event_count - 1."""
        return self._about["event_count"]

    @property
    def ended(self) -> str:
        """How the node ended, or its recording: for example "exited with 0", "killed by SIGKILL"."""
        return self._about["ended"]

    def __repr__(self) -> str:
        return f"<recorded node {int(self)} {self.name}>"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that an event moved through a channel. channel: the number of the channel on the node; direction: "in" or "out"; offset: the
    position of the first byte in the stream of that direction (for datagrams the number of bytes before it); bytes: the number of bytes;
    peer: the address of the other side, None if it is unknown; end_of_stream: whether the other side had closed the stream.

        for event in recording.events("n3"):
            for moved in event.transfers:
                print(moved.payload or moved.missing)
    """
    channel: int
    direction: str
    offset: int
    bytes: int
    peer: str | None
    end_of_stream: bool
    _payload: Callable[[], tuple[builtins.bytes | None, str | None]] = field(repr=False, compare=False)

    @property
    def payload(self) -> builtins.bytes | None:
        """The bytes themselves, from the first one on; fewer than `bytes` if the recording has only the beginning, None if it has none of
        them: `missing` says why."""
        return self._payload()[0]

    @property
    def missing(self) -> str | None:
        """Why there is no payload, "only its hash was kept" for what a program sent, except to its standard output and
        error; None if there is one."""
        return self._payload()[1]


@dataclass(frozen=True, slots=True)
class Channel:
    """An open file, socket or pipe of a node. number: as Transfer.channel; kind: "file", "stream", "datagram", "seqpacket", "pipe",
    "device", "event", "terminal", "listening" or "unknown"; descriptor: the first file descriptor by which it was used; event: the index
    of the first event that used it; local, remote: the addresses of a socket as the node saw them last, None if there is none."""
    number: int
    kind: str
    descriptor: int
    event: int
    local: str | None
    remote: str | None


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the happens-before relation: event `source_event` of node `source` happens before event `target_event` of node
    `target`. kind: the reason, "stream", "datagram" or "pipe" for a message, otherwise "connect", "fork", "wait", "signal" and so on;
    bytes: the length of a message."""
    kind: str
    source: RecordedNode
    source_event: int
    target: RecordedNode
    target_event: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Step:
    """What `friday record` did to a node by an [[event]] of its group file, or by chance ([faults]). what: "kill", "stop", "continue",
    "restart", "partition", "heal", "delay" or "loss"; detail: for the last four between whom, and how much ("n1 | n2, n3", "n1 - n2: 50 ms"),
    otherwise empty; time: the logical time, by the clock of the node's host; real_time: seconds since 1970 by its wall clock; position: how
    many events of the group, in the order of a replay in `clock` order, come before."""
    node: RecordedNode
    what: str
    detail: str
    time: Any
    real_time: float
    position: int


class Event:
    """One recorded event of a node: mostly a system call, with what the kernel answered."""

    __slots__ = ("_raw", "node")

    def __init__(self, raw: Any, node: RecordedNode) -> None:
        self._raw = raw
        self.node = node  # the node whose event it is

    @property
    def index(self) -> int:
        """The number of the event on its node, from 0."""
        return self._raw.index

    @property
    def time(self) -> Any:
        """Its logical time."""
        return self._raw.time

    @property
    def thread(self) -> int:
        """The number of the thread, 0 for the first."""
        return self._raw.thread

    @property
    def kind(self) -> str:
        """"call"; "release" and "return" for the two halves of a call during which other threads ran; "signal", "yield" and so on."""
        return self._raw.kind

    @property
    def call(self) -> str | None:
        """The name of the system call; None if the event is not a call."""
        return self._raw.call

    @property
    def arguments(self) -> tuple[int, ...]:
        """The call's arguments as unsigned 64-bit numbers."""
        return self._raw.arguments

    @property
    def result(self) -> int:
        """What the call returned; if it failed, the negated errno. 0 for an event without a result."""
        return self._raw.result

    @property
    def error(self) -> str | None:
        """The name of the error if the call failed, for example "ECONNREFUSED"; otherwise None."""
        return self._raw.error

    @property
    def signal(self) -> str | None:
        """The name of the signal if the event is the delivery of a signal; otherwise None."""
        return self._raw.signal

    @property
    def path(self) -> str | None:
        """The path that the call was given; None if it has none."""
        return self._raw.path

    @property
    def memory(self) -> tuple[tuple[int, bytes], ...]:
        """What the kernel wrote into the program's memory, as (address, bytes): for example the data that recv(2) received."""
        return self._raw.memory

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """The data that the event moved through channels."""
        return tuple(Transfer(*each, functools.partial(self._raw.payload, i)) for i, each in enumerate(self._raw.transfers))

    def to_json(self) -> dict[str, Any]:
        """The object that `friday dump --json` prints for it."""
        return json.loads(self._raw.json())

    def __str__(self) -> str:
        return self._raw.text

    def __repr__(self) -> str:
        return f"<event {self.index} of {self.node.name}: {self._raw.text}>"


class Recording:
    """A recording as data, without a replay. path: the recording's directory; nodes: the nodes to read, as a node list (by default all).
    Raises BadRecording, NoNode, UsageError."""

    def __init__(self, path: str | os.PathLike[str], *, nodes: str | None = None) -> None:
        import _friday
        self.path: str = os.fspath(path)  # the recording's directory
        self._raw = _friday.Recording(self.path, nodes)
        self.nodes: tuple[RecordedNode, ...] = tuple(map(RecordedNode, self._raw.nodes()))  # by id
        self._by_id = {int(node): node for node in self.nodes}
        self._by_name = {node.name: node for node in self.nodes} | {node.alias: node for node in self.nodes if node.alias}
        self._messages: list[Message] | None = None

    def __repr__(self) -> str:
        return f"<recording {self.path} of {len(self.nodes)} nodes, {self.event_count} events>"

    def __getitem__(self, node: int | str) -> RecordedNode:
        """A node by its id or name. Raises NoNode."""
        found = self._by_name.get(node) if isinstance(node, str) else self._by_id.get(node)
        if found is None:
            near = difflib.get_close_matches(str(node), self._by_name, 1, 0.5)
            raise NoNode(f"{self.path} has no node {node!r}" + (f"; the nearest is `{near[0]}`" if near else ""))
        return found

    @property
    def event_count(self) -> int:
        """How many events all nodes have together."""
        return self._raw.event_count()

    @property
    def duration(self) -> float:
        """Seconds of logical time from the first event of the group to the last."""
        if not self.event_count:
            return 0.0
        ends = (self._raw.time(*self._raw.at_position(place)) for place in (0, self.event_count - 1))
        first, last = map(float, ends)
        return last - first

    def event(self, node: int | str, index: int) -> Event:
        """The event of a node with this index. Raises NoNode, UsageError."""
        at = self[node]
        return Event(self._raw.event(int(at), _natural(index, "an event's index")), at)

    def events(self, node: int | str, *, first: int = 0, last: int | None = None, call: str | None = None) -> Iterator[Event]:
        """The events of a node in its order. first, last: the indexes of the first and the last one, all by default; call: only
        those of the system call of this name. Raises NoNode, UsageError."""
        at = self[node]
        end = at.event_count if last is None else min(_natural(last, "last") + 1, at.event_count)
        return self._events(at, range(_natural(first, "first"), end), call)

    def _events(self, node: RecordedNode, indexes: range, call: str | None) -> Iterator[Event]:
        for index in indexes:
            raw = self._raw.event(int(node), index)
            if call is None or raw.call == call:
                yield Event(raw, node)

    def order(self) -> Iterator[tuple[RecordedNode, int]]:
        """All events as (node, index), in the order in which a replay in `clock` order does them."""
        for position in range(self.event_count):
            node, index = self._raw.at_position(position)
            yield self._by_id[node], index

    def position(self, node: int | str, index: int) -> int:
        """The place of an event in `order()`, from 0. Raises NoNode, UsageError."""
        return self._raw.position_of(int(self[node]), _natural(index, "an event's index"))

    def parts(self, count: int) -> list[str]:
        """The marks at which the second and each further of at most `count` parts of the recording begins: places of which the recording
        holds a checkpoint (`friday checkpoint`), so that the parts are as equal as these allow."""
        return self._raw.parts(_natural(count, "a number of parts"))

    def time(self, node: int | str, index: int) -> Any:
        """The logical time of an event; float() of it is seconds since the recording's first event. Raises NoNode, UsageError."""
        return self._raw.time(int(self[node]), _natural(index, "an event's index"))

    def real_time(self, node: int | str, index: int) -> float:
        """Seconds since the epoch on the clock of the node's host, at an event. Raises NoNode, UsageError."""
        return self._raw.real_time(int(self[node]), _natural(index, "an event's index"))

    def channels(self, node: int | str) -> list[Channel]:
        """The open files, sockets and pipes of a node, by number. Raises NoNode."""
        return [Channel(raw.number, raw.kind, raw.descriptor, raw.event, raw.local, raw.remote)
                for raw in self._raw.channels(int(self[node]))]

    def messages(self, *, src: int | str | None = None, dst: int | str | None = None) -> list[Message]:
        """All messages in the order of receipt, or only those sent by the node `src` or received by the node `dst`. Raises NoNode."""
        if self._messages is None:
            self._messages = [self._message(raw) for raw in self._raw.messages()]
        sender, receiver = (None if node is None else self[node] for node in (src, dst))
        return [m for m in self._messages if (sender is None or m.source == sender) and (receiver is None or m.target == receiver)]

    def _message(self, raw: Any) -> Message:
        def node(id_: int | None) -> RecordedNode | None:
            return None if id_ is None else self._by_id[id_]

        return Message(raw.number, node(raw.source), raw.source_event, raw.sent, node(raw.target), raw.target_event, raw.received,
                       raw.bytes, raw.channel, self._raw.message_contents)

    def edges(self) -> list[Edge]:
        """All edges: pairs of events on two nodes of which one happens before the other, by a message, a fork, a wait, a signal and
        the like. Together with the order of events on each node they make up the happens-before relation (Lamport, 1978) that a
        replay in causal order keeps."""
        return [Edge(raw.kind, self._by_id[raw.source], raw.source_event, self._by_id[raw.target], raw.target_event, raw.bytes)
                for raw in self._raw.edges()]

    def steps(self) -> list[Step]:
        """What `friday record` did to nodes by the events of its group file, in the order of time."""
        return [Step(self._by_id[node], *what) for node, *what in self._raw.steps()]


def _natural(value: int, what: str) -> int:
    if not isinstance(value, int) or value < 0:
        raise UsageError(f"{what} must be an integer of at least 0, not {value!r}")
    return value
