"""`friday record -s NAME` and `friday ls`: recordings that are called by their names."""

import json
import re
import signal

import pytest
from conftest import wait_until


@pytest.fixture
def sessions(recorder, tmp_path, monkeypatch):
    place = tmp_path / "sessions"
    monkeypatch.setenv("FRIDAY_SESSIONS", str(place))
    return place


def friday(recorder, *words, cwd=None):
    return recorder.run([recorder.friday, *words], cwd=cwd)


def listed(recorder, *places):
    done = friday(recorder, "ls", "--json", *places)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_recording_is_found_by_its_name(recorder, sessions):
    done = friday(recorder, "record", "-q", "-s", "demo", "--node", "slow", "--", "/bin/sh", "-c", "sleep 0.4; exit 3")
    assert done.returncode == 3, done
    assert friday(recorder, "record", "-q", "-s", "demo", "--node", "fine", "--", "/bin/true").returncode == 0
    [recording] = listed(recorder)
    assert recording["path"] == str(sessions / "demo")
    nodes = {node["name"]: node for node in recording["nodes"]}
    assert {name: node["ended"] for name, node in nodes.items() if name in ("slow", "fine")} == {"slow": "exited with 3", "fine": "exited with 0"}
    assert 0.4 <= nodes["slow"]["seconds"] < 30 and nodes["fine"]["after"] > 0.4
    text = friday(recorder, "ls").stdout
    assert re.search(r"^demo +20\d\d-\d\d-\d\d .* nodes .* slow exited with 3$", text, re.M), text
    rows = friday(recorder, "ls", "demo").stdout.splitlines()
    assert rows[0].startswith(f"{sessions}/demo, began 20") and any(re.match(r"\d+ +slow .*exited with 3", row) for row in rows), rows
    for command in (["verify", "demo"], ["info", "demo"], ["dump", "--node", "fine", "demo"], ["log", "demo"], ["replay", "demo", "--node", "slow", "--from", "-0.1s", "--batch", "--ex", "info time"]):
        done = friday(recorder, *command)
        assert done.returncode == 0, (command, done)


def test_a_file_of_that_name_comes_first(recorder, sessions, tmp_path):
    assert friday(recorder, "record", "-q", "-s", "demo", "--node", "named", "--", "/bin/true").returncode == 0
    assert friday(recorder, "record", "-q", "-o", tmp_path / "demo", "--node", "here", "--", "/bin/true").returncode == 0
    names = lambda cwd: [node["name"] for node in json.loads(friday(recorder, "info", "--json", "demo", cwd=cwd).stdout)["nodes"]]
    assert names(tmp_path) == ["here"] and names("/") == ["named"]
    assert {recording["path"].rsplit("/", 1)[-1] for recording in listed(recorder, tmp_path, "demo")} == {"demo"}


@pytest.mark.parametrize("words, says", [
    (["-s", "a/b"], "no name of a session"), (["-s", "..", ], "no name of a session"), (["-s", "a", "-o", "b"], "does not go with"), ([], "-s NAME")])
def test_names_that_are_none(words, says, recorder, sessions):
    done = friday(recorder, "record", *words, "--", "/bin/true")
    assert done.returncode not in (0, 1) and says in done.stderr, done
    assert not list(sessions.glob("**/recording.json"))


def test_a_place_with_nothing_and_one_that_is_none(recorder, sessions, tmp_path):
    done = friday(recorder, "ls")
    assert done.returncode == 0 and "friday record -s NAME" in done.stdout, done
    done = friday(recorder, "ls", tmp_path, "nosuch")
    assert done.returncode == 2 and "nosuch is neither a directory nor a session" in done.stderr, done


def test_what_cannot_be_read_is_told_and_the_rest_is_shown(recorder, sessions):
    for name in ("whole", "torn"):
        assert friday(recorder, "record", "-q", "-s", name, "--", "/bin/true").returncode == 0
    (sessions / "torn" / "recording.json").write_text("{")
    done = friday(recorder, "ls")
    assert done.returncode == 2 and "whole" in done.stdout and "torn" in done.stderr, done


def test_what_is_being_recorded_says_so(recorder, sessions):
    running = recorder.start([recorder.friday, "record", "-q", "-s", "now", "--node", "sleeper", "--", "/bin/sleep", "60"])
    def recorded():
        """None before the recording has its first node."""
        done = friday(recorder, "ls", "--json")
        return done.returncode == 0 and [node for recording in json.loads(done.stdout) for node in recording["nodes"] if node["events"]]
    wait_until(recorded, "nothing is recorded")
    assert "1 of its nodes run now" in friday(recorder, "ls").stdout
    assert "being recorded" in friday(recorder, "ls", "now").stdout
    running.signal(signal.SIGTERM)
    running.finish()
    [recording] = listed(recorder)
    assert not any(node["runs"] for node in recording["nodes"]) and recording["seconds"] > 0
