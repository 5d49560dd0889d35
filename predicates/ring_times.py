"""friday run predicates/ring_times.py REC -- --id EXPR --successor EXPR --predecessor EXPR: for how long a ring is inconsistent.

"Friday", section 4.1.4: a node's place in the ring is consistent when the predecessor of its successor and the successor of its
predecessor are the node itself. During joins and deaths it is not, so what matters is for how much of the time. With `--share
0.95` it is a violation if all places are consistent for less than 95 % of the time, with `--lasting 2` if a place is
inconsistent for longer than 2 s; `--summary` prints the times.
"""

from __future__ import annotations

from typing import Any, Iterable

from predicates.check import Check, Expression, Fault, Row, main
from predicates.timing import TimeInState

import friday


class RingTimes(Check):
    """Neighbours in a ring link to each other.

    id: the node's identifier. successor, predecessor: the identifiers of its neighbours; None, or a null pointer on the way, while
    there is none. A node without a successor is not checked. The other options are those of Check. Faults can heal, so judges
    apply. Evidence: the node's links; the message names the neighbours that disagree. `by_node` has each node's times in the
    states "holds" and "broken"."""

    name = "ring_times"
    of_rows = True
    optional = frozenset({"successor", "predecessor"})

    def __init__(self, session: friday.Session, *, id: Expression = "srv.node.id", successor: Expression = "srv.successor->id",
                 predecessor: Expression = "srv.predecessor->id", **options: Any) -> None:
        super().__init__(session, {"id": id, "successor": successor, "predecessor": predecessor}, **options)

    def reset(self) -> None:
        self.by_node: dict[friday.Node, TimeInState] = {}

    def faults(self) -> Iterable[Fault]:
        by_id = {row["id"]: row for row in self.rows.values()}
        broken: dict[friday.Node, list[str]] = {}
        for node, row in self.rows.items():
            wrong = [self._wrong(row, by_id, link, back) for link, back in (("successor", "predecessor"), ("predecessor", "successor"))]
            if row["successor"] is not None and any(wrong):
                broken[node] = [text for text in wrong if text]
        now = self.now()
        for node in self.rows:
            self.by_node.setdefault(node, TimeInState()).enter("broken" if node in broken else "holds", now)
        for node in self.by_node.keys() - self.rows.keys():
            self.by_node[node].leave(now)
        for node, wrong in broken.items():
            yield Fault(node, f"{node.name}: {'; '.join(wrong)}", (node,), {"links": dict(self.rows[node])})

    def _wrong(self, row: Row, by_id: dict[Any, Row], link: str, back: str) -> str | None:
        value = row[link]
        if value is None:
            return f"it has no {link}"
        other = by_id.get(value)
        if other is None:
            return f"its {link} {_hex(value)} is not a live node"
        if other[back] != row["id"]:
            return f"its {link} {_hex(value)} has {_hex(other[back])} as its {back}"
        return None

    def finish(self) -> None:
        for times in self.by_node.values():
            times.finish(max(self.now(), times.began or 0.0))
        super().finish()

    def summary(self) -> str:
        nodes = [f"  {node.name}: consistent for {times.share('holds'):.1%}, {times.changes} changes, longest inconsistency "
                 f"{_length(times.longest('broken')):.3f} s" for node, times in self.by_node.items()]
        return "\n".join([super().summary(), *nodes])


def _hex(id: Any) -> str:
    return f"{int(id):#x}" if isinstance(id, int) else str(id)


def _length(span: tuple[float, float] | None) -> float:
    return span[1] - span[0] if span else 0.0


if __name__ == "__main__":
    main(RingTimes)
