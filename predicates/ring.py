"""friday run predicates/ring.py REC: which node of a Chord ring broke it, when, and after which message.

Watches the links of all nodes and hands every change to RingState (ring_state.py), which tells transients from breaks that
last. What is known at the moment of a suspect change (the message being processed, the stack) is taken at that moment;
the violation is reported when the break turns out to last.
"""

import os
import sys

import friday

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ring_state import RingState

ring = None
last_time = 0.0


def links():
    """Successor and predecessor of the triggering node as ids; None for a link that is not set."""
    successor = int(@(srv.successor->id)) if @(srv.successor) else None
    predecessor = int(@(srv.predecessor->id)) if @(srv.predecessor) else None
    return {"successor": successor, "predecessor": predecessor}


def evidence():
    """What led to the change: the message that the node is processing (none: a timer), the logical time and the stack."""
    message = None
    if @(srv.last_message.type):
        message = {
            "sender": f"{int(@(srv.last_message.sender)):016x}",
            "type": str(@(srv.last_message.type)).removeprefix("PACKET_"),
            "seq": int(@(srv.last_message.seq)),
        }
    return {"after": message, "logical_time": __LOGICALCLOCK__, "backtrace": friday.session.backtrace()}


def report(breaks, now):
    for b in breaks:
        friday.violation(
            "ring", nodes=[b.node, b.other], message=b.message(now), id=f"{b.id:016x}", kind=b.kind, link=b.link,
            value=f"{b.value:016x}", other=f"{b.other_id:016x}", time=b.since, unexplained=b.unexplained, **b.evidence,
        )


def note_ended(now):
    alive = set(__ALL__)
    for node in ring.alive():
        if node not in alive:
            ring.ended(node, now)


def on_link_change():
    global ring, last_time
    last_time = now = __REALCLOCK__
    if ring is None:
        ring = RingState(period=@(srv.period) / 1000)
    note_ended(now)
    for suspect in ring.update(__NODE__, int(@(srv.node.id)), time=now, **links()):
        suspect.evidence = evidence()
    report(ring.advance(now), now)


friday.session.watch("srv.successor, srv.predecessor", on_link_change)
friday.session.run()
if ring is not None:
    end = max(last_time, __REALCLOCK__)
    report(ring.finish(end), end)
