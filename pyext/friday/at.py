"""The rewriter of Friday's `@` syntax: Friday's dialect of Python in, plain Python out.

It makes one pass over the source. Python strings and comments are skipped, except that the `{...}` of an f-string is Python
and is rewritten. The text between the parentheses of `@NODE(...)` is C or C++: parentheses are matched with regard to C's
string and character literals. Each form becomes a call of a hidden name that the session puts into the namespace:

    @4(srv.load)                 __friday_read__(4, 'srv.load')
    @(x = %(y + 1)d)             __friday_write__(None, 'x', '%d', (y + 1,), 'p')
    @n(f(@(p), __REALCLOCK__))   __friday_read__(n, 'f(%s, %s)', (__friday_read__(None, 'p'), '__REALCLOCK__'), 'nm')
    @n(__REALCLOCK__)            __friday_meta__(n, '__REALCLOCK__')
    safe @(f())                  __friday_read__(None, 'f()')
    cont                         __friday_cont__()
    gdb info threads             __friday_gdb__('info threads')
    watchpoint([E], v=1)         with __friday_watchpoint__([E], v=1) as __friday_suite__:
      BLOCK                        BLOCK

The text of an expression without placeholders is a constant, so the session can look up what it knows about the expression
in one dictionary. In the last argument, each character tells the kind of the piece at the same position: `p` is a
placeholder, already text for C; `q` a placeholder inside a C literal; `n` a nested read; `m` a metavariable.

The result has as many lines as the source. tree.py parses it and maps every position back to the user's text; handlers.py
compiles it.

Ambiguous text is resolved by these rules:

    a @ (b)   a @(b)   m @f(b)    matrix product, because an operand ends before the `@`; also across a newline in brackets
    not @(x)  else @(b)           a read, because the word before is a keyword
    @name(...) alone on a line    a decorator if the lines below are decorators, followed by a `def` or `class`
    @(x)  @4(x)  @"name"(x)       never a decorator
    ==  <=  >=  !=                no assignment inside `@()`; compound assignments such as `+=` are an error
    p@(n) inside `@()`            gdb's array operator; after `)` an error that names both readings
"""
from __future__ import annotations

import keyword
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Iterator, NamedTuple

READ = "__friday_read__"
WRITE = "__friday_write__"
GDB = "__friday_gdb__"
CONT = "__friday_cont__"
QUOTE = "__friday_quote__"
TEXT = "__friday_text__"
META = "__friday_meta__"
WATCHPOINT = "__friday_watchpoint__"
BREAKPOINT = "__friday_breakpoint__"
SUITE = "__friday_suite__"
SESSION = "__friday__"

# Each metavariable with the attribute of the session that holds its value.
METAVARIABLES = {
    "__NODE__": "node",
    "__ALL__": "all_nodes",
    "__EVERY__": "every_node",
    "__LOGICALCLOCK__": "logical_time",
    "__VCLOCK__": "logical_time",
    "__REALCLOCK__": "real_time",
    "__HIT__": "hit",
}
_NO_C_VALUE = frozenset({"__ALL__", "__EVERY__", "__HIT__", "__LOGICALCLOCK__", "__VCLOCK__"})

_STRING = (
    r"(?i:rb|br|rf|fr|[rbuf])?(?:"
    r'"""[^"\\]*(?:(?:\\(?s:.)|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\(?s:.)|'(?!''))[^'\\]*)*'''"
    r'|"(?!"")[^"\\\n]*(?:\\(?s:.)[^"\\\n]*)*"'
    r"|'(?!'')[^'\\\n]*(?:\\(?s:.)[^'\\\n]*)*')"
)
_TOKEN = re.compile(
    r"(?P<space>[ \t\f\r]+|\\\r?\n)"
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<newline>\n)"
    rf"|(?P<string>{_STRING})"
    r"|(?P<quote>[\"'])"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<number>\.?\d(?:[eE][+-](?=\d)|[\w.])*)"
    r"|(?P<op>@=|:=|!=|->|.)"
)
_NAME = re.compile(r"[^\W\d]\w*")
_NODE_STRING = re.compile(_STRING)
_DIGITS = re.compile(r"\d+")
_BLANK = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_FORMAT = re.compile(r"[#0+-]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa]")
NEXT_CODE = re.compile(r"(?:[ \t\f\r]*(?:\#[^\n]*)?\n)*([ \t]*)(?=[^\s])")
_DEFINITION = re.compile(r"(?:def|class|async[ \t]+def)\b")
_SUITE_HEAD = re.compile(r"(?:([^\W\d]\w*)[ \t]*=[ \t]*)?(watchpoint|breakpoint)[ \t]*\(")
_SUITE_TAIL = re.compile(r"[ \t]*(:?)[ \t]*(?:\#[^\n]*)?\n")
_STATEMENT_END = re.compile(r"[ \t]*(?:[;\n\#]|\Z)")
_GDB_HEAD = re.compile(r"gdb[ \t]+(?!(?:in|is|and|or|not|if|else)\b)(?=[\w!$])")
_ASSIGNED = re.compile(r"[ \t]*((?://|<<|>>|\*\*|[-+*/%&|^@])?=)(?!=)")
_SAFE = re.compile(r"safe[ \t]+(?=@)")
_LIKELY = re.compile(r"@|\bcont\b|\bgdb\b|\bwatchpoint\b|\bbreakpoint\b")

_CLOSER = {"(": ")", "[": "]", "{": "}"}
_KEYWORDS = frozenset(keyword.kwlist) - {"None", "True", "False"}
_COMPOUND = frozenset(
    "if elif else for while with try except finally def class async match case".split())


class AtError(SyntaxError):
    """A mistake in `@` syntax. `lineno` and `offset` (both from 1) point into the user's text; `readings` holds the
    possible meanings when the text is ambiguous, else it is empty."""

    def __init__(self, message: str, *, filename: str = "<friday>", lineno: int = 1, offset: int = 1, text: str = "",
                 readings: tuple[str, ...] = ()) -> None:
        if readings:
            message += ": either " + ", or ".join(readings)
        super().__init__(message, (filename, lineno, offset, text))
        self.readings = readings


class Piece(NamedTuple):
    """A part of an expression that is filled in at run time, at a `%s` or another format in its text."""
    kind: str  # p, q, n or m, see the head of this file
    format: str  # for example "%d"
    start: int  # where the Python of a placeholder starts and ends in the source
    end: int
    nested: "At | None" = None
    name: str = ""


@dataclass(slots=True)
class CText:
    """C text: literal parts (str) and the pieces to fill in."""
    parts: list["str | Piece"] = field(default_factory=list)

    def add(self, text: str) -> None:
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += text
        else:
            self.parts.append(text)

    def strip(self) -> None:
        if self.parts and isinstance(self.parts[0], str):
            self.parts[0] = self.parts[0].lstrip()
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] = self.parts[-1].rstrip()
        self.parts = [part for part in self.parts if part != ""]

    def pieces(self) -> list[Piece]:
        return [part for part in self.parts if isinstance(part, Piece)]

    def template(self, escape: bool) -> str:
        return "".join(part.format if isinstance(part, Piece) else part.replace("%", "%%") if escape else part
                       for part in self.parts)


class At(NamedTuple):
    """One `@NODE(TARGET)` or `@NODE(TARGET = VALUE)` at source[start:end]. `node` is the range of NODE in the source."""
    start: int
    end: int
    node: "tuple[int, int] | None"
    target: CText
    value: "CText | None"


class Segment(NamedTuple):
    """The output from offset `out` on comes from source[start:end]: as a copy of it, or generated for it as a whole."""
    out: int
    start: int
    end: int
    copied: bool


@dataclass(slots=True)
class Rewritten:
    """Plain Python with as many lines as the source. `texts` are the constants that f-strings use (`__friday_text__[n]`)."""
    source: str
    text: str
    segments: list[Segment]
    texts: list[str]

    def origin(self, out: int, end: bool = False) -> int:
        """The offset in the source that an offset in the text comes from. `end`: the offset is one past the end of something."""
        at = max(out - 1 if end else out, 0)
        segment = self.segments[max(bisect_right(self.segments, at, key=lambda s: s.out) - 1, 0)]
        if segment.copied:
            return min(segment.start + at - segment.out + end, len(self.source))
        return segment.end if end else segment.start


class _Scanner:
    def __init__(self, source: str, filename: str) -> None:
        self.source = source
        self.filename = filename
        self.out: list[str] = []
        self.length = 0
        self.segments: list[Segment] = []
        self.texts: list[str] = []
        self.in_fstring = 0
        self.suite_tails: dict[int, tuple[str, int]] = {}  # by the offset of the head's `)`: the text to add there, and the offset at which to go on

    # -- output ------------------------------------------------------------------------------------------------------
    def copy(self, start: int, end: int) -> None:
        if start < end:
            self.segments.append(Segment(self.length, start, end, True))
            self.out.append(self.source[start:end])
            self.length += end - start

    def generate(self, text: str, start: int, end: int) -> None:
        if text:
            self.segments.append(Segment(self.length, start, end, False))
            self.out.append(text)
            self.length += len(text)

    def error(self, pos: int, message: str, *readings: str) -> AtError:
        line_start = self.source.rfind("\n", 0, pos) + 1
        line_end = self.source.find("\n", pos)
        return AtError(message, filename=self.filename, lineno=self.source.count("\n", 0, pos) + 1,
                       offset=pos - line_start + 1,
                       text=self.source[line_start:line_end if line_end >= 0 else len(self.source)],
                       readings=readings)

    # -- Python ------------------------------------------------------------------------------------------------------
    def rewrite(self, start: int, end: int) -> None:
        """Emits the rewritten form of source[start:end], which is Python."""
        done = start
        for kind, at, stop, payload in self.walk(start, end):
            if kind == "stop":
                break
            self.copy(done, at)
            done = stop
            if kind == "at":
                self.emit_at(payload)
            elif kind == "fstring":
                self.rewrite_fstring(at, stop)
            elif kind == "gdb":
                self.emit_call(GDB, None, [payload], at, stop)
            else:
                self.generate(payload, at, stop)
        self.copy(done, end)

    def skip(self, start: int, closer: str) -> int:
        """The offset of the bracket `closer` that ends the Python beginning at `start`; -1 if there is none."""
        for kind, at, _, _ in self.walk(start, len(self.source), closer, inside=True):
            if kind == "stop":
                return at
        return -1

    def walk(self, pos: int, end: int, stops: str = "", inside: bool = False) -> Iterator[tuple[str, int, int, object]]:
        """Yields the ranges that must not be copied, as (kind, start, end, payload) with the kinds at, fstring, gdb and text;
        at the first character of `stops` outside brackets, (stop, offset, offset, None). `inside`: the Python is within
        brackets or braces."""
        source = self.source
        match = _TOKEN.match
        depth = 1 if inside else 0
        base = depth
        operand = False  # the token before ends an operand
        statement = not inside and self.at_line_start(pos)  # a statement starts here
        first_word = ""  # of the logical line
        while pos < end:
            token = match(source, pos, end)
            kind = token.lastgroup
            stop = token.end()
            if kind == "space" or kind == "comment":
                pos = stop
                continue
            if kind == "newline":
                if depth == 0:
                    operand, statement, first_word = False, True, ""
                pos = stop
                continue
            if kind == "name":
                name = token[0]
                if statement:
                    replaced = self.statement_at(pos)
                    if replaced is not None:
                        yield replaced
                        pos, operand = replaced[2], False
                        statement = False
                        continue
                    first_word = first_word or name
                safe = name == "safe" and not operand and _SAFE.match(source, pos)
                if safe and self.form_at(safe.end()):
                    yield "text", pos, safe.end(), ""
                    pos, statement = safe.end(), False
                    continue
                operand = name not in _KEYWORDS and not (statement and name in ("match", "case"))
                if statement and name == "print":
                    self.refuse_print(pos, stop)
                statement, pos = False, stop
                continue
            if kind == "string":
                if "f" in token[0][:2].lower() and token[0][0] not in "\"'" and "@" in token[0]:
                    yield "fstring", pos, stop, None
                operand, statement, pos = True, False, stop
                continue
            if kind == "number":
                operand, statement, pos = True, False, stop
                continue
            if kind == "quote":
                return  # an unclosed literal: Python's own error is better
            char = token[0]
            if char == "@" and not operand:
                if statement and self.is_decorator(pos):
                    pos, statement = stop, False
                    continue
                at = self.parse_at(pos)
                if at is None:
                    raise self.error(pos, f"expected @NODE(EXPR) with `(` right after the node, got "
                                          f"`{source[pos:pos + 12].splitlines()[0]}`")
                if depth == 0 and (assigned := _ASSIGNED.match(source, at.end)):
                    raise self.error(assigned.start(1), "to write, put the `=` inside the parentheses: @(x = VALUE), or with a Python value "
                                                        "@(x = %(VALUE)d)")
                yield "at", pos, at.end, at
                pos, operand, statement = at.end, True, False
                continue
            if char in "([{":
                depth += 1
            elif char in ")]}":
                if depth == base and char in stops:
                    yield "stop", pos, pos, None
                    return
                depth -= 1
                if pos in self.suite_tails:
                    text, stop = self.suite_tails[pos]
                    yield "text", pos + 1, stop, text
            elif depth == base and char in stops:
                yield "stop", pos, pos, None
                return
            operand = char in ")]}"
            statement = depth == 0 and (char == ";" or char == ":" and first_word in _COMPOUND)
            pos = stop

    def at_line_start(self, pos: int) -> bool:
        return not self.source[self.source.rfind("\n", 0, pos) + 1:pos].strip()

    def refuse_print(self, pos: int, stop: int) -> None:
        blank = stop
        while self.source[blank:blank + 1] in (" ", "\t"):
            blank += 1
        if blank > stop and self.source[blank:blank + 1] == "@" and self.form_at(blank):
            raise self.error(pos, "print is a function: print(@(x))")

    def statement_at(self, pos: int) -> "tuple[str, int, int, object] | None":
        """The replacement if one of Friday's own statements starts at pos, as walk() yields it; else None."""
        source = self.source
        if source.startswith("cont", pos) and _STATEMENT_END.match(source, pos + 4):
            return "text", pos, pos + 4, CONT + "()"
        gdb = _GDB_HEAD.match(source, pos)
        if gdb:
            command, stop = self.parse_command(gdb.end())
            return "gdb", pos, stop, command
        head = _SUITE_HEAD.match(source, pos)
        if head and self.at_line_start(pos):
            close = self.skip(head.end(), ")")
            tail = _SUITE_TAIL.match(source, close + 1) if close >= 0 else None
            below = NEXT_CODE.match(source, tail.end()) if tail else None
            indent = source[source.rfind("\n", 0, pos) + 1:pos]
            if below and len(below[1].expandtabs()) > len(indent.expandtabs()):
                self.suite_tails[close] = (f" as {head[1] or SUITE}:", tail.end(1))
                hidden = WATCHPOINT if head[2] == "watchpoint" else BREAKPOINT
                return "text", pos, head.end() - 1, "with " + hidden
        return None

    def is_decorator(self, pos: int) -> bool:
        """Whether the `@` at pos begins a decorator: it is the first on its line, and below stand only decorators and then a
        definition."""
        source = self.source
        name = _NAME.match(source, pos + 1)
        if not name or not self.at_line_start(pos):
            return False
        indent = source[source.rfind("\n", 0, pos) + 1:pos]
        end = name.end()
        while True:  # past the decorator's own brackets
            char = source[end:end + 1]
            if char == ".":
                end = _NAME.match(source, end + 1).end() if _NAME.match(source, end + 1) else len(source)
            elif char == "(" or char == "[":
                try:
                    close = self.skip(end + 1, _CLOSER[char])
                except AtError:
                    return False
                if close < 0:
                    return False
                end = close + 1
            else:
                break
        if not _BLANK.match(source, end):
            return False
        below = NEXT_CODE.match(source, _BLANK.match(source, end).end())
        if not below or below[1] != indent:
            return False
        if _DEFINITION.match(source, below.end()):
            return True
        return source[below.end()] == "@" and self.is_decorator(below.end())

    # -- f-strings ---------------------------------------------------------------------------------------------------
    def rewrite_fstring(self, start: int, end: int) -> None:
        source = self.source
        quote = start
        while source[quote] not in "\"'":
            quote += 1
        raw = "r" in source[start:quote].lower()
        width = 3 if source.startswith(source[quote] * 3, quote) and end - quote >= 6 else 1
        self.in_fstring += 1
        self.rewrite_fields(start, quote + width, end - width, raw, False)
        self.in_fstring -= 1
        self.copy(end - width, end)

    def rewrite_fields(self, done: int, pos: int, end: int, raw: bool, spec: bool) -> int:
        """Copies source[done:...] up to `end`, or up to the `}` that ends a format specification, and rewrites the replacement
        fields in it. Returns the offset up to which it copied."""
        source = self.source
        while pos < end:
            char = source[pos]
            if char == "\\" and not raw:
                pos = source.find("}", pos) + 1 or end if source.startswith("\\N{", pos) else pos + 2
            elif char == "{" and source.startswith("{{", pos) and not spec:
                pos += 2
            elif char == "}" and spec:
                break
            elif char == "{":
                self.copy(done, pos + 1)
                stop = self.field_end(pos + 1, end)
                self.rewrite(pos + 1, stop)
                done = pos = stop
                if source[pos:pos + 1] == "!":
                    pos += 2
                if source[pos:pos + 1] == ":":
                    done = pos = self.rewrite_fields(done, pos + 1, end, raw, True)
                pos += 1
            else:
                pos += 1
        self.copy(done, min(pos, end))
        return min(pos, end)

    def field_end(self, start: int, end: int) -> int:
        for kind, at, _, _ in self.walk(start, end, "}:!", inside=True):
            if kind == "stop":
                return at
        return end

    # -- the forms ---------------------------------------------------------------------------------------------------
    def form_at(self, pos: int) -> "tuple[tuple[int, int] | None, int] | None":
        """(range of the node or None, offset of `(`) if `@NODE(` stands at pos; else None."""
        source = self.source
        start = end = pos + 1
        char = source[start:start + 1]
        if char == "(":
            return None, start
        node = _DIGITS.match(source, start)
        if not node and (_NODE_STRING.match(source, start) or char in "\"'"):
            node = _NODE_STRING.match(source, start)
        elif not node and (node := _NAME.match(source, start)):
            end = node.end()
            while True:
                if source.startswith("[", end):
                    close = self.skip(end + 1, "]")
                    if close < 0:
                        return None
                    end = close + 1
                elif source.startswith(".", end) and (attribute := _NAME.match(source, end + 1)):
                    end = attribute.end()
                else:
                    break
        if not node:
            return None
        end = max(end, node.end())
        return ((start, end), end) if source.startswith("(", end) else None

    def parse_at(self, pos: int) -> "At | None":
        form = self.form_at(pos)
        if form is None:
            return None
        node, paren = form
        target, value, end = self.parse_c(paren + 1, pos)
        return At(pos, end, node, target, value)

    def parse_c(self, pos: int, at: int) -> tuple[CText, "CText | None", int]:
        """Parses the C text after `(`. Returns the target of the read or write, the value to write or None, and the offset
        after `)`."""
        source = self.source
        target = text = CText()
        value: CText | None = None
        closers = [")"]
        while pos < len(source):
            char = source[pos]
            if char in "\"'":
                pos = self.parse_literal(text, pos)
            elif char == "%" and source.startswith(("%(", "%%("), pos):
                if source.startswith("%%(", pos):
                    closers.append(")")
                pos = self.parse_placeholder(text, pos, "p")
            elif char == "@" and (nested := self.nested_at(source, pos, at)):
                text.parts.append(Piece("n", "%s", pos, nested.end, nested))
                pos = nested.end
            elif char in "([{":
                closers.append(_CLOSER[char])
                text.add(char)
                pos += 1
            elif char in ")]}":
                if char != closers.pop():
                    raise self.error(pos, f"unbalanced `{char}` in the expression of @(...)")
                pos += 1
                if not closers:
                    break
                text.add(char)
            elif char == "=" and len(closers) == 1:
                width = self.assignment(pos)
                if width:
                    text.add(source[pos:pos + width])
                    pos += width
                    continue
                if value is not None:
                    raise self.error(pos, "@(...) takes one assignment only: use several @(...)")
                text = value = CText()
                pos += 1
            elif name := _NAME.match(source, pos):
                self.add_word(text, name)
                pos = name.end()
            elif number := _DIGITS.match(source, pos):
                text.add(number[0])
                pos = number.end()
            else:
                text.add(" " if char in "\r\n" else char)
                pos += 1
        else:
            raise self.error(at, "the `(` of @(...) is not closed")
        for part in (target, value):
            if part is not None:
                part.strip()
                if not part.parts:
                    raise self.error(at, "empty expression in @(...)" if part is target and value is None
                                     else "an assignment in @(...) needs both sides")
                self.refuse_metavariables(part)
        return target, value, pos

    def refuse_metavariables(self, text: CText) -> None:
        for piece in text.pieces():
            if piece.name in _NO_C_VALUE and len(text.parts) > 1:
                raise self.error(piece.start, f"{piece.name} has no value in C: use it outside of @(...)")

    def assignment(self, pos: int) -> int:
        """0 if the `=` at pos is an assignment, otherwise the number of characters of its operator from pos on."""
        source = self.source
        if source.startswith("==", pos):
            return 2
        before = source[pos - 1]
        if source[pos - 2:pos] in ("<<", ">>") or before in "+-*/%&|^":
            operator = source[pos - 2:pos + 1] if before in "<>" else source[pos - 1:pos + 1]
            raise self.error(pos - len(operator) + 1, f"compound assignment `{operator}` is not supported in @(...): "
                                                      f"write @(x = x {operator[:-1]} ...)")
        if before in "<>!" or re.search(r"\boperator\s*\Z", source[max(pos - 12, 0):pos]):
            return 1
        return 0

    def nested_at(self, source: str, pos: int, outer: int) -> "At | None":
        """The nested form at pos; None if the `@` there is gdb's array operator."""
        before = source[outer + 1:pos].rstrip()
        last = before[-1:]
        word = re.search(r"\w+\Z", before)
        if last and (last in "]\"'$" or word and word[0] not in ("sizeof", "return")):
            return None
        if last == ")" and self.form_at(pos):
            raise self.error(pos, "ambiguous `@` after `)`", "gdb's array operator (write `@ (n)` with a blank)",
                             "a cast of a nested read (write `((T)(@(x)))`)")
        return None if last == ")" else self.parse_at(pos)

    def add_word(self, text: CText, name: re.Match[str]) -> None:
        word = name[0]
        if word in METAVARIABLES:
            text.parts.append(Piece("m", "%s", name.start(), name.end(), None, word))
        else:
            text.add(word)

    def parse_literal(self, text: CText, pos: int) -> int:
        """Parses a C string or character literal with the placeholders in it. Returns the offset after it."""
        source = self.source
        start, quote = pos, source[pos]
        text.add(quote)
        pos += 1
        while pos < len(source) and source[pos] != "\n":
            char = source[pos]
            if char == "\\":
                text.add(source[pos:pos + 2])
                pos += 2
            elif char == "%" and source.startswith(("%(", "%%("), pos):
                pos = self.parse_placeholder(text, pos, "q")
            else:
                text.add(char)
                pos += 1
                if char == quote:
                    return pos
        raise self.error(start, f"the C literal that starts with {quote} is not closed on its line")

    def parse_placeholder(self, text: CText, pos: int, kind: str) -> int:
        """Parses `%(PYTHON)FMT` or `%%(`. Returns the offset after it."""
        if self.source.startswith("%%(", pos):
            text.add("%(")
            return pos + 3
        close = self.skip(pos + 2, ")")
        if close < 0:
            raise self.error(pos, "the placeholder %( is not closed; write %%( for these two characters")
        format_ = _FORMAT.match(self.source, close + 1)
        if not format_:
            raise self.error(pos, "%(...) without a format",
                             "a placeholder, which needs one (%(...)d, %(...)s, %(...)g, ...)",
                             "C's remainder (write `% (` with a blank) or text (write `%%(`)")
        if not self.source[pos + 2:close].strip():
            raise self.error(pos, "empty placeholder %()")
        text.parts.append(Piece(kind, "%s" if kind == "q" else "%" + format_[0], pos + 2, close, None,
                                "%" + format_[0]))
        return format_.end()

    def parse_command(self, pos: int) -> tuple[CText, int]:
        """Parses a gdb command, which ends at the end of the line, or at a `;` or a comment outside of literals. Returns it
        and the offset after it."""
        source, text = self.source, CText()
        while pos < len(source) and source[pos] not in ";\n":
            char = source[pos]
            if char == "#" and source[pos - 1] in " \t":
                break
            if char in "\"'" and char in source[pos + 1:(source.find("\n", pos) + 1 or len(source))]:
                pos = self.parse_literal(text, pos)
            elif char == "%" and source.startswith(("%(", "%%("), pos):
                pos = self.parse_placeholder(text, pos, "p")
            else:
                text.add(char)
                pos += 1
        text.strip()
        return text, pos

    # -- emission ----------------------------------------------------------------------------------------------------
    def constant(self, text: str) -> str:
        if not self.in_fstring:
            return repr(text)
        self.texts.append(text)  # inside {...} Python 3.11 allows neither the string's own quotes nor backslashes
        return f"{TEXT}[{len(self.texts) - 1}]"

    def emit_at(self, at: At) -> None:
        texts = [at.target] if at.value is None else [at.target, at.value]
        only = at.target.parts[0]
        if at.value is None and len(at.target.parts) == 1 and isinstance(only, Piece) and only.kind == "m":
            self.emit_call(META, at.node or (), [CText([only.name])], at.start, at.end)
            return
        self.emit_call(READ if at.value is None else WRITE, at.node or (), texts, at.start, at.end)

    def emit_call(self, function: str, node: "tuple[int, ...] | None", texts: list[CText], start: int,
                  end: int) -> None:
        """Emits `function(NODE, TEXT..., PIECES, KINDS)`. `node` is the range of NODE, () for the current node, and None if the
        function takes no node."""
        begin = len(self.out)
        self.generate(function + "(", start, end)
        if node:
            self.rewrite_inside(node[0], node[1])
            self.generate(", ", start, end)
        elif node is not None:
            self.generate("None, ", start, end)
        pieces = [piece for text in texts for piece in text.pieces()]
        self.generate(", ".join(self.constant(text.template(bool(pieces))) for text in texts), start, end)
        if pieces:
            self.generate(", (", start, end)
            for piece in pieces:
                self.emit_piece(piece, start, end)
                self.generate(", ", start, end)
            self.generate("), " + self.constant("".join(piece.kind for piece in pieces)), start, end)
        emitted = sum(text.count("\n") for text in self.out[begin:])
        self.generate("\n" * (self.source.count("\n", start, end) - emitted) + ")", start, end)

    def emit_piece(self, piece: Piece, start: int, end: int) -> None:
        if piece.nested:
            self.emit_at(piece.nested)
        elif piece.kind == "m":
            self.generate(self.constant(piece.name), piece.start, piece.end)
        elif piece.kind == "q":
            self.generate(f"{QUOTE}({self.constant(piece.name)}, ", start, end)
            self.rewrite_inside(piece.start, piece.end)
            self.generate(")", start, end)
        else:
            self.generate("(", start, end)
            self.rewrite_inside(piece.start, piece.end)
            self.generate(")", start, end)

    def rewrite_inside(self, start: int, end: int) -> None:
        """Like rewrite, for Python within brackets, where no statement can be."""
        done = start
        for kind, at, stop, payload in self.walk(start, end, inside=True):
            self.copy(done, at)
            done = stop
            if kind == "at":
                self.emit_at(payload)
            elif kind == "fstring":
                self.rewrite_fstring(at, stop)
            else:
                self.generate(payload, at, stop)
        self.copy(done, end)


def rewrite(source: str, filename: str = "<friday>") -> Rewritten:
    """Rewrites Friday's dialect to plain Python with the same number of lines. Raises AtError for a mistake in `@` syntax;
    mistakes in the Python itself are left to Python's parser."""
    source = source.replace("\r\n", "\n")
    scanner = _Scanner(source, filename)
    if _LIKELY.search(source):
        scanner.rewrite(0, len(source))
    else:
        scanner.copy(0, len(source))
    return Rewritten(source, "".join(scanner.out), scanner.segments, scanner.texts)
