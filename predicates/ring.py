"""friday run predicates/ring.py REC: which node of a Chord ring broke it, when, and after which message.

Watches the links of all nodes and hands every change to RingState (ring_state.py), which tells transients from breaks that
last. What is known at the moment of a suspect change (the message being processed, the stack) is taken at that moment;
the violation is reported when the break turns out to last. Its values: `id` of the node, `link`, `value` (the id it
holds), `other` (the id of the node that it skips or that has ended), `since` (seconds), `unexplained`, and of a suspect
change `after` (sender, type and seq of the message; None in a timer), `broken_at` (logical time) and `stack`.
"""

import friday
from ring_state import RingState

CHECK = 0.5  # seconds of the recording between two looks at what lasts

ring = None
nodes = {}
latest = 0.0  # real time never runs backwards here, though hosts' clocks may differ


def now():
    global latest
    latest = max(latest, __REALCLOCK__)
    return latest


def links():
    """The ids of successor and predecessor; None for a link that is not set."""
    return {
        "successor": @(srv.successor->id) if @(srv.successor) else None,
        "predecessor": @(srv.predecessor->id) if @(srv.predecessor) else None,
    }


def evidence():
    """What led to the change that was just made."""
    header = @(srv.last_message.type)
    after = None
    if header:
        sender, seq = @(srv.last_message.sender), @(srv.last_message.seq)
        after = {"sender": f"{sender:016x}", "type": str(header).removeprefix("PACKET_"), "seq": seq}
    return {"after": after, "broken_at": str(__LOGICALCLOCK__), "stack": __NODE__.backtrace()}


def report(breaks, time):
    for b in breaks:
        friday.violation(
            "ring", nodes=[nodes[b.node]], message=b.message(time), id=f"{b.id:016x}", link=b.link, kind=b.kind,
            value=f"{b.value:016x}", other=f"{b.other_id:016x}", since=b.since, unexplained=b.unexplained, **b.evidence)


def note_ended(time):
    alive = {node.name for node in __ALL__}
    for name in ring.alive():
        if name not in alive:
            ring.ended(name, time)


def on_link_change():
    global ring
    time, name = now(), __NODE__.name
    if ring is None:
        ring = RingState(period=@(srv.period) / 1000)
    nodes[name] = __NODE__
    note_ended(time)
    for suspect in ring.update(name, @(srv.node.id), time=time, **links()):
        suspect.evidence = evidence()
    report(ring.advance(time), time)


def on_time():
    if ring is not None:
        time = now()
        note_ended(time)
        report(ring.advance(time), time)


def on_end():
    if ring is not None:
        report(ring.finish(latest), latest)


friday.session.watch("srv.successor, srv.predecessor", on_link_change)
friday.session.every(on_time, seconds=CHECK)
friday.session.at_end(on_end)
