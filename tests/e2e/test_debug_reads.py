"""Watches of reads, and of reads and stores: by debug registers, exact whatever else is watched on the page."""

import subprocess

import pytest
from debug_support import BUILD, friday, opened, plain_end_of, record_once, recorded_target, run_to_end, state  # noqa: F401

pytestmark = [pytest.mark.limit(60), pytest.mark.usefixtures("debug_registers")]

# (function, old, new) of each access by the program's own code; equal values: read, or stored as it was.
READS = [("read_it", 1, 1), ("store", 1, 1), ("copy", 5, 5), ("read_it", 5, 5)]
ACCESSES = [("store", 0, 1), ("read_it", 1, 1), ("store", 1, 1), ("add", 1, 5), ("copy", 5, 5), ("store", 5, 7), ("read", 7, 5), ("read_it", 5, 5)]


reads = recorded_target("watch_reads")
plain_end = plain_end_of("reads")


def function_of(hit):
    return hit.location.split(" at ")[0].removeprefix("__GI___").removeprefix("__libc_").removeprefix("__")


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "its-page-protected"])
@pytest.mark.parametrize("option, expected", [("-reads", READS), ("-access", ACCESSES)])
def test_each_access_is_told_once(reads, opened, plain_end, option, expected, beside):
    session = opened(reads)
    seen, others = [], []
    if beside:
        session.watch("beside", lambda hit: others.append(hit.new))
    point = session.watch(f"{option} value", lambda hit: seen.append((function_of(hit), hit.old, hit.new)))
    run_to_end(session)
    assert seen == expected
    assert others == ([1, 2] if beside else [])
    for each in list(session.points):
        session.delete(each)
    assert point.hits == len(expected) and state(session) == plain_end


def test_the_thread_that_reads_is_told(reads, opened):
    session = opened(reads)
    threads = []
    session.watch("-reads value", lambda hit: threads.append(hit.thread))
    run_to_end(session)
    assert threads == [0, 0, 0, 1]


def test_a_condition_and_a_change_of_another_watch_of_the_same_variable(reads, opened):
    session = opened(reads)
    read, changed = [], []
    session.watch("-reads value", lambda hit: read.append(int(hit.new)), condition="value == 5")
    session.watch("value", lambda hit: changed.append((int(hit.old), int(hit.new))))
    run_to_end(session)
    assert (read, changed) == ([5, 5], [(0, 1), (1, 5), (5, 7), (7, 5)])


@pytest.mark.parametrize("expression, why", [
    ("-reads *(char(*)[40])&value", "the processor's four debug registers do so, 8 bytes each; more than four of them are needed and 4 free"),
    ("-reads value + 1", "has no place in memory"), ("-access -l value, nosuch", "nosuch"), ("-read value", "-reads (reads instead of writes)")])
def test_what_cannot_be_watched_is_refused(reads, opened, expression, why):
    session = opened(reads)
    with pytest.raises(friday.Error, match=".") as refused:
        session.watch(expression)
    assert why in str(refused.value)
    assert not session.points


def test_the_console_says_what_was_read(reads, recorder):
    commands = recorder.directory / "commands"
    commands.write_text("rwatch value\ncontinue\ninfo watchpoints\ndelete\nawatch value\ncontinue\ncontinue\n")
    with open(commands) as stdin:
        done = recorder.start([recorder.friday, "replay", reads.path], stdin=stdin).finish(60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "value: 1, read or stored unchanged" in done.stdout and "value: 1 -> 5" in done.stdout, done.stdout


def test_a_gdb_of_the_users_own(reads, opened):
    session = opened(reads)
    script = ["-ex", f"target remote {session.nodes[0].endpoint}"]
    for command in ("rwatch value", "continue", "delete", "y", "awatch value", "continue", "continue"):
        script += ["-ex", command]
    gdb = subprocess.Popen(["gdb", "-nx", "-batch", *script, BUILD / "targets" / "watch_reads"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while gdb.poll() is None:
        session.backend.pump(0.05)
    said = gdb.communicate()[0]
    assert "Hardware read watchpoint 1: value" in said and "Value = 1" in said, said
    assert "Hardware access (read/write) watchpoint 2: value" in said and "New value = 5" in said, said


def test_reads_are_watched_in_forked_nodes(tmp_path_factory, opened):
    recording = record_once("rounds", lambda recorder: recorder.record([BUILD / "targets" / "rounds"]), tmp_path_factory)
    session = opened(recording)
    seen = []
    session.watch("-reads turns", lambda hit: seen.append((int(hit.node), int(hit.new))))
    run_to_end(session)
    by_node = [[new for node, new in seen if node == each] for each in range(3)]
    assert by_node[0] == sorted(by_node[0]) and set(by_node[0]) == set(range(200))  # the compiler decides how often a turn is read
    assert by_node[1] == by_node[2] == by_node[0]
