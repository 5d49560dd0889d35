"""Which nodes are about to end, so that a predicate does not take the end of a program for a fault.

A program that stops takes itself apart: it leaves its group, empties its tables, runs destructors. Two signs come before that:

    a stop signal   SIGTERM, SIGINT or SIGQUIT, before its handler is entered, or as it kills: the node is told to end
    exit            the function of the C library is called, also by a return from main: the node takes no part any more

The option `until` of all predicates (check.py) is judged by these signs and by the ends of nodes.
"""

from __future__ import annotations

from typing import Protocol

import friday

SIGNALS = ("SIGTERM", "SIGINT", "SIGQUIT")


class Listener(Protocol):
    """A predicate that is told of the signs."""

    def node_told(self, node: friday.Node, how: str) -> None:
        """The node has been told to end."""

    def node_leaves(self, node: friday.Node, how: str) -> None:
        """The node is about to run its exit functions, or has ended without; its memory is still as it was at work."""


class Endings:
    """The signs on all nodes of a session, watched once for all of its predicates: Endings.of(session). `told` has for each node that was
    told to end, in order of time, how and when; `left` those that have left."""

    @classmethod
    def of(cls, session: friday.Session) -> "Endings":
        found = vars(session).get("_endings")
        if found is None:
            found = vars(session)["_endings"] = cls(session)
        return found

    def __init__(self, session: friday.Session) -> None:
        self._session = session
        self._restarts = session.restarts
        self.listeners: list[Listener] = []
        self.told: dict[friday.Node, str] = {}
        self.left: dict[friday.Node, str] = {}
        for point in (session.catch(f"signal {' '.join(SIGNALS)}", self._signal), session.breakpoint("-pending exit", self._exit)):
            point.purpose = "the ends of nodes"
        session.at_exit(self._ended)

    def _here(self, node: friday.Node, what: str) -> str:
        return f"{node.name} {what} at {self._session.logical_time} s"

    def _signal(self, hit: friday.Hit) -> None:
        self._follow_restart()
        if hit.node not in self.told:
            how = self.told[hit.node] = self._here(hit.node, f"received {hit.caught}")
            for listener in self.listeners:
                listener.node_told(hit.node, how)

    def _exit(self) -> None:
        self._leaves(self._session.node, "called exit")

    def _ended(self, stop: friday.Stop) -> None:
        self._leaves(self._session.nodes[stop.node], "ended")

    def _leaves(self, node: friday.Node, what: str) -> None:
        self._follow_restart()
        if node not in self.left:
            how = self.left[node] = self._here(node, what)
            for listener in self.listeners:
                listener.node_leaves(node, how)

    def _follow_restart(self) -> None:
        if self._session.restarts != self._restarts:
            self._restarts = self._session.restarts
            self.told.clear()
            self.left.clear()
