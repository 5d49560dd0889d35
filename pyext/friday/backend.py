"""The contract between the Python half of Friday and the replay core: what `_friday.Session` (C++) offers.

`Session` (session.py) is written against the protocol `Backend` only; tests/unit/fake_backend.py is another
implementation, in memory. The backend knows nothing of handlers, of `@` syntax or of the namespace.

It is made by `_friday.Session(recording: str, nodes: str | None, sync: str, symbols: list[str], unconfined: bool)`: the path, a node list or None
for all, "clock", "causal" or "free", and directories of separate debug information; it raises BadRecording, NoNode, UsageError and ComponentDied.

Rules for all methods:
 1. Called from one thread, never concurrently, never from inside `resume`. `resume`, `step`, `restart`, `write` and a
    `read` that calls a function of the program may take long: they release the GIL.
 2. A node is its id, an int; a position of the group is a logical time. Ids that do not exist raise NoNode.
 3. Failures are raised as the classes of friday.errors (`errors.by_code`), with node and event where they are known:
    NoSymbol(nearest=), OutOfScope, OptimizedOut, BadExpression, BadAddress(address=), NodeNotStarted, NodeEnded,
    CallFailed(how=), ComponentDied, BadRecording, UsageError. Nothing else than these (and MemoryError) comes out.
 4. Nothing is printed.
 5. Between two `resume`s the group stands at one consistent cut: the node that triggered stands just after the write
    (watch) or before the instruction (breakpoint), all others at the same logical time.
"""
from __future__ import annotations

import builtins
from typing import Any, Callable, Hashable, Mapping, Protocol, Sequence

RawValue = tuple["int | str", bytes, "int | None"]
"""(type id, the value's bytes in memory order, the address it was read from or None for a temporary)."""


class LogicalTime(Hashable, Protocol):
    """A point in the group's total order: immutable, ordered, hashable; str() is the form that commands accept."""

    def __lt__(self, other: Any, /) -> bool: ...


class NodeInfo(Protocol):
    """What the recording says about a node; it never changes."""
    id: int
    name: str  # "redis-1", forked "redis-1/child-1", restarted "redis-1#2"
    program: str  # path of the executable
    alias: str  # the name that was given to the wrapper that started this program ("redis-1" of "redis-1/exec-1"); else ""
    parent: int | None  # the node that forked it
    previous: int | None  # the node of the same name before a restart


class Bytes(Protocol):
    """Bytes of memory or of a register; str() is the register, or the address."""
    where: str  # "memory", "general" or "vector"
    low: int  # the address; in registers 8 times, or in vectors 64 times, the number of the register, plus the number of the byte
    size: int


class Input(Protocol):
    bytes: Bytes
    value: "builtins.bytes"
    part_at: int
    part_of: int  # 0: no part
    mark: str | None
    written: bool


class Hop(Protocol):
    """One step on the way back of a value (core/origin/origin.h)."""
    how: str
    node: int
    thread: int
    mark: str
    pc: int
    bytes: Bytes
    value: "builtins.bytes"
    text: str
    inputs: Sequence[Input]


class Message(Protocol):
    """One transfer through a socket or pipe. An end is None if it is not among the replayed nodes, or is the same node."""
    number: int  # from 1, by time of receipt
    source: int | None
    source_event: int | None  # the call that sent it
    sent: "LogicalTime | None"
    is_sent: bool  # so far
    target: int | None
    target_event: int | None  # the call that received it
    received: "LogicalTime | None"
    is_received: bool
    bytes: int
    channel: str  # "stream", "datagram" or "pipe"


class Stop(Protocol):
    """Why `resume` returned. Attributes that do not apply to the kind are None (`ids` is empty)."""
    kind: str
    """breakpoint, watch, timer, catch: stop points were hit, and `ids` is not empty; exit: `node` ended, and the group can go on (`ids` has
    the catchpoints for the signal that ended it); end: the end
    of the recording; divergence: the replay diverged and cannot go on; failure: the replay failed for a reason that has nothing to do with the
    recording, and cannot go on; interrupt: Ctrl-C or `interrupt()`; pause: the timeout of `resume` has passed; step: `step` is done;
    reached: `run_to` is done. At `timer`, `catch` and `reached` the node stands before an event, `logical_time` is the time of this event, and all
    events before it in the group's order are done."""
    ids: tuple[int, ...]  # all enabled stop points hit by this event, ascending; conditions held, ignore counts used
    node: int
    thread: int | None  # virtual thread number
    location: str | None  # "process_data at chord.c:58", or the address
    changes: "dict[int, tuple[str, RawValue | None, RawValue | None]]"
    """At a watch: for each of `ids` the expression that changed, its old value and its new value (None: undefined). Otherwise empty."""
    writer: "tuple[int, int, str] | None"
    """At a watch, if another node has stored to memory that it shares with `node`: the id of that node, its thread and the place. Otherwise None."""
    logical_time: LogicalTime
    real_time: float  # seconds since the epoch on the node's clock, as recorded
    event: int | None  # index of the node's event at or before the stop
    mark: str | None  # where the group stands, if that is known without a run that counts: before an event, at an end, and where a stop point was hit that was set before the node's last event
    signal: str | None  # exit: the name of the signal that ended the node
    returned: str | None  # step, by finish: the value that the function returned, with its number in gdb's value history, "$1 = 5"
    caught: str | None  # catch: the event before which the node stands, "write(1, 0x7f3c10, 12) = 12" or "SIGUSR1"
    message: str | None  # exit: how the node ended; divergence: the report; failure: what failed; else a remark for the user (such as a condition that cannot be evaluated)
    divergence: Mapping[str, Any] | None  # the arguments of `errors.Divergence` besides the message


class Backend(Protocol):
    """A replayed group. Methods of the hot path are marked; the rest may have to ask gdb."""

    # -- nodes and time ----------------------------------------------------------------------------------------------
    def nodes(self) -> Sequence[NodeInfo]:
        """All nodes of the recording by ascending id, whether started or not."""
    def states(self) -> Sequence[str]:
        """For each node of `nodes()`: "not started", "alive", "ended", "diverged" or "failed", at the current logical time."""
    def undescribed(self) -> Sequence[int]:
        """Ids of the nodes whose program has no debug information anywhere, ascending."""
    def costs(self) -> Sequence[tuple[str, str, str, int, float, float]]:
        """For each expression that was read: its text ("" for all behind the first 4096), "plan", "call" or "gdb" for who evaluated it the last
        time, why gdb had to, how often it was read, and the seconds of the first time and of all others together."""
    def alive(self) -> Sequence[int]:
        """Ids of the nodes alive now, ascending. Hot: `__ALL__`."""
    def logical_time(self) -> LogicalTime:
        """The group's current logical time. Hot."""
    def real_time(self, node: int) -> float:
        """Seconds since the epoch on the node's clock at its current position. Hot."""
    def events_done(self) -> int:
        """The number of events that all nodes together have done."""
    def event(self, node: int) -> int:
        """The index of the last event that the node has done; -1 if none."""
    def event_count(self, node: int) -> int:
        """The number of events that the node has in the recording."""
    def events(self, node: int, first: int, count: int) -> Sequence[tuple[int, str]]:
        """(index, text) of at most `count` of the node's events, from the index `first` on."""
    def outputs(self, node: int) -> Sequence[int]:
        """The indexes of the node's events that write to its standard output or error, ascending."""
    def output(self, node: int, number: int) -> tuple[int, bytes, int]:
        """What the node's write `number` of `outputs` has written, counted from 0: 1 for standard output or 2 for error, the bytes that the
        recording has of it, and how many it lacks behind these."""
    def find_time(self, seconds: float) -> tuple[int, int] | None:
        """(node, event) of the group's first event at or after a logical time or, if it is negative, so many seconds before the last event;
        None when the recording has no such time."""
    def end_time(self) -> float:
        """The logical time of the last event, in seconds."""
    def clock_span(self, node: int) -> tuple[float, float]:
        """The real times of the node's first and last event, as in `real_time`."""
    def find_clock(self, node: int, seconds: float) -> int | None:
        """The index of the node's first event at or after a real time; None when there is none."""
    def sync(self) -> str:
        """"clock", "causal" or "free"."""
    def progress(self) -> tuple[float, float]:
        """(the part of the recording's logical time that is done, from 0 to 1; recent events per second)."""
    def altered(self, node: int) -> LogicalTime | None:
        """The logical time at which a write or call first changed the program state of the node; None if it is as recorded."""
    def take_inferred(self) -> list[int]:
        """The nodes of which something was read since the last call that may depend on payload which nobody has any more, and which
        was therefore inferred."""

    # -- expressions -------------------------------------------------------------------------------------------------
    def plan(self, expression: str) -> int:
        """A number for an expression of C or C++, for use in `read`. The same text may get another number each time. This is cheap and
        never fails: the expression is compiled when a node is read, since its meaning depends on the node's program and frame."""
    def forget(self, plan: int) -> None:
        """Call when the plan is no longer used."""
    def read(self, node: int, plan: int) -> RawValue:
        """Hot. Evaluates in the frame where the node stands, then in its program. Works on ended nodes (last state).
        If the expression calls functions of the program, these run in native mode, string literals are placed in the node's workspace, and
        the node is marked altered unless only the workspace changed. An array has all its bytes.
        References and typedefs of the outermost type are followed; a char* is not (see `read_string`)."""
    def write(self, node: int, target: str, value: str) -> None:
        """Carries out `target = value` in C. A target `(TYPE)_friday_workspace` is the workspace as a value of TYPE, also for structs. Marks
        the node altered unless the target is in the workspace. Raises NodeEnded for an ended node."""
    def write_bytes(self, node: int, target: str, data: bytes) -> None:
        """Overwrites the object that target denotes; the sizes must be equal. Marks the node altered as `write` does."""
    def read_string(self, node: int, address: int) -> bytes:
        """The bytes from address up to a NUL, without it, 64 KiB at most. Raises BadAddress."""
    def read_memory(self, node: int, address: int, size: int) -> bytes:
        """All `size` bytes at the address. Raises BadAddress."""
    def stage(self, node: int, data: bytes) -> int:
        """Copies data into the node's workspace, aligned to 16 bytes, and returns the address. For arguments that are structs. Neither `stage`
        nor the user's own use of the workspace overwrites the data until the next `read` or `write` of the node is done."""
    def types(self, type_id: int | str) -> str:
        """The JSON table {"types": {ID: ...}} that holds the type and all types it refers to, in the form that the head
        of values.py gives. Ids are unique in the session; nodes of one program share them. It is called once for each id."""
    def call_timeout(self) -> float:
        """Time limit in seconds for a called function."""
    def set_call_timeout(self, seconds: float) -> None: ...
    def prepare(self, nodes: Sequence[int]) -> None:
        """Starts the gdbs of nodes that are about to be used, so that they start in parallel."""
    def gdb(self, node: int, command: str) -> str:
        """The text that the node's gdb prints for a command. Raises BadExpression with gdb's message."""
    def endpoint(self, node: int) -> str:
        """The path of a socket to which another gdb can connect: `target remote PATH`. It is served by `pump`."""
    def backtrace(self, node: int) -> str:
        """The current thread's stack as text, one frame on each line."""
    def messages(self, node: int | None, limit: int) -> Sequence[Message]:
        """The last `limit` messages (of a node, or of all) that have been sent or received so far, the latest last."""
    def message(self, number: int) -> Message:
        """Any message of the recording. Raises UsageError."""
    def message_contents(self, number: int) -> tuple[bytes | None, str | None]:
        """The contents of a message as its receiver got them, or None, and why they are not the whole message, or None."""
    def find_messages(self, sources: Sequence[int] | None, targets: Sequence[int] | None) -> Sequence[Message]:
        """All messages of the recording in the order of receipt, or those of some senders and receivers."""
    def last_received(self, node: int) -> Message | None:
        """The last message that a node has received so far. Hot: each violation includes it."""
    def take_notices(self) -> Sequence[str]:
        """Messages for the user about things that happened independently of commands since the last call, such as a gdb that was replaced."""

    # -- stop points -------------------------------------------------------------------------------------------------
    def add_breakpoint(self, nodes: Sequence[int], location: str, condition: str | None) -> int:
        """Sets a breakpoint (FUNC, FILE:LINE, *ADDR) on the nodes, including those that have not started. Returns a global id above 0, which
        is never reused; watches and timers have ids of the same sequence. Raises NoSymbol for a location that no program has."""
    def add_watch(self, nodes: Sequence[int], expressions: Sequence[str], condition: str | None) -> int:
        """Stops after a write that changes the value of any of the expressions; `FUNC::LOCAL` arms at each entry of
        FUNC; `*0xADDR` watches an int. Each node resolves the text for itself, in the frame where it stands."""
    def add_catch(self, nodes: Sequence[int], what: str, condition: str | None) -> int:
        """Stops the group before each event that `what` names: "syscall write read", "signal SIGUSR1", "fork", "exec"; without names, before each
        system call or signal. A signal of which a node dies is in the `exit` Stop. Raises UsageError for anything else."""
    def add_timer(self, seconds: float) -> int:
        """Stops the group each time `seconds` of logical time have passed. In the Stop, `node` is the node with the next event."""
    def delete(self, id: int) -> None:
        """Deletes a stop point; it may be one that was just hit. Unknown ids raise UsageError, here and below."""
    def enable(self, id: int, on: bool) -> None: ...
    def places(self, id: int) -> Sequence[tuple[int, int | None, str]]:
        """Where a breakpoint stands on the nodes that run: (node, address, "function at file:line"), or (node, None, reason) where it is pending."""
    def was_placed(self, id: int) -> bool:
        """Whether a stop point has ever been placed on a node; one that waits for a library that is never loaded has not."""
    def ignore(self, id: int, count: int) -> None:
        """Ignores the next `count` hits."""
    def condition(self, id: int, condition: str | None) -> None:
        """Sets or clears the condition, C in the scope of the stop. One that cannot be evaluated counts as true, and
        the stop's message says so."""

    # -- running -----------------------------------------------------------------------------------------------------
    def resume(self, timeout: float | None = None, last: "tuple[int, int] | None" = None) -> Stop:
        """Hot. Runs the group until something of `Stop.kind` happens; with a timeout, returns `pause` after so many
        seconds of this machine's time. Honours Ctrl-C. Raises ComponentDied."""
    def step(self, node: int, command: str) -> Stop:
        """Steps one node by gdb's step, next, stepi, nexti or finish; the others follow the order. Ends with `step` or
        with what came before it."""
    def run_to(self, node: int | None, event: int, timeout: float | None) -> Stop:
        """Runs forward, ignoring stop points, until the node stands before its event (kind `reached`) or something else stops the
        group, as in `resume`. With node None, runs to the end. An event that is already done raises UsageError."""
    def step_back(self, node: int) -> "Stop | None":
        """Goes back over the last instruction of the node's current thread. None if it has executed none before: the group stands where
        it stood then. Raises as `run_back` does."""
    def run_back(self, passed: list[int], accepts: "Callable[[Stop], bool] | None" = None) -> "Stop | None":
        """Runs back to the last hit before the place where the group stands; hits of the stop points in `passed` do not count, nor those
        for which `accepts`, called where the group stands at the hit, is false. None if there is none, and an `interrupt` after
        Ctrl-C: the group stands where it stood then. Raises Unsupported in another order than "clock" and if a node is altered, and
        what `accepts` raises."""
    def position(self) -> str:
        """The mark of the place where the group stands, or "start". The group may go back to count, and comes here again. Raises as
        `run_back` does, and KeyboardInterrupt after Ctrl-C."""
    def go_to_mark(self, mark: str) -> Stop:
        """Brings the group to a mark, over all stop points; altered marks are cleared if it goes back. Raises UsageError for what is no
        mark or no place of this recording, Unsupported in another order than "clock", ComponentDied."""
    def origin(self, node: int, where: str, low: int, size: int, bits: "tuple[int, int]", most: int, found: "Callable[[int, str], None] | None") -> "Sequence[Hop]":
        """Follows bytes of a node back, at most `most` hops; the group stands elsewhere then. where, low: as in Bytes. bits: of a bit-field,
        the number of its first bit in the bytes and how many it has; else (0, 0). found: called with the node and the kind of each hop, in
        the middle of the search, so it must not ask the session. Raises AtError if
        they cannot be read, Unsupported in another order than "clock" and if a node is altered, KeyboardInterrupt, ComponentDied."""
    def new_checkpoints(self) -> "list[tuple[int, int]]":
        """The number, and the events of all nodes, of each checkpoint that was made since the last call."""
    def checkpoint_numbers(self) -> "list[tuple[int, int]]":
        """The same of each checkpoint that there is."""
    def note_copy(self, seconds: float) -> None:
        """Call if more was copied for a checkpoint, which has taken so long: its cost counts too."""
    def drop_checkpoints(self, events: int) -> None:
        """Drops the checkpoints behind the place after so many events of all nodes."""
    def come_again(self, number: int, each: "Callable[[Stop], None]") -> bool:
        """Runs from the checkpoint of this number to where the group stands, and calls `each` with the stop at each hit and each end of a
        node on the way. False if there is no such checkpoint any more. Raises Unsupported, KeyboardInterrupt, ComponentDied."""
    def note_move(self, tag: int = 0) -> None:
        """Call before a command of the user moves the group: `undo` comes back to here. tag: the caller's."""
    def drop_move(self) -> None:
        """Call if the command has not moved it after all."""
    def come_back(self) -> None:
        """Brings the group to where it stood at the last `note_move`, for good: there is nothing to redo then."""
    def cut_named(self, place: str) -> int:
        """The position of a place, a mark or a time in seconds: how many events of all nodes come before. Raises UsageError."""
    def total_events(self) -> int:
        """How many events all nodes together have."""
    def at_position(self, position: int) -> tuple[int, int]:
        """The node and event at a position of the total order, from 0."""
    def undo(self, forward: bool = False, tag: int = 0) -> "tuple[Stop, int] | None":
        """Brings the group to where it stood at the last `note_move`; `forward`: to where it stood before the last `undo`. tag: for the
        place where it stands now. Returns the stop and the tag of the place, None if there is no such place."""
    def release_processor(self) -> None:
        """Call when the group will stand for a while: releases the binding to one processor, which one `resume` keeps for the next."""
    def interrupt(self) -> None:
        """Makes a running `resume` return. The only method that any thread may call."""
    def interrupt_waits(self) -> bool:
        """Whether the group was interrupted (by Ctrl-C, too) and has stopped for another reason before it could answer. The next
        `resume` answers."""
    def clear_interrupt(self) -> None:
        """Forgets an interrupt that has not been answered."""
    def patch_stores(self) -> bool:
        """Whether stores that repeatedly fault on watched pages without touching a watched byte are patched."""
    def set_patch_stores(self, on: bool) -> None: ...
    def restart(self, sync: str | None = None) -> None:
        """Goes back to the start of the recording, optionally with another order. Stop points stay, altered marks are cleared."""
    def approach(self, node: int, event: int) -> bool:
        """Brings the group to the last checkpoint before the node's event; to the start, if the event is past and there is no
        checkpoint. Leaves it if it is as near. True if it has moved: then altered marks are cleared."""
    def set_checkpoints(self, on: bool | None = None, budget: int | None = None) -> None:
        """Whether runs make checkpoints, and how much memory they may take, in bytes."""
    def checkpoint(self) -> None:
        """Makes a checkpoint where the group stands. Raises Unsupported where that is not possible."""
    def checkpoints(self) -> "dict[str, Any]":
        """`on` and `budget` as set; `refusal`: why none are made, or empty; `kept`: of each its events, its logical time, its
        processes and the bytes that only it holds (an estimate)."""
    def gdb_start(self, when: str | None = None) -> str:
        """Sets and returns when a node gets its gdb: "background" (at once) or "lazy" (when first asked what needs one)."""
    def gdb_count(self) -> int:
        """How many gdbs there are."""
    def close(self) -> None:
        """Ends all processes of the replay."""

    # -- while a prompt waits ----------------------------------------------------------------------------------------
    def fds(self) -> Sequence[int]:
        """Descriptors to wait for reading on; they change from call to call."""
    def pump(self, timeout: float) -> None:
        """Serves what is ready, waiting for it at most so many seconds."""
