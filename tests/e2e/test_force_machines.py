"""`friday force --live --listen` and `--join`: an order among programs of several machines, whose recorders ask one judge. Machines are namespaces
with clocks apart (hosts_support); the programs have talked for a while on standby."""

import json
import os
import re
import signal

import pytest
from conftest import toml, wait_until
from hosts_support import World
from ports import free_ports
from programs import need
from test_force import PYTHON
from test_force_hosts import WAITING, make_load
from test_force_live import stage_of

pytestmark = pytest.mark.limit(120)

# Tells in which order it has taken up what its clients said.
SERVER = r"""
import selectors, socket, sys, threading
how, address, port, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
listener = socket.create_server((address, port))
print("listening", flush=True)
lock, heard = threading.Lock(), []
def answer(data, connection):
    with lock: heard.extend(line for line in data.decode().split() if line != "before")
    connection.sendall(b"ok " + data)
if how == "loop":
    selector, ends = selectors.DefaultSelector(), 0
    selector.register(listener, selectors.EVENT_READ)
    while ends < wanted:
        for key, _ in selector.select():
            if key.fileobj is listener: selector.register(listener.accept()[0], selectors.EVENT_READ); continue
            data = key.fileobj.recv(65536)
            if data: answer(data, key.fileobj)
            else: selector.unregister(key.fileobj); key.fileobj.close(); ends += 1
else:
    def serve(connection):
        while data := connection.recv(65536): answer(data, connection)
    threads = []
    for _ in range(wanted):
        threads.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
        threads[-1].start()
    for thread in threads: thread.join()
print("heard " + ", ".join(heard), flush=True)
"""
CLIENT = r"""
import os, socket, sys, time
address, port, go, word, wait = sys.argv[1:6]
connection = socket.create_connection((address, int(port)))
for turn in range(20):
    connection.sendall(b"before\n")
    assert connection.recv(100) == b"ok before\n"
print("ready", flush=True)
while not os.path.exists(go): time.sleep(0.01)
time.sleep(float(wait))
connection.sendall(word.encode() + b"\n")
assert connection.recv(100) == b"ok " + word.encode() + b"\n"
print("done", flush=True)
"""
ORDER = {"steps": [{"from": "slow", "to": "server", "text": "late"}, {"from": "quick", "to": "server", "text": "early"}]}


class Here:
    """The test's own machine, as a host of hosts_support."""
    address = "127.0.0.1"

    def __init__(self, recorder):
        self.start = recorder.start


class Machine:
    """A host, and a program on standby in a recording of its own."""

    def __init__(self, recorder, host, name, command):
        self.recorder, self.host, self.name = recorder, host, name
        self.rec, self.out = recorder.directory / f"rec-{name}", recorder.directory / f"{name}.out"
        group = recorder.directory / f"{name}.toml"
        group.write_text(toml({"group": {"timeout": 100}, "node": [{"name": name, "command": list(map(str, command)), "stdout": str(self.out)}]}))
        self.recording = host.start([recorder.friday, "record", "-q", "--standby", "-o", self.rec, "--group", group])

    def said(self):
        return self.out.read_text() if self.out.exists() else ""

    def force(self, *options):
        return self.host.start([self.recorder.friday, "force", "--live", self.rec, *options])


@pytest.fixture
def machines(recorder, tmp_path):
    """machines(HOW the server works, a function that makes hosts): server, quick and slow, which speak when tmp_path/go is there."""
    def start(how="loop", host=None, port=7000):
        (tmp_path / "server.py").write_text(SERVER)
        (tmp_path / "client.py").write_text(CLIENT)
        (tmp_path / "order.json").write_text(json.dumps(ORDER))
        if not host:
            world = World(recorder)
            host = lambda name, ahead: world.host(name, ahead=ahead)
        place = host("server", 0)
        server = Machine(recorder, place, "server", [PYTHON, tmp_path / "server.py", how, place.address, port, 2])
        wait_until(lambda: "listening" in server.said(), "the server does not listen", 30)
        clients = [Machine(recorder, host(name, ahead), name, [PYTHON, tmp_path / "client.py", place.address, port, tmp_path / "go", word, wait])
                   for name, ahead, word, wait in (("quick", 1000, "early", 0), ("slow", -1000, "late", 0.5))]
        wait_until(lambda: all("ready" in client.said() for client in clients), "the clients are not ready", 30)
        return server, *clients
    return start


def line_with(running, text):
    said = []
    while line := running.process.stdout.readline():
        if text in line:
            return line
        said.append(line)
    pytest.fail(f"the command ended without \"{text}\": {said} {running.finish(10).stderr}")


def begin(listener, others, tmp_path, *options, roles="quick, server, slow"):
    """The commands, once all programs take part."""
    forcing = [listener.force("--order", tmp_path / "order.json", "--listen", f"{listener.host.address}:0", *options)]
    place = re.search(r"--join (\S+)", line_with(forcing[0], "--join"))[1]
    forcing += [other.force("--join", place) for other in others]
    line_with(forcing[0], f"{roles} take part")
    return forcing


def none_left(recorder):
    """Of the hosts, only what holds their namespaces is there."""
    programs = lambda: [command for command in recorder.processes().values() if not command.startswith("unshare ") and command.strip() != "cat"]
    wait_until(lambda: not programs(), f"processes were left behind: {programs()}", 20)


def check_all_end(recorder, *machines):
    for machine in machines:
        assert machine.recording.finish(30).returncode == 0, machine.name
    none_left(recorder)


@pytest.mark.parametrize("how", ["loop", "threads"])
@pytest.mark.parametrize("at", ["server", "quick"])
def test_an_order_across_machines(at, how, machines, recorder, tmp_path):
    """The client that speaks half a second later is heard first, whoever has the judge."""
    server, quick, slow = machines(how)
    listener = {"server": server, "quick": quick}[at]
    forcing = begin(listener, [each for each in (server, quick, slow) if each is not listener], tmp_path)
    (tmp_path / "go").touch()
    for each in forcing:
        done = each.finish(30)
        assert done.returncode == 0 and "the order came true" in done.stdout, done
    check_all_end(recorder, server, quick, slow)
    assert "heard late, early" in server.said()


def test_nothing_is_lost_under_load(recorder, tmp_path):
    """200,000 requests over 100 connections from one machine to another; ten of them wait for a client on a third one."""
    need("redis-server")
    make_load(tmp_path)
    world, go = World(recorder), tmp_path / "go"
    place = world.host("redis")
    redis = Machine(recorder, place, "redis", ["redis-server", "--port", 7000, "--bind", place.address, "--save", "", "--protected-mode", "no"])
    world.connects(place, place.address, 7000)
    load = Machine(recorder, world.host("load", ahead=1000), "load", [tmp_path / "load", place.address, go])
    late = Machine(recorder, world.host("late", ahead=-1000), "late", [PYTHON, tmp_path / "late.py", place.address, 2, go])
    asleep = lambda machine: "on standby" in machine.host.start([recorder.friday, "live", machine.rec]).finish(20).stdout
    wait_until(lambda: all(asleep(machine) for machine in (redis, load, late)), "the programs have not started", 30)
    (tmp_path / "order.json").write_text(json.dumps({"steps": [{"from": from_, "to": to, "text": text} for from_, to, text in WAITING]}))
    forcing = begin(redis, [load, late], tmp_path, roles="late, load, redis")
    go.touch()
    for each in forcing:
        done = each.finish(60)
        assert done.returncode == 0 and "the order came true" in done.stdout, done
    for machine in (load, late):
        assert machine.recording.finish(60).returncode == 0, machine.name
    assert load.said().startswith("200000 answers"), load.said()
    os.kill(redis.recording.pid, signal.SIGTERM)
    done = redis.recording.finish(30)
    assert done.returncode == 0, done
    # Redis overwrites its environment, so it is not found by what that has.
    assert not any("redis-server" in command for command in place.processes()), done
    none_left(recorder)


@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_a_host_that_vanishes(how, machines, recorder, tmp_path):
    """While its message is waited for: everything is let go, on all machines, and nothing is lost."""
    server, quick, slow = machines()
    forcing = begin(server, [quick, slow], tmp_path)
    if how == "killed":
        os.kill(slow.recording.pid, signal.SIGKILL)
    else:
        slow.host.run(["ip", "link", "set", "eth0", "down"])
    (tmp_path / "go").touch()
    done = forcing[0].finish(40)
    assert done.returncode == 1 and f"the recorder of {slow.host.address} (slow) has vanished" in done.stdout, done
    assert forcing[1].finish(30).returncode == 1
    wait_until(lambda: "done" in quick.said(), "what was held back did not come", 30)
    if how == "cut off":
        done = forcing[2].finish(40)
        assert done.returncode == 1 and "the connection to the judge at" in done.stdout, done
        slow.host.run(["ip", "link", "set", "eth0", "up"])
        slow.host.run(["ip", "route", "add", "default", "via", slow.host.gateway])
    wait_until(lambda: "heard" in server.said(), "the server waits", 40)
    assert "early" in server.said() and "late" in server.said()


def test_the_judge_dies(machines, recorder, tmp_path):
    server, quick, slow = machines()
    forcing = begin(slow, [server, quick], tmp_path)
    os.kill(forcing[0].pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    for each in forcing[1:]:
        done = each.finish(30)
        assert done.returncode == 1 and "the connection to the judge at" in done.stdout, done
    check_all_end(recorder, server, quick, slow)
    assert sorted(server.said().split("heard ")[1].strip().split(", ")) == ["early", "late"]


def test_ctrl_c_lets_all_go(machines, recorder, tmp_path):
    server, quick, slow = machines()
    forcing = begin(server, [quick, slow], tmp_path)
    forcing[0].interrupt()
    assert forcing[0].finish(30).returncode == 130
    for each in forcing[1:]:
        done = each.finish(30)
        assert done.returncode == 1 and "it was called off" in done.stdout, done
    (tmp_path / "go").touch()
    check_all_end(recorder, server, quick, slow)


def test_who_may_join(machines, recorder, tmp_path):
    server, quick, slow = machines()
    nobody = quick.force("--join", f"{server.host.address}:1/key").finish(30)
    assert nobody.returncode == 2 and "Connection refused" in nobody.stderr, nobody
    unclear = quick.force("--join", "somewhere").finish(30)
    assert unclear.returncode == 2 and "HOST:PORT/KEY" in unclear.stderr, unclear
    both = quick.force("--join", "a:1/b", "--order", tmp_path / "order.json").finish(30)
    assert both.returncode == 2 and both.stderr, both
    forcing = server.force("--order", tmp_path / "order.json", "--listen", "0.0.0.0:0")
    place = re.search(r"--join \S+:(\d+)/(\S+)", line_with(forcing, "--join"))
    wrong = quick.force("--join", f"{server.host.address}:{place[1]}/{'0' * 32}").finish(30)
    assert wrong.returncode == 2 and "the key is another one" in wrong.stderr, wrong
    for garbage in ("b'GET / HTTP/1.1\\r\\n\\r\\n'", "b'[' * 1000000 + b'\\n'", "b'{\"is\": \"hello\", \"key\": 7}\\n'", "b'\\0' * 1000000"):
        script = f"import socket; s = socket.create_connection(('{server.host.address}', {place[1]})); s.settimeout(10)\ntry:\n s.sendall({garbage})\n while s.recv(1000): pass\nexcept ConnectionError: pass"
        quick.host.run([PYTHON, "-c", script])
    wait_until(lambda: stage_of(server.rec) == "forcing", "the order is not taken up", 20)
    assert forcing.alive()
    joined = [each.force("--join", f"{server.host.address}:{place[1]}/{place[2]}") for each in (quick, slow)]
    line_with(forcing, "quick, server, slow take part")
    (tmp_path / "go").touch()
    for each in (forcing, *joined):
        assert each.finish(30).returncode == 0
    check_all_end(recorder, server, quick, slow)


def test_three_recorders_of_one_machine(machines, recorder, tmp_path):
    """They join in the same way, over the loopback device."""
    server, quick, slow = machines(host=lambda *_: Here(recorder), port=free_ports(1)[0])
    forcing = begin(quick, [server, slow], tmp_path)
    (tmp_path / "go").touch()
    for each in forcing:
        assert each.finish(30).returncode == 0
    check_all_end(recorder, server, quick, slow)
    assert "heard late, early" in server.said()
