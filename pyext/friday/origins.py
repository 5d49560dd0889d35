"""`origin`: where a value comes from, hop by hop, across nodes."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from .differences import shown
from .errors import BadExpression, NoSymbol, UsageError
from .spans import check, go_to, remembered
from .values import c_escape, c_quote

if TYPE_CHECKING:
    from .backend import Bytes
    from .nodes import Node
    from .sessions import Session

MOST_HOPS = 100
_MOST_SHOWN = 16  # bytes of a value
_MOST_TEXT = 40  # bytes of a text
_GENERAL = ("ax", "cx", "dx", "bx", "sp", "bp", "si", "di")
# By name: the first byte and the size of a general register.
_REGISTERS = {prefix + name: (8 * number, size) for number, name in enumerate(_GENERAL) for prefix, size in (("r", 8), ("e", 4), ("", 2))}
_REGISTERS |= {f"r{number}{suffix}": (8 * number, size) for number in range(8, 16) for suffix, size in (("", 8), ("d", 4), ("w", 2))}
_VECTOR = re.compile(r"([xyz])mm([12]?\d|3[01])")
_SIZES = {"x": 16, "y": 32, "z": 64}
_MEMBER = re.compile(r"(.*\S)\s*(\.|->)\s*(\w+)", re.DOTALL)
_POSTFIX = re.compile(r"[\w$:]*(?:(?:\.|->)[\w$:]+)*")
_SCALARS = {"int", "bool", "char", "enum", "float"}
_BRACKETS = re.compile(r"\([^()\[\]]*\)|\[[^()\[\]]*\]")


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
    `mark`: the place, for `goto`. `place`: the function and line, or "". `value`: the bytes that are followed; `shown`: these as text, by
    the type of the expression where they are its whole value. `text`: what happened.
    `inputs`: of "computed"; `session.origin((hop, hop.inputs[0]))` follows one."""
    how: str
    node: "Node"
    mark: str
    place: str
    value: bytes
    text: str
    inputs: tuple[Input, ...]
    thread: int
    shown: str

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


def _without_parentheses(expression: str) -> str:
    """Without those around the whole expression."""
    text = expression.strip()
    while text.startswith("(") and text.endswith(")"):
        inner = text[1:-1]
        depths = [inner[:i].count("(") - inner[:i].count(")") for i in range(len(inner) + 1)]
        if min(depths) < 0:
            break
        text = inner.strip()
    return text


def _is_postfix(expression: str) -> bool:
    """Whether an expression has no operators but . -> [] and calls outside of brackets."""
    text, before = re.sub(r"\s*(->|[.()\[\]])\s*", r"\1", expression), ""
    while text != before:
        text, before = _BRACKETS.sub("", text), text
    return _POSTFIX.fullmatch(text) is not None


def _bit_field(session: "Session", node: int, expression: str) -> tuple[int, int, int, int] | None:
    """The address and number of the bytes that have a bit-field, the number of its first bit in these, and how many bits it has. None if
    the expression denotes no bit-field."""
    match = _MEMBER.fullmatch(_without_parentheses(expression))
    if not match or not _is_postfix(match[1]):
        return None
    struct = match[1] if match[2] == "." else f"*({match[1]})"
    type_id, _, _ = session.backend.read(node, session.plans[struct])
    member = session.types[type_id].resolved.members.get(match[3])
    if member is None or not member.bit_size:
        return None
    _, address, _ = session.backend.read(node, session.plans[f"&({struct})"])
    return int.from_bytes(address, "little") + member.offset, (member.bit_offset + member.bit_size + 7) // 8, member.bit_offset, member.bit_size


def _text(value: bytes) -> str:
    """Bytes of an array of char, without the zeros behind a text."""
    text = value.rstrip(b"\0")
    return c_quote(text[:_MOST_TEXT]) + (" ..." if len(text) > _MOST_TEXT else "")


def _shower(session: "Session", node: int, expression: str) -> Callable[[bytes], str]:
    """How the bytes on the way are shown: as the type of the expression says where they are its value, or a part of its text."""
    type_id, data, address = session.backend.read(node, session.plans[expression])
    resolved = session.types[type_id].resolved
    if resolved.kind in _SCALARS:
        decoded = session.decoders[type_id](data, address, node)
        value = f"{int(decoded)} '{c_escape(decoded.char)}'" if resolved.is_text else shown(decoded)
        return lambda part: value if part == data else bytes_text(part)
    if resolved.kind == "array" and resolved.element.resolved.is_text:
        return lambda part: _text(part) if part in data else bytes_text(part)
    return bytes_text


def _place_of(session: "Session", node: int, expression: str) -> tuple[str, int, int, tuple[int, int]]:
    """(kind, first byte, size, bits) of what an expression denotes on a node; bits as for Backend.origin()."""
    if expression.startswith("$") and (register := _register(expression[1:])):
        return *register, (0, 0)
    try:
        _, data, _ = session.backend.read(node, session.plans[expression])
    except NoSymbol as error:
        raise session.names.teach(node, expression, error) from None
    try:
        _, address, _ = session.backend.read(node, session.plans[f"&({expression})"])
    except BadExpression as error:
        if found := re.search(r"in register (\$\w+)", str(error)):
            kind, low, size, bits = _place_of(session, node, found[1])
            return kind, low, min(size, len(data)), bits
        raise UsageError(f"{expression} is no place in memory or in a register, so nothing has written it: name a variable, a member, `*pointer` or `$rax`") from None
    if field := _bit_field(session, node, expression):
        return "memory", field[0], field[1], field[2:]
    return "memory", int.from_bytes(address, "little"), len(data), (0, 0)


def origin(session: "Session", what: "str | tuple[Hop, Input]", node: Any, most: int) -> list[Hop]:
    """The way back of a value. The group stands where it stood then."""
    check(session, "origin")
    with remembered(session):
        show: Callable[[bytes], str] = bytes_text
        if isinstance(what, str):
            where = session.id_of(node)
            kind, low, size, bits = _place_of(session, where, what)
            if not bits[1] and not what.startswith("$"):
                show = _shower(session, where, what)
        else:
            hop, chosen = what
            go_to(session, hop.mark)
            where, kind, low, size, bits = int(hop.node), chosen.at.where, chosen.at.low, chosen.at.size, (0, 0)
        raw = session._search(lambda: session.backend.origin(where, kind, low, size, bits, most))
        return [Hop(each.how, session.nodes.all[each.node], each.mark, session.backend.location(each.node, each.pc) if each.pc else "", each.value, each.text,
                    tuple(Input(str(one.bytes), one.value, one.bytes) for one in each.inputs), each.thread,
                    show(each.value)) for each in raw]
