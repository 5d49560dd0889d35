"""The case study of DCR (Altekar and Stoica, UCB/EECS-2010-74, section 5.2) on the range-partitioned table of tests/apps/ranges: rows are lost
when they are committed while their range moves. Three predicates in a row find out why, and say the same of a recording that lacks what
the nodes have received from each other as of one that has it."""

import json
import re
import tomllib

import pytest
from conftest import ROOT
from debug_support import record_once

APP = ROOT / "tests" / "apps" / "ranges"
ROWS = 6000  # of each of the two clients
QUESTIONS = ("committed", "right_server", "stale_table")

pytestmark = pytest.mark.limit(300)


def record_table(recorder, build, *options, careful=False, rows=ROWS):
    """A recording of the table under load, and how many rows were missing in the end."""
    group = tomllib.loads((APP / "ranges.toml").read_text())
    for node in group["node"]:
        node["command"] = [word.replace("build/release/apps", f"{build}/apps").replace("20000", str(rows)).replace("40000", str(2 * rows)) for word in node["command"]]
        if careful and "rangeserver" in node["command"][0]:
            node["command"].append("--careful")
    recording = recorder.record(group, options=list(options), timeout=120)
    said = next(recording.path.rglob("count.out")).read_text()
    found, of = map(int, re.fullmatch(r"the table has (\d+) of (\d+) rows\n", said).groups())
    assert of == 2 * rows and recording.returncode == (1 if found < of else 0), recording.stderr
    return recording, of - found


def record_loss(recorder, build, *options):
    """A recording in which rows were lost; where the disk is fast, not every run loses some."""
    for _ in range(10):
        recording, lost = record_table(recorder, build, *options)
        if lost:
            return recording, lost
    raise AssertionError("no row was lost in ten runs")


@pytest.fixture(scope="module")
def table(tmp_path_factory, build):
    return record_once("ranges", lambda recorder: record_loss(recorder, build), tmp_path_factory)


def ask(recorder, recording, question):
    """What a predicate says in the end, and its violations: (node, event, message) of each."""
    report = recorder.directory / f"{question}.json"
    done = recorder.run([recorder.friday, "run", APP / f"{question}.py", recording, "--json", report], timeout=240)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    violations = [(violation["node"]["id"], violation["event"], violation["message"]) for violation in json.loads(report.read_text())["violations"]]
    assert done.returncode == (1 if violations else 0)
    return next(line for line in done.stdout.splitlines() if re.match(r"\d+ (rows|batches) ", line)), violations


def answers(recorder, recording):
    return [ask(recorder, recording, question) for question in QUESTIONS]


def explains(lost, answers):
    """Whether these answers lead to the cause of the missing rows."""
    committed, right_server, stale = answers
    assert not committed[1], "no row was lost before a server had it"
    strays = int(right_server[0].split()[0])
    assert strays >= lost > 0 and sum(int(re.search(r"stores (\d+) rows", message)[1]) for _, _, message in right_server[1]) == strays
    assert [violation[:2] for violation in stale[1]] == [violation[:2] for violation in right_server[1]]
    assert all("looked when the rows were its own" in message for _, _, message in stale[1])
    assert re.fullmatch(rf"{len(stale[1])} batches were out of date when the server stored them, and not when it looked; 0 when it looked", stale[0])


@pytest.mark.full
def test_three_questions_lead_to_the_cause(recorder, table):
    recording, lost = table
    recorder.verify(recording)
    explains(lost, answers(recorder, recording.path))


@pytest.mark.full
def test_without_what_the_servers_received_the_answers_are_the_same(recorder, table):
    recording, _ = table
    lean, left_out = recorder.lean(recording.path)
    assert left_out > 2 * ROWS * 1024, "each row was received, and some again by another server"
    assert recorder.states(lean) == recorder.states(recording.path)
    assert answers(recorder, lean) == answers(recorder, recording.path)


def test_a_recording_within_a_budget_explains_it_as_well(recorder, build):
    recording, lost = record_loss(recorder, build, "--budget", "100K")
    nodes = {node["name"]: node for node in recorder.info(recording)["nodes"]}
    for server in (f"server-{i}" for i in range(4)):
        assert nodes[server]["left_out"]["bytes"] > ROWS / 4 * 1024, nodes[server]
    assert "left_out" not in nodes["master"], "what controls the table is kept"
    recorder.verify(recording, timeout=240)
    explains(lost, answers(recorder, recording.path))


@pytest.mark.full
def test_servers_that_look_again_lose_nothing(recorder, build):
    recording, lost = record_table(recorder, build, careful=True, rows=3000)
    assert lost == 0
    recorder.verify(recording)
    assert ask(recorder, recording.path, "right_server") == ("0 rows were stored by a server that did not have their range", [])
