"""The commands `info` and `help`: what Friday knows about the group, and about its own commands."""
from __future__ import annotations

import bisect
import pathlib
import re
import textwrap
import time
from typing import TYPE_CHECKING, Any, Callable, Collection

from . import pages
from .answers import Output, counted, ranges, seconds, table
from .commands import Command, Verb, forward, nearest, nodes_of
from .costs import info_costs
from .errors import Error, UsageError
from .handlers import Handler
from .history import info_bookmarks, info_checkpoints, info_mark
from .signals import info_signals
from .table import GDB_COMMANDS, GROUPS, OWNED, REFUSED, refusal, resolve

if TYPE_CHECKING:
    from .backend import Message
    from .nodes import Node
    from .points import StopPoint
    from .sessions import Session

_LISTED = re.compile(r"([\w-]+)( [\w-]+)*(?:, [\w -]+)* -- ")  # a line of gdb's list of commands
_SENTENCE = re.compile(r"[.;:(]( |\Z)")
_GLANCE = 120  # bytes of a text that `info output` shows
_GLANCE_OF_MESSAGE = 32  # bytes of its contents that `info messages` shows
_ALL = 2**63 - 1
_MESSAGES = 20  # how many `info messages` shows without a count


def clock(real: float) -> str:
    """A real time of a node's host as text."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(real)) + f".{int(real % 1 * 1e6):06d}"


def _chosen(session: "Session", command: Command) -> "tuple[Node, ...]":
    """The nodes that stand before the command, or behind its topic."""
    behind = command.rest.partition(" ")[2].replace(" ", "")
    if behind and command.nodes is not None:
        raise UsageError(f"name the nodes before `info` or after `{command.rest.split()[0]}`, not in both places")
    text = command.nodes or behind
    return session.nodes.parse(text, every=True) if text else session.nodes.all


def _nodes(session: "Session", command: Command, out: Output) -> None:
    changed = session.altered
    rows = [("", "id", "name", "state", "event", *(["altered since"] if changed else []), "program")]
    for node in _chosen(session, command):
        state = node.state
        event = "" if state == "not started" else _last_event(session, node)
        altered = [seconds(changed[node]) if node in changed else ""] if changed else []
        origin = f"  (forked by node {node.info.parent})" if node.info.parent is not None else ""
        rows.append(("*" if int(node) == session.here else "", str(node), node.full_name, state, event, *altered,
                     node.info.program + origin))
    out.table(rows)


def _last_event(session: "Session", node: "Node") -> str:
    """The index of the last event that the node has done, as text."""
    event = session.backend.event(int(node))
    return str(event) if event >= 0 else "none"


def _time(session: "Session", command: Command, out: Output) -> None:
    part, _ = session.backend.progress()
    out(f"logical time {session.logical_time} s since the recording's start, {part:.1%} of its events done, "
        f"sync {session.backend.sync()}")
    rows, nodes = [], _chosen(session, command)
    for node in nodes:
        state = node.state
        if state == "not started":
            rows.append((f"node {node}", node.full_name, "", "", state))
        else:
            rows.append((f"node {node}", node.full_name, clock(node.real_time), f"event {_last_event(session, node)}",
                         "" if state == "alive" else state))
    out.table(rows)
    if step := last_step(session, [int(node) for node in nodes]):
        out(step)


def _endpoints(session: "Session", command: Command, out: Output) -> None:
    script = pathlib.Path(__file__).with_name("users_gdb.py").read_text(encoding="utf-8")
    nodes = _chosen(session, command)
    started = [node for node in nodes if node.state != "not started"]
    for node in started:
        path = pathlib.Path(node.endpoint).with_suffix(".py")
        path.write_text(f"ENDPOINT = {node.endpoint!r}\n{script}", encoding="utf-8")
        out(f"node {node} ({node.full_name}): gdb -x {path}")
    if waiting := [int(node) for node in nodes if node not in started]:
        out.prose(f"{'node' if len(waiting) == 1 else 'nodes'} {ranges(waiting)}: not started here. A node has an endpoint as soon as it has started, for "
                  "example where `tbreak main` and `continue` stop.")
    if started:
        out.prose("Such a gdb follows the group when others move it. One that connects to the socket beside the script by `target remote` alone "
                  "cannot: when the group has moved, what it asks of the node fails until it continues or connects again.")


def _points(kinds: tuple[str, ...], what: str) -> "Callable[[Session, Command, Output], None]":
    def show(session: "Session", command: Command, out: Output) -> None:
        points = [point for point in session.points.values() if point.kind in kinds and not point.purpose]
        if command.nodes is not None:
            chosen = set(session.nodes.parse(command.nodes, every=True))
            points = [point for point in points if chosen.intersection(point.nodes)]
        if not points:
            out(f"no {what}")
            return
        rows = [("id", "kind", "on", "hits", "nodes", "what")]
        for point in points:
            kind = "once" if point.temporary else point.kind
            rows.append((str(point.id), kind, "yes" if point.enabled else "no", str(point.hits), nodes_of(point),
                         point.what + (f" if {point.condition}" if point.condition else "")))
        lines = table(rows)
        out(lines[0])
        for point, line in zip(points, lines[1:]):
            out(line)
            for text in place_lines(point):
                out(f"      {text}")
            for text in handler_lines(point):
                out(f"      {text}")
    return show


def place_lines(point: "StopPoint") -> list[str]:
    """Lines that list the places of a breakpoint with several, and the nodes on which it is pending."""
    nodes: dict[tuple[bool, str], list[int]] = {}
    for node, address, text in point.places if point.kind == "breakpoint" else ():
        nodes.setdefault((address is not None, text), []).append(node)
    one = len(nodes) == 1 and all(stands for stands, _ in nodes)
    return [] if one else [f"{'stands in' if stands else 'waits:'} {text} (nodes {', '.join(map(str, on))})" for (stands, text), on in nodes.items()]


def handler_lines(point: "StopPoint") -> list[str]:
    """The source of a stop point's handler."""
    if isinstance(point.handler, Handler):
        return [line for line in textwrap.dedent(point.handler.source).splitlines() if line.strip()]
    if point.handler is not None:
        return [f"handler {getattr(point.handler, '__name__', point.handler)}"]
    return []


def _asked(command: Command, topic: str) -> "tuple[str | None, int, re.Pattern[bytes] | None]":
    """The nodes, the count (0: none was given) and the regular expression of `info TOPIC [NODES] [COUNT] [/REGEX/]`."""
    rest, wanted = _pattern(command.rest.partition(" ")[2])
    words = rest.split()
    count = int(words.pop()) if words and words[-1].isdigit() and (len(words) == 2 or command.nodes is not None) else 0
    if len(words) > 1 or words and command.nodes is not None:
        raise UsageError(f"usage: info {topic} [NODES] [COUNT] [/REGEX/]")
    return command.nodes or (words[0] if words else None), count, wanted


def _messages(session: "Session", command: Command, out: Output) -> None:
    chosen, count, wanted = _asked(command, "messages")
    count = count or _MESSAGES
    nodes = (None,) if chosen is None else [int(node) for node in session.nodes.parse(chosen, every=True)]
    found = {message.number: message for node in nodes for message in session.backend.messages(node, count if wanted is None else _ALL)}
    rows, unsearched = [], 0
    for m in sorted(found.values(), key=_latest, reverse=True):
        contents, missing = session.backend.message_contents(m.number)
        unsearched += contents is None
        if wanted is not None and (contents is None or not wanted.search(contents)):
            continue
        text = "[not kept]" if contents is None else _written(contents, _GLANCE_OF_MESSAGE) + (" ..." if missing else "")
        rows.append((str(m.number), *_end(session, m.source, m.source_event, m.sent, m.is_sent),
                     *_end(session, m.target, m.target_event, m.received, m.is_received), str(m.bytes), m.channel, text))
        if len(rows) == count:
            break
    if not rows:
        out("no message has been sent or received up to here" + ("" if wanted is None else f" in which /{wanted.pattern.decode()}/ is found"))
    else:
        out.table([("number", "from", "event", "sent", "to", "event", "received", "bytes", "channel", "contents"), *reversed(rows)])
    if wanted is not None and unsearched:
        out(not_searched(unsearched))


def not_searched(messages: int) -> str:
    """Says how many messages a search has passed over, because the recording does not have their contents."""
    return (f"{counted(messages, 'message')} could not be searched: the recording has the contents of what replayed nodes receive, and no bytes of what they send")


def _latest(message: "Message") -> Any:
    """The logical time of the latest thing that has happened to a message so far: its receipt, or else its send."""
    return message.received if message.is_received else message.sent


def _end(session: "Session", node: int | None, event: int | None, time_: Any, done: bool) -> tuple[str, str, str]:
    if node is None:
        return "outside", "", ""
    return session.nodes.all[node].name, str(event), seconds(time_) if done else "not yet"


def _output(session: "Session", command: Command, out: Output) -> None:
    text, count, wanted = _asked(command, "output")
    chosen = session.nodes.all if text is None else session.nodes.parse(text, every=True)
    most = count or (10 if len(chosen) == 1 else 2)
    rows, lacking = [("node", "event", "", "text")], False
    for node in chosen:
        backend, last = session.backend, session.backend.event(int(node)) if node.state != "not started" else -1
        events = backend.outputs(int(node))
        shown: list[tuple[str, str, str, str]] = []
        for number in reversed(range(bisect.bisect_right(events, last))):
            stream, written, missing = backend.output(int(node), number)
            if wanted is not None and not wanted.search(written):
                continue
            lacking = lacking or bool(missing)
            text = _written(written) + (f" [{counted(missing, 'byte')} that the recording does not have]" if missing else "")
            shown.append((node.name, str(events[number]), "out" if stream == 1 else "err", text))
            if len(shown) == most:
                break
        rows += reversed(shown)
    if len(rows) == 1:
        out("nothing was written to standard output or error up to here" + ("" if wanted is None else f" in which /{wanted.pattern.decode()}/ is found"))
    else:
        out.table(rows)
    if lacking:
        out.prose("See what the recording does not have where it is written: `goto event N NODE`, `NODE print *(char*)$rsi@$rdx`; or go to the next "
                  "write whose text a regular expression finds: `goto output NODE /REGEX/`")


def _pattern(text: str) -> "tuple[str, re.Pattern[bytes] | None]":
    """The words before a /REGEX/ at the end of a command, and the regular expression; None if there is none."""
    words, slash, pattern = text.partition("/")
    if not slash:
        return text, None
    if not pattern.endswith("/") or len(pattern) < 2:
        raise UsageError(f"`/{pattern}` is no regular expression: write it between slashes, /REGEX/")
    return words, regular(pattern[:-1])


def regular(pattern: str) -> "re.Pattern[bytes]":
    """A regular expression that is searched in bytes."""
    try:
        return re.compile(pattern.encode())
    except re.error as error:
        raise UsageError(f"/{pattern}/ is not a regular expression of Python: {error}") from None


def _written(written: bytes, most: int = _GLANCE) -> str:
    """What a call has written, on one line: its first bytes, without the newline at its end."""
    text = written.removesuffix(b"\n")
    shown = text[:most].decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown) + ("..." if len(text) > most else "")


def last_step(session: "Session", nodes: "Collection[int]") -> str | None:
    """The last thing that the recorder did to one of the nodes, or to its network, up to where the group stands; None without one."""
    now = float(session.logical_time)
    done = [step for step in session._steps if int(step.node) in nodes and float(step.time) <= now]
    if not done:
        return None
    return f"friday record did to node {int(done[-1].node)} at {seconds(done[-1].time)}: {done[-1].what} {done[-1].detail}".rstrip() + " (`info steps` has all)"


def _steps(session: "Session", command: Command, out: Output) -> None:
    """What the recorder did to nodes, and to the network between them, by the events of its group file."""
    chosen = {int(node) for node in (session.nodes.all if command.nodes is None else session.nodes.parse(command.nodes, every=True))}
    steps = [step for step in session._steps if int(step.node) in chosen]
    if not steps:
        out("the group file had no [[event]] that happened to these nodes")
        return
    now = float(session.logical_time)
    out.table([("time", "what", "node", "", "")] + [
        (f"{float(step.time):.6f} s", step.what, f"{int(step.node)} ({step.node.name})", step.detail, "" if float(step.time) <= now else "not yet") for step in steps])


TOPICS: "dict[str, tuple[int, Callable[[Session, Command, Output], None]]]" = {  # name -> (fewest letters, what shows it)
    "nodes": (3, _nodes),
    "time": (4, _time),
    "breakpoints": (1, _points(("breakpoint", "watch", "catch", "timer"), "stop points")),
    "watchpoints": (3, _points(("watch",), "watchpoints")),
    "messages": (3, _messages),
    "output": (3, _output),
    "endpoints": (3, _endpoints),
    "signals": (2, info_signals),
    "costs": (2, info_costs),
    "steps": (3, _steps),
    "checkpoints": (1, info_checkpoints),
    "mark": (4, info_mark),
    "bookmarks": (2, info_bookmarks),
}


REFUSED_TOPICS = ("program", "inferiors", "display", "record")


# Those topics of gdb's `info` that are of use here.
GDB_TOPICS = ("threads", "locals", "args", "frame", "registers", "all-registers", "symbol", "line", "address", "scope", "source", "sources", "functions",
              "variables", "types", "sharedlibrary", "files", "auxv", "vector", "float", "macro")


def resolve_topic(word: str) -> str | None:
    """The topic of Friday's own that a word abbreviates; None if it is one of gdb's."""
    return next((name for name, (letters, _) in TOPICS.items() if len(word) >= letters and name.startswith(word)), None)


def _info(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    word = command.rest.partition(" ")[0]
    if not word:
        raise UsageError(f"info {'|'.join(TOPICS)}, or one of gdb's: threads, locals, args, frame, registers, symbol, ...")
    topic = resolve_topic(word)
    if topic is not None:
        TOPICS[topic][1](session, command, out)
        return
    if word in REFUSED_TOPICS:
        raise UsageError(f"`info {word}` would describe one gdb and its process: for the replayed group use `info nodes`")
    try:
        forward(session, command, out)
    except Error as error:
        if not error.message.startswith("Undefined info command"):
            raise
        raise UsageError(f"`info` has no topic `{word}`{nearest(word, (*TOPICS, *GDB_TOPICS))}") from None


def help_text(name: str) -> list[str]:
    """The help for one of Friday's commands."""
    owned = OWNED[name]
    first = f"{owned.usage}    (short: {name[:owned.letters]})" if owned.letters < len(name) else owned.usage
    return [first, f"  {owned.text}", "  Example:", *(f"    {line}" for line in owned.example.split("\n"))]


def _help(session: "Session", command: Command, filename: str | None, out: Output) -> None:
    if not command.rest:
        width = max(map(len, OWNED))
        for title, (names, more) in GROUPS.items():
            out(f"{title}:")
            for name in names:
                out.prose(f"  {name:{width}}  {_SENTENCE.split(OWNED[name].text)[0]}", " " * (width + 4))
            if more:
                out.prose(f"  {more}", "  ")
        out.prose("All other commands go to the gdb of the selected node, which the prompt names.")
        out("A node list may stand before a command; `all` are all nodes, `.` is the selected one:")
        out("  4,5 print x      0-9,!3 backtrace      redis-* info threads")
        out("`help COMMAND` explains a command and shows an example.")
        out("`help page` lists the pages of the documentation, and `help page NAME` shows one.")
        return
    word, *more = command.rest.split()
    name = resolve(word)
    if word == "page" or name is None and word in pages.topics():
        for line in pages.answer(more if word == "page" else [word, *more]):
            out(line)
    elif name in OWNED:
        for line in help_text(name):
            out.prose(line, "  ") if not line.startswith("    ") else out(line)
        if word in pages.topics():
            out(f"`help page {word}` shows the page of this name.")
    elif name in REFUSED:
        out(refusal(name))
    else:
        _help_of_gdb(session, command.rest, out)


def _help_of_gdb(session: "Session", topic: str, out: Output) -> None:
    try:
        lines = session.backend.gdb(session.here, f"help {topic}").splitlines()
    except Error as error:
        if not error.message.startswith("Undefined command"):
            raise
        raise UsageError(f"there is no command and no page `{topic}`{nearest(topic, [*OWNED, *pages.topics(), *GDB_COMMANDS])}") from None
    for line in lines:
        if not _is_refused(line):
            out(line)


def _is_refused(line: str) -> bool:
    """Whether a line of gdb's help is of a command that is refused here, or of a part of one of Friday's that Friday does not have."""
    found = _LISTED.match(line)
    name = resolve(found[1]) if found else None
    return name in REFUSED or name in OWNED and name != "info" and found is not None and found[2] is not None


VERBS: dict[str, Verb] = {"info": _info, "help": _help}
