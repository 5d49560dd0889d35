"""friday run predicates/leader.py REC -- --term EXPR --leads EXPR: each term has at most one leader.

Election safety (Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014, section 5.2):
at most one node ever leads in a given term, even if two do so at different times. Give the program's own expressions for the
term (it may be called epoch, view or ballot there) and for whether the node leads:

    friday run predicates/leader.py REC -- --term raft.term --leads raft.role --leader LEADER
"""

from __future__ import annotations

from typing import Any, Hashable, Iterable

from predicates.check import Check, Expression, Fault, Row, main, name_of
from predicates.quorum import members_of

import friday


class OneLeader(Check):
    """Each term has at most one leader in a group.

    term: the node's current term, any hashable value. leads: true while the node considers itself the leader of that term.
    If `leader` is given, the node leads while the value of `leads` prints as `leader`: an enumerator's name, a number or a
    text. members: who are the members of the group in the node's view, a bit mask or a collection, for groups that nodes join and leave:
    two leaders of one term are a fault only if their groups have a member in common, so that a node which has not joined yet may
    lead a group of its own. A node that is restarted under its name counts as the same candidate. The other options are those of Check. A fault
    never heals. Evidence: the term, both leaders, and when the first of them was first seen leading. `leaders` has for each
    term the first leader, and when it was first seen."""

    name = "one_leader"

    def __init__(self, session: friday.Session, *, term: Expression, leads: Expression, leader: str | None = None, members: Expression | None = None,
                 **options: Any) -> None:
        self._leader = leader
        super().__init__(session, {"term": term, "leads": leads, "members": members}, follow=[term, leads], **options)

    def reset(self) -> None:
        self.leaders: dict[object, tuple[friday.Node, str]] = {}
        self._groups: dict[object, dict[frozenset[Hashable] | None, tuple[friday.Node, str]]] = {}  # the first leader of each group, by term

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        if not row["leads"] if self._leader is None else str(row["leads"]) != self._leader:
            return
        term = row["term"]
        group = members_of(row["members"]) if "members" in row else None
        self.leaders.setdefault(term, (node, self.here()))
        groups = self._groups.setdefault(term, {})
        groups.setdefault(group, (node, self.here()))
        for other, (first, when) in groups.items():
            if name_of(first) == name_of(node) or group is not None and other is not None and not group & other:
                continue
            yield Fault((term, name_of(node)), f"{node.name} leads in term {term}, and {first.name} has led in it since {when}",
                        (node, first), {"term": term, "leaders": [first.name, node.name], "first": when} | ({"members": [sorted(other), sorted(group)]} if group is not None else {}))
            return


if __name__ == "__main__":
    main(OneLeader)
