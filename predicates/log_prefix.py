"""friday run predicates/log_prefix.py REC -- --log EXPR --committed EXPR: committed logs agree.

State machine safety ("In Search of an Understandable Consensus Algorithm", section 5.4.3; the agreement of any replicated log):
if one node has committed an entry at an index, no node ever commits another there, and what is committed never changes.

    friday run predicates/log_prefix.py REC -- --log raft.log --committed raft.commit_index --entry 'term, command'
"""

from __future__ import annotations

from typing import Any, Iterable

from predicates.check import Check, Expression, Fault, Row, main
from predicates.names import fields, items

import friday


class LogPrefix(Check):
    """The committed prefixes of all logs are equal as far as both reach.

    log: the collection of entries (names.py has the forms). committed: how many of its first entries are committed. entry:
    the fields of an entry that must agree, "term, command"; the whole entry by default. base: the index of the log's first entry, for
    logs that were cut off at the front; 0 by default. The rest as Check; the fault never heals.
    Only entries that a node commits anew are compared at each hit, all of them when the recording ends. Evidence: the index,
    both entries, and who committed the first one when."""

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
                yield Fault((node, "short"), f"{node.name} has committed {committed} entries, and its log holds {base} to {base + len(log)}",
                            (node,), {"committed": committed, "length": len(log)})
                return
            entry = fields(log[index - base], self._entry)
            known, other, when = self._known.setdefault(index, (entry, node, self.here()))
            if entry != known:
                yield Fault((index, node), f"{node.name} has committed {entry} as entry {index}, and {other.name} {known}",
                            (node, other), {"index": index, "entry": entry, "first": known, "committed_at": when})
                return


if __name__ == "__main__":
    main(LogPrefix)
