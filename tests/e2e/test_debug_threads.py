"""The debugger on programs with threads: who hit a stop point, what the others look like meanwhile, whose variable is whose,
and functions of the program that the user calls: those that come back and those that do not.
"""

import re
import threading

import pytest
from conftest import answers, free_ports, wait_until
from debug_support import break_at, final_state, friday, opened, plain_end_of, record_once, run_to_end, workers  # noqa: F401
from test_memcached import SERVER, Client

pytestmark = pytest.mark.limit(60)

WORKERS, TURNS = 4, 25


def events(final):
    """Without the state, which holds the dead stacks of threads that have ended. The program checks its sums itself."""
    return {node: done for node, (done, _) in final.items()}


plain_end = plain_end_of("workers")


def thread_lines(session, command="info threads"):
    """What gdb says of each thread: {name: line}."""
    lines = session.backend.gdb(int(session.node), command).splitlines()
    return {match[1]: line for line in lines if (match := re.search(r'"([^"]+)" \(tid', line))}


def current_name(session):
    return next(name for name, line in thread_lines(session).items() if line.startswith("*"))


def own_values(session):
    """Each thread's thread-local variable, by gdb's thread number, and the names by number."""
    node = int(session.node)
    numbers = {int(n): name for n, name in re.findall(r'^[* ] +(\d+) +Thread 1\.\d+ "([^"]+)"', session.backend.gdb(node, "info threads"), re.M)}
    values = re.findall(r"^Thread (\d+) .*:\n\$\d+ = (-?\d+)", session.backend.gdb(node, "thread apply all print own"), re.M)
    return {numbers[int(number)]: int(value) for number, value in values}


# ---- Several threads

def test_the_right_thread_is_named_at_each_hit(workers, opened, plain_end):
    session = opened(workers)
    names, hits = {}, {}

    def at_turn(hit):
        number, i = (int(session.read(None, name)) for name in ("number", "i"))
        assert session.read(None, "own") == 1000 * number + i * number
        hits[number] = hits.get(number, 0) + 1
        assert names.setdefault(hit.thread, number) == number
        if i == 3:
            assert current_name(session) == f"worker-{number}"

    session.breakpoint("turn", at_turn)
    assert events(final_state(session)) == events(plain_end)
    assert hits == {number: TURNS for number in range(1, WORKERS + 1)} and len(names) == WORKERS


def test_a_watch_of_what_all_threads_change(workers, opened, plain_end):
    session = opened(workers)
    changes, by_thread = [], {}

    def changed(hit):
        changes.append((int(hit.old), int(hit.new)))
        by_thread.setdefault(hit.thread, set()).add(int(hit.new) - int(hit.old))
        assert hit.location.startswith("turn at workers.c:")

    session.watch("total", changed)
    assert events(final_state(session)) == events(plain_end)
    assert changes[0][0] == 0 and all(a[1] == b[0] for a, b in zip(changes, changes[1:]))
    assert changes[-1][1] == TURNS * sum(range(1, WORKERS + 1)) and len(changes) == TURNS * WORKERS
    assert sorted(map(sorted, by_thread.values())) == [[1], [2], [3], [4]]


def test_parked_threads_stand_at_their_calls(workers, opened):
    session = opened(workers)
    point = session.breakpoint("turn", condition="i == 2")
    for _ in range(WORKERS):
        session.run()
    point.delete()
    here = current_name(session)
    lines = thread_lines(session)
    assert set(lines) == {"workers", *(f"worker-{n}" for n in range(1, WORKERS + 1))}
    assert all(("parked" in line) == (name != here) for name, line in lines.items()), lines
    # The first thread waits for the others by then, or its last call that made one of them has not yet come back.
    assert "turn (number=" in lines[here] and ("futex" in lines["workers"] or "pthread_create" in lines["workers"]), lines
    node = session.node
    for name, line in lines.items():
        if name == here:
            continue
        node.gdb(f"thread {line.split()[0]}")
        assert node.gdb("x/i $pc-2").split()[-1] == "syscall"  # the program's own bytes, behind which the thread stands
        assert (int(node.gdb("output/u $rcx")), int(node.gdb("output/x $r11"), 16) & 0x200) == (int(node.gdb("output/u $pc")), 0x200)
        frames = node.gdb("backtrace")
        assert ("main (count=" if name == "workers" else "in work (argument=") in frames and "friday-shim" not in frames
        assert not [function for function in re.findall(r"^#\d+ +(?:0x\w+ in )?(\S+)", frames, re.M) if "friday" in function], frames
        assert any(call in frames for call in ("pthread_create", "pthread_join", "pthread_barrier_wait", "pthread_mutex_lock")), frames


def test_thread_local_variables_of_each_thread(workers, opened, plain_end):
    session = opened(workers)
    point = session.breakpoint("turn", condition="i == 5")
    for _ in range(WORKERS):
        session.run()
    values = own_values(session)
    assert values.pop("workers") == 0
    assert set(values) == {f"worker-{n}" for n in range(1, WORKERS + 1)}
    for name, value in values.items():
        number = int(name[-1])
        turns, rest = divmod(value - 1000 * number, number)
        assert rest == 0 and 5 <= turns <= TURNS, values
    place = int(session.read(None, "(long)&own"))
    assert session.read(None, "own") == session.read(None, f"*(long*){place}") == values[current_name(session)]
    point.delete()
    assert events(final_state(session)) == events(plain_end)


def test_one_thread_steps_and_the_others_follow(workers, opened, plain_end):
    session = opened(workers)
    first = break_at(session, "turn", condition="number == 2 && i == 1")
    total = int(session.read(None, "total"))
    own = int(session.read(None, "own"))
    others = 0
    for _ in range(40):
        stop = session.step(None, "next")
        assert stop.kind == "step" and stop.thread == first.thread and current_name(session) == "worker-2"
    gone = int(session.read(None, "own")) - own
    others = int(session.read(None, "total")) - total - gone
    assert gone >= 2 * 3 and others >= 3, "the stepped thread and the others have gone on"
    stop = break_at(session, "turn", condition="number == 2")
    assert stop.thread == first.thread
    session.step(None, "finish")
    assert events(final_state(session)) == events(plain_end)


def test_stepping_stops_at_another_threads_breakpoint(workers, opened):
    session = opened(workers)
    # gdb is not asked during its own step: a condition that it has translated before is judged without it.
    point = session.breakpoint("turn", condition="number == 3")
    assert session.run().ids == (point.id,)
    point.disable()
    first = break_at(session, "turn", condition="number == 1")
    point.enable()
    stop = first
    for _ in range(20):
        stop = session.step(None, "next")
        if stop.ids:
            break
    assert stop.ids == (point.id,) and stop.thread != first.thread and session.read(None, "number") == 3


def test_the_thread_that_gdb_had_chosen_has_ended(workers, opened, plain_end):
    session = opened(workers)
    break_at(session, "turn", condition="number == 3 && i == 20")
    assert current_name(session) == "worker-3"
    stop = break_at(session, "puts")
    assert stop.thread == 0 and set(thread_lines(session)) == {"workers"} and "main (count=" in session.backtrace()
    assert session.read(None, "total") == TURNS * sum(range(1, WORKERS + 1))
    assert events(final_state(session)) == events(plain_end)


# ---- Functions that the user calls

def stopped_in_turn(workers, opened, i=7):
    session = opened(workers)
    stop = break_at(session, "turn", condition=f"number == 1 && i == {i}")
    return session, stop


def test_a_call_that_makes_system_calls(workers, opened, plain_end):
    session, stop = stopped_in_turn(workers, opened)
    assert session.altered == {}
    assert session.read(None, "calls_now()") == 5
    assert session.altered == {session.node: stop.logical_time}
    assert events(final_state(session)) == events(plain_end)


def test_a_call_in_a_parked_thread(workers, opened, plain_end):
    session, _ = stopped_in_turn(workers, opened)
    lines = thread_lines(session)
    node = session.node
    for name in ("workers", "worker-3"):
        node.gdb(f"thread {lines[name].split()[0]}")
        assert node.gdb("output calls_now()") == "5"
    assert events(final_state(session)) == events(plain_end)


def test_a_call_that_crashes_is_undone(workers, opened, plain_end):
    session, stop = stopped_in_turn(workers, opened)
    node = session.node
    registers, frames = node.gdb("info registers"), node.backtrace()
    for call in ("crash_now((int*)0)", "abort_now()"):
        with pytest.raises(friday.CallFailed):
            node.read(call)
        assert node.gdb("info registers") == registers and node.backtrace() == frames
    assert node.altered is None and node.read("total") != -1
    assert final_state(session) == plain_end


@pytest.mark.parametrize("call", ["spin_now()", "spin_now() + 1"])
def test_ctrl_c_ends_a_call_that_does_not_come_back(workers, opened, plain_end, call):
    session, _ = stopped_in_turn(workers, opened)
    node = session.node
    total = node.read("total")
    registers, frames = node.gdb("info registers"), node.backtrace()
    timer = threading.Timer(0.3, session.backend.interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        node.read(call)
    timer.join()
    assert node.gdb("info registers") == registers and node.backtrace() == frames
    assert node.read("total") == total and node.altered is None
    assert events(final_state(session)) == events(plain_end)


def test_writes_are_marked_and_change_what_follows(workers, opened):
    session, stop = stopped_in_turn(workers, opened)
    node = session.node
    node.write("total", 5000)
    assert node.altered == stop.logical_time and node.read("total") == 5000
    with pytest.raises(friday.Divergence, match="altered"):
        run_to_end(session)


# ---- memcached

def record_memcached(recorder):
    port = free_ports(1)[0]
    running = recorder.start_record([SERVER, "-t", "4", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-u", "nobody"], name="cache")
    wait_until(lambda: answers(port), "memcached does not answer", 30)
    clients = [Client(port) for _ in range(8)]
    for turn in range(5):
        for number, client in enumerate(clients):
            client.put(f"key{number}", f"value {number} {turn}")
            assert client.get(f"key{number}") == f"value {number} {turn}"
    for client in clients:
        client.close()
    running.interrupt()
    return recorder.finish_record(running, 60)


def test_memcached_answers_from_all_its_workers(tmp_path_factory, opened):
    recording = record_once("memcached", record_memcached, tmp_path_factory)
    session = opened(recording)
    plain = final_state(session)
    session.restart()
    replies = {}

    def at_send(hit):
        text = session.backend.read_string(0, int(session.read(None, "*(long*)(*(long*)($rsi + 16))")))
        replies.setdefault(hit.thread, []).append(text)
        if len(replies[hit.thread]) == 1:
            line = next(line for line in session.node.gdb("info threads").splitlines() if line.startswith("*"))
            assert f"Thread 1.{hit.thread + 1} " in line and "sendmsg" in line

    session.breakpoint("sendmsg", at_send)
    assert final_state(session) == plain
    assert len(replies) == 4, "connections go to the workers in turn"
    texts = b"".join(text.encode() if isinstance(text, str) else text for texts in replies.values() for text in texts)
    assert texts.count(b"STORED") == 40
