"""The public names of friday. Written by pyext/make_reference.py."""
import os
from dataclasses import dataclass
from typing import Any, Callable, Hashable, Iterator, Mapping, Protocol, Sequence, TextIO

__version__: str
session: Session | None


def open(recording: str | os.PathLike[str], *, nodes: str | None=None, sync: str='clock', symbols: Sequence[str]=()) -> Session:
    """A Session on a recording, at its start, which becomes `friday.session`: for an interpreter of your own, cell by cell.
    The options and what is raised as of Session."""


class Session:
    """A replayed group. `backend` is an open one, or the path of a recording.

    nodes: the node list to replay (all by default); sync: "clock", "causal" or "free"; console: handlers set by
    commands stop the group unless they execute `cont`, and `run` returns on Ctrl-C instead of raising; symbols:
    directories with `.build-id/` of separate debug information, searched before /usr/lib/debug. Raises
    BadRecording, UsageError, NoNode."""
    recording: str
    """its path"""
    backend: Backend
    """the core itself"""
    console: bool
    collecting: bool
    """assertions in handlers become violations instead of leaving run()"""
    violations: list[Violation]
    """those found, at most max_violations"""
    violations_dropped: int
    """how many more there were"""
    max_violations: int
    on_violation: Callable[[Violation], None] | None
    """called with each as it is found"""
    on_progress: Callable[[float, float], None] | None
    """as `progress` of run(), for all runs"""
    on_exit: Callable[[Stop], None] | None
    """called when a node has ended; the group goes on"""
    points: dict[int, StopPoint]
    """the stop points by their global ids"""
    ended: set[int]
    """ids of the nodes that have ended"""
    nodes: Nodes
    """all nodes of the recording"""
    here: int
    """the node that a bare @() means"""
    last_stop: Stop | None
    """why the group stands; None before the first run"""
    read: Callable[..., Any]
    """(node or None for the current one, a C expression): its value"""
    finished: bool
    """the group is at the end of the recording"""
    restarts: int
    """how often the group went back to the start: what handlers have gathered is then of another run"""
    namespace: dict[str, Any]
    """what the console's `py` and scripts see"""

    def __init__(self, backend: Backend | str | os.PathLike[str], *, nodes: str | None=None, sync: str='clock', console: bool=False, symbols: Sequence[str]=()) -> None:
        ...

    @property
    def node(self) -> Node:
        """`__NODE__`: the node that triggered; between runs the selected one. Can be set."""

    @property
    def all_nodes(self) -> tuple[Node, ...]:
        """`__ALL__`: the nodes alive now."""

    @property
    def every_node(self) -> tuple[Node, ...]:
        """`__EVERY__`: all nodes of the recording."""

    @property
    def logical_time(self) -> Any:
        """`__LOGICALCLOCK__`: the group's position, ordered and hashable."""

    @property
    def real_time(self) -> float:
        """`__REALCLOCK__`: seconds since the epoch on the clock of `node`."""

    @property
    def hit(self) -> Hit | None:
        """`__HIT__`: what triggered; None before the first stop."""

    def changes(self, stop: Stop) -> list[Hit]:
        """What a stop at watchpoints changed, each as its handler sees it."""

    @property
    def altered(self) -> dict[Node, Any]:
        """The nodes whose program state the user has changed, with the logical time since when."""

    def id_of(self, node: Any) -> int:
        """The id of what may stand before `(` in `@NODE(...)`; None is the current node."""

    def choose(self, nodes: Any) -> tuple[Node, ...]:
        """The nodes of a stop point: None for all, a node list (names follow restarts), an id, or several."""

    def messages(self, *, src: Any=None, dst: Any=None) -> list[Message]:
        """All messages of the recording in the order of receipt, also those to come; `src` and `dst` choose the nodes that
        send and receive them (as for a stop point: a node list, an id, several). What nobody replayed received stands where it
        was sent. Raises NoNode."""

    def last_message(self, node: Any=None) -> Message | None:
        """The last message that a node, by default `node`, has received by now."""

    def call(self, node: Any, function: str, *arguments: Any) -> Any:
        """Calls a function of the program on a node with Python values or snapshots; see Node.call."""

    @property
    def call_timeout(self) -> float:
        """Seconds that a called function of the program may take; then it is stopped and undone."""

    def assign(self, node: Any, target: str, value: Any) -> None:
        """Assigns a Python value or a snapshot on a node; see Node.write."""

    def backtrace(self, node: Any=None) -> str:
        """The stack of a node's current thread, one frame a line; of `node` by default."""

    def gdb(self, command: str, *, nodes: Any=None) -> dict[Node, str]:
        """What the gdb of each node prints for a command; of all nodes alive by default. Raises BadExpression with gdb's message."""

    def map(self, name: str, expression: str) -> None:
        """`map NAME EXPR`: makes `NAME[key]` the node with an identifier of the application's, in code that this session runs. The
        expression is evaluated at each look-up: a mapping of identifiers and nodes, or one with a bare `@()`, whose value on
        each node alive is its identifier. Raises UsageError; NAME[key] raises NoNode."""

    def notice(self, text: str) -> None:
        """Tells the user something beside the results. The console replaces this."""

    def breakpoint(self, location: str, handler: Callable[..., Any] | None=None, *, nodes: Any=None, condition: str | None=None, temporary: bool=False) -> StopPoint:
        """Sets a breakpoint (FUNC, FILE:LINE, *ADDR) on nodes (a node list, an id, several; all by default); `condition` is C.
        Without a handler it stops the group; as a decorator it takes the function, which is called at each hit, with the Hit if
        it has a parameter, and the group goes on unless it calls `friday.stop()`. temporary: deleted when it is hit. Raises
        NoSymbol, NoNode, BadExpression for the condition."""

    def watch(self, expressions: str | Sequence[str], handler: Callable[..., Any] | None=None, *, nodes: Any=None, condition: str | None=None) -> StopPoint:
        """Sets a watchpoint on C expressions, given one by one or as "a, b": hit after each write that changes the value of one.
        `FUNC::LOCAL` is armed at each entry of FUNC. Nodes, condition and handler as of `breakpoint`. Raises NoSymbol, OutOfScope,
        NoNode, UsageError."""

    def every(self, handler: Callable[..., Any] | None=None, *, seconds: float) -> StopPoint:
        """Runs a handler each time so many seconds of logical time have gone by; a decorator. The group stands before the first
        event at or after that time, whose time is then `logical_time`. Raises UsageError."""

    def at_end(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Runs a function once when the recording ends; a decorator. The nodes then show their last values."""

    def point(self, id_: Any) -> StopPoint:
        """The stop point of a global id. Raises UsageError."""

    def delete(self, id_: Any) -> None:
        """Deletes a stop point by its global id; a handler may delete its own. Raises UsageError."""

    def enable(self, id_: Any, on: bool=True) -> None:
        """Switches a stop point on or off by its global id. Raises UsageError."""

    def execute(self, source: str, *, filename: str | None=None, first_line: int=1, echo: bool=False) -> None:
        """Runs a statement or a block in the namespace (`py`); a filename is given when it stands in a real file.
        echo: shows the value of a lone expression."""

    def run(self, *, progress: Callable[[float, float], None] | None=None, interval: float=0.2) -> Stop:
        """Runs until a stop point stops the group, `stop()`, Ctrl-C or the end; returns why (kind "end" at the end).

        progress: called about every `interval` seconds with (part done, events per second). Raises Divergence,
        ComponentDied, and what a handler raised (when `collecting`, an AssertionError is a violation instead)."""

    def run_until(self, predicate: Callable[[], Any]) -> tuple[Stop | None, Any]:
        """Runs up to the first state in which predicate() is true; other stop points stop the group as ever. Returns the
        stop, None when it is true already, and the run, whose `holds` says whether it is true now. What predicate reads of the
        nodes is watched; see until.py for what cannot be. Raises what `run` and predicate raise."""

    def goto(self, event: int, *, node: Any=None) -> Stop:
        """Brings the group to where a node stands before its event, over `restart` when that lies behind. Stop points on
        the way neither stop the group nor run their handlers. The stop's kind is "reached", or what came before. Raises
        UsageError, Divergence, ComponentDied."""

    def goto_end(self) -> Stop:
        """Runs to the end of the recording; stop points are passed over as in `goto`."""

    def step(self, node: Any=None, command: str='step') -> Stop:
        """Steps one node (by default `node`) by gdb's step, next, stepi, nexti, finish or "until LOC"; the others follow in logical
        time. Handlers of stop points on the way run. The stop's kind is "step", or what came before. Raises NodeEnded, UsageError,
        Divergence, ComponentDied."""

    def stop(self) -> None:
        """`friday.stop()` in a handler: the group stops when the handlers of this event are done."""

    def restart(self, sync: str | None=None) -> None:
        """Back to the start of the recording; stop points and the namespace stay, altered marks go. `sync`: from now on
        replay in this order, "clock", "causal" or "free". Raises UsageError in a handler."""

    def close(self) -> None:
        """Ends the replay's processes. Also by `with Session(...) as session:`."""

    def __enter__(self) -> Session:
        ...

    def __exit__(self, *_: Any) -> None:
        ...

    def violation(self, predicate: Any, *, nodes: Any=None, message: str='', **evidence: Any) -> Violation | None:
        """Reports that a predicate (its name, or the function) does not hold now, on some nodes (the current one by
        default); `evidence` are the values that show it. Returns the record, None when there are too many already."""


class StopPoint:
    """A breakpoint, watchpoint or timer with its global id. As a decorator it takes the function as its handler."""
    session: Session
    kind: str
    """"breakpoint", "watch" or "timer\""""
    id: int
    """of one sequence for all kinds and nodes"""
    what: str
    """location or expressions, as given"""
    nodes: tuple[Node, ...]
    condition: str | None
    """in C"""
    temporary: bool
    """deleted when it is hit"""
    enabled: bool
    deleted: bool
    hits: int
    """how often it was hit, conditions held"""
    stops: bool
    """it stops the group, unless the handler executes `cont`"""
    handler: Any | Callable[..., Any] | None
    """what a hit runs"""

    def __init__(self, session: Session, kind: str, id_: int, what: str, nodes: tuple[Node, ...], condition: str | None, temporary: bool) -> None:
        ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        ...

    @property
    def label(self) -> str:
        """"watch 2 (srv.successor)"."""

    def delete(self) -> None:
        """Forgets it; its handler may do that."""

    def enable(self, on: bool=True) -> None:
        """Switches it on, or off."""

    def disable(self) -> None:
        """Switches it off; it keeps its id and handler."""

    def ignore(self, count: int) -> None:
        """Lets the next count hits pass."""

    def set_condition(self, condition: str | None) -> None:
        """Sets the condition, in C, or takes it away. Raises BadExpression."""

    def __index__(self) -> int:
        ...


class Hit:
    """`__HIT__`: what triggered the handler that runs."""
    stop: Stop
    point: StopPoint | None

    def __init__(self, session: Session, stop: Stop, point: StopPoint | None, id_: int | None=None) -> None:
        ...

    @property
    def id(self) -> int | None:
        """The global id of the stop point; None for one that was set beside the session."""

    @property
    def node(self) -> Node:
        """The node that triggered."""

    @property
    def expression(self) -> str | None:
        """watch: the expression that changed, the first of several."""

    @property
    def old(self) -> Any:
        """watch: its value before the write; None where it could not be read."""

    @property
    def new(self) -> Any:
        """watch: its value after the write; None where it cannot be read."""

    @property
    def thread(self) -> int | None:
        """The number of the thread, from 0 in the order of their start."""

    @property
    def location(self) -> str | None:
        """"process_data at chord.c:58", or the address."""


class Node(int):
    """One replayed process. It is its id: an int, equal to it and usable wherever an id is."""
    info: NodeInfo
    """what the recording says of it"""
    session: Session

    def __new__(cls, session: Session, info: NodeInfo) -> Node:
        ...

    @property
    def id(self) -> int:
        """A plain int."""

    @property
    def name(self) -> str:
        """"redis-1"; of a forked process "redis-1/child-1", of one started again under the name "redis-1#2"."""

    @property
    def state(self) -> str:
        """"not started", "alive" or "ended", now."""

    @property
    def real_time(self) -> float:
        """Seconds since the epoch on the node's clock."""

    @property
    def altered(self) -> Any:
        """The logical time since which writes or calls have changed the node, or None."""

    def eval(self, expression: str) -> Any:
        """The value of a C or C++ expression, calls included: what `@NODE(EXPR)` means. In the frame where the node stands, then
        in its program; of an ended node its last value. The value is a snapshot. Raises NoSymbol, OutOfScope, OptimizedOut,
        BadExpression, BadAddress, NodeNotStarted, CallFailed."""
    read = eval

    def write(self, target: str, value: Any) -> None:
        """Assigns a Python value or a snapshot to what the C expression target names; marks the node altered. Raises what
        `eval` does, and NodeEnded."""

    def call(self, function: str, *arguments: Any) -> Any:
        """Calls a function of the program with Python values or snapshots; returns its value. Strings and structs are passed
        in the node's workspace. Raises CallFailed when it crashes, blocks or takes longer than `session.call_timeout`, and
        what `write` does."""

    def backtrace(self) -> str:
        """The stack of the current thread, one frame a line, as gdb shows it. Raises NodeNotStarted."""

    def threads(self) -> list[Thread]:
        """The threads that live now, by number; of an ended node those at its end. Raises NodeNotStarted."""

    def symbols(self, pattern: str='*') -> dict[str, list[Place]]:
        """The names of the program's own functions and variables that fit a pattern (`*`, `?`, `[...]`), with the places
        where each is declared; empty without debug information. Of a very large program, those of its sources near
        where the node stands. Raises NodeNotStarted."""

    def gdb(self, command: str) -> str:
        """What the node's gdb prints for a command. Before its start a node's process waits in its first lines, which gdb
        shows. Raises BadExpression with gdb's message, NoSymbol and OutOfScope."""

    @property
    def endpoint(self) -> str:
        """The path of a socket where a gdb of your own finds the node, by `target remote PATH`, while a prompt waits or
        `session.backend.pump` is called."""


class Nodes:
    """All nodes of a recording: `nodes[4]`, `nodes["redis-1"]` (the one alive now), iteration in id order."""

    def __init__(self, session: Session, infos: Sequence[NodeInfo], states: Callable[[], Sequence[str]]) -> None:
        ...

    def __len__(self) -> int:
        ...

    def __iter__(self) -> Iterator[Node]:
        ...

    def states(self) -> dict[int, str]:
        """"not started", "alive" or "ended" of each node, by id, now."""

    @property
    def all(self) -> tuple[Node, ...]:
        """By id."""

    def __getitem__(self, key: Any) -> Node:
        ...

    def parse(self, text: str, every: bool=False) -> tuple[Node, ...]:
        """The nodes of a node list: "4,5", "0-9,!3", "redis-*", names, "NAME#2", "all". With `every` a name and a
        pattern mean all its lives (for stop points, which follow a name), else those alive now."""


@dataclass(frozen=True)
class Thread:
    """A thread of a node where it stands. number: as in `hit.thread`, from 0 in the order of their start; tid: its recorded
    thread id; parked: it waits in a call or for its turn; address, function, file, line: of its innermost frame, "" and 0
    where it is not known; current: it is the one that the node's expressions and backtrace are about."""
    number: int
    name: str
    tid: int
    parked: bool
    address: int
    function: str
    file: str
    line: int
    current: bool


@dataclass(frozen=True)
class Place:
    """Where a name of the program is declared; `function` is "" for what is visible everywhere or in one file."""
    function: str
    file: str
    line: int
    is_function: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One transfer through a socket or pipe. Of a stream: the bytes of one send that one receive got.

    number: from 1, in the order of receipt. source, target: the nodes, None for an end that is not among the replayed nodes or is the
    same node; source_event, target_event: the index of the call that sends or receives it on that node; sent, received:
    its logical time. bytes: its length. channel: "stream", "datagram" or "pipe". `session.goto(m.target_event, node=m.target)`
    goes to where it is about to be received."""
    number: int
    source: Node | None
    source_event: int | None
    sent: Any
    target: Node | None
    target_event: int | None
    received: Any
    bytes: int
    channel: str

    @property
    def is_sent(self) -> bool:
        """Whether it was sent by now; False when nobody who is replayed sends it."""

    @property
    def is_received(self) -> bool:
        """Whether it was received by now; False when nobody who is replayed receives it."""

    def to_json(self) -> dict[str, Any]:
        """Names for nodes, text for logical times."""


class Snapshot:
    """What all values have in common: `.bytes` and `.type`."""
    type: Any
    bytes: bytes


class Int(int, Snapshot):
    """An integer of a node."""


class Bool(Int):
    """A bool of a node: prints as True or False, or as the number that it holds against the rules."""


class Char(Int):
    """A character of a node: an int; `.char` is the character."""

    @property
    def char(self) -> str:
        """The character of this number."""


class Enum(Int):
    """An enumerator: an int; `.name` is its name, flags joined by `|`, or the number when it has none."""

    @property
    def name(self) -> str:
        """Its name in the program."""


class Pointer(Int):
    """An address; prints as hex, `%d` gives the number."""


class Float(float, Snapshot):
    """A floating-point number; a long double is rounded, its `.bytes` are exact."""


class Str(str, Snapshot):
    """Text of a node, up to its NUL."""


class Bytes(bytes, Snapshot):
    """Text of a node that is not UTF-8, up to its NUL."""
    bytes: bytes
    type: Any
    address: int | None

    def __init__(self, *_: Any) -> None:
        ...


class Struct(Snapshot):
    """A struct, union or C++ object. Fields are attributes, or items where the name is taken (`v["bytes"]`); members of
    base classes and of anonymous structs and unions are found like own ones. Iterates over (name, value)."""

    def __init__(self, data: bytes, address: int | None=None) -> None:
        ...

    def __getattr__(self, name: str) -> Any:
        ...

    def __getitem__(self, name: str) -> Any:
        ...

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        ...


class Array(Snapshot, Sequence[Any]):
    """A C array: a sequence of its elements; a slice is a tuple."""

    def __init__(self, data: bytes, address: int | None=None) -> None:
        ...

    def __len__(self) -> int:
        ...

    def __getitem__(self, index: Any) -> Any:
        ...


class Items(tuple[Any, ...], Snapshot):
    """The items of a container, in its order: a tuple that knows its `.type`, its `.address` and the bytes of the object."""
    bytes: bytes
    address: int | None

    def __init__(self, *_: Any) -> None:
        ...


class Map(Mapping[Any, Any], Snapshot):
    """The pairs of a map, in its order: a mapping that can be a key itself."""
    bytes: bytes
    address: int | None

    def __init__(self, pairs: Any) -> None:
        ...

    def __getitem__(self, key: Any) -> Any:
        ...

    def __iter__(self) -> Iterator[Any]:
        ...

    def __len__(self) -> int:
        ...


class Raw(Snapshot):
    """Bytes of a type that Friday does not decode."""

    def __init__(self, data: bytes, address: int | None=None) -> None:
        ...


def violation(predicate: Any, *, nodes: Any=None, message: str='', **evidence: Any) -> Violation | None:
    """Reports that a predicate does not hold now; see Session.violation."""


def stop() -> None:
    """In a handler: the group stops when the handlers of this event are done."""


@dataclass(slots=True)
class Violation:
    """One violation: times are of the moment it was found. `node` is the one of the nodes that triggered, or the first of them: of
    it are `real_time`, in seconds since the epoch on its clock, `event`, the index of its last event, and `after`, the message that
    led there, the last one it had received. `source` is the line of the handler, `values` are fit for JSON."""
    predicate: str
    nodes: tuple[Node, ...]
    logical_time: Any
    real_time: float
    event: int
    message: str
    values: dict[str, Any]
    backtraces: dict[str, str]
    source: str
    node: Node | None
    after: Message | None

    def to_json(self) -> dict[str, Any]:
        """As --json writes it."""


class Violated(AssertionError):
    """Raised by a predicate that does not hold. `predicate` is its name, `nodes` the nodes concerned (None: the one
    that triggered), `evidence` the values that show it."""
    predicate: str
    nodes: Any
    evidence: Any

    def __init__(self, message: str, *, predicate: str='', nodes: Any=None, **evidence: Any) -> None:
        ...


def run_script(path: str, session: Session, args: Sequence[str]=(), *, json_path: str | None=None, progress: Callable[[float, float], None] | None=None, out: TextIO | None=None, stop_at_first: bool=False) -> int:
    """Runs a script in Friday's dialect with `friday.session` set, then the group to the end unless the script did or
    called `friday.stop()`. Violations go to out (stderr) as they are found, and with all else to json_path. stop_at_first:
    the first violation ends the run.

    Returns 0 all held, 1 violated, 2 bad script or an error in it, 3 diverged, 4 a component died."""


class Error(Exception):
    """An expected failure. `node` is the id of the node concerned, `event` the index of its event; None when there is
    none. The message says what was asked, what was found, and what to do."""
    message: str
    node: int | None
    event: int | None

    def __init__(self, message: str='', *, node: int | None=None, event: int | None=None) -> None:
        ...


class UsageError(Error):
    """The request makes no sense as put."""


class NoNode(Error):
    """No node of the recording has this id or name."""


class NoSymbol(Error):
    """The expression names something that the program does not have; `nearest` is the closest name, or None."""
    nearest: str | None

    def __init__(self, message: str='', *, nearest: str | None=None, node: int | None=None, event: int | None=None) -> None:
        ...


class OutOfScope(Error):
    """The variable exists but not in the frame where the node stands; `scopes` are the functions that have it."""
    scopes: Any

    def __init__(self, message: str='', *, scopes: Sequence[str]=(), node: int | None=None, event: int | None=None) -> None:
        ...


class OptimizedOut(Error):
    """The compiler kept the value nowhere at this instruction."""


class BadExpression(Error):
    """gdb cannot parse or evaluate the expression."""


class BadAddress(Error):
    """Memory of the node that cannot be read or written there; `address` when it is known."""
    address: int | None

    def __init__(self, message: str='', *, address: int | None=None, node: int | None=None, event: int | None=None) -> None:
        ...


class NodeEnded(Error):
    """The node has ended: it can be read, but not written, called or resumed."""


class NodeNotStarted(Error):
    """The node has not started yet at the current logical time."""


class CallFailed(Error):
    """A called function of the program did not return; `how` is "crashed", "blocked" or "looped"."""
    how: str

    def __init__(self, message: str='', *, how: str='crashed', node: int | None=None, event: int | None=None) -> None:
        ...


class Divergence(Error):
    """The replay does something else than the recording. The message is the whole report, printed like a diff; its parts:

    node_name, thread: who did it. kind: what differs first: "type", "call", "thread", "argument", "input", "result",
    "state", "end" or "damaged". call: what the thread did, by name. logical_time, real_time: of the event as it was
    recorded, seconds since the group's start and since the epoch. chain: the call site and its callers, innermost first.
    expected, actual: one line each. events: five of the node's events before, the one that differs, five after."""
    node_name: str
    thread: int | None
    kind: str
    call: str
    logical_time: float
    real_time: float
    expected: str
    actual: str
    chain: Any
    events: Any

    def __init__(self, message: str='', *, node: int | None=None, event: int | None=None, node_name: str='', thread: int | None=None, kind: str='', call: str='', logical_time: float=0.0, real_time: float=0.0, expected: str='', actual: str='', chain: Sequence[Mapping[str, Any]]=(), events: Sequence[Mapping[str, Any]]=()) -> None:
        ...


@dataclass(frozen=True)
class CodePlace:
    """A place in a program's code. What is not known is empty or 0."""
    address: int
    function: str
    offset: int
    """in the function"""
    module: str
    """"libc.so.6\""""
    module_offset: int
    file: str
    """of the source"""
    line: int
    text: str
    """all of it for people"""


@dataclass(frozen=True)
class NearEvent:
    """A recorded event beside the one that differs."""
    index: int
    differs: bool
    text: str


class BadRecording(Error):
    """A recording that cannot be used: truncated, corrupt, of another version, or of another machine."""


class ComponentDied(Error):
    """gdb, a node's process or another part of Friday ended by itself."""


class Unsupported(Error):
    """Understood, but not possible here."""


class AtError(SyntaxError):
    """A mistake in `@` syntax. `lineno` and `offset` (both from 1) point into the user's text; `readings` holds the
    possible meanings when the text is ambiguous, else it is empty."""
    readings: tuple[str, ...]

    def __init__(self, message: str, *, filename: str='<friday>', lineno: int=1, offset: int=1, text: str='', readings: tuple[str, ...]=()) -> None:
        ...


class Stop(Protocol):
    """Why `resume` returned. Attributes that make no sense for the kind are None, `ids` is then empty."""
    kind: str
    """breakpoint | watch | timer: `ids` is not empty; exit: `node` ended, the group can go on; end: the end of the
    recording; divergence: nothing can go on; interrupt: Ctrl-C or `interrupt()`; pause: the timeout of `resume`;
    step: `step` is done; reached: `run_to` is done. At `timer` and `reached` the node stands before an event, and
    `logical_time` is that event's: all before it in the group's order is done."""
    ids: tuple[int, ...]
    """all enabled stop points hit by this event, ascending; conditions held, ignore counts used"""
    node: int
    thread: int | None
    """virtual thread number"""
    location: str | None
    """"process_data at chord.c:58", or the address"""
    changes: dict[int, tuple[str, Any | None, Any | None]]
    """watch: of each of `ids` the expression that changed, its old and its new value (None: undefined). Else empty."""
    logical_time: LogicalTime
    real_time: float
    """seconds since the epoch on the node's clock, as recorded"""
    event: int | None
    """index of the node's event at or before the stop"""
    message: str | None
    """exit: how it ended; divergence: the diff; else what the user should know (a bad condition)"""
    divergence: Mapping[str, Any] | None
    """what `errors.Divergence` takes besides its message"""


class LogicalTime(Hashable, Protocol):
    """A point in the group's total order: immutable, ordered, hashable; str() is the form that commands accept."""

    def __lt__(self, other: Any, /) -> bool:
        ...


class NodeInfo(Protocol):
    """What is known of a node from the recording; it never changes."""
    id: int
    name: str
    """"redis-1", forked "redis-1/child-1", restarted "redis-1#2\""""
    program: str
    """path of the executable"""
    parent: int | None
    """the node that forked it"""
    previous: int | None
    """the node of the same name before a restart"""


class Backend(Protocol):
    """A replayed group. Methods of the hot path are marked; the rest may cost a turn of gdb."""

    def nodes(self) -> Sequence[NodeInfo]:
        """All nodes of the recording by ascending id, whether started or not."""

    def states(self) -> Sequence[str]:
        """For each node of `nodes()`: "not started", "alive" or "ended", at the current logical time."""

    def undescribed(self) -> Sequence[int]:
        """Ids of the nodes whose program has no debug information anywhere, ascending."""

    def alive(self) -> Sequence[int]:
        """Ids of the nodes alive now, ascending. Hot: `__ALL__`."""

    def logical_time(self) -> LogicalTime:
        """Now. Hot."""

    def real_time(self, node: int) -> float:
        """Seconds since the epoch on the node's clock at its current position. Hot."""

    def event(self, node: int) -> int:
        """Index of the node's last event done."""

    def event_count(self, node: int) -> int:
        """How many events the node has in the recording."""

    def events(self, node: int, first: int, count: int) -> Sequence[tuple[int, str]]:
        """(index, text) of at most so many of the node's events, from `first` on."""

    def outputs(self, node: int) -> Sequence[int]:
        """The node's events that write to its standard output or error, ascending."""

    def find_time(self, seconds: float) -> tuple[int, int] | None:
        """(node, event) of the group's first event at or after a logical time; None when there is none."""

    def clock_span(self, node: int) -> tuple[float, float]:
        """Real times of the node's first and last event, as `real_time`."""

    def find_clock(self, node: int, seconds: float) -> int | None:
        """The node's first event at or after a real time."""

    def sync(self) -> str:
        """"clock", "causal" or "free"."""

    def progress(self) -> tuple[float, float]:
        """(part of the recording's logical time that is done, 0 to 1; events per second of late)."""

    def altered(self, node: int) -> LogicalTime | None:
        """Since when a write or call has changed the program state of the node; None when it is as recorded."""

    def plan(self, expression: str) -> int:
        """A number for an expression of C or C++, to be given to `read`. Cheap, the same text may get a new number:
        nothing is compiled before a node is read, since the meaning depends on its program and frame. Never fails."""

    def forget(self, plan: int) -> None:
        """The plan is used no more."""

    def read(self, node: int, plan: int) -> Any:
        """Hot. Evaluates in the frame where the node stands, then in its program. Works on ended nodes (last state).
        An expression that calls functions of the program runs them as `LANGUAGE` says: in native mode, string literals
        in the node's workspace, the node marked altered unless only the workspace changed. An array has all its bytes.
        References and typedefs of the outermost type are followed; a char* is not (see `read_string`)."""

    def write(self, node: int, target: str, value: str) -> None:
        """`target = value` in C. A target `(TYPE)_friday_workspace` means the workspace seen as TYPE, also for structs.
        Marks the node altered unless it is the workspace. An ended node raises NodeEnded."""

    def write_bytes(self, node: int, target: str, data: bytes) -> None:
        """Overwrites the object that target names; the sizes must be equal. Marks as `write` does."""

    def read_string(self, node: int, address: int) -> bytes:
        """The bytes from address up to a NUL, without it, 64 KiB at most. Raises BadAddress."""

    def read_memory(self, node: int, address: int, size: int) -> bytes:
        """The bytes there, all of them. Raises BadAddress."""

    def stage(self, node: int, data: bytes) -> int:
        """Copies data into the node's workspace, 16-byte aligned, where neither the user's own use of it nor `stage`
        touches it until the next `read` or `write` of the node is done; returns the address. For struct arguments."""

    def types(self, type_id: int | str) -> str:
        """The JSON table {"types": {ID: ...}} that holds the type and all types it refers to, in the form that the head
        of values.py gives. Ids are unique in the session; nodes of one program share them. Asked once an id."""

    def call_timeout(self) -> float:
        """Seconds that a called function may take."""

    def set_call_timeout(self, seconds: float) -> None:
        ...

    def prepare(self, nodes: Sequence[int]) -> None:
        """Starts the gdbs of nodes that are all about to be asked something: they then start at the same time."""

    def gdb(self, node: int, command: str) -> str:
        """The text that the node's gdb prints for a command. Raises BadExpression with gdb's message."""

    def endpoint(self, node: int) -> str:
        """The path of a socket where another gdb finds the node: `target remote PATH`. It is served by `pump`."""

    def backtrace(self, node: int) -> str:
        """The current thread's stack as text, one frame a line."""

    def messages(self, node: int | None, limit: int) -> Sequence[Message]:
        """The last `limit` messages (of a node, or of all) that were sent or received by now, the latest last."""

    def message(self, number: int) -> Message:
        """Any message of the recording. Raises UsageError."""

    def find_messages(self, sources: Sequence[int] | None, targets: Sequence[int] | None) -> Sequence[Message]:
        """All messages of the recording in the order of receipt, or those of some senders and receivers."""

    def last_received(self, node: int) -> Message | None:
        """The last message that a node has received by now. Hot: each violation has it."""

    def take_notices(self) -> Sequence[str]:
        """What happened beside the commands since the last call and the user should know: a gdb that had to be replaced."""

    def take_output(self) -> Sequence[tuple[int, int, bytes]]:
        """What the programs have written to their terminals since the last call: (node, 1 or 2, bytes)."""

    def add_breakpoint(self, nodes: Sequence[int], location: str, condition: str | None) -> int:
        """Sets a breakpoint (FUNC, FILE:LINE, *ADDR) on the nodes, those too that have not started; returns a global
        id > 0, never reused, one sequence with watches and timers. A location that no program has raises NoSymbol."""

    def add_watch(self, nodes: Sequence[int], expressions: Sequence[str], condition: str | None) -> int:
        """Stops after a write that changes the value of any of the expressions; `FUNC::LOCAL` arms at each entry of
        FUNC; `*0xADDR` watches an int. Each node resolves the text for itself, in the frame where it stands."""

    def add_timer(self, seconds: float) -> int:
        """Stops at a cut each time the group's logical time has gone on by so many seconds; `node` is the one whose
        event comes next."""

    def delete(self, id: int) -> None:
        """Forgets a stop point; allowed for one that was just hit. Unknown ids raise UsageError, here and below."""

    def enable(self, id: int, on: bool) -> None:
        ...

    def ignore(self, id: int, count: int) -> None:
        """Lets the next count hits pass."""

    def condition(self, id: int, condition: str | None) -> None:
        """Sets or clears the condition, C in the scope of the stop. One that cannot be evaluated counts as true, and
        the stop's message says so."""

    def resume(self, timeout: float | None) -> Stop:
        """Hot. Runs the group until something of `Stop.kind` happens; with a timeout, returns `pause` after so many
        seconds of this machine's time. Honours Ctrl-C. Raises ComponentDied."""

    def step(self, node: int, command: str) -> Stop:
        """Steps one node by gdb's step, next, stepi, nexti or finish; the others follow the order. Ends with `step` or
        with what came before it."""

    def run_to(self, node: int | None, event: int, timeout: float | None) -> Stop:
        """Runs forward, over stop points, until the node stands before its event: `reached`, or what came before it, as
        `resume`; node None: to the end. An event that is done already raises UsageError."""

    def settle(self) -> None:
        """The group stands for longer: what one `resume` keeps for the next, the one processor of all nodes, is given up."""

    def interrupt(self) -> None:
        """Makes a running `resume` return; the one method that any thread may call."""

    def patch_stores(self) -> bool:
        """Whether stores that fault on watched pages in vain are patched."""

    def set_patch_stores(self, on: bool) -> None:
        ...

    def restart(self, sync: str | None=None) -> None:
        """Back to the start of the recording, with another order if one is given; stop points stay, altered marks go."""

    def gdb_start(self, when: str | None=None) -> str:
        """Sets and returns when a node gets its gdb: "background" (at once) or "lazy" (when first asked what needs one)."""

    def gdb_count(self) -> int:
        """How many gdbs there are."""

    def close(self) -> None:
        """Ends all processes of the replay."""

    def fds(self) -> Sequence[int]:
        """Descriptors to wait for reading on; they change from call to call."""

    def pump(self, timeout: float) -> None:
        """Serves what is ready, waiting for it at most so many seconds."""
