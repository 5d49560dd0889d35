"""What a session does when its group has stopped: it calls the handlers of the stop points and the functions for the end of a node, and
reports what they find and what goes wrong in them.

The part of Session (sessions.py) that decides whether a run goes on after a stop.
"""
from __future__ import annotations

import _thread
import functools
import threading
from typing import TYPE_CHECKING, Any, Callable

from .handlers import Continue, cont
from .violations import Violated, Violation, collect_evidence

if TYPE_CHECKING:
    from .backend import Backend, Stop
    from .nodes import Node
    from .points import StopPoint
    from .states import States
    from .tracing import Tracer

_LATE = 0.5  # seconds after which a Ctrl-C that came just before a handler interrupts it


class Dispatch:
    """What Session inherits; it declares what it uses of Session."""
    if TYPE_CHECKING:
        backend: "Backend"
        points: "dict[int, StopPoint]"
        states: "States"
        node: "Node"
        here: int
        last_stop: "Stop | None"
        hits: int
        console: bool
        collecting: bool
        stop_asked: bool
        ended: set[int]
        at_exit_functions: "list[Callable[[Stop], Any]]"
        violations: list[Violation]
        violations_dropped: int
        max_violations: int
        tracer: "Tracer | None"
        on_violation: "Callable[[Violation], None] | None"
        _point: "StopPoint | None"
        _passing: bool
        _in_handler: bool
        _told: set[int]
        _after_handlers: "list[StopPoint]"
        choose: "Callable[[Any], tuple[Node, ...]]"
        delete: Callable[[Any], None]
        notice: Callable[[str], None]

    def _node_ended(self, stop: Stop) -> bool:
        """Calls the functions for the end of a node. Returns whether the group must stop."""
        self.ended.add(stop.node)
        self.here, self.last_stop, self._point = stop.node, stop, None
        if self._passing and self.states.has_seen_this():
            return self.stop_asked
        self._in_handler = True
        if any(not hasattr(function, "purpose") for function in self.at_exit_functions):
            self.states.ran()
        for function in list(self.at_exit_functions):
            try:
                function(stop)
            except AssertionError as error:
                self.report_assertion(None, error, "at_exit")
        self._in_handler = False
        return self.stop_asked

    def _dispatch(self, stop: Stop, ids: tuple[int, ...]) -> bool:
        """Runs the handlers of one event in the order of the ids of their stop points. Returns whether the group must stop."""
        if not self.backend.interrupt_waits():
            return self._run_handlers(stop, ids)
        # Ctrl-C came just before this hit. The group answers as soon as it goes on, unless a handler computes for long.
        late = threading.Timer(_LATE, _thread.interrupt_main)
        late.daemon = True
        late.start()
        try:
            return self._run_handlers(stop, ids)
        finally:
            late.cancel()

    def _run_handlers(self, stop: Stop, ids: tuple[int, ...]) -> bool:
        self.here = stop.node
        self.last_stop = stop
        points = self.points
        halt = users_have_run = False
        self._in_handler = True
        if any(id_ in points and points[id_].run is not None and not points[id_].purpose for id_ in ids):
            self.states.ran()
        for point in [points.get(id_) for id_ in ids]:
            self._point = point
            if point is None:  # the stop point was not set through this session
                halt = True
                continue
            if point.deleted or not point.enabled:
                continue
            point.hits += 1
            self.hits += not point.purpose
            if point.temporary and not stop.message:  # if the condition could not be evaluated, this was not a hit
                self.delete(point.id)
            if point.run is None:
                halt = True
                continue
            users_have_run |= not point.purpose
            halt |= self._call_handler(point)
        for point in self._after_handlers if users_have_run else ():
            halt |= self._call_handler(point)
        self._in_handler = False
        halt = halt or self.stop_asked
        if stop.message and not (halt and self.console):
            self._tell_condition(stop)
        return halt

    def _call_handler(self, point: StopPoint) -> bool:
        """Runs the handler of a stop point. Returns whether the group must stop."""
        self.backend.take_inferred()
        try:
            return point.run is not None and point.run() is not cont and point.stops
        except Continue:
            pass
        except AssertionError as error:
            self.report_assertion(point, error)
        except Exception as error:
            self._explain(point, error)
            raise
        return False

    def run_again(self, stop: Stop) -> bool:
        """Runs the handlers of a hit, or of the end of a node, that the group comes by for another time: for what they collect, not for
        what they say. Returns whether there are any."""
        if stop.kind == "exit":
            handlers: list[Callable[[], Any]] = [functools.partial(function, stop) for function in self.at_exit_functions]
        else:
            handlers = [point.run for id_ in stop.ids if (point := self.points.get(id_)) is not None and point.run is not None and point.enabled]
        self.here, self.last_stop = stop.node, stop
        for handler in handlers:
            self._point = next((point for point in self.points.values() if point.run is handler), None)
            try:
                handler()
            except (Exception, Continue):  # it has been told when the handler ran for the first time
                pass
        return bool(handlers)

    def _tell_condition(self, stop: Stop) -> None:
        """Tells the user, once for each stop point, that its condition could not be evaluated and counted as true."""
        if not self._told.issuperset(stop.ids):
            self._told.update(stop.ids)
            self.notice(f"{stop.message}; it counts as true (at {stop.logical_time} s on node {stop.node})")

    def report_assertion(self, point: StopPoint | None, error: AssertionError, label: str = "at_end") -> None:
        """Handles a failed assertion of a handler, or of other code (point None): reports a violation if `collecting`, otherwise raises it."""
        if not self.collecting:
            self._explain(point, error)
            raise error
        label = point.label if point else label
        handler = point.handler if point else None
        if callable(handler):
            label = getattr(handler, "__name__", label)
        if isinstance(error, Violated):
            self._violated(error.predicate or label, error.nodes, str(error), error.evidence, error)
        else:
            self._violated(label, None, str(error), {}, error)

    def _explain(self, point: StopPoint | None, error: BaseException) -> None:
        """Adds the place where the group stood to the exception."""
        stop = self.last_stop
        if point is None or stop is None or point.run is None:
            return
        error.add_note(f"{'in' if point.purpose else 'in the handler of'} {point.label} on node {self.node} ({self.node.name}) at {stop.logical_time} s"
                       + (f", {change[0]} changed" if (change := stop.changes.get(point.id)) else ""))
        own = getattr(getattr(point.run, "__code__", None), "co_freevars", ())
        if isinstance(error, NameError) and error.name in own:
            error.add_note(f"`{error.name}` is the handler's own and has no value yet; `py {error.name} = ...` makes "
                           f"one of the session")

    def _violated(self, name: str, nodes: Any, message: str, evidence: dict[str, Any],
                  error: BaseException | None) -> Violation | None:
        if self.states.again:
            return None
        if len(self.violations) >= self.max_violations:
            self.violations_dropped += 1
            return None
        chosen = (self.node,) if nodes is None else self.choose(nodes)
        if inferred := self.backend.take_inferred():
            names = ", ".join(f"node {node} ({self.nodes[node].name})" for node in inferred)
            message += f"\ninferred: this depends on bytes of {names} that are not recorded; they may not be what was there"
        record = collect_evidence(self, name, chosen, message, evidence, error)  # type: ignore[arg-type]
        self.violations.append(record)
        if self.tracer is not None:
            self.tracer.found(record)
        if self.on_violation is not None:
            self.on_violation(record)
        return record
