"""`origin`: where a value comes from, hop by hop, across nodes."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from .answers import brief, counted, without_parameters
from .containers import text_of
from .differences import shown
from .errors import BadExpression, ComponentDied, Error, NoSymbol, UsageError
from .frames import caller_place, own_code
from .spans import START, check, go_to, remembered, undisturbed
from .values import c_escape, c_quote

if TYPE_CHECKING:
    from .backend import Bytes
    from .nodes import Node
    from .sessions import Session
    from .values import Type

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
_SYMBOL = re.compile(r"(\S+(?: \+ \d+)?) in section ")  # gdb's answer to `info symbol`
_SCALARS = {"int", "bool", "char", "enum", "float"}
_BRACKETS = re.compile(r"\([^()\[\]]*\)|\[[^()\[\]]*\]")


@dataclass(frozen=True, slots=True)
class Input:
    """What an instruction has computed with: `name` is a register or an address, and `value` the bytes that were there. Or, of a hop that is
    only a part of what was followed, another part of it (`is_part`), with `name` such as "byte 1 of 4": followed from `mark`, or if it was
    `written` there, from behind that instruction or call."""
    name: str
    value: bytes
    at: "Bytes"
    is_part: bool = False
    mark: str = ""
    written: bool = False

    def __repr__(self) -> str:
        return f"<input {self.name} = {bytes_text(self.value)}>"


@dataclass(frozen=True, slots=True)
class Hop:
    """One step on the way back of a value. `how`: "copied", "computed" or "constant" (by an instruction), "received" and "sent" (by a
    message), "forked", "outside" (of the group), "begin" (there when the node's recording began) or "lost" (not followed further).
    `mark`: the place, for `goto`. `place`: the function and line, or "". `caller`: if that is in a library, where the program's own code
    has called it, or "". `value`: the bytes that are followed; `shown`: these as text, by
    the type of the expression where they are its whole value. `text`: what happened.
    `inputs`: of "computed" what it was computed with, and then, of a part of a value, the other parts;
    `session.origin((hop, hop.inputs[0]))` follows one."""
    how: str
    node: "Node"
    mark: str
    place: str
    value: bytes
    text: str
    inputs: tuple[Input, ...]
    thread: int
    shown: str
    caller: str = ""

    def __repr__(self) -> str:
        return f"<{self.how} on {self.node!r} at {self.place or self.mark}: {self.text}>"


def hop_place(hop: Hop) -> str:
    """Where it is, for people: the program's own line, and the library's function in which it has happened."""
    if hop.caller:
        return f"{brief(without_parameters(hop.caller))}, in {brief(without_parameters(hop.place).partition(' at ')[0])}"
    return brief(without_parameters(hop.place)) or ("its start" if hop.how == "begin" else "")


def bytes_text(value: bytes) -> str:
    """Bytes that nobody has said the type of: as a number, or as text or hexadecimal digits if they are none."""
    if len(value) in (1, 2, 4, 8):
        number = int.from_bytes(value, "little")
        return str(number) if number < 1 << 20 else hex(number)
    shown, more = value[:_MOST_SHOWN], " ..." if len(value) > _MOST_SHOWN else ""
    return (c_quote(shown) if value.isascii() and value.decode("ascii").isprintable() else shown.hex(" ")) + more


def input_texts(session: "Session", hop: Hop) -> list[tuple[str, str]]:
    """What was computed with at a hop: each register, or address with the variable that is there if gdb knows one, and its value."""
    texts = []
    for each in hop.inputs:
        symbol = _SYMBOL.match(session.backend.gdb(int(hop.node), f"info symbol {each.name}")) if each.name.startswith("0x") else None
        texts.append((f"{each.name} ({symbol[1]})" if symbol else each.name, bytes_text(each.value)))
    return texts


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


def _shown(type_: "Type | None", value: bytes) -> str:
    """The bytes on the way as text: by their type if it is known and has a better one than bytes_text()."""
    resolved = None if type_ is None else type_.resolved
    if resolved is None:
        return bytes_text(value)
    if resolved.kind == "array" and resolved.element.resolved.is_text:
        return _text(value)
    if resolved.kind not in _SCALARS or resolved.size != len(value):
        return bytes_text(value)
    decoded = type_.decode(value)
    return f"{int(decoded)} '{c_escape(decoded.char)}'" if resolved.is_text else shown(decoded)


def _bytes_of(low: int, size: int, whole: int) -> str:
    return f"byte {low} of {whole}" if size == 1 else f"bytes {low} to {low + size - 1} of {whole}"


def _part(type_: "Type | None", low: int, size: int, whole: int) -> "tuple[str, Type | None]":
    """A part of a value by the names of its members, and its type. None if there is no type for it."""
    path, first = "", low
    while type_ is not None and (low, size) != (0, type_.resolved.size):
        resolved = type_.resolved
        inner = None
        if resolved.kind == "struct":
            inner = next((("" if each.base else f".{name}", each.type, each.offset) for name, each in resolved.members.items()
                          if not each.bit_size and each.offset <= low and low + size <= each.offset + each.type.resolved.size), None)
        elif resolved.kind == "array" and (width := resolved.element.resolved.size) and low // width == (low + size - 1) // width:
            inner = f"[{low // width}]", resolved.element, low // width * width
        if inner is None:
            is_text = resolved.kind == "array" and resolved.element.resolved.is_text
            part = f"{path.removeprefix('.')}, {_bytes_of(low, size, resolved.size)}" if path else _bytes_of(first, size, whole)
            return part, type_ if is_text else None
        path, type_, low = path + inner[0], inner[1], low - inner[2]
    return path.removeprefix(".") or _bytes_of(first, size, whole), type_


def _callers(session: "Session", raw: "Sequence[Any]") -> dict[str, str]:
    """Where the program's own code has called what stands at a hop in a library, by the hop's mark. The group stands elsewhere then."""
    pcs: dict[int, set[int]] = {}
    for each in raw:
        if each.pc and each.mark != START:
            pcs.setdefault(each.node, set()).add(each.pc)
    own = {(node, pc) for node, all_ in pcs.items() for pc, is_own in zip(sorted(all_), own_code(session, node, sorted(all_))) if is_own}
    callers = {}
    for each in raw:
        if each.pc and each.mark != START and (each.node, each.pc) not in own:
            try:
                stop = session.goto(each.mark)
            except KeyboardInterrupt:
                break  # the hops are worth more than these
            except ComponentDied:
                raise
            except Error:
                continue
            if stop.kind == "interrupt":
                break
            if stop.kind == "reached":
                callers[each.mark] = caller_place(session, each.node)
    return callers


def _input(raw: Any, type_: "Type | None", mark: str) -> Input:
    if not raw.part_of:
        return Input(str(raw.bytes), raw.value, raw.bytes, mark=mark)
    return Input(_part(type_, raw.part_at, len(raw.value), raw.part_of)[0], raw.value, raw.bytes, True, raw.mark or mark, raw.written)


def _hops(session: "Session", raw: "Sequence[Any]", type_: "Type | None", is_text: bool) -> list[Hop]:
    """`type_`: of the value that is followed; None if it is not known. is_text: it is the characters of a string."""
    hops = []
    callers = _callers(session, raw)
    for each in raw:
        text = each.text
        if each.swapped:
            type_ = None
        whole = type_
        if each.part_of:
            part, type_ = _part(type_, each.part_at, len(each.value), each.part_of)
            text = f"{part}: {text}"
        hops.append(Hop(each.how, session.nodes.all[each.node], each.mark, session.backend.location(each.node, each.pc) if each.pc else "", each.value, text,
                        tuple(_input(one, whole, each.mark) for one in each.inputs), each.thread, _text(each.value) if is_text else _shown(type_, each.value),
                        callers.get(each.mark, "")))
    return hops


class _Place(NamedTuple):
    """What is followed on a node."""
    kind: str
    low: int  # the first byte
    size: int
    bits: tuple[int, int] = (0, 0)  # as for Backend.origin()
    type: "Type | None" = None  # of a register that is named as such, and of a bit-field, None: their bytes are not what the type says
    is_text: bool = False  # the characters of a string


def _place_of(session: "Session", node: int, expression: str) -> _Place:
    """What an expression denotes on a node; of a string, or an array of char with a text, the characters."""
    if expression.startswith("$") and (register := _register(expression[1:])):
        return _Place(*register)
    try:
        type_id, data, _ = session.backend.read(node, session.plans[expression])
    except NoSymbol as error:
        raise session.names.teach(node, expression, error) from None
    try:
        _, address, _ = session.backend.read(node, session.plans[f"&({expression})"])
    except BadExpression as error:
        if found := re.search(r"in register (\$\w+)", str(error)):
            register_place = _place_of(session, node, found[1])
            return register_place._replace(size=min(register_place.size, len(data)), type=session.types[type_id])
        raise UsageError(f"{expression} is no place in memory or in a register, so nothing has written it: name a variable, a member, `*pointer` or `$rax`") from None
    if field := _bit_field(session, node, expression):
        return _Place("memory", field[0], field[1], field[2:])
    low, type_ = int.from_bytes(address, "little"), session.types[type_id]
    if text := text_of(type_, data, low, lambda at, size: session.backend.read_memory(node, at, size)):
        return _Place("memory", *text, is_text=True)
    if type_.resolved.kind == "array" and type_.resolved.element.resolved.is_text and (held := data.partition(b"\0")[0]):
        return _Place("memory", low, len(held), is_text=True)
    return _Place("memory", low, len(data), type=type_)


def origin(session: "Session", what: "str | tuple[Hop, Input]", node: Any, most: int) -> list[Hop]:
    """The way back of a value. The group stands where it stood then."""
    number = 0

    def found(on: int, how: str) -> None:
        nonlocal number
        number += 1
        if session.on_hop:
            session.on_hop(f"{counted(number, 'hop')}, the last one {how} on {session.nodes.all[on].name}")

    check(session, "origin")
    with remembered(session):
        if isinstance(what, str):
            where = session.id_of(node)
            place = _place_of(session, where, what)
        else:
            hop, chosen = what
            go_to(session, chosen.mark)
            where, place = int(hop.node), _Place(chosen.at.where, chosen.at.low, chosen.at.size)
            if chosen.written:
                with undisturbed(session):
                    session.backend.step(where, "stepi")
        raw = session._search(lambda: session.backend.origin(where, place.kind, place.low, place.size, place.bits, most, found))
        return _hops(session, raw, place.type, place.is_text)
