"""friday run predicates/quorum.py REC -- --members EXPR --needed EXPR: any two quorums have a node in common.

Majorities and all other quorum systems rely on this property (Gifford, "Weighted Voting for Replicated Data", SOSP 1979;
Lamport, "The Part-Time Parliament", TOCS 1998, condition B2). It is broken when nodes disagree about who is a member: two
groups of nodes can then decide without each other.

    friday run predicates/quorum.py REC -- --members conf.members --needed 'conf.size / 2 + 1' --lasting 1
"""

from __future__ import annotations

import itertools
from typing import Any, Collection, Hashable, Iterable

from predicates.check import Check, Expression, Fault, Row, main
from predicates.names import fields, items

import friday


def can_miss(a: Collection[Hashable], needed_a: int, b: Collection[Hashable], needed_b: int) -> bool:
    """Whether `needed_a` members of `a` and `needed_b` members of `b` can be chosen that have no member in common.

    >>> can_miss("abc", 2, "abc", 2), can_miss("abc", 2, "cde", 2), can_miss("abcd", 2, "abcd", 3)
    (False, True, False)
    """
    a, b = set(a), set(b)
    if needed_a > len(a) or needed_b > len(b):
        return False  # one of the quorums cannot be reached
    from_both = max(0, needed_a - len(a - b)) + max(0, needed_b - len(b - a))
    return from_both <= len(a & b)


def members_of(value: Any) -> frozenset[Hashable]:
    """The members in a bit mask, as the numbers of the bits that are set, or in a collection."""
    if isinstance(value, int):
        return frozenset(bit for bit in range(int(value).bit_length()) if value >> bit & 1)
    return frozenset(value)


class QuorumIntersection(Check):
    """Any quorum that one node would accept has a member in common with any quorum that another node would accept.

    members: the voters that the node knows: a bit mask, or a collection (names.py has the forms) whose elements, or their
    field `member`, are identifiers. needed: how many votes the node requires. The other options are those of Check. Faults
    can heal, so judges apply: some protocols allow a short overlap while the configuration changes. Evidence: the
    configurations of all nodes."""

    name = "quorum_intersection"
    of_rows = True

    def __init__(self, session: friday.Session, *, members: Expression, needed: Expression, member: str = "", **options: Any) -> None:
        self._member = member
        mask = isinstance(members, str) and ".." not in members and "[:" not in members
        whole = items(members) if not mask else members
        super().__init__(session, {"members": whole, "needed": needed}, follow=[members, needed], **options)

    def faults(self) -> Iterable[Fault]:
        kinds: dict[tuple[frozenset[Hashable], int], list[friday.Node]] = {}
        for node, row in self.rows.items():
            kinds.setdefault((self._members(row), int(row["needed"])), []).append(node)
        for (a, needed_a), (b, needed_b) in itertools.combinations_with_replacement(kinds, 2):
            if can_miss(a, needed_a, b, needed_b):
                first, second = kinds[a, needed_a][0], kinds[b, needed_b][-1]
                text = f"{needed_a} of {sorted(a)} ({first.name}) and {needed_b} of {sorted(b)} ({second.name}) can decide without a common member"
                yield Fault(frozenset({(a, needed_a), (b, needed_b)}), text, tuple(dict.fromkeys((first, second))), {
                    "configurations": {node.name: f"{needed} of {sorted(members)}" for (members, needed), found in kinds.items() for node in found}})

    def _members(self, row: Row) -> frozenset[Hashable]:
        value = row["members"]
        return members_of(value) if isinstance(value, int) else members_of(fields(element, self._member) for element in value)


if __name__ == "__main__":
    main(QuorumIntersection)
