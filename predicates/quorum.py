"""friday run predicates/quorum.py REC -- --members EXPR --needed EXPR: any two quorums have a node in common.

Majorities and all other quorum systems rely on this property (Gifford, "Weighted Voting for Replicated Data", SOSP 1979;
Lamport, "The Part-Time Parliament", TOCS 1998, condition B2). It is broken when nodes disagree about who is a member: two
groups of nodes can then decide without each other.

    friday run predicates/quorum.py REC -- --members conf.members --needed 'conf.size / 2 + 1' --lasting 1
"""

from __future__ import annotations

from typing import Any, Collection, Hashable, Iterable

from predicates.check import Check, Expression, Fault, Row, main
from predicates.names import fields, items, read

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


Kind = tuple[frozenset[Hashable], int]
"""A configuration: the members, and how many of them are needed."""


class QuorumIntersection(Check):
    """Any quorum that one node would accept has a member in common with any quorum that another node would accept.

    members: the voters that the node knows: a bit mask, or a collection (names.py has the forms) whose elements, or their
    field `member`, are identifiers. needed: how many votes the node requires, by default more than half of its members. The other
    options are those of Check. Faults can heal, so judges apply: some protocols allow a short overlap while the configuration
    changes. Evidence: the configurations of all nodes."""

    name = "quorum_intersection"
    of_rows = True

    def __init__(self, session: friday.Session, *, members: Expression, needed: Expression | None = None, member: str = "", **options: Any) -> None:
        self._member = member
        mask = isinstance(members, str) and ".." not in members and "[:" not in members
        whole = members if mask else items(members)
        super().__init__(session, {"members": lambda node: self._members(read(node, whole)), "needed": needed}, follow=[members, needed], **options)

    def reset(self) -> None:
        self.comparisons = 0
        self._kinds: set[Kind] = set()
        self._missing: list[tuple[Kind, Kind]] = []  # those of them that can decide without each other

    def faults(self) -> Iterable[Fault]:
        kinds: dict[Kind, list[friday.Node]] = {}
        for node, row in self.rows.items():
            kinds.setdefault(self._kind(row), []).append(node)
        self._compare(kinds)
        configurations = {node.name: f"{needed} of {sorted(members)}" for (members, needed), found in kinds.items() for node in found} if self._missing else {}
        for one, two in self._missing:
            first, second = kinds[one][0], kinds[two][-1]
            text = f"{one[1]} of {sorted(one[0])} ({first.name}) and {two[1]} of {sorted(two[0])} ({second.name}) can decide without a common member"
            yield Fault(frozenset({one, two}), text, tuple(dict.fromkeys((first, second))), {"configurations": configurations})

    def _compare(self, kinds: Collection[Kind]) -> None:
        """Compares configurations that are new with all others, and forgets those that nobody has any more."""
        self._kinds &= set(kinds)
        self._missing = [pair for pair in self._missing if self._kinds.issuperset(pair)]
        for kind in kinds:
            if kind not in self._kinds:
                self._kinds.add(kind)
                self.comparisons += len(self._kinds)
                self._missing += [(other, kind) for other in kinds if other in self._kinds and can_miss(*other, *kind)]

    def _kind(self, row: Row) -> Kind:
        members = row["members"]
        return members, int(row["needed"]) if "needed" in row else len(members) // 2 + 1

    def _members(self, value: Any) -> frozenset[Hashable] | None:
        if value is None or isinstance(value, int):
            return None if value is None else members_of(value)
        return members_of(fields(element, self._member) for element in value)


if __name__ == "__main__":
    main(QuorumIntersection)
