"""Functions of the program called by the debugger: by the core itself and by gdb, what their system calls are answered, and that
a call which fails leaves no trace.
"""

import os
import re

import pytest
from debug_support import BUILD, break_at, final_state, friday, opened, plain_end_of, record_once, run_to_end, workers  # noqa: F401
from test_debug_robust import no_gdb_needed

pytestmark = pytest.mark.limit(60)
BY_CORE, BY_GDB = "{}", "0 + {}"  # the core makes a call only if it comes first


plain_end = plain_end_of("workers")


@pytest.fixture
def node(workers, opened):
    """A node that stands in a worker's turn."""
    session = opened(workers)
    break_at(session, "turn", condition="number == 2 && i == 3")
    return session.node


def same_end(node, plain_end, form=BY_CORE):
    """Whether the replay ends as without the debugger. gdb writes below the stack pointer, where nothing counts but the hash."""
    ended = final_state(node.session)
    return ended == plain_end if form == BY_CORE else [e for e, _ in ended.values()] == [e for e, _ in plain_end.values()]


def test_functions_that_only_compute_leave_no_trace(node, plain_end):
    assert node.read("sum_of(1000, -1, 65535, -5, 7, 1)") == 1000 - 1 + 65535 - 5 + 7 + 1
    assert node.read("sum_of(number, 0, 0, i, 0, 0)") == 2 + 3
    assert node.call("nested_of", 5) == 5 + 1 + 2 + 3 + 4 + 1 + 5
    assert node.read("half_of(9.0, 0.25f)") == 4.75
    assert abs(node.read("third_of(1)") - 1 / 3) < 1e-7
    assert node.altered is None
    assert same_end(node, plain_end)


def test_what_names_the_workspace_is_planned_once(node):
    """Values, arguments and results that lie in the workspace: other ones of the same kind need no gdb."""
    def use(number):
        node.write("(long)_friday_workspace", number)
        written = node.read("*(long*)&_friday_workspace")
        called = node.call("number_of", f"{number + 1}")
        node.session.execute(f'@((long)_friday_workspace = number_of("{number + 2}"))')
        return written, called, node.read("*(long*)&_friday_workspace")

    assert use(17) == (17, 18, 19)
    with no_gdb_needed() as stopped:
        assert stopped and use(40) == (40, 41, 42) and use(-5) == (-5, -4, -3)
    assert node.altered is None


@pytest.mark.parametrize("program", ["debug_session_O0", "debug_session_O2"])
def test_structs_are_passed_and_returned(tmp_path_factory, opened, program):
    session = opened(record_once(program, lambda recorder: recorder.record([BUILD / "targets" / program]), tmp_path_factory))
    break_at(session, "walk")
    node, middle = session.node, session.node.read("middle")
    moved = node.call("shifted", middle, 7)
    assert (moved.x, moved.y, moved.next, moved.name) == (3 + 7, 4, middle.next, "middle")
    again = node.call("shifted", moved, -10)
    assert (again.x, again.y, again.name) == (0, 4, "middle") and node.read("middle") == middle
    assert node.altered is None
    run_to_end(session)


@pytest.mark.parametrize("call", ["total(3)", "total(3) == 1", "sum_of(total(3), 2, 3, 4, 5, 6)", "nested_of(5) + total(3)"])
def test_a_number_cannot_be_called(node, call):
    with pytest.raises(friday.Error, match="used as function"):
        node.read(call)


def test_a_number_that_is_too_large_sets_errno_and_that_alters_the_node(node):
    assert [node.call("number_of", text) for text in ("17", "-4", "x")] == [17, -4, 0]
    assert node.read("errno") == 0 and node.altered is None
    assert node.call("number_of", "9" * 30) == 2 ** 63 - 1
    assert node.read("errno") == 34 and node.altered is not None


def test_a_function_that_changes_a_variable_is_seen_by_its_watch(node):
    hits = []
    node.session.watch("total", lambda: hits.append((int(node.session.hit.old), int(node.session.hit.new))))
    before = int(node.read("total"))
    assert node.read("add_now(7)") is not None and node.read("total") == before + 7
    assert node.altered is not None and hits == [], "a change of the user's is no hit"
    with pytest.raises(friday.Divergence):
        node.session.run()
    assert hits and hits[0] == (before + 7, before + 7 + 2), "the next change is one, from the value that the call left"


def test_gdb_writes_anywhere_in_the_workspace_and_alters_nothing(node):
    base = int(node.read("(long)&_friday_workspace"))
    for offset in (0, 8, (64 << 10) - 8):
        node.gdb(f"set var *(long*){base + offset} = {offset + 5}")
        assert node.read(f"*(long*){base + offset}") == offset + 5
    assert node.altered is None


def test_strings_lie_in_the_workspace(node, plain_end):
    assert node.call("length_of", "friday") == 6
    assert node.read('length_of("a \\"quoted\\" one")') == len('a "quoted" one')
    assert [node.call("length_of", "x" * n) for n in (0, 1, 5000)] == [0, 1, 5000]
    assert same_end(node, plain_end, BY_GDB)


@pytest.mark.parametrize("call, alters", [
    ("add_now(7)", True), ("change_by_text_now(\"7\")", True), ("first_of(\"7\")", False), ("handle_now()", True), ("handled_now()", False), ("0 + handle_now()", True)])
def test_a_call_alters_its_node_if_it_changes_memory_whoever_makes_it(node, plain_end, call, alters):
    node.read(call)
    assert (node.altered is not None) == alters
    assert alters or same_end(node, plain_end, BY_GDB)


@pytest.mark.parametrize("command, alters", [
    ("print sum_of(1, 2, 3, 4, 5, 6)", False), ("call add_now(7)", True), ("set var total = 77", True), ("print total = 77, crash_now((int*)0)", True),
    ("print $rbx = $rbx + 1", True), ("print total", False), ("print crash_now((int*)0)", False)])
def test_a_command_of_gdbs_alters_its_node_if_it_changes_the_program(node, command, alters):
    before = int(node.read("total"))
    try:
        node.gdb(command)
    except friday.CallFailed as failed:
        assert "crash_now" in command and "SIGSEGV" in str(failed)
    assert (node.altered is not None) == alters
    assert alters or node.read("total") == before
    assert "77" not in command or node.read("total") == 77


@pytest.mark.parametrize("change", ["set var total = 1", "print total = 1", "print $rax = 1", "print add_now(7)"])
def test_a_node_that_has_ended_cannot_be_changed(workers, opened, change):
    """Checkpoints have its process in common, so a store would stay wherever the group goes."""
    session = opened(workers)
    session.set_checkpoints(True)
    run_to_end(session)
    node = session.nodes.all[0]
    before, hash_before = int(node.read("total")), session.backend.state_hash(0)
    with pytest.raises(friday.NodeEnded, match="node 0 has ended: its state can be read, not changed"):
        node.gdb(change)
    with pytest.raises(friday.NodeEnded, match="node 0 has ended"):
        node.read("total = 1")
    assert node.altered is None and node.read("total") == before and session.backend.state_hash(0) == hash_before


@pytest.mark.parametrize("form", [BY_CORE, BY_GDB])
@pytest.mark.parametrize("call, how, words", [
    ("crash_now((int*)0)", "crashed", "SIGSEGV"), ("abort_now()", "crashed", "SIGABRT"), ("exit_now()", "crashed", r"exit\(3\)"),
    ("block_now()", "blocked", "signal"), ("change_all_now((int*)0)", "crashed", "SIGSEGV")])
def test_a_call_that_fails_is_undone(node, plain_end, call, how, words, form):
    registers, frames, maps = node.gdb("info registers"), node.backtrace(), maps_of(node)
    for _ in range(2):
        with pytest.raises(friday.CallFailed, match=words) as failed:
            node.read(form.format(call))
        assert failed.value.how == how and "as it was before" in str(failed.value)
        assert node.gdb("info registers") == registers and node.backtrace() == frames and maps_of(node) == maps
    assert node.altered is None and same_end(node, plain_end, form)


def maps_of(node):
    """Where the node has memory that it can write, but for the workspace."""
    with open(f"/proc/{replayed()}/maps") as maps:
        text = maps.read()
    return re.findall(r"^(\w+-\w+ rw\S+)(?! .*1800000)", text, re.M)


def replayed():
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = open(f"/proc/{entry.name}/stat").read()
            except OSError:
                continue
            if "(friday-stub)" in stat and int(stat.rpartition(")")[2].split()[1]) == os.getpid():
                return entry.name
    raise AssertionError("there is no replayed process")


@pytest.mark.parametrize("form", [BY_CORE, BY_GDB])
def test_a_call_that_computes_for_ever_is_stopped_at_the_deadline(node, plain_end, form):
    node.session.call_timeout = 0.3
    with pytest.raises(friday.CallFailed, match="still computes") as failed:
        node.read(form.format("spin_now()"))
    assert failed.value.how == "looped"
    assert same_end(node, plain_end, form)


def test_a_lock_that_a_parked_thread_holds_is_named(workers, opened, plain_end):
    session = opened(workers)
    session.watch("total")
    stop = session.run()  # in the middle of a turn, the lock held
    assert stop.kind == "watch"
    node = session.node
    with pytest.raises(friday.CallFailed, match=rf"lock at 0x\w+ that thread {stop.thread} ") as failed:
        node.read("lock_now()")
    assert failed.value.how == "blocked"
    number = next(line.split()[0] for line in node.gdb("info threads").splitlines() if '"workers"' in line)
    node.gdb(f"thread {number}")
    with pytest.raises(friday.CallFailed, match=rf"lock at 0x\w+ that thread {stop.thread} "):
        node.gdb("print lock_now()")
    for point in list(session.points):
        session.delete(point)
    assert node.altered is None and same_end(node, plain_end, BY_GDB)


def test_what_its_system_calls_are_answered(node, plain_end):
    recorded = node.session.nodes[0]
    pid, tid = int(node.read("ids_now(0)")), int(node.read("ids_now(1)"))
    assert f"tid {tid}" in recorded.gdb("info threads") and pid < tid and node.read("ids_now(2)") > 0
    assert os.strerror(int(node.read("touch_now()"))) == "Read-only file system" and not os.path.exists("/tmp/friday-touched")
    assert os.strerror(int(node.read("reach_now()"))) == "Operation not permitted"
    assert os.strerror(int(node.read("signal_now()"))) == "Operation not permitted"
    node.session.backend.take_notices()
    assert node.call("say_now", "hello from a call") == 1
    assert any("hello from a call" in notice for notice in node.session.backend.take_notices())
    assert same_end(node, plain_end, BY_GDB)


@pytest.mark.parametrize("sync", ["free", "causal", "clock"])
def test_a_call_loses_no_stop_of_its_thread(tmp_path_factory, opened, sync):
    """Where nodes run side by side, one may have stopped for a reason that is not handled yet when a function is called in it."""
    recording = record_once("fork_pipe", lambda recorder: recorder.record([BUILD / "targets" / "fork_pipe"]), tmp_path_factory)
    session = opened(recording, sync=sync)
    session.catch("syscall write")
    seen = {0: 0, 1: 0}
    while (stop := session.run()).kind != "end":
        if stop.kind != "catch":
            continue
        seen[int(stop.node)] += 1
        for node in session.all_nodes:
            assert node.read("answer_to(5)") == 16
    recorded = {node: sum(" write(" in f" {text}" for _, text in session.backend.events(node, 0, 100_000)) for node in seen}
    assert seen == recorded and min(seen.values()) >= 1000 and not session.altered
