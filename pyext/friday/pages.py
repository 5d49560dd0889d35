"""The pages of docs/, which are installed with Friday, for reading where there is no network: `friday help TOPIC`, and `help TOPIC` in
the console. A topic is the name of a page, of a subcommand or of a command of the console.
"""
from __future__ import annotations

import os
import pathlib
import re
import sys

import friday

from .answers import Output
from .commands import nearest
from .errors import UsageError
from .table import OWNED, resolve

_WORD = re.compile(r"[A-Za-z_][A-Za-z_-]{2,}")
_SHOWN = 8  # how many places of a page a search shows
_MARKS = re.compile(r"\[([^\]]*)\]\([^)]*\)")  # links: only the words are shown


def directory() -> pathlib.Path:
    """Where the pages are: beside the directory of the Python package, in a build and where Friday is installed."""
    return pathlib.Path(os.path.abspath(friday.__file__)).parent.parent.parent / "docs"


def topics() -> dict[str, str]:
    """The names of the pages, with their titles."""
    found = {}
    for file in sorted(directory().glob("*.md")):
        with open(file, encoding="utf-8") as lines:
            found[file.stem] = next((line.lstrip("# ").strip() for line in lines if line.startswith("#")), file.stem)
    return found


def page(topic: str) -> str:
    """The text of a page. Raises UsageError, which names the nearest topic."""
    known = topics()
    if not known:
        raise UsageError(f"the pages are not installed: there is no {directory()}")
    if topic not in known:
        raise UsageError(f"there is no page `{topic}`{nearest(topic, known)}; `friday help` lists them")
    return (directory() / f"{topic}.md").read_text(encoding="utf-8")


def section(topic: str, heading: str) -> str:
    """The part of a page below the heading that consists of these words, alone or among others that commas separate; "" if there is none."""
    kept: list[str] = []
    depth = 0
    for line in page(topic).splitlines():
        marks = len(line) - len(line.lstrip("#"))
        if marks and line[marks:marks + 1] == " ":
            if depth and marks <= depth:
                break
            if not depth and heading in [part.strip(" `") for part in line[marks:].split(",")]:
                depth = marks
        if depth:
            kept.append(line)
    return "\n".join(kept)


def _units(text: str) -> list[tuple[str, str]]:
    """The paragraphs, items and table rows of a page, each with the heading above it."""
    found, heading, lines = [], "", []

    def end() -> None:
        if lines:
            found.append((heading, "\n".join(lines)))
            lines.clear()
    for line in text.splitlines():
        if line.startswith("#"):
            end()
            heading = line.lstrip("# ")
        elif not line.strip() or re.fullmatch(r"[|\s:-]+", line):
            end()
        else:
            if line.startswith(("|", "- ")):
                end()
            lines.append(line)
    end()
    return found


def search(topic: str, wanted: str) -> list[str]:
    """The places of a page in which most of the wanted words occur, best first, as text. A message may be given as it was printed: names
    and numbers in it that the page does not have do no harm. Raises UsageError if nothing is found."""
    words = {word.lower() for word in _WORD.findall(wanted)}
    if not words:
        raise UsageError("name at least one word to search for")
    scored = []
    for number, (heading, text) in enumerate(_units(page(topic))):
        low = text.lower()
        score = sum(word in low for word in words) / len(words)
        if score >= 0.5:
            scored.append((-score, number, f"{heading}:\n{text}"))
    if not scored:
        raise UsageError(f"the page `{topic}` has no place with most of these words")
    best = [text for score, _, text in sorted(scored)[:_SHOWN] if score <= min(scored)[0] + 0.25]
    return best


def plain(text: str) -> str:
    """A page as it is shown: the marks of links are left out."""
    return _MARKS.sub(r"\1", text)


def _listed() -> list[str]:
    known = topics()
    width = max(map(len, known), default=0)
    return ["Pages, `friday help PAGE`:", *(f"  {name:{width}}  {title}" for name, title in known.items()),
            "`friday help errors WORDS` finds what a message means; WORDS after any page search it.",
            "`friday help COMMAND` explains a command of the console, and `friday SUBCOMMAND --help` the options of a subcommand."]


def answer(words: "list[str]") -> list[str]:
    """What `friday help WORDS` shows. Raises UsageError."""
    from .info import help_text  # written on top of this module
    if not words:
        return _listed()
    topic, rest = words[0].removesuffix(".md"), " ".join(words[1:])
    if topic in topics():
        return "\n\n".join(map(plain, search(topic, rest))).splitlines() if rest else plain(page(topic)).splitlines()
    if text := section("commands", f"friday {topic}"):
        return plain(text).splitlines()
    if (name := resolve(topic)) in OWNED:
        return help_text(name)
    raise UsageError(f"there is no page and no command `{topic}`{nearest(topic, [*topics(), *OWNED])}; `friday help` lists the pages")


def main(words: "list[str]") -> int:
    """`friday help`: shows the answer, on a terminal through the pager. Returns the exit code."""
    terminal = sys.stdout.isatty()
    out = Output(print, fold=terminal)
    out.paging = terminal and os.environ.get("TERM", "dumb") != "dumb"
    try:
        with out.paged():
            for line in answer(words):
                out(line)
    except UsageError as error:
        print(f"friday help: {error}", file=sys.stderr)
        return 2
    return 0
