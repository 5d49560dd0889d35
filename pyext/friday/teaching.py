"""Error messages that help: the name that is most like an unknown one, and the functions that have a variable which is not in scope.

The names come from the program's debug information, for which a node's gdb is asked once for each program (`Names`). Only names
from the program's own source files are used, since a library has many that are seldom meant.
"""
from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterable, Sequence

from .answers import label_of
from .errors import BadExpression, Error, NoSymbol, OutOfScope, UsageError

if TYPE_CHECKING:
    from .sessions import Session

# A script for gdb. It prints {"whole": ..., "names": {NAME: [[FUNCTION or "", FILE, LINE, is function], ...]}} of the program's own
# source files. `info sources` names the files without reading what they hold, and a block of a function is found by the
# lines in it: gdb 13 cannot list blocks from the outside. A program of 2.5 MB of C++ takes a minute, so there is a limit, in
# processor time, so that the result does not depend on what else the machine does. The files of the frames where the node stands come first.
_LIST_NAMES = r'''
import gdb, json, re, time
def friday_names():
    program, found, blocks = gdb.current_progspace().filename, {}, set()
    end = time.thread_time() + 2
    def add(symbol, function):
        if symbol.symtab and symbol.symtab.filename.startswith("/usr/"):
            return
        if symbol.is_variable or symbol.is_argument or symbol.is_constant or symbol.is_function:
            place = [function, symbol.symtab.filename if symbol.symtab else "", symbol.line, symbol.is_function]
            places = found.setdefault(symbol.name.split("(")[0], [])
            if place not in places:
                places.append(place)
    def add_block(block):
        around = block
        while around.function is None and not around.is_static and not around.is_global:
            around = around.superblock
        function = "" if around.function is None else around.function.name.split("(")[0]
        key = (block.start, block.end, function)
        if key in blocks:
            return False
        blocks.add(key)
        for symbol in block:
            add(symbol, function)
        return True
    listed = gdb.execute("info sources", to_string=True)
    own = {program} | {file.filename for file in gdb.objfiles() if file.owner and file.owner.filename == program}
    text = ""
    for part in re.split(r"\n\n(?=\S[^\n]*:\n)", listed):
        head, _, rest = part.partition(":\n")
        if head.strip() in own:
            text += rest + "\n"
    names = [name.strip() for name in re.findall(r"[^,\n]+", re.sub(r"\([^\n]*\)\n|\[[^\n]*\]\n", "", text))]
    names = [name for name in names if name and not name.startswith(("/usr/", "<"))]
    first = set()
    try:
        frame = gdb.newest_frame()
        while frame and len(first) < 8:
            first.add(frame.find_sal().symtab and frame.find_sal().symtab.fullname())
            frame = frame.older()
    except gdb.error:
        pass
    for name in sorted(names, key=lambda name: name not in first):
        try:
            places = gdb.decode_line("'%s':1" % name)[1] or ()
        except gdb.error:
            continue
        for symtab in {place.symtab for place in places if place.symtab}:
            if symtab.objfile.filename not in own:
                continue
            add_block(symtab.global_block())
            add_block(symtab.static_block())
            for line in symtab.linetable():
                if time.thread_time() > end:
                    return False, found
                block = gdb.block_for_pc(line.pc)
                while block and not block.is_static and not block.is_global and add_block(block):
                    block = block.superblock
        if time.thread_time() > end:
            return False, found
    return True, found
print(json.dumps(dict(zip(("whole", "names"), friday_names()))))
'''
LIST_NAMES = f"python exec({_LIST_NAMES!r})"

_UNKNOWN = re.compile(r'No symbol "([^"]+)" in (?:current context|specified context)')
_NO_FUNCTION = re.compile(r'Function "([^"]+)" not defined|no function `([^`]+)`')
_NO_MEMBER = re.compile(r"here is no (?:member|member or method|field) named ([^\s.]+)\.?|has no (?:member|component) named ['`\"]?(\w+)"
                        r"|Couldn't find method (?:\S*::)?(\w+)")
_CONDITION = re.compile(r"the condition `(.*)`: ")
_MAY_COME = re.compile(rf"{_UNKNOWN.pattern}|{_NO_FUNCTION.pattern}|No source file named")
_LOCAL = re.compile(r"\s*(?:-\w+\s+)*([A-Za-z_][\w:]*)::([A-Za-z_]\w*)\b")
_KEY = re.compile(r'([\w.>()\[\]:-]*[\w)\]])\s*\[\s*("(?:\\.|[^"\\])*")\s*\]')
_NO_OPERATOR = re.compile(r"Invalid cast|could not be converted|Could not find operator|Cannot resolve (?:method|function)")
_CALL = re.compile(r"\w\s*\(")
_SHOWN = 4  # how many places of a name are shown
_SHOWN_MEMBERS = 12


@dataclass(frozen=True)
class Place:
    """Where a name of the program is declared. `function` is "" if it is declared outside of functions."""
    function: str
    file: str
    line: int
    is_function: bool

    def __str__(self) -> str:
        return f"{self.function} ({self.file.rpartition('/')[2]}:{self.line})"


_CHANGES = re.compile(r"(?<![=<>!])=(?!=)|<<=|>>=|\+\+|--")
_LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')


def refuse_changes(condition: str | None) -> None:
    """Raises UsageError for a condition that would change the program each time it is evaluated, such as `=` written for `==`."""
    if condition and (found := _CHANGES.search(_LITERAL.sub("0", condition))):
        raise UsageError(f"the condition `{condition}` would change the program at each hit by `{found[0]}`: to compare, write `==`")


class Names:
    """The names of each program of a session."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._of_program: dict[str, dict[str, list[Place]]] = {}
        self._in_part: set[str] = set()  # programs of which only some names are known, since they are too large

    def of(self, node: int) -> dict[str, list[Place]]:
        """The names of a node's program; empty if it has no debug information or gdb cannot be asked."""
        program = self._session.nodes[node].info.program
        if program not in self._of_program:
            try:
                table = json.loads(self._session.backend.gdb(node, LIST_NAMES))
                names = table["names"]
            except (Error, ValueError, TypeError, KeyError):
                return {}
            if not table["whole"]:
                self._in_part.add(program)
            self._of_program[program] = {name: [Place(*place) for place in places] for name, places in names.items()}
        return self._of_program[program]

    def teach(self, node: int, text: str, error: Error) -> Error:
        """The error for an expression or a location (`text`), with what the program has instead."""
        if isinstance(error, BadExpression):
            return _key(text, error)
        if not isinstance(error, NoSymbol) or error.nearest:
            return error
        if error.message.startswith("No symbol table is loaded"):
            return self._no_information(node, error) if not self.of(node) else error
        if found := _NO_MEMBER.search(error.message):
            return self._member(node, text, error, found[1] or found[2] or found[3])
        if found := _NO_FUNCTION.search(error.message):
            name = found[1] or found[2]
            names = self.of(node)
            if not names:
                return self._no_information(node, error)
            functions = [known for known, places in names.items() if any(place.is_function for place in places)]
            return _with_nearest(error, name, functions)
        if found := _UNKNOWN.search(error.message):
            return self._unknown(node, error, found[1])
        return error

    def teach_place(self, nodes: Sequence[int], text: str, error: NoSymbol) -> Error:
        """The same for a stop point on several nodes: the message also names the programs that lack the location or expression, and
        says how to wait for a library that may have it. The error may also be of the condition of a breakpoint."""
        programs: dict[str, int] = {}
        for node in nodes:
            programs.setdefault(self._session.nodes[node].info.program, node)
        condition = _CONDITION.match(error.message)
        if condition or (error.node is not None and not _MAY_COME.search(error.message)):  # that node's program is the one which the user means
            meant = self.teach(nodes[0] if error.node is None else error.node, condition[1] if condition else text, error)
            meant.node = error.node if len(programs) > 1 else None
            return meant
        taught = [self.teach(node, text, error) for node in programs.values()]
        found = next((each for each in taught if not isinstance(each, NoSymbol) or each.nearest), taught[0])
        if not isinstance(found, NoSymbol) or not _MAY_COME.search(error.message):
            return found
        message = found.message
        if len(programs) > 1:
            message = f"{message.rstrip('.')}; none of these programs has it: {', '.join(path.rpartition('/')[2] for path in programs)}"
        message = f"{message.rstrip('.')}; `-pending {text}` waits for a library that has it"
        more = NoSymbol(message, node=found.node, event=found.event)
        more.nearest = found.nearest
        return more

    def _unknown(self, node: int, error: NoSymbol, name: str) -> Error:
        names = self.of(node)
        if not names:
            return self._no_information(node, error)
        places = names.get(name.partition("(")[0])
        if places:
            return OutOfScope(f"`{name}` is not in scope here: it is a variable of {_listed(places)}", node=node, event=error.event,
                              scopes=tuple(place.function for place in places if place.function))
        return _with_nearest(error, name, [*names, *(self._members(node, "this", "->") if self._is_in_method(node) else ())])

    def _no_information(self, node: int, error: NoSymbol) -> NoSymbol:
        """If the program has no debug information, the error with advice on how to add it; otherwise the error as it is."""
        path = self._session.nodes[node].info.program
        if path not in self._of_program or path in self._in_part:
            return error
        program = path.rpartition("/")[2]
        said = error.message.partition(".  ")[0].removesuffix(".")  # gdb's first sentence; names may have dots
        return NoSymbol(f"{said}: {program} has no debug information; add it with `friday replay --symbols DIR` or "
                        "`friday pack`", node=error.node, event=error.event)

    def _member(self, node: int, text: str, error: NoSymbol, name: str) -> Error:
        for found in re.finditer(rf"(\.|->|::)\s*{re.escape(name)}\b", text):
            operand = text[_operand_start(text, found.start()):found.start()]
            members = self._members(node, operand, found[1]) if operand.strip() else []
            if not members or name in members:
                continue
            taught = _with_nearest(error, name, members)
            if taught is error:
                more = f" and {len(members) - _SHOWN_MEMBERS} more" if len(members) > _SHOWN_MEMBERS else ""
                taught = NoSymbol(f"{error.message.rstrip('.')}; there are {', '.join(members[:_SHOWN_MEMBERS])}{more}", node=error.node, event=error.event)
            return taught
        return error

    def _is_in_method(self, node: int) -> bool:
        """Whether members go by their bare names where the node stands. That there is no `this` is known for all nodes of a program."""
        try:
            self._session.backend.read(node, self._session.plans["this"])
        except Error:
            return False
        return True

    def _members(self, node: int, operand: str, operator: str) -> list[str]:
        """The names of the fields and methods, those of base classes too, that an operand has behind `.`, `->` or `::`. gdb does not evaluate
        the operand for it. What gdb does not know (an element of a container, where a smart pointer points) is read, unless that calls a function."""
        before = f"{operand}{operator}"
        try:
            lines = self._session.backend.gdb(node, f"complete print {before}").splitlines()
        except Error:
            lines = []
        head = len("print ") + len(before)
        members = [re.sub(r"\(.*", "", line[head:]) for line in lines if "***" not in line]
        if (operator == "->" or operator == "." and not members) and operand != "this" and not _CALL.search(operand):
            try:
                value = self._session.read(self._session.nodes[node], operand if operator == "." else f"*({operand})")
                members += value.type.resolved.members
            except (Error, AttributeError):
                pass
        return [each for each in members if each.isidentifier()]

    def check_local(self, nodes: Iterable[int], expression: str) -> None:
        """Raises NoSymbol for FUNC::LOCAL when FUNC is a function of the program that has no such variable."""
        found = _LOCAL.match(expression)
        if not found:
            return
        function, local = found[1], found[2]
        failure: NoSymbol | None = None
        for node in {self._session.nodes[node].info.program: node for node in nodes}.values():
            names = self.of(node)
            if self._session.nodes[node].info.program in self._in_part or not any(place.is_function for place in names.get(function, ())):
                return
            locals_ = [name for name, places in names.items() if any(place.function == function for place in places)]
            if local in locals_:
                return
            error = NoSymbol(f"{function} has no variable `{local}`")
            failure = _with_nearest(error, local, locals_) if locals_ else error
        if failure is not None:
            raise failure

    def hint(self, error: OutOfScope) -> str:
        """How to see a variable that is not in scope: in a frame further out, or by stopping in its function."""
        if not error.scopes or error.node is None:
            return ""
        try:
            stack = self._session.backend.backtrace(error.node)
        except Error:
            stack = ""
        frames = re.findall(r"^#(\d+)\s+(?:0x[0-9a-f]+ in )?([\w:~]+)", stack, re.M)
        for number, function in frames:
            if function in error.scopes:
                return f"{function} is frame {number} of the node's stack: `{int(error.node)} frame {number}`, then `{int(error.node)} print ...`"
        return f"`break {error.scopes[0]}` stops where it is in scope"


def to_know(session: "Session") -> list[str]:
    """What a user should know of a session before its answers: what was noted while it was recorded, and what gdb does not know."""
    return [*session.backend.take_notices(), *filter(None, [undescribed(session)])]


def undescribed(session: "Session") -> str:
    """Names the nodes of which gdb knows functions at most, but no variables or lines; "" if there are none."""
    replayed = {int(node): node for node in session.nodes}
    nodes = [replayed[id_] for id_ in session.backend.undescribed() if id_ in replayed]
    if not nodes:
        return ""
    programs = ", ".join(sorted({node.info.program.rpartition("/")[2] for node in nodes}))
    return (f"Without debug information: {label_of(nodes)} ({programs}). Of functions the names are known at most, of variables and lines nothing; "
            "add it with `--symbols DIR` or `friday pack`.")


def _key(text: str, error: BadExpression) -> BadExpression:
    """The error with advice, if gdb could not look up a key in a container."""
    found = _KEY.search(text)
    if not found or not _NO_OPERATOR.search(error.message):
        return error
    return BadExpression(f"{error.message.rstrip('.')}: gdb cannot look up the key {found[2]}; read the container and look it up in Python: "
                         f"@({found[1]})[{found[2]}]", node=error.node, event=error.event)


def _operand_start(text: str, end: int) -> int:
    """Where the operand of a `.`, `->` or `::` at `end` begins: names and further members, with what stands in brackets behind them."""
    at = end
    while at > 0:
        mark = text[at - 1]
        if mark in ")]":
            depth = 0
            while at > 0:
                at -= 1
                depth += (text[at] in ")]") - (text[at] in "([")
                if depth == 0:
                    break
        elif mark.isalnum() or mark in "_.:$":
            at -= 1
        elif text[max(at - 2, 0):at] == "->":
            at -= 2
        else:
            break
    return at


def _listed(places: list[Place]) -> str:
    shown = [str(place) for place in places if place.function][:_SHOWN]
    more = len([place for place in places if place.function]) - len(shown)
    if not shown:
        return f"{places[0].file.rpartition('/')[2]}:{places[0].line}"
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _with_nearest(error: NoSymbol, name: str, known: Iterable[str]) -> NoSymbol:
    near = difflib.get_close_matches(name, list(known), 1)
    if not near:
        return error
    return NoSymbol(error.message.rstrip("."), nearest=near[0], node=error.node, event=error.event)
