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
    those of Check. A fault never heals. At a hit only newly committed entries are compared, at the end of the recording all of
    them. Evidence: the index, both entries, and when the first of them was committed."""

    name = "log_prefix"

    def __init__(self, session: friday.Session, *, log: Expression, committed: Expression, entry: str = "",
                 base: Expression | None = None, **options: Any) -> None:
        self._log, self._entry = items(log), entry
        super().__init__(session, {"committed": committed, "base": base}, follow=[committed], **options)

    def reset(self) -> None:
        self._known: dict[int, tuple[Any, friday.Node, str]] = {}
        self._seen: dict[friday.Node, int] = {}

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        yield from self._compare(node, row, self._seen.get(node, 0))
        self._seen[node] = row["committed"]

    def finish(self) -> None:
        for node, row in list(self.rows.items()):
            for fault in self._compare(node, row, 0):
                self.report(fault)
        super().finish()

    def _compare(self, node: friday.Node, row: Row, first: int) -> Iterable[Fault]:
        committed, base = row["committed"], row.get("base") or 0
        if committed <= first:
            return
        log = self._log(node)
        for index in range(max(first, base), committed):
            if index - base >= len(log):
                yield Fault((node, "short"), f"{node.name} has committed {committed} entries, but its log ends before entry {base + len(log)}",
                            (node,), {"committed": committed, "length": len(log)})
                return
            entry = fields(log[index - base], self._entry)
            known, other, when = self._known.setdefault(index, (entry, node, self.here()))
            if entry != known:
                yield Fault((index, node), f"{node.name} has committed {entry} as entry {index}, but {other.name} had committed {known} there",
                            (node, other), {"index": index, "entry": entry, "first": known, "committed_at": when})
                return


if __name__ == "__main__":
    main(LogPrefix)
