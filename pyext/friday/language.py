"""The hidden names that rewritten code calls (see at.py): through them `@NODE(EXPR)` reaches the backend.

A read costs a few dictionary look-ups and one call of the backend: `plans` has the backend's number for the text of the
expression, and `decoders` the function that makes values of its type.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import at, containers
from .errors import BadExpression, NoSymbol, UsageError
from .handlers import SET_SUITE, cont
from .nodes import Node
from .values import Bytes, Enum, Float, Pointer, Snapshot, Str, c_escape, c_quote, castable

if TYPE_CHECKING:
    from .backend import Backend
    from .sessions import Session

_KEEP_PLANS = 20_000


class Plans(dict[str, int]):
    """The backend's plans by text. Placeholders can make ever new texts, so the oldest plans are forgotten."""

    def __init__(self, backend: "Backend") -> None:
        super().__init__()
        self._backend = backend

    def __missing__(self, text: str) -> int:
        if len(self) >= _KEEP_PLANS:
            for old in list(self)[:_KEEP_PLANS // 10]:
                self._backend.forget(self.pop(old))
        plan = self[text] = self._backend.plan(text)
        return plan


class Decoders(dict[Any, Callable[..., Any]]):
    """The decoders by type id."""

    def __init__(self, session: "Session") -> None:
        super().__init__()
        self._types, self._backend = session.types, session.backend

    def __missing__(self, type_id: Any) -> Callable[..., Any]:
        type_ = self._types[type_id].resolved
        if type_.containers:
            found = containers.decoder(type_, self._backend.read_memory)
        else:
            found = self._types.decoder(type_id, self._backend.read_string)
        self[type_id] = found
        return found


def make_read(session: "Session") -> Callable[..., Any]:
    """The function `__friday_read__`: the value of a C expression on a node."""
    backend_read = session.backend.read
    plans, decoders, ended, nodes = session.plans, session.decoders, session.ended, session.nodes

    def read(node: Any, text: str, pieces: Sequence[Any] | None = None, kinds: str = "") -> Any:
        if node is None:
            where = session.here
        elif isinstance(node, int):
            where = node
        else:
            where = int(nodes[node])
        if pieces is not None:
            text = fill(session, where, text, pieces, kinds)
        try:
            type_id, data, address = backend_read(where, plans[text])
        except (NoSymbol, BadExpression) as error:
            raise session.names.teach(where, text, error) from None
        if ended and where in ended:
            session.note_ended(where)
        return decoders[type_id](data, address, where)
    return read


def make_write(session: "Session") -> Callable[..., None]:
    """The function `__friday_write__`: assigns a value to a C expression on a node."""
    def write(node: Any, target: str, value: str, pieces: Sequence[Any] | None = None, kinds: str = "") -> None:
        where = session.id_of(node)
        if pieces is not None:
            target, value = fill(session, where, target + "\0" + value, pieces, kinds).split("\0")
        try:
            session.backend.write(where, target, value)
        except (NoSymbol, BadExpression) as error:
            raise session.names.teach(where, f"{target} = {value}", error) from None
    return write


def fill(session: "Session", node: int, template: str, pieces: Sequence[Any], kinds: str) -> str:
    """The C text of a template with its pieces filled in, for a node. at.py explains the kinds of pieces."""
    texts = list(pieces)
    for i, kind in enumerate(kinds):
        if kind == "n":
            texts[i] = c_text(session, node, pieces[i])
        elif kind == "m":
            texts[i] = c_text(session, node, metavariable(session, node, pieces[i]))
    return template % tuple(texts)


def quote(format_: str, value: Any) -> str:
    """The text of a placeholder inside a C literal, escaped."""
    if isinstance(value, bytes) and format_ == "%s":
        return c_escape(value)
    return c_escape(format_ % (value,))


def metavariable(session: "Session", node: Any, name: str) -> Any:
    """The value of a metavariable on a node."""
    if name == "__REALCLOCK__":
        return session.backend.real_time(session.id_of(node))
    if name == "__NODE__":
        return session.nodes[session.id_of(node)]
    return getattr(session, at.METAVARIABLES[name])


def c_text(session: "Session", node: int, value: Any) -> str:
    """C text that has on a node the value of a Python value or a snapshot. Structs are copied into the node's workspace. Raises
    ValueError or TypeError for a value that has no C form."""

    if isinstance(value, Pointer):
        name = value.type.name
        return f"(({name}){hex(value)})" if castable(name) and value.type.kind == "pointer" else hex(value)
    if isinstance(value, int):
        return int.__repr__(int(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} cannot be written in C")
        return float.__repr__(float(value)) + ("f" if isinstance(value, Float) and value.type.size == 4 else "")
    if isinstance(value, (Str, Bytes, str, bytes)):
        return c_quote(value)
    if isinstance(value, (containers.Items, containers.Map)):
        raise ValueError(f"a {value.type.name} cannot be passed to the program as a whole: pass its items")
    if isinstance(value, Snapshot):
        address = session.backend.stage(node, value.bytes)
        type_ = value.type
        if type_.kind == "array":
            return f"(({type_.element.name} *){hex(address)})"
        if castable(type_.name):
            return f"(*({type_.name} *){hex(address)})"
        raise TypeError(f"a value of the unnamed type {type_.name} cannot be passed to the program")
    raise TypeError(f"{type(value).__name__} {value!r} cannot be written in C")


def split_expressions(text: str) -> list[str]:
    """Splits C expressions at the commas outside of brackets and literals."""
    parts, depth, start, pos = [], 0, 0, 0
    while pos < len(text):
        char = text[pos]
        if char in "\"'":
            end = pos + 1
            while end < len(text) and text[end] != char:
                end += 2 if text[end] == "\\" else 1
            pos = end
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[start:pos].strip())
            start = pos + 1
        pos += 1
    parts.append(text[start:].strip())
    if not all(parts) and parts != [""]:
        raise UsageError(f"empty expression in `{text}`")
    return [part for part in parts if part]


def hidden_names(session: "Session") -> dict[str, Any]:
    """The hidden names that rewritten code needs in its namespace."""
    def gdb(text: str, pieces: Sequence[Any] | None = None, kinds: str = "") -> None:
        if pieces is not None:
            text = fill(session, session.here, text, pieces, kinds)
        print(session._ask_gdb(session.here, text), end="")

    return {
        at.READ: session.read,
        at.WRITE: make_write(session),
        at.META: lambda node, name: metavariable(session, node, name),
        at.QUOTE: quote,
        at.GDB: gdb,
        at.CONT: cont,
        at.SESSION: session,
        SET_SUITE: session.set_suite,
    }


def as_json(value: Any) -> Any:
    """A value in a form that JSON can hold: structs as objects, arrays as lists, and what JSON does not have as text."""
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, (Pointer, Enum, bytes)) or isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Node):
        return {"id": int(value), "name": value.name}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, containers.Map):
        value = dict(value)
    if isinstance(value, Snapshot) and value.type.kind in ("struct", "union") and not isinstance(value, containers.Items):
        return {name: as_json(field) for name, field in value}
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) or isinstance(value, Snapshot) and value.type.kind == "array":
        return [as_json(item) for item in value]
    return str(value)
