"""Which names code mentions, and what it does with them: whether a predicate of until.py reads what handlers change.

The code is looked at, not run, so a name that is changed through a dictionary (`globals()["x"] = 1`) or in a method of an object is not
seen to change.
"""
from __future__ import annotations

import builtins
import dis
import enum
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, NamedTuple

from .handlers import cell_values
from .nodes import NodeMap
from .states import is_users_module
from .values import Snapshot

if TYPE_CHECKING:
    from .sessions import Session

_IMMUTABLE = (int, float, complex, str, bytes, range, type(None), enum.Enum, Snapshot)  # a Node is an int

# What a predicate asks of a session that comes from the nodes and not from Python.
_OF_NODES = frozenset(("all_nodes", "backend", "call", "choose", "every_node", "id_of", "last_message", "logical_time", "messages", "node", "nodes", "read",
                       "real_time"))


class Mention(NamedTuple):
    """One place in some code where it mentions a name."""
    scope: Mapping[str, Any]  # has the value of the name, if it has one
    name: str
    changes: bool  # sets or deletes it
    attribute: str  # which of its attributes is asked for; "" if it is none


def mentions(function: Any, namespace: dict[str, Any]) -> Iterator[Mention]:
    """The names outside of it that a function or a condition of compile_condition() mentions, and those that functions and maps of nodes
    mention which it reads by name. namespace: the session's."""
    seen: set[int] = set()
    waiting: list[tuple[CodeType, Mapping[str, Any], Mapping[str, Any], frozenset[str]]] = []

    def enter(thing: Any) -> None:
        code = code_of(thing)
        if code is None or id(thing) in seen:
            return
        seen.add(id(thing))
        if code is getattr(thing, "__code__", None):
            waiting.append((code, thing.__globals__, cell_values(thing), frozenset(code.co_freevars)))
        else:
            waiting.append((code, namespace, {}, frozenset()))

    enter(function)
    while waiting:
        code, scope, cells, free = waiting.pop()
        waiting.extend((inner, scope, cells, free) for inner in code.co_consts if isinstance(inner, CodeType))
        instructions = list(dis.get_instructions(code))
        for instruction, after in zip(instructions, [*instructions[1:], None]):
            action, _, kind = instruction.opname.partition("_")
            if action not in ("LOAD", "STORE", "DELETE"):
                continue
            name = instruction.argval
            if kind.endswith(("NAME", "GLOBAL", "GLOBALS")):
                where = scope
            elif kind.endswith("DEREF") and name in free:
                where = cells
            else:
                continue
            attribute = after.argval if after is not None and after.opname in ("LOAD_ATTR", "LOAD_METHOD") else ""
            yield Mention(where, name, action != "LOAD", attribute)
            value = where.get(name)
            if not (isinstance(value, FunctionType) and (value.__module__ or "").startswith("friday.")):
                enter(value)


def code_of(thing: Any) -> CodeType | None:
    """The code that a function, a method, a condition or a map of nodes consists of. None for anything else."""
    if isinstance(thing, NodeMap):
        return thing._code
    if not isinstance(thing, (FunctionType, MethodType)):
        return None
    for code in (getattr(thing, "condition", None), getattr(thing, "__code__", None)):
        if isinstance(code, CodeType):
            return code
    return None


def collected(predicate: Callable[[], Any], handlers: Iterable[Any], session: "Session") -> list[str]:
    """The names of the session that a predicate reads and that handlers change. What cannot change itself is changed where a handler sets or
    deletes its name; anything else may be changed wherever a handler mentions it."""
    namespace = session.namespace
    mentioned: set[str] = set()
    changed: set[str] = set()
    for handler in handlers:
        for each in mentions(handler, namespace):
            if each.scope is namespace:
                mentioned.add(each.name)
                if each.changes:
                    changed.add(each.name)
    read = {each.name for each in mentions(predicate, namespace) if each.scope is namespace} & session.declared
    return sorted(name for name in read if name in (changed if _is_immutable(namespace[name]) else mentioned)
                  and not callable(namespace[name]) and not isinstance(namespace[name], (ModuleType, NodeMap)))


def _is_immutable(value: Any) -> bool:
    return isinstance(value, _IMMUTABLE) or isinstance(value, (tuple, frozenset)) and all(map(_is_immutable, value))


def reads_python(predicate: Callable[[], Any], session: "Session") -> bool:
    """Whether a predicate reads in Python what handlers may change: names, except those of functions and modules that hold nothing, and of
    the session what does not come from the nodes. A method reads its object, and what has no code to look at may read anything."""
    if code_of(predicate) is None or isinstance(predicate, MethodType):
        return True
    for each in mentions(predicate, session.namespace):
        if each.name not in each.scope:
            if not hasattr(builtins, each.name):
                return True
            continue
        value = each.scope[each.name]
        if value is session:
            if each.attribute not in _OF_NODES:
                return True
        elif not _holds_nothing(value, each.attribute):
            return True
    return False


def _holds_nothing(value: Any, attribute: str) -> bool:
    if isinstance(value, ModuleType):
        return not is_users_module(value) and attribute not in ("session", "state")
    return isinstance(value, (BuiltinFunctionType, NodeMap)) or isinstance(value, FunctionType) and not attribute
