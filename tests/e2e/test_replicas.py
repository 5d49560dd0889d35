"""The replicated store of tests/apps/replicas, whose leader takes a refusal for an acknowledgement: the predicate finds the line that counts it,
also in recordings in which nothing was lost, and what it says agrees with what the nodes themselves wrote down."""

import json
import re
import subprocess

import pytest
from conftest import ROOT
from debug_support import opened, record_once  # noqa: F401
from ports import free_ports
from predicates.acknowledged import Acknowledged

SOURCE = ROOT / "tests" / "apps" / "replicas" / "store.cc"
LINE = next(number for number, text in enumerate(SOURCE.read_text().splitlines(), 1) if "the planted fault: a refusal" in text)
LOG = ["--log", "store->log_", "--entry", "term, value"]
ACKNOWLEDGED = ["--at", f"store.cc:{LINE}", "--index", "request.index", "--by", "1u << peer", "--id", "store->options_.id", *LOG,
                "--leads", "store->role_", "--leader", "replicas::Role::leader"]
NODES = 4

pytestmark = pytest.mark.limit(300)


def record_store(recorder, build, *options, name="store"):
    """A recording of the store; its check's (exit code, last line), and what the nodes wrote down: {(index, term, value)}."""
    directory = recorder.directory / f"{name}-data"
    directory.mkdir()
    ports = ",".join(map(str, free_ports(NODES)))
    nodes = [{"name": f"n{i}", "stdout": f"n{i}.out", "start_delay": 0.5 if i == 3 else 0.0,
              "command": [build / "apps" / "replicas", "--id", str(i), "--ports", ports, "--directory", directory, *options]} for i in range(NODES)]
    client = {"name": "client", "record": False, "stdout": directory / "client.out", "command": [build / "apps" / "replicasclient", "--ports", ports]}
    recording = recorder.record({"group": {"stop_when_ends": "client"}, "node": [*nodes, client]}, timeout=120)
    assert recording.returncode == 0, recording.stderr
    return recording, checked(directory), written_down(directory)


def checked(directory):
    done = subprocess.run(["/usr/bin/python3", SOURCE.with_name("check.py"), directory], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines()[-1] if done.stdout else done.stderr


def written_down(directory):
    """What nodes wrote when an entry that they had committed was taken from them."""
    text = "".join(path.read_text() for path in directory.glob("truth-*"))
    return {tuple(map(int, found)) for found in re.findall(r"^n\d lost entry (\d+) value \d+ of term (\d+)", text, re.M)}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory, build):
    return record_once("replicas", lambda recorder: record_store(recorder, build), tmp_path_factory)


def predicate(recorder, recording, name, *options):
    """`friday run predicates/NAME.py`, judged until the first node is told to end: (exit code, violations)."""
    report = recorder.directory / f"{name}.json"
    done = recorder.run([recorder.friday, "run", ROOT / "predicates" / f"{name}.py", recording, "--json", report, "--", *options, "--until", "all"], timeout=240)
    assert done.returncode in (0, 1) and "nothing was checked" not in done.stderr, done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text())["violations"]


def explained(violations):
    """The entries for which somebody was counted who did not hold them: {(index, term)}."""
    return {(violation["values"]["index"], violation["values"]["entry"][0]) for violation in violations if " counts " in violation["message"]}


def test_an_acknowledgement_that_nobody_gave_is_found_at_its_line(recorder, faulty):
    recording, (code, said), truth = faulty
    assert code in (0, 1) and re.fullmatch(r"1\d\d acknowledged, \d+ lost", said)
    recorder.verify(recording)
    code, violations = predicate(recorder, recording.path, "acknowledged", *ACKNOWLEDGED)
    counted = [violation for violation in violations if " counts " in violation["message"]]
    assert code == 1 and counted, "node 3 comes late and refuses"
    for violation in counted:
        assert "acknowledged_by" in violation["backtraces"][violation["node"]["name"]].splitlines()[0]
        assert f"store.cc:{LINE}" in violation["backtraces"][violation["node"]["name"]].splitlines()[0]
    assert truth <= explained(violations), "whatever was lost had been acknowledged by nobody"


def test_every_refusal_is_found_and_nothing_else(faulty, opened):  # noqa: F811
    """What the leader itself sees at that line: a reply that is not ok. A follower may hold the entry all the same, from before."""
    recording, _, _ = faulty
    session, refused, found = opened(recording), [], []
    check = Acknowledged(session, at=f"store.cc:{LINE}", index="request.index", by="1u << peer", log="store->log_", id="store->options_.id", entry="term, value", until="all")

    def note():
        if check.judging() and not session.node.read("reply.ok"):
            refused.append((int(session.node), int(session.node.read("request.index"))))
    session.breakpoint(f"store.cc:{LINE}", note)
    session.on_violation = lambda violation: found.append((int(violation.node), violation.values["index"]))
    session.run()
    assert check.counts > 100 and found and set(found) <= set(refused)


@pytest.mark.full
def test_a_careful_leader_counts_nobody_who_has_not_acknowledged(recorder, build):
    recording, (code, said), truth = record_store(recorder, build, "--careful", name="careful")
    assert code == 0 and said.endswith(" 0 lost") and not truth
    assert predicate(recorder, recording.path, "acknowledged", *ACKNOWLEDGED) == (0, [])
    assert predicate(recorder, recording.path, "log_prefix", *LOG, "--committed", "store->committed_") == (0, [])


@pytest.mark.full
@pytest.mark.limit(900)
def test_until_it_fails(recorder, tmp_path):
    """As docs/sometimes.md does it: a run that has lost an entry is found, the console finds the line, and so does the predicate."""
    group = tmp_path / "store.toml"
    group.write_text((SOURCE.parent / "store.toml").read_text().replace("build/release/", f"{recorder.friday.parent.parent}/"))
    runs = tmp_path / "runs"
    done = recorder.run([recorder.friday, "record", "-o", runs, "-j", "2", "--until-failure", "150", "--keep", "failed", "--group", group], cwd=ROOT, timeout=800)
    assert done.returncode == 1, done
    failed = next(row for row in map(json.loads, (runs / "runs.jsonl").read_text().splitlines()) if " lost" in row.get("why", ""))
    run = runs / f"run-{failed['run']}"
    value, index = re.search(r"^lost: n\d acknowledged (\d+) as entry (\d+)", (run / "check.log").read_text(), re.M).groups()
    commands = [f"break acknowledged_by if request.value == {value} && !reply.ok && reply.term > term_", "continue", "print reply.ok", "print reply.term > term_", "next", "continue"]
    asked = recorder.run([recorder.friday, "replay", run, "--batch", *(word for command in commands for word in ("-ex", command))])
    assert asked.returncode == 0 and "acknowledged_by (" in asked.stdout and f"{LINE}\t" in asked.stdout and "$2 = true" in asked.stdout.replace("$2 = 1", "$2 = true"), asked
    code, violations = predicate(recorder, run, "acknowledged", *ACKNOWLEDGED)
    assert code == 1 and int(index) in {entry for entry, _ in explained(violations)}
