"""The session: one object in the console, in `friday run`, in pytest and in a plain interpreter.

It sets stop points with handlers on a replayed group and runs it. Everything that `@` syntax says has a plain spelling:

    session = friday.Session("ring.rec")

    @session.watch("srv.successor")
    def check():
        node = session.node
        assert node.read("srv.node.id") == session.nodes["n3"].read("srv.predecessor->id")

    session.run()

A stop point without a handler stops the group. With a handler it stops unless the handler executes `cont` when it was
set from the console; set by a script or a decorator the group goes on unless the handler calls `friday.stop()`.
"""
from __future__ import annotations

import functools
import os
import re
import sys
import time
import types
from typing import Any, Callable, Sequence, TypeVar

from .answers import named
from .backend import Backend, Stop
from .costs import Cost, costs_of
from .dispatch import Dispatch
from .errors import BadExpression, ComponentDied, Divergence, NoSymbol, UsageError
from .handlers import Continue, Handler, bound_names, compile_script, register_source
from .language import Decoders, Plans, c_text, hidden_names, make_read, split_expressions
from .messages import Message, with_nodes
from .nodes import Node, NodeMap, Nodes
from .origins import Hop
from .spans import Change
from .past import Past
from .points import Hit, StopPoint
from .recordings import Recording, Step
from .signals import Handling
from .states import States
from .teaching import Names, refuse_changes
from .tracing import Tracer
from .tree import parse
from .until import Until
from .values import Array, Raw, Struct, Type, TypeTable
from .violations import Violation

Progress = Callable[[float, float], None]
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _check_captured(name: str, captured: dict[str, Any]) -> None:
    if captured:
        raise UsageError(f"`{', '.join(captured)}` would be a value for the handler, but there is no handler: write it as indented lines below `{name}(...)`")


def _first_time(method: _Method) -> _Method:
    """What a handler sets up stays when the group goes back, so nothing is set up when the handler runs again (states.py)."""
    @functools.wraps(method)
    def once(self: "Session", *arguments: Any, **named: Any) -> Any:
        return None if self.states.again else method(self, *arguments, **named)
    return once  # type: ignore[return-value]


EXCEPTIONS = {"throw": "__cxa_throw", "rethrow": "__cxa_rethrow", "catch": "__cxa_begin_catch"}  # what `catch` names, and the function of the C++ library
_NAMED = re.compile(r"(?:-l\s+)?[A-Za-z_]")  # an expression that begins with a name


class Session(Past, Dispatch):
    """A replayed group. `backend` is the path of a recording, or a backend that is already open.

    nodes: the nodes to replay, as a node list (by default all); sync: the order, "clock", "causal" or "free"; console: handlers set
    by commands stop the group unless they execute `cont`, and `run` returns at Ctrl-C instead of raising; symbols: directories
    with `.build-id/` of separate debug information, searched before /usr/lib/debug; unconfined: replays without the filter of
    system calls that keeps the replayed programs from this machine (docs/security.md), for a recording that you trust. Raises
    BadRecording, UsageError, NoNode."""

    def __init__(self, backend: "Backend | str | os.PathLike[str]", *, nodes: str | None = None, sync: str = "clock",
                 console: bool = False, symbols: Sequence[str] = (), unconfined: bool = False) -> None:
        self.recording: str = os.fspath(backend) if isinstance(backend, (str, os.PathLike)) else ""  # its path
        if isinstance(backend, (str, os.PathLike)):
            import _friday  # the core; not needed if the backend is already open
            backend = _friday.Session(os.fspath(backend), nodes, sync, list(symbols), unconfined)
        self.backend: Backend = backend  # the core itself
        self.state: Any = types.SimpleNamespace()  # for what handlers collect; it goes back in time with the group
        self.states = States(self)
        self.console = console
        self.collecting = False  # assertions in handlers become violations instead of leaving run()
        self.violations: list[Violation] = []  # the violations found, at most max_violations
        self.violations_dropped = 0  # how many further violations there were
        self.max_violations = 1000
        self.checks: list[Any] = []  # the predicates that have set themselves up (predicates/check.py)
        self.tracer: Tracer | None = None  # traces violations, for `friday run --origin`
        self.on_traced: Callable[[Violation], None] | None = None  # called with each violation that it has traced
        self.on_violation: Callable[[Violation], None] | None = None  # called with each violation as it is found
        self.on_hop: Callable[[str], None] | None = None  # told of each hop that an origin finds, in words
        self.on_progress: Progress | None = None  # as `progress` of run(), but for all runs
        self.helpers_ended: list[Stop] = []  # ends of short-lived processes that the console has not said yet
        self.on_exit: Callable[[Stop], None] | None = None  # called when a node has ended, after the functions of `at_exit`; the group goes on unless it calls `stop()`
        self.points: dict[int, StopPoint] = {}  # the stop points by their global ids
        self.hits = 0  # how often stop points were hit, also those that have been deleted
        self.types = TypeTable(backend.types)
        self.plans = Plans(backend)
        self.decoders = Decoders(self)
        self.ended: set[int] = set()  # ids of the nodes that have ended
        self.nodes = Nodes(self, backend.nodes(), lambda: self.backend.states())  # all nodes of the recording
        self._arrays: dict[tuple[int, str], Type] = {}  # the types of expressions that were seen to be arrays
        self.names = Names(self)
        self.signals = Handling(self)  # what the console does about signals of the nodes: `handle`
        self.listed: dict[int, Any] = {}  # where each node stood at the last `list`
        self.scope = "node"  # whom the console's gdb commands mean without a node list: "node", the selected one, or "group", all
        self.bookmarks: dict[str, str] = {}  # the console's: marks by name
        self._searches = False  # the group stands at places that the user has not asked for
        self.hops: list[Hop] = []  # of the console's last `origin`
        self.changes_listed: list[Change] = []  # by the console's last `when`
        self.aliases: dict[str, str] = {}  # the console's aliases, each with the start of the command that it stands for
        self.here: int = next(iter(backend.alive()), 0)  # the node that a bare @() refers to
        self.last_stop: Stop | None = None  # why the group stopped; None before the first run
        self.read: Callable[..., Any] = make_read(self)  # (node or None for the current one, a C expression): its value
        self._point: StopPoint | None = None
        self._standing: Stop | None = None  # the last stop, while the group still stands at it
        self._told: set[int] = set()  # stop points whose unevaluable condition has been reported
        self._ended_noted: set[int] = set()
        self.at_end_functions: list[Callable[[], Any]] = []
        self.at_exit_functions: list[Callable[[Stop], Any]] = []
        self._after_handlers: list[StopPoint] = []  # of commands: their handlers are called when those of the user have run at an event
        self._executed = 0
        self._running = False
        self._in_handler = False
        self._passing = False  # on the way to a place
        self.stop_asked = False
        self.finished = False  # the group is at the end of the recording, or at `last_place`
        self.last_place: tuple[int, int] | None = None  # (node, event) before which run() ends as at the end of the recording
        self._has_run = False  # run() was called
        self.moves = 0  # how often the group may have moved; what was read before is old
        self.restarts = 0  # how often the group went back while handlers kept what they had collected: that belongs to an earlier run
        self.namespace: dict[str, Any] = {"session": self}  # what the console's `py` and scripts see
        self.namespace.update({"__name__": "__friday__", "__builtins__": __builtins__,
                               "watchpoint": self._watchpoint, "breakpoint": self._breakpoint})
        self.namespace["friday"] = sys.modules[__package__]
        self.namespace.update(hidden_names(self))
        self._preset = frozenset(self.namespace)
        self._refresh_ended()
        if console:
            self.set_checkpoints(True, names=True)

    def __repr__(self) -> str:
        return f"<session of {len(self.nodes)} nodes at {self.logical_time}, {len(self.points)} stop points>"

    # -- where we are ------------------------------------------------------------------------------------------------
    @property
    def node(self) -> Node:
        """`__NODE__`: the node that triggered; between runs the selected one. Can be set."""
        return self.nodes.all[self.here]

    @node.setter
    def node(self, node: Any) -> None:
        self.here = int(self.nodes[node])

    @property
    def all_nodes(self) -> tuple[Node, ...]:
        """`__ALL__`: the nodes alive now."""
        every = self.nodes.all
        return tuple([every[i] for i in self.backend.alive()])

    @property
    def every_node(self) -> tuple[Node, ...]:
        """`__EVERY__`: all nodes of the recording."""
        return self.nodes.all

    @property
    def logical_time(self) -> Any:
        """`__LOGICALCLOCK__`: the present logical time of the group; it is ordered and hashable."""
        return self.backend.logical_time()

    @property
    def real_time(self) -> float:
        """`__REALCLOCK__`: the present real time in seconds since 1970, on the clock of `node`."""
        return self.backend.real_time(self.here)

    def stands_at(self, stop: Stop) -> bool:
        """Whether the group still stands at that stop."""
        return self._standing is stop

    @property
    def hit(self) -> Hit | None:
        """`__HIT__`: the hit that triggered the handler; None before the first stop."""
        return None if self.last_stop is None else Hit(self, self.last_stop, self._point)

    def changes(self, stop: Stop) -> list[Hit]:
        """One Hit for each watchpoint that a stop changed, as its handler sees it."""
        return [Hit(self, stop, None, id_) for id_ in stop.changes]

    @property
    def altered(self) -> dict[Node, Any]:
        """The nodes whose program state the user has changed, with the logical time of the first change."""
        return {node: since for node in self.nodes if (since := node.altered) is not None}

    @property
    def costs(self) -> tuple[Cost, ...]:
        """What each expression that was read has cost, and who evaluated it; the dearest first."""
        return costs_of(self)

    def id_of(self, node: Any) -> int:
        """The node id for a NODE in `@NODE(...)`; None means the current node."""
        return self.here if node is None else int(self.nodes[node])

    def choose(self, nodes: Any) -> tuple[Node, ...]:
        """The nodes of a stop point: None for all, a node list (names follow restarts), an id, or several."""
        if nodes is None:
            return self.nodes.all
        if isinstance(nodes, str):
            return self.nodes.parse(nodes, every=True)
        if isinstance(nodes, int):
            return (self.nodes[nodes],)
        return tuple(sorted({node for choice in nodes for node in self.choose(choice)}))

    @functools.cached_property
    def _steps(self) -> "list[Step]":
        """Recording.steps() of what is replayed, which is read from the recording once."""
        return Recording(self.recording).steps() if self.recording else []

    # -- messages ----------------------------------------------------------------------------------------------------
    def messages(self, *, src: Any = None, dst: Any = None) -> list[Message]:
        """All messages of the recording in the order of receipt, including those after the current position; `src` and `dst` select the
        sending and receiving nodes (as for a stop point: a node list, an id, or several). A message that no replayed node received
        is ordered by its send. Raises NoNode."""
        source, target = (None if nodes is None else [int(node) for node in self.choose(nodes)] for nodes in (src, dst))
        return [with_nodes(self, raw) for raw in self.backend.find_messages(source, target)]

    def last_message(self, node: Any = None) -> Message | None:
        """The last message that a node, by default `node`, has received by now."""
        raw = self.backend.last_received(self.id_of(node))
        return None if raw is None else with_nodes(self, raw)

    # -- values ------------------------------------------------------------------------------------------------------
    def call(self, node: Any, function: str, *arguments: Any) -> Any:
        """Calls a function of the program on a node with Python values or snapshots; see Node.call."""
        where = self.id_of(node)
        return self.read(where, f"{function}({', '.join(c_text(self, where, value) for value in arguments)})")

    @property
    def call_timeout(self) -> float:
        """The time limit in seconds for a called function of the program. A call that exceeds it is stopped and undone."""
        return self.backend.call_timeout()

    @call_timeout.setter
    def call_timeout(self, seconds: float) -> None:
        self.backend.set_call_timeout(float(seconds))

    def assign(self, node: Any, target: str, value: Any) -> None:
        """Assigns a Python value or a snapshot on a node; see Node.write."""
        where = self.id_of(node)
        try:
            if isinstance(value, (Struct, Array, Raw)):
                self.backend.write_bytes(where, target, value.bytes)
            else:
                self.backend.write(where, target, c_text(self, where, value))
        except NoSymbol as error:
            raise self.names.teach(where, target, error) from None

    def backtrace(self, node: Any = None) -> str:
        """The stack of the current thread of a node, by default of `node`, with one frame on each line."""
        return self.backend.backtrace(self.id_of(node))

    def gdb(self, command: str, *, nodes: Any = None) -> dict[Node, str]:
        """The output of a gdb command on each node, by default on all nodes alive. Raises BadExpression with gdb's message."""
        chosen = self.all_nodes if nodes is None else self.choose(nodes)
        self.backend.prepare([int(node) for node in chosen])
        return {node: self._ask_gdb(int(node), command) for node in chosen}

    def _ask_gdb(self, node: int, command: str) -> str:
        """The output of a gdb command on one node. Raises BadExpression, or NoSymbol and OutOfScope with suggestions."""
        try:
            return self.backend.gdb(node, command)
        except (NoSymbol, BadExpression) as error:
            raise self.names.teach(node, command.partition(" ")[2], error) from None

    @_first_time
    def map(self, name: str, expression: str) -> None:
        """Makes `NAME[key]` the node with that identifier of the application, in code that this session runs; the same as the command
        `map NAME EXPR`. The expression is evaluated at each look-up. It is a mapping between identifiers and nodes, or contains a
        bare `@()`; then its value on each node alive is the node's identifier. Raises UsageError; NAME[key] raises NoNode."""
        if not name.isidentifier():
            raise UsageError(f"`{name}` is not a name of Python; usage: map NAME PYTHON-EXPRESSION")
        code = compile_script(expression, f"<map {name}>", mode="eval")
        self.namespace[name] = NodeMap(self, name, code, expression)
        self._declare()

    def note_ended(self, node: int) -> None:
        """Tells the user, once at each stop, that the values of an ended node are its last ones."""
        if node not in self._ended_noted and not self._searches:
            self._ended_noted.add(node)
            self.notice(f"{named(self.nodes.all[node])} has ended: these are its last values")

    def notice(self, text: str) -> None:
        """Shows the user a message that is not part of the results. The console replaces this method."""
        print(f"friday: {text}", file=sys.stderr)

    # -- stop points -------------------------------------------------------------------------------------------------
    @_first_time
    def breakpoint(self, location: str, handler: Callable[..., Any] | None = None, *, nodes: Any = None,
                   condition: str | None = None, temporary: bool = False) -> StopPoint:
        """Sets a breakpoint at a location (FUNC, FILE:LINE, *ADDR). nodes: a node list, an id, or several (by default all nodes);
        condition: a C expression; temporary: the breakpoint is deleted when it is hit. Without a handler the breakpoint stops the
        group. A handler is called at each hit, with the Hit if it has a parameter, and the group goes on unless the handler calls
        `friday.stop()`. The result can be used as a decorator of the handler. Raises NoSymbol, NoNode, and BadExpression for the
        condition."""
        refuse_changes(condition)
        chosen = self.choose(nodes)
        try:
            id_ = self.backend.add_breakpoint([int(n) for n in chosen], location, condition)
        except NoSymbol as error:
            raise self.names.teach_place([int(n) for n in chosen], location, error) from None
        return self._added(StopPoint(self, "breakpoint", id_, location, chosen, condition, temporary), handler)

    @_first_time
    def watch(self, expressions: str | Sequence[str], handler: Callable[..., Any] | None = None, *, nodes: Any = None,
              condition: str | None = None) -> StopPoint:
        """Sets a watchpoint on C expressions, given as a list or as "a, b". It is hit after each write that changes the value of one
        of them; with "-reads a" after each read, with "-access a" after both (the console's `help watch` has all options).
        `FUNC::LOCAL` is watched from each entry of FUNC on. Nodes, condition and handler are as in `breakpoint`. Raises NoSymbol,
        OutOfScope, NoNode, UsageError."""
        refuse_changes(condition)
        chosen = self.choose(nodes)
        texts = split_expressions(expressions) if isinstance(expressions, str) else list(expressions)
        if not texts:
            raise UsageError("watch needs an expression, such as watch(\"x, y->z\")")
        for text in texts:
            if "::" in text:
                self.names.check_local([int(n) for n in chosen], text)
            elif _NAMED.match(text) and all(node.state == "ended" for node in chosen):
                self._ask_gdb(int(chosen[0]), f"whatis {text.removeprefix('-l ')}")  # reports the errors that setting the watchpoint would not report here
        try:
            id_ = self.backend.add_watch([int(n) for n in chosen], texts, condition)
        except NoSymbol as error:
            raise self.names.teach_place([int(n) for n in chosen], ", ".join(texts), error) from None
        return self._added(StopPoint(self, "watch", id_, ", ".join(texts), chosen, condition, False), handler)

    @_first_time
    def catch(self, what: str, handler: Callable[..., Any] | None = None, *, nodes: Any = None, condition: str | None = None,
              temporary: bool = False) -> StopPoint:
        """Sets a catchpoint. what: "syscall [NAME...]", "fork" or "exec", where the node stops before the call, in it, and `Hit.caught` has its
        arguments and its result; "signal [NAME...]", before a handler of the program is entered, or when the node has died of the
        signal; "throw", "rethrow" or "catch", where the C++ library handles an exception. Without names, every call or signal. Nodes,
        condition and handler are as in `breakpoint`. Raises UsageError, NoNode."""
        refuse_changes(condition)
        chosen = self.choose(nodes)
        ids = [int(n) for n in chosen]
        if function := EXCEPTIONS.get(what.strip()):
            id_ = self.backend.add_breakpoint(ids, f"-pending {function}", condition)
        else:
            id_ = self.backend.add_catch(ids, what, condition)
        return self._added(StopPoint(self, "catch", id_, what.strip(), chosen, condition, temporary), handler)

    @_first_time
    def every(self, handler: Callable[..., Any] | None = None, *, seconds: float) -> StopPoint:
        """Sets a timer: calls the handler each time `seconds` of logical time have passed. Can be used as a decorator. The group then
        stands before the first event at or after that time, and `logical_time` is the time of that event. Raises UsageError if
        `seconds` is not above 0."""
        if not seconds > 0:
            raise UsageError(f"every() needs a time in seconds above 0, got {seconds}")
        id_ = self.backend.add_timer(float(seconds))
        return self._added(StopPoint(self, "timer", id_, f"every {seconds:g} s", self.nodes.all, None, False), handler)

    @_first_time
    def at_end(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Calls a function once when the recording ends. Can be used as a decorator. All nodes then have their last values."""
        self.at_end_functions.append(function)
        return function

    @_first_time
    def at_exit(self, function: Callable[[Stop], Any]) -> Callable[[Stop], Any]:
        """Calls a function with the Stop each time a node has ended. Can be used as a decorator. The end of a node has a place in the
        group's order, like an event; in `clock` order nothing after that place has happened yet. `node` is the node that ended,
        with its last values, and `all_nodes` does not contain it. The group goes on unless the function calls `friday.stop()`."""
        self.at_exit_functions.append(function)
        return function

    def _added(self, point: StopPoint, handler: Callable[..., Any] | None) -> StopPoint:
        self.points[point.id] = point
        if handler is not None:
            point.set_handler(handler, stops=False)
        return point

    def set_block(self, point: StopPoint, source: str, *, filename: str | None = None, first_line: int = 1) -> None:
        """Makes a block of the console's language the handler of a stop point. Raises AtError and SyntaxError."""
        handler = Handler(source, self.namespace, self.declared, filename=filename or f"<{point.kind} {point.id}>",
                          first_line=first_line, label=f"{point.kind} {point.id}")
        point.set_handler(handler, stops=self.console)

    def set_suite(self, kind: str, handler: Callable[[], Any] | None, what: Any, nodes: Any = None,
                  condition: str | None = None) -> StopPoint | None:
        """Carries out `watchpoint(EXPRS, NODES, CONDITION)` and `breakpoint(LOC, ...)` of the language. By default the stop point is set
        on the node that triggered if a handler does this, otherwise on all nodes."""
        chosen = self.here if nodes is None and self._in_handler else nodes
        setter = self.watch if kind == "watch" else self.breakpoint
        point = setter(what, nodes=chosen, condition=condition)
        if point is None:  # the handler runs for another time, and has set it at the first (states.py)
            return None
        if handler is not None:
            label = f"{point.kind} {point.id}"
            handler.__code__ = handler.__code__.replace(co_name=label, co_qualname=label)
            point.set_handler(handler, stops=self.console)
        return point

    def _watchpoint(self, expressions: Any, nodes: Any = None, condition: str | None = None, **captured: Any) -> StopPoint | None:
        """The function `watchpoint(...)` of the language, without a block."""
        _check_captured("watchpoint", captured)
        return self.set_suite("watch", None, expressions, nodes, condition)

    def _breakpoint(self, location: str, nodes: Any = None, condition: str | None = None, **captured: Any) -> StopPoint | None:
        """The function `breakpoint(...)` of the language, without a block."""
        _check_captured("breakpoint", captured)
        return self.set_suite("breakpoint", None, location, nodes, condition)

    def point(self, id_: Any) -> StopPoint:
        """The stop point with a global id. Raises UsageError if there is none."""
        try:
            return self.points[int(id_)]
        except KeyError:
            raise UsageError(f"no stop point {int(id_)}; there are: "
                             f"{', '.join(map(str, self.points)) or 'none'}") from None

    @_first_time
    def delete(self, id_: Any) -> None:
        """Deletes the stop point with a global id. A handler may delete its own. Raises UsageError if there is none."""
        point = self.point(id_)
        self.backend.delete(point.id)
        point.deleted = True
        del self.points[point.id]

    @_first_time
    def enable(self, id_: Any, on: bool = True) -> None:
        """Enables or disables the stop point with a global id. Raises UsageError if there is none."""
        point = self.point(id_)
        self.backend.enable(point.id, on)
        point.enabled = on

    # -- Python in the session's namespace ---------------------------------------------------------------------------
    @property
    def declared(self) -> set[str]:
        """The names that Python in the session has set. A handler that assigns to one of them changes the session's variable."""
        return self.namespace.keys() - self._preset

    def execute(self, source: str, *, filename: str | None = None, first_line: int = 1, echo: bool = False) -> None:
        """Executes Python in Friday's dialect in the session's namespace, as the command `py` does. filename, first_line: where the
        source comes from, for tracebacks; echo: if the source is a single expression, its value is printed."""
        if filename is None:
            self._executed += 1
            filename = f"<py {self._executed}>"
            register_source(filename, source, first_line)
        mode = "single" if echo and "\n" not in source.strip() else "exec"
        code = compile_script(source, filename, first_line=first_line, declared=self.declared, mode=mode)
        before, moves = dict(self.namespace), self.moves
        try:
            exec(code, self.namespace)
        except Continue:
            cont_outside = UsageError("`cont` ends a handler: it has no meaning outside of one")
            raise cont_outside from None
        finally:
            self._declare()
            # If the group has moved, other names may have another value because that is what they were there.
            names = None if self.moves == moves else bound_names(parse(source, filename, mode, first_line).body)
            self.states.set_by_user({name: value for name, value in before.items() if name not in self._preset}, names)

    def _declare(self) -> None:
        declared = self.declared
        for point in self.points.values():
            if isinstance(point.handler, Handler):
                point.handler.declare(declared)
                point.run = point.handler.run

    # -- running -----------------------------------------------------------------------------------------------------
    def run(self, *, progress: Progress | None = None, interval: float = 0.2) -> Stop:
        """Runs the group until a stop point or `stop()` stops it, until Ctrl-C, or to the end of the recording. Returns the Stop, whose
        kind is "end" at the end.

        progress: called about every `interval` seconds with (part done, events per second). Raises Divergence,
        ComponentDied, and what a handler raised (when `collecting`, an AssertionError is a violation instead)."""
        if self._running:
            raise UsageError("the group is running: a handler cannot resume it (leave the handler instead)")
        self.states.will_run()
        self._has_run = True
        resume = self.backend.resume if self.last_place is None else functools.partial(self.backend.resume, last=self.last_place)
        return self._until_stop(resume, progress or self.on_progress, interval)

    def run_until(self, predicate: Callable[[], Any]) -> "tuple[Stop | None, Until]":
        """Runs to the first state in which predicate() is true. Other stop points stop the group as usual. Returns the Stop (None if
        the predicate is already true) and an Until, whose `holds` says whether the predicate is true now. The values that predicate
        reads from nodes are watched; until.py says which cannot be. Raises what `run` and predicate raise."""
        until = Until(self, predicate)
        return until.run(self.run), until

    def _pass_to(self, resume: Callable[[float | None], Stop]) -> Stop:
        """Runs to a place. Crashes on the way are said, and the group goes on."""
        self._passing = True
        try:
            return self._until_stop(resume, self.on_progress, 0.2)
        finally:
            self._passing = False

    def _until_stop(self, resume: Callable[[float | None], Stop], progress: Progress | None, interval: float) -> Stop:
        self._running, self.stop_asked = True, False
        self._ended_noted.clear()
        try:
            while True:
                try:
                    return self._run(resume, progress, interval if progress else None)
                except KeyboardInterrupt:  # it came between two calls of the core
                    self.backend.clear_interrupt()
                    if self._in_handler or not self.console:
                        raise
                    self.backend.interrupt()
        finally:
            self._running = self._in_handler = False
            self.backend.release_processor()
            self._refresh_ended()

    def _run(self, resume: Callable[[float | None], Stop], progress: Progress | None, interval: float | None) -> Stop:
        due = time.monotonic() + (interval or 0.0)
        while True:
            self._standing = None
            self.moves += 1
            stop = self._standing = resume(interval)
            self.states.note(passing=self._passing)
            if stop.kind == "exit":
                halt = self._node_ended(stop)
                if stop.ids and self._dispatch(stop, stop.ids) or halt:
                    self._trace()
                    return stop
                self._trace()
                if self.console and not self._passing and self.signals.at_death(stop.signal)[0]:
                    return stop
                if self.on_exit is not None:
                    self.on_exit(stop)
                    if self.stop_asked:
                        return stop
            elif stop.ids:
                halt = self._dispatch(stop, stop.ids)
                self._trace()
                if halt:
                    return stop
            elif stop.kind != "pause":
                try:
                    return self._stopped(stop)
                finally:
                    self._trace()
            if progress is not None and time.monotonic() >= due:
                progress(*self.backend.progress())
                due = time.monotonic() + interval

    def _trace(self) -> None:
        if self.tracer is not None:
            for violation in self.tracer.trace():
                if self.on_traced is not None:
                    self.on_traced(violation)

    def _stopped(self, stop: Stop) -> Stop:
        self.last_stop, self._point = stop, None
        if stop.kind == "divergence":
            altered = "".join(f"{node!r} was altered since {since}\n" for node, since in self.altered.items())
            about = stop.divergence or {"node": stop.node, "event": stop.event}
            raise Divergence._of(altered + (stop.message or "the replay diverged"), about)
        if stop.kind == "failure":
            error = ComponentDied(stop.message or "the replay cannot go on")
            error.node, error.event = stop.node, stop.event
            raise error
        if stop.kind == "interrupt" and not self.console:
            raise KeyboardInterrupt
        if stop.kind == "end" or stop.kind == "reached" and not self._passing:
            self.finished = True
            self._tell_unplaced()
            functions, self.at_end_functions = self.at_end_functions, []
            for function in functions:
                try:
                    function()
                except AssertionError as error:
                    self.report_assertion(None, error)
        return stop

    def event_at(self, place: str) -> tuple[int, int]:
        """The (node, event) before which the group stands at a place: a mark, of which what lies inside a node's code does not count, or
        a time in seconds. Raises UsageError if there is no such place, or nothing behind it."""
        position = self.backend.cut_named(place)
        if position >= self.backend.total_events():
            raise UsageError(f"nothing lies behind {place} in this recording")
        return self.backend.at_position(position)

    def _tell_unplaced(self) -> None:
        """Tells the user at the end of the recording which stop points were never placed on a node, and so could not be hit."""
        for point in self.points.values():
            if point.kind != "timer" and point.enabled and not point.purpose and not self.backend.was_placed(point.id):
                reasons = dict.fromkeys(text for _, address, text in point.places if address is None)
                why = f": {'; '.join(reasons)}" if reasons else ": none of its nodes has started"
                self.notice(f"{point.label} was never placed{why}")

    def step(self, node: Any = None, command: str = "step") -> Stop:
        """Steps one node (by default `node`) as gdb's step, next, stepi, nexti, finish or "until LOC" do, or back as its reverse-step,
        reverse-next, reverse-stepi, reverse-nexti and reverse-finish do; the others follow in logical time. Handlers of stop points on the way run. The stop's kind is "step", or tells what stopped the group before, which may be
        "exit" of another node. Raises NodeEnded, UsageError, Divergence, ComponentDied."""
        if self._running:
            raise UsageError("the group is running and a handler cannot step it: call friday.stop() in the handler, and step() after run() has returned")
        self._standing = None
        self.moves += 1
        where = self.id_of(node)
        if not command.startswith("reverse-"):
            self.states.will_run()
        try:
            stop = self._standing = self.backend.step(where, command)
        finally:
            self.backend.release_processor()
        if command.startswith("reverse-"):
            self._has_gone_back()
            self.states.arrived()
            self.here, self._standing = where, stop
            return stop
        self.states.note()
        if stop.ids or stop.kind == "exit":
            self._running = True
            try:
                if stop.kind == "exit":
                    self._node_ended(stop)
                if stop.ids:
                    self._dispatch(stop, stop.ids)
            finally:
                self._running = self._in_handler = False
            if stop.kind == "exit":
                self.here = where
        else:
            self._stopped(stop)
        self._refresh_ended()
        return stop

    def stop(self) -> None:
        """Makes the group stop after the handlers of this event; the same as `friday.stop()`."""
        self.stop_asked = True

    def close(self) -> None:
        """Ends the processes of the replay. `with Session(...) as session:` does this at the end of the block."""
        self.backend.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _refresh_ended(self) -> None:
        self.ended.clear()
        self.ended.update(node for node, state in self.nodes.states().items() if state == "ended")

    # -- violations --------------------------------------------------------------------------------------------------
    def violation(self, predicate: Any, *, nodes: Any = None, message: str = "", **evidence: Any) -> Violation | None:
        """Reports that a predicate does not hold now. predicate: its name or its function; nodes: the nodes concerned (by default the
        current one); evidence: the values that show it. Returns the record, or None if there are already max_violations."""
        name = predicate if isinstance(predicate, str) else getattr(predicate, "__name__", str(predicate))
        return self._violated(name, nodes, message, evidence, None)
