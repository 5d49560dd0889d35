"""`friday force`: messages are held back at their senders until an order comes true, on servers that do not know of it. Nothing is lost or reordered
inside a connection, and an order that cannot come true is told, with everything let go."""

import json
import signal

import pytest
from conftest import ROOT, toml, wait_until

pytestmark = pytest.mark.limit(300)
PYTHON = "/usr/bin/python3"
BOOKING = ROOT / "tests" / "apps" / "booking"

# A server that tells in which order it has taken up what its clients said. `loop`: one thread and epoll; `threads`: one for each client.
SERVER = r"""
import selectors, socket, sys, threading
how, place, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_UNIX if place.startswith("/") else socket.AF_INET
listener = socket.socket(family)
if family == socket.AF_INET: listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(place if family == socket.AF_UNIX else ("127.0.0.1", int(place)))
listener.listen()
print("listening", flush=True)
lock, heard, ended = threading.Lock(), [], []
def hear(text):
    with lock: heard.append(text)
def line_of(data, connection):
    hear(data.decode().strip())
    connection.sendall(b"ok " + data)
def finish():
    print("heard " + ", ".join(heard), flush=True)
    sys.exit(0)
if how == "loop":
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    ends = 0
    while ends < wanted:
        for key, _ in selector.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ)
            else:
                data = key.fileobj.recv(65536)
                if data: line_of(data, key.fileobj)
                else: selector.unregister(key.fileobj), key.fileobj.close(); ends += 1
else:
    def serve(connection):
        while data := connection.recv(65536): line_of(data, connection)
    threads = []
    for _ in range(wanted):
        threads.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
        threads[-1].start()
    for thread in threads: thread.join()
finish()
"""
CLIENT = r"""
import socket, sys, time
place, words = sys.argv[1], sys.argv[2:]
connection = socket.socket(socket.AF_UNIX if place.startswith("/") else socket.AF_INET)
connection.connect(place if place.startswith("/") else ("127.0.0.1", int(place)))
for word in words:
    if word.startswith("sleep="): time.sleep(float(word[6:])); continue
    connection.sendall(word.encode() + b"\n")
    assert connection.recv(100) == b"ok " + word.encode() + b"\n"
"""


def write_group(path, stop_when_ends, nodes):
    path.write_text(toml({"group": {"timeout": 60, "stop_when_ends": stop_when_ends}, "node": nodes}))
    return path


def group_of(tmp_path, how, clients, place="{port:server}", others=()):
    """One server, and clients that send words one after the other."""
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    nodes = [{"name": "server", "command": [PYTHON, str(tmp_path / "server.py"), how, place, str(len(clients) + len(others))], "ready": "output listening", "stdout": "server.out"}]
    nodes += [{"name": name, "command": [PYTHON, str(tmp_path / "client.py"), place, *words], "after": ["server"]} for name, words in clients.items()]
    return write_group(tmp_path / "group.toml", "server", [*nodes, *others])


def force(recorder, tmp_path, group, steps, *options, kept_out=(), times=3, timeout=120):
    order = tmp_path / "order.json"
    named = lambda messages: [dict(zip(("from", "to", "text"), message)) for message in messages]
    order.write_text(json.dumps({"steps": named(steps), "kept_out": named(kept_out)}))
    return recorder.run([recorder.friday, "force", "--order", order, "--group", group, "-o", tmp_path / "forced", "-n", str(times), "--json", *options], timeout=timeout)


def heard(tmp_path, run):
    text = (tmp_path / "forced" / f"run-{run}" / "server.out").read_text()
    return text.splitlines()[-1].removeprefix("heard ").split(", ")


@pytest.mark.parametrize("options", [[], ["--record"]], ids=["schedule", "recorded"])
@pytest.mark.parametrize("place", ["{port:server}", "{dir}/socket"], ids=["tcp", "unix"])
@pytest.mark.parametrize("how", ["loop", "threads"])
def test_what_comes_first_is_handled_last(how, place, options, recorder, tmp_path):
    """`slow` speaks half a second after `quick`, and is heard before it."""
    group = group_of(tmp_path, how, {"quick": ["early"], "slow": ["sleep=0.5", "late"]}, place)
    done = force(recorder, tmp_path, group, [("slow", "server", "late"), ("quick", "server", "early")], *options)
    assert done.returncode == 0, done
    result = json.loads(done.stdout)
    assert (result["runs"], result["forced"]) == (3, 3), result
    assert [heard(tmp_path, run) for run in (1, 2, 3) if (tmp_path / "forced" / f"run-{run}").exists()] == [["late", "early"]] * 2
    if options:
        recorder.verify(tmp_path / "forced" / "run-3")
    recorder.none_left()


def test_what_must_not_come_between(recorder, tmp_path):
    group = group_of(tmp_path, "loop", {"one": ["a", "sleep=0.5", "b"], "two": ["sleep=0.2", "between"]})
    done = force(recorder, tmp_path, group, [("one", "server", "a"), ("one", "server", "b")], kept_out=[("two", "server", "between")])
    assert done.returncode == 0 and heard(tmp_path, 3) == ["a", "b", "between"], done


def test_an_order_that_cannot_come_true_is_given_up(recorder, tmp_path):
    group = group_of(tmp_path, "loop", {"quick": ["early"], "slow": ["late"]})
    done = force(recorder, tmp_path, group, [("slow", "server", "never"), ("quick", "server", "early")], "--patience", "0.5", times=2)
    result = json.loads(done.stdout)
    assert done.returncode == 1 and result["forced"] == 0, done
    assert "0.5 s have passed without `never` from slow to server to be sent" in result["not_forced"][0]["why"]
    assert sorted(heard(tmp_path, 2)) == ["early", "late"]


# Each client sends many messages of all sizes, of which some are held, and ends at once: what was held must still come, whole and in order.
BULK = r"""
import hashlib, socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
name, total = sys.argv[2], hashlib.sha256()
for turn in range(300):
    text = f"{name} {turn} ".encode() * (1 + turn * turn % 3000)
    total.update(text)
    connection.sendall(text)
connection.sendall(b"mark " + name.encode() + b" ")
total.update(b"mark " + name.encode() + b" ")
if sys.argv[3] == "shutdown": connection.shutdown(socket.SHUT_WR); assert connection.recv(1) == b""
print("sent", total.hexdigest())
"""
SINK = r"""
import hashlib, socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def serve(connection):
    total, first = hashlib.sha256(), b""
    while data := connection.recv(3000):
        total.update(data)
        first = first or data.split()[0]
    print("got", first.decode(), total.hexdigest(), flush=True)
threads = [threading.Thread(target=serve, args=(listener.accept()[0],)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.parametrize("end", ["close", "shutdown"])
def test_nothing_is_lost_or_reordered(end, recorder, tmp_path):
    (tmp_path / "sink.py").write_text(SINK)
    (tmp_path / "bulk.py").write_text(BULK)
    nodes = [{"name": "sink", "command": [PYTHON, str(tmp_path / "sink.py"), "{port:sink}"], "ready": "port {port:sink}", "stdout": "sink.out"}]
    nodes += [{"name": name, "command": [PYTHON, str(tmp_path / "bulk.py"), "{port:sink}", name, end], "stdout": f"{name}.out", "after": ["sink"]} for name in ("one", "two")]
    group = write_group(tmp_path / "group.toml", "sink", nodes)
    # The first message of `two` waits for the end of what `one` says: everything of `two` queues behind it.
    done = force(recorder, tmp_path, group, [("one", "sink", "mark one"), ("two", "sink", "two #")], times=2)
    assert done.returncode == 0, done
    run = tmp_path / "forced" / "run-2"
    got = {words[1]: words[2] for words in map(str.split, (run / "sink.out").read_text().splitlines())}
    assert got == {name: (run / f"{name}.out").read_text().split()[-1] for name in ("one", "two")}


WAITER = r"""
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(b"early")
while True:
    try: connection.recv(100, socket.MSG_DONTWAIT); break
    except BlockingIOError: time.sleep(0.05)
"""


def test_a_recorder_that_dies(recorder, tmp_path):
    """A program that believes messages sent which nobody will send ends with its next call on the connection, and says so."""
    (tmp_path / "waiter.py").write_text(WAITER)
    waiter = {"name": "quick", "command": [PYTHON, str(tmp_path / "waiter.py"), "{port:server}"], "after": ["server"], "stderr": "quick.err"}
    group = group_of(tmp_path, "loop", {"slow": ["sleep=60", "late"]}, others=[waiter])
    order = tmp_path / "order.json"
    order.write_text(json.dumps({"steps": [{"from": "slow", "to": "server", "text": "late"}, {"from": "quick", "to": "server", "text": "early"}]}))
    running = recorder.start([recorder.friday, "force", "--order", order, "--group", group, "-o", tmp_path / "forced", "-n", "1", "--patience", "60"],
                             env={"FRIDAY_LOG": "record=info", "FRIDAY_LOG_FILE": str(tmp_path / "log")})
    wait_until(lambda: (tmp_path / "log").exists() and "is held back" in (tmp_path / "log").read_text(), "nothing is held back", 30)
    running.signal(signal.SIGKILL)
    running.finish(30)
    said = tmp_path / "forced" / "run-1" / "quick.err"
    wait_until(lambda: "the recorder has ended while it held back messages" in said.read_text(), "the program does not end")
    recorder.kill_all()
    recorder.none_left()


def test_ctrl_c_lets_everything_go(recorder, tmp_path):
    group = group_of(tmp_path, "loop", {"quick": ["early"], "slow": ["sleep=60", "late"]})
    order = tmp_path / "order.json"
    order.write_text(json.dumps({"steps": [{"from": "slow", "to": "server", "text": "late"}, {"from": "quick", "to": "server", "text": "early"}]}))
    running = recorder.start([recorder.friday, "force", "--order", order, "--group", group, "-o", tmp_path / "forced", "-n", "3", "--patience", "60"],
                             env={"FRIDAY_LOG": "record=info", "FRIDAY_LOG_FILE": str(tmp_path / "log")})
    wait_until(lambda: (tmp_path / "log").exists() and "is held back" in (tmp_path / "log").read_text(), "nothing is held back", 30)
    running.interrupt()
    done = running.finish(30)
    assert done.returncode == 130 and "the order is given up: the group was stopped without `late` from slow to server to be sent" in (tmp_path / "log").read_text(), done
    recorder.none_left()


def test_two_steps_in_one_send_are_stuck_behind_each_other(recorder, tmp_path):
    """That is told at once, and both are sent."""
    (tmp_path / "pipelined.py").write_text("import socket, sys\nconnection = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
                                           "connection.sendall(b'*1\\r\\n$1\\r\\nb\\r\\n*1\\r\\n$1\\r\\na\\r\\n')\nassert len(connection.recv(100)) > 20\n")
    client = {"name": "one", "command": [PYTHON, str(tmp_path / "pipelined.py"), "{port:server}"], "after": ["server"]}
    group = group_of(tmp_path, "loop", {}, others=[client])
    done = force(recorder, tmp_path, group, [("one", "server", "a"), ("one", "server", "b")], times=1)
    assert done.returncode == 1 and "sent behind one, on the same connection" in json.loads(done.stdout)["not_forced"][0]["why"], done


def test_the_booking_service_fails_and_passes_as_forced(recorder, tmp_path):
    study = tmp_path / "study"
    made = recorder.run([recorder.friday, "diagnose", "-q", "-o", study, "--group", BOOKING / "service.toml", "-n", "40", "--", PYTHON, BOOKING / "customer.py",
                         "{port:web}", "{port:redis}", "f1"], cwd=ROOT, timeout=200)
    assert made.returncode == 0, made
    runs = [json.loads(line) for line in (study / "runs.jsonl").read_text().splitlines()]
    for result, failing in (("FAILED", 8), ("passed", 0)):
        run = next(row["run"] for row in runs if row["result"] == result)
        done = recorder.run([recorder.friday, "force", study, str(run), "-n", "8", "--json"], cwd=ROOT, timeout=100)
        forced = json.loads(done.stdout)
        assert done.returncode == 0 and (forced["forced"], forced["forced_failed"]) == (8, failing), done


def test_what_cannot_be_forced(recorder, tmp_path):
    def said(*arguments):
        done = recorder.run([recorder.friday, "force", *arguments])
        assert done.returncode == 2, done
        return done.stderr

    group, order = tmp_path / "group.toml", tmp_path / "order.json"
    group.write_text('[group]\n[[node]]\nname = "it"\ncommand = ["/bin/true"]\n')
    assert "nothing to force" in said()
    assert "not both" in said(tmp_path, "1", "--order", order)
    assert "--order needs what it is forced onto" in said("--order", order)
    for text in ("", "[]", "{}", '{"steps": [{"from": "a", "text": "b"}]}', '{"steps": [{"from": 1, "text": "b"}, 2]}'):
        order.write_text(text)
        assert "is no order of at least two messages" in said("--order", order, "--group", group, "-o", tmp_path / "out"), text
    assert "runs.jsonl" in said(tmp_path, "1")
    study = tmp_path / "study"
    odd = ["/bin/sh", "-c", "exit $(( {run} % 2 ))"]
    assert recorder.run([recorder.friday, "diagnose", "-q", "-o", study, "--group", group, "-n", "8", "--", *odd]).returncode == 0
    assert "has no run 9" in said(study, "9")
    assert "no order of messages goes along with failing" in said(study, "1")
    (study / "study.json").write_text("{}")
    assert "damaged" in said(study, "1")
    (study / "study.json").unlink()
    assert "does not say of which group and script" in said(study, "1")


def exact(recorder, tmp_path, group, messages, *options, times=1, timeout=60):
    """The messages, each with the numbers of those that it waits for."""
    order = tmp_path / "order.json"
    order.write_text(json.dumps({"exact": [{"from": sender, "to": "server", "text": text, "after": [{"message": each} for each in after]} for sender, text, after in messages]}))
    return recorder.run([recorder.friday, "force", "--order", order, "--group", group, "-o", tmp_path / "forced", "-n", str(times), "--json", *options], timeout=timeout)


@pytest.mark.parametrize("how", ["loop", "threads"])
def test_messages_that_wait_for_several(how, recorder, tmp_path):
    group = group_of(tmp_path, how, {"a": ["a1", "a2"], "b": ["b1", "b2"], "c": ["c1"]})
    order = [("c", "c#", []), ("b", "b#", [1]), ("a", "a#", [1, 2])]
    done = exact(recorder, tmp_path, group, order, times=3)
    result = json.loads(done.stdout)
    assert done.returncode == 0 and result["forced"] == 3, done
    for run in (2, 3):
        said = heard(tmp_path, run)
        assert said[0] == "c1" and said.index("b1") < said.index("a1"), said


@pytest.mark.parametrize("when, forced, says, order", [
    ("let-go", 0, "0.4 s have passed without `late` from slow to server (number 1) to be sent, before `early` from quick to server", ["early", "late"]),
    ("skip", 0, "1 of 2 messages did not come, the first of them `late` from slow to server", ["early", "late"]),
    ("stop", 0, "0.4 s have passed without `late` from slow to server", None),
    ("wait", 1, "", ["late", "early"])])
def test_what_is_done_when_nothing_comes(when, forced, says, order, recorder, tmp_path):
    group = group_of(tmp_path, "loop", {"quick": ["early"], "slow": ["sleep=2", "late"]})
    done = exact(recorder, tmp_path, group, [("slow", "late", []), ("quick", "early", [1])], "--when-stuck", when, "--patience", "0.4")
    result = json.loads(done.stdout)
    assert result["forced"] == forced and done.returncode == 1 - forced, done
    assert says in (result["not_forced"][0]["why"] if result["not_forced"] else ""), result
    if order: assert heard(tmp_path, 1) == order
    else: assert json.loads((tmp_path / "forced" / "runs.jsonl").read_text())["result"] == "undecided"
    recorder.none_left()


@pytest.mark.parametrize("text", ['{"exact": 3}', '{"exact": []}', '{"exact": [{"from": "a", "to": "b", "text": "x"}]}',
                                  '{"exact": [{"from": "a", "text": "x"}, {"from": "a", "to": "b", "text": "x"}]}',
                                  '{"exact": [{"from": "a", "to": "b", "text": "x", "after": [{"message": 1}]}, {"from": "a", "to": "b", "text": "x"}]}',
                                  '{"exact": [{"from": "a", "to": "b", "text": "x", "number": -1}, {"from": "a", "to": "b", "text": "x"}]}',
                                  '{"exact": [{"from": "a", "to": "b", "text": "x"}, {"from": "a", "to": "b", "text": "y", "after": [{"message": 1, "until": "gone"}]}]}'])
def test_a_file_that_holds_no_exact_order(text, recorder, tmp_path):
    (tmp_path / "order.json").write_text(text)
    group = group_of(tmp_path, "loop", {"quick": ["early"]})
    done = recorder.run([recorder.friday, "force", "--order", tmp_path / "order.json", "--group", group, "-o", tmp_path / "forced"], timeout=30)
    assert done.returncode == 2 and "is no order of at least two messages" in done.stderr, done
    assert not (tmp_path / "forced").exists()
