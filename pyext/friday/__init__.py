"""Friday: replay a distributed system as one group and ask Python about its global state.

    import friday
    with friday.open("ring.rec") as session:
        @session.watch("srv.successor")
        def check():
            assert session.node.read("srv.successor->id") != session.node.read("srv.node.id")
        session.run()

In `friday run SCRIPT REC` the session is `friday.session`, and the script may use `@4(srv.successor->id)`; so may modules named
*.fri.py, which `import` finds once friday is imported. In pytest it is the fixture `friday_session` (pytest_plugin.py).
"""
from __future__ import annotations

import os
import sys
from typing import Any, Sequence

from . import modules
from .at import AtError
from .backend import Backend, LogicalTime, NodeInfo, Stop
from .containers import Items, Map
from .costs import Cost
from .errors import (BadAddress, BadExpression, BadRecording, CallFailed, CodePlace, ComponentDied, Divergence, Error, NearEvent, NodeEnded,
                     NodeNotStarted, NoNode, NoSymbol, OptimizedOut, OutOfScope, Unsupported, UsageError)
from .looking import Around, Look, LookFrame, look
from .messages import Message
from .nodes import Node, Nodes
from .points import Hit, StopPoint
from .recordings import Channel, Edge, Event, RecordedNode, Recording, Step, Transfer
from .runner import run_script
from .sessions import Session
from .teaching import Place
from .threads import Thread
from .values import Array, Bool, Bytes, Char, Enum, Float, Int, Pointer, Raw, Snapshot, Str, Struct
from .violations import Violated, Violation

__version__ = "0.1.0"

session: Session | None = None
"""The session of the script or console that runs; None in a plain interpreter until you set it."""


state: Any
"""`session.state` of that session: what handlers collect there goes back in time with the group."""


def __getattr__(name: str) -> Any:
    if name == "state":
        return _current().state
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _current() -> Session:
    if session is None:
        raise UsageError("there is no session: `friday run`, the console and friday.open(REC) set friday.session. With a Session that you made "
                         "yourself, use its own methods or assign it to friday.session")
    return session


def open(recording: str | os.PathLike[str], *, nodes: str | None = None, sync: str = "clock", symbols: Sequence[str] = (),
         unconfined: bool = False) -> Session:
    """Opens a Session on a recording, at its start, and makes it `friday.session`.
    The options and the errors are those of Session."""
    global session
    session = Session(recording, nodes=nodes, sync=sync, symbols=symbols, unconfined=unconfined)
    if hasattr(sys, "ps1") or sys.flags.interactive:  # the nodes' gdbs connect while the prompt waits
        import _friday
        _friday.pump_while_idle(session.backend)
    return session


def stop() -> None:
    """Call it in a handler: the group stops when all handlers of this event are done."""
    _current().stop()


def violation(predicate: Any, *, nodes: Any = None, message: str = "", **evidence: Any) -> Violation | None:
    """Reports that a predicate does not hold now; see Session.violation."""
    return _current().violation(predicate, nodes=nodes, message=message, **evidence)


modules.install()
