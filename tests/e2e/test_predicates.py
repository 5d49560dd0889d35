"""Predicates on real recordings, checked by `friday run`: elections and transfers, whole and with a planted fault, of which the
programs themselves print the truth; and a ring, on which the predicates count what the nodes printed."""

import collections
import dataclasses
import itertools
import json
import re

import pytest
from debug_support import ROOT, SEED, line_of, opened, record_once, record_plan, ring, ring_plan, run_to_end  # noqa: F401
from ports import free_ports
from predicates.connectivity import DisjointPaths
from predicates.misdelivered import Misdelivered
from predicates.oscillation import Oscillation
from predicates.ring_times import RingTimes
from predicates.shadow import Reads
from predicates.timing import Lasting

NODES, SECONDS = 5, 4
LEADER = ["--term", "self.term", "--leads", "self.role", "--leader", "LEADER"]
DECIDED = ["--at", "lead", "--decision", "self.term", "--voters", "self.votes"]
QUORUMS = ["--members", "self.members", "--needed", "self.needed"]


def recorded(recorder, build, app, *fault):
    """The recording of NODES nodes, and the lines that each printed."""
    ports = ",".join(map(str, free_ports(NODES)))
    return recorder.record_nodes([[build / "apps" / app, i, ports, SECONDS, 5, *fault] for i in range(NODES)])


def leaders_printed(output):
    """For each term who said that it leads, and by whose votes: {term: {name: mask}}."""
    found = collections.defaultdict(dict)
    for node, lines in enumerate(output):
        for line in lines:
            if match := re.fullmatch(r"n\d leads in term (\d+) by the votes (0x\w+)", line):
                found[int(match[1])][f"n{node}"] = int(match[2], 16)
    return found


def test_elections_have_one_leader_a_term(recorder, build):
    recording, output = recorded(recorder, build, "election")
    assert len(leaders_printed(output)) > 3
    assert recorder.predicate(recording, "leader", *LEADER) == (0, [])
    assert recorder.predicate(recording, "monotonic", "--counter", "self.term") == (0, [])
    assert recorder.predicate(recording, "decided_quorums", *DECIDED) == (0, [])
    assert recorder.predicate(recording, "quorum", *QUORUMS) == (0, [])


def test_two_leaders_are_found_in_each_term_that_has_them(recorder, build):
    recording, output = recorded(recorder, build, "election", "revotes")
    twice = {term: names for term, names in leaders_printed(output).items() if len(names) > 1}
    assert twice, output
    code, violations = recorder.predicate(recording, "leader", *LEADER)
    found = collections.defaultdict(set)
    for violation in violations:
        found[violation["values"]["term"]] |= set(violation["values"]["leaders"])
    assert code == 1 and found == {term: set(names) for term, names in twice.items()}
    assert len(violations) == sum(len(names) - 1 for names in twice.values())
    first = violations[0]
    assert re.match(r"message \d+ from n\d, 16 bytes, received at ", first["values"]["after"])
    assert first["after"]["target"] == first["node"]["name"] and f"message {first['after']['number']} from {first['after']['source']}, " in first["values"]["after"]
    assert first["after"]["target_event"] <= first["event"] and first["after"]["bytes"] == 16
    assert first["values"]["self.role"] == {"old": "CANDIDATE", "new": "LEADER"}
    assert any("lead ()" in stack for stack in first["backtraces"].values())
    assert recorder.predicate(recording, "decided_quorums", *DECIDED) == (0, []), "who votes twice is in both majorities"


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory, build):
    return record_once("shrunk", lambda recorder: recorded(recorder, build, "election", "shrinks"), tmp_path_factory)


def test_a_member_list_that_shrank_makes_quorums_that_miss_each_other(recorder, shrunk):
    recording, output = shrunk
    assert output[4].count("n4 takes all others for gone") == 1
    code, (violation,) = recorder.predicate(recording, "quorum", *QUORUMS)
    assert code == 1 and violation["node"]["name"] == "n4" and any("shrink ()" in stack for stack in violation["backtraces"].values())
    narrow, wide = "1 of [4]", "3 of [0, 1, 2, 3, 4]"
    said = {match[1]: match[2] for match in re.finditer(r"(\d of \[[\d, ]+\]) \((n\d)\)", violation["message"])}
    assert violation["message"].endswith(" can decide without a common member") and said.keys() == {narrow, wide} and said[narrow] == "n4" != said[wide]
    assert violation["values"]["configurations"] == {f"n{i}": narrow if i == 4 else wide for i in range(NODES)}


def test_decisions_without_a_common_voter_are_found(recorder, shrunk):
    recording, output = shrunk
    decisions = [(term, votes) for term, leaders in leaders_printed(output).items() for votes in leaders.values()]
    missing = {frozenset(pair) for pair in itertools.combinations(decisions, 2) if not pair[0][1] & pair[1][1]}
    assert missing and all(0x10 in (votes for _, votes in pair) for pair in missing), "n4 is elected by itself"
    code, violations = recorder.predicate(recording, "decided_quorums", *DECIDED)
    mask = lambda voters: sum(1 << voter for voter in voters)  # noqa: E731
    values = [violation["values"] for violation in violations]
    found = {frozenset(((v["decision"], mask(v["voters"])), (v["earlier"], mask(v["earlier_voters"])))) for v in values}
    reported = [(v["decision"], mask(v["voters"])) for v in values]
    assert code == 1 and found <= missing and all(pair & set(reported) for pair in missing), "the later one of each pair is reported"
    assert len(reported) == len(set(reported)), "each once"
    assert all("n4" in {node["name"] for node in violation["nodes"]} for violation in violations)


@pytest.fixture
def accounts(build):
    """The options of the conservation of transfers."""
    source = (ROOT / "tests" / "apps" / "peers" / "transfer.c").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "send_to_peer(sock" in text)
    return ["--held", "balance", "--sent-at", f"transfer.c:{line}", "--amount", "transfer.amount", "--received-at", "credited",
            "--amount-received", "transfer->amount", "--transfer", "transfer.from * 1000000 + transfer.number",
            "--transfer-received", "transfer->from * 1000000 + transfer->number", "--lost-after", "1"]


def test_transfers_conserve(recorder, build, accounts):
    recording, output = recorded(recorder, build, "transfer")
    assert sum(int(lines[-1].split()[-1]) for lines in output) == NODES * 1000
    assert recorder.predicate(recording, "conservation", *accounts) == (0, [])
    assert recorder.predicate(recording, "monotonic", "--counter", "sent") == (0, [])
    code, violations = recorder.predicate(recording, "monotonic", "--counter", "balance")
    assert code == 1 and re.fullmatch(r"n\d: `balance` fell from \d+ to \d+", violations[0]["message"])


def test_each_loss_is_found(recorder, build, accounts):
    recording, output = recorded(recorder, build, "transfer", "fault")
    code, violations = recorder.predicate(recording, "conservation", *accounts)
    shrunk = [violation for violation in violations if "that no transfer explains" in violation["message"]]
    lost = [violation for violation in violations if "has not arrived" in violation["message"]]
    assert code == 1 and len(shrunk) + len(lost) == len(violations)
    said = [line for line in output[1] if "loses" in line]
    assert len(shrunk) == len(said) > 3
    assert [violation["values"]["sum"] for violation in shrunk] == [held_by_seen(violation) - i - 1 for i, violation in enumerate(shrunk)]
    forgotten = {(int(n), int(k)) for n, k in re.findall(r"of n(\d) number (\d+)", "\n".join(output[2]))}
    assert forgotten and {divmod(violation["values"]["transfer"], 1000000) for violation in lost} == forgotten


def held_by_seen(violation):
    """What the nodes that were seen by then began with."""
    return 1000 * len(violation["values"]["held"])


LOG = ["--log", "journal.log", "--committed", "journal.committed", "--entry", "index, command"]


def test_logs_agree(recorder, build):
    recording, output = recorded(recorder, build, "journal")
    assert all(int(lines[-1].split()[3]) > 20 for lines in output), output
    assert recorder.predicate(recording, "log_prefix", *LOG) == (0, [])


def test_each_entry_that_differs_is_found(recorder, build):
    recording, output = recorded(recorder, build, "journal", "fault")
    committed = int(output[2][-1].split()[3])
    said = {int(entry): int(command) for command, entry in re.findall(r"n2 appends (\d+) as entry (\d+)", "\n".join(output[2]))}
    code, violations = recorder.predicate(recording, "log_prefix", *LOG)
    found = {violation["values"]["index"]: violation["values"] for violation in violations}
    wrong = {entry: command for entry, command in said.items() if entry < committed}
    assert code == 1 and wrong and found.keys() <= wrong.keys()
    assert len(found) >= len(wrong) - 1, "a wrong command is the right one by chance once in a thousand"
    assert all(wrong[entry] in (values["entry"][1], values["first"][1]) for entry, values in found.items())
    assert all("n2" in [node["name"] for node in violation["nodes"]] for violation in violations)


# ---- A ring

def test_the_events_of_the_group_are_those_of_all_nodes(ring, opened):
    """What WithinEvents counts."""
    session, seen = opened(ring), []
    session.watch("srv.successor, srv.predecessor", lambda: seen.append(
        (session.backend.events_done(), sum(session.backend.event(int(node)) + 1 for node in session.every_node))))
    assert session.backend.events_done() == 0
    run_to_end(session)
    assert len(seen) > NODES and all(done == events for done, events in seen) and seen == sorted(set(seen))
    assert session.backend.events_done() == sum(session.backend.event_count(int(node)) for node in session.every_node) > seen[-1][0]


def test_ring_times_agree_with_the_links_at_the_end(ring, opened):
    session = opened(ring)
    times = RingTimes(session, judge=Lasting(seconds=2))
    run_to_end(session)
    assert {node.name for node in times.by_node} == {node.name for node in session.nodes}
    truth = json.loads((ring.path.parent / "truth.json").read_text())
    assert truth["node"] in {node.name for violation in session.violations for node in violation.nodes}
    assert 0 < times.times.share("holds") < 1 and times.summary().count(": consistent for") == len(session.nodes)


@pytest.mark.parametrize("settled", [0.0, 0.5])
def test_each_misdelivered_request_is_found(ring, opened, settled):
    """The one that joins late is unknown to the node before it, which sends requests past it. Who should have served each follows from
    the plan's ids and from who is in the ring."""
    session = opened(ring)
    check = Misdelivered(session, at="process_data", key="packet_id", id="srv.node.id", member="srv.successor", settled=settled)
    joined, served, expected = {}, [], []

    def linked(hit):
        joined.setdefault(hit.node, float(session.logical_time)) if hit.node.read("srv.successor") else joined.pop(hit.node, None)

    def delivered(hit):
        key = int(hit.node.read("packet_id"))
        served.append(key)
        ids = {ring.plan.nodes[node].id: node for node in session.all_nodes if node in joined}
        owner = ids[min((id for id in ids if id >= key), default=min(ids))]
        if owner != hit.node and float(session.logical_time) - joined[owner] >= settled:
            expected.append((f"{key:#x}", hit.node.name, owner.name))
    session.watch("srv.successor", linked)
    session.breakpoint("process_data", delivered)
    run_to_end(session)
    assert check.requests == len(served) == sum(int(node.read("srv.puts")) + int(node.read("srv.gets")) for node in session.nodes)
    assert [(v.values["key"], *(node.name for node in v.nodes)) for v in session.violations] == expected
    assert check.misdelivered == len(expected)
    assert settled or f"n{ring.plan.late}" in {owner for _, _, owner in expected}, "nothing was misdelivered"


def test_each_read_that_missed_is_found(ring, opened):
    """The client is not recorded and says which of its gets found nothing, or something old."""
    session = opened(ring)
    written, read = line_of("process.c", "store_put(packet_id"), line_of("process.c", "srv.gets++")
    check = Reads(session, write_at=written, read_at=read, key="packet_id", value="packet->version", value_read="item->version")
    run_to_end(session)
    assert check.reads == sum(int(node.read("srv.gets")) for node in session.nodes)
    client = (ring.path / "client.out").read_text()
    said = collections.Counter((what, int(key, 16)) for key, what in re.findall(r"^client [\d.]+ GET (\w+) by \S+: (miss|stale)$", client, re.M))
    missed, stale = map(int, re.search(r" miss=(\d+) stale=(\d+) ", client).groups())
    assert missed + stale == said.total() and missed > 0, client
    found = collections.Counter(("miss" if v.values["read"] is None else "stale", int(v.values["key"])) for v in session.violations)
    # Of an answer that was lost or came too late the client only says that it waited in vain.
    unanswered = {int(key, 16) for key in re.findall(r"^client [\d.]+ \w+ (\w+) by \S+: timeout$", client, re.M)}
    surely = lambda counts: {kind: count for kind, count in counts.items() if kind[1] not in unanswered}  # noqa: E731
    assert surely(found) == surely(said) and said <= found and check.wrong == found.total()


def test_disjoint_paths_over_fingers(ring, opened):
    """A linked list is read whole: at the end the graph has the edges that the nodes printed."""
    session = opened(ring)
    places = [line_of("finger.c", "finger up"), line_of("finger.c", "finger down")]
    graph = DisjointPaths(session, id="srv.node.addr", neighbours="srv.fingers..next", neighbour="node.addr", at=places, judge=Lasting(seconds=60))
    run_to_end(session)
    for node, row in graph.rows.items():
        assert row["neighbours"] == set(ring.fingers(node, "up")) - set(last_gone(ring, node))


def last_gone(ring, node):
    """The addresses whose finger went down last."""
    last = dict(reversed(pair) for pair in re.findall(r"finger (up|down) (\S+)", ring.output(node)))
    return [addr for addr, way in last.items() if way == "down"]


@pytest.fixture(scope="module")
def returning(tmp_path_factory):
    """A ring without a fault, of which one node ends and comes back 3 s later under its address and id, as n5."""
    def record(recorder):
        plan = ring_plan.make_plan(nodes=NODES, seconds=10, seed=SEED, kills=1, gap=0.2, period=150, late_at=2.2, client=False)
        gone = next(node for node in plan.nodes if node.dies is not None)
        ends = gone.args.index("--seconds")
        again = dataclasses.replace(gone, name=f"n{NODES}", index=NODES, start=gone.dies + 3, dies=None, args=gone.args[:ends] + gone.args[ends + 2:])
        return record_plan(recorder, dataclasses.replace(plan, nodes=(*plan.nodes, again)))
    return record_once("returning", record, tmp_path_factory)


@pytest.mark.parametrize("times", [1, 2])
def test_each_finger_that_returns_is_found(returning, opened, times):
    """A node that ends is lost as a finger of others, and is one again when it is back."""
    session = opened(returning)
    check = Oscillation(session, down_at="remove_finger", down="f->node.addr", up_at=line_of("finger.c", "finger up"), up="addr", times=times, seconds=60)
    run_to_end(session)
    said = [(node.name, addr, way) for node in session.nodes for way, addr in re.findall(r"finger (up|down) (\S+)", returning.output(node))]
    ups = collections.Counter((name, addr) for name, addr, way in said if way == "up")
    assert check.events == len(said) > 10
    assert any(count > 1 for count in ups.values()), "no finger returned"
    expected = {finger: (count - 1) // times for finger, count in ups.items() if count > times}  # the first time it did not come back
    assert collections.Counter((v.node.name, v.values["what"]) for v in session.violations) == expected
