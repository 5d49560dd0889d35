"""The commands of the console that belong to Python: `py`, stop points with blocks, `map`, as lines of text.

    [NODES] COMMAND ...           a node list before any command
      BLOCK                       indented lines: the handler, or the Python, of the command above
    commands ID ... end           a handler for a stop point that exists
    python ... end

`split` cuts a text into commands with their blocks, `execute` carries them out. The console in C++ uses the same for
sourced files and for what it has no own word for.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterator

from .errors import Error, UsageError
from .sessions import StopPoint

if TYPE_CHECKING:
    from .sessions import Session

_CONDITION = re.compile(r"(?:^|\s+)if\b\s*(.*)\Z", re.S)
_NODE_LIST = re.compile(r"(?=\S*[\w*?])[\w*?\[\]!#/.,:+-]+\Z")


@dataclass(slots=True)
class Command:
    """One command: its node list or None, the verb, the rest of the line, and the block with the number of its line."""
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
    """The commands of a text. With a session, a first word that is a node list of it is one."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] in " \t":
            raise UsageError(f"line {first_line + at - 1}: a block without a command that owns it: {line.strip()}")
        start = at
        while at < len(lines) and _in_block(lines, at):
            at += 1
        nodes, verb, rest = _words(line, session)
        if not "".join(lines[start:at]).strip() and (verb == "commands" or verb in ("python", "py") and not rest):
            start = at
            while at < len(lines) and lines[at].strip() != "end":
                at += 1
            if at == len(lines):
                raise UsageError(f"line {first_line + start - 1}: `{line.strip()}` without `end`")
            block, at = "\n".join(lines[start:at]), at + 1
        else:
            block = "\n".join(lines[start:at])
            if at < len(lines) and lines[at].strip() == "end":
                at += 1
        yield Command(nodes, verb, rest, block, first_line + start - 1, first_line + start)


def _in_block(lines: list[str], at: int) -> bool:
    """Whether a line continues a block: indented, blank, or a comment with more of the block below."""
    while at < len(lines) and (lines[at].startswith("#") or not lines[at].strip()):
        if not lines[at].strip():
            return True
        at += 1
    return at < len(lines) and lines[at][0] in " \t"


def _words(line: str, session: "Session | None") -> tuple[str | None, str, str]:
    first, _, rest = line.strip().partition(" ")
    if first not in VERBS and rest.strip() and _NODE_LIST.match(first):
        if first[0].isdigit() or first[0] in "!*" or session is not None and _is_node_list(first, session):
            verb, _, rest = rest.strip().partition(" ")
            return first, verb, rest.strip()
    return None, first, rest.strip()


def _is_node_list(text: str, session: "Session") -> bool:
    try:
        return bool(session.nodes.parse(text, every=True))
    except Error:
        return False


def execute(session: "Session", text: str, *, filename: str | None = None, first_line: int = 1,
            show: Callable[[str], Any] = print) -> None:
    """Carries out the commands of a text one after the other. `show` gets what they answer."""
    for command in split(text, session, first_line):
        run_command(session, command, filename=filename, show=show)


def run_command(session: "Session", command: Command, *, filename: str | None = None,
                show: Callable[[str], Any] = print) -> None:
    """Carries out one command. Verbs that Python does not own go to the gdb of the nodes. Raises friday.Error,
    AtError, SyntaxError, and what Python code raises."""
    owned = VERBS.get(command.verb)
    if owned is None:
        if command.has_block:
            raise UsageError(f"`{command.verb}` takes no block")
        nodes = session.all_nodes if command.nodes is None else session.nodes.parse(command.nodes)
        for node, answer in session.gdb(f"{command.verb} {command.rest}".strip(), nodes=nodes).items():
            for line in answer.splitlines():
                show(f"[{node.name}] {line}")
        return
    owned(session, command, filename, show)


def _py(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
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
        raise UsageError(f"{command.verb} {'EXPR[, EXPR...]' if command.verb == 'watch' else 'LOC'} [if COND]")
    if command.verb == "watch":
        point = session.watch(text, nodes=command.nodes, condition=condition)
    else:
        point = session.breakpoint(text, nodes=command.nodes, condition=condition,
                                   temporary=command.verb == "tbreak")
    if command.has_block:
        try:
            session.set_block(point, command.block, filename=filename, first_line=command.block_line)
        except SyntaxError:
            session.delete(point.id)
            raise
    show(f"{point.label} on {_named(point)}")


def _named(point: StopPoint) -> str:
    everyone = len(point.nodes) == len(point.session.nodes)
    return "all nodes" if everyone else ", ".join(node.name for node in point.nodes)


def _numbers(session: "Session", rest: str) -> list[StopPoint]:
    words = rest.replace(",", " ").split()
    if not all(word.isdigit() for word in words):
        raise UsageError(f"stop points are named by their global ids, got `{rest}`")
    return [session.point(int(word)) for word in words] if words else list(session.points.values())


def _delete(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    for point in _numbers(session, command.rest):
        point.delete()


def _enable(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    for point in _numbers(session, command.rest):
        point.enable(command.verb == "enable")


def _ignore(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    words = command.rest.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        raise UsageError("ignore ID COUNT")
    session.point(int(words[0])).ignore(int(words[1]))


def _condition(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    id_, _, condition = command.rest.partition(" ")
    if not id_.isdigit():
        raise UsageError("condition ID [COND]")
    session.point(int(id_)).set_condition(condition.strip() or None)


def _commands(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    if not command.rest.isdigit():
        raise UsageError("commands ID, the block, `end`")
    point = session.point(int(command.rest))
    if command.has_block:
        session.set_block(point, command.block, filename=filename, first_line=command.block_line)
    else:
        point.set_handler(None, stops=True)


def _map(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    name, _, expression = command.rest.partition(" ")
    if not expression.strip():
        raise UsageError("map NAME PYTHON-EXPRESSION")
    session.map(name, expression.strip())


def _node(session: "Session", command: Command, filename: str | None, show: Callable[[str], Any]) -> None:
    if command.rest:
        session.node = command.rest
    show(repr(session.node))


Verb = Callable[["Session", Command, "str | None", Callable[[str], Any]], None]
VERBS: dict[str, Verb] = {
    "py": _py, "python": _py,
    "break": _point, "b": _point, "tbreak": _point, "watch": _point,
    "delete": _delete, "enable": _enable, "disable": _enable, "ignore": _ignore, "condition": _condition,
    "commands": _commands, "map": _map, "node": _node,
}
