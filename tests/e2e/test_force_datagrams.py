"""`friday force` holds datagrams of UDP back, too: from connected sockets and others, to servers with one thread and with several, on one host and
across hosts of a network."""

import json

import pytest
from conftest import toml
from test_force import PYTHON, force, heard

pytestmark = pytest.mark.limit(200)
SERVER = r"""
import queue, socket, sys, threading
how, address, port, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((address, port))
print("listening", flush=True)
heard, lock = [], threading.Lock()
def work():
    while True:
        with lock:
            if len(heard) == wanted: return
            data, peer = sock.recvfrom(1000)
            heard.append(data.decode())
        sock.sendto(b"ok", peer)
if how == "loop": work()
else:
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print("heard " + ", ".join(heard), flush=True)
"""
CLIENT = r"""
import socket, sys, time
address, port, how, wait = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if how == "connected": sock.connect((address, port))
time.sleep(wait)
for word in sys.argv[5:]:
    if how == "connected": sock.send(word.encode())
    elif how == "sendmsg": sock.sendmsg([word[:2].encode(), word[2:].encode()], [], 0, (address, port))
    else: sock.sendto(word.encode(), (address, port))
for word in sys.argv[5:]: assert sock.recv(100) == b"ok"
"""


def group_of(tmp_path, server, clients, network=None):
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    place = ["{address:server}", "7000"] if network else ["127.0.0.1", "{port:server}"]
    words = sum(len(words) for _, _, *words in clients.values())
    nodes = [{"name": "server", "command": [PYTHON, str(tmp_path / "server.py"), server, *place, str(words)], "ready": "output listening", "stdout": "server.out"}]
    nodes += [{"name": name, "command": [PYTHON, str(tmp_path / "client.py"), *place, how, wait, *words], "after": ["server"]} for name, (how, wait, *words) in clients.items()]
    path = tmp_path / "group.toml"
    path.write_text(toml({"group": {"timeout": 60, "stop_when_ends": "server"}, **({"network": network} if network else {}), "node": nodes}))
    return path


@pytest.mark.parametrize("how", ["connected", "sendto", "sendmsg"])
@pytest.mark.parametrize("server", ["loop", "threads"])
@pytest.mark.parametrize("options", [[], ["--record"]], ids=["schedule", "recorded"])
def test_an_order_of_datagrams(options, server, how, recorder, tmp_path):
    """The client that speaks a third of a second later is heard first."""
    group = group_of(tmp_path, server, {"early": (how, "0", "early"), "late": (how, "0.3", "late")})
    done = force(recorder, tmp_path, group, [("late", "server", "late"), ("early", "server", "early")], *options)
    assert done.returncode == 0, done
    assert heard(tmp_path, 3) == ["late", "early"]
    if options:
        recorder.verify(tmp_path / "forced" / "run-3")
    recorder.none_left()


def test_across_hosts(recorder, tmp_path):
    group = group_of(tmp_path, "loop", {"early": ("sendto", "0", "early"), "late": ("connected", "0.3", "late")}, {"subnet": "10.77.0.0/24", "delay_ms": 25})
    done = force(recorder, tmp_path, group, [("late", "server", "late"), ("early", "server", "early")])
    assert done.returncode == 0, done
    assert heard(tmp_path, 3) == ["late", "early"]
    recorder.none_left()


def test_what_is_behind_a_datagram_overtakes_it(recorder, tmp_path):
    """Only the one that must wait does."""
    group = group_of(tmp_path, "loop", {"early": ("connected", "0", "one", "early", "two"), "late": ("connected", "0.3", "late")})
    done = force(recorder, tmp_path, group, [("late", "server", "late"), ("early", "server", "early")])
    assert done.returncode == 0, done
    assert heard(tmp_path, 3) == ["one", "two", "late", "early"]


def test_the_second_of_two_equal_ones(recorder, tmp_path):
    """Both are the same text to the same socket; what waits for the second one is not let go by the first one."""
    group = group_of(tmp_path, "loop", {"first": ("connected", "0.1", "same", "same"), "early": ("connected", "0", "early")})
    order = {"exact": [{"from": "first", "to": "server", "text": "same", "number": 2},
                       {"from": "early", "to": "server", "text": "early", "after": [{"message": 1, "until": "handled"}]}]}
    (tmp_path / "order.json").write_text(json.dumps(order))
    done = recorder.run([recorder.friday, "force", "--order", tmp_path / "order.json", "--group", group, "-o", tmp_path / "forced", "-n", "5", "--json"], timeout=120)
    assert done.returncode == 0 and json.loads(done.stdout)["forced"] == 5, done
    assert heard(tmp_path, 5) == ["same", "same", "early"]


def test_nobody_receives(recorder, tmp_path):
    """To an address that nobody has: given up after the patience, and everything is let go."""
    group = group_of(tmp_path, "loop", {"early": ("connected", "0", "early"), "late": ("connected", "0.3", "late")})
    nowhere = """import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"into the void", ("127.0.0.1", int(sys.argv[1])))
"""
    (tmp_path / "nowhere.py").write_text(nowhere)
    group.write_text(group.read_text() + toml({"node": [{"name": "nowhere", "command": [PYTHON, str(tmp_path / "nowhere.py"), "{port:nobody}"], "after": ["server"]}]}))
    done = force(recorder, tmp_path, group, [("nowhere", "server", "into the void"), ("early", "server", "early")], "--patience", "1", times=1)
    result = json.loads(done.stdout)
    assert done.returncode == 1 and result["forced"] == 0 and "1 s have passed without" in result["not_forced"][0]["why"], done
    assert sorted(heard(tmp_path, 1)) == ["early", "late"]
