"""What the group does about signals of its nodes: `handle`, `info signals`, and the stop at a crash.

Two things happen to a node by a signal: it dies of it, or enters a handler of the program. The recording decides which; the user
decides whether the group stops there and whether it is said.
"""
from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Iterator

from .answers import Output, seconds, table
from .errors import UsageError

if TYPE_CHECKING:
    from .backend import Stop
    from .commands import Command
    from .points import Hit, StopPoint
    from .sessions import Session

# Those whose default action ends a process with a core dump (signal(7)): the program itself has failed.
CRASHES = frozenset(("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGQUIT", "SIGSEGV", "SIGSYS", "SIGTRAP", "SIGXCPU", "SIGXFSZ"))
FAULTS = frozenset(("SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP"))  # raised by the instruction at which the node stands
NAMES = tuple(each.name for each in sorted(signal.Signals) if each.name not in ("SIGRTMIN", "SIGRTMAX"))
ACTIONS = ("stop", "nostop", "print", "noprint", "pass")


class Handling:
    """What the group does at each signal, as `handle` has set it."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._deaths: dict[str, tuple[bool, bool]] = {}  # (stop, print) at a node's death; the others as in `at_death`
        self._handlers: dict[str, tuple[bool, bool]] = {}  # (stop, print) where a handler is entered; the others neither
        self._told: dict[str, list[str]] = {}  # what `handle` was told, for `save session`
        self._point: "StopPoint | None" = None

    def at_death(self, name: str | None) -> tuple[bool, bool]:
        """Whether the group stops when a node dies of this signal, and whether it is said. Without a signal, the node has exited."""
        return self._deaths.get(name or "", (name in CRASHES, True))

    def at_handler(self, name: str) -> tuple[bool, bool]:
        """Whether the group stops where a node enters its handler for this signal, and whether it is said."""
        return self._handlers.get(name, (False, False))

    def set(self, name: str, actions: list[str]) -> None:
        """Carries out `handle NAME ACTION...`. As in gdb, stop implies print, and noprint implies nostop."""
        if actions:
            self._told.setdefault(name, []).extend(actions)
        for known in (self._deaths, self._handlers):
            stop, shown = self.at_death(name) if known is self._deaths else self.at_handler(name)
            for action in actions:
                stop = {"stop": True, "nostop": False, "noprint": False}.get(action, stop)
                shown = {"stop": True, "print": True, "noprint": False}.get(action, shown)
            known[name] = stop, shown

    def apply(self) -> None:
        """Makes the nodes stop where handlers are entered that `handle` names. Raises UsageError in a handler of the session."""
        if self._point is not None and not self._point.deleted:
            self._point.delete()
        self._point = None
        wanted = [name for name, said in self._handlers.items() if any(said)]
        if wanted:
            self._point = self._session.catch(f"signal {' '.join(wanted)}", self._entered)
            self._point.purpose = "handle"

    def _entered(self, hit: "Hit") -> None:
        if hit.stop.kind != "catch":
            return  # it has died of it, which Session and the console take care of
        name = str(hit.caught)
        stop, shown = self.at_handler(name)
        if stop:
            self._session.stop()
        elif shown:
            self._session.notice(f"node {hit.node} ({hit.node.name}) is about to enter its handler of {described(name)}, "
                                 f"{seconds(self._session.logical_time)}")

    def commands(self) -> Iterator[str]:
        """The commands that set this up again."""
        for name, actions in self._told.items():
            yield f"handle {name} {' '.join(actions)}"


def described(name: str) -> str:
    """"SIGSEGV (Segmentation fault)"."""
    number = getattr(signal, name, None)
    return f"{name} ({signal.strsignal(number)})" if number is not None else name


def named_signal(word: str) -> str:
    """The full name of a signal that is given as "SIGUSR1", "usr1" or "10". Raises UsageError."""
    if word.isdigit():
        return signal.Signals(int(word)).name if int(word) in set(signal.Signals) else _unknown(word)
    name = word.upper() if word.upper().startswith("SIG") else f"SIG{word.upper()}"
    return name if name in NAMES else _unknown(word)


def _unknown(word: str) -> Any:
    from .commands import nearest  # written on top of this module
    raise UsageError(f"there is no signal `{word}`{nearest(word.upper(), [*NAMES, *(name[3:] for name in NAMES)])}")


def handle(session: "Session", command: "Command", filename: str | None, out: Output) -> None:
    """The command `handle SIGNAL... ACTION...`."""
    words = command.rest.split()
    names = [word for word in words if word not in (*ACTIONS, "nopass", "ignore", "noignore")]
    actions = [word for word in words if word in ACTIONS]
    if not names:
        raise UsageError(f"usage: handle SIGNAL... {'|'.join(ACTIONS)}...; `info signals` shows what holds")
    if len(actions) + len(names) != len(words):
        raise UsageError("a replayed node gets the signals that it got when it was recorded: they can be neither held back nor added. There are "
                         "stop, nostop, print and noprint")
    chosen = list(NAMES) if names == ["all"] else [named_signal(name) for name in names]
    for name in chosen:
        session.signals.set(name, actions)
    session.signals.apply()
    for line in rows(session, chosen) if len(chosen) < 8 else [f"{len(chosen)} signals: {' '.join(actions)}" if actions else "`info signals` shows what holds"]:
        out(line)


def rows(session: "Session", names: "list[str] | tuple[str, ...]") -> list[str]:
    """The lines of `info signals`."""
    def said(what: tuple[bool, bool]) -> str:
        return "stop" if what[0] else "print" if what[1] else "-"
    lines = [("signal", "node dies of it", "its handler is entered", "description")]
    for name in names:
        lines.append((name, said(session.signals.at_death(name)), said(session.signals.at_handler(name)), str(signal.strsignal(getattr(signal, name)))))
    return table(lines)


def info_signals(session: "Session", command: "Command", out: Output) -> None:
    """The topic `signals` of `info`."""
    words = command.rest.split()[1:]
    for line in rows(session, [named_signal(word) for word in words] or NAMES):
        out(line)


def crash_lines(session: "Session", stop: "Stop", head: str) -> list[str]:
    """The lines that show a crash: below `head` the instruction if it raised the signal, and the stack."""
    lines = [head]
    node = int(stop.node)
    if stop.signal in FAULTS:
        lines += [line.strip() for line in session.backend.gdb(node, "x/i $pc").splitlines()]
    return lines + session.backend.gdb(node, "backtrace 12").splitlines()
