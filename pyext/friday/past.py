"""Where a session's group stands, and how it comes to another place: marks, checkpoints, and going back.

The part of Session (sessions.py) that moves the group in time other than by running it.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, TypeVar

from .errors import UsageError
from .origins import MOST_HOPS, Hop, Input, origin
from .spans import START, Change, First, when
from .until import UntilBack

_Stop = TypeVar("_Stop")

if TYPE_CHECKING:
    from .backend import Backend, Stop
    from .nodes import Nodes
    from .points import StopPoint
    from .states import States


class Past:
    """What Session inherits; it declares what it uses of Session."""
    if TYPE_CHECKING:
        backend: "Backend"
        nodes: "Nodes"
        points: "dict[int, StopPoint]"
        here: int
        last_stop: "Stop | None"
        moves: int
        restarts: int
        finished: bool
        _running: bool
        _standing: "Stop | None"
        id_of: Callable[[Any], int]
        _pass_to: "Callable[[Callable[[float | None], Stop]], Stop]"
        _refresh_ended: Callable[[], None]
        states: "States"

    def _check_stands(self) -> None:
        if self._running:
            raise UsageError("the group is running: a handler cannot move it")

    def mark(self) -> str:
        """The mark of the place where the group stands: "3#1234" before event 1234 of node 3, or behind its end if it has no more,
        "3#1234:0x401136*5" when node 3 has completed 1234 events and comes by the instruction at that address for the fifth time,
        or "start". It means the same place in every session with this recording. Inside a node's code the group goes back to count,
        and comes here again. Raises Unsupported there in another order than "clock" and if a node is altered, UsageError in a
        handler, ComponentDied."""
        self._check_stands()
        try:
            return self.backend.position()
        finally:
            self.backend.release_processor()
            self.moves += 1

    def _search(self, move: "Callable[[], _Stop]") -> "_Stop":
        """Lets the core move the group, to and fro."""
        self._running = True
        try:
            return move()
        finally:
            self._running = False
            self.backend.release_processor()
            self._has_gone_back()
            self.states.arrived()

    def _goto_mark(self, mark: str) -> "Stop":
        if mark == START:
            raise UsageError("`restart` goes to the start")
        stop = self._search(lambda: self.backend.go_to_mark(mark))
        self.here, self._standing = stop.node, stop
        return stop

    def goto(self, place: int | str, *, node: Any = None) -> "Stop":
        """Goes to a place: the number of an event, before which the node (by default `node`) stands then, or a mark as mark() returns it.
        The group runs there from the nearest checkpoint before or, if the place is past and there is none, from the start. Stop points
        on the way neither stop the group nor run their handlers. The stop's kind is "reached", "exit" at a mark of a node's end, or
        tells what stopped the group before. Raises UsageError, also for what is no mark or no mark of this recording, Unsupported for
        a mark in another order than "clock", Divergence, ComponentDied."""
        self._check_stands()
        if isinstance(place, str):
            return self._goto_mark(place)
        event = place
        where = self.id_of(node)
        count = self.backend.event_count(where)
        if not 0 <= event < count:
            raise UsageError(f"node {where} ({self.nodes[where].name}) has no event {event}" + (f": the last is {count - 1}" if count else ""))
        if self.backend.approach(where, event):
            self._has_gone_back()
        stop = self._pass_to(lambda timeout: self.backend.run_to(where, event, timeout))
        if stop.kind == "reached":
            self.here = stop.node
        self.states.arrived()
        return stop

    def reverse_continue(self) -> "Stop | None":
        """Runs the group back to the last hit of a stop point, of any node, before the place where it stands, and returns the Stop: the
        group then stands there as after a run forward, so after the store at a watchpoint. None if there is no such hit; then, and after
        Ctrl-C (kind "interrupt"), the group stands where it stood. No handler runs, and stop points that have one are passed over.
        Raises Unsupported in another order than "clock" and if a node is altered, UsageError in a handler, ComponentDied."""
        self._check_stands()
        return self._run_back()

    def run_back_until(self, predicate: Callable[[], Any]) -> "tuple[Stop | None, UntilBack]":
        """Runs the group back to the last moment at which predicate() was true, directly before the write that ended it, and returns the Stop
        (None if predicate() is true where the group stands, or was true nowhere before; the group stands there then) and an UntilBack:
        `holds` says whether it is true now, `ended_by` is the Hit of that write or None, and `doubt` says, if it was true nowhere, what of
        that is not certain, or is "". Stop points without a handler stop the group as usual. Raises as reverse_continue() does, and what
        predicate raises."""
        self._check_stands()
        until = UntilBack(self, predicate)  # type: ignore[arg-type]
        return until.run_back(), until

    def _run_back(self, own: "frozenset[int]" = frozenset(), accepts: "Callable[[Stop], bool] | None" = None) -> "Stop | None":
        """As reverse_continue(), but hits of the stop points in `own` count, and only what `accepts` accepts."""
        passed = [point.id for point in self.points.values() if point.id not in own and (point.run is not None or not point.stops)]
        stop = self._search(lambda: self.backend.run_back(passed, accepts))
        self._standing = stop
        if stop is not None and stop.ids:
            self.here, self.last_stop = stop.node, stop
            self._point = self.points.get(stop.ids[-1])
            for id_ in stop.ids:
                if id_ in self.points:
                    self.points[id_].hits += 1
        return stop

    def goto_end(self) -> "Stop":
        """Runs to the end of the recording. Stop points are ignored as in `goto`."""
        self._check_stands()
        return self._pass_to(lambda timeout: self.backend.run_to(None, 0, timeout))

    def undo(self) -> "Stop | None":
        """Takes the last move of the console back: the group stands where it stood before, altered as it was then. None if there is no move
        to take back. Scripts that need a place again keep its mark(). Raises UsageError in a handler, ComponentDied."""
        return self._undo(False)

    def redo(self) -> "Stop | None":
        """Makes the move again that the last undo() has taken back. None if there is none."""
        return self._undo(True)

    def come_back(self) -> None:
        """Brings the group to where it stood at the last `note_move` of the backend; `redo` does not go where it was since."""
        self.backend.come_back()
        self._has_gone_back()
        self.states.arrived()

    def first(self, predicate: Callable[[], Any]) -> "Stop | None":
        """Brings the group to the first place at which predicate() is true, and returns the Stop; None if it is true at the start, where
        the group stands then. It halves the span between a place where it is not true and a later one where it is, and runs on from there to
        see that it stays true. What is not readable for now (a node that has not started) counts as false. Stop points and
        functions of the session are set aside meanwhile. Raises UsageError if it is true neither here nor at the end, Unsupported in
        another order than "clock" and if a node is altered, and what predicate raises."""
        return First(self, predicate).run()  # type: ignore[arg-type]

    def when(self, expression: str, *, nodes: Any = None) -> list[Change]:
        """The changes of a C expression over the whole recording, on nodes (by default all), at most 10,000; the group stands where it
        stood then. Stop points and functions of the session are set aside meanwhile. Raises as `watch` does, Unsupported in another
        order than "clock" and if a node is altered."""
        return when(self, expression, nodes)  # type: ignore[arg-type]

    def origin(self, what: "str | tuple[Hop, Input]", *, node: Any = None, most: int | None = None) -> list[Hop]:
        """Where a value comes from: the writes, messages and sends that have brought it to where it is, the latest first, until an
        instruction has computed it, it is a constant, it comes from outside of the group, or it cannot be followed further; at most
        `most` (by default 100). what: a C expression that denotes memory or a register (`$rax`) on `node`, or a hop that has computed with one of its
        inputs. The group stands where it stood then. Raises as `read` does, Unsupported in another order than "clock" and if a node is
        altered, UsageError in a handler, ComponentDied."""
        return origin(self, what, node, most or MOST_HOPS)  # type: ignore[arg-type]

    def _undo(self, forward: bool) -> "Stop | None":
        self._check_stands()
        undone = self.backend.undo(forward, self.states.tag())
        if undone is None:
            return None
        stop, tag = undone
        self._has_gone_back()
        self.here, self._standing = self.states.selected(tag, stop.node), stop
        self.states.returned(tag)
        return stop

    def restart(self, sync: str | None = None) -> None:
        """Goes back to the start of the recording. Stop points and the namespace stay, and no node is altered any more. sync: the order
        in which to replay from now on, "clock", "causal" or "free". Raises UsageError in a handler."""
        if self._running:
            raise UsageError("the group is running and a handler cannot restart it: call friday.stop() in the handler, and restart() after run() has returned")
        self.backend.restart(sync)
        self._has_gone_back()
        self.states.arrived()

    def _has_gone_back(self) -> None:
        self.last_stop, self._standing, self.finished = None, None, False
        if not self.states.go_back:
            self.restarts += 1
        self.moves += 1
        self._refresh_ended()

    def set_checkpoints(self, on: bool | None = None, *, budget: int | None = None, names: bool | None = None) -> None:
        """Whether runs make checkpoints, from which `goto` reaches an earlier place without replaying from the start; the console
        does, scripts do not unless asked. They cost about a twentieth of a run's time. budget: the memory that all together may
        take, in bytes; by default a quarter of what is available. names: whether what handlers have collected, in the session's names,
        in their own, in objects of predicates and in `session.state`, goes back in time with the group; the console does that. Needs
        the order "clock"."""
        self.backend.set_checkpoints(on, budget)
        if names is not None:
            self.states.set_on(names)

    def checkpoint(self) -> None:
        """Makes a checkpoint where the group stands, to which `goto` comes back at once. Raises Unsupported where that is not possible:
        in another order than "clock", or if a node is altered; UsageError in a handler."""
        if self._running:
            raise UsageError("the group is running: a handler makes no checkpoint")
        self.backend.checkpoint()
