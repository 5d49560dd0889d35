"""`friday force --live`: an order comes true among programs that have run on standby for a while, with connections of which nobody has counted
the bytes, some of them unread."""

import json

import pytest
from conftest import toml, wait_until
from test_force import PYTHON, SERVER

pytestmark = pytest.mark.limit(120)

# Says things for a while, and says its word when there is the file.
CLIENT = r"""
import os, socket, sys, time
place, go, word, wait = sys.argv[1:5]
connection = socket.socket(socket.AF_UNIX if place.startswith("/") else socket.AF_INET)
connection.connect(place if place.startswith("/") else ("127.0.0.1", int(place)))
for turn in range(20):
    connection.sendall(b"before\n")
    assert connection.recv(100) == b"ok before\n"
print("ready", flush=True)
while not os.path.exists(go): time.sleep(0.01)
time.sleep(float(wait))
connection.sendall(word.encode() + b"\n")
assert connection.recv(100) == b"ok " + word.encode() + b"\n"
"""
ORDER = {"steps": [{"from": "slow", "to": "server", "text": "late"}, {"from": "quick", "to": "server", "text": "early"}]}


@pytest.fixture
def live(recorder, tmp_path):
    """live(PLACE, HOW the server works): the running recorder, its recording, and the file that makes the clients speak."""
    def start(place="{port:server}", how="loop", env=None):
        go = tmp_path / "go"
        (tmp_path / "server.py").write_text(SERVER)
        (tmp_path / "client.py").write_text(CLIENT)
        nodes = [{"name": "server", "command": [PYTHON, str(tmp_path / "server.py"), how, place, "2"], "ready": "output listening", "stdout": str(tmp_path / "server.out")}]
        nodes += [{"name": name, "command": [PYTHON, str(tmp_path / "client.py"), place, str(go), word, wait], "ready": "output ready", "stdout": str(tmp_path / f"{name}.out"), "after": ["server", *after]}
                  for name, word, wait, after in (("quick", "early", "0", []), ("slow", "late", "0.5", ["quick"]))]
        group = tmp_path / "group.toml"
        group.write_text(toml({"group": {"timeout": 60, "stop_when_ends": "server"}, "node": nodes}))
        rec = tmp_path / "rec"
        running = recorder.start([recorder.friday, "record", "--standby", "-o", rec, "--group", group], env=env)
        wait_until(lambda: all((tmp_path / f"{name}.out").exists() and "ready" in (tmp_path / f"{name}.out").read_text() for name in ("quick", "slow")), "the clients are not ready", 30)
        return running, rec, go
    return start


def stage_of(rec):
    state = rec / "order-state.json"
    return json.loads(state.read_text())["stage"] if state.exists() else ""


def heard(tmp_path):
    return [word for word in (tmp_path / "server.out").read_text().split("heard ")[1].strip().split(", ") if word != "before"]


def force(recorder, tmp_path, rec, *options, order=ORDER):
    (tmp_path / "order.json").write_text(json.dumps(order))
    forcing = recorder.start([recorder.friday, "force", "--order", tmp_path / "order.json", "--live", rec, *options])
    wait_until(lambda: stage_of(rec) == "forcing", "the order is not taken up", 30)
    return forcing


@pytest.mark.parametrize("options", [[], ["--record"]], ids=["schedule", "recorded"])
@pytest.mark.parametrize("place", ["{port:server}", "{dir}/socket"], ids=["tcp", "unix"])
@pytest.mark.parametrize("how", ["loop", "threads"])
def test_an_order_of_running_programs(how, place, options, live, recorder, tmp_path):
    running, rec, go = live(place, how)
    forcing = force(recorder, tmp_path, rec, "--json", *options)
    go.touch()
    done = forcing.finish(30)
    assert done.returncode == 0 and json.loads(done.stdout)["forced"], done
    assert running.finish(30).returncode == 0
    assert heard(tmp_path) == ["late", "early"]
    assert not (rec / "order.json").exists()
    if options:
        assert recorder.run([recorder.friday, "verify", rec]).returncode == 0
    recorder.none_left()


# Before the server answers `nap`, it sleeps until after the clients have spoken, so that what comes behind that stays unread.
NAP = SERVER.replace("def line_of(data, connection):", """import os, time
def line_of(data, connection):
    if b"nap" in data:
        while not os.path.exists("GO"): time.sleep(0.05)
        time.sleep(1)""")
NAPPER = CLIENT.replace('print("ready", flush=True)', """if word == "late":
    connection.sendall(b"nap\\n")
    time.sleep(0.3)
    connection.sendall(b"unread " * 100)
print("ready", flush=True)""").replace("assert connection.recv(100) == b\"ok \" + word", "while word.encode() not in connection.recv(2000): pass\n#")


def test_bytes_that_nobody_had_read(live, recorder, tmp_path, monkeypatch):
    """When the programs are switched on, 700 bytes of one that is to be handled first are in the receiver's buffer."""
    monkeypatch.setitem(globals(), "SERVER", NAP.replace("GO", str(tmp_path / "go")))
    monkeypatch.setitem(globals(), "CLIENT", NAPPER)
    log = tmp_path / "log"
    running, rec, go = live(env={"FRIDAY_LOG": "record=info", "FRIDAY_LOG_FILE": str(log)})
    forcing = force(recorder, tmp_path, rec, "--json")
    go.touch()
    done = forcing.finish(30)
    assert done.returncode == 0 and json.loads(done.stdout)["forced"], (done, log.read_text())
    assert running.finish(30).returncode == 0
    assert "server has counted 700 bytes more than the sender" in log.read_text()
    assert heard(tmp_path)[-1] == "early"


def test_ctrl_c_and_an_order_that_does_not_come(live, recorder, tmp_path):
    """Both let everything go, and the programs are on standby again, ready for another order."""
    running, rec, go = live()
    asleep = lambda: recorder.run([recorder.friday, "live", rec]).stdout.count("on standby") == 3
    forcing = force(recorder, tmp_path, rec)
    forcing.interrupt()
    done = forcing.finish(30)
    assert done.returncode == 130, done
    wait_until(asleep, "not all are on standby", 20)
    never = {"steps": [{"from": "slow", "to": "server", "text": "never"}, {"from": "quick", "to": "server", "text": "early"}]}
    forcing = force(recorder, tmp_path, rec, "--patience", "1.5", order=never)
    go.touch()
    done = forcing.finish(30)
    assert done.returncode == 1 and "the order did not come true: 1.5 s have passed without `never` from slow to server to be sent" in done.stdout, done
    assert running.finish(30).returncode == 0
    assert sorted(heard(tmp_path)) == ["early", "late"]
    recorder.none_left()


def test_one_order_after_the_other(live, recorder, tmp_path):
    running, rec, go = live()
    first = force(recorder, tmp_path, rec)
    first.interrupt()
    assert first.finish(30).returncode == 130
    second = force(recorder, tmp_path, rec)
    go.touch()
    done = second.finish(30)
    assert done.returncode == 0 and "the order came true" in done.stdout, done
    assert running.finish(30).returncode == 0 and heard(tmp_path) == ["late", "early"]


def test_what_cannot_be_forced_live(live, recorder, tmp_path):
    running, rec, go = live()
    (tmp_path / "order.json").write_text(json.dumps(ORDER))
    line = [recorder.friday, "force", "--order", tmp_path / "order.json", "--live"]
    both = recorder.run([*line, rec, "--group", tmp_path / "group.toml"])
    assert both.returncode == 2 and "does not go with" in both.stderr, both
    ends = recorder.run([*line, rec, "--when-stuck", "stop"])
    assert ends.returncode == 2 and "are not ended by an order" in ends.stderr, ends
    none = recorder.run([*line, tmp_path / "none"])
    assert none.returncode == 2 and "no recording" in none.stderr, none
    (tmp_path / "other.json").write_text(json.dumps({"steps": [{"from": "nobody", "to": "server", "text": "late"}, ORDER["steps"][1]]}))
    nobody = recorder.run([recorder.friday, "force", "--order", tmp_path / "other.json", "--live", rec])
    assert nobody.returncode == 2 and "`late` from nobody to server: no program of" in nobody.stderr and "quick, server, slow" in nobody.stderr, nobody
    assert recorder.run([recorder.friday, "live", rec, "schedule"], timeout=30).returncode == 0
    on = recorder.run([*line, rec])
    assert on.returncode == 2 and "is recorded already" in on.stderr, on
    assert recorder.run([recorder.friday, "live", rec, "off"], timeout=30).returncode == 0
    go.touch()
    assert running.finish(30).returncode == 0
    ended = recorder.run([*line, rec])
    assert ended.returncode == 2 and ended.stderr, ended
