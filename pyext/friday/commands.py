"""The console's language: lines of text with commands, their node lists and their blocks.

    [NODES] COMMAND ...           a node list before any command
      BLOCK                       indented lines: the handler, or the Python, of the command above
    @(EXPR)                       a line that starts with @ is Python
    commands ID ... end           a handler for a stop point that exists
    python ... end

`split` cuts a text into commands with their blocks, and `execute` carries them out. The console (console.py) uses both for what
is typed and for sourced files. table.py lists all commands. The commands for stop points and for Python are implemented here,
those that run the group in running.py, `info` and `help` in info.py, `why` and `diff` in questions.py, `alias` and `save` in
keeping.py. A command that Friday neither owns nor refuses goes to gdb.
"""
from __future__ import annotations

import difflib
import functools
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator

from .answers import Output, brief, counted, named, ranges
from .errors import Error, NodeEnded, NodeNotStarted, NoNode, UsageError
from .frames import file_here, source_place
from .points import StopPoint
from .signals import handle
from .table import GDB_COMMANDS, MOVES, OWNED, REFUSED, refusal, resolve
from .threads import by_name

if TYPE_CHECKING:
    from .nodes import Node
    from .sessions import Session

WATCHES = {"watch": "", "rwatch": "-reads ", "awatch": "-access "}  # each verb with the option that it puts before the expression
SETS_POINT = {"break", "tbreak", "catch", "tcatch", *WATCHES}
_TAKES_BLOCK = {*SETS_POINT, "commands", "py", "python"}
_CONDITION = re.compile(r"(?:^|\s+)if\b\s*(.*)\Z", re.S)
_BEFORE_START = re.compile(r"^(#\d+ .* _dl_start_user \(\).*\n)(?:#\d+ .*\n?)+", re.M)  # the loader's first frame has no caller, yet gdb shows more frames
_OF_A_FRAME = re.compile(r"(?:backtrace|bt|where|frame|f|up|down|(?:info|i) (?:locals|args|frame|lo|f))\b")
_NODE_LIST = re.compile(r"(?=\S*[\w*?.])[\w*?\[\]!#/.,:+-]+\Z")
# commands that set up a gdb and ask nothing of its program
_SETS_GDB = re.compile(r"(?:set|unset|add-symbol-file|symbol-file|remove-symbol-file|dir(?:ectory)?|skip|macro|maint(?:enance)?)\b")
_ASSIGNS = re.compile(r"set\s+(?:var\w*\s|[^=]*[^=!<>]=(?!=))")
_CHANGES = re.compile(r"(?:set|call|return|jump)\b|[^=!<>]=(?!=)|\+\+|--|[\w>]\s*\(")  # a command that is meant to change the program
_TEXT_SETTINGS = re.compile(r"set\s+(?:env|prompt|args|substitute-path|debug-file-directory|logging|style)")  # their values may contain `=`


@dataclass(slots=True)
class Command:
    """One command: its node list or None, its verb, the rest of its line, and its block with the number of the block's first line."""
    nodes: str | None
    verb: str
    rest: str
    block: str
    line: int
    block_line: int

    @property
    def has_block(self) -> bool:
        return bool(self.block.strip())


def split(text: str, session: "Session | None" = None, first_line: int = 1) -> Iterator[Command]:
    """Splits a text into commands. A first word counts as a node list if it is one for this session. Raises UsageError for a
    block without a command and for a missing `end`."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] in " \t":
            raise UsageError(f"line {first_line + at - 1}: this indented line belongs to no command: {line.strip()}")
        start = at
        while at < len(lines) and _in_block(lines, at):
            at += 1
        nodes, verb, rest = words(line, session)
        if not "".join(lines[start:at]).strip() and needs_end(verb, rest):
            start = at
            while at < len(lines) and lines[at].strip() != "end":
                at += 1
            if at == len(lines):
                raise UsageError(f"line {first_line + start - 1}: the block of `{line.strip()}` needs a line `end`, and there is none")
            block, at = "\n".join(lines[start:at]), at + 1
        else:
            block = "\n".join(lines[start:at])
            if at < len(lines) and lines[at].strip() == "end":
                at += 1
        yield Command(nodes, verb, rest, block, first_line + start - 1, first_line + start)


def _in_block(lines: list[str], at: int) -> bool:
    """Whether a line belongs to a block: it is indented, or it is blank or a comment and an indented line follows."""
    while at < len(lines) and (lines[at].startswith("#") or not lines[at].strip()):
        if not lines[at].strip():
            return True
        at += 1
    return at < len(lines) and lines[at][0] in " \t"


def needs_end(verb: str, rest: str) -> bool:
    """Whether the block of a command goes up to `end`."""
    name = resolve(verb)
    return name == "commands" or name in ("python", "py") and not rest


def check_block(session: "Session", command: Command) -> None:
    """Raises the error of a command that can be found before the lines of its block are read."""
    if resolve(command.verb) == "commands" and command.rest.isdigit():
        session.point(int(command.rest))


def words(line: str, session: "Session | None") -> tuple[str | None, str, str]:
    """The node list (or None), the verb and the rest of a line."""
    line = line.strip()
    first, *rest = line.split(None, 1)
    if rest and resolve(first) is None and _NODE_LIST.match(first):
        if first[0].isdigit() or first[0] == "*" or session is not None and _is_node_list(first, session):
            return first, *_verb(rest[0], session)
    return None, *_verb(line, session)


def _verb(text: str, session: "Session | None") -> tuple[str, str]:
    for _ in range(len(session.aliases) if session is not None else 0):  # an alias may use another alias
        first, _, rest = text.partition(" ")
        if first not in session.aliases:
            break
        text = f"{session.aliases[first]} {rest}".rstrip()
    if text.startswith("@"):
        return "py", text
    if text[0] in "!|":  # gdb needs no blank after these
        return text[0], text[1:].strip()
    first, *rest = text.split(None, 1)
    return first, rest[0] if rest else ""


def _is_node_list(text: str, session: "Session") -> bool:
    try:
        return bool(session.nodes.parse(text, every=True))
    except Error:
        return False


def execute(session: "Session", text: str, *, filename: str | None = None, first_line: int = 1,
            show: Callable[[str], Any] = print) -> None:
    """Carries out the commands of a text one after the other. `show` is called with each answer."""
    for command in split(text, session, first_line):
        run_command(session, command, filename=filename, show=show)


def run_command(session: "Session", command: Command, *, filename: str | None = None,
                show: Callable[[str], Any] = print) -> None:
    """Carries out one command. A verb that Friday does not own goes to the gdb of each node. Raises friday.Error, AtError,
    SyntaxError, Quit, and whatever Python code in the command raises."""
    out = show if isinstance(show, Output) else Output(show)
    altered = session.altered
    session.backend.take_inferred()
    try:
        _run_command(session, command, filename, out)
    finally:
        tell_inferred(session, out)
        if not _CHANGES.search(f"{command.verb} {command.rest}"):
            tell_altered(session, altered, out)


def _run_command(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    name = resolve(command.verb)
    if name in REFUSED:
        raise UsageError(refusal(name))
    if command.has_block and name not in _TAKES_BLOCK:
        raise UsageError(f"`{command.verb}` takes no block")
    if name is None:
        forward(session, command, out)
        return
    if command.nodes is not None and not OWNED[name].nodes:
        raise UsageError(f"`{name}` takes no node list: {OWNED[name].usage}")
    command.verb = name
    if name in MOVES and session.console:
        _run_move(session, lambda: verbs()[name](session, command, filename, out), out)
    else:
        verbs()[name](session, command, filename, out)


def _run_move(session: "Session", move: Callable[[], Any], out: Output) -> None:
    """Carries out a command that moves the group. `undo` takes it back, unless it has failed before it moved anything."""
    moves, altered = session.moves, session.altered
    session.backend.note_move(session.states.tag())
    try:
        move()
    finally:
        if session.moves == moves:
            session.backend.drop_move()
        tell_dropped(session, altered, out)


def tell_dropped(session: "Session", altered: "Iterable[Node]", out: Output) -> None:
    """Says that nodes which were altered are not altered any more, since the group has gone back."""
    now = session.altered
    if dropped := [node for node in altered if node not in now]:
        out(f"what was altered on {', '.join(named(node) for node in dropped)} is dropped: the group is as it was recorded")


def tell_altered(session: "Session", altered: "Iterable[Node]", out: Output) -> None:
    """Says that a command which only asks has altered nodes: gdb calls functions of the program for operators of C++, and to store a text
    literal."""
    if new := [node for node in session.altered if node not in altered]:
        names = ", ".join(named(node) for node in new)
        out(f"altered by this command: {names}; from here on it is not what was recorded, and nothing goes back over it. `goto` an earlier place, or `restart`, "
            "drops the change")


def tell_inferred(session: "Session", out: Output) -> None:
    """Says that what a command has shown depends on bytes that nobody has recorded."""
    if nodes := session.backend.take_inferred():
        names = ", ".join(named(session.nodes[node]) for node in nodes)
        out(f"inferred on {names}: what was read depends on bytes that are not recorded; it leads where the recording says, but may not be what was there")


def only_answers(command: Command) -> bool:
    """Whether a command only answers, without running the group, so that its answer may be collected before it is shown."""
    name = resolve(command.verb)
    return name in ("info", "help", "why", "diff", "list") or name is None


def is_of_all(text: str) -> bool:
    """Whether a gdb command without a node list is for every node whatever the scope is: it sets up gdb, and asks nothing of a program."""
    return bool(_SETS_GDB.match(text)) and (not _ASSIGNS.match(text) or bool(_TEXT_SETTINGS.match(text)))


def _meant(session: "Session", command: Command, text: str) -> "tuple[Node, ...]":
    """The nodes to whose gdb a command goes: those of its list. Without a list, the selected node; with the scope `group`, and for gdb's
    settings, all nodes alive; if none is alive, all that have ended, or, at the start of the recording, all."""
    if command.nodes is not None:
        return session.nodes.parse(command.nodes)
    if session.scope == "node" and not is_of_all(text):
        return (session.node,)
    return session.all_nodes or tuple(n for n in session.nodes if n.state != "not started") or session.nodes.all


def forward(session: "Session", command: Command, out: Output) -> None:
    """Gives a command to the gdbs of the nodes that it means, one after the other. A node's error is shown as its answer; if all nodes
    fail with the same error, that error is raised."""
    text = by_name(f"{command.verb} {command.rest}".strip())
    nodes = _meant(session, command, text)
    if command.nodes is None and _OF_A_FRAME.match(text) and all(node.state == "not started" for node in nodes):
        every = all(node.state == "not started" for node in session.nodes)
        raise UsageError(("no node has started yet: all wait" if every else f"node {nodes[0]} ({nodes[0].name}) has not started yet: it waits")
                         + " in the dynamic loader. `tbreak main` and `continue`, or `goto 1`, run nodes to their own code; "
                         f"`{nodes[0]} backtrace` shows where node {nodes[0]} waits")
    answers: dict[Any, str] = {}
    failures: list[Error] = []
    session.backend.prepare([int(node) for node in nodes])
    for node in nodes:
        try:
            answers[node] = _BEFORE_START.sub(r"\1", session.backend.gdb(int(node), _list_of(session, node) if text in ("list", "l") else text))
        except Error as error:
            error = session.names.teach(int(node), command.rest, error)
            answers[node] = error.message
            failures.append(error)
    if failures and len(failures) == len(answers) and len(set(answers.values())) == 1:
        if failures[0].message.startswith("Undefined command"):
            raise _unknown(session, command)
        raise failures[0] if len(nodes) == 1 else type(failures[0])(failures[0].message)
    out.answers(answers, implied=command.nodes is None and len(nodes) == 1)


def _list_of(session: "Session", node: Any) -> str:
    """The gdb command for a bare `list` on a node. If the node stands in a library without source, it lists the lines of the
    innermost caller that has source. A second `list` at the same place shows the next lines."""
    here = (session.logical_time, session.backend.event(int(node)))
    if session.listed.get(int(node)) == here:
        return "list"
    session.listed[int(node)] = here
    place = source_place(session, int(node)) or ("main" if node.state == "not started" else "")
    return f"list {place}" if place else "list"


def _unknown(session: "Session", command: Command) -> UsageError:
    word = command.verb
    text = f"neither Friday nor gdb has a command `{word}`"
    second = command.rest.partition(" ")[0]
    if command.nodes is None and _NODE_LIST.match(word) and (resolve(second) or second in (*GDB_COMMANDS, "p", "bt")):
        try:
            session.nodes.parse(word, every=True)
        except NoNode as error:
            if "," in word:
                return UsageError(f"{error}; `info nodes` lists the nodes")
        return UsageError(f"no node is called `{word}`, and neither Friday nor gdb has such a command; `info nodes` lists the nodes")
    return UsageError(text + nearest(word, [*OWNED, *GDB_COMMANDS]))


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that is most like a misspelt one, as the end of a sentence; "" if none is close."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; the nearest is `{near[0]}`" if near else ""


class Quit(Exception):
    """Raised by the command `quit`."""


def source(session: "Session", path: str, out: Output) -> None:
    """Carries out the commands of a file, up to the first that fails; its error gets the attribute `place`, "FILE:LINE". A file
    named *.py is Python in Friday's dialect. Raises UsageError if the file cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if path.endswith(".py"):
        session.execute(text, filename=path)
        return
    for command in split(text, session):
        try:
            run_command(session, command, filename=path, show=out)
        except Exception as error:
            if not hasattr(error, "place"):
                error.place = f"{path}:{command.line}"  # type: ignore[attr-defined]
            raise


def _source(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    if not command.rest:
        raise UsageError("usage: source FILE")
    source(session, os.path.expanduser(command.rest), out)


def _quit(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    raise Quit


@functools.cache
def verbs() -> "dict[str, Verb]":
    """The function that carries out each owned command."""
    from . import history, info, keeping, questions, running  # they are written on top of this module
    return _VERBS | running.VERBS | history.VERBS | info.VERBS | questions.VERBS | keeping.VERBS


def _py(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    if command.nodes is None:
        _py_here(session, command, filename)
        return
    before = session.here
    try:
        for node in session.nodes.parse(command.nodes):
            session.here = int(node)
            _py_here(session, command, filename)
    finally:
        session.here = before


def _py_here(session: "Session", command: Command, filename: str | None) -> None:
    if not command.rest:
        session.execute(command.block, filename=filename, first_line=command.block_line)
        return
    source = command.rest + ("\n" + command.block if command.has_block else "\n")
    session.execute(source, filename=filename, first_line=command.line, echo=True)


def _point(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    text, condition = command.rest, None
    found = _CONDITION.search(text)
    if found:
        text, condition = text[:found.start()].strip(), found[1].strip()
    if not text or condition == "":
        raise UsageError(f"usage: {OWNED[command.verb].usage}")
    if command.verb in WATCHES:
        point = session.watch(WATCHES[command.verb] + text, nodes=command.nodes, condition=condition)
    elif command.verb in ("catch", "tcatch"):
        point = session.catch(text, nodes=command.nodes, condition=condition, temporary=command.verb == "tcatch")
    else:
        point = session.breakpoint(_in_this_file(session, text), nodes=command.nodes, condition=condition,
                                   temporary=command.verb == "tbreak")
    try:
        check_condition(session, point, condition)
    except Error:
        point.delete()
        raise
    if command.has_block:
        try:
            session.set_block(point, command.block, filename=filename, first_line=command.block_line)
        except SyntaxError:
            session.delete(point.id)
            raise
    show(f"{point.label} on {nodes_of(point)}{landed(point)}")


def _in_this_file(session: "Session", location: str) -> str:
    """A location; a bare line number is one of the file of the selected frame, or if that has no source, of its innermost caller with source."""
    if not location.isdigit():
        return location
    file = file_here(session, session.here)
    return f"{file}:{location}" if file else location


def landed(point: StopPoint) -> str:
    """Where a breakpoint has come to stand, as the end of a line; "" if it waits or stands where it was asked for in so many words."""
    if point.kind != "breakpoint":
        return ""
    places = list(dict.fromkeys(text for _, address, text in point.places if address is not None))
    if len(places) > 1:
        return f": {len(places)} places, which `info breakpoints` lists"
    return f": {brief(places[0])}" if places and places[0] != point.what else ""


def check_condition(session: "Session", point: StopPoint, condition: str | None) -> None:
    """Raises gdb's error for the condition of a watch or a catch if it is no expression at all. Where a watched value is written other
    names are known than here, so of an unknown one it is only told. That of a breakpoint was checked at its place when it was set; this
    tells if no node had begun."""
    if not condition or "_friday_workspace" in condition:
        return
    if point.kind != "breakpoint":
        _check_expression(session, point, condition)
        return
    if all(address is None for _, address, _ in point.places):
        session.notice(f"`{condition}` is not checked before {point.label} is hit, since none of its nodes has started; if it cannot be evaluated then, the group stops there")


def _check_expression(session: "Session", point: StopPoint, condition: str) -> None:
    failure: Error | None = None
    for node in point.nodes:
        try:
            session.backend.gdb(int(node), f"ptype {condition}")
            return
        except (NodeNotStarted, NodeEnded, NoNode):
            continue
        except Error as error:
            if "syntax error" in str(error):
                raise
            if failure is None or "There is no member named" in str(error):
                failure = session.names.teach(int(node), condition, error)
    if failure is not None and "There is no member named" in str(failure):
        raise failure
    if failure is not None:
        session.notice(f"`{condition}` cannot be evaluated here ({str(failure).splitlines()[0]}); it will be where {point.label} stops, if its names are known there")


def nodes_of(point: StopPoint) -> str:
    """The nodes of a stop point, in words."""
    if len(point.nodes) == len(point.session.nodes):
        return "all nodes"
    if len(point.nodes) > 8:
        return f"nodes {ranges([int(node) for node in point.nodes])}"
    return ", ".join(node.name for node in point.nodes)


def _numbers(session: "Session", rest: str) -> list[StopPoint]:
    words = rest.replace(",", " ").split()
    if not all(word.isdigit() for word in words):
        raise UsageError(f"`{rest}` is not the id of a stop point: give a global id as `info breakpoints` shows them")
    return [session.point(int(word)) for word in words] if words else [point for point in session.points.values() if not point.purpose]


def _delete(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    for point in _numbers(session, command.rest):
        point.delete()


def _enable(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    for point in _numbers(session, command.rest):
        point.enable(command.verb == "enable")


def _ignore(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    words = command.rest.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        raise UsageError("usage: ignore ID COUNT")
    point = session.point(int(words[0]))
    point.ignore(int(words[1]))
    show(f"{point.label} ignores its next {counted(int(words[1]), 'hit')}" if int(words[1]) else f"{point.label} ignores no hits")


def _condition(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    id_, _, condition = command.rest.partition(" ")
    if not id_.isdigit():
        raise UsageError("usage: condition ID [COND]")
    point = session.point(int(id_))
    check_condition(session, point, condition.strip())
    point.set_condition(condition.strip() or None)


def _commands(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    if not command.rest and session.points:
        command.rest = str(max(session.points))
    if not command.rest.isdigit():
        raise UsageError("usage: commands ID, then the lines of the block, then `end`")
    point = session.point(int(command.rest))
    if command.has_block:
        session.set_block(point, command.block, filename=filename, first_line=command.block_line)
    else:
        point.set_handler(None, stops=True)


def _map(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    name, _, expression = command.rest.partition(" ")
    if not expression.strip():
        raise UsageError("usage: map NAME PYTHON-EXPRESSION")
    session.map(name, expression.strip())


def _node(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    if command.rest:
        session.node = command.rest
    show(repr(session.node))


Verb = Callable[["Session", Command, "str | None", Output], None]
_VERBS: dict[str, Verb] = {
    "py": _py, "python": _py,
    **dict.fromkeys(SETS_POINT, _point),
    "delete": _delete, "enable": _enable, "disable": _enable, "ignore": _ignore, "condition": _condition,
    "commands": _commands, "map": _map, "node": _node, "source": _source, "quit": _quit, "handle": handle,
}
