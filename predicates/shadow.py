"""Shadow state: values that a script keeps beside the program, so that it can later ask for what the program itself no longer has.

    from predicates.shadow import Shadow
    shadow = Shadow(friday.session, {"owner": "slots[77].owner"})
    ...
    shadow.values("owner")            what each live node holds now, without reading it again
    shadow.first("owner", 4)          the change by which each node first held 4: who learned of it when
    shadow.history(node, "owner")     all changes on a node, each with the message that the node had received last

`friday run predicates/shadow.py REC -- --write-at LOC --read-at LOC --key EXPR --value EXPR` checks that every read of a store
returns what was written last: the shadow is a copy of what the store should hold, updated at the writes and compared at the
reads.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Hashable, Iterable, Mapping

from predicates.check import Check, Expression, Fault, Row, main
from predicates.names import read

import friday


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of a value on a node. `time` is in seconds of logical time, `real_time` in seconds since 1970 on the node's clock.
    `old` is None at the first change. `message` is the message that the node had received last, None without one; `after`
    describes it in words."""

    node: friday.Node
    name: str
    old: Any
    new: Any
    time: float
    real_time: float
    message: friday.Message | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.time:.6f} s {self.node.name}: {self.name} {self.old} -> {self.new}" + (f", after {self.after}" if self.after else "")


def _key(value: Any) -> Hashable:
    """The value itself; its text for one that a function has made and that is not hashable, such as a list."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value  # type: ignore[no-any-return]


class Shadow(Check):
    """Remembers the values of some expressions on all nodes, with their history. It reports no faults.

    names: names of your choice and their expressions. keep: how many changes to remember over all nodes; `dropped` counts the
    further ones. The other options are those of Check."""

    name = "shadow"

    def __init__(self, session: friday.Session, names: Mapping[str, Expression], *, keep: int = 100_000, **options: Any) -> None:
        self._keep = keep
        super().__init__(session, names, **options)

    def reset(self) -> None:
        self.changes: list[Change] = []
        self.dropped = 0  # changes beyond `keep`
        self._last: dict[tuple[friday.Node, str], Any] = {}
        self._of: dict[tuple[friday.Node, str], list[Change]] = {}
        self._first: dict[tuple[str, Any], dict[friday.Node, Change]] = {}

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        for name, value in row.items():
            old = self._last.get((node, name))
            if value != old or (node, name) not in self._last:
                self._last[node, name] = value
                if len(self.changes) < self._keep:
                    change = Change(node, name, old, value, self.now(), self.session.real_time, self.session.last_message(), self.origin(stack=False)["after"])
                    self.changes.append(change)
                    self._of.setdefault((node, name), []).append(change)
                    self._first.setdefault((name, _key(value)), {}).setdefault(node, change)
                else:
                    self.dropped += 1
        return ()

    def values(self, name: str) -> dict[friday.Node, Any]:
        """The present value on each live node on which it has been read."""
        return {node: row[name] for node, row in self.rows.items() if node not in self.session.ended}

    def first(self, name: str, value: Any) -> dict[friday.Node, Change]:
        """For each node that ever had the value, the change by which it first got it, in order of time."""
        return dict(self._first.get((name, _key(value)), {}))

    def history(self, node: Any, name: str) -> list[Change]:
        """All changes of one value on a node, in order of time. `node`: anything that session.nodes[] accepts."""
        return list(self._of.get((self.session.nodes[node], name), ()))


class Reads(Check):
    """Every read of a store returns the value that was written last, whichever nodes served the write and the read.

    write_at, read_at: the places in the code where a write takes effect and where a read has its result. key, value:
    expressions for the key and the value of a write, in the frame of write_at. key_read, value_read: the expressions for
    both in the frame of read_at, if they differ there. fresh: seconds of logical time after a write in which a read may still
    return the value before it. unwritten: the text of what a read must return for a key that was never written; without it such
    reads are not checked. The other options are those of Check. Evidence: which node wrote the value that should have been
    read, when, and which node served the read."""

    name = "reads"
    of_states = False

    def __init__(self, session: friday.Session, *, write_at: str, read_at: str, key: Expression, value: Expression,
                 key_read: Expression | None = None, value_read: Expression | None = None, fresh: float = 0.0, unwritten: str | None = None,
                 **options: Any) -> None:
        self._fresh, self._unwritten = fresh, unwritten
        super().__init__(session, {}, **{**options, "at": options.get("at") or []})
        session.breakpoint(write_at, lambda: self._write(key, value), nodes=self.nodes)
        session.breakpoint(read_at, lambda: self._read(key_read or key, value_read or value), nodes=self.nodes)

    def reset(self) -> None:
        self.reads = self.wrong = 0
        self.written: dict[Hashable, tuple[Any, friday.Node, float, str]] = {}
        self._before: dict[Hashable, Any] = {}

    def _write(self, key: Expression, value: Expression) -> None:
        if not self.judging():
            return
        node = self.session.node
        name = read(node, key)
        if name in self.written:
            self._before[name] = self.written[name][0]
        self.written[name] = read(node, value), node, self.now(), self.here()
        self.look(counts=True)

    def _read(self, key: Expression, value: Expression) -> None:
        if not self.judging():
            return
        node = self.session.node
        name, found = read(node, key), read(node, value)
        self.reads += 1
        self.look(counts=True)
        if name not in self.written:
            if self._unwritten is not None and str(found) != self._unwritten:
                self._tell_wrong(f"{node.name} read {found} under the key {name}, which no node has written", (node,), key=name, read=found)
            return
        expected, writer, time, when = self.written[name]
        late = self.now() - time <= self._fresh and found == self._before.get(name)
        if found != expected and not late:
            self._tell_wrong(f"{node.name} read {found} under the key {name}, but {writer.name} had written {expected}", (node, writer),
                             key=name, read=found, written=expected, written_at=when)

    def _tell_wrong(self, message: str, nodes: tuple[friday.Node, ...], **values: Any) -> None:
        self.wrong += 1
        self.report(Fault(self.wrong, message, nodes, values))

    def summary(self) -> str:
        return f"{self.name}: {self.wrong} of {self.reads} reads were wrong{self.judged_until()}"


if __name__ == "__main__":
    main(Reads)
