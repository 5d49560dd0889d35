"""Catchpoints, crashes and `handle`: the group stops where the trace says that the calls and signals are, no more and no less."""

import re

import pytest
from debug_support import BUILD, friday, opened, record_once, recorded_target, ring, workers  # noqa: F401

pytestmark = pytest.mark.limit(120)
catches = recorded_target("catches")


def events_of(recording, wanted):
    """(node, event) of all events that are wanted, in the order of the group, as the trace tells them without a replay."""
    whole = friday.Recording(recording.path)
    return [(int(node), index) for node, index in whole.order() if wanted(whole.event(node, index))]


def begins(event, calls):
    return event.kind in ("call", "release") and (not calls or event.call in calls)


def caught(session, most=10**9):
    """(node, event) of each stop at a catchpoint."""
    found = []
    while len(found) < most and (stop := session.run()).kind != "end":
        assert stop.kind == "catch", stop
        assert session.nodes[stop.node].state == "alive" and session.backend.event(stop.node) == (-1 if stop.event is None else stop.event), stop
        found.append((stop.node, 0 if stop.event is None else stop.event + 1))
    return found


@pytest.mark.parametrize("calls", [("sendto",), ("recvfrom", "poll"), ()])
def test_a_group_stops_at_each_call_of_the_trace_in_its_order(ring, opened, calls):  # noqa: F811
    most = 10**9 if calls else 400
    session = opened(ring)
    point = session.catch(f"syscall {' '.join(calls)}")
    found = caught(session, most)
    assert found == events_of(ring, lambda event: begins(event, calls))[:most] and len(found) > 100
    assert point.hits == len(found)


@pytest.mark.parametrize("sync", ["causal", "free"])
def test_in_other_orders_each_node_stops_at_its_own(ring, opened, sync):  # noqa: F811
    session = opened(ring, sync=sync)
    session.catch("syscall sendto", nodes="n1,n2")
    found = caught(session)
    wanted = [place for place in events_of(ring, lambda event: begins(event, ("sendto",))) if place[0] in (1, 2)]
    assert sorted(found) == sorted(wanted) and found


def test_threads_and_what_is_read_there(workers, opened):  # noqa: F811
    """At each stop the registers are those of the call whose arguments the trace has."""
    session, whole = opened(workers), friday.Recording(workers.path)
    session.catch("syscall futex write", lambda: session.stop())
    seen = set()
    while (stop := session.run()).kind != "end":
        event = whole.event(stop.node, stop.event + 1)
        assert (stop.thread, stop.caught.partition("(")[0]) == (event.thread, event.call)
        number, *arguments = (int(session.read(stop.node, f"(unsigned long){register}")) for register in ("$rax", "$rdi", "$rsi", "$rdx"))
        assert number == {"futex": 202, "write": 1}[event.call] and tuple(arguments[:len(event.arguments)]) == event.arguments[:3]
        seen.add((event.call, stop.thread))
    assert len(seen) > 2


def test_conditions_counts_and_ends(ring, opened):  # noqa: F811
    every = events_of(ring, lambda event: begins(event, ("sendto",)))
    session = opened(ring)
    point = session.catch("syscall sendto")
    point.ignore(5)
    assert caught(session, 3) == every[5:8]
    point.disable()
    other = session.catch("syscall recvfrom", condition="srv.period == 0")  # never
    event = every[40][1]
    assert session.goto(event, node=every[40][0]).kind == "reached"
    point.enable()
    assert caught(session, 2) == every[41:43], "where the group stands it has been already"
    assert other.hits == 0
    point.delete()
    assert session.run().kind == "end"
    session.restart()
    session.catch("syscall sendto", temporary=True)
    assert caught(session) == every[:1]


def test_beside_timers_and_breakpoints(ring, opened):  # noqa: F811
    every = events_of(ring, lambda event: begins(event, ("sendto",)))
    session, seen, ticks, hits = opened(ring), [], [], []
    session.catch("syscall sendto", lambda hit: seen.append((hit.stop.node, hit.stop.event + 1)))
    session.every(lambda: ticks.append(float(session.logical_time)), seconds=0.05)
    session.breakpoint("stabilize", lambda: hits.append(session.here))
    assert session.run().kind == "end"
    with_all = (len(ticks), len(hits))
    assert seen == every and all(with_all)
    session.restart()
    for point in list(session.points.values()):
        if point.kind == "catch":
            point.delete()
    ticks.clear()
    hits.clear()
    assert session.run().kind == "end" and (len(ticks), len(hits)) == with_all


def test_a_step_over_a_call_stops_in_it(catches, opened):
    session = opened(catches)
    session.breakpoint("main")
    assert session.run().kind == "breakpoint"
    session.catch("syscall rt_sigaction")
    for _ in range(4):  # the line that makes the call is one of the first
        if (stop := session.step(None, "next")).kind != "step":
            break
    assert stop.kind == "catch" and "rt_sigaction(SIGUSR1" in stop.caught
    assert session.step(None, "finish").kind == "step"


def test_what_becomes_of_processes(catches, opened):
    session = opened(catches)
    session.catch("fork")
    session.catch("exec")
    session.catch("signal SIGSEGV")
    told = []
    while (stop := session.run()).kind != "end":
        told.append((stop.kind, stop.node, stop.ids, stop.signal))
    assert told == [("catch", 0, (1,), None), ("catch", 1, (2,), None), ("catch", 0, (1,), None), ("exit", 3, (3,), "SIGSEGV")]
    whole = friday.Recording(catches.path)
    failed = [event for event in whole.events(1, call="execve")]
    assert len(failed) > 1, "an execve that failed is none"


@pytest.mark.parametrize("what,message", [
    ("syscall wirte", "there is no system call `wirte`; the nearest is `write`"), ("syscall 9999", "no system call with the number 9999"), ("signal FOO", "there is no signal `FOO`"),
    ("load", "cannot catch `load`"), ("", "cannot catch ``"), ("fork x", "`catch fork` takes no argument")])
def test_what_cannot_be_caught(catches, opened, what, message):
    with pytest.raises(friday.UsageError, match=re.escape(message)):
        opened(catches).catch(what)


def test_a_function_for_the_end_of_a_node_can_stop_the_group(catches, opened):
    session, ended = opened(catches), []
    session.at_exit(lambda stop: (ended.append(stop.node), session.stop() if stop.signal else None))
    stop = session.run()
    assert (stop.kind, stop.node, stop.signal) == ("exit", 3, "SIGSEGV") and ended == [1, 2, 3]
    assert session.run().kind == "end" and ended == [1, 2, 3, 0] or ended[-1] == 0


# -- the console ------------------------------------------------------------------------------------------------------
@pytest.fixture
def console(recorder, catches):
    def run(text):
        (recorder.directory / "input").write_text(text)
        with open(recorder.directory / "input") as stdin:
            done = recorder.start([recorder.friday, "replay", catches.path], stdin=stdin).finish(60)
        recorder.none_left()
        assert done.returncode == 0
        return done.stdout, done.stderr
    return run


def test_a_crash_stops_the_group_with_its_instruction_line_and_stack(console):
    said, _ = console("continue\np $_exitcode\nbt\ncontinue\n")
    crash = re.search(r"^node 3 \(catches/child-2\) died of SIGSEGV \(Segmentation fault\) in fault \(\) at .*catches\.cc:(\d+), thread 0, \d+\.\d+ s\n"
                      r"(\d+)\t.*it dies here\n=> 0x\w+ <.*fault.*>:\tmovl? +\$0x1,.*\n#0 .*fault.*\n#1 .*main.*\n", said, re.M)
    assert crash and crash[1] == crash[2], said
    assert "[catches/child-2 ended] #1" in said, "the node that crashed is the selected one"
    assert "node 0 (catches) ended" in said.partition("died of")[2], "and the group goes on"


def test_goto_passes_over_crashes_and_says_them(console):
    said, _ = console("handle USR1 stop\ngoto end\ndelete\nrestart\ncontinue\n")
    assert "died of" not in said.partition("restart")[0].partition("at the start")[0] and "killed by SIGSEGV" in said and "the recording ends here" in said
    assert "no stop points kept" in said and "stopped at SIGUSR1, " in said.partition("at the start")[2], "`delete` leaves what `handle` has set"


def test_exceptions_and_handlers(console):
    said, _ = console("catch throw\ncatch catch\nhandle USR1 stop\ncontinue\ncontinue\ncontinue\ncontinue\ncontinue\nhandle SIGUSR1 print nostop\ncontinue\n")
    stops = re.findall(r"^node 0 \(catches\) stopped at (catch 1|catch 2|SIGUSR1), ", said, re.M)
    assert stops == ["SIGUSR1"] * 3 + ["catch 1", "catch 2"], said
    assert re.search(r"stopped at catch 1, __cxa_throw .*, called from work \(n=3\) at .*catches.cc:\d+, .*\n  throws app::Broken\n", said), said
    assert said.count("is about to enter its handler of SIGUSR1 (User defined signal 1)") == 2


def test_what_handle_is_told(console):
    said, errors = console("handle SEGV nostop\ninfo signals SEGV 6\nhandle\nhandle FOO stop\nhandle TEMR stop\nhandle SEGV nopass\nhandle all noprint\nhandle 11 print\ncontinue\n")
    assert re.search(r"^SIGSEGV +print +- +Segmentation fault\n", said, re.M) and re.search(r"^SIGABRT +stop +- +Aborted\n", said, re.M)
    for text in ("usage: handle SIGNAL...", "there is no signal `FOO`", "there is no signal `TEMR`; the nearest is `TERM`", "can be neither held back nor added"):
        assert text in errors
    ends = re.findall(r"^node \d .*ended.*", said, re.M)
    assert "died of" not in said and any("killed by SIGSEGV" in line for line in ends), said


def test_a_saved_session_has_them(console, tmp_path):
    said, _ = console(f"2 tcatch syscall exit_group\ncatch signal USR1 if 1 == 2\nhandle SEGV nostop\nsave session {tmp_path / 'saved'}\n")
    text = (tmp_path / "saved").read_text()
    assert "handle SIGSEGV nostop\n" in text and "2 tcatch syscall exit_group\n" in text and "catch signal USR1 if 1 == 2\n" in text, text
    said, _ = console(f"source {tmp_path / 'saved'}\ncontinue\n")
    assert "stopped at catch 1, " in said and "  exit_group(" in said


# -- what a person who knows gdb expects -------------------------------------------------------------------------------
def test_finish_says_what_the_function_returned(recorder, tmp_path_factory):
    recording = record_once("debug_session_O0", lambda recorder: recorder.record([BUILD / "targets" / "debug_session_O0"]), tmp_path_factory)
    (recorder.directory / "input").write_text("break square\ncontinue 3\nfinish\np x\np $\n")
    with open(recorder.directory / "input") as stdin:
        said = recorder.start([recorder.friday, "replay", recording.path], stdin=stdin).finish(60).stdout
    argument = re.search(r"stopped at breakpoint 1, square \(x=(\d+)\)", said)
    assert re.search(rf"^Value returned is \$1 = {int(argument[1]) ** 2}\n", said, re.M), said


def test_a_line_number_is_one_of_the_file_of_the_selected_frame_and_it_is_said_where_it_is(console):
    said, _ = console("break work\ncontinue\nup\nbreak 30\ndelete\ncatch syscall write\ncontinue\nbreak 30\n")
    assert re.search(r"^breakpoint 1 \(work\) on all nodes: .* at .*catches\.cc:\d+\n", said, re.M), said
    assert len(re.findall(r"^breakpoint \d \(\S*catches\.cc:30\) on all nodes: .*catches\.cc:\d+\n", said, re.M)) == 2, said


def test_goto_takes_a_real_time(console):
    said, _ = console("catch exec\ncontinue\npy print('stamp', session.real_time)\ninfo time\n")
    stamp = float(re.search(r"^stamp ([\d.]+)", said, re.M)[1])
    said, errors = console(f"0 goto {stamp + 1e-6:.6f}\ngoto 9999999999\ngoto 0.001 s\n")
    assert re.search(r"^node 0 \(catches\) stands before its event \d+", said, re.M), said
    assert "has no event at that time" in errors


def test_a_subcommand_that_is_misspelt(recorder):
    done = recorder.run([recorder.friday, "replya", "rec"])
    assert done.returncode == 2 and done.stderr == "friday: there is no subcommand `replya`; the nearest is `replay`; `friday --help` lists them\n"
    done = recorder.run([recorder.friday, "zzz"])
    assert done.returncode == 2 and done.stderr == "friday: there is no subcommand `zzz`; `friday --help` lists them\n"


@pytest.mark.parametrize("words, said", [
    ("", "friday: say what to do: record, verify, .*, completion; `friday --help` says what each does"),
    ("--hlep", "friday: there is no option `--hlep`; the nearest is `--help`; `friday --help` lists them"),
    ("replay rec --nod 1", "friday replay: there is no option `--nod`; the nearest is `--node`; `friday replay --help` .*"),
    ("dump --jso", "friday dump: there is no option `--jso`; the nearest is `--json`; .*"),
    ("verify", r"friday verify: recording is missing: The recording, or the name of a session \(friday ls\); .*"),
    ("verify one two", "friday verify: `two` is one word too many; .*"),
    ("force study abc", "friday force: `abc` is no value for run, which takes a whole number; .*"),
    ("diagnose -o x -n 0", "friday diagnose: `0` is no value for --runs, which takes a whole number from 1 to 1000000; .*"),
    ("diagnose -o x -n", "friday diagnose: --runs needs a whole number from 1 to 1000000: How many runs .*"),
    ("replay rec --sync foo", "friday replay: `foo` is no value for --sync, which takes one of clock, causal, free; .*"),
    ("record -o x -s y -- true", "friday record: --output does not go with --session: leave one of them away; .*"),
    ("record -o x -j 2 --group g", "friday record: --jobs needs --until-failure; .*"),
    ("refine a b c d e", "friday refine: too many words for what: .*")])
def test_a_command_line_that_is_wrong_is_explained(recorder, words, said):
    done = recorder.run([recorder.friday, *words.split()])
    assert done.returncode == 2 and re.fullmatch(said + "\n", done.stderr), done.stderr


def test_help_has_types_for_people(recorder):
    text = {name: recorder.run([recorder.friday, name, "--help"]).stdout for name in ("refine", "force", "record")}
    assert "Usage: friday refine [OPTIONS] what...\n" in text["refine"] and "--frames N (1 to 1000) " in text["refine"]
    assert "--until received|handled|answered\n" in text["force"] and "--patience NUMBER (0.001 to 3600)\n" in text["force"]
    assert "--seed N " in text["record"] and "-s,--session TEXT (not with --output)\n" in text["record"]


def test_ends_of_short_lived_processes_are_one_line(recorder):
    script = "for i in 1 2 3 4 5 6; do /bin/true; (exit 1); done; (exit 7); (sleep 1.1; exit 0)"
    recording = recorder.record(["/bin/sh", "-c", script], name="it")
    (recorder.directory / "input").write_text("continue\n")
    with open(recorder.directory / "input") as stdin:
        said = recorder.start([recorder.friday, "replay", recording.path], stdin=stdin).finish(60).stdout
    lines = said.splitlines()
    assert re.match(r"12 short-lived processes ended by \d+\.\d+ s: it/child-1, it/child-2, it/child-3, \.\.\.$", lines[0]), said
    assert "exited with 7" in lines[1] and any(re.match(r"node 0 \(it\) ended at ", line) for line in lines[2:]), said
