"""`friday refine`: looks at an event of one run, or at the same event of two, side by side."""
from __future__ import annotations

import json
import re
import sys
from typing import Any, Iterator, Sequence

from .answers import printable
from .errors import Error
from .looking import Around, Look, LookFrame, Row, aligned, look, value_rows

_WIDTH = 44  # of a value in a column


def main(looks: Sequence[tuple[str, str, str]], *, title: str, frames: int, depth: int, around: int, expressions: Sequence[str], show_all: bool, as_json: bool,
         symbols: Sequence[str], unconfined: bool) -> int:
    """looks: for each, what it is called, the recording, and the mark. title: what is looked at, in lines."""
    import friday
    found: list[tuple[str, Look]] = []
    for name, recording, mark in looks:
        try:
            with friday.Session(recording, symbols=tuple(symbols), unconfined=unconfined) as session:
                found.append((name, look(session, mark, frames=frames, depth=depth, around=around, expressions=expressions)))
        except Error as error:
            print(f"friday refine: {name}: {error}", file=sys.stderr)
            return getattr(error, "exit_code", 2)
    if as_json:
        print(json.dumps({"looks": [{"name": name, **each.to_json()} for name, each in found],
                          **({"differences": list(_differences_as_json(found[0][1], found[1][1]))} if len(found) == 2 else {})}, indent=1))
        return 0
    print(printable(title), end="")
    for line in _lines(found, show_all):
        print(printable(line))
    return 0


def _lines(looks: Sequence[tuple[str, Look]], show_all: bool) -> Iterator[str]:
    width = max(len(name) for name, _ in looks)
    for name, each in looks:
        yield f"{name:{width}}  {each.node} at {each.mark}, before {each.event}"
    yield ""
    if len(looks) == 1:
        yield from _one(looks[0][1])
    else:
        yield from _two(looks, show_all)
    for name, each in looks:
        if each.around:
            yield ""
            yield f"calls around, {name}:" if len(looks) > 1 else "calls around:"
            yield from _tree(each.around, each.mark)


# ---- one run

def _one(what: Look) -> Iterator[str]:
    for number, frame in enumerate(what.frames):
        yield f"#{number:<3}{frame}"
        yield from (f"      {path} = {text}" for path, text in frame.rows())
        if number < len(what.returned) and what.returned[number] is not None:
            yield f"      returns {what.returned[number]}"
    for expression, value in what.values.items():
        yield from (f"{path} = {text}" for path, text in value_rows(expression, value))
    changed = list(_changed_by_call(what))
    if changed:
        yield ""
        yield f"behind the call, in {what.after[0].function}:"
        yield from (f"      {path} = {now}, was {before}" for path, before, now in changed)


def _changed_by_call(what: Look) -> Iterator[tuple[str, str, str]]:
    """What the call has changed of the variables of the function that it came back to."""
    before = next((each for each in what.frames if what.after and each.function == what.after[0].function), None)
    if before is not None:
        known = dict(before.rows())
        yield from ((path, known[path], text) for path, text in what.after[0].rows() if path in known and known[path] != text)


# ---- two runs

def _two(looks: Sequence[tuple[str, Look]], show_all: bool) -> Iterator[str]:
    (left_name, left), (right_name, right) = looks
    yield f"{'':34}  {left_name:{_WIDTH}}  {right_name}"
    for number, (a, b) in enumerate(aligned(left.frames, right.frames)):
        yield from _frame_pair(f"#{number:<3}", a, b, show_all)
        yield from _returned_pair(left, right, a, b, show_all)
    if left.after and right.after and left.after[0].function == right.after[0].function:
        yield from _frame_pair("behind the call: ", left.after[0], right.after[0], show_all)
    for expression in left.values:
        yield from _rows(list(value_rows(expression, left.values[expression])), list(value_rows(expression, right.values[expression])), True, "")


def _frame_pair(title: str, a: LookFrame | None, b: LookFrame | None, show_all: bool) -> Iterator[str]:
    if a is None or b is None:
        one = a if b is None else b
        yield f"{title}{'' if a is None else str(one):{_WIDTH + 32}} {'' if b is None else one}  (in one run only)"
        return
    yield f"{title}{a}" + (f"  |  {b.place}" if a.place != b.place else "")
    yield from _rows(a.rows(), b.rows(), show_all, "      ")


def _by_path(rows: Sequence[Row]) -> dict[str, str]:
    """The texts by path, without addresses, which differ between runs that are alike."""
    return {path: re.sub(r"0x[0-9a-f]{5,}", "0x...", text) for path, text in rows}


def _rows(a: Sequence[Row], b: Sequence[Row], show_all: bool, indent: str) -> Iterator[str]:
    left, right = _by_path(a), _by_path(b)
    equal = 0
    for path in {**left, **right}:
        one, other = left.get(path, "none"), right.get(path, "none")
        if one != other:
            yield f"{indent}{path:{34 - len(indent)}}  {_short(one):{_WIDTH}}| {_short(other)}"
        elif show_all:
            yield f"{indent}{path:{34 - len(indent)}}  {_short(one)}"
        else:
            equal += 1
    if equal:
        yield f"{indent}({equal} equal)"


def _returned_pair(left: Look, right: Look, a: LookFrame | None, b: LookFrame | None, show_all: bool) -> Iterator[str]:
    def of(what: Look, frame: LookFrame | None) -> str | None:
        at = next((i for i, each in enumerate(what.frames) if each is frame), len(what.returned))
        return what.returned[at] if at < len(what.returned) else None
    one, other = of(left, a), of(right, b)
    if one is not None and other is not None:
        a_row, b_row = [("returns", one)], [("returns", other)]
        if show_all or _by_path(a_row) != _by_path(b_row):
            yield from _rows(a_row, b_row, True, "      ")


def _differences_as_json(left: Look, right: Look) -> Iterator[dict[str, Any]]:
    for a, b in aligned(left.frames, right.frames):
        if a is None or b is None:
            yield {"function": (a or b).function, "only": 0 if b is None else 1}  # type: ignore[union-attr]
            continue
        yield from _pairs_as_json(a.function, "before", a.rows(), b.rows())
    if left.after and right.after and left.after[0].function == right.after[0].function:
        yield from _pairs_as_json(left.after[0].function, "after", left.after[0].rows(), right.after[0].rows())


def _pairs_as_json(function: str, when: str, a: Sequence[Row], b: Sequence[Row]) -> Iterator[dict[str, Any]]:
    left, right = _by_path(a), _by_path(b)
    for path in {**left, **right}:
        if left.get(path) != right.get(path):
            yield {"function": function, "when": when, "path": path, "values": [left.get(path), right.get(path)]}


def _short(text: str) -> str:
    return text if len(text) < _WIDTH else text[:_WIDTH - 5] + " ..."


# ---- calls around

def _tree(events: Sequence[Around], mark: str) -> Iterator[str]:
    """The events under the functions that led to them; what an event has in common with the one before is not repeated."""
    before: tuple[str, ...] = ()
    for each in events:
        same = 0
        while same < min(len(before), len(each.stack)) and before[same] == each.stack[same]:
            same += 1
        for level in range(same, len(each.stack)):
            yield "    " + "  " * level + each.stack[level]
        here = mark.partition("#")[2].partition(":")[0] == str(each.number)
        yield f"{'  > ' if here else '    '}{'  ' * len(each.stack)}{each.number}: {each.text}"
        before = each.stack
