"""The outcome of a script on a recording, as text, as JSON and as JUnit XML."""
from __future__ import annotations

import json
import os
import re
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from typing import Any, Iterable, Sequence

from .answers import counted

HELD, VIOLATED, BAD_INPUT, DIVERGED, DIED = 0, 1, 2, 3, 4
WORDS = {HELD: "held", VIOLATED: "violated", BAD_INPUT: "bad input", DIVERGED: "diverged", DIED: "died"}
INTERRUPTED, NOT_RUN = "interrupted", "not run"

_SHOWN = 20  # how many violations a JUnit failure shows in full
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass
class Outcome:
    """The outcome of one script on one recording. `code` is the exit code, `word` its meaning, `error` the error that ended the run
    early. `violations` are as Violation.to_json gives them, `texts` are the same as text, `output` is the last part of what
    the script printed. `points` is how many stop points there were at the end, `hits` how often stop points were hit, and `never_hit` those
    that were not though the run came to its end."""
    script: str
    recording: str
    code: int = HELD
    word: str = ""
    error: str = ""
    seconds: float = 0.0
    altered: list[dict[str, Any]] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0
    texts: list[str] = field(default_factory=list)
    output: str = ""
    points: int = 0
    hits: int = 0
    never_hit: list[str] = field(default_factory=list)

    def ended(self, code: int, error: str = "", word: str = "") -> None:
        """Sets how the run ended. Without a word, the word follows from the code."""
        self.code, self.error, self.word = code, error, word or WORDS.get(code, f"exit {code}")

    @property
    def summary(self) -> str:
        """The word, with the number of violations."""
        count = len(self.violations) + self.dropped
        if not count:
            return self.word
        return f"violated {count}" + (f", {self.word}" if self.code != VIOLATED or self.word == INTERRUPTED else "")

    def conclusion(self) -> list[str]:
        """What a run that held or was violated rests on: a script whose stop points are never hit has checked nothing at them."""
        if self.word not in (WORDS[HELD], WORDS[VIOLATED]):
            return []
        if self.hits:
            rests_on = f"its stop points were hit {counted(self.hits, 'time')}"
        else:
            rests_on = "its stop points were never hit, so nothing was checked at them" if self.points else "it had no stop points"
        found = "held: nothing was violated" if self.code == HELD else self.summary
        return [f"{found}; {rests_on}", *([f"never hit: {', '.join(self.never_hit)}"] if self.never_hit else [])]

    def to_json(self) -> dict[str, Any]:
        return {"script": self.script, "recording": self.recording, "exit": self.code, "outcome": self.word,
                "error": self.error or None, "seconds": round(self.seconds, 6), "altered": self.altered,
                "violations": self.violations, "violations_not_kept": self.dropped, "hits": self.hits, "never_hit": self.never_hit}


def short_names(paths: Sequence[str]) -> list[str]:
    """A short name for each path: its last part, or the whole path if others have the same last part."""
    names = {path: os.path.basename(os.path.normpath(path)) for path in paths}
    return [names[path] if list(names.values()).count(names[path]) == 1 else path for path in paths]


def worst(outcomes: Iterable[Outcome]) -> int:
    """The exit code for several runs: the largest of theirs. From the largest: died, diverged, bad input, violated, held."""
    return max((outcome.code for outcome in outcomes), default=BAD_INPUT)


def as_json(outcomes: Sequence[Outcome], error: str = "") -> dict[str, Any]:
    """The report as a JSON object: for one run its outcome, for several an object with the outcomes under `runs`."""
    if len(outcomes) == 1:
        return outcomes[0].to_json()
    return {"exit": worst(outcomes), "error": error or None, "runs": [outcome.to_json() for outcome in outcomes]}


def write_json(path: str, outcomes: Sequence[Outcome], error: str = "") -> None:
    """Writes the report as JSON. Raises OSError."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(as_json(outcomes, error), file, indent=1)
        file.write("\n")


def write_junit(path: str, outcomes: Sequence[Outcome]) -> None:
    """Writes the report as JUnit XML, with a test suite for each script and a test case for each recording. Raises OSError."""
    suites = xml.Element("testsuites", name="friday run")
    for script in dict.fromkeys(outcome.script for outcome in outcomes):
        cases = [outcome for outcome in outcomes if outcome.script == script]
        suite = xml.SubElement(suites, "testsuite", name=script, timestamp=time.strftime("%Y-%m-%dT%H:%M:%S"))
        for outcome in cases:
            _add_case(suite, outcome)
        _count(suite, sum(outcome.seconds for outcome in cases))
    _count(suites, sum(outcome.seconds for outcome in outcomes))
    xml.indent(suites)
    xml.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


def _add_case(suite: xml.Element, outcome: Outcome) -> None:
    case = xml.SubElement(suite, "testcase", classname=outcome.script, name=outcome.recording, time=f"{outcome.seconds:.3f}")
    if outcome.word == NOT_RUN:
        xml.SubElement(case, "skipped", message=_clean(outcome.error))
        return
    if outcome.violations:
        first = outcome.violations[0]
        failure = xml.SubElement(case, "failure", type=_clean(first["predicate"]), message=_clean(f"{outcome.summary}; first: {first['message']}"))
        more = len(outcome.texts) - _SHOWN + outcome.dropped
        failure.text = _clean("\n\n".join(outcome.texts[:_SHOWN]) + (f"\n\nand {more} more" if more > 0 else ""))
    if outcome.code > VIOLATED or outcome.code == VIOLATED and not outcome.violations:
        error = xml.SubElement(case, "error", type=outcome.word, message=_clean(outcome.error.strip().rpartition("\n")[2]))
        error.text = _clean(outcome.error)
    if outcome.output:
        xml.SubElement(case, "system-out").text = _clean(outcome.output)


def _count(element: xml.Element, seconds: float) -> None:
    for name, kind in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(len(list(element.iter(kind)))))
    element.set("time", f"{seconds:.3f}")


def _clean(text: str) -> str:
    """The text with characters that XML cannot contain as escapes."""
    return _NOT_XML.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def summary_lines(outcomes: Sequence[Outcome], labels: Sequence[str], seconds: float) -> list[str]:
    """A line for each run, and a last line for all of them."""
    wide = max(map(len, labels)), max(len(outcome.summary) for outcome in outcomes)
    lines = []
    for outcome, label in zip(outcomes, labels):
        first = outcome.error.strip().removeprefix("friday: ").partition("\n")[0] if outcome.code > VIOLATED else ""
        if outcome.error.startswith("Traceback"):
            first = outcome.error.strip().rpartition("\n")[2]
        lines.append(f"{label:{wide[0]}}  {outcome.summary:{wide[1]}}  {outcome.seconds:7.1f} s  {first}".rstrip())
    words = [outcome.word for outcome in outcomes]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys([*WORDS.values(), INTERRUPTED, NOT_RUN, *words]) if word in words)
    return [*lines, f"{counted(len(outcomes), 'run')} in {seconds:.1f} s: {counts}"]
