"""The debugger on Debian's redis-server: stripped, five threads, a child that saves. What unrecorded clients sent and got is
the witness. Debian's libc has symbols and lines (libc6-dbg), redis-server itself only the names of its functions.
"""

import re
import socket

import pytest
from conftest import free_ports, wait_until
from debug_support import break_at, end_without_points, final_state, friday, opened, plain_end_of, record_once, run_to_end  # noqa: F401
from test_redis import Redis

pytestmark = pytest.mark.limit(60)

GREETING = "hello from a client"


class Client:
    """Sends inline commands, keeps the answers as they came: bytes."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.answers = []

    def ask(self, text, end=b"\r\n"):
        self.socket.sendall(text.encode() + b"\r\n")
        answer = b""
        while not answer.endswith(end):
            answer += self.socket.recv(65536) or pytest.fail("the server closed the connection")
        self.answers.append(answer)


def record_redis(recorder):
    redis = Redis(recorder, free_ports(1), recorder.directory)
    redis.ask(0, "set", "greeting", GREETING)
    assert redis.ask(0, "get", "greeting") == GREETING
    client = Client(redis.ports[0])
    for i in range(20):
        client.ask(f"set key{i} {'v' * i}{i}")
        client.ask(f"get key{i}", f"v{i}\r\n".encode() if i else b"0\r\n")
    redis.ask(0, "bgsave")
    wait_until(lambda: redis.field(0, "persistence", "rdb_bgsave_in_progress") == "0", "the saving does not end")
    client.ask("get key7", b"v7\r\n")
    client.socket.close()
    recording = redis.end()
    recording.gets = [answer for answer in client.answers if answer.startswith(b"$")]
    recording.cli = f"${len(GREETING)}\r\n{GREETING}\r\n".encode()
    return recording


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    return record_once("redis", record_redis, tmp_path_factory)


plain_end = plain_end_of("redis")


def register(session, name):
    return int(session.read(None, f"(unsigned long)${name}"))


def buffer(session):
    """The bytes that the call `write`, about to begin, is to send."""
    return session.read(None, f"*(char(*)[{register(session, 'rdx')}])$rsi").bytes


def at_reply(session, wanted):
    """Runs to the write that sends these bytes."""
    point = session.breakpoint("write", nodes=0, condition=f"$rdx == {len(wanted)} && *(char*)$rsi == {wanted[0]}")
    while True:
        stop = session.run()
        assert stop.kind == "breakpoint", stop
        if buffer(session) == wanted:
            point.delete()
            return stop


def test_a_reply_comes_from_what_the_client_sent(redis, opened):
    """A byte of a value that a client gets is followed through the server's copies to that byte of the command that has set it."""
    session = opened(redis)
    session.set_checkpoints(True)
    number = 12
    command = f"set key{number} {'v' * number}{number}\r\n"
    at_reply(session, redis.gets[number])
    for index in (6, 10, 18):  # of "$14\r\nvvvvvvvvvvvv12\r\n"
        hops = session.origin(f"*(char*)($rsi+{index})", node=0)
        last = hops[-1]
        assert len(hops) > 3 and last.how == "outside" and {hop.how for hop in hops[:-1]} == {"copied"}, hops
        found = re.fullmatch(r"received by read, byte (\d+) of (\d+), from a stream with .*", last.text)
        assert found and int(found[2]) == len(command), last
        assert int(found[1]) == len(f"set key{number} ") + index - len("$14\r\n") and last.value == command[int(found[1])].encode()


@pytest.mark.limit(200)
def test_a_reply_of_a_replica_comes_from_what_the_client_sent_to_the_primary(recorder, opened):
    redis = Redis(recorder, free_ports(2), recorder.directory)
    redis.wait_for_copies()  # else the value comes with the first copy of all data, which a child of the primary writes
    value = "a-value-that-travels"
    redis.ask(0, "set", "greeting", value)
    wait_until(lambda: redis.ask(1, "get", "greeting") == value, "the replica does not get the value")
    session = opened(redis.end())
    session.set_checkpoints(True)
    reply = f"${len(value)}\r\n{value}\r\n".encode()
    point = session.breakpoint("write", nodes=1, condition=f"$rdx == {len(reply)} && *(char*)$rsi == {reply[0]}")
    while True:
        assert session.run().kind == "breakpoint"
        if session.read(1, f"*(char(*)[{len(reply)}])$rsi").bytes == reply:
            break
    point.delete()
    hops = session.origin(f"*(char*)($rsi+{reply.index(b'travels')})", node=1)
    ways = [(hop.how, int(hop.node)) for hop in hops if hop.how != "copied"]
    assert ways == [("received", 1), ("sent", 0), ("outside", 0)], hops
    assert re.match(r"received by read, byte \d+ of \d+, from a stream with 127.0.0.1:", hops[-1].text) and hops[-1].value == b"t"


def test_every_reply_equals_what_the_client_got(redis, opened, plain_end):
    session = opened(redis)
    sent = []
    session.breakpoint("write", lambda: sent.append((register(session, "rdi"), buffer(session))), nodes=0)
    assert final_state(session) == plain_end
    replies = [data for fd, data in sent if fd > 2 and data.startswith(b"$")]
    assert [data for data in replies if data in redis.gets] == redis.gets
    assert replies.count(redis.cli) == 1


def test_what_stands_where_a_reply_is_sent(redis, opened, plain_end):
    session = opened(redis)
    stop = at_reply(session, redis.gets[7])
    node = session.nodes[0]
    assert stop.location.startswith("write at write.c:") and stop.thread == 0
    assert f"{len(redis.gets[7])}" == node.gdb("output $rdx") and "vvvvvvv7" in node.gdb("x/2s $rsi")

    threads = node.gdb("info threads")
    assert re.search(r'\* 1 +Thread 1\.1 "\S+" \(tid \d+\) +__GI___libc_write \(fd=\d+', threads), threads
    for name in ("bio_close_file", "bio_aof_fsync", "bio_lazy_free"):
        assert re.search(rf'Thread 1\.\d+ "{name}" \(tid \d+, parked\) .*futex', threads), threads

    frames = node.backtrace().splitlines()
    assert [re.search(r"(?:in )?(\w+|\?\?) \(", frame)[1] for frame in (frames[0], frames[-2], frames[-1])] == \
        ["__GI___libc_write", "aeMain", "main"], frames
    assert any("writeToClient ()" in frame for frame in frames)
    below = node.gdb("thread apply all -q backtrace -3")
    assert below.count("clone () at") >= 4 and below.count("start_thread (") >= 4

    assert session.read(None, "errno") == 11  # EAGAIN: the loop has read from each socket until nothing came
    registers = dict(re.findall(r"^(\w+) +(0x[0-9a-f]+)", node.gdb("info registers"), re.M))
    assert int(registers["rsi"], 16) == register(session, "rsi") and int(registers["rip"], 16) == int(node.read("(long)$pc"))
    assert node.altered is None
    assert final_state(session) == plain_end


def test_errno_is_each_threads_own(redis, opened):
    session = opened(redis)
    at_reply(session, redis.gets[7])
    node = session.nodes[0]
    places = re.findall(r"\(int \*\) (0x[0-9a-f]+)", node.gdb("thread apply all -q print &errno"))
    assert len(places) >= 4 and len(set(places)) == len(places), places


def test_steps_and_frames(redis, opened, plain_end):
    session = opened(redis)
    at_reply(session, redis.gets[3])
    node = session.nodes[0]
    caller = int(node.read("*(long*)$rsp"))
    before = session.backend.event(0)
    assert "up" not in node.gdb("up") and int(node.gdb("output/u $pc")) == caller
    node.gdb("down")
    assert session.step(0, "next").location.startswith("write at write.c:")
    stop = session.step(0, "finish")
    assert stop.kind == "step" and int(node.read("(long)$pc")) == caller
    assert session.backend.event(0) == before + 1 and node.read("(int)$rax") == len(redis.gets[3])
    for command in ("stepi", "nexti", "stepi"):
        last = int(node.read("(long)$pc"))
        assert session.step(0, command).kind == "step" and int(node.read("(long)$pc")) != last
    with pytest.raises(friday.errors.Unsupported, match="bounds of current function"):  # a function without a name
        session.step(0, "next")
    assert final_state(session) == plain_end


def test_called_functions_leave_the_replay_alone(redis, opened, plain_end):
    session = opened(redis)
    stop = at_reply(session, redis.gets[7])
    node = session.nodes[0]
    assert session.altered == {}
    assert int(node.gdb("output (int)getpid()")) > 1 and node.read("(int)getpid()") > 1
    assert node.call("(unsigned long)strlen", "seven..") == 7
    assert node.read("(unsigned long)strlen((char*)$rsi)") >= len(redis.gets[7])
    used = node.read("(long)zmalloc_used_memory()")
    assert 500_000 < used < 50_000_000 and node.read("(long)zmalloc_used_memory()") == used
    assert session.altered == {}  # none of these has changed anything
    assert node.call("(int)open", "/no/such/file", 0) == -1
    assert session.altered == {node: stop.logical_time}  # errno, and the kernel was asked
    assert final_state(session) == plain_end


def test_a_called_function_that_has_a_breakpoint(redis, opened, plain_end):
    session = opened(redis)
    hits = []
    session.breakpoint("write", lambda: hits.append(1), nodes=0)
    session.breakpoint("fsync", nodes=0)
    at_reply(session, redis.gets[7])
    seen = len(hits)
    node = session.nodes[0]
    # It stands at the start of this very function, and a call of it is no hit.
    assert node.call("(long)write", -1, "x", 1) == -1
    assert node.call("(int)fsync", -1) == -1
    assert len(hits) == seen
    assert final_state(session) == plain_end and len(hits) > seen


def test_a_crash_in_a_called_function_is_not_the_programs(redis, opened, plain_end, capfd):
    """redis-server has a handler of SIGSEGV that prints a report and ends the server."""
    session = opened(redis)
    at_reply(session, redis.gets[7])
    node = session.nodes[0]
    with pytest.raises(friday.CallFailed):
        node.read("(unsigned long)strlen((char*)16)")
    assert final_state(session) == plain_end
    assert "BUG REPORT" not in capfd.readouterr().err


def test_what_a_variable_without_debug_information_points_to_is_followed(redis, opened, plain_end):
    """`server` has an address and no type. Its fourth word is the path of the program, which it finds out at its start."""
    session = opened(redis)
    notices, seen = [], []
    session.notice = notices.append
    path = "((char**)&server)[3]"
    address = re.search(r"0x\w+", session.nodes[0].gdb("print &server"))[0]
    with pytest.raises(friday.Error, match="cannot be watched"):  # gdb takes the element of a number for 0: no watch is better
        session.watch(f"*((char**){address})[3]", nodes=0)
    session.watch(f"*{path}", lambda hit: seen.append((hit.old, hit.new)), nodes=0)
    session.watch("*(int*)&server", lambda hit: seen.append((hit.old, hit.new)), nodes=0)
    at_reply(session, redis.gets[7])
    assert session.read(None, path) == "/usr/bin/redis-server"
    pid = session.read(None, "*(int*)&server")
    # With a jump in the bytecode behind an address.
    assert session.read(None, "*(int*)&server > 1 && *(int*)&server != 5") == 1 and session.read(None, "*(int*)&server < 1 || !&server") == 0
    assert seen == [(None, ord("/")), (0, pid)] or seen == [(0, pid), (None, ord("/"))], seen
    assert pid == session.read(None, "(int)getpid()") and notices == []
    with pytest.raises(friday.Error, match="unknown type"):
        session.read(None, "server + 1")
    assert final_state(session) == plain_end


# ---- The child that saves

def test_stop_points_set_before_a_fork_are_in_force_in_the_child(redis, opened, plain_end):
    session = opened(redis)
    child = next(node for node in session.nodes if node.info.parent == 0)
    hits = {0: 0, int(child): 0}

    def count():
        hits[int(session.node)] += 1

    session.breakpoint("rename", count)
    changes = []
    at_reply(session, redis.gets[7])
    session.watch("((struct _IO_FILE*)&_IO_2_1_stdout_)->_IO_write_ptr", lambda hit: changes.append((int(session.node), hit.old, hit.new)))
    session.breakpoint("fsync", count, nodes=0)
    assert child.state == "not started"
    run_to_end(session)
    assert hits == {0: 0, int(child): 1}, "the child renames the snapshot once"
    assert {node for node, *_ in changes} == {0, int(child)}
    for node in hits:
        own = [(old, new) for at, old, new in changes if at == node]
        assert all(old != new for old, new in own) and all(a[1] == b[0] for a, b in zip(own, own[1:]))
    assert end_without_points(session) == plain_end


def test_the_child_alone_in_a_breakpoint(redis, opened, plain_end):
    session = opened(redis)
    child = next(node for node in session.nodes if node.info.parent == 0)
    stop = break_at(session, "rename", nodes=int(child))
    assert stop.node == child and session.node == child
    assert "rdbSave" in child.backtrace() and "main ()" in child.backtrace()
    assert session.read(None, "(char*)$rsi") == "dump.rdb" and "temp-" in session.read(None, "(char*)$rdi")
    assert "rdb" in session.nodes[0].gdb("info threads") or "parked" in session.nodes[0].gdb("info threads")
    session.step(int(child), "finish")
    assert final_state(session) == plain_end
