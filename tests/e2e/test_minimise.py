"""`friday force --whole` and `--minimise`: the order of all messages of a run, and the fewest of them that still make the group fail."""
import json

import pytest
from conftest import Recorder, toml

pytestmark = pytest.mark.limit(500)
PYTHON = "/usr/bin/python3"

# Two clients add one to a register, each by a GET and a SET, while a third one asks for something else. The server ends with 1 if one of the two
# additions was lost.
SERVER = r"""
import selectors, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
print("listening", flush=True)
value, left = 0, 3
def answer(line):
    global value, left
    word, _, number = line.partition(" ")
    if word == "SET": value = int(number)
    if word == "BYE": left -= 1
    return f"{word} is {value}"
while left:
    for key, _ in selector.select():
        if key.fileobj is listener:
            selector.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(100)
        if data: key.fileobj.sendall(answer(data.decode().strip()).encode() + b"\n")
        else: selector.unregister(key.fileobj); key.fileobj.close()
sys.exit(value != 2)
"""
CLIENT = r"""
import random, socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def ask(line):
    connection.sendall(line.encode() + b"\n")
    return int(connection.recv(100).split()[-1])
if sys.argv[2] == "pings":
    for number in range(int(sys.argv[3])): ask(f"PING {number}")
else:
    time.sleep(random.random() * 0.2)
    value = ask("GET")
    time.sleep(0.05)
    ask(f"SET {value + 1}")
ask("BYE")
"""


@pytest.fixture(scope="module")
def study(friday, tmp_path_factory):
    """A study of both kinds of runs: its directory, a run that failed, and one that passed."""
    place = tmp_path_factory.mktemp("minimise")
    recorder = Recorder(friday, place)
    (place / "server.py").write_text(SERVER)
    (place / "client.py").write_text(CLIENT)
    client = lambda name, *words: {"name": name, "command": [PYTHON, str(place / "client.py"), "{port:server}", *words], "after": ["server"]}
    group = place / "group.toml"
    group.write_text(toml({"group": {"timeout": 60, "stop_when_ends": "server"}, "node": [
        {"name": "server", "command": [PYTHON, str(place / "server.py"), "{port:server}"], "ready": "output listening", "stdout": "server.out"},
        client("a", "adds"), client("b", "adds"), client("noise", "pings", "20")]}))
    runs, number = {}, 0
    while not {"FAILED", "passed"} <= set(runs):
        number += 10
        assert number <= 100, f"only runs that {set(runs)}"
        recorder.run([recorder.friday, "diagnose", "-o", place / "study", "--group", group, "-n", str(number), "--schedule"], timeout=300)
        for line in (place / "study" / "runs.jsonl").read_text().splitlines():
            runs.setdefault(json.loads(line)["result"], json.loads(line)["run"])
    return place / "study", runs["FAILED"], runs["passed"]


def force(recorder, study, *options, timeout=400):
    done = recorder.run([recorder.friday, "force", study, *options, "--json"], timeout=timeout)
    return done, json.loads(done.stdout) if done.stdout.startswith("{") else None


def test_the_fewest_messages_that_make_it_fail(study, recorder, tmp_path):
    directory, failed, _ = study
    done, result = force(recorder, directory, str(failed), "--minimise", "-n", "5", "-o", tmp_path / "fewest")
    assert done.returncode == 0, done
    assert (result["forced"], result["forced_failed"]) == (5, 5), result
    # Who reads before the other writes: of four messages three are enough, and two are not.
    assert [(each["from"] in "ab", each["to"], each["text"].split()[0]) for each in result["exact"]] == [
        (True, "server", "GET"), (True, "server", "GET"), (True, "server", "SET")], result["exact"]
    assert {each["from"] for each in result["exact"]} == {"a", "b"}
    assert not (tmp_path / "fewest.search").exists()
    again, result = force(recorder, directory, "--order", tmp_path / "fewest.json", "-n", "3", "-o", tmp_path / "again")
    assert again.returncode == 0 and (result["forced"], result["forced_failed"]) == (3, 3), again
    recorder.none_left()


@pytest.mark.parametrize("kind", ["failed", "passed"])
def test_the_order_of_all_messages(kind, study, recorder, tmp_path):
    directory, failed, passed = study
    done, result = force(recorder, directory, str(failed if kind == "failed" else passed), "--whole", "-n", "4", "-o", tmp_path / "whole")
    assert done.returncode == 0, done
    assert (result["forced"], result["forced_failed"]) == (4, 4 if kind == "failed" else 0), result
    assert len(result["exact"]) > 40


@pytest.mark.parametrize("options, says", [
    (["{passed}", "--minimise"], "has passed: --minimise looks for what makes a run fail"),
    (["{failed}", "--minimise", "--whole"], "--minimise"),
    (["99999", "--whole"], "has no run 99999"),
    (["{failed}", "--whole", "--order", "x.json"], "not both"),
    (["{failed}", "--when-stuck", "skip"], "no order of messages goes along|none can be left out"),
])
def test_what_cannot_be_done(options, says, study, recorder, tmp_path):
    directory, failed, passed = study
    words = [word.format(failed=failed, passed=passed) for word in options]
    done = recorder.run([recorder.friday, "force", directory, *words, "-o", tmp_path / "out"], timeout=60)
    assert done.returncode not in (0, 1) and any(each in done.stderr for each in says.split("|")), done
    assert not (tmp_path / "out").exists()


def test_a_search_that_was_killed_is_told(study, recorder, tmp_path):
    directory, failed, _ = study
    (tmp_path / "out.search").mkdir()
    done = recorder.run([recorder.friday, "force", directory, str(failed), "--minimise", "-o", tmp_path / "out"], timeout=60)
    assert done.returncode == 2 and "is there already" in done.stderr, done
    assert (tmp_path / "out.search").exists()
