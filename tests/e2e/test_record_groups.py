"""The order of a group: who waits for whom at the start, who is stopped first, and what a group file does to nodes as they run."""

import itertools
import re
import socket
import time

import pytest
from conftest import SLOWNESS
from debug_support import friday
from record_support import PYTHON

# Opens its port only after a while, and says how many connections it was given until it is stopped.
LATE_SERVER = """
import signal, socket, sys, time
time.sleep(0.6)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
listener.settimeout(0.05)
count, stop = 0, []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
while not stop:
    try:
        peer, _ = listener.accept()
    except TimeoutError:
        continue
    count += 1
    peer.sendall(b"hello")
    peer.close()
print(count, "connections")
"""
CLIENT = """
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(peer.recv(10).decode())
"""
# Says when it is told to stop.
STOPPED = "import signal, time, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print(time.monotonic()), sys.exit(0)))\nprint('up', flush=True)\ntime.sleep(60)"


def python(name, code, *arguments, **keys):
    return {"name": name, "command": [PYTHON, "-c", code, *arguments], "stdout": f"{name}.out", **keys}


def output(recording, name):
    return (recording.path / f"{name}.out").read_text()


def test_clients_wait_until_the_port_is_open(recorder):
    recording = recorder.group({"group": {"stop_when_ends": "client", "stop_order": ["client"]}, "node": [
        python("server", LATE_SERVER, "{port:s}", ready="port {port:s}"),
        python("client", CLIENT, "{port:s}", after=["server"])]})
    assert recording.returncode == 0, recording.stderr
    assert output(recording, "client") == "hello\n"
    assert output(recording, "server") == "1 connections\n", "who waits for the port must not connect to it"
    recorder.verify(recording)


def test_later_nodes_wait_for_output_and_for_an_end(recorder, tmp_path):
    """Without `after`, a node waits for those before it that say when they are ready."""
    flag = tmp_path / "made"
    make = f"import pathlib, time\ntime.sleep(0.3)\npathlib.Path({str(flag)!r}).write_text('x')"
    see = f"import pathlib, time\nassert pathlib.Path({str(flag)!r}).exists()\nprint('started', flush=True)\ntime.sleep(0.3)\nprint('ser', end='', flush=True)\ntime.sleep(0.1)\nprint('ving 7', flush=True)\ntime.sleep(60)"
    recording = recorder.group({"group": {"stop_when_ends": "last"}, "node": [
        python("init", make, ready="exit"), python("server", see, ready="output serving [0-9]+"),
        python("last", "print(open('{recording}/server.out').read())")]})
    assert recording.returncode == 0, recording.stderr
    assert "serving 7" in output(recording, "last")


@pytest.mark.parametrize("code, ready, limit, why, exit_code", [
    ("import time; time.sleep(60)", "output never", 0.4, '"output never"\\) after ready_timeout = 0.4 s', 124),
    ("import sys; sys.exit(3)", "output never", 20, 'ended before it was ready \\("output never"\\): exit 3', 3),
    ("import sys; sys.exit(0)", "output never", 20, 'ended before it was ready \\("output never"\\): exit 0', 1),
    ("import sys; sys.exit(3)", "exit", 20, 'ended before it was ready \\("exit"\\): exit 3', 3)])
def test_who_is_not_ready_is_named(recorder, tmp_path, code, ready, limit, why, exit_code):
    started = tmp_path / "started"
    recording = recorder.group({"node": [python("server", code, ready=ready, ready_timeout=limit),
                                         python("client", f"open({str(started)!r}, 'w')")]})
    assert recording.returncode == exit_code and re.search("server (was not ready|ended before)", recording.stderr), recording.stderr
    assert re.search(why, recording.stderr), recording.stderr
    assert not started.exists()
    recorder.none_left()


def test_a_port_that_another_program_has_is_named(recorder):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        recording = recorder.group({"node": [python("server", "pass", ready=f"port {port}")]})
    assert recording.returncode == 2 and f"port {port} is open before the node has started" in recording.stderr


def test_programs_stop_in_order(recorder):
    nodes = [python(name, STOPPED, ready="output up") for name in ("server", "proxy", "client")]
    recording = recorder.group({"group": {"stop_when_ends": "end", "stop_order": ["client", "proxy"]}, "node": [*nodes, python("end", "pass")]})
    assert recording.returncode == 0, recording.stderr
    times = {name: float(output(recording, name).split()[1]) for name in ("server", "proxy", "client")}
    assert sorted(times, key=times.get) == ["client", "proxy", "server"]


def test_the_last_messages_arrive(recorder):
    start = time.monotonic()
    recording = recorder.group({"group": {"stop_when_ends": "end", "linger": 0.7},
                                "node": [python("server", STOPPED, ready="output up"), python("end", "import time; print(time.monotonic())")]})
    assert recording.returncode == 0, recording.stderr
    stopped = float(output(recording, "server").split()[1])
    assert stopped - float(output(recording, "end")) >= 0.7 and stopped - start < 20


def test_input_comes_from_a_file(recorder, tmp_path):
    (tmp_path / "in").write_text("from a file\n")
    recording = recorder.group({"node": [{"name": "cat", "command": ["/bin/cat"], "stdin": str(tmp_path / "in"), "stdout": "cat.out"}]})
    assert output(recording, "cat") == "from a file\n"
    recording = recorder.group({"node": [{"name": "cat", "command": ["/bin/cat"], "stdin": "/absent"}]})
    assert recording.returncode == 2 and "node cat: stdin: " in recording.stderr and "/absent" in recording.stderr


# One write a line: a kill between a number and its end of line would join it to the restarted node's first.
COUNTER = "import os, time\nfor i in range(2000):\n    os.write(1, f'{time.monotonic()}\\n'.encode())\n    time.sleep(0.02)"


def test_events_happen_to_nodes_and_are_marks(recorder):
    recording = recorder.group({"group": {"stop_after": 4.5}, "node": [python("n", COUNTER)],
                                "event": [{"at": 2.2, "continue": "n"}, {"at": 1.2, "stop": "n"}, {"at": 3, "kill": ["n"]}, {"at": 3.4, "restart": "n"}]})
    assert recording.returncode == 0, recording.stderr
    times = [float(line) for line in output(recording, "n").split()]
    info = recorder.info(recording)
    first, second = info["nodes"]
    assert (first["name"], second["name"]) == ("n", "n#2")
    assert first["signal"] == 9 and "exit_code" not in first
    assert [(step["what"], step["name"]) for step in info["steps"]] == [("stop", "n"), ("continue", "n"), ("kill", "n"), ("restart", "n#2")]
    seconds = [step["seconds"] for step in info["steps"]]
    assert seconds == sorted(seconds) and seconds[0] > 0.5
    gap = max(b - a for a, b in itertools.pairwise(times))
    assert gap >= seconds[1] - seconds[0] - 0.05 > 0, "it wrote while it was stopped"
    data = friday.Recording(recording.path).steps()
    assert [(step.what, step.node.name, step.position) for step in data] == [(step["what"], step["name"], step["position"]) for step in info["steps"]]
    assert [float(step.time) for step in data] == pytest.approx(seconds)
    last = friday.Recording(recording.path).time("n", first["events"] - 1)
    assert abs(float(data[2].time) - float(last)) < 1, "it was killed soon behind its last event"
    text = recorder.run([recorder.friday, "info", recording.path]).stdout
    assert "friday record did: kill node 0 n\n" in text
    before, behind = (recorder.run([recorder.friday, "replay", recording.path, "-ex", f"goto {place:.6f}", "-ex", "why 0", "-ex", "info time"]).stdout
                      for place in (seconds[0] - 0.1, seconds[1] + 0.05))
    assert "friday record did" not in before, "it had done nothing yet"
    assert behind.count(f"friday record did to node 0 at {seconds[1]:.3f} s: continue (`info steps` has all)\n") == 2, behind
    recorder.verify(recording)


def test_an_event_for_a_node_that_has_ended_is_said(recorder):
    late = round(SLOWNESS, 1)
    short, long = ({"name": name, "command": command} for name, command in (("short", ["/bin/true"]), ("long", ["/bin/sleep", "600"])))
    recording = recorder.group({"group": {"stop_after": late + 0.2}, "node": [short, long], "event": [{"at": late, "kill": "short"}]})
    assert recording.returncode == 0 and re.search(r"event at [\d.]+: kill short: it does not run", recording.stderr)


def test_exit_codes_are_numbers(recorder):
    recording = recorder.group({"node": [python("a", "import sys; sys.exit(7)"), python("b", "import os; os.kill(os.getpid(), 15)"), python("c", "pass")]})
    a, b, c = recorder.info(recording)["nodes"]
    assert (a["exit_code"], b["signal"], c["exit_code"]) == (7, 15, 0)
