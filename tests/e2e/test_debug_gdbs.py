"""How many gdbs there are, and when: one a node in the background, copies of one in large groups, none before it is needed when
they are lazy; what one of them was asked serves all nodes of its program; one that dies is replaced.
"""

import array
import os
import re
import select
import shutil
import signal
import socket
import subprocess

import pytest
from conftest import ROOT, wait_until
from debug_support import BUILD, friday, opened, record_once, ring, run_to_end  # noqa: F401
from test_debug_robust import children, gdbs, no_gdb_needed

pytestmark = pytest.mark.limit(60)
MANY = 20  # more than one gdb each is good for


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Twenty runs of one program."""
    nodes = [{"name": f"w{i}", "command": [BUILD / "targets" / "workers"]} for i in range(MANY)]
    return record_once("many", lambda recorder: recorder.record({"node": nodes}), tmp_path_factory)


def stops(session):
    """Each node in turn, as it stands in the first turn of the first worker."""
    point = session.breakpoint("turn", condition="number == 1 && i == 0")
    seen = set()
    for _ in session.nodes:
        stop = session.run()
        assert stop.ids == (point.id,) and stop.location.startswith("turn at workers.c:"), stop
        seen.add(stop.node)
        yield session.nodes[stop.node]
    point.delete()
    assert len(seen) == len(session.nodes)


def test_one_gdb_answers_for_all_nodes_of_a_program(many, opened):
    session = opened(many)
    session.backend.gdb_start("lazy")
    assert session.backend.gdb_count() <= 1, "at most the one that loads the symbols"
    where = set()
    for node in stops(session):
        assert node.read("number") == 1 and node.read("i") == 0 and node.read("number + i") == 1
        where.add(int(node.read("&total")))
        assert node.read("total") == node.read("*&total")
    assert len(where) > MANY // 2, "the nodes have the program at addresses of their own"
    assert session.backend.gdb_count() < MANY // 2


def test_hot_events_wake_no_gdb(ring, opened):  # noqa: F811
    """All gdbs are stopped once each kind of event has been seen: conditions, reads, watches and their hits go on without them."""
    session = opened(ring)
    counts = {"break": 0, "watch": 0, "never": 0}

    def at_data(hit):
        counts["break"] += 1
        assert hit.node.read("srv.successor->id") is not None and hit.node.read("packet_id + 1") == hit.node.read("packet_id") + 1

    def at_change(hit):
        counts["watch"] += 1
        assert hit.expression == "srv.received" and hit.new == hit.node.read("srv.received")

    session.breakpoint("process_data", at_data, condition="(packet_header == PACKET_GET || packet_header == PACKET_PUT) && srv.name[0] == 'n'")
    session.breakpoint("process_packet", lambda: counts.update(never=1), condition="srv.received < 0")
    session.watch("srv.received", at_change)
    first = session.breakpoint("process_data", condition="srv.received > 20")
    session.run()
    first.delete()
    before = dict(counts)
    assert min(before["break"], before["watch"]) > 0
    with no_gdb_needed() as stopped:
        assert len(stopped) == len(session.nodes)
        run_to_end(session)
    assert counts["watch"] > before["watch"] + 100 and counts["break"] > before["break"] + 10 and counts["never"] == 0


def test_a_breakpoint_is_resolved_once_for_all_nodes_of_a_program(many, opened, tmp_path, monkeypatch):
    """Each gdb, and what is copied from one, writes down which of Friday's commands it carries out."""
    log, hook, wrapper = tmp_path / "log", tmp_path / "hook.py", tmp_path / "gdb"
    log.touch()
    hook.write_text(f"""
import gdb, os
class Logged(gdb.MICommand):
    def __init__(self, name, *rest):
        self.own_name = name
        super().__init__(name, *rest)
    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "invoke" in cls.__dict__:
            inner = cls.invoke
            def invoke(self, arguments):
                with open({str(log)!r}, "a") as file:
                    file.write(self.own_name + "\\n")
                return inner(self, arguments)
            cls.invoke = invoke
gdb.MICommand = Logged
""")
    wrapper.write_text(f"#!/bin/sh\nexec {shutil.which('gdb')} -iex 'source {hook}' \"$@\"\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    session = opened(many, unconfined=True)  # else they would write nothing
    hits = []
    point = session.breakpoint("turn", lambda hit: hits.append(int(hit.node)))
    asked = log.read_text().split().count("-friday-locate")
    assert 1 <= asked <= 2, log.read_text()
    run_to_end(session)
    assert len(set(hits)) == MANY and point.hits == 100 * MANY
    assert log.read_text().split().count("-friday-locate") == asked


def test_what_gdb_refuses_is_asked_once(many, opened):
    session = opened(many)
    session.backend.gdb_start("lazy")
    with pytest.raises(friday.NoSymbol, match="no_such_function"):
        session.breakpoint("no_such_function")
    for node in stops(session):
        for text in ("no_such_variable", "total +", "number.member"):
            with pytest.raises((friday.NoSymbol, friday.BadExpression)):
                node.read(text)
    assert session.backend.gdb_count() < MANY // 2


def test_copies_of_a_gdb_are_whole_ones(many, opened):
    session = opened(many)
    for node in stops(session):
        text = node.backtrace()
        assert text.startswith("#0  turn (number=") and "work (argument=0x1)" in text and "clone ()" in text, text
        assert node.gdb("print i").startswith("$1 = 0") and "libc" in node.gdb("info sharedlibrary")
        if int(node) % 5 == 0:
            assert session.step(node, "next").kind == "step"
    assert session.backend.gdb_count() == MANY + 1
    # Each is its node's own.
    for node, text in session.gdb("print $1").items():
        assert text.startswith("$2 = 0")


def test_a_copy_that_dies_is_replaced_and_so_is_what_it_was_copied_from(many, opened):
    session = opened(many)
    for count, node in enumerate(stops(session)):
        frames = node.backtrace()
        if count % 7:
            continue
        dead = set(gdbs())
        for victim in dead:
            os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not dead & set(children()) or session.backend.pump(0.01), "the gdbs do not die", 5)
        assert node.backtrace() == frames
    run_to_end(session)


def test_lazy_and_background(many, opened):
    session = opened(many, nodes="0-3")
    assert session.backend.gdb_start() == "background" and session.backend.gdb_count() == 4
    session.nodes[0].gdb("info threads")
    assert session.backend.gdb_start("lazy") == "lazy"
    assert session.backend.gdb_count() == 1, "the one that has been asked"
    session.nodes[2].gdb("info threads")
    assert session.backend.gdb_count() == 2
    session.backend.gdb_start("background")
    assert session.backend.gdb_count() == 4
    with pytest.raises(friday.UsageError):
        session.backend.gdb_start("sometimes")


# ---- The gdb that is copied, by itself

class Pipes:
    """The three streams of a copy; the owner's ends."""

    def __init__(self, channel):
        ours, its = socket.socketpair()
        self.output, output = os.pipe()
        self.errors, errors = os.pipe()
        channel.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [its.fileno(), output, errors]))])
        its.close()
        os.close(output)
        os.close(errors)
        self.input = ours

    def close(self):
        self.input.close()
        os.close(self.output)
        os.close(self.errors)


def answer(fd, token):
    """The result record of a command."""
    text, mark = "", re.compile(rf"^{token}\^(.*)\n", re.M)
    while not mark.search(text):
        assert select.select([fd], [], [], 20)[0], text
        data = os.read(fd, 65536)
        assert data, f"gdb has ended: {text}"
        text += data.decode()
    return mark.search(text)[1]


def test_a_copy_that_cannot_be_made_leaves_the_next_one_alone(tmp_path):
    """A gdb with threads of its own (its workers end some time after they were told to) is not copied, and loses nothing by it."""
    script = tmp_path / "helper.py"
    script.write_text("".join((ROOT / "core" / "mi" / name).read_text() for name in ("gdb_friday.py", "gdb_evaluation.py", "gdb_places.py", "gdb_calls.py", "gdb_bytecode.py", "gdb_layouts.py", "gdb_containers.py", "gdb_fork.py")))
    channel, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gdb = subprocess.Popen(["gdb", "-nx", "-q", "--interpreter=mi3", "-iex", "maint set worker-threads 0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                           preexec_fn=lambda: os.dup2(its.fileno(), 3), close_fds=False, start_new_session=True)
    copies, pid = [], None

    def ask(token, command):
        os.write(gdb.stdin.fileno(), f"{token}{command}\n".encode())
        return answer(gdb.stdout.fileno(), token)

    try:
        assert ask(1, f'-interpreter-exec console "source {script}"') == "done"
        assert ask(2, '-interpreter-exec console "python import threading; gate = threading.Event(); threading.Thread(target=gate.wait).start()"') == "done"
        copies.append(Pipes(channel))
        assert "threads of its own" in ask(3, "-friday-fork")
        copies.pop().close()
        assert ask(4, '-interpreter-exec console "python gate.set()"') == "done"
        copies.append(Pipes(channel))
        pid = int(re.search(r'pid\\":(\d+)', ask(5, "-friday-fork"))[1])
        copies[-1].input.send(b'6-data-evaluate-expression "6 * 7"\n')
        assert answer(copies[-1].output, 6) == 'done,value="42"'
    finally:
        gdb.kill()
        gdb.wait()
        for end in (gdb.stdin, gdb.stdout, channel, its, *copies):
            end.close()
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
