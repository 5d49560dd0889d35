"""The commands `alias` and `save session FILE`, which writes what was set up in a session as a file of commands for `source`.

It saves the order of the replay, aliases, the session's Python names (functions and classes by their source, imports, and values
with a literal form), `map`s, stop points with their conditions and handlers, and the position. For what cannot be saved it
writes a comment.
"""
from __future__ import annotations

import ast
import inspect
import linecache
import os
import textwrap
import types
from typing import TYPE_CHECKING, Any, Iterator

from .answers import Output, ranges
from .commands import Command, Verb
from .errors import UsageError
from .handlers import Handler
from .nodes import NodeMap
from .table import OWNED, REFUSED

if TYPE_CHECKING:
    from .points import StopPoint
    from .sessions import Session


def _alias(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    name, equals, text = (part.strip() for part in command.rest.partition("="))
    if name and not name.isidentifier() or name and not equals and name not in session.aliases:
        raise UsageError("usage: alias [NAME = COMMAND ...]; without COMMAND the alias is deleted")
    if name in OWNED or name in REFUSED:
        raise UsageError(f"`{name}` is a command of Friday's, and an alias cannot replace it: choose another name")
    if equals and text:
        session.aliases[name] = text
    elif equals:
        if session.aliases.pop(name, None) is None:
            raise UsageError(f"there is no alias `{name}`: `alias` lists them")
    else:
        for known in [name] if name else sorted(session.aliases):
            out(f"alias {known} = {session.aliases[known]}")
        if not session.aliases:
            out("no aliases")


def _save(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    what, _, path = command.rest.partition(" ")
    if what != "session" or not path.strip():
        raise UsageError("usage: save session FILE")
    path = os.path.expanduser(path.strip())
    text = "\n".join(session_lines(session)) + "\n"
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    count = len(session.points)
    out(f"{count or 'no'} stop point{'s' if count != 1 else ''} and the Python names of this session are saved in {path}: `source {path}` restores them")


def session_lines(session: "Session") -> Iterator[str]:
    """The lines of commands that set up a session like this one."""
    yield "# A session of friday replay, for `source`."
    if session.backend.sync() != "clock":
        yield f"set sync {session.backend.sync()}"
    if session.scope != "node":
        yield f"set scope {session.scope}"
    for name, text in session.aliases.items():
        yield f"alias {name} = {text}"
    for name, mark in session.bookmarks.items():
        yield f"bookmark {name} {mark}"
    yield from _names(session)
    yield from session.signals.commands()
    for point in session.points.values():
        if not point.purpose:
            yield from _point(session, point)
    yield f"# It stood at {session.logical_time} s."
    if session.last_stop is not None:
        yield f"goto {session.logical_time}"
        yield f"node {session.here}"


def _names(session: "Session") -> Iterator[str]:
    sources: set[tuple[str, int]] = set()
    for name, value in session.namespace.items():
        if name not in session.declared:
            continue
        if isinstance(value, NodeMap):
            yield f"map {name} {value.expression}"
        elif isinstance(value, types.ModuleType):
            yield f"py import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
        elif (block := _definition(value)) is not None:
            if block[0] not in sources:
                sources.add(block[0])
                yield from ["python", *block[1], "end"]
        elif _writes_back(value):
            yield f"py {name} = {value!r}"
        else:
            yield f"# py {name} is a {type(value).__name__}: not saved"


def _definition(value: Any) -> "tuple[tuple[str, int], list[str]] | None":
    """The source of a function or class as it was written, with its `@` syntax; None if it is neither or its source is unknown."""
    code = getattr(value, "__code__", None)
    if not isinstance(value, types.FunctionType) or code is None:
        return None
    lines = linecache.getlines(code.co_filename)
    if not 0 < code.co_firstlineno <= len(lines):
        return None
    block = inspect.getblock(lines[code.co_firstlineno - 1:])
    return (code.co_filename, code.co_firstlineno), textwrap.dedent("".join(block)).splitlines()


def _writes_back(value: Any) -> bool:
    """Whether repr() of a value is Python that gives the value again: numbers, text, and lists, sets and dictionaries of these."""
    try:
        text = repr(value)
        return "\n" not in text and bool(ast.literal_eval(text) == value)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return False


def _point(session: "Session", point: "StopPoint") -> Iterator[str]:
    nodes = "" if len(point.nodes) == len(session.nodes) else ranges([int(node) for node in point.nodes]) + " "
    condition = f" if {point.condition}" if point.condition else ""
    verb = ("t" if point.temporary else "") + {"breakpoint": "break"}.get(point.kind, point.kind)
    if point.kind == "timer" or point.handler is not None and not isinstance(point.handler, Handler):
        yield f"# {point.label} was set by Python: not saved"
        return
    yield f"{nodes}{verb} {point.what}{condition}"
    if isinstance(point.handler, Handler):
        yield from textwrap.indent(textwrap.dedent(point.handler.source).rstrip(), "  ").splitlines()
    if not point.enabled:
        yield "py session.points[max(session.points)].disable()"


VERBS: dict[str, Verb] = {"alias": _alias, "save": _save}
