"""Views: arrays and containers of which only the items that are asked for are read.

`node.read("raft.log")` copies every item, which for a log of n entries that is looked at after each entry is n * n. `node.view` copies
none: a vector, a deque, an array or a C array tells where its item i stands, so an item or a slice is one read of memory.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import containers
from .errors import BadAddress, BadExpression, NoSymbol, UsageError
from .values import Type

if TYPE_CHECKING:
    from .sessions import Session


class View(Sequence):
    """The items of an array or container of a node, as they are where the group stands: len(), [i] and [a:b], which is a tuple of
    snapshots. A view is good until the group moves on; then it raises UsageError, since its memory may hold something else."""

    def __init__(self, session: "Session", node: int, expression: str, places: containers.Places) -> None:
        self._session, self._node, self._expression, self._places = session, node, expression, places
        self._moves = session.moves

    def __len__(self) -> int:
        return self._places.count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            return self._read(first, last) if step == 1 else tuple(self[i] for i in range(first, last, step))
        at = int(index)
        at += len(self) if at < 0 else 0
        if not 0 <= at < len(self):
            raise IndexError(f"`{self._expression}` has {len(self)} items, none with the index {int(index)}")
        return self._read(at, at + 1)[0]

    def _read(self, first: int, last: int) -> tuple[Any, ...]:
        if self._session.moves != self._moves:
            raise UsageError(f"the group has moved on since the view of `{self._expression}` was made: ask the node for another one")
        memory = lambda at, size: self._session.backend.read_memory(self._node, at, size)  # noqa: E731
        item, size = self._places.item, self._places.item.size
        found: list[Any] = []
        for address, count in self._places.runs(first, last):
            data = memory(address, count * size)
            found += [containers.value_of(item, data[i * size:(i + 1) * size], address + i * size, memory, self._node) for i in range(count)]
        return tuple(found)

    def __repr__(self) -> str:
        return f"<view of {len(self)} items of {self._expression}>"


def view(session: "Session", node: int, expression: str) -> Sequence[Any]:
    """A View of what the expression denotes on a node; its value itself, all items read, if it is a sequence of another kind: a list, a
    set, or the result of a call. Raises UsageError if it is no sequence, BadExpression if its memory does not hold a valid container."""
    known = session._arrays.get((node, expression))
    address = None if known is None else _address(session, node, expression, known)
    if known is not None and address is not None:
        return View(session, node, expression, containers.contiguous(known.element.resolved, address, known.count))
    try:
        type_id, data, address = session.backend.read(node, session.plans[expression])  # of a container only the object, without its items
    except (NoSymbol, BadExpression) as error:
        raise session.names.teach(node, expression, error) from None
    type_ = session.types[type_id].resolved
    if type_.kind == "array" and address is not None and not type_.element.resolved.is_text:
        session._arrays[node, expression] = type_
        return View(session, node, expression, containers.contiguous(type_.element.resolved, address, type_.count))
    places = _places(session, node, type_, data, address)
    if places is not None:
        return View(session, node, expression, places)
    value = session.decoders[type_id](data, address, node)
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise UsageError(f"`{expression}` is {value!r}, not an array; for an array behind a pointer write *(TYPE(*)[LENGTH])POINTER")
    return value


def _address(session: "Session", node: int, expression: str, array: Type) -> int | None:
    """Where an array stands, without reading it; None if the expression denotes another one now, such as a local of another frame."""
    try:
        pointer = session.read(node, f"&({expression})")
        target = pointer.type.target.resolved
    except (NoSymbol, BadExpression, AttributeError, KeyError):
        return None
    return int(pointer) if target.kind == "array" and target.key == array.key else None


def _places(session: "Session", node: int, type_: Type, data: bytes, address: int | None) -> containers.Places | None:
    """Where the items of a container stand; None if they must be read one by one."""
    if type_.standard not in containers.RANDOM_ACCESS:
        return None
    memory = lambda at, size: session.backend.read_memory(node, at, size)  # noqa: E731
    try:
        return containers.RANDOM_ACCESS[type_.standard](containers.Object(type_, data, address, memory))
    except containers.Unknown as error:
        raise containers.unknown(type_, node, error) from None
    except containers.Unreadable as error:
        raise BadExpression(f"this {type_.standard} of node {node} {error}: it is not constructed yet, already destroyed, or damaged; `print` shows its memory") from None
    except (KeyError, AttributeError) as error:
        raise containers.unknown(type_, node, containers.Unknown(f"has an unknown layout: {error}")) from None
    except BadAddress as error:
        raise BadExpression(f"the items of this {type_.standard} of node {node} cannot be found: {error}") from None
