"""friday run tests/e2e/servers/redis_cluster_check.py REC -- [--lasting SECONDS] [--slots SLOT,...]: a Redis 7.0 Cluster.

    slot_owners    all live nodes agree on the owner of each slot, but for at most so many seconds in a row
    one_primary    each shard, the slots that a primary serves together, has one primary an epoch
    learned        when each node learned that a slot has another owner, and from which message

A node's view is whole where it saves its configuration, which it does after each change and before it tells anyone.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import struct
import sys
from typing import Any, Iterable, Iterator

from predicates.check import Check, Fault, Row, name_of, read
from predicates.leader import OneLeader
from predicates.shadow import Change, Shadow
from predicates.timing import Lasting

import friday

CLUSTER = "((struct redisServer*)&server)->cluster"  # without debug information `server` has an address and no type
SAVES = "clusterSaveConfig"
MASTER = 1  # CLUSTER_NODE_MASTER
NOBODY = ""
SLOTS = 16384
PACKETS = ("ping", "pong", "meet", "fail", "publish", "auth-req", "auth-ack", "update", "mfstart", "module", "publishshard")
HEADER = struct.Struct(">4sIHHHHQQQ40s")  # of a message of the bus, as far as it is wanted here

Run = tuple[int, int, str]  # first slot, last slot, id of their owner


def id_at(node: friday.Node, pointer: int) -> str:
    """The id of a clusterNode of a node."""
    return node.read(f"((struct clusterNode*){int(pointer):#x})->name") if pointer else NOBODY


def my_id(node: friday.Node) -> str:
    return node.read(f"{CLUSTER}->myself->name")


def owners(node: friday.Node) -> tuple[Run, ...]:
    """Who owns which slots as a node sees it; all slots are in it."""
    found, first = [], 0
    for pointer, slots in itertools.groupby(memoryview(node.read(f"{CLUSTER}->slots").bytes).cast("Q")):
        length = sum(1 for _ in slots)
        found.append((first, first + length - 1, id_at(node, pointer)))
        first += length
    return tuple(found)


def own_slots(node: friday.Node) -> tuple[tuple[int, int], ...]:
    """The slots that a node serves for its own by its own view."""
    me = my_id(node)
    return tuple((first, last) for first, last, owner in owners(node) if owner == me)


def spelled(slots: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{first}-{last}" for first, last in slots)


class SlotOwners(Check):
    """All live nodes agree on the owner of each slot. Evidence: who says what of which slots."""

    name = "slot_owners"
    of_rows = True

    def __init__(self, session: friday.Session, **options: Any) -> None:
        super().__init__(session, {"me": my_id, "owners": owners}, **options)

    def reset(self) -> None:
        self.members: dict[str, str] = {NOBODY: "nobody"}  # id: the name of the node, of those that have ended too

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        self.members[row["me"]] = name_of(node)
        return ()

    def faults(self) -> Iterable[Fault]:
        said = list(self.disputed())
        if said:
            yield Fault("slots", f"nodes disagree about slots {spelled(slots for slots, _ in said)}", tuple(self.rows),
                        {f"slots {spelled([slots])}": views for slots, views in said})

    def disputed(self) -> Iterator[tuple[tuple[int, int], dict[str, list[str]]]]:
        """The slots, first and last, about which the nodes disagree, and the nodes by whom they say is the owner."""
        borders = sorted({first for row in self.rows.values() for first, _, _ in row["owners"]}) + [SLOTS]
        for first, after in itertools.pairwise(borders):
            views: dict[str, list[str]] = {}
            for node, row in self.rows.items():
                owner = next(owner for low, high, owner in row["owners"] if low <= first <= high)
                views.setdefault(self.members.get(owner, owner), []).append(node.name)
            if len(views) > 1:
                yield (first, after - 1), views

    def summary(self) -> str:
        return "\n".join([super().summary(), *(f"  for {lapse.length(self.now()):.6f} s from {lapse.since:.6f} s {lapse.fault.message}" for lapse in self.lapses)])


class OnePrimary(OneLeader):
    """Each shard, the slots that a primary serves together, has one primary an epoch."""

    name = "one_primary"

    def __init__(self, session: friday.Session, **options: Any) -> None:
        super().__init__(session, term=lambda node: (spelled(own_slots(node)), int(node.read(f"{CLUSTER}->myself->configEpoch"))),
                         leads=lambda node: node.read(f"{CLUSTER}->myself->flags & {MASTER}") and own_slots(node), **options)

    def summary(self) -> str:
        lines = [super().summary()]
        for slots in dict.fromkeys(slots for slots, _ in self.leaders):
            reigns = sorted((epoch, name_of(node)) for (other, epoch), (node, _) in self.leaders.items() if other == slots)
            lines.append(f"  slots {slots}: {', '.join(f'{name} in epoch {epoch}' for epoch, name in reigns)}")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Packet:
    """A message of the bus that a node handles: its number among all that this node handled, and what its header says."""

    number: int
    kind: str
    length: int
    epoch: int
    sender: str


class Learned(Shadow):
    """How each node came to know the owners of some slots: the message of the bus that it was handling, as the node itself read
    it, and the transfer by which that came. A new primary knows it from the votes that elected it."""

    name = "learned"

    def __init__(self, session: friday.Session, slots: Iterable[int], **options: Any) -> None:
        places = {slot: f"{CLUSTER}->slots[{slot}]" for slot in slots}
        super().__init__(session, {str(slot): lambda node, place=place: id_at(node, node.read(place)) for slot, place in places.items()},
                         watch=list(places.values()), **options)
        session.breakpoint("*clusterProcessPacket", self.take_packet)

    def reset(self) -> None:
        super().reset()
        self.members: dict[str, str] = {}
        self.handled: dict[friday.Node, Packet] = {}
        self.votes: dict[friday.Node, list[Packet]] = {}
        self.because: dict[Change, Packet] = {}

    def take_packet(self) -> None:
        self.follow_restart()
        node = self.session.node
        header = node.read(f"*(unsigned char(*)[{HEADER.size}])((struct clusterLink*)$rdi)->rcvbuf").bytes
        _, length, _, _, kind, _, epoch, _, _, sender = HEADER.unpack(header)
        number = self.handled[node].number + 1 if node in self.handled else 1
        packet = self.handled[node] = Packet(number, PACKETS[kind] if kind < len(PACKETS) else f"type {kind}", length, epoch, sender.decode())
        if packet.kind == "auth-ack":
            self.votes[node] = [vote for vote in self.votes.get(node, []) if vote.epoch == epoch] + [packet]

    def changed(self, node: friday.Node, row: Row) -> Iterable[Fault]:
        self.members[read(node, my_id)] = name_of(node)
        known = len(self.changes)
        super().changed(node, row)
        if node in self.handled:
            self.because.update(dict.fromkeys(self.changes[known:], self.handled[node]))
        return ()

    def summary(self) -> str:
        return "\n".join(line for slot in self.names for line in self.takeovers(slot))

    def takeovers(self, slot: str) -> Iterator[str]:
        """Each owner of a slot after its first, and how the nodes learned of it in the order of time."""
        known = dict.fromkeys(change.new for change in self.changes if change.name == slot and change.new)
        for old, new in itertools.pairwise(known):
            yield f"learned: slot {slot} went from {self.members[old]} to {self.members[new]}"
            for node, change in self.first(slot, new).items():
                last = self.because[change]
                source = f"{last.kind} of {last.length} bytes from {self.members[last.sender]}"
                if self.members[new] == name_of(node):
                    source = f"the votes of {', '.join(sorted(self.members[vote.sender] for vote in self.votes[node]))}, after {source}"
                yield f"  {change.time:.6f} s, real time {change.real_time:.6f}: {node.name}, from {source}, the {last.number}. of the bus"
                message = change.message
                if message is not None and message.source is not None:
                    yield f"    message {message.number} from {name_of(message.source)}, sent at {message.sent} s, received at {message.received} s"


parser = argparse.ArgumentParser(prog="friday run redis_cluster_check.py REC --", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lasting", type=float, default=10.0, metavar="SECONDS", help="nodes may disagree for so long")
parser.add_argument("--slots", default="0,8192,16383", metavar="SLOT,...", help="the slots whose owners are followed")
options = parser.parse_args(sys.argv[1:])
checks = [SlotOwners(friday.session, at=SAVES, judge=Lasting(seconds=options.lasting)), OnePrimary(friday.session, at=SAVES),
          Learned(friday.session, options.slots.split(","))]


@friday.session.at_end
def tell() -> None:
    for check in checks:
        print(check.summary())
