"""friday run predicates/leader.py REC -- --term EXPR --leads EXPR: at most one leader a term.

Election safety (Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014, section 5.2):
at most one node leads in a given term, whenever each of them held itself for the leader. What the term is called (epoch,
view, ballot) and how a program says that it leads is its own affair:

    friday run predicates/leader.py REC -- --term raft.term --leads raft.role --leader LEADER
"""

from __future__ import annotations

from typing import Any, Iterable

from predicates.check import Check, Expression, Fault, Row, main, name_of

import friday


class OneLeader(Check):
    """At most one leader a term.

    term: the node's current term, any hashable value. leads: true while the node holds itself for the leader of that term,
    or, when `leader` is given, a variable that has this value then: an enumerator's name, a number or a text.
    A node that is restarted under its name is the same candidate. The rest as Check; the fault never heals.
    Evidence: the term, both leaders, and when the first of them was seen. `leaders` has the first of each term, and when."""

    name = "one_leader"

    def __init__(self, session: friday.Session, *, term: Expression, leads: Expression, leader: str | None = None, **options: Any) -> None:
        self._leader = leader
        super().__init__(session, {"term": term, "leads": leads}, **options)

    def reset(self) -> None:
        self.leaders: dict[object, tuple[friday.Node, str]] = {}

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        if not row["leads"] if self._leader is None else str(row["leads"]) != self._leader:
            return
        term = row["term"]
        first, when = self.leaders.setdefault(term, (node, self.here()))
        if name_of(first) != name_of(node):
            yield Fault((term, name_of(node)), f"{node.name} leads in term {term}, and {first.name} has led in it since {when}",
                        (node, first), {"term": term, "leaders": [first.name, node.name], "first": when})


if __name__ == "__main__":
    main(OneLeader)
