"""Commands that run the group, and the report of a stop: node, stop point, place, thread, time and source line."""
from __future__ import annotations

import contextlib
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Collection

from .answers import WIDE, Output, counted, cut, named, seconds, shown
from .commands import Command, Verb, execute, forward, nearest
from .containers import Items, Map
from .differences import differences
from .errors import Error, NoNode, NoSymbol, UsageError
from .frames import caller_of, frame_of, is_of_system
from .handlers import compile_condition
from .history import PLACES, change_mark, goes_to, hop, set_checkpoints
from .info import not_searched, regular
from .progress import ProgressLine
from .signals import crash_lines, described
from .spans import START, go_to
from .table import OWNED
from .values import Snapshot

if TYPE_CHECKING:
    from .backend import Stop
    from .nodes import Node
    from .points import Hit
    from .sessions import Session

_SECONDS = re.compile(r"-?\d+(\.\d*)?\s*s?\Z")  # negative: before the end
_EPOCH = 1e8  # more seconds than a recording lasts: a real time, in seconds since 1970
_CLOCK = re.compile(r"(?:(\d{4})-(\d\d)-(\d\d)\s+)?(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d*)?))?\Z")
# /REGEX/ is searched for after this place, ?REGEX? before it, as in less(1).
_OUTPUT = re.compile(r"output\s+(\S+)\s+([/?])(.+)\2\Z")
_MESSAGE = re.compile(r"message\s+(?:([^\s/?]+)\s+)?([/?])(.+)\2\Z")
_READS = re.compile(r"(-\w+ +)*-(reads|access) ")
_PLACES = 8  # the most places of a changed struct or array that are shown
SCOPES = ("node", "group")
BACKWARD = ("reverse-step", "reverse-next", "reverse-stepi", "reverse-nexti", "reverse-finish")
SYNCS = ("clock", "causal", "free")
SETTINGS = ("scope", "sync", "gdb", "patch-stores", "checkpoints", "pager")  # the settings that are Friday's own


def stop_lines(session: "Session", stop: "Stop", hidden: Collection[int] = ()) -> list[str]:
    """The lines that describe a stop. Stop points that the user has not set are not named."""
    node = session.nodes.all[stop.node]
    if stop.kind == "end":
        return [f"the recording ends here, at {seconds(session.logical_time)}; `rc` and the other reverse commands go back, `restart` to its start"]
    if stop.kind == "exit":
        return ended_lines(session, stop, hidden)
    if stop.kind == "interrupt":
        node = session.node
        if node.state != "alive":
            return [f"interrupted at {seconds(session.logical_time)}"]
    place, source = frame_of(session, int(node))
    place = place or stop.location or ""
    asked_for = any(id_ in session.points and session.points[id_].kind == "breakpoint" for id_ in stop.ids)
    if (not source or is_of_system(place)) and not asked_for and (caller := caller_of(session, int(node))) and caller != place:
        place += f", called from {caller}"
    if stop.kind == "reached" and not stop.pc:
        time_ = f"{stop.logical_time} s"
        lines = [", ".join(filter(None, [f"{named(node)} stands before its event {_event_before(stop)}", place, time_]))]
        return lines + ([source] if source else [])
    thread = None if stop.kind == "interrupt" or stop.thread is None else f"thread {stop.thread}"
    where = ", ".join(filter(None, [place, thread, seconds(session.logical_time)]))
    if shown := [id_ for id_ in stop.ids if id_ not in hidden]:
        ids = ", ".join(_point_name(session, stop, id_) for id_ in shown)
        lines = [f"{named(node)} stopped at {ids}, {where}"]
    elif stop.kind == "interrupt":
        lines = [f"interrupted; {named(node)} is in {where}"]
    else:
        lines = [f"{named(node)}: {where}"]
    if stop.caught and stop.caught not in lines[0]:
        lines.append(f"  {stop.caught}")
    if thrown := _thrown(session, stop):
        lines.append(f"  throws {thrown}")
    for hit in session.changes(stop):
        lines += [line for line in change_lines(session, hit) if line not in lines]  # two stop points may watch the same
    if stop.kind == "watch" and stop.writer is not None:
        writer, thread, place = stop.writer
        lines.append(f"  stored by {named(session.nodes.all[writer])}, thread {thread}, in {place}; the two share this memory")
    if stop.message:
        lines += [f"  {line}" for line in stop.message.splitlines()]
    return lines + ([source] if source else []) + ([f"Value returned is {stop.returned}"] if stop.returned else [])


def change_lines(session: "Session", hit: "Hit") -> list[str]:
    """The lines that show the old and new value of a watched expression: for a container what it holds now, for a large struct or
    array only the places that differ."""
    expression, (old, new) = str(hit.expression), hit.raw
    if isinstance(new, Snapshot) and new.type.resolved.standard:
        try:
            values = hit.old, hit.new
            if not any(isinstance(value, (Items, Map, str, bytes)) for value in values):  # std::atomic, a smart pointer, ...
                return [cut(f"  {expression}: {shown(values[0])} -> {shown(values[1])}")]
        except Error:
            pass
        try:
            now = session.read(hit.node, expression)
            return [cut(f"  {expression}: now {now!r}" if isinstance(now, str) else f"  {expression}: now {now}")]
        except Error:
            pass  # the container is in the middle of a change
    if _READS.match(session.points[hit.id].what if hit.id in session.points else "") and shown(old) == shown(new):
        return [cut(f"  {expression}: {shown(new)}, read or stored unchanged")]
    whole = f"  {expression}: {shown(old)} -> {shown(new)}"
    if not isinstance(new, Snapshot) or not isinstance(old, Snapshot) or len(whole) <= WIDE:
        return [whole]
    places = {(path.rpartition(".")[2], str(a), str(b)): path for path, a, b in reversed(list(differences(expression, old, new)))}  # the fields of a base class occur twice
    lines = [cut(f"  {path}: {a} -> {b}") for (_, a, b), path in reversed(places.items())]
    return lines[:_PLACES] + ([f"  and {len(lines) - _PLACES} more places of {expression}"] if len(lines) > _PLACES else [])


def _event_before(stop: "Stop") -> int:
    return 0 if stop.event is None else stop.event + 1


def _point_name(session: "Session", stop: "Stop", id_: int) -> str:
    """A stop point at which the group has stopped: "breakpoint 3", "catch 4"; "SIGUSR1" if `handle` set it."""
    point = session.points.get(id_)
    if point is not None and point.purpose == "handle":
        return str(stop.caught)
    return f"{'catch' if point is not None and point.kind == 'catch' else stop.kind} {id_}"


def _thrown(session: "Session", stop: "Stop") -> str:
    """The type of the C++ exception that a `catch throw` has stopped at."""
    if stop.kind != "breakpoint" or not any(id_ in session.points and session.points[id_].what == "throw" for id_ in stop.ids):
        return ""
    try:
        said = session.backend.gdb(stop.node, "info symbol $rsi")  # __cxa_throw(object, type, destructor), Itanium C++ ABI 2.4
    except Error:
        return ""
    found = re.match(r"typeinfo for (.+?)(?: in section | \+ \d+|$)", said)
    return found[1] if found else ""


def ended_lines(session: "Session", stop: "Stop", hidden: Collection[int] = ()) -> list[str]:
    """The lines for a stop at the end of a node. Those of a crash show where it happened."""
    shown = [id_ for id_ in stop.ids if id_ not in hidden and not (id_ in session.points and session.points[id_].purpose)]
    if not shown and not session.signals.at_death(stop.signal)[0]:
        return [ended_line(session, stop)]
    node = session.nodes.all[stop.node]
    ids = ", ".join(f"catch {id_}" for id_ in shown)
    place, source = frame_of(session, int(node))
    thread = None if stop.thread is None else f"thread {stop.thread}"
    where = ", ".join(filter(None, [place, thread, seconds(stop.logical_time)]))
    lines = crash_lines(session, stop, f"{named(node)} {f'stopped at {ids}: ' if ids else ''}died of {described(str(stop.signal))} in {where}")
    return lines[:1] + ([source] if source else []) + lines[1:]


def ended_line(session: "Session", stop: "Stop") -> str:
    return f"{named(session.nodes.all[stop.node])} ended at {seconds(stop.logical_time)}: {stop.message or 'no more events'}"


def is_helper(session: "Session", stop: "Stop") -> bool:
    """Whether a node that has ended was a forked process that did its work within a second, as a shell makes them by the hundred."""
    node = session.nodes.all[stop.node]
    if "/" not in node.name or node.alias or stop.signal or stop.message not in ("exited with 0", "exited with 1"):  # NAME/child-1, NAME/exec-1
        return False
    first, last = session.backend.clock_span(int(node))
    return last - first < 1


def tell_helpers(session: "Session", out: Output) -> None:
    """Says which short-lived processes have ended, many of them in one line."""
    ended, session.helpers_ended = session.helpers_ended, []
    if len(ended) < 3:
        for stop in ended:
            out(ended_line(session, stop))
        return
    names = [session.nodes.all[stop.node].name for stop in ended]
    out(f"{len(ended)} short-lived processes ended by {seconds(ended[-1].logical_time)}: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}")


def tell(session: "Session", stop: "Stop", out: Output, hidden: Collection[int] = ()) -> None:
    """Reports why the group stopped and selects the node that caused it."""
    tell_helpers(session, out)
    if stop.ids:
        session.here = stop.node
    for line in stop_lines(session, stop, hidden):
        out(line)


@contextlib.contextmanager
def watched(session: "Session", out: Output) -> Any:
    """Runs with a progress line if standard error is a terminal."""
    line = ProgressLine(sys.stderr, typed_ahead=True)
    session.on_progress, session.on_hop = (line, line.say) if out.fold else (None, None)
    try:
        with line.shown() if out.fold else contextlib.nullcontext():
            yield
    finally:
        session.on_progress = session.on_hop = None


def _continue(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    word, _, expression = command.rest.partition(" ")
    if word == "until" and expression.strip():
        _continue_until(session, expression.strip(), out)
        return
    if command.rest:
        if not command.rest.isdigit() or int(command.rest) == 0:
            raise UsageError("usage: continue [COUNT | until PYTHON-EXPR]")
        if session.last_stop is None or not session.last_stop.ids:
            _continue_over(session, int(command.rest), out)
            return
        for id_ in session.last_stop.ids:
            if id_ in session.points:
                session.points[id_].ignore(int(command.rest) - 1)
    with watched(session, out):
        stop = session.run()
    tell(session, stop, out)


def _continue_over(session: "Session", count: int, out: Output) -> None:
    """Continues until the group has stopped at stop points as often, or otherwise."""
    for _ in range(count):
        with watched(session, out):
            stop = session.run()
        if not stop.ids:
            break
    tell(session, stop, out)


def _continue_until(session: "Session", expression: str, out: Output) -> None:
    condition = compile_condition(expression, "until", session.namespace)
    with watched(session, out):
        stop, until = session.run_until(condition)
    if stop is None:
        out("the expression is already true here")
        return
    if until.holds:
        out(f"now true: {expression}")
    elif stop.kind == "end":
        out(f"not true at any point from there to the end: {expression}")
    tell(session, stop, out, until.ids)


def one_node(session: "Session", command: Command) -> "Node":
    """The node of a command that takes a single node."""
    if command.nodes is None:
        return session.node
    nodes = session.nodes.parse(command.nodes)
    if len(nodes) != 1:
        raise UsageError(f"`{command.verb}` moves one node and the others follow, but `{command.nodes}` are {len(nodes)} nodes: name one")
    return nodes[0]


def _step(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    verb, rest, count = command.verb, command.rest, 1
    node = one_node(session, command)
    if verb == "until":
        verb = f"until {rest}".strip()
    elif rest:
        if not rest.isdigit() or verb.endswith("finish"):
            raise UsageError(f"usage: {verb} [COUNT]" if not verb.endswith("finish") else f"`{verb}` takes no argument")
        count = int(rest)
        if count == 0:
            raise UsageError(f"`{verb} 0` would make no step: the count must be at least 1")
    session.here = int(node)
    for _ in range(count):
        stop = session.step(node, verb)
        if stop.kind != "step":
            break
    tell(session, stop, out)


def _advance(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    node = one_node(session, command)
    if not command.rest:
        raise UsageError("usage: advance LOC")
    point = session.breakpoint(command.rest, nodes=node, temporary=True)
    try:
        with watched(session, out):
            stop = session.run()
    finally:
        if not point.deleted:
            point.delete()
    tell(session, stop, out)


def goto_first(session: "Session", place: str, option: str, out: Output) -> None:
    """Goes to the place that an option of the command line names. Its errors name the option."""
    try:
        execute(session, f"goto {place}", show=out)
    except (UsageError, NoNode) as error:
        raise UsageError(f"{option} {place}: {error.message}") from None


def _restart(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    session.restart()
    out(_restarted(session))


def _goto(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    words, behind = command.rest.split(), ""
    if len(words) > 1 and _CLOCK.match(" ".join(words[:-1])) and not _CLOCK.match(command.rest):
        if command.nodes is not None:
            raise UsageError("name the node before `goto` or after the time, not in both places")
        command = Command(words[-1], command.verb, " ".join(words[:-1]), "", command.line, command.block_line)
    if words[:1] in (["hop"], ["when"]) and len(words) == 2 and words[1].isdigit():
        number = int(words[1])
        _goto_mark(session, command, hop(session, number).mark if words[0] == "hop" else change_mark(session, number), out)
        return
    if mark := goes_to(session, command.rest):
        _goto_mark(session, command, mark, out)
        return
    if command.rest == "end":
        with watched(session, out):
            stop = session.goto_end()
        tell(session, stop, out)
        return
    if output := _OUTPUT.match(command.rest):
        _goto_output(session, session.nodes[output[1]], output[2], output[3], out)
        return
    if message := _MESSAGE.match(command.rest):
        if command.nodes is not None and message[1]:
            raise UsageError("name the nodes before `goto` or after `message`, not in both places")
        _goto_message(session, command.nodes or message[1], message[2], message[3], out)
        return
    if words[:1] == ["message"] and len(words) == 2 and words[1].isdigit():
        node, event = _message_place(session, int(words[1]), out)
    elif words[:1] == ["event"] and 2 <= len(words) <= 3 and words[1].isdigit():
        node = session.nodes[words[2]] if len(words) == 3 else one_node(session, command)
        event = int(words[1])
    elif _CLOCK.match(command.rest):
        node = one_node(session, command)
        event = _event_at_clock(session, node, command.rest)
    elif _SECONDS.match(command.rest) and float(command.rest.rstrip("s ")) >= _EPOCH:
        node = one_node(session, command)
        event = _event_at_real_time(session, node, float(command.rest.rstrip("s ")))
    elif _SECONDS.match(command.rest):
        found = session.backend.find_time(float(command.rest.rstrip("s ")))
        if found is None:
            end = session.backend.end_time()
            raise UsageError(f"the recording has no time {command.rest.rstrip('s ')} s: it goes from 0 to {end:.3f} s, or from -{end:.3f} to 0 s before its end; "
                             "`restart` goes to its start and `goto end` to its end")
        node, event = session.nodes.all[found[0]], found[1]
        behind = f"`goto event {event + 1} {node.name}` goes to the event after it"
    else:
        raise UsageError(_no_place(session, command.rest))
    if session.backend.event(int(node)) >= event and not session.backend.checkpoints()["kept"]:
        out("going back: the recording is replayed from its start")
    with watched(session, out):
        stop = session.goto(event, node=node)
    tell(session, stop, out)
    if behind and stop.kind == "reached" and event + 1 < session.backend.event_count(int(node)):
        out(behind)


def is_time(text: str) -> bool:
    """Whether `goto` takes a text for a time."""
    return bool(_SECONDS.match(text) or _CLOCK.match(text))


# Words of `goto` that need more behind them: what that is, and an example.
_NEEDS = {"event": ("the number of an event", "event 12 n1"), "message": ("a number or a regular expression", "message 7"),
          "output": ("a node and a regular expression", "output n1 /total/"), "hop": ("the number of a hop", "hop 2"), "when": ("the number of a change", "when 2")}


def _no_place(session: "Session", text: str) -> str:
    """Says what is wrong with a place that `goto` does not understand."""
    words = text.split()
    if not words:
        return f"usage: {OWNED['goto'].usage.removeprefix('[NODE] ')}"
    if opened := re.match(r"(?:output\s+\S+|message(?:\s+[^\s/?]+)?)\s+([/?])(.*)", text):
        sign = opened[1]
        return (f"the regular expression `{sign}{opened[2]}` has no `{sign}` at its end: write `goto {text}{sign}`" if opened[2].strip(sign)
                else f"the regular expression `{sign}{opened[2]}` is empty: write what is searched for between two `{sign}`")
    if words[0] in _NEEDS:
        needs, example = _NEEDS[words[0]]
        return f"`goto {words[0]}` needs {needs}, and not `{text.partition(' ')[2].strip()}`: for example `goto {example}`" if len(words) > 1 else (
            f"`goto {words[0]}` needs {needs}: for example `goto {example}`")
    if re.match(r"[-+]*\.?\d[\d.,:]*\s*s?\Z", text):
        return f"`{text}` is no time: write seconds such as 7.5, seconds before the end such as -60, or a time of day, HH:MM:SS"
    if "#" in text:
        return f"`{text}` is no mark: a mark is NODE#EVENT or NODE#EVENT:0xADDRESS*TIMES, for example 3#1234"
    known = f"the bookmarks are {', '.join(session.bookmarks)}" if session.bookmarks else "there are no bookmarks"
    return (f"`{text}` is no time, no mark and no bookmark ({known}), and begins with none of {', '.join(PLACES)}" + nearest(words[0], [*PLACES, *session.bookmarks])
            + "; `help goto` shows what there is")


def _goto_mark(session: "Session", command: Command, mark: str, out: Output) -> None:
    if command.nodes is not None:
        raise UsageError(f"the mark {mark} names its node itself: write no node before `goto`")
    if mark == START:
        _restart(session, command, None, out)
        return
    with watched(session, out):
        stop = session.goto(mark)
    tell(session, stop, out)


def _goto_output(session: "Session", node: "Node", delimiter: str, pattern: str, out: Output) -> None:
    """Goes to the next write of a node to its standard output or error, or with "?" to the last one before, in whose text the pattern is
    found. A write whose text the recording does not have as a whole is visited, and its text read from the node's memory."""
    wanted, behind = regular(pattern), delimiter == "?"
    backend, done = session.backend, session.backend.event(int(node))
    # The node may stand before a write, to which event done + 1 belongs: where the last search has found it.
    writes = [(number, event) for number, event in enumerate(backend.outputs(int(node))) if (event <= done if behind else event > done + 1)]
    place = None  # where the group stood, once a write has been visited
    with watched(session, out):
        for number, event in reversed(writes) if behind else writes:
            _, text, missing = backend.output(int(node), number)
            found = wanted.search(text)
            if not found and not missing:
                continue
            place = place or session.mark()
            stop = session.goto(event, node=node)
            if stop.kind != "reached" or found or wanted.search(written(session, node)):
                tell(session, stop, out)
                return
        if place:
            go_to(session, place)
    raise UsageError(f"{delimiter}{pattern}{delimiter} matches none of the {counted(len(writes), 'write')} of {named(node)} {_elsewhere(delimiter)}")


def _goto_message(session: "Session", receivers: str | None, delimiter: str, pattern: str, out: Output) -> None:
    """Goes to the receipt of the next message, or with "?" of the last one before, of one of the receivers, in whose contents the pattern
    is found."""
    wanted, backend, last, behind = regular(pattern), session.backend, session.last_stop, delimiter == "?"
    targets = None if receivers is None else [int(node) for node in session.nodes.parse(receivers, every=True)]
    # Where `goto` has put the group, the next event of the node is the receipt of the message that was found before.
    found_before = None if last is None or last.kind != "reached" else (last.node, backend.event(last.node) + 1)
    messages = [message for message in backend.find_messages(None, targets)
                if message.target is not None and message.is_received == behind and (message.target, message.target_event) != found_before]
    unsearched = 0
    for message in reversed(messages) if behind else messages:
        contents, _ = backend.message_contents(message.number)
        unsearched += contents is None
        if contents is None or not wanted.search(contents):
            continue
        out(f"message {message.number}: {counted(message.bytes, 'byte')} from {'outside' if message.source is None else session.nodes.all[message.source].name}")
        with watched(session, out):
            stop = session.goto(message.target_event, node=session.nodes.all[message.target])
        tell(session, stop, out)
        return
    raise UsageError(f"{delimiter}{pattern}{delimiter} matches none of the {counted(len(messages), 'message')} that {'the group' if receivers is None else receivers} "
                     f"receives {_elsewhere(delimiter)}{f'; {not_searched(unsearched)}' if unsearched else ''}; a text that two receives have split is not found")


def _elsewhere(delimiter: str) -> str:
    """Where a search has looked, and how to look at the other side."""
    return "before this place: /REGEX/ searches after it" if delimiter == "?" else "after this place: ?REGEX? searches before it"


def written(session: "Session", node: "Node") -> bytes:
    """The bytes that a node standing before a write or writev is about to write; none before another call."""
    call = int(node.read("$rax"))
    if call not in (1, 20):
        return b""
    if call == 1:
        size = int(node.read("$rdx"))
        return node.read(f"*(unsigned char *)$rsi@{size}").bytes
    pieces = node.read(f"*(unsigned long *)$rsi@{2 * int(node.read('$rdx'))}")
    return b"".join(node.read(f"*(unsigned char *){at}@{size}").bytes for at, size in zip(pieces[::2], pieces[1::2]) if size)


def _message_place(session: "Session", number: int, out: Output) -> "tuple[Node, int]":
    """The node and event at which a message is received, or sent if no replayed node received it."""
    message = session.backend.message(number)
    end, event = message.target, message.target_event
    if end is None:
        end, event = message.source, message.source_event
        out(f"no replayed node receives message {number}: going to where it is sent")
    assert end is not None and event is not None
    return session.nodes.all[end], event


def _event_at_clock(session: "Session", node: "Node", text: str) -> int:
    """The node's first event at or after a time of day on its clock. Without a date, the day is the first on which that time is
    not before the node's first event."""
    year, month, day, hour, minute, second = _CLOCK.match(text).groups()  # type: ignore[union-attr]
    first, last = session.backend.clock_span(int(node))
    date = time.localtime(first)[:3] if year is None else (int(year), int(month), int(day))
    fraction = float(second or 0)
    if int(hour) > 23 or int(minute) > 59 or fraction >= 60:
        raise UsageError(f"`{text}` is not a time of day: write HH:MM:SS")
    moment = [time.mktime((*date[:2], date[2] + later, int(hour), int(minute), 0, 0, 0, -1)) + fraction for later in (0, 1)]
    return _event_at_real_time(session, node, moment[1] if year is None and moment[0] < int(first) and moment[1] <= last else moment[0])


def _event_at_real_time(session: "Session", node: "Node", wanted: float) -> int:
    """The node's first event at or after a time of its clock, in seconds since 1970."""
    first, last = session.backend.clock_span(int(node))
    event = session.backend.find_clock(int(node), wanted - 5e-7)
    if event is None or wanted < int(first):
        span = " to ".join(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each)) for each in (first, last))
        raise UsageError(f"{named(node)} has no event at that time: it was recorded from {span}")
    return event


def _set(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    what, _, value = command.rest.partition(" ")
    if what == "gdb":
        if value.strip() not in ("", "lazy", "background") or command.nodes is not None:
            raise UsageError("usage: set gdb lazy|background")
        out(f"gdbs start {session.backend.gdb_start(value.strip() or None)}")
        return
    if what == "scope":
        if value.strip() not in ("", *SCOPES) or command.nodes is not None:
            raise UsageError("usage: set scope node|group")
        session.scope = value.strip() or session.scope
        out(f"scope is {session.scope}: without a node list a command of gdb goes to {'the selected node' if session.scope == 'node' else 'all nodes'}")
        return
    if what == "pager":
        if value.strip() not in ("", "on", "off") or command.nodes is not None:
            raise UsageError("usage: set pager on|off")
        out.paging = out.paging if not value.strip() else value.strip() == "on"
        out(f"pager is {'on' if out.paging else 'off'}")
        return
    if what == "checkpoints" and command.nodes is None:
        set_checkpoints(session, value.strip(), out)
        return
    if what == "patch-stores":
        _set_patch_stores(session, command, value.strip(), out)
        return
    if what != "sync":
        try:
            forward(session, command, out)
        except NoSymbol as error:  # gdb takes a name that is no setting for a variable to assign to
            raise UsageError(f"`{what}` is neither a setting nor a variable{hint}") if (hint := nearest(what, SETTINGS)) and "=" not in value else error
        return
    value = value.strip()
    if not value:
        out(f"sync is {session.backend.sync()}")
        return
    if value not in SYNCS or command.nodes is not None:
        raise UsageError("usage: set sync clock|causal|free")
    session.restart(value)
    out(f"sync is {value}: {_restarted(session)}")


def _set_patch_stores(session: "Session", command: Command, value: str, out: Output) -> None:
    if value not in ("", "on", "off") or command.nodes is not None:
        raise UsageError("usage: set patch-stores on|off")
    if value:
        session.backend.set_patch_stores(value == "on")
    out(f"patch-stores is {'on' if session.backend.patch_stores() else 'off'}")


def _restarted(session: "Session") -> str:
    kept = sum(not point.purpose for point in session.points.values())
    return f"at the start of the recording; {kept or 'no'} stop point{'s' if kept != 1 else ''} kept"


VERBS: dict[str, Verb] = {
    "continue": _continue, "restart": _restart, "advance": _advance, "goto": _goto, "set": _set,
    **dict.fromkeys(("step", "next", "stepi", "nexti", "finish", "until", *BACKWARD), _step),
}
