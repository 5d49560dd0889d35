"""`friday diagnose --scoped`: of a system that others use, too, only what descends from the script's messages is kept and compared."""

import json

import pytest
from conftest import toml
from test_diagnose import diagnose, rows

pytestmark = pytest.mark.limit(200)
PYTHON = "/usr/bin/python3"
# Asks the back end about each request, on a connection of its own.
SERVER = """
import socket, sys, threading
def serve(connection):
    while data := connection.recv(1000):
        with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as back:
            back.sendall(b"look up " + data)
            connection.sendall(back.recv(1000))
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
BACK = """
import socket, sys, threading
def serve(connection):
    while data := connection.recv(1000): connection.sendall(b"is " + data.removeprefix(b"look up "))
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
CLIENT = """
import socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    for turn in range(int(sys.argv[3])):
        connection.sendall(sys.argv[2].encode() + b"\\n")
        assert connection.recv(1000)
        if turn == 0: print("served", flush=True)
        time.sleep(0.01)
"""


def messages(study):
    return (study / "messages" / "run-1").read_bytes()


def test_others_are_left_out(recorder, tmp_path):
    for name, text in (("server", SERVER), ("back", BACK), ("client", CLIENT)):
        (tmp_path / f"{name}.py").write_text(text)
    nodes = [{"name": "back", "command": [PYTHON, str(tmp_path / "back.py"), "{port:back}"], "ready": "output listening", "stdout": "{dir}/back.out"},
             {"name": "server", "command": [PYTHON, str(tmp_path / "server.py"), "{port:server}", "{port:back}"], "ready": "output listening", "stdout": "{dir}/server.out", "after": ["back"]},
             {"name": "other", "command": [PYTHON, str(tmp_path / "client.py"), "{port:server}", "something else", "1000"], "ready": "output served", "stdout": "{dir}/other.out", "after": ["server"]}]
    group = tmp_path / "group.toml"
    group.write_text(toml({"group": {"timeout": 60}, "node": nodes}))
    script = [PYTHON, str(tmp_path / "client.py"), "{port:server}", "my request", "2"]
    for name, options in (("all", []), ("scoped", ["--scoped"])):
        done = diagnose(recorder, tmp_path / name, group, "-n", "1", "--schedule", *options, script=script)
        assert done.returncode == 0 and rows(tmp_path / name)[0]["result"] == "passed", done
    said, scoped = messages(tmp_path / "all"), messages(tmp_path / "scoped")
    for text in (b"my request", b"look up my request", b"is my request", b"something else", b"look up something else"):
        assert text in said, text
        assert (text in scoped) == (b"my request" in text), text
    assert json.loads((tmp_path / "scoped" / "study.json").read_text())["scope"] == "script"
    other = diagnose(recorder, tmp_path / "scoped", group, "-n", "2", "--schedule", script=script)
    assert other.returncode == 2 and "another group, script, predicate, frame or scope" in other.stderr, other
    none = diagnose(recorder, tmp_path / "none", group, "-n", "1", "--scoped")
    assert none.returncode == 2 and "--scoped: there is no script" in none.stderr, none
