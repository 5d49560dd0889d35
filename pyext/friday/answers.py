"""Prints the console's answers: as lines with labels, on a terminal with identical answers of several nodes put together."""
from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import textwrap
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Sequence

if TYPE_CHECKING:
    from .nodes import Node

WIDE = 200  # the most characters of a line about a value
_MOST_PLACE = 60  # characters of a function and its line; names of C++ that are longer are shortened
# What has angle brackets or parentheses in a name of C++ that are neither arguments nor parameters.
_NO_BRACKETS = re.compile(r"operator ?(?:\(\)|<<=?|>>=?|<=>|->\*?|[<>]=?)|\(anonymous namespace\)")
_HISTORY = re.compile(r"^\$\d+ = ", re.M)
# Characters that control a terminal instead of showing on it, as in core/base/printable.h, except newline and tab.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]")


def printable(text: str) -> str:
    """The text with its control characters as escapes. For text that comes from a recording (names, paths, strings)."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


class Output:
    """Prints lines by calling `line`. `fold`: identical answers of several nodes are put together; `colour`: labels and errors
    are coloured."""

    def __init__(self, line: Callable[[str], Any] = print, *, fold: bool = False, colour: bool = False) -> None:
        self._line = line
        self.fold = fold
        self.colour = colour
        self.paging = False
        self.typed_ahead: bytes | None = None  # for a console: what was typed before a pager began, which would take it for its keys
        self._kept: list[str] | None = None

    def __call__(self, text: str) -> None:
        self._put(printable(text))

    def prose(self, text: str, indent: str = "") -> None:
        """Prints a sentence; on a terminal it is wrapped between words, with `indent` before the second and further lines."""
        text = printable(text)
        width = shutil.get_terminal_size().columns if self.fold else 0
        for line in textwrap.wrap(text, max(width - 1, 30), subsequent_indent=indent, break_long_words=False) if width else [text]:
            self._put(line)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Prints rows with aligned columns; on a terminal cells are wrapped between words, so that no line is broken elsewhere."""
        for line in table(rows, shutil.get_terminal_size().columns - 1 if self.fold else 0):
            self._put(printable(line))

    def error(self, text: str) -> None:
        self._line(self._paint("31", printable(text)))

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    @contextlib.contextmanager
    def paged(self) -> Iterator[None]:
        """A context in which lines are collected; at its end they are printed, through $PAGER (default: less) if there are more
        than the terminal shows at once. It has an effect only if `paging` and `fold` are set. Not for output while the group
        runs."""
        if not self.paging or not self.fold or self._kept is not None:
            yield
            return
        kept = self._kept = []
        try:
            yield
        finally:
            self._kept = None
            size = shutil.get_terminal_size()
            rows = sum(max(1, -(-len(line) // max(size.columns, 1))) for line in kept)
            if rows >= size.lines and self.typed_ahead is not None:
                self.typed_ahead += _take_typed_ahead()
            if rows < size.lines or not _page("\n".join(kept) + "\n"):
                for line in kept:
                    self._line(line)

    def _put(self, text: str) -> None:
        if self._kept is None:
            self._line(text)
        else:
            self._kept.extend(text.split("\n"))

    def answers(self, answers: "Mapping[Node, str]", implied: bool = False) -> None:
        """Prints the answers of nodes, each line with the label of its nodes. Without `fold` each node has its own lines. implied: the
        user knows which node is meant, and its label is left out on a terminal unless there is something to say about the node."""
        if not self.fold:
            for node, answer in answers.items():
                for line in answer.splitlines():
                    self._put(printable(f"[{node.name}{mark(node)}] {line}"))
            return
        for nodes, answer in folded(answers):
            said = mark(nodes[0])
            label = "" if implied and not said else self._paint("36", f"{label_of(nodes)}{said}:") + " "
            for line in answer.splitlines():
                self._put(f"{label}{printable(line)}")


def _take_typed_ahead() -> bytes:
    """Takes from the terminal what was typed and nobody has read yet, an unfinished line too."""
    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):
        return b""  # no terminal
    each_byte = [*before[:3], before[3] & ~(termios.ICANON | termios.ECHO), *before[4:6], [*before[6]]]
    each_byte[6][termios.VMIN] = each_byte[6][termios.VTIME] = 0  # read() returns at once
    typed = b""
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, each_byte)
        while more := os.read(terminal, 4096):
            typed += more
    except (OSError, termios.error):
        pass
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
    return typed


def _page(text: str) -> bool:
    """Shows a text in the user's pager and returns whether that worked. Ctrl-C goes to the pager alone while it runs."""
    command = shlex.split(os.environ.get("PAGER") or "less")
    if not command or shutil.which(command[0]) is None:
        return False
    sys.stdout.flush()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        subprocess.run(command, input=text.encode("utf-8", "replace"), env={"LESS": "FRX"} | dict(os.environ), check=False)
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def mark(node: "Node") -> str:
    """What a reader of a node's answers must know: that the user has altered the node, or that it is not alive. Starts with a
    blank if not empty."""
    state = node.state
    return (" altered" if node.altered is not None else "") + (f" {state}" if state != "alive" else "")


def folded(answers: "Mapping[Node, str]") -> "list[tuple[list[Node], str]]":
    """Each different answer with the nodes that gave it, in the order in which the answers first occur. Answers that differ
    only in the numbers of gdb's value history ($1, $2) count as identical."""
    groups: dict[tuple[str, str], tuple[list[Node], list[str]]] = {}
    for node, answer in answers.items():
        nodes, texts = groups.setdefault((_HISTORY.sub("", answer), mark(node)), ([], []))
        nodes.append(node)
        texts.append(answer)
    return [(nodes, texts[0] if len(set(texts)) == 1 else _HISTORY.sub("", texts[0]))
            for nodes, texts in groups.values()]


def label_of(nodes: "Sequence[Node]") -> str:
    """"node 3" or "nodes 0-6,9"."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {ranges([int(node) for node in nodes])}"


def ranges(ids: Sequence[int]) -> str:
    """Ascending numbers as a node list: "0-6,9"."""
    parts: list[list[int]] = []
    for id_ in ids:
        if parts and id_ == parts[-1][1] + 1:
            parts[-1][1] = id_
        else:
            parts.append([id_, id_])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def counted(count: int, noun: str) -> str:
    """A number with its noun: "1 write", "2 writes"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


_GAP = "  "  # between columns
_NARROW = 16  # a column of at most so many characters is not wrapped: its cells are numbers, names and times


def table(rows: Sequence[Sequence[str]], width: int = 0) -> list[str]:
    """The rows as lines of text, with aligned columns. If there is a `width`, of lines that long: cells of the widest columns are wrapped
    between words; a word is not broken."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    words = [max((len(word) for row in rows for word in row[i].split()), default=0) for i in range(len(widths))]
    least = [max(word, min(each, _NARROW)) for word, each in zip(words, widths)]
    while width and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        if not (wide := [i for i, each in enumerate(widths) if each > least[i]]):
            break
        widths[max(wide, key=lambda i: widths[i])] -= 1
    lines = []
    for row in rows:
        wrapped = [textwrap.wrap(cell, each, break_long_words=False, break_on_hyphens=False) if len(cell) > each else [cell] for cell, each in zip(row, widths)]
        for parts in itertools.zip_longest(*wrapped, fillvalue=""):
            lines.append(_GAP.join(part.ljust(each) for part, each in zip(parts, widths)).rstrip())
    return lines


def named(node: "Node") -> str:
    """"node 3 (n3)"; of a program that a wrapper has started, "node 3 (n3 = n3/exec-1)"."""
    return f"node {node} ({node.full_name})"


def seconds(time: Any) -> str:
    """A logical time for people, in seconds since the recording's start."""
    return f"{float(time):.3f} s"


def cut(text: str) -> str:
    """A line about a value, but for what is behind WIDE characters."""
    return text if len(text) <= WIDE else f"{text[:WIDE]}..."


def without_parameters(place: str) -> str:
    """A function and its line without the types of the function's parameters: "forward at a.cc:3"."""
    function, at, line = place.partition(" at ")
    kept, depth, i = "", 0, 0
    while i < len(function):
        if depth == 0 and (whole := _NO_BRACKETS.match(function, i)):
            kept, i = kept + whole[0], whole.end()
            continue
        depth -= function[i] == ")"
        if depth == 0 and function[i] not in "()":
            kept += function[i]
        depth += function[i] == "("
        i += 1
    return kept.removesuffix(" const") + at + line


def brief(place: str) -> str:
    """A function and its line; if that is long, without the arguments of templates and the parameters of functions."""
    if len(place) <= _MOST_PLACE:
        return place
    function, at, line = place.rpartition(" at ") if " at " in place else (place, "", "")
    kept, depth, i = "", 0, 0
    while i < len(function):
        if depth == 0 and (whole := _NO_BRACKETS.match(function, i)):
            kept, i = kept + whole[0], whole.end()
            continue
        sign = function[i]
        if sign in ">)" and depth and function[i - 1] != "-":
            depth -= 1
        if depth == 0:
            kept += sign
        if sign in "<(":
            depth += 1
            if depth == 1 and function[i + 1:i + 2] not in (">", ")"):
                kept += "..."
        i += 1
    return kept + at + line


def shown(value: Any) -> str:
    return "undefined" if value is None else str(value)
