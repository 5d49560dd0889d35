"""friday run predicates/log_prefix.py REC -- --log EXPR --committed EXPR: committed logs agree.

State machine safety (Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014, section
5.4.3), which any replicated log must have: once a node has committed an entry at an index, no node commits another entry
there, and a committed entry never changes.

    friday run predicates/log_prefix.py REC -- --log raft.log --committed raft.commit_index --entry 'term, command'
"""

from __future__ import annotations

from typing import Any, Iterable

from predicates.check import Check, Expression, Fault, Row, main
from predicates.names import fields, items

import friday


class LogPrefix(Check):
    """Of any two logs, the committed entries agree up to the end of the shorter committed part.

    log: the collection of entries (names.py has the forms). committed: the index of the first entry that is not committed.
    entry: the fields of an entry that must agree, for example "term, command"; by default the whole entry. base: the index
    of the first entry that the log still holds, for logs that are truncated at the front; by default 0. The other options are
    those of Check. A fault never heals. Evidence: the index, both entries, and when the first of them was committed.

    At a hit only the entries are read that the node has committed since the last hit. All of its committed entries are compared
    again, and so a change or a loss of one is seen, when twice as many are committed as the last time, when the node leaves, and
    when the recording ends; `compared_at` is when an entry was last seen unchanged on that node. `skipped` counts entries that were cut
    off at the front before they were compared."""

    name = "log_prefix"

    def __init__(self, session: friday.Session, *, log: Expression, committed: Expression, entry: str = "",
                 base: Expression | None = None, **options: Any) -> None:
        self._log, self._entry = items(log), entry
        super().__init__(session, {"committed": committed, "base": base}, follow=[committed], **options)

    def reset(self) -> None:
        self.skipped = 0
        self._known: dict[int, tuple[Any, friday.Node, tuple[Any, int]]] = {}  # the entry, who committed it first, and when
        self._seen: dict[friday.Node, int] = {}  # the entries before this index have been compared
        self._whole: dict[friday.Node, tuple[int, str]] = {}  # how many were compared when all were, and when

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        done, _ = self._whole.get(node, (0, ""))
        whole = row["committed"] - (row.get("base") or 0) >= 2 * max(done, 1)
        yield from self._compare(node, row, 0 if whole else self._seen.get(node, 0))

    def last_look(self, node: friday.Node) -> None:
        if node in self.rows:
            for fault in self._compare(node, self.rows[node], 0):
                self.report(fault)

    def finish(self) -> None:
        for node in list(self.rows):
            self.last_look(node)
        super().finish()

    def _compare(self, node: friday.Node, row: Row, first: int) -> Iterable[Fault]:
        """Compares the committed entries from the index `first` on with what was committed first at their indexes."""
        committed, base = int(row["committed"]), int(row.get("base") or 0)
        seen = self._seen.get(node, 0)
        if first <= seen < base:
            self.skipped += base - seen
        first = max(first, base)
        if committed <= first:
            self._seen[node] = committed
            return
        log = self._log(node)
        last = min(committed, base + len(log))
        stamp = self.session.logical_time, self.session.backend.event(int(node))
        for index, element in enumerate(log[first - base:last - base], first):
            entry = fields(element, self._entry)
            known, other, when = self._known.setdefault(index, (entry, node, stamp))
            if entry != known:
                yield self._differs(node, index, entry, base)
        self._seen[node] = last
        if first == base:
            self._whole[node] = last - base, self.here()
        if last < committed:
            yield Fault((node, "short"), f"{node.name} has committed {committed} entries, but its log ends before entry {base + len(log)}",
                        (node,), {"committed": committed, "length": len(log)})

    def _differs(self, node: friday.Node, index: int, entry: Any, base: int) -> Fault:
        known, other, (time, event) = self._known[index]
        values = {"index": index, "entry": entry, "first": known, "committed_at": f"{time} s, event {event} of {other.name}"}
        compared, when = self._whole.get(node, (0, ""))
        if index < base + compared:
            values["compared_at"] = when
        return Fault((index, node), f"{node.name} has committed {entry} as entry {index}, but {other.name} had committed {known} there", (node, other), values)

    def summary(self) -> str:
        return super().summary() + (f"; {self.skipped} entries were cut off before they were compared" if self.skipped else "")


if __name__ == "__main__":
    main(LogPrefix)
