"""`origin`: where a value comes from, hop by hop, across nodes."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import BadExpression, UsageError
from .spans import check, go_to, remembered
from .values import c_quote

if TYPE_CHECKING:
    from .backend import Bytes
    from .nodes import Node
    from .sessions import Session

MOST_HOPS = 100
_MOST_SHOWN = 16  # bytes of a value
_GENERAL = ("ax", "cx", "dx", "bx", "sp", "bp", "si", "di")
# By name: the first byte and the size of a general register.
_REGISTERS = {prefix + name: (8 * number, size) for number, name in enumerate(_GENERAL) for prefix, size in (("r", 8), ("e", 4), ("", 2))}
_REGISTERS |= {f"r{number}{suffix}": (8 * number, size) for number in range(8, 16) for suffix, size in (("", 8), ("d", 4), ("w", 2))}
_VECTOR = re.compile(r"([xyz])mm([12]?\d|3[01])")
_SIZES = {"x": 16, "y": 32, "z": 64}


@dataclass(frozen=True, slots=True)
class Input:
    """What an instruction has computed with: `name` is a register or an address, and `value` the bytes that were there."""
    name: str
    value: bytes
    at: "Bytes"

    def __repr__(self) -> str:
        return f"<input {self.name} = {bytes_text(self.value)}>"


@dataclass(frozen=True, slots=True)
class Hop:
    """One step on the way back of a value. `how`: "copied", "computed" or "constant" (by an instruction), "received" and "sent" (by a
    message), "forked", "outside" (of the group), "begin" (there when the node's recording began) or "lost" (not followed further).
    `mark`: the place, for `goto`. `place`: the function and line, or "". `value`: the bytes that are followed. `text`: what happened.
    `inputs`: of "computed"; `session.origin((hop, hop.inputs[0]))` follows one."""
    how: str
    node: "Node"
    mark: str
    place: str
    value: bytes
    text: str
    inputs: tuple[Input, ...]
    thread: int

    def __repr__(self) -> str:
        return f"<{self.how} on {self.node!r} at {self.place or self.mark}: {self.text}>"


def bytes_text(value: bytes) -> str:
    """Bytes that nobody has said the type of: as a number, or as text or hexadecimal digits if they are none."""
    if len(value) in (1, 2, 4, 8):
        number = int.from_bytes(value, "little")
        return str(number) if number < 1 << 20 else hex(number)
    shown, more = value[:_MOST_SHOWN], " ..." if len(value) > _MOST_SHOWN else ""
    return (c_quote(shown) if value.isascii() and value.decode("ascii").isprintable() else shown.hex(" ")) + more


def _register(name: str) -> tuple[str, int, int] | None:
    """(kind, first byte, size) of a register by the name that gdb gives it; None if it is not one of those that are followed."""
    if vector := _VECTOR.fullmatch(name):
        return "vector", 64 * int(vector[2]), _SIZES[vector[1]]
    return ("general", *_REGISTERS[name]) if name in _REGISTERS else None


def _place_of(session: "Session", node: int, expression: str) -> tuple[str, int, int]:
    """(kind, first byte, size) of what an expression denotes on a node."""
    if expression.startswith("$") and (register := _register(expression[1:])):
        return register
    _, data, _ = session.backend.read(node, session.plans[expression])
    try:
        _, address, _ = session.backend.read(node, session.plans[f"&({expression})"])
    except BadExpression as error:
        if found := re.search(r"in register (\$\w+)", str(error)):
            kind, low, size = _place_of(session, node, found[1])
            return kind, low, min(size, len(data))
        raise UsageError(f"{expression} is no place in memory or in a register, so nothing has written it: name a variable, a member, `*pointer` or `$rax`") from None
    return "memory", int.from_bytes(address, "little"), len(data)


def origin(session: "Session", what: "str | tuple[Hop, Input]", node: Any, most: int) -> list[Hop]:
    """The way back of a value. The group stands where it stood then."""
    check(session, "origin")
    with remembered(session):
        if isinstance(what, str):
            where = session.id_of(node)
            kind, low, size = _place_of(session, where, what)
        else:
            hop, chosen = what
            go_to(session, hop.mark)
            where, kind, low, size = int(hop.node), chosen.at.where, chosen.at.low, chosen.at.size
        raw = session._search(lambda: session.backend.origin(where, kind, low, size, most))
        return [Hop(each.how, session.nodes.all[each.node], each.mark, session.backend.location(each.node, each.pc) if each.pc else "", each.value, each.text,
                    tuple(Input(str(one.bytes), one.value, one.bytes) for one in each.inputs), each.thread) for each in raw]
