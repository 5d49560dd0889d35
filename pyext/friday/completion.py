"""Completion at the prompt, of commands, nodes, ids, Python names and files, and with gdb's help of C expressions and locations."""
from __future__ import annotations

import ast
import builtins
import functools
import keyword
import pathlib
import re
from typing import TYPE_CHECKING, Any, Iterable

from . import pages
from .commands import words
from .errors import Error
from .info import GDB_TOPICS, REFUSED_TOPICS, TOPICS, resolve_topic
from .history import PLACES
from .running import SCOPES, SETTINGS, SYNCS
from .signals import ACTIONS, NAMES
from .table import GDB_COMMANDS, OWNED, resolve

if TYPE_CHECKING:
    from .sessions import Session

_C_IN_PYTHON = re.compile(r"@[\w.\[\]\"'-]*\(([^()]*)\Z")
_NODE_IN_PYTHON = re.compile(r"@[\"']([^\"']*)\Z")
_NAME = re.compile(r"((?:\w+\.)*)(\w*)\Z")

CATCHES = ("syscall", "signal", "fork", "exec", "throw", "rethrow", "catch")

Completions = tuple[list[str], bool]


def complete(session: "Session", line: str, start: int, in_block: bool) -> Completions | None:
    """See Console.complete."""
    if in_block or line.lstrip().startswith("@"):
        return _python(session, line, start)
    nodes, verb, rest = words(line, session) if line.strip() else (None, "", "")
    if rest == "" and not line[-1:].isspace():  # the verb itself, or a node list before it
        typed = line[start:]
        return _verbs(session, typed, nodes is None and line.strip() == typed), True
    if nodes is None and rest == "" and _is_nodes(session, verb):  # only a node list and a blank
        return _verbs(session, "", False), True
    command = line.strip() if nodes is None else line.split(None, 1)[1]
    if line[-1:].isspace() and not command[-1:].isspace():
        command += " "
    return _arguments(session, resolve(verb) or verb, rest, command, line, start)


def _arguments(session: "Session", verb: str, rest: str, command: str, line: str, start: int) -> Completions | None:
    typed = line[start:]
    match verb:
        case "py" | "python" | "map":
            return _python(session, line, start)
        case "source":
            return None
        case "help":
            return _starting(typed, pages.topics() if rest.startswith("page") and (" " in rest or line[-1:].isspace())
                             else {*OWNED, *pages.topics(), "page", *_gdb(session, typed)}), True
        case "node":
            return _nodes(session, typed), True
        case "goto":
            words_typed = [*rest.split(), *([""] if line[-1:].isspace() else [])]
            if len(words_typed) == 1:
                return _starting(typed, [*PLACES, *session.bookmarks]), True
            return (_nodes(session, typed) if words_typed[0] == "event" and len(words_typed) == 3 or words_typed[0] == "output" and len(words_typed) == 2 else []), True
        case "catch" | "tcatch" if " " not in rest:
            return _starting(typed, CATCHES), True
        case "catch" | "tcatch" if rest.startswith("signal"):
            return _starting(typed, NAMES), True
        case "catch" | "tcatch":
            return [line for line in _starting(typed, (text.rpartition(" ")[2] for text in _gdb(session, f"catch syscall {typed}")))], True
        case "handle":
            return _starting(typed, (*NAMES, *ACTIONS, "all")), True
        case "why":
            return _nodes(session, typed), True
        case "diff" if rest.count(" ") + line[-1:].isspace() < 2:
            return _nodes(session, typed), True
        case "diff":  # the third argument is an expression, which gdb completes
            return _starting(typed, _after(_gdb(session, f"print {typed}"), f"print {typed}", typed)), False
        case "alias":
            return _starting(typed, session.aliases), True
        case "save":
            return None if rest.startswith("session") and line[-1:].isspace() or " " in rest else (_starting(typed, {"session"}), True)
        case "origin" | "when":  # gdb knows neither, and completes their expressions as those of `print`
            text = f"print {rest}{line[len(line.rstrip()):]}" if rest else "print "
            return _starting(typed, _after(_gdb(session, text), text, typed)), False
        case "first":
            return _python(session, line, start)
        case "continue" | "reverse-continue" if rest == "until" and line[-1:].isspace() or rest.startswith("until "):
            return _python(session, line, start)
        case "continue" | "reverse-continue":
            return _starting(typed, {"until"}), True
        case "set" if rest == "sync" and line[-1:].isspace() or rest.startswith("sync "):
            return _starting(typed, SYNCS), False
        case "set" if rest == "scope" and line[-1:].isspace() or rest.startswith("scope "):
            return _starting(typed, SCOPES), False
        case "set" if rest == "gdb" and line[-1:].isspace() or rest.startswith("gdb "):
            return _starting(typed, {"background", "lazy"}), False
        case "set" if " " not in rest:
            return _starting(typed, {*SETTINGS, *(_after(_gdb(session, command), command, typed) if typed else ("var", "print", "listsize", "language"))}), True
        case "info" if resolve_topic(rest.partition(" ")[0]) == "messages" and (" " in rest or line[-1:].isspace()):
            return _nodes(session, typed), True
        case "delete" | "enable" | "disable" | "ignore" | "condition" | "commands":
            return _starting(typed, map(str, session.points)), True
        case "info" if " " not in rest:
            return _starting(typed, {*TOPICS, *(_after(_gdb(session, command), command, typed) if typed else GDB_TOPICS)} - {*REFUSED_TOPICS}), True
        case "quit" | "restart":
            return [], False
    return _starting(typed, _after(_gdb(session, command), command, typed)), False


def _nodes(session: "Session", typed: str) -> list[str]:
    return _starting(typed, [*session.nodes.names, *(str(node) for node in session.nodes)])


def _is_nodes(session: "Session", text: str) -> bool:
    return resolve(text) is None and words(f"{text} x", session)[0] is not None


def _verbs(session: "Session", typed: str, with_nodes: bool) -> list[str]:
    names: set[str] = {*OWNED, *GDB_COMMANDS, *(text for text in _gdb(session, typed) if typed and " " not in text)}
    if with_nodes:
        head, comma, last = typed.rpartition(",")
        names.update(f"{head}{comma}{name}" for name in session.nodes.names)
    return _starting(typed, names)


def _starting(typed: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(typed))


def _gdb(session: "Session", text: str) -> list[str]:
    """The lines to which gdb would complete a text, without symbols that only the linker made (@plt, @got)."""
    backend = session.backend
    alive = [int(node) for node in session.all_nodes]
    for node in [session.here] if session.here in alive or not alive else alive[:1]:
        try:
            return [line for line in backend.gdb(node, f"complete {text}").splitlines() if "***" not in line and "@plt" not in line and "@got" not in line]
        except Error:
            break
    return []


def _after(lines: Iterable[str], command: str, typed: str) -> list[str]:
    """What each of gdb's lines has in place of the typed word, the last of the command."""
    head = len(command) - len(typed)
    return [line[head:] for line in lines if line[:head] == command[:head]]


def _python(session: "Session", line: str, start: int) -> Completions:
    typed = line[start:]
    found = _C_IN_PYTHON.search(line)
    if found:
        text = found[1]
        head = line[start:found.start(1)] if found.start(1) >= start else ""
        skip = max(start - found.start(1), 0)
        return [head + full[len("print ") + skip:] for full in _gdb(session, f"print {text}")
                if full.startswith("print ") and (head + full[len("print ") + skip:]).startswith(typed)], False
    found = _NODE_IN_PYTHON.search(typed)
    if found:
        head = typed[:found.start(1)]
        return [f"{head}{name}{head[-1]}" for name in session.nodes.names if name.startswith(found[1])], False
    found = _NAME.search(typed)
    assert found is not None
    head = typed[:found.start(2)]
    return [head + name for name in _starting(found[2], _names(session, found[1].rstrip(".")))
            if found[2].startswith("_") or not name.startswith("_")], False


def _names(session: "Session", path: str) -> Iterable[str]:
    if not path:
        return {*session.namespace, *dir(builtins), *keyword.kwlist}
    first, *rest = path.split(".")
    value: Any = session.namespace.get(first, getattr(builtins, first, None))
    for name in rest:
        value = getattr(value, name)
    return _public().get(type(value).__name__, dir(value)) if type(value).__module__.startswith(__package__) else dir(value)


@functools.cache
def _public() -> dict[str, list[str]]:
    """The public names of each class of the package, taken from its __init__.pyi."""
    tree = ast.parse((pathlib.Path(__file__).parent / "__init__.pyi").read_text(encoding="utf-8"))
    classes = {part.name: part for part in tree.body if isinstance(part, ast.ClassDef)}

    def names(part: ast.ClassDef) -> set[str]:
        own = {each.name for each in part.body if isinstance(each, ast.FunctionDef)}
        own |= {each.target.id for each in part.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}
        return own.union(*(names(classes[base.id]) for base in part.bases if isinstance(base, ast.Name) and base.id in classes))
    return {name: sorted(names(part)) for name, part in classes.items()}
