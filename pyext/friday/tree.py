"""Parses Friday's dialect to a syntax tree whose lines and columns are those of the user's text, so that tracebacks and their
carets show what the user wrote. at.py does the rewriting; handlers.py compiles the trees."""
from __future__ import annotations

import ast
import re
from bisect import bisect_right

from .at import METAVARIABLES, NEXT_CODE, SESSION, TEXT, AtError, Rewritten, rewrite


class _Lines:
    """Converts between offsets in a text and (line, column), where columns count UTF-8 bytes as in Python's syntax trees."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        self.starts.extend(found.end() for found in re.finditer("\n", text))
        self.ascii = text.isascii()

    def offset(self, line: int, column: int) -> int:
        start = self.starts[min(max(line, 1), len(self.starts)) - 1]
        if not self.ascii:
            column = len(self.text[start:start + column].encode()[:column].decode(errors="ignore"))
        return min(start + column, len(self.text))

    def position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        start = self.starts[line - 1]
        return line, offset - start if self.ascii else len(self.text[start:offset].encode())


class _Finish(ast.NodeTransformer):
    """Replaces metavariables by attributes of the session, and `__friday_text__[n]` by the constant."""

    def __init__(self, texts: list[str], filename: str) -> None:
        self.texts = texts
        self.filename = filename

    def visit_Name(self, node: ast.Name) -> ast.expr:
        attribute = METAVARIABLES.get(node.id)
        if attribute is None:
            return node
        if not isinstance(node.ctx, ast.Load):
            raise AtError(f"{node.id} is a metavariable and cannot be set", filename=self.filename,
                          lineno=node.lineno, offset=node.col_offset + 1)
        session = ast.copy_location(ast.Name(SESSION, ast.Load()), node)
        return ast.copy_location(ast.Attribute(session, attribute, ast.Load()), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == TEXT and isinstance(node.slice, ast.Constant):
            return ast.copy_location(ast.Constant(self.texts[node.slice.value]), node)
        self.generic_visit(node)
        return node


def parse(source: str, filename: str = "<friday>", mode: str = "exec", first_line: int = 1) -> ast.AST:
    """The syntax tree of a source in Friday's dialect, with positions in that source, whose first line has the number `first_line`.

    If the first line of code is indented (a handler's block), the result is an ast.Module of the block. Raises AtError for a
    mistake in `@` syntax and SyntaxError for one in Python, both with the user's line and column."""
    code = NEXT_CODE.match(source)
    prefix = "if True:\n" if mode == "exec" and code and code[1] else ""
    shift = first_line - 1 - len(prefix.splitlines())
    try:
        rewritten = rewrite(prefix + source, filename)
    except AtError as error:
        error.lineno += shift
        raise
    try:
        tree = ast.parse(rewritten.text, filename, mode)
    except SyntaxError as error:
        _move_error(error, rewritten, shift)
        raise
    _move(tree, rewritten, shift)
    if prefix and (len(tree.body) > 1 or tree.body[0].orelse):
        raise IndentationError("unexpected indent", (filename, first_line + source[:code.start(1)].count("\n"), 1, None))
    tree = _Finish(rewritten.texts, filename).visit(tree)
    if prefix:
        tree = ast.Module(tree.body[0].body, [])
    return tree


def _move(tree: ast.AST, rewritten: Rewritten, shift: int) -> None:
    if len(rewritten.segments) <= 1 and not shift:
        return
    old, new = _Lines(rewritten.source), _Lines(rewritten.text)
    for node in ast.walk(tree):
        if not hasattr(node, "lineno"):
            continue
        start = rewritten.origin(new.offset(node.lineno, node.col_offset))
        end = rewritten.origin(new.offset(node.end_lineno, node.end_col_offset), True)
        line, node.col_offset = old.position(start)
        node.lineno = line + shift
        line, node.end_col_offset = old.position(max(end, start))
        node.end_lineno = line + shift


def _move_error(error: SyntaxError, rewritten: Rewritten, shift: int) -> None:
    if not error.lineno:
        return
    old, new = _Lines(rewritten.source), _Lines(rewritten.text)
    start = new.starts[min(error.lineno, len(new.starts)) - 1]
    offset = rewritten.origin(min(start + max((error.offset or 1) - 1, 0), len(rewritten.text)))
    line = bisect_right(old.starts, min(offset, len(old.text)))
    begin = old.starts[line - 1]
    error.lineno, error.offset = line + shift, offset - begin + 1
    error.end_lineno = error.end_offset = None
    error.text = old.text[begin:].split("\n", 1)[0]
