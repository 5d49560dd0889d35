"""Maps the abstract names of a predicate to expressions of the program.

A predicate speaks of a `term` or of a node's `successor`; a program calls it `raft.current_term` or `srv.successor->id`. Each
abstract name is given an Expression when the predicate is made:

    a text       a C or C++ expression, evaluated on the node: "raft.current_term"
    a function   called with the friday.Node, where one expression is not enough: lambda node: node.read("seq") + node.id * 1000

A collection (a routing table, a log) is given as a text in one of these forms, or as a function that returns an iterable:

    ARRAY            an array of the program: "routes"
    ARRAY[:COUNT]    the first COUNT elements of an array, where COUNT is an expression: "routes[:nroutes]"
    FIRST..NEXT      a linked list: the pointer to its first element, and the field that points to the next: "srv.fingers..next"

The elements are snapshots. A field of an element is named by its path, such as "node.id". Of an array or a vector only those
elements are read that are asked for (friday.Node.view), until the group moves on.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, Mapping, Sequence

import friday

Expression = str | Callable[[friday.Node], Any]
Row = dict[str, Any]

MAX_LINKED = 4096
_SLICE = re.compile(r"(.+)\[:(.+)\]\Z", re.S)


def read(node: friday.Node, expression: Expression) -> Any:
    """The value of the expression on a node; None if it follows a null or dangling pointer."""
    try:
        return expression(node) if callable(expression) else node.read(expression)
    except friday.BadAddress:
        return None


def read_row(node: friday.Node, names: Mapping[str, Expression]) -> Row:
    """The values of all abstract names on a node."""
    return {name: read(node, expression) for name, expression in names.items()}


def field(element: Any, path: str) -> Any:
    """The field of an element at a path such as "node.id"; the element itself for the empty path. Only fields of the program's
    struct count, not attributes of the snapshot (`type`, `bytes`, `address`). Raises UsageError if there is no such field."""
    for name in path.split(".") if path else ():
        try:
            if isinstance(element, friday.Snapshot) and not isinstance(element, (friday.Struct, Mapping)):
                raise AttributeError(f"a value of type {element.type.name} has no fields")
            element = element[name] if isinstance(element, (friday.Struct, Mapping)) else getattr(element, name)
        except (AttributeError, KeyError) as error:
            raise friday.UsageError(f"`{path}` cannot be read: {error.args[0]}") from None
    return element


def fields(element: Any, paths: str) -> Any:
    """The fields at comma-separated paths such as "term, command", as a tuple; for a single path the field itself."""
    values = tuple(field(element, path.strip()) for path in paths.split(","))
    return values[0] if len(values) == 1 else values


def items(collection: Expression) -> Callable[[friday.Node], Sequence[Any]]:
    """A function that reads a collection, given in one of the forms above, from a node. The function raises UsageError if the
    expression is no array, if COUNT exceeds the array, or if a list has more than MAX_LINKED elements or a cycle."""
    if callable(collection):
        return lambda node: _sequence(collection(node))
    if ".." in collection:
        first, _, next_field = collection.partition("..")
        return lambda node: _linked(node, first, next_field)
    cut = _SLICE.match(collection)
    return (lambda node: _counted(node, cut[1], cut[2])) if cut else (lambda node: node.view(collection))


def _sequence(found: Any) -> Sequence[Any]:
    return found if isinstance(found, Sequence) else list(found or ())


class _Front(Sequence):
    """The first elements of a sequence, without a copy."""

    def __init__(self, whole: Sequence[Any], length: int) -> None:
        self._whole, self._length = whole, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            first, last, step = index.indices(self._length)
            return self._whole[first:last] if step == 1 else tuple(self._whole[i] for i in range(first, last, step))
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._whole[index % self._length]


def _counted(node: friday.Node, expression: str, count: str) -> Sequence[Any]:
    value, length = node.view(expression), int(node.read(count))
    if not 0 <= length <= len(value):
        raise friday.UsageError(f"`{count}` is {length} on {node.name}, but `{expression}` has {len(value)} elements: give a count within the array")
    return _Front(value, length)


def _linked(node: friday.Node, first: str, next_field: str) -> Sequence[Any]:
    """Reads element after element by the expressions FIRST, FIRST->NEXT, FIRST->NEXT->NEXT and so on. These texts are the same
    at every read of the list, so each is compiled only once."""
    found: list[Any] = []
    pointer, chain = node.read(first), first
    while pointer:
        if len(found) == MAX_LINKED:
            raise friday.UsageError(f"the list `{first}..{next_field}` of {node.name} has more than {MAX_LINKED} elements or forms a cycle")
        element = node.read(f"*{chain}")
        found.append(element)
        pointer, chain = field(element, next_field), f"{chain}->{next_field}"
    return found


def watched(expressions: Iterable[Expression | None]) -> list[str]:
    """The expressions to watch so that no change of the given ones is missed. Raises UsageError for a function or a list, whose
    memory does not follow from a text."""
    texts: list[str] = []
    for expression in expressions:
        if expression is None:
            continue
        if callable(expression) or ".." in expression:
            what = "a function" if callable(expression) else f"the list `{expression}`"
            raise friday.UsageError(f"{what} does not say which memory to watch: give watch= with expressions, or at= with a place in the code")
        cut = _SLICE.match(expression)
        texts += [cut[1], cut[2]] if cut else [expression]
    return list(dict.fromkeys(text for text in texts))
