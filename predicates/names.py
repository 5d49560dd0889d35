"""What a predicate calls a thing, and how the program writes it.

A predicate speaks of a `term` or of a node's `successor`; a program calls it `raft.current_term` or `srv.successor->id`. Each
abstract name is given an Expression when the predicate is made:

    a text       C or C++, evaluated on the node: "raft.current_term"
    a function   of the friday.Node, for what takes more than one read: lambda node: node.read("seq") + node.id * 1000

A collection (a routing table, a log) is given as text too, or as a function that returns something iterable:

    ARRAY            an array of the program: "routes"
    ARRAY[:COUNT]    its first COUNT elements, COUNT an expression: "routes[:nroutes]"
    FIRST..NEXT      a linked list: the pointer to its first element, and the field that points to the next: "srv.fingers..next"

Elements are snapshots, read in one piece; their fields are named by paths as "node.id".
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
    """The value on a node; None where it cannot be read because a pointer on the way is null or dangling."""
    try:
        return expression(node) if callable(expression) else node.read(expression)
    except friday.BadAddress:
        return None


def read_row(node: friday.Node, names: Mapping[str, Expression]) -> Row:
    """The values of all abstract names on a node."""
    return {name: read(node, expression) for name, expression in names.items()}


def field(element: Any, path: str) -> Any:
    """The field of a struct by its path, `node.id`; the element itself for the empty path. What a snapshot knows of itself (`type`,
    `bytes`, `address`) is no field of the program's. Raises UsageError for a field that is not there."""
    for name in path.split(".") if path else ():
        try:
            if isinstance(element, friday.Snapshot) and not isinstance(element, (friday.Struct, Mapping)):
                raise AttributeError(f"a value of type {element.type.name} has no fields")
            element = element[name] if isinstance(element, (friday.Struct, Mapping)) else getattr(element, name)
        except (AttributeError, KeyError) as error:
            raise friday.UsageError(f"`{path}` cannot be read: {error.args[0]}") from None
    return element


def fields(element: Any, paths: str) -> Any:
    """Several fields as a tuple, "term, command"; a single one as it is."""
    values = tuple(field(element, path.strip()) for path in paths.split(","))
    return values[0] if len(values) == 1 else values


def items(collection: Expression) -> Callable[[friday.Node], Sequence[Any]]:
    """A function that reads a collection, given in one of the forms above, from a node. Raises UsageError when the
    program's count does not fit its array."""
    if callable(collection):
        return lambda node: list(collection(node) or ())
    if ".." in collection:
        first, _, next_field = collection.partition("..")
        return lambda node: _linked(node, first, next_field)
    cut = _SLICE.match(collection)
    return (lambda node: _counted(node, cut[1], cut[2])) if cut else (lambda node: _array(node, collection))


def _array(node: friday.Node, expression: str) -> Sequence[Any]:
    value = node.read(expression)
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise friday.UsageError(f"`{expression}` is not an array but {value!r}; behind a pointer write *(TYPE(*)[LENGTH])POINTER")
    return value


def _counted(node: friday.Node, expression: str, count: str) -> Sequence[Any]:
    value, length = _array(node, expression), int(node.read(count))
    if not 0 <= length <= len(value):
        raise friday.UsageError(f"`{count}` is {length} on {node.name}, and `{expression}` has {len(value)} elements")
    return value[:length]


def _linked(node: friday.Node, first: str, next_field: str) -> Sequence[Any]:
    """Reads by longer and longer chains from the first pointer: their texts are the same at each look, so each is
    compiled once."""
    found: list[Any] = []
    pointer, chain = node.read(first), first
    while pointer:
        if len(found) == MAX_LINKED:
            raise friday.UsageError(f"the list `{first}..{next_field}` of {node.name} has more than {MAX_LINKED} elements, or is a circle")
        element = node.read(f"*{chain}")
        found.append(element)
        pointer, chain = field(element, next_field), f"{chain}->{next_field}"
    return found


def watched(expressions: Iterable[Expression | None]) -> list[str]:
    """What to watch so that no change of these is missed. Raises UsageError for what cannot be watched by its text."""
    texts: list[str] = []
    for expression in expressions:
        if expression is None:
            continue
        if callable(expression) or ".." in expression:
            what = "a function" if callable(expression) else f"the list `{expression}`"
            raise friday.UsageError(f"it does not follow from {what} what to watch: give watch=, or at= with a place in the code")
        cut = _SLICE.match(expression)
        texts += [cut[1], cut[2]] if cut else [expression]
    return list(dict.fromkeys(text for text in texts))
