"""The threads of a node, as its gdb sees them."""
from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import ComponentDied

if TYPE_CHECKING:
    from .nodes import Node

# The remote serial protocol has no thread 0, so a thread's number is one less than its number there.
_LIST_THREADS = r'''
import gdb, json
def friday_threads():
    chosen, found = gdb.selected_thread(), []
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.ptid[1]):
        thread.switch()
        frame = gdb.newest_frame()
        place = frame.find_sal()
        found.append([thread.ptid[1] - 1, thread.name or "", thread.details or "", frame.pc(), frame.name() or "",
                      place.symtab.filename if place.symtab else "", place.line if place.symtab else 0, thread == chosen])
    if chosen is not None:
        chosen.switch()
    print(json.dumps(found))
friday_threads()
'''


# Selects the thread of that name, as `thread N` does.
_SELECT_THREAD = r'''
import difflib, gdb
def friday_select_thread(name):
    threads = sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num)
    found = [thread for thread in threads if thread.name == name]
    if len(found) == 1:
        gdb.execute("thread %d" % found[0].num)
    elif found:
        raise gdb.GdbError("threads %s are called %s: select one by its number" % (", ".join(str(each.num) for each in found), name))
    else:
        near = difflib.get_close_matches(name, [each.name or "" for each in threads], 1)
        raise gdb.GdbError("no thread is called %s%s; `info threads` lists them" % (name, near and "; the nearest is %s" % near[0] or ""))
friday_select_thread(%s)
'''
_BY_NAME = re.compile(r"(?:t|thr|thre|threa|thread)\s+(?!(?:apply|find|name)\b)([^\s\d$.*-]\S*(?: \S+)*)\Z")


def by_name(command: str) -> str:
    """gdb's command for one of the user's: `thread NAME` selects the thread that the program has given this name. gdb has that for numbers only."""
    found = _BY_NAME.match(command)
    if not found:
        return command
    script = _SELECT_THREAD.replace("(%s)", f"({found[1]!r})")
    return f"python exec({script!r})"


@dataclass(frozen=True)
class Thread:
    """A thread of a node in its present state. number: as in `hit.thread`, from 0 in the order in which threads start; tid: its recorded
    thread id; parked: whether it waits in a system call or for its turn; address, function, file, line: the place of its innermost
    frame, "" and 0 if unknown; current: whether the node's expressions and backtrace refer to this thread."""
    number: int
    name: str
    tid: int
    parked: bool
    address: int
    function: str
    file: str
    line: int
    current: bool

    def __str__(self) -> str:
        place = f" at {self.file}:{self.line}" if self.file else ""
        return f"thread {self.number} {self.name}: {self.function or hex(self.address)}{place}"


def threads_of(node: "Node") -> list[Thread]:
    """The threads of a node, as its gdb lists them. Raises NodeNotStarted, NodeEnded and ComponentDied."""
    text = node.gdb(f"python exec({_LIST_THREADS!r})")
    try:
        return [_thread(*row) for row in json.loads(text)]
    except (ValueError, TypeError):
        raise ComponentDied(f"gdb's list of threads cannot be read: {text[:200]!r}", node=int(node)) from None


def _thread(number: int, name: str, details: str, address: int, function: str, file: str, line: int, current: bool) -> Thread:
    """Makes a Thread. `details` is what the endpoint tells gdb about the thread, such as "tid 12044, parked"."""
    words = details.replace(",", "").split()
    return Thread(number, name, int(words[1]), "parked" in words, address, function, file, line, current)
