"""Predicates on a Redis Cluster of six nodes whose primary was killed: servers/redis_cluster_check.py by `friday run`. The witness
is what the nodes logged: who won which election, in which epoch, which messages of the bus they handled in which order, and the
configuration that each of them saved.
"""

import datetime
import json
import pathlib
import re

import pytest
from programs import load, place  # noqa: F401
from redis_builds import SERVER, server_with_debug_information, symbols_of_stripped
from test_redis_cluster import Cluster

CHECK = pathlib.Path(__file__).parent / "servers" / "redis_cluster_check.py"
# A node says when all slots are covered again by its own view, and names each message that it handles. A busy machine is no dead node.
TIMEOUT = 5  # seconds
OPTIONS = ["--cluster-require-full-coverage", "yes", "--loglevel", "debug", "--cluster-node-timeout", str(TIMEOUT * 1000)]
CREATED = 30  # seconds in which the owners that redis-cli chose are known to all
# The new primary tells all at once. A node that misses it hears of it from whom it pings next, and each is pinged within half the node
# timeout; the rest is for a busy machine.
SPREAD = TIMEOUT + 3


class Log:
    """What a node logged: (seconds since the epoch, in whole ms, and text), and the messages of the bus among it."""

    def __init__(self, path):
        found = re.findall(r"^\d+:\w (\d+ \w+ \d+ [\d:.]+) \S (.*)$", path.read_text(errors="replace"), re.M)
        self.lines = [(datetime.datetime.strptime(time, "%d %b %Y %H:%M:%S.%f").timestamp(), text) for time, text in found]
        self.packets = [index for index, (_, text) in enumerate(self.lines) if text.startswith("--- Processing packet")]

    def find(self, pattern):
        return [(index, match) for index, (_, text) in enumerate(self.lines) if (match := re.search(pattern, text))]

    def handling(self, number):
        """Indexes of the lines from a message of the bus up to the next one."""
        return range(self.packets[number - 1], self.packets[number] if number < len(self.packets) else len(self.lines))


class Witness:
    """What the six nodes say of themselves."""

    def __init__(self, recording, directory):
        self.logs = {f"redis-{i}": Log(recording.path / f"redis-{i}.log") for i in range(6)}
        saved = {name: (directory / f"data{name[-1]}" / "nodes.conf").read_text() for name in self.logs}
        self.ids = {name: re.search(r"^(\w+) \S+ \S*myself", text, re.M)[1] for name, text in saved.items()}
        self.name_of = {id_: name for name, id_ in self.ids.items()}
        self.heir, = [name for name, log in self.logs.items() if log.find("Failover election won")]
        self.victim, = [node["name"] for node in recording.nodes() if node["ended"]["how"] == "signal"]
        self.epoch = int(self.logs[self.heir].find(r"configEpoch set to (\d+) after successful failover")[0][1][1])
        # By the configurations that the nodes have saved: {node: {slots: owner}}
        self.owners = {name: {slots: self.name_of[id_] for id_, slots in re.findall(r"^(\w+) .* connected (\d+-\d+)$", text, re.M)}
                       for name, text in saved.items() if name != self.victim}

    def voters(self):
        granted = rf"Failover auth granted to {self.ids[self.heir]} for epoch {self.epoch}"
        return sorted(name for name, log in self.logs.items() if log.find(granted))


@pytest.fixture(params=["stripped", "debug information"])
def program(request, tmp_path):
    """(the server, options that give its types)"""
    if request.param == "stripped":
        return SERVER, ["--symbols", symbols_of_stripped(tmp_path / "symbols")]
    return server_with_debug_information(), []


def run_check(recorder, recording, symbols, *options):
    report = recorder.directory / "report.json"
    done = recorder.run([recorder.friday, "run", CHECK, recording.path, *symbols, "--json", report, "--", *options], timeout=400)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    print(done.stdout)
    return done.stdout, json.loads(report.read_text())["violations"]


@pytest.mark.full
@pytest.mark.limit(2400)
def test_who_owns_what_and_who_learned_it_from_whom(recorder, ports, place, program):  # noqa: F811
    server, symbols = program
    cluster = Cluster(recorder, ports, place, server=server, options=OPTIONS)
    cluster.load(500)
    left = cluster.fail_over()
    cluster.load(500, port=left[0])
    recording = cluster.server.end()
    witness = Witness(recording, place)
    assert len({tuple(sorted(view.items())) for view in witness.owners.values()}) == 1, "the nodes themselves disagree at the end"
    out, violations = run_check(recorder, recording, symbols, "--lasting", CREATED)
    assert violations == []
    slots, = [slots for slots, owner in witness.owners[witness.heir].items() if owner == witness.heir]
    check_primaries(out, witness, slots)
    check_learned(out, witness)
    check_spread(out, slots)

    # That the nodes were out of step at all, and about what, is a violation when nothing is excused.
    _, violations = run_check(recorder, recording, symbols, "--lasting", 1e-6)
    about = [violation["message"] for violation in violations if violation["predicate"] == "slot_owners"]
    assert len(about) == len(violations) and any(f"disagree about slots {slots}," in text for text in about), violations


def check_primaries(out, witness, slots):
    said = {found[1]: re.findall(r"(redis-\d) in epoch (\d+)", found[2]) for found in re.finditer(r"^  slots (\S+): (.*)$", out, re.M)}
    assert said.keys() == witness.owners[witness.heir].keys()
    for primary, epoch in (pair for pairs in said.values() for pair in pairs):
        assert epoch == "0" or witness.logs[primary].find(rf"configEpoch set to {epoch}\b"), (primary, epoch)
    assert said[slots][-2][0] == witness.victim and said[slots][-1] == (witness.heir, str(witness.epoch))
    assert all(len({name for name, _ in pairs}) == 1 for other, pairs in said.items() if other != slots)


def check_spread(out, slots):
    """From when the new primary knows it on, nodes disagree about the owner of its slots, and of no others, for a bounded time."""
    known = [float(time) for time in re.findall(r"^  ([\d.]+) s, real time ", out, re.M)]
    lapses = [(float(length), float(since), about) for length, since, about in
              re.findall(r"^  for ([\d.]+) s from ([\d.]+) s nodes disagree about slots (.*)$", out, re.M) if float(since) >= known[0]]
    assert lapses and {about for _, _, about in lapses} == {slots}, out
    assert max(length for length, _, _ in lapses) < SPREAD, out
    assert max(since + length for length, since, _ in lapses) >= known[-1], "the last to learn it ends the disagreement"


def check_learned(out, witness):
    """Of each node: the message, counted in its log, between which and the next one it learned; its sender, who sent it."""
    assert re.search(rf"^learned: slot \d+ went from {witness.victim} to {witness.heir}$", out, re.M) and out.count("learned: ") == 1, out
    learned = re.findall(r"^  [\d.]+ s, real time ([\d.]+): (redis-\d), from (?:the votes of (.*), after )?(\S+) of (\d+) bytes from (redis-\d), the (\d+)\. of the bus\n"
                         r"    message \d+ from (redis-\d), sent at ([\d.]+) s, received at ([\d.]+) s$", out, re.M)
    assert {name for _, name, *_ in learned} == witness.owners.keys() and len(learned) == 5 and learned[0][1] == witness.heir
    for time, name, votes, kind, length, sender, number, source, sent, received in learned:
        log = witness.logs[name]
        lines = log.handling(int(number))
        logged = re.search(r"type (\S+), (\d+) bytes", log.lines[lines[0]][1])
        assert logged.groups() == (kind, length), (name, logged[0])
        received_from = re.search(r"packet received: (\w+)", log.lines[lines[1]][1])
        assert not received_from or received_from[1] in ("NULL", next(id_ for id_, other in witness.name_of.items() if other == sender))
        assert source == sender and float(sent) < float(received)
        in_ms = int(float(time) * 1000) / 1000
        assert log.lines[lines[0]][0] <= in_ms <= log.lines[min(lines.stop, len(log.lines) - 1)][0], (name, time)
        if name == witness.heir:
            assert votes.split(", ") == witness.voters() and any(index in lines for index, _ in log.find("Failover election won"))
        else:
            assert not votes and sender == witness.heir
            back = [index for index, _ in log.find("Cluster state changed: ok") if index > log.find("Cluster state changed: fail")[-1][0]]
            assert back and back[0] > lines[0], f"{name} had all slots covered before it learned"
