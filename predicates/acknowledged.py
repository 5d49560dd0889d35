"""friday run predicates/acknowledged.py REC -- --at LOC --index EXPR --by EXPR --log EXPR --id EXPR: no acknowledged entry is ever lost.

A replicated log may tell a client that an entry is stored when enough members hold it, and then every later leader must have it (leader
completeness: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014, section 5.4.3). The predicate looks
at the logs of the members themselves, at the consistent cut at which somebody counts them. So it finds an acknowledgement that was
counted and not given also in recordings in which nothing was lost, at the line that counts it.

    friday run predicates/acknowledged.py REC -- --at count_ack --index entry --by 1u<<peer --log raft.log --id raft.self --entry 'term, command'
"""

from __future__ import annotations

from typing import Any, Hashable, Iterable

from predicates.check import Check, Expression, Fault, main
from predicates.names import fields, items, read
from predicates.quorum import members_of

import friday


CUT_OFF = object()
"""Stands for an entry that a node has cut off at the front of its log: it had it."""


class Acknowledged(Check):
    """Whoever is counted for an entry holds it, and an acknowledged entry is never lost.

    log: the collection of entries of a node (names.py has the forms). entry: the fields of an entry that must agree, for example "term,
    command"; by default the whole entry. base: the index of the first entry that the log still holds; by default 0. id: the node's identifier
    among the members, by default its number in the recording.

    at: one or more places in the code where a node takes an entry for acknowledged. index: the index of the entry in its log. by: who is
    taken to hold it: a bit mask of identifiers, or a collection of them; each must hold what the node itself holds there. Without `by`
    more than half of the members must, as where a client is told that its entry is stored.

    members: who the members are in the view of that node, a bit mask or a collection of identifiers; by default all nodes that have a log. leads:
    true while a node considers itself the leader, or with `leader` the value that it has then; a node that begins to lead must hold all
    entries for which more than half of the members were counted. The other options are those of Check. A fault never heals. Evidence: what is missing where."""

    name = "acknowledged"
    of_states = False

    def __init__(self, session: friday.Session, *, at: str | list[str], index: Expression, log: Expression, by: Expression | None = None,
                 id: Expression | None = None, entry: str = "", base: Expression | None = None, members: Expression | None = None,
                 leads: Expression | None = None, leader: str | None = None, **options: Any) -> None:
        self._leader = leader
        self._index, self._by, self._id, self._members, self._base = index, by, id, members, base
        self._log, self._fields = items(log), entry
        super().__init__(session, {"leads": leads}, **({} if leads is not None else {"at": []}), **options)
        if options.get("armed", True):
            for place in [at] if isinstance(at, str) else at:
                session.breakpoint(place, self._counted, nodes=self.nodes)

    def reset(self) -> None:
        self.acknowledged: dict[int, tuple[Any, friday.Node, str]] = {}  # the entry at each index that a majority was counted for, who counted, and when
        self._order: list[int] = []  # its keys, in order of time
        self.counts = self.wrong = 0
        self._ids: dict[friday.Node, Hashable] = {}
        self._voters: dict[int, tuple[Any, set[Hashable]]] = {}  # who was counted for an entry, until it is acknowledged
        self._led: dict[friday.Node, int] = {}  # how many acknowledged entries a leader was seen to hold

    # -- counting ------------------------------------------------------------------------------------------------------
    def _counted(self) -> None:
        if not self.judging():
            return
        self.look(counts=True)
        node = self.session.node
        self.counts += 1
        index = int(read(node, self._index))
        mine = self._entry_at(node, index)
        if mine is CUT_OFF:
            return
        if mine is None:
            self._tell_wrong(node, index, mine, [], f"{node.name} takes entry {index} for acknowledged, and {self._what_instead(node, index)}")
            return
        voters = None if self._by is None else members_of(read(node, self._by))
        holders, lacking = [], []
        for id, member in self._nodes_of(node, voters):
            (holders if member is not None and self._entry_at(member, index) in (mine, CUT_OFF) else lacking).append((id, member))
        if voters is None and 2 * len(holders) <= len(holders) + len(lacking):
            self._tell_wrong(node, index, mine, lacking, f"{node.name} takes entry {index} for acknowledged, and of {len(holders) + len(lacking)} members only "
                                                         f"{', '.join(self._name(id, member) for id, member in holders)} hold it")
        elif voters is not None and lacking:
            self._tell_wrong(node, index, mine, lacking, f"{node.name} counts {', '.join(self._name(id, member) for id, member in lacking)} for entry {index}, "
                                                         f"and {self._what_instead(lacking[0][1], index)}")
        self._note_acknowledged(node, index, mine, voters)

    def _note_acknowledged(self, node: friday.Node, index: int, mine: Any, voters: frozenset[Hashable] | None) -> None:
        """Remembers the entry when more than half of the members were counted for it, rightly or not: a client may have been told."""
        if voters is not None:
            entry, counted = self._voters.setdefault(index, (mine, {self._id_of(node)}))
            if entry != mine:
                entry, counted = self._voters[index] = mine, {self._id_of(node)}
            counted |= voters
            members = {id for id, _ in self._nodes_of(node, None)}
            if 2 * len(counted & members) <= len(members):
                return
            del self._voters[index]
        if index not in self.acknowledged:
            self.acknowledged[index] = mine, node, self.here()
            self._order.append(index)

    def _tell_wrong(self, node: friday.Node, index: int, mine: Any, lacking: list[tuple[Hashable, friday.Node | None]], message: str) -> None:
        self.wrong += 1
        nodes = tuple(dict.fromkeys([node, *(member for _, member in lacking if member is not None)]))
        held = {self._name(id, member): self._shown(member, index) for id, member in lacking}
        self.report(Fault(("counted", self.wrong), message, nodes, {"index": index, "entry": mine, "instead": held}))

    # -- leading -------------------------------------------------------------------------------------------------------
    def changed(self, node: friday.Node, row: dict[str, Any]) -> Iterable[Fault]:
        """A node that leads must hold what was acknowledged. What it held when it began to lead before is not looked at again."""
        if "leads" not in row or not (row["leads"] if self._leader is None else str(row["leads"]) == self._leader):
            return
        done = self._led.get(node, 0)
        self._led[node] = len(self._order)
        for index in self._order[done:]:
            entry, first, when = self.acknowledged[index]
            if first is not node and self._entry_at(node, index) not in (entry, CUT_OFF):
                yield Fault(("lost", index, node), f"{node.name} leads without entry {index}, which {first.name} took for acknowledged: {self._what_instead(node, index)}",
                            (node, first), {"index": index, "entry": entry, "instead": self._shown(node, index), "acknowledged_at": when})

    # -- the logs ------------------------------------------------------------------------------------------------------
    def _entry_at(self, node: friday.Node, index: int) -> Any:
        """The entry of a node at an index; None if its log ends before, CUT_OFF if the log begins behind it."""
        log, base = self._log(node), int(read(node, self._base)) if self._base is not None else 0
        if index < base:
            return CUT_OFF
        return fields(log[index - base], self._fields) if index - base < len(log) else None

    def _what_instead(self, member: friday.Node | None, index: int) -> str:
        if member is None:
            return "no node that lives has this identifier"
        entry = self._entry_at(member, index)
        return f"the log of {member.name} ends before entry {len(self._log(member))}" if entry is None else f"{member.name} holds {entry} there"

    def _shown(self, member: friday.Node | None, index: int) -> Any:
        return None if member is None else self._entry_at(member, index)

    # -- who is who ------------------------------------------------------------------------------------------------------
    def _id_of(self, node: friday.Node) -> Hashable:
        """None as long as the node does not have its identifier yet."""
        if self._ids.get(node) is None:
            self._ids[node] = int(node) if self._id is None else read(node, self._id)
        return self._ids[node]

    def _alive(self) -> dict[Hashable, friday.Node]:
        found: dict[Hashable, friday.Node] = {}
        for each in self.session.all_nodes if self.nodes is None else set(self.session.all_nodes) & set(self.session.choose(self.nodes)):
            try:
                found[self._id_of(each)] = each
            except friday.NoSymbol:
                continue  # it runs another program
        found.pop(None, None)
        return found

    def _nodes_of(self, node: friday.Node, voters: frozenset[Hashable] | None) -> list[tuple[Hashable, friday.Node | None]]:
        """The identifiers of voters, or of the members in the view of the node, with the nodes that live."""
        alive = self._alive()
        if voters is None:
            voters = members_of(read(node, self._members)) if self._members is not None else frozenset(alive)
        if not voters <= alive.keys():
            self._ids.clear()  # what was read of a node that had just started may have been no identifier yet
            alive = self._alive()
        return [(id, alive.get(id)) for id in sorted(voters, key=str)]

    def _name(self, id: Hashable, member: friday.Node | None) -> str:
        return member.name if member is not None else f"member {id}"

    def summary(self) -> str:
        return f"{self.name}: {self.wrong} of {self.counts} acknowledgements were wrong, {len(self.acknowledged)} entries acknowledged, {len(self.reported) - self.wrong} lost{self.judged_until()}"


if __name__ == "__main__":
    main(Acknowledged)
