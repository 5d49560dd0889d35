"""friday run predicates/decided_quorums.py REC -- --at LOC --decision EXPR --voters EXPR: decisions have a voter in common.

What quorum.py asks of configurations, asked of the votes by which decisions were really taken.

    friday run predicates/decided_quorums.py REC -- --at lead --decision self.term --voters self.votes
"""

from __future__ import annotations

from typing import Any, Hashable, Iterable

from predicates.check import Check, Expression, Fault, Row, main
from predicates.quorum import members_of

import friday


class DecidedQuorums(Check):
    """The quorums by which decisions were really taken meet each other.

    at: where a node takes a decision. decision: what tells it from others (slot, term). voters: who voted for it, as
    `members` of QuorumIntersection. same: only compare quorums for one decision, not of all. The fault never heals.
    Evidence: both decisions with their voters."""

    name = "decided_quorums"
    of_states = False

    def __init__(self, session: friday.Session, *, at: str, decision: Expression, voters: Expression, same: bool = False, **options: Any) -> None:
        self._same = same
        super().__init__(session, {"decision": decision, "voters": voters}, at=at, **options)

    def reset(self) -> None:
        self._decided: dict[tuple[Any, frozenset[Hashable]], tuple[friday.Node, str]] = {}

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        decision, voters = row["decision"], members_of(row["voters"])
        for (earlier, others), (other, when) in self._decided.items():
            if not voters & others and (earlier == decision or not self._same):
                yield Fault((decision, voters, earlier, others),
                            f"{node.name} decided {decision} by {sorted(voters)}, and {other.name} {earlier} by {sorted(others)}: no common node",
                            (node, other), {"decision": decision, "voters": sorted(voters), "earlier": earlier, "earlier_voters": sorted(others), "earlier_at": when})
        self._decided.setdefault((decision, voters), (node, self.here()))


if __name__ == "__main__":
    main(DecidedQuorums)
