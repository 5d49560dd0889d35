"""`friday diagnose --frame`: messages of a protocol that nobody knows, which a client sends together, are told apart as the user says."""

import json

import pytest

pytestmark = pytest.mark.limit(200)
# Each message ends with a semicolon. The last one of those that a client sends together decides how the run ends.
SERVER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
connection = listener.accept()[0]
data = b""
while more := connection.recv(1000): data += more
sys.exit(b"bad" in data.split(b";"))
"""
CLIENT = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
last = b"bad" if int(sys.argv[2]) % 2 else b"good"
connection.sendall(b"first;second;" + last + b";")
"""
GROUP = """[group]
timeout = 30
stop_when_ends = "server"
[[node]]
name = "server"
command = ["/usr/bin/python3", "{place}/server.py", "{{port:server}}"]
ready = "output listening"
stdout = "{{dir}}/server.out"
[[node]]
name = "client"
command = ["/usr/bin/python3", "{place}/client.py", "{{port:server}}", "{{run}}"]
after = ["server"]
"""


@pytest.fixture
def diagnose(recorder, tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "group.toml").write_text(GROUP.format(place=tmp_path))
    return lambda *options, study="study": recorder.run(
        [recorder.friday, "diagnose", "-o", tmp_path / study, "--group", tmp_path / "group.toml", *options], timeout=150)


def contents(recorder, study):
    done = recorder.run([recorder.friday, "compare", study, "--json"])
    assert done.returncode == 0, done.stderr
    return [[message["text"] for message in each["messages"]] for each in json.loads(done.stdout)["contents"]]


def test_they_are_told_apart(recorder, diagnose, tmp_path):
    done = diagnose("-n", "20", "-j", "2", "--frame", "[^;]*;")
    assert done.returncode == 0 and "20 runs: 10 failed, 10 passed" in done.stdout, done.stdout + done.stderr
    found = contents(recorder, tmp_path / "study")
    assert found and found[0] in (["bad;"], ["good;"]), found
    other = diagnose("-n", "30", "--frame", "u16le")
    assert other.returncode == 2 and "another group, script, predicate, frame or scope" in other.stderr
    assert json.loads((tmp_path / "study" / "study.json").read_text())["frame"] == "[^;]*;"


def test_without_it_they_are_one_message(recorder, diagnose, tmp_path):
    assert diagnose("-n", "12", "-j", "2").returncode == 0
    found = contents(recorder, tmp_path / "study")
    assert found and all("first" in text and "second" in text for each in found for text in each), found


def test_what_is_none_is_refused_before_a_run(recorder, diagnose, tmp_path):
    for frame, why in (("([", "a regular expression that matches a message"), ("x*", "no bytes at all")):
        done = diagnose("--frame", frame, "-n", "1", study="none")
        assert done.returncode == 2 and why in done.stderr and not (tmp_path / "none").exists(), (frame, done.stderr)


def test_a_damaged_one_is_said(recorder, diagnose, tmp_path):
    assert diagnose("-n", "2").returncode == 0
    file = tmp_path / "study" / "study.json"
    for frame in ([1], "(["):
        file.write_text(json.dumps({**json.loads(file.read_text()), "frame": frame}))
        done = recorder.run([recorder.friday, "force", tmp_path / "study", "1", "--whole"])
        assert done.returncode == 2 and ("is damaged" in done.stderr or "regular expression" in done.stderr), done.stderr
