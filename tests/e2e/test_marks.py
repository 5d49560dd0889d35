"""Marks: a place that one session names is the same place in another, which goes straight there; and `undo` comes back to where the
group stood."""
import random
import re

import pytest
from console_support import PROMPT, Terminal
from debug_support import BUILD, break_at, friday, opened, record_once, recorded_target, ring  # noqa: F401

pytestmark = pytest.mark.limit(240)

far = recorded_target("far_passages")


def place(session):
    """Where the group stands: events done, registers and memory of each node."""
    backend = session.backend
    alive = [int(node) for node in session.all_nodes]
    return [(node, backend.event(node), session.nodes[node].read("$pc") if node == session.here else None, backend.state_hash(node)) for node in alive]


def visit(session, chance):
    """Moves the group somewhere."""
    how = chance.choice(["run", "run", "step", "stepi", "next", "finish", "goto"])
    if how == "run":
        stop = session.run()
    elif how == "goto":
        node, event = session.backend.find_time(chance.uniform(0.1, 2))
        stop = session.goto(event, node=node)
    else:
        stop = session.step(session.here, how)
    if stop.kind == "end":
        session.restart()
        session.run()


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12)]])
def test_the_mark_that_a_stop_carries_is_its_place(ring, opened, seed):
    """Counted on the way, with steps, returns and stop points that come and go between: the same as what a run that counts names."""
    chance = random.Random(seed)
    session = opened(ring)
    session.set_checkpoints(True)
    points = [session.breakpoint("process_data", condition="packet->seq % 2 == 0"), session.breakpoint("stabilize"), session.watch("srv.seq"), session.watch("srv.successor")]
    carried, stops = {}, 0
    while stops < 60:
        move = chance.random()
        if move < 0.1:
            node, event = session.backend.find_time(chance.uniform(0.1, 3))
            stop = session.goto(event, node=node)
        elif move < 0.3:
            stop = session.step(session.here, chance.choice(["step", "stepi", "next", "finish"]))
        elif move < 0.4:
            stop = session.reverse_continue() or session.run()
        else:
            if move < 0.5:
                chance.choice(points).enable(chance.random() < 0.7)
            stop = session.run()
        if stop.kind == "end":
            session.restart()
            [point.enable() for point in points]
            continue
        stops += stop.kind in ("breakpoint", "watch")
        if stop.mark is None:
            continue
        here = place(session)
        named = session.mark()
        assert place(session) == here
        assert stop.mark == named or "+" in stop.mark, f"{stop.kind} carries {stop.mark}, a run that counts names {named}"
        carried[stop.mark] = here
    assert len(carried) > 30 and len([mark for mark in carried if "+" in mark]) > 3, carried.keys()
    other = opened(ring)
    other.set_checkpoints(True)
    if seed % 2:
        other.watch("srv.seq")
    for mark in chance.sample(list(carried), 25):
        other.goto(mark)
        assert place(other) == carried[mark], mark


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12)]])
def test_a_mark_is_the_same_place_in_another_session(ring, opened, seed):
    chance = random.Random(seed)
    session = opened(ring)
    session.set_checkpoints(True)
    session.breakpoint("process_data", condition="packet->seq % 2 == 0")
    session.breakpoint("stabilize")
    if seed % 2:  # a watch stops in front of breakpoints, or makes the node pass over them
        session.watch("srv.seq")
    session.run()
    marks = {}
    while len(marks) < 25:
        visit(session, chance)
        before = place(session)
        mark = session.mark()
        assert place(session) == before, f"naming {mark} has moved the group"
        assert session.mark() == mark
        marks[mark] = before
    assert len([mark for mark in marks if "*" in mark]) > 10, marks
    other = opened(ring)
    other.set_checkpoints(chance.random() < 0.5)
    if seed % 2:
        other.watch("srv.seq")
    order = list(marks)
    chance.shuffle(order)
    for mark in order:
        other.goto(mark)
        assert place(other) == marks[mark], f"at {mark}, seed {seed}"
        assert other.mark() == mark


@pytest.mark.parametrize("call", ["twice(9)", "0 + twice(9)"])
def test_what_a_called_function_comes_by_is_no_passage_of_the_program(far, opened, call):
    """Neither a passage of a breakpoint nor a change of what is watched, so marks name the same places."""
    session = opened(far)
    session.set_checkpoints(True)
    session.breakpoint("twice")
    session.watch("scratch")
    carried = {}
    for _ in range(16):
        stop = session.run()
        here = place(session)
        assert session.node.read(call) == 18 and not session.altered and place(session) == here
        assert stop.mark
        carried[stop.mark] = here
    assert len(carried) == 16 and sum("+" in mark for mark in carried) > 5, carried.keys()
    assert carried[session.mark()] == place(session)
    for mark, there in carried.items():
        session.goto(mark)
        assert place(session) == there, mark


def test_a_call_alters_nothing_by_stores_that_watches_have_patched(far, opened):
    session = opened(far)
    session.watch("number", condition="number > 5000")
    break_at(session, "twice", condition="value == 150")
    before = session.backend.watch_statistics()["faults"]
    for call in ("twice(9)", "0 + twice(9)"):
        assert session.node.read(call) == 18 and not session.altered
    assert session.backend.watch_statistics()["faults"] == before, "the stores were patched"


def test_a_called_function_may_store_beside_a_watch(far, opened):
    """Its own stores are patched while it runs, if that maps nothing. A page that is mapped twice is put back, too, when a call fails."""
    session = opened(far)
    session.watch("number", condition="number > 5000")
    break_at(session, "twice", condition="value == 150")
    before, scratch = session.backend.watch_statistics()["faults"], int(session.node.read("scratch"))
    for call in ("store_often(200000)", "0 + store_often(200000)"):
        assert session.node.read(call) == 200000 and not session.altered
    assert session.backend.watch_statistics()["faults"] < before + 200, "they were patched"
    with pytest.raises(friday.CallFailed, match="SIGSEGV"):
        session.node.read("store_and_fault((int*)0)")
    assert session.node.read("scratch") == scratch and not session.altered
    assert session.node.read("store_often(1000)") == 1000 and session.node.read("twice(9)") == 18


@pytest.mark.parametrize("program", ["workers", *[pytest.param(name, marks=pytest.mark.full) for name in (
    "fork_many", "execs", "threads_spin", "signals_threads", "signals_compute", "shared_turns", "main_exits", "exceptions")]])
def test_marks_in_threads_signals_and_processes_that_come_and_go(program, tmp_path_factory, opened):
    """At functions of libraries, which several threads and processes call, and some instructions behind them."""
    recording = record_once(program, lambda recorder: recorder.record([BUILD / "targets" / program]), tmp_path_factory)
    chance = random.Random(1)
    session = opened(recording)
    session.set_checkpoints(True)
    for function in ("write", "malloc", "sigaction", "pthread_mutex_lock"):
        session.breakpoint(f"-pending {function}")
    marks = {}
    for _ in range(400):
        stop = session.run()
        if stop.kind == "end":
            break
        if chance.random() > 0.7:
            continue
        steps = chance.randrange(3) if session.nodes.all[stop.node].state == "alive" else 0
        for _ in range(steps):
            if session.nodes.all[stop.node].state == "alive":
                session.step(stop.node, "stepi")
        before = place(session)
        mark = session.mark()
        assert place(session) == before
        assert steps or stop.mark in (None, mark)
        marks[mark] = before
        if len(marks) == 12:
            break
    assert len(marks) > 2, marks
    other = opened(recording)
    other.set_checkpoints(True)
    order = list(marks)
    chance.shuffle(order)
    for mark in order:
        other.goto(mark)
        assert place(other) == marks[mark], mark


locals_ = recorded_target("watch_locals")


def test_a_place_in_a_loop_is_counted(locals_, opened):
    """Between two events the program comes by the same instruction many times."""
    session = opened(locals_)
    session.set_checkpoints(True)
    session.breakpoint("count")
    point = session.watch("count::total")
    seen = []
    while (stop := session.run()).kind != "end":
        if stop.kind == "watch":
            seen.append((session.mark(), str(session.changes(stop)[0].new)))
    assert len(seen) > 3 and len(dict(seen)) == len(seen), seen
    assert max(int(re.search(r"\*(\d+)", mark)[1]) for mark, _ in seen) > 3
    point.delete()
    chance = random.Random(1)
    chance.shuffle(seen)
    for mark, value in seen:
        session.goto(mark)
        assert str(session.node.read("total")) == value, mark


def test_the_start_an_event_and_an_end(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    assert session.mark() == "start"
    session.goto(100, node=2)
    assert session.mark() == "2#100"
    session.run()
    assert session.finished
    ended = session.mark()
    node, events = map(int, ended.split("#"))
    assert events == session.backend.event_count(node)
    session.goto("2#100")
    assert session.mark() == "2#100" and session.backend.event(2) == 99
    assert session.goto(ended).kind == "exit"
    assert session.backend.states()[node] == "ended"


def test_where_an_interrupt_has_found_the_group(recorder, opened):
    """In the code of the node that was at work, which the mark names; the others wait for it."""
    program = ["/usr/bin/awk", "BEGIN { for (k = 0; k < 300; k++) { for (i = 0; i < 5000; i++) x += i; print k; fflush() } }"]
    recording = recorder.group({"group": {}, "node": [{"name": f"w{i}", "command": program, "stdout": f"w{i}.out"} for i in range(3)]}, timeout=60)
    session, other = opened(recording), opened(recording)
    for each in (session, other):
        each.set_checkpoints(True)
    chance, inside = random.Random(1), 0
    for _ in range(60):  # the replay is soon over, and where it is found depends on the machine
        stop = session.backend.resume(chance.uniform(0.005, 0.1))
        if stop.kind != "pause":
            session.restart()
            continue
        session.here, session._standing = stop.node, stop
        before, mark = place(session), session.mark()
        assert place(session) == before
        if mark == "start":  # it has found them before the first instruction
            other.restart()
        else:
            other.goto(mark)
        assert place(other) == before, mark
        if "*" in mark and (inside := inside + 1) == 3:
            break
    assert inside > 0


def test_a_write_by_a_system_call_is_behind_it(recorder, targets, opened):
    """The mark of a watch that a call has hit is the instruction behind the call, which has the new value."""
    session = opened(recorder.record([targets / "inputs"]))
    session.set_checkpoints(True)
    session.breakpoint("main", temporary=True)
    session.run()
    session.catch("syscall read")
    stop = session.run()
    watched = f"*(unsigned *){int(session.node.read('$rsi'))}"
    for point in list(session.points):
        session.delete(point)
    session.watch(f"-l {watched}")
    stop = session.run()
    assert stop.kind == "watch"
    mark, value = session.mark(), str(session.changes(stop)[0].new)
    assert mark.endswith("*1")
    event, old = session.backend.events_done(), str(session.changes(stop)[0].old)
    for before_the_call in event, f"0#{event}":  # it stands in the call, so this lies back
        there = session.goto(before_the_call)
        assert (there.kind, session.backend.events_done(), str(session.node.read(watched))) == ("reached", event, old)
        assert session.run().kind == "watch" and str(session.node.read(watched)) == value
    session = opened(session.recording)
    session.goto(mark)
    assert str(session.node.read(watched)) == value


@pytest.mark.parametrize("mark,error,match", [
    ("nonsense", friday.UsageError, "is no mark"), ("3#", friday.UsageError, "is no mark"), ("3#1:0x10", friday.UsageError, "is no mark"),
    ("3#1:0x10*0", friday.UsageError, "is no mark"), ("3#1:0x10+8", friday.UsageError, "is no mark"), ("3#1:0x10+0*1", friday.UsageError, "is no mark"), ("3#1:0x10+99999999999*1", friday.UsageError, "is no mark"),
    ("3#5:0x10+8*2", friday.Error, "changes the bytes at 0x10 not once"), ("3#5 ", friday.UsageError, "is no mark"), ("99#1", friday.Error, "no node 99"),
    ("2#99999999", friday.Error, "has [0-9]+ events"), ("2#50:0x10*1", friday.Error, "comes by 0x10 not once"), ("start", friday.UsageError, "restart")])
def test_what_is_no_mark_of_this_recording(ring, opened, mark, error, match):
    session = opened(ring)
    session.set_checkpoints(True)
    session.goto(20, node=2)
    with pytest.raises(error, match=match):
        session.goto(mark)
    session.goto("2#30")
    assert session.mark() == "2#30"


def test_marks_need_the_order_clock(ring, opened):
    session = opened(ring, sync="causal")
    break_at(session, "stabilize")
    with pytest.raises(friday.Unsupported, match="order clock"):
        session.mark()
    with pytest.raises(friday.Unsupported, match="order clock"):
        session.goto("2#30")


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12)]])
def test_undo_comes_back(ring, opened, seed):
    chance = random.Random(seed)
    session = opened(ring)
    session.set_checkpoints(True)
    session.breakpoint("process_data")
    session.breakpoint("stabilize")
    session.run()
    past, future, here = [], [], place(session)
    for _ in range(40):
        what = chance.random()
        if what < 0.3 and past:
            assert session.undo() is not None
            future.append(here)
            here = past.pop()
        elif what < 0.5 and future:
            assert session.redo() is not None
            past.append(here)
            here = future.pop()
        else:
            session.backend.note_move()
            past.append(here)
            future.clear()
            if chance.random() < 0.3:
                session.reverse_continue()
            else:
                visit(session, chance)
            here = place(session)
        assert place(session) == here, f"seed {seed}"
    while past:
        session.undo()
        assert place(session) == past.pop()
    assert session.undo() is None


def test_undo_drops_what_was_altered(ring, opened):
    session = opened(ring)
    session.set_checkpoints(True)
    break_at(session, "process_data")
    before, value = place(session), session.node.read("srv.node.id")
    session.backend.note_move()
    session.step(session.here, "next")
    session.node.write("srv.node.id", 1)
    assert session.altered
    session.undo()
    assert not session.altered and place(session) == before and session.node.read("srv.node.id") == value
    session.redo()
    assert session.altered and session.node.read("srv.node.id") == 1
    session.undo()
    assert not session.altered and session.node.read("srv.node.id") == value


def test_the_console_keeps_places_and_takes_moves_back(recorder, ring):
    with Terminal(recorder, [recorder.friday, "replay", ring.path]) as terminal:
        terminal.expect(PROMPT)
        terminal.command("b process_data")
        terminal.command("c")
        here = terminal.command("frame")
        said = terminal.command("bookmark one")
        mark = re.match(r"bookmark one is (\d+#\d+:0x[0-9a-f]+\*\d+)\n", said)[1]
        assert terminal.command("info mark") == mark + "\n"
        assert terminal.command("frame") == here
        terminal.command("c 5")
        there = terminal.command("frame")
        assert terminal.command("bookmark").startswith("bookmark b1 is ")
        assert "process_data" in terminal.command("undo")
        assert terminal.command("frame") == here
        terminal.command("redo")
        assert terminal.command("frame") == there
        assert "no move was taken back" in terminal.command("redo")
        assert "process_data" in terminal.command("goto one")
        assert terminal.command("frame") == here
        terminal.command("goto b1")
        assert terminal.command("frame") == there
        assert mark in terminal.command("info bookmarks")
        terminal.command("@(srv.node.id=1)")
        assert "what was altered on" in terminal.command("undo")
        terminal.command("@(srv.node.id=1)")
        assert "what was altered on" in terminal.command("goto b1")
        assert "dropped" not in terminal.command("undo")
        assert terminal.command("py @(srv.node.id)") == "1\n"
        assert "what was altered on" in terminal.command("restart")
        terminal.command("goto one")
        assert terminal.command("frame") == here
        for wrong, says in [("goto two", "no bookmark (the bookmarks are one, b1)"), ("bookmark end", "cannot have that name"), ("bookmark a b", "usage"), ("3 goto one", "names its node"),
                            ("undo 2", "usage"), ("goto 9#1:0x10*1", "there is no"), ("goto start", "at the start")]:
            assert says in terminal.command(wrong), wrong
        assert "no move to take back" not in terminal.command("undo")
        terminal.send("\x04")
        assert terminal.finish() == 0
    recorder.none_left()


@pytest.mark.parametrize("sync", ["causal", "free"])
def test_no_undo_in_other_orders(ring, opened, sync):
    session = opened(ring, sync=sync)
    break_at(session, "process_data")
    before = place(session)
    session.backend.note_move()
    assert session.undo() is None and place(session) == before


@pytest.mark.parametrize("place,code,says", [("2#100", 0, "2#100\n"), ("event 100 2", 0, "2#100\n"), ("end", 0, "#"), ("99#1", 2, "no node 99"), ("nowhere", 2, "--at nowhere: `nowhere` is no time")])
def test_a_console_opens_at_a_place(recorder, ring, place, code, says):
    (recorder.directory / "ask").write_text("info mark\n")
    done = recorder.run([recorder.friday, "replay", ring.path, "--batch", "--at", place, "-x", recorder.directory / "ask"])
    assert done.returncode == code and says in done.stdout + done.stderr, done.stdout + done.stderr


def sum_before(turn):
    """What `sum` of far_passages is before a call of turn()."""
    total = 0
    for value in range(1, turn):
        total = (total * 3 + value) % 2 ** 64
        if total % 7 == 0:
            total = (total + value // 2) % 2 ** 64
    return total


@pytest.mark.parametrize("nth", [1, 2, 20_000, 1_999_999, 3_000_000])
def test_a_passage_far_from_the_last_event(far, opened, nth):
    """The node counts its passages itself, also beside stop points; with a breakpoint there it stops at each. The place is the same."""
    session = opened(far)
    session.set_checkpoints(True)
    break_at(session, "turn")
    first = session.mark()
    assert first.endswith("*1")
    mark = f"{first.removesuffix('1')}{nth}"
    session.goto(mark)
    assert (session.node.read("value"), session.node.read("sum")) == (nth, sum_before(nth))
    assert session.mark() == mark
    other = opened(far)
    other.breakpoint("again")
    if nth <= 20_000:
        other.breakpoint("turn", condition="value == 0")
        other.watch("sum")
    other.goto(mark)
    assert place(other) == place(session) and other.mark() == mark


def test_passages_of_each_instruction_beside_a_watch(far, opened):
    """One of them stores what is watched, so that each passage stops the node while it is where passages are counted."""
    session, watching = opened(far), opened(far)
    session.set_checkpoints(True)
    watching.set_checkpoints(True)
    break_at(session, "again")
    before = session.mark().rpartition(":")[0]
    watching.watch("number")
    instructions = [int(line.split()[0], 16) for line in session.node.gdb("x/4i again").replace("=>", "  ").splitlines()]
    for nth in (1, 2, 700):
        for instruction in instructions:
            mark = f"{before}:{instruction:#x}*{nth}"
            session.goto(mark)
            watching.goto(mark)
            assert place(watching) == place(session) and watching.mark() == session.mark() == mark


def test_a_passage_that_is_not_there(far, opened):
    session = opened(far)
    break_at(session, "turn")
    mark = session.mark()
    with pytest.raises(friday.Error, match="only 3000000 times"):
        session.goto(f"{mark.removesuffix('1')}3000001")


def test_passages_that_the_registers_do_not_tell_apart(far, opened):
    session = opened(far)
    session.set_checkpoints(True)
    break_at(session, "again")
    mark = f"{session.mark().removesuffix('1')}1500"
    session.goto(mark)
    assert session.node.read("number") == 1499 and session.mark() == mark


def test_the_child_of_an_altered_node_is_altered(tmp_path_factory, opened):
    session = opened(record_once("fork_pipe", lambda recorder: recorder.record([BUILD / "targets" / "fork_pipe"]), tmp_path_factory))
    session.set_checkpoints(True)
    break_at(session, "main")
    session.node.write("value", 5)
    assert [int(node) for node in session.altered] == [0]
    session.catch("syscall read", nodes=[1])
    stop = session.run()
    assert stop.kind == "catch" and stop.node == 1
    assert [int(node) for node in session.altered] == [0, 1]
    session.restart()
    assert not session.altered


def test_marks_of_what_is_written_where_handlers_are_entered(tmp_path_factory, opened):
    """A call behind which a handler runs first; and frames, at which the program stands at the handler's first instruction."""
    recording = record_once("signal_frames", lambda recorder: recorder.record([BUILD / "targets" / "signal_frames"]), tmp_path_factory)
    session = opened(recording)
    session.set_checkpoints(True)
    blocked = session.watch("was_blocked")
    session.breakpoint("ready")
    stop = session.run()
    assert stop.kind == "watch" and int(session.node.read("info_at")) == 0, "in the call, before the handler"
    marks = {stop.mark: session.node.read("$pc"), session.mark(): session.node.read("$pc")}
    blocked.delete()
    assert session.run().kind == "breakpoint"
    session.watch(f"-l *(int*){int(session.node.read('info_at'))}")
    handler, numbers = int(session.node.read("(long)&handler")), []
    while (stop := session.run()).kind == "watch":
        assert stop.pc == int(session.node.read("$pc")) == handler and session.node.read("$rdi") in (12, 8)
        assert re.match(r"#0 +handler \(", session.node.gdb("backtrace"))
        numbers.append(int(session.changes(stop)[0].new))
        if stop.mark:
            marks[stop.mark] = session.node.read("$pc")
    assert numbers == [0, 12, 0, 8], (numbers, stop)
    assert len(marks) > 2, marks
    other = opened(recording)
    other.set_checkpoints(True)
    for mark, pc in marks.items():
        other.goto(mark)
        assert other.node.read("$pc") == pc, mark


def test_nothing_is_passed_over_where_a_recorded_spin_is_looked_for(tmp_path_factory, opened):
    """The thread stands there with the registers of the recorded spin, and does not spin: what it does next stops it, and counts."""
    recording = record_once("spin_passed", lambda recorder: recorder.record([BUILD / "targets" / "spin_passed"]), tmp_path_factory)
    session = opened(recording)
    session.set_checkpoints(True)
    session.breakpoint("*&passed_five")
    marks, flags = {}, []
    while (stop := session.run()).kind == "breakpoint":
        flags.append(int(session.node.read("flag")))
        here = place(session)
        marks[session.mark()] = here
        assert stop.mark in (None, session.mark())
    assert flags == [5, 5] and len(marks) == 2, (flags, marks)
    other = opened(recording)
    other.set_checkpoints(True)
    for mark, there in marks.items():
        other.goto(mark)
        assert place(other) == there, mark
