"""Statically linked programs that others have built: a shell of busybox, nodes in Go that gossip by TCP, answer HTTP and collect
garbage, and a primary and its replica in Rust, under load by clients that are not recorded."""

import http.client
import os
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import ROOT, answers, free_ports, wait_until
from programs import TIMES, check, need

pytestmark = pytest.mark.full

SCRIPT = r"""#!/bin/busybox sh
i=0
while [ $i -lt 10 ]; do busybox echo $i | busybox tr 0-9 a-j; i=$((i+1)); done
busybox readlink /proc/self/exe
/bin/echo dynamic
exec busybox sh -c 'echo last $0' word
"""


def test_shell_of_busybox(recorder, tmp_path):
    need("busybox-static")
    script = tmp_path / "script"
    script.write_text(SCRIPT.replace("/bin/busybox", os.path.realpath("/bin/busybox")))
    script.chmod(0o700)
    alone = subprocess.run([script], capture_output=True, text=True, timeout=60)
    assert alone.returncode == 0 and alone.stdout.endswith("dynamic\nlast word\n"), alone
    recording = recorder.record([script], name="it", options=["--state-hash"])
    assert recording.returncode == 0 and recording.stdout == alone.stdout, recording
    check(recorder, recording, times=10)


class Client:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, path):
        self.connection.request("GET", path)
        return self.connection.getresponse().read().decode().strip()


def work(port, number):
    client = Client(port)
    for i in range(30):
        client.ask(f"/put?key=k{number}-{i % 10}&value=v{i}")
        assert client.ask(f"/get?key=k{number}-{i % 10}") == f"v{i}"


@pytest.fixture
def gossip(tmp_path):
    """The program, stripped, as upstream builds are, or not."""
    need("golang-go")

    def build(*options):
        program = tmp_path / "gossip"
        environment = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": ""}
        subprocess.run(["go", "build", *options, "-o", program, ROOT / "tests" / "e2e" / "servers" / "gossip.go"], env=environment,
                       check=True, timeout=400)
        return program

    return build


QUESTIONS = """0 break main.learn
continue
0 bt 2
0 info args
0 watch main.changes
continue
"""


@pytest.mark.limit(900)
@pytest.mark.parametrize("options", [["-ldflags=-s -w"], ["-gcflags=-N -l"]], ids=["stripped", "unoptimised"])
def test_three_nodes_in_go(recorder, gossip, friday, options):
    program = str(gossip(*options))
    ports = free_ports(6)
    clients, peers = ports[:3], [f"127.0.0.1:{port}" for port in ports[3:]]
    running = recorder.start_record({"node": [
        {"name": f"n{i}", "command": [program, f"127.0.0.1:{clients[i]}", peers[i], *peers[:i], *peers[i + 1:]]} for i in range(3)]}, name=None)
    for port in clients:
        wait_until(lambda: answers(port) or not running.alive(), f"no server at {port}", 60)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: work(clients[number % 3], number), range(6)))
    askers = [Client(port) for port in clients]

    def all_know():
        return all(asker.ask(f"/get?key=k{number}-{key}") == f"v{20 + key}" for asker in askers for number in range(6) for key in range(10))

    wait_until(all_know, "the nodes do not agree", 60)
    for asker in askers:
        asker.ask("/stop")
    recording = recorder.finish_record(running, 120)
    assert recording.returncode == 0, recording
    nodes = recorder.info(recording)["nodes"]
    assert [node["program"] for node in nodes] == [program] * 3
    assert all(node["call_sites"]["patched"] > 0 and node["threads"] > 3 for node in nodes), nodes
    check(recorder, recording, times=TIMES)
    if "-gcflags=-N -l" in options:
        asked = subprocess.run([friday, "replay", recording.path], input=QUESTIONS, capture_output=True, text=True, timeout=120)
        assert re.search(r"#0 +main\.learn \(news=.*\) at .*gossip\.go:\d+\n.*#1 .* in main\.", asked.stdout), asked
        assert re.search(r'news = \{Key = 0x[0-9a-f]+ "k\d-\d", entry = \{Value = 0x[0-9a-f]+ "v\d+", Version = \d+\}\}', asked.stdout), asked
        assert "main.changes: 0 -> 1" in asked.stdout, asked


class Asker:
    """A client of the table in Rust."""

    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=60).makefile("rw")

    def ask(self, line):
        self.stream.write(line + "\n")
        self.stream.flush()
        return self.stream.readline().strip()


def put_and_get(port, number):
    asker = Asker(port)
    for i in range(200):
        assert asker.ask(f"PUT k{number}-{i % 10} v{i}") == "OK"
        assert asker.ask(f"GET k{number}-{i % 10}") == f"v{i}"


QUESTIONS_IN_RUST = """0 break copied::Server::store
continue
0 info args
0 print self.table.data.value.changes
0 watch self.table.data.value.changes
delete 1
continue
"""


@pytest.mark.limit(900)
@pytest.mark.parametrize("options", [["-O", "-C", "relocation-model=static", "-C", "strip=symbols"], ["-g", "-C", "opt-level=0"]], ids=["stripped", "unoptimised"])
def test_a_primary_and_its_replica_in_rust(recorder, tmp_path, friday, options):
    need("rustc")
    program = tmp_path / "copied"
    subprocess.run(["/usr/bin/rustc", "--edition", "2021", "-C", "target-feature=+crt-static", *options, "-o", program, ROOT / "tests" / "e2e" / "servers" / "copied.rs"],
                   check=True, timeout=400)
    first, second = free_ports(2)
    running = recorder.start_record({"node": [
        {"name": "replica", "command": [str(program), str(second)], "ready": f"port {second}"},
        {"name": "primary", "command": [str(program), str(first), f"127.0.0.1:{second}"], "after": ["replica"]}]}, name=None)
    wait_until(lambda: answers(first) or not running.alive(), "the primary does not listen", 60)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: put_and_get(first, number), range(6)))
    replica = Asker(second)
    assert replica.ask("WAIT 1200") == "OK" and replica.ask("GET k3-7") == "v197"
    replica.ask("STOP")
    Asker(first).ask("STOP")
    recording = recorder.finish_record(running, 120)
    assert recording.returncode == 0, recording
    nodes = recorder.info(recording)["nodes"]
    assert [node["program"] for node in nodes] == [str(program)] * 2
    assert all(node["call_sites"]["patched"] > 0 and node["threads"] > 1 for node in nodes), nodes
    check(recorder, recording, times=TIMES)
    if "-g" in options:
        asked = subprocess.run([friday, "replay", recording.path], input=QUESTIONS_IN_RUST, capture_output=True, text=True, timeout=120)
        assert re.search(r'key = "k\d-0"\n.*value = "v0"', asked.stdout), asked
        assert "$1 = 0" in asked.stdout and "self.table.data.value.changes: 0 -> 1" in asked.stdout, asked
