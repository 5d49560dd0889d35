"""friday run predicates/decided_quorums.py REC -- --at LOC --decision EXPR --voters EXPR: any two decisions have a voter in common.

quorum.py checks the configurations by which nodes may decide; this predicate checks the votes by which they did decide.

    friday run predicates/decided_quorums.py REC -- --at lead --decision self.term --voters self.votes
"""

from __future__ import annotations

from typing import Any, Hashable, Iterable

from predicates.check import Check, Expression, Fault, Row, main
from predicates.quorum import members_of

import friday


Voters = frozenset[Hashable]


class Quorums:
    """Sets of voters, and which of those seen so far have nobody in common with a new one. Only a set that may be disjoint is looked at:
    two of which each has more than half of all voters never are, so that a long recording of majorities takes one comparison a decision
    or none. Of the others only the smallest are kept: what is disjoint from a set is disjoint from its subsets."""

    def __init__(self) -> None:
        self._voters: set[Hashable] = set()
        self._small: dict[int, dict[Voters, Any]] = {}  # by size
        self._found: dict[Voters, Any] = {}  # what was added first with a set
        self.comparisons = 0

    def missing(self, voters: Voters) -> "tuple[Voters, Any] | None":
        """A set that was added and has no member in common with this one, and what was added with it; None if there is none."""
        self._voters |= voters
        for size in sorted(self._small):
            if size + len(voters) > len(self._voters):
                break
            for other, what in self._small[size].items():
                self.comparisons += 1
                if not voters & other:
                    return other, what
        return None

    def add(self, voters: Voters, what: Any) -> None:
        self._voters |= voters
        if voters in self._found:
            return
        self._found[voters] = what
        for size, others in self._small.items():
            if size < len(voters) and 2 * len(voters) <= len(self._voters):
                for other in others:
                    self.comparisons += 1
                    if other < voters:
                        return
        self._small.setdefault(len(voters), {})[voters] = what


class DecidedQuorums(Check):
    """Any two quorums by which decisions were taken have a voter in common.

    at: a place in the code where a node takes a decision. decision: what identifies the decision (a slot, a term). voters: who
    voted for it, as a bit mask or a collection of identifiers. same: compare only quorums for the same decision. members: who are the
    members of the group in the view of the node that decides, in the form of voters, for groups that nodes join and leave: then a
    decision needs the votes of more than half of its members, and is compared with those by the same members and with those by the
    members right before. The other options are those of Check. A fault never heals. Each decision is reported once.
    Evidence: both decisions with their voters."""

    name = "decided_quorums"
    of_states = False

    def __init__(self, session: friday.Session, *, at: str, decision: Expression, voters: Expression, same: bool = False, members: Expression | None = None,
                 **options: Any) -> None:
        self._same = same
        super().__init__(session, {"decision": decision, "voters": voters, "members": members}, at=at, **options)

    def reset(self) -> None:
        self.comparisons = 0
        self._members: Voters | None = None
        self._quorums: list[dict[Any, Quorums]] = [{}]  # by the decision where only those for the same one count; of the present members, and of those before

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        decision, voters = row["decision"], members_of(row["voters"])
        if "members" in row:
            members = members_of(row["members"])
            if members != self._members:
                self._members, self._quorums = members, [{}, self._quorums[0]]
            if 2 * len(voters & members) <= len(members):
                yield Fault((decision, voters, members), f"{node.name} decided {decision} with the votes of {sorted(voters)}, no majority of its members {sorted(members)}",
                            (node,), {"decision": decision, "voters": sorted(voters), "members": sorted(members)})
        key = decision if self._same else None
        for quorums in [found[key] for found in self._quorums if key in found]:
            before = quorums.comparisons
            missing = quorums.missing(voters)
            self.comparisons += quorums.comparisons - before
            if missing is not None:
                others, (earlier, other, when) = missing
                yield Fault((decision, voters),
                            f"{node.name} decided {decision} with the votes of {sorted(voters)}, and {other.name} decided {earlier} with those of {sorted(others)}: no node voted for both",
                            (node, other), {"decision": decision, "voters": sorted(voters), "earlier": earlier, "earlier_voters": sorted(others), "earlier_at": when})
        self._quorums[0].setdefault(key, Quorums()).add(voters, (decision, node, self.here()))


if __name__ == "__main__":
    main(DecidedQuorums)
