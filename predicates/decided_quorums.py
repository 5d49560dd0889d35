"""friday run predicates/decided_quorums.py REC -- --at LOC --decision EXPR --voters EXPR: any two decisions have a voter in common.

quorum.py checks the configurations by which nodes may decide; this predicate checks the votes by which they did decide.

    friday run predicates/decided_quorums.py REC -- --at lead --decision self.term --voters self.votes
"""

from __future__ import annotations

from typing import Any, Hashable, Iterable

from predicates.check import Check, Expression, Fault, Row, main
from predicates.quorum import members_of

import friday


class DecidedQuorums(Check):
    """Any two quorums by which decisions were taken have a voter in common.

    at: a place in the code where a node takes a decision. decision: what identifies the decision (a slot, a term). voters: who
    voted for it, as a bit mask or a collection of identifiers. same: compare only quorums for the same decision. The other
    options are those of Check. A fault never heals. Evidence: both decisions with their voters."""

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
                            f"{node.name} decided {decision} with the votes of {sorted(voters)}, and {other.name} decided {earlier} with those of {sorted(others)}: no node voted for both",
                            (node, other), {"decision": decision, "voters": sorted(voters), "earlier": earlier, "earlier_voters": sorted(others), "earlier_at": when})
        self._decided.setdefault((decision, voters), (node, self.here()))


if __name__ == "__main__":
    main(DecidedQuorums)
