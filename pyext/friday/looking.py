"""What a node is about to do where it stands: its stack with deep copies of the variables, what the functions return, and the calls around.

Two such looks, at the same event of a run that failed and of one that passed, show where the runs differ (refine.py).
"""
from __future__ import annotations

import difflib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterator, Sequence

from .errors import BadExpression, Error
from .frames import is_of_system

if TYPE_CHECKING:
    from .sessions import Session

Value = dict[str, Any]  # of gdb_look.py
Row = tuple[str, str]  # path, text

with open(os.path.join(os.path.dirname(__file__), "gdb_look.py"), encoding="utf-8") as _file:
    _SCRIPT = _file.read()


@dataclass(frozen=True, slots=True)
class LookFrame:
    """A frame of a stack. place: "FILE:LINE", "" if that is unknown; library: the file of the shared library that its code is in, "" in the
    program itself; arguments, locals: its variables by name, each as `value_rows` takes it."""
    function: str
    place: str
    library: str
    arguments: dict[str, Value]
    locals: dict[str, Value]

    @property
    def is_own(self) -> bool:
        """Whether its code is the program's own."""
        return not self.library and not is_of_system(f" at {self.place}")

    def rows(self) -> list[Row]:
        """Its variables, down to the scalars: paths and texts. In a library only the arguments, and nothing that was optimised away."""
        shown = {name: value for name, value in self.locals.items() if value.get("text") != "<optimized out>"} if self.is_own else {}
        return [row for name, value in (self.arguments | shown).items() for row in value_rows(name, value)]

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else f" in {os.path.basename(self.library)}" if self.library else ""
        return self.function + where


@dataclass(frozen=True, slots=True)
class Around:
    """An event before or after the one that is looked at. number: of the event on its node; text: what it is; stack: the functions that
    led to it, the outermost first."""
    number: int
    text: str
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """A look at a node where it stands. mark: that place; event: what it is about to do there; frames: the stack, the innermost first; returned:
    of the innermost frames what they return, None where they return nothing; after: the stack when the call has come back into the program's
    own code, empty if it does not; values: the values of expressions; around: the events before and after."""
    recording: str
    node: str
    mark: str
    event: str
    frames: tuple[LookFrame, ...]
    returned: tuple[str | None, ...] = ()
    after: tuple[LookFrame, ...] = ()
    values: dict[str, Value] = field(default_factory=dict)
    around: tuple[Around, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The look as JSON shows it."""
        def frame(each: LookFrame) -> dict[str, Any]:
            return {"function": each.function, "place": each.place, "library": each.library, "arguments": each.arguments, "locals": each.locals}
        return {"recording": self.recording, "node": self.node, "mark": self.mark, "event": self.event, "frames": [frame(each) for each in self.frames],
                "returned": list(self.returned), "after": [frame(each) for each in self.after], "values": self.values,
                "around": [{"event": each.number, "text": each.text, "stack": list(each.stack)} for each in self.around]}


def look(session: "Session", place: str | None = None, *, frames: int = 12, depth: int = 3, around: int = 0, expressions: Sequence[str] = ()) -> Look:
    """Looks at the node that stands where the session's group does, or at `place`, a mark, to which the group goes first.

    frames: how many frames, from the innermost one; depth: how many pointers are followed in succession; around: how many events before and
    after; expressions: what else is to be evaluated, in the innermost frame of the program's own code. The group stands behind the call then. Raises UsageError where no node stands, and as
    Session.goto() does.

        with friday.open("monday") as session:
            look = friday.look(session, "1#2721", depth=2)
            print(look.frames[1].arguments, look.returned)
    """
    if place is not None:
        session.goto(place)
    node, event = session.event_at(place if place is not None else session.mark())
    mark = session.mark()
    count = session.backend.event_count(node)
    calls = _calls_around(session, node, event, around) if around else ()
    if around:
        session.goto(mark)
    stack = _frames(session, node, frames, depth)
    outside = next((i for i, each in enumerate(stack) if each.is_own), None)
    values = {each: _ask(session, node, f"friday_value({each!r}, {outside or 0}, {depth})") for each in expressions}
    returned: list[str | None] = []
    after: tuple[LookFrame, ...] = ()
    if outside is not None and event < count:
        after = _come_back(session, node, outside, returned, frames, depth)
    return Look(session.recording, session.nodes[node].name, mark, _event_text(session, node, event), stack, tuple(returned), after, values, calls)


def _ask(session: "Session", node: int, what: str) -> Any:
    script = f"{_SCRIPT}\nfriday_tell(lambda: {what})"
    try:
        found = json.loads(session.backend.gdb(node, f"python exec({script!r}, dict())"))
    except json.JSONDecodeError as error:
        raise BadExpression(f"gdb does not tell what is asked of node {node}: {error}") from None
    if "error" in found:
        raise BadExpression(f"node {node}: {found['error']}")
    return found


def _frames(session: "Session", node: int, count: int, depth: int) -> tuple[LookFrame, ...]:
    found = _ask(session, node, f"friday_frames({count}, {depth})")
    return tuple(LookFrame(each["function"], f"{each['file']}:{each['line']}" if "file" in each else "", each["library"],
                           dict(each.get("arguments", ())), dict(each.get("locals", ()))) for each in found)


def _come_back(session: "Session", node: int, outside: int, returned: list[str | None], frames: int, depth: int) -> tuple[LookFrame, ...]:
    """Lets the functions of libraries that are not the program's own return, and the innermost own one if there are none."""
    for _ in range(max(outside, 1)):
        try:
            stop = session.step(node, "finish")
        except Error:
            return ()
        if stop.kind != "step" or stop.node != node:
            return ()
        returned.append(stop.returned.partition(" = ")[2] if stop.returned else None)
    return _frames(session, node, frames, depth)


def _event_text(session: "Session", node: int, event: int) -> str:
    from .recordings import Recording
    events = list(Recording(session.recording).events(node, first=event, last=event))
    return str(events[0]) if events else "the end"


def _calls_around(session: "Session", node: int, event: int, around: int) -> tuple[Around, ...]:
    from .recordings import Recording
    last = session.backend.event_count(node) - 1
    texts = {each.index: str(each) for each in Recording(session.recording).events(node, first=max(event - around, 0), last=min(event + around, last))}
    found = []
    for number, text in texts.items():
        session.goto(number, node=node)
        stack = _ask(session, node, "friday_frames(64, None)")
        names = [f"{each['function']} at {os.path.basename(each['file'])}:{each['line']}" if "file" in each else each["function"] for each in stack]
        found.append(Around(number, text, tuple(reversed(names))))
    return tuple(found)


# ---- as rows

def value_rows(path: str, value: Value) -> Iterator[Row]:
    """A copied value as paths and texts, down to the scalars. Addresses are left out, as they differ between runs that are alike."""
    parts = value.get("parts")
    if "again" in value:
        yield path, f"as {value['again']}"
    elif value.get("pointer") and parts:
        for _, part in parts:
            yield from value_rows(f"{path}->" if part.get("parts") is not None and not part.get("pointer") else f"*{path}", part)
    elif value.get("pointer"):
        yield path, "a pointer"
    elif parts is None:
        yield path, value["text"]
    else:
        if not parts or value["text"] != "{...}" and not value["text"].startswith("["):
            yield path, value["text"]
        for name, part in parts:
            yield from value_rows(path + name if name.startswith("[") or path.endswith("->") else f"{path}.{name}", part)
    if value.get("cut") and not value.get("pointer"):
        yield f"{path}...", "more than is shown"


def aligned(a: Sequence[LookFrame], b: Sequence[LookFrame]) -> Iterator[tuple[LookFrame | None, LookFrame | None]]:
    """The frames of two stacks side by side, those of the same function beside each other."""
    # from the outermost one, by which two stacks are alike
    left, right = list(reversed(a)), list(reversed(b))
    pairs: list[tuple[LookFrame | None, LookFrame | None]] = []
    for how, i1, i2, j1, j2 in difflib.SequenceMatcher(None, [each.function for each in left], [each.function for each in right], autojunk=False).get_opcodes():
        if how == "equal":
            pairs += zip(left[i1:i2], right[j1:j2])
        else:
            pairs += [(each, None) for each in left[i1:i2]] + [(None, each) for each in right[j1:j2]]
    return reversed(pairs)
