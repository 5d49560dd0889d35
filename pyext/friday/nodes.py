"""Replayed nodes, and finding them by id, name, pattern and the application's own identifiers."""
from __future__ import annotations

import difflib
import fnmatch
import re
from types import CodeType
from typing import TYPE_CHECKING, Any, Callable, Collection, Iterator, Mapping, Sequence

from .backend import NodeInfo
from .errors import BadAddress, NodeNotStarted, NoNode, NoSymbol, OutOfScope, UsageError
from .identity import NodeId
from .threads import Thread, threads_of
from .views import view

if TYPE_CHECKING:
    from .sessions import Session
    from .teaching import Place

_RANGE = re.compile(r"(\d+)-(\d+)\Z")


class Node(NodeId):
    """One replayed process. It is its id: an int, equal to it and usable wherever an id is. It is true, node 0 too, and comparing it with a
    text raises UsageError."""

    info: NodeInfo  # from the recording
    session: "Session"

    def __new__(cls, session: "Session", info: NodeInfo) -> "Node":
        node = super().__new__(cls, info.id)
        node.info, node.session = info, session
        return node

    @property
    def id(self) -> int:
        """The id as a plain int."""
        return int(self)

    @property
    def name(self) -> str:
        """"redis-1"; a forked process is "redis-1/child-1"; one that was started again under the same name is "redis-1#2"."""
        return self.info.name

    @property
    def alias(self) -> str:
        """If the node runs the program that a wrapper (`ip netns exec`, a shell, env, ...) has started: the name that was given to the
        wrapper, such as "redis-1" for "redis-1/exec-1". The name means this node then, and the wrapper is known by its id. Otherwise ""."""
        return self.info.alias

    @property
    def full_name(self) -> str:
        """The name for people: "redis-1", or "redis-1 = redis-1/exec-1" if there is an alias."""
        return f"{self.alias} = {self.name}" if self.alias else self.name

    @property
    def state(self) -> str:
        """"not started", "alive", "ended", "diverged" where its replay left the recording, or "failed" where its process was lost, now."""
        return self.session.nodes.states()[self]

    @property
    def real_time(self) -> float:
        """Seconds since the epoch on the node's clock."""
        return self.session.backend.real_time(int(self))

    @property
    def altered(self) -> Any:
        """The logical time since which writes or calls have changed the node, or None."""
        return self.session.backend.altered(int(self))

    def eval(self, expression: str) -> Any:
        """The value of a C or C++ expression, which may contain calls: the same as `@NODE(EXPR)`. Names are looked up in the frame where
        the node stands, then in its program; an ended node gives its last value. The result is a snapshot. Raises NoSymbol, OutOfScope,
        OptimizedOut, BadExpression, BadAddress, NodeNotStarted, CallFailed."""
        return self.session.read(self, expression)

    read = eval

    def view(self, expression: str) -> Sequence[Any]:
        """An array, std::vector, std::deque or std::array of which only the items that are asked for are read: len(), [i], [a:b]. It is
        good until the group moves on, and raises UsageError then. Of another sequence, such as a list, all items are read. Raises
        what `eval` raises, and UsageError if the expression is no sequence."""
        return view(self.session, int(self), expression)

    def write(self, target: str, value: Any) -> None:
        """Assigns a Python value or a snapshot to the object that the C expression `target` denotes, and marks the node altered. Raises
        what `eval` raises, and NodeEnded."""
        self.session.assign(self, target, value)

    def call(self, function: str, *arguments: Any) -> Any:
        """Calls a function of the program with Python values or snapshots, and returns its result. Strings and structs are passed in the
        node's workspace. Raises CallFailed if the function crashes, blocks or takes longer than `session.call_timeout`, and what
        `write` raises."""
        return self.session.call(self, function, *arguments)

    def backtrace(self) -> str:
        """The stack of the current thread, one frame on each line, as gdb shows it. Raises NodeNotStarted."""
        self._check_started()
        return self.session.backend.backtrace(int(self))

    def threads(self) -> "list[Thread]":
        """The present threads, by number; for an ended node, the threads at its end. Raises NodeNotStarted."""
        self._check_started()
        return threads_of(self)

    def symbols(self, pattern: str = "*") -> "dict[str, list[Place]]":
        """The names of the program's own functions and variables that match a pattern (`*`, `?`, `[...]`), with the places
        where each is declared; empty without debug information. For a very large program, only those of source files near
        the place where the node stands. Raises NodeNotStarted."""
        self._check_started()
        names = self.session.names.of(int(self))
        return {name: list(names[name]) for name in sorted(names) if fnmatch.fnmatchcase(name, pattern)}

    def _check_started(self) -> None:
        if self.state == "not started":
            raise NodeNotStarted(f"{self.name} has not started yet", node=int(self))

    def gdb(self, command: str) -> str:
        """The output of the node's gdb for a command. Before the node's first event, gdb shows the process at the start of its program.
        Raises BadExpression with gdb's message, NoSymbol and OutOfScope."""
        return self.session._ask_gdb(int(self), command)

    @property
    def endpoint(self) -> str:
        """The path of a socket to which a gdb of your own can connect by `target remote PATH`. It is served while a prompt waits, and
        while `session.backend.pump` runs."""
        return self.session.backend.endpoint(int(self))

    def __repr__(self) -> str:
        return f"<node {int(self)} {self.name}>"

    def __str__(self) -> str:
        return int.__repr__(self)


def base_name(name: str) -> str:
    """The name without the number of restarts: "redis-1" for "redis-1#2". A child keeps the number of its parent: "redis-1#2/child-1"."""
    head, mark, number = name.rpartition("#")
    return head if mark and number.isdigit() else name


class Nodes:
    """All nodes of a recording: `nodes[4]`, `nodes["redis-1"]` (the one alive now), `nodes["."]` (the selected one), iteration in id order."""

    def __init__(self, session: "Session", infos: Sequence[NodeInfo], states: Callable[[], Sequence[str]]) -> None:
        self._session = session
        self._all = tuple(Node(session, info) for info in infos)
        self._by_id = {int(node): node for node in self._all}  # not a list, since ids may have gaps
        self._in_order = states
        self._named: dict[str, list[Node]] = {}
        aliases = {node.alias for node in self._all if node.alias}  # these do not mean the wrappers, which have them as names
        for node in self._all:
            for name in (node.alias, node.name):
                if name and (name not in aliases or name == node.alias):
                    self._named.setdefault(base_name(name), []).append(node)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._all)

    def __repr__(self) -> str:
        return f"<nodes {', '.join(f'{node} {node.name}' for node in self._all)}>"

    def states(self) -> dict[int, str]:
        """The present state of each node (see Node.state), by id."""
        return dict(zip(self._by_id, self._in_order()))

    @property
    def names(self) -> list[str]:
        """All names and aliases, in id order."""
        return list(dict.fromkeys(name for node in self._all for name in (node.alias, node.name) if name))

    @property
    def all(self) -> tuple[Node, ...]:
        """All nodes, by id."""
        return self._all

    def __getitem__(self, key: Any) -> Node:
        if isinstance(key, int):
            if key in self._by_id:
                return self._by_id[key]
            raise NoNode(f"no node {int(key)}; the recording has nodes {min(self._by_id)} to {max(self._by_id)}")
        if isinstance(key, str):
            return self._by_name(key)
        raise TypeError(f"a node is an id or a name, not {type(key).__name__} {key!r}; for several nodes write "
                        f"[@n(...) for n in ...]")

    def _by_name(self, name: str) -> Node:
        if name == ".":
            return self._session.node
        if name.isdigit():
            return self[int(name)]
        lives = self._named.get(name)
        if lives is None:
            for node in (*filter(lambda node: node.alias, self._all), *self._all):
                if name in (node.alias, node.name):
                    return node
            near = difflib.get_close_matches(name, [*self._named, *(n.name for n in self._all)], 1)
            raise NoNode(f"no node is called `{name}`" + (f"; the nearest is `{near[0]}`" if near else ""))
        if len(lives) == 1:
            return lives[0]
        states = self.states()
        started = [node for node in lives if states[node] != "not started"]
        alive = [node for node in started if states[node] == "alive"]
        if not started:
            raise NodeNotStarted(f"{name} has not started yet", node=lives[0])
        return (alive or started)[-1]

    def parse(self, text: str, every: bool = False) -> tuple[Node, ...]:
        """The nodes of a node list: "4,5", "0-9,!3", "redis-*", names, "NAME#2", "all", "." (the selected node). With `every`, a name or
        pattern includes all restarts (for stop points, which follow a name), otherwise only nodes alive now."""
        items = [item.strip() for item in text.split(",")]
        if not all(items):
            raise UsageError(f"empty item in the node list `{text}`")
        chosen: set[Node] = set()
        if items[0].startswith("!"):
            chosen.update(self._group("*", every))
        for item in items:
            if item.startswith("!"):
                chosen.difference_update(self._item(item[1:], True))
            else:
                chosen.update(self._item(item, every))
        if not chosen:
            raise NoNode(f"the node list `{text}` names no node")
        return tuple(sorted(chosen))

    def _item(self, item: str, every: bool) -> Collection[Node]:
        span = _RANGE.match(item)
        if span:
            first, last = min(self._by_id), max(self._by_id)
            low, high = int(span[1]), int(span[2])
            if missing := [f"{a}-{b}" if a < b else f"{a}" for a, b in ((low, min(high, first - 1)), (max(low, last + 1), high)) if a <= b]:
                raise NoNode(f"no node {' and '.join(missing)}, which `{item}` names; the recording has nodes {first} to {last}")
            return [node for node in self._all if int(span[1]) <= node <= int(span[2])]
        if item == "all":
            return self._group("*", every)
        if any(mark in item for mark in "*?["):
            return self._group(item, every)
        if every and item in self._named:
            return self._named[item]
        return [self[item]]

    def _group(self, pattern: str, every: bool) -> list[Node]:
        states = self.states()
        return [node for node in self._all if (every or states[node] == "alive")
                and any(fnmatch.fnmatchcase(name, pattern)
                        for name in {node.name, base_name(node.name), node.alias, base_name(node.alias)} if name)]


class NodeMap:
    """The mapping NAME that `map NAME EXPR` makes: `NAME[key]` is the node with that identifier of the application.

    EXPR is evaluated at each look-up. It is a mapping from identifiers to nodes, or from nodes (such as `__NODE__`) to identifiers, or it
    contains a bare `@()` and is evaluated on each node alive (if none is alive, on each that has ended) to get its identifier."""

    def __init__(self, session: "Session", name: str, code: CodeType, expression: str = "") -> None:
        self._session = session
        self._name = name
        self._code = code
        self.expression = expression

    def __getitem__(self, key: Any) -> Node:
        session = self._session
        here = session.here
        try:
            for node in session.all_nodes or session.nodes.all:
                session.here = int(node)
                try:
                    value = eval(self._code, session.namespace)
                except (NodeNotStarted, NoSymbol, OutOfScope, BadAddress):
                    continue  # the node runs another program, or the expression cannot be read yet
                if isinstance(value, Mapping):
                    return self._look_up(value, key)
                if value == key:
                    return node
        finally:
            session.here = here
        raise NoNode(f"no node has {self._name}[{key!r}]")

    def _look_up(self, mapping: Mapping[Any, Any], key: Any) -> Node:
        if any(isinstance(node, Node) for node in mapping):
            for node, identifier in mapping.items():
                if identifier == key:
                    return self._session.nodes[node]
        elif key in mapping:
            return self._session.nodes[mapping[key]]
        raise NoNode(f"no node has {self._name}[{key!r}]")
