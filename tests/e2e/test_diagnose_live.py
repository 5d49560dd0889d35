"""`friday live REC schedule`, and `friday diagnose --live`: a group that goes on is recorded while a script runs against it, again and again."""

import json
import os
import signal
import socket
import subprocess

import pytest
from conftest import ROOT, SLOWNESS, answers, wait_until
from ports import free_ports
from test_standby import live, nodes_of

pytestmark = pytest.mark.limit(300)
PYTHON = "/usr/bin/python3"
BOOKING = ROOT / "tests" / "apps" / "booking"

# Keeps what was put last; a thread for each connection.
SERVER = r"""
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
kept = ["0"]
def serve(connection):
    with connection, connection.makefile("rw") as lines:
        for line in lines:
            word, *value = line.split()
            if word == "put": kept[0] = value[0]
            print(kept[0], file=lines, flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

@pytest.fixture
def served(recorder):
    """A server on standby: (what records it, its port). It ends with the test."""
    port = free_ports(1)[0]
    running = recorder.start_record([PYTHON, "-c", SERVER, str(port)], name="server", options=["--standby"])

    wait_until(lambda: answers(port), "the server does not listen", 30 * SLOWNESS)
    yield running, port
    for node in json.loads(recorder.run([recorder.friday, "live", running.recording, "--json"]).stdout)["nodes"]:
        if node["state"] != "ended":
            os.kill(node["pid"], signal.SIGTERM)
    running.finish()


def ask(port, text):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection, connection.makefile("rw") as lines:
        print(text, file=lines, flush=True)
        return lines.readline().strip()


def texts_of(recorder, recording, node):
    done = recorder.run([recorder.friday, "dump", recording, "--node", str(node), "--json"])
    assert done.returncode == 0, done
    return [event for event in map(json.loads, done.stdout.splitlines()) if event.get("call") in ("recvfrom", "read", "sendto")]


def test_a_schedule_of_what_runs_already(recorder, served):
    running, port = served
    with socket.create_connection(("127.0.0.1", port), timeout=20) as before, before.makefile("rw") as lines:
        print("put early", file=lines, flush=True)
        assert lines.readline() == "early\n" and nodes_of(recorder, running) == []
        assert live(recorder, running, "schedule").stdout == "of these a schedule is kept from now on: server\n"
        print("put late", file=lines, flush=True)  # to a thread that waited in a call when the schedule began
        assert lines.readline() == "late\n" and ask(port, "put new") == "new"
    assert "keeping a schedule" in live(recorder, running).stdout
    assert live(recorder, running, "off").stdout == "on standby from now on: server\n"
    assert ask(port, "put hidden") == "hidden"
    assert live(recorder, running, "full").stdout == "recorded from now on: server\n"
    assert ask(port, "put whole") == "whole"
    assert live(recorder, running, "schedule").stdout == "of these a schedule is kept from now on: server\n"
    assert ask(port, "put last") == "last"
    saved = recorder.directory / "saved"
    live(recorder, running, "save", "-o", saved)
    nodes = json.loads(recorder.run([recorder.friday, "info", "--json", saved]).stdout)["nodes"]
    assert [(node["name"], node.get("schedule", False)) for node in nodes] == [("server", True), ("server#2", False), ("server#3", True)], nodes
    kept = [" ".join(json.dumps(event) for event in texts_of(recorder, saved, node["id"])) for node in nodes]
    for node, there in enumerate((("put late", "put new"), ("put whole",), ("put last",))):
        assert all(text in kept[node] for text in there), kept[node]
        others = {"early", "hidden", "late", "new", "whole", "last"} - {text.split()[1] for text in there}
        assert not [text for text in others if text in kept[node]], kept[node]
    done = recorder.run([recorder.friday, "verify", saved], timeout=120)
    assert done.returncode == 0 and "verified: 1 node" in done.stdout and "only schedules were kept" in done.stdout + done.stderr, done


@pytest.fixture
def booking(recorder, tmp_path):
    """The flight-booking service on standby: (what records it, its customer's command)."""
    web, redis = free_ports(2)
    group = tmp_path / "service.toml"
    group.write_text((BOOKING / "service.toml").read_text().replace("{port:web}", str(web)).replace("{port:redis}", str(redis)).replace("timeout = 60", ""))
    place = tmp_path / "live"
    running = recorder.start([recorder.friday, "record", "-o", place, "--standby", "--group", group], cwd=ROOT)
    running.recording = place
    customer = [PYTHON, BOOKING / "customer.py", str(web), str(redis), "f1"]
    wait_until(lambda: subprocess.run(customer, capture_output=True, timeout=60).returncode in (0, 1) if answers(web) else None, "the service does not answer", 60 * SLOWNESS)
    yield running, customer
    running.interrupt()
    running.finish()


@pytest.mark.parametrize("options", [["--schedule"], []], ids=["schedule", "full"])
def test_a_study_of_a_group_that_goes_on(options, recorder, booking, tmp_path):
    running, customer = booking
    study = tmp_path / "study"
    done = recorder.run([recorder.friday, "diagnose", "-o", study, "--live", running.recording, "-n", "30", *options, "--", *customer], timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (study / "runs.jsonl").read_text().splitlines()]
    results = [row["result"] for row in rows]
    assert len(rows) == 30 and set(results) == {"passed", "FAILED"}, results
    finding = done.stdout[done.stdout.index("  1. "):done.stdout.index("     in ")]
    assert "receives `SET price:f" in finding and "between" in finding, done.stdout
    assert "on standby" in live(recorder, running).stdout and nodes_of(recorder, running) == []  # what was recorded is in the study
    kept = next(row["recording"] for row in rows if row["result"] == "FAILED")
    names = {node["name"].partition("/")[0] for node in json.loads(recorder.run([recorder.friday, "info", "--json", kept]).stdout)["nodes"]}
    assert names == {"redis", "web", "crawler", "script"}, names
    if not options:
        recorder.verify(kept)
    forced = recorder.run([recorder.friday, "force", study, str(rows[0]["run"])])
    assert forced.returncode == 2 and "made against a group that went on" in forced.stderr, forced


def test_what_cannot_be_diagnosed_live(recorder, served, tmp_path):
    running, port = served
    study = ["-o", tmp_path / "study", "-n", "2"]
    script = ["--", "/bin/true"]

    def refused(*options):
        done = recorder.run([recorder.friday, "diagnose", *study, *options], timeout=60)
        assert done.returncode == 2, done
        return done.stderr
    assert "which group" in refused(*script)
    assert "is missing" in refused("--live", running.recording)
    assert "none" in refused("--live", tmp_path / "none", *script)
    plain = recorder.record(["/bin/true"], name="it")
    assert "record --standby" in refused("--live", plain.path, *script)
    assert ask(port, "put 5") == "5"
    running.process.kill()
    running.process.wait()
    assert "has ended" in refused("--live", running.recording, *script)


def test_ctrl_c_in_a_live_run(recorder, served, tmp_path):
    """The group goes back on standby, and the study stays as it was."""
    running, port = served
    flag = tmp_path / "flag"
    study = recorder.start([recorder.friday, "diagnose", "-o", tmp_path / "study", "--live", running.recording, "-n", "4", "--", "/bin/sh", "-c", f"touch {flag}; sleep 60 & wait"])
    wait_until(flag.exists, "the script does not run", 30 * SLOWNESS)
    study.interrupt()
    ended = study.finish(60)
    assert ended.returncode == 130, ended
    assert ask(port, "put on") == "on"
    wait_until(lambda: "on standby" in live(recorder, running).stdout, "it is still recorded", 30 * SLOWNESS)
    assert nodes_of(recorder, running) == []
