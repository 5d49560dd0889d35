"""Scripts that do harm: each gets a clear answer, the session lives on, and the recording replays as before."""

import json
import os
import signal
import threading

import pytest
from conftest import wait_until
from debug_support import break_at, final_state, friday, opened, plain_end_of, ring, run_to_end, workers  # noqa: F401

pytestmark = pytest.mark.limit(60)
full = pytest.mark.full


plain_end = plain_end_of("workers")


def lives(session, plain_end):
    """Its stop points gone, the session replays everything as it was."""
    for point in list(session.points):
        session.delete(point)
    session.restart()
    return final_state(session) == plain_end


def run_script(recorder, workers, text):
    """`friday run`: (exit code, report, what was printed)."""
    script, found = recorder.directory / "bad.py", recorder.directory / "bad.json"
    script.write_text(text)
    done = recorder.run([recorder.friday, "run", script, workers.path, "--json", found])
    recorder.none_left()
    return done.returncode, json.loads(found.read_text()), done.stdout + done.stderr


# -- for ever ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("loop", ["while True: pass", pytest.param("[None for _ in iter(int, 1)]", marks=full),
                                  pytest.param("while True: session.nodes[0].read('total')", marks=full)])
def test_ctrl_c_ends_a_handler_that_never_ends(workers, opened, plain_end, loop):
    session = opened(workers)
    inside = threading.Event()
    space = {"session": session, "inside": inside}
    exec(f"def handler():\n    inside.set()\n    {loop}\n", space)
    session.breakpoint("turn", space["handler"])
    threading.Thread(target=lambda: inside.wait() and os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        session.run()
    assert session.node.read("number") in range(1, 5) and "turn (" in session.backtrace()
    assert lives(session, plain_end)


def test_ctrl_c_ends_a_script_that_never_ends(recorder, workers):
    script = recorder.directory / "loops.py"
    script.write_text("session.breakpoint('turn', temporary=True)\nsession.run()\nprint('looping', flush=True)\nwhile True: pass\n")
    running = recorder.start([recorder.friday, "run", script, workers.path])
    assert running.process.stdout.readline() == "looping\n"
    running.process.send_signal(signal.SIGINT)
    done = running.finish()
    assert done.returncode == 2 and done.stderr == "friday: interrupted: the recording was not checked to its end\n"
    recorder.none_left()


@full
def test_ctrl_c_while_the_group_runs_and_a_handler_swallows_it(workers, opened, plain_end):
    """A bare except in a handler eats the exception; the next Ctrl-C comes through."""
    session = opened(workers)
    caught = []

    def handler():
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException as error:
            caught.append(type(error))
    session.breakpoint("turn", handler, nodes=0)
    run_to_end(session)
    assert set(caught) == {KeyboardInterrupt} and len(caught) == 100
    assert lives(session, plain_end)


# -- exceptions -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text, kind", [("1 / 0", ZeroDivisionError), pytest.param("f()", RecursionError, marks=full),
                                        pytest.param("raise SystemExit(3)", SystemExit, marks=full),
                                        pytest.param("session.nodes[0].read('no_such')", friday.NoSymbol, marks=full)])
def test_a_handler_that_always_raises(workers, opened, plain_end, text, kind):
    session = opened(workers)
    space = {"session": session}
    exec(f"def f():\n    {text}\n", space)
    point = session.breakpoint("turn", space["f"])
    for hits in (1, 2, 3):
        with pytest.raises(kind) as caught:
            session.run()
        assert point.hits == hits and session.node.read("number") in range(1, 5)
        assert kind is SystemExit or "in the handler of breakpoint 1 (turn) on node 0 (workers) at " in caught.value.__notes__[0]
    assert lives(session, plain_end)


def test_a_script_whose_handlers_all_raise(recorder, workers):
    code, report, said = run_script(recorder, workers, "@session.breakpoint('turn')\ndef one(): return {}['absent']\n"
                                                       "@session.watch('total')\ndef two(): return [][1]\n"
                                                       "@session.at_end\ndef three(): 1 / 0\n")
    assert code == 2 and report["outcome"] == "bad input" and "KeyError: 'absent'" in said and "bad.py\", line 2, in one" in said
    code, _, said = run_script(recorder, workers, "@session.at_end\ndef three(): 1 / 0\n")
    assert code == 2 and "bad.py\", line 2, in three" in said


# -- the stop point itself --------------------------------------------------------------------------------------------
def test_a_handler_that_deletes_its_own_stop_point_and_those_of_others(workers, opened, plain_end):
    session = opened(workers)
    hits = []

    def first():
        hits.append("first")
        for point in list(session.points):
            session.delete(point)
        with pytest.raises(friday.UsageError, match="no stop point"):
            session.delete(1)
    session.breakpoint("turn", first)
    session.breakpoint("turn", lambda: hits.append("second"))
    session.watch("total", lambda: hits.append("watch"))
    session.every(lambda: hits.append("timer"), seconds=0.0001)
    run_to_end(session)
    assert hits[-1] == "first" and set(hits) <= {"timer", "first"} and not session.points
    assert lives(session, plain_end)


@full
def test_a_handler_that_sets_stop_points_at_each_hit(workers, opened, plain_end):
    session = opened(workers)
    inner = []
    session.breakpoint("turn", lambda: session.watch("total", lambda: inner.append(1), nodes=0), condition="i < 2")
    run_to_end(session)
    assert len(session.points) == 9 and len(inner) > 100
    assert lives(session, plain_end)


@pytest.mark.parametrize("name, words", [("restart", "cannot restart it"), *(pytest.param(*pair, marks=full) for pair in (
    ("run", "cannot resume it"), ("step", "cannot step it"), ("goto_end", "cannot move it")))])
def test_a_handler_that_moves_the_group(workers, opened, plain_end, name, words):
    session = opened(workers)
    session.breakpoint("turn", lambda: getattr(session, name)())
    with pytest.raises(friday.UsageError, match=words):
        session.run()
    assert lives(session, plain_end)


def test_a_handler_that_closes_the_session(workers, opened):
    session = opened(workers)
    session.breakpoint("turn", session.close)
    with pytest.raises(friday.UsageError, match="the session is closed"):
        session.run()
    for ask in (session.run, session.step, session.restart, session.backtrace, session.messages, lambda: session.read(None, "total"),
                lambda: session.breakpoint("turn"), lambda: session.nodes[0].write("total", 1), session.goto_end):
        with pytest.raises(friday.UsageError, match="the session is closed"):
            ask()


# -- memory and calls -------------------------------------------------------------------------------------------------
def test_writes_to_memory_that_the_program_cannot_write(workers, opened, plain_end):
    """As with any debugger the bytes are written; the node is altered, which `restart` takes back."""
    session = opened(workers)
    break_at(session, "work")
    node = session.node
    before = node.read("*(unsigned char *)sum_of")
    node.write("*(unsigned char *)sum_of", before ^ 0xff)
    assert node.read("*(unsigned char *)sum_of") == before ^ 0xff and node.altered is not None
    for target in ("*(int *)0", "*(long *)0xffffffffff600000", "*(int *)-4096"):
        with pytest.raises(friday.BadAddress, match="cannot write . bytes? at 0x"):
            node.write(target, 1)
    with pytest.raises(friday.BadExpression, match="not an lvalue"):
        node.write("5", 6)
    session.restart()
    assert node.altered is None
    break_at(session, "work")
    assert node.read("*(unsigned char *)sum_of") == before
    assert lives(session, plain_end)


def test_a_call_that_never_returns_in_every_handler(workers, opened, plain_end):
    session = opened(workers)
    session.call_timeout = 0.1
    failed = []

    def handler():
        try:
            session.node.call("spin_now")
        except friday.CallFailed as error:
            failed.append(error.how)
    session.breakpoint("turn", handler, condition="number == 1 && i < 4")
    run_to_end(session)
    assert failed == ["looped"] * 4 and not session.altered
    assert lives(session, plain_end)


# -- nodes ------------------------------------------------------------------------------------------------------------
def test_nodes_that_have_ended_or_not_started(ring, opened, recorder):
    session = opened(ring)
    late = max(session.nodes, key=lambda node: session.backend.clock_span(int(node))[0])
    break_at(session, "process_packet")
    assert late.state == "not started"
    for ask in (lambda: late.read("srv.node.id"), lambda: late.write("srv.puts", 1), lambda: late.call("abort"), late.backtrace, late.threads,
                late.symbols):
        with pytest.raises(friday.NodeNotStarted, match="has not started yet"):
            ask()
    with pytest.raises(friday.NoNode, match="no node 99"):
        session.nodes[99].read("x")
    with pytest.raises(friday.NoNode, match="the nearest is `n1`"):
        session.nodes["n11"].read("x")
    # The first that ends while others live.
    ended = []
    session.on_exit = lambda stop: (ended.append(stop.node), session.stop())
    assert session.run().kind == "exit"
    session.on_exit = None
    assert ended and len(session.all_nodes) > 0
    node = session.nodes[ended[0]]
    assert node.state == "ended" and node.read("srv.node.id") == node.read("srv.node.id") and node.threads()
    for ask in (lambda: node.write("srv.puts", 1), lambda: node.call("store_put", 1), lambda: session.step(node)):
        with pytest.raises(friday.NodeEnded, match="has ended"):
            ask()
    for point in list(session.points):
        session.delete(point)
    run_to_end(session)


@full
def test_huge_outputs(recorder, workers):
    """A script that prints without measure, through the pipe of a batch too."""
    (recorder.directory / "again").symlink_to(workers.path)
    script = recorder.directory / "talks.py"
    script.write_text("@session.breakpoint('turn')\ndef talk(): print('x' * 100_000)\n@session.at_end\ndef end(): print('y' * 10_000_000)\n")
    done = recorder.run([recorder.friday, "run", script, workers.path, recorder.directory / "again", "--junit", recorder.directory / "found.xml"])
    assert done.returncode == 0 and done.stdout.count("x") == 2 * 100 * 100_000 and done.stdout.count("y") == 2 * 10_000_000
    assert os.path.getsize(recorder.directory / "found.xml") < 1 << 20
    recorder.none_left()


@full
def test_a_handler_that_kills_its_own_process(recorder, workers):
    script = recorder.directory / "kills.py"
    script.write_text("import os\n@session.breakpoint('turn')\ndef end(): os._exit(7)\n")
    assert recorder.run([recorder.friday, "run", script, workers.path]).returncode == 7
    recorder.none_left()
    wait_until(lambda: not recorder.processes(), "processes are left")
