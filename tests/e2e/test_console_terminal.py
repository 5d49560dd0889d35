"""`friday replay` on a recorded ring: through pipes, and through a pseudo-terminal as a person uses it."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import wait_until
from console_support import BLOCK, PROMPT, Terminal
from debug_support import line_of, ring  # noqa: F401


@pytest.fixture
def piped(recorder, ring):  # noqa: F811
    """piped(TEXT, OPTION...): the console with these lines as its input."""
    def run(text, *options, recording=ring.path):
        file = recorder.directory / "input"
        file.write_text(text)
        with open(file) as stdin:
            done = recorder.start([recorder.friday, "replay", recording, *options], stdin=stdin).finish(60)
        recorder.none_left()
        return done
    return run


@pytest.fixture
def terminal(recorder, ring):  # noqa: F811
    with Terminal(recorder, [recorder.friday, "replay", ring.path]) as opened:
        assert "5 nodes: n0, n1, n2, n3, n4." in opened.expect(PROMPT)
        yield opened
    recorder.none_left()


def test_the_console_is_ready_before_gdb(recorder, ring):  # noqa: F811
    """gdb starts when the gate is opened; what needs none is answered before."""
    gate, wrapper = recorder.directory / "gate", recorder.directory / "gdb"
    wrapper.write_text(f"#!/bin/sh\nread line < {gate}\nexec {shutil.which('gdb')} \"$@\"\n")  # a FIFO: blocks until it is opened
    wrapper.chmod(0o755)
    os.mkfifo(gate)
    gates = None
    with Terminal(recorder, [recorder.friday, "replay", ring.path], env={"PATH": f"{recorder.directory}:{os.environ['PATH']}"}) as terminal:
        assert "5 nodes: n0, n1, n2, n3, n4." in terminal.expect(PROMPT)
        answer = terminal.command("info nodes")
        assert all(f"n{node}" in answer for node in range(5)) and "not started" in answer, answer
        wait_until(lambda: any(str(wrapper) in line for line in recorder.processes().values()), "no gdb is started")
        terminal.send("break process_data\r")
        gates = os.open(gate, os.O_RDWR)  # from now on open for all
        os.write(gates, b"\n" * 100)
        assert "breakpoint 1" in terminal.expect(PROMPT).lower()
    os.close(gates)
    recorder.none_left()


# -- without a terminal -----------------------------------------------------------------------------------------------
def test_a_session_through_pipes(piped, ring):  # noqa: F811
    done = piped("""
tbreak set_successor
c
# what each node knows
print srv.name_of_no_field
info threads
0-1 print srv.node.addr
delete
py changes = []
watch srv.successor
  changes.append((__NODE__.name, @(srv.successor->id) if @(srv.successor) else None))

  cont
c
py for name, id in changes:
  print("change", name, id)
""")
    assert done.returncode == 0 and "(friday" not in done.stdout and "\x1b" not in done.stdout
    assert re.search(r"^node \d \(n\d\) stopped at breakpoint 1, set_successor \(node=0x\w+ .*\) at \S+/node\.c:\d+, thread 0, \d+\.\d{3} s\n"
                     r"\d+\t  Node \*old = srv.successor;$", done.stdout, re.M), done.stdout
    assert "There is no member named name_of_no_field" in done.stdout + done.stderr
    assert re.search(r"^\[n0\] \$\d+ = \"127\.0\.0\.1:\d+", done.stdout, re.M)
    seen = re.findall(r"^change (n\d) (\d+|None)$", done.stdout, re.M)
    first = re.search(r"node (\d) \(n\d\) stopped", done.stdout)[1]
    for node in range(5):
        new = ["None" if id is None else str(id) for _, _, id in ring.changes(node, "successor")]
        assert [id for name, id in seen if name == f"n{node}"] == new, (node, first)
    assert "the recording ends here" in done.stdout


def test_stop_points_handlers_and_steps_in_a_file(piped, recorder):
    (recorder.directory / "steps.friday").write_text(f"""
break process_packet if packet->header == PACKET_STABILIZE
commands 1
count = count + 1 if __HIT__.id == 1 else 0
if count < 3: cont
end
py count = 0
continue
info breakpoints
disable 1
next
until
step
finish
advance {line_of("stabilize.c", "if (srv.successor && srv.successor != &srv.node && srv.unanswered >= MISSES)")}
info time
restart
info nodes
""")
    done = piped("", "-x", "steps.friday", "--batch")
    assert done.returncode == 0, done.stdout + done.stderr
    out = done.stdout
    assert re.search(r"stopped at breakpoint 1, process_packet \(packet=0x\w+\) at \S+/process\.c:\d+, thread 0", out), out
    assert re.search(r"^1 +breakpoint +yes +3 +all nodes +process_packet if packet->header == PACKET_STABILIZE$", out, re.M), out
    stood = re.findall(r"^node (\d) \(n\d\): (\w+) \(", out, re.M)
    assert [where for _, where in stood] == ["process_packet", "process_packet", "process_stabilize", "process_packet"], out
    assert len({node for node, _ in stood}) == 1 and "could not be evaluated" not in out, out
    assert re.search(r"stopped at breakpoint 2, stabilize \(", out)
    assert re.search(r"^\* +\d +n\d +not started", out, re.M), out


def test_an_altered_node_says_so(piped):
    done = piped("tbreak stabilize\nc\npy print(__NODE__.id)\n@(srv.period = 7777)\nprint srv.period\ninfo nodes\nrestart\n0-1 print srv.period\n")
    node = re.search(r"^(\d)$", done.stdout, re.M)[1]
    assert re.search(rf"^\[n{node} altered\] \$\d+ = 7777$", done.stdout, re.M)
    assert len(re.findall(r"altered\] ", done.stdout)) == 1
    assert re.search(rf"^. +{node} +n{node} +alive +\d+ +\d+\.\d+ s ", done.stdout, re.M)


@pytest.mark.parametrize("change", ["set var srv.period = 7", "print srv.period = 7", "set var $rbx = 7", "call (void)note_sender(&srv)"])
def test_what_gdb_changes_alters_the_node_until_restart(piped, change):
    done = piped(f"goto 2\n1 print srv.period\n1 info registers rip\n1 ptype srv\npy print(session.altered)\n1 {change}\n"
                 "py print([node.name for node in session.altered])\nrestart\npy print(session.altered)\n")
    assert re.search(r"^\{\}\n(.*\n)?\['n1'\]\nat the start.*\nwhat was altered on node 1 \(n1\) is dropped: .*\n\{\}\n", done.stdout, re.M), done.stdout + done.stderr


def test_part_of_the_nodes(piped):
    done = piped("break stabilize\nc\nprint srv.period\n3 print srv.period\n", "--node", "0-1", "--sync", "causal")
    assert done.returncode == 0 and re.search(r"^\[n[01]\] \$1 = 150$", done.stdout, re.M), done.stdout + done.stderr


@pytest.mark.parametrize("arguments,message", [
    (["/no/such/recording"], "/no/such/recording"), (["--node", "n9"], 'no node matches "n9"'), (["--sync", "never"], "--sync"),
    (["--frobnicate"], "--frobnicate"), ([], "recording is missing")])
def test_bad_usage(recorder, ring, arguments, message):  # noqa: F811
    recording = [] if not arguments or arguments[0].startswith("/") else [ring.path]
    done = recorder.run([recorder.friday, "replay", *recording, *arguments])
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


BAD_INPUT = {  # what is typed, and the one line that answers it
    "7 info threads": "no node 7; the recording has nodes 0 to 4",
    "n77 print x": "no node is called `n77`, and neither Friday nor gdb has such a command; `info nodes` lists the nodes",
    "n77,1 print x": "no node is called `n77`; `info nodes` lists the nodes",
    "brek stabilize": "neither Friday nor gdb has a command `brek`; the nearest is `break`",
    "kill": "`kill` is refused: it would end a node that goes on in the recording. Use instead: quit, or --node to leave nodes out",
    "print nothing_here": 'No symbol "nothing_here" in current context',
    "print srv.nothing": "There is no member named nothing",
    "@(srv.nothing)": "There is no member named nothing",
    "4 @(srv.period)": "node 4 has not started yet at this point of the replay; run to where it has: a stop point and `continue`, or `goto`",
    "break no_such_function": 'Function "no_such_function" not defined',
    "break stabilize if nothing > 3": 'the condition `nothing > 3`: No symbol "nothing" in current context',
    "watch srv.nothing": "There is no member named nothing",
    "print srv.sucessor": "There is no member named sucessor; the nearest is `successor`",
    "@(srv->sucessor)": "There is no member named sucessor; the nearest is `successor`",
    "break process_dat": 'Function "process_dat" not defined; the nearest is `process_data`',
    "@(packet_id)": "`packet_id` is not in scope here: it is a variable of process_data (process.c:",
    "watch process_data::packt": "process_data has no variable `packt`; the nearest is `packet`",
    "watch 5": "5 cannot be watched: it has no place in memory",
    "delete 99": "no stop point 99; there are: ",
    "goto message 1000000": "there is no message 1000000: they have the numbers 1 to ",
    "goto 25:00 n2": "`25:00` is not a time of day: write HH:MM:SS",
    "goto event 100000 n2": "node 2 (n2) has no event 100000: the last is ",
    "source nothing.friday": "cannot read nothing.friday: No such file or directory",
}


def test_what_is_wrong_is_said_in_one_line_and_the_session_goes_on(piped):
    done = piped("tbreak stabilize\nc\n" + "".join(f"{text}\n" for text in BAD_INPUT) + "py print('alive', 40 + 2)\n")
    assert done.returncode == 0 and done.stdout.endswith("alive 42\n"), done.stdout
    said = done.stderr.splitlines()
    assert len(said) == len(BAD_INPUT), done.stderr
    for (text, message), line in zip(BAD_INPUT.items(), said):
        assert re.sub(r"^node \d: (?=`)", "", line).startswith(message), text
    done = piped("kill\npy print('alive')\n", "--batch")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("`kill` is refused")


def test_a_condition_that_cannot_be_evaluated_does_not_use_up_a_temporary_breakpoint(piped):
    done = piped("tbreak process_data if *(int *)0 == 1\nc\npy print(list(session.points))\ncondition 1\nc\npy print(list(session.points))\n")
    assert done.stderr == "" and "the condition of stop point 1 could not be evaluated: *(int *)0 == 1: cannot read 4 bytes at 0x0" in done.stdout, done.stdout
    assert re.findall(r"^\[1?\]$", done.stdout, re.M) == ["[1]", "[]"], done.stdout


def test_an_expression_of_continue_until_that_is_wrong_is_told_as_such(piped):
    done = piped("continue until @4(srv.nothing)\n")
    assert re.fullmatch(r"There is no member named nothing; the nearest is `npings`\nin continue until on node \d \(n\d\) at \d\.\d+ s\n", done.stderr), done.stderr


def test_at_the_end_a_watch_of_nothing_is_refused_and_times_agree(piped):
    done = piped("info time\ngoto end\nwatch srv.nothing\nwatch srv.period\n")
    assert done.stderr.startswith("There is no member named nothing") and "watch 1 (srv.period)" in done.stdout
    assert "logical time 0.000000 s" in done.stdout
    ends = re.findall(r"^node \d \(n\d\) ended at ([\d.]+) s", done.stdout, re.M)
    assert ends and max(ends) == re.search(r"the recording ends here, at ([\d.]+) s", done.stdout)[1]


def test_a_stop_point_that_is_refused_uses_up_no_number(piped):
    done = piped("tbreak stabilize\nc\nbreak no_such_function\nwatch srv.nothing\nwatch 5\nbreak stabilize\n")
    assert re.search(r"^breakpoint 2 \(stabilize\) on all nodes: stabilize at stabilize\.c:\d+\n\Z", done.stdout, re.M), done.stdout


def test_a_bare_list_knows_the_programs_own_code_by_a_relative_path(piped, recorder):
    (recorder.directory / "relative.c").write_text('#include <unistd.h>\nint main(void) {\n  return write(1, "x", 1) != 1;  // here\n}\n')
    subprocess.run(["cc", "-g", "-o", "relative", "relative.c"], cwd=recorder.directory, check=True)
    recording = recorder.record([recorder.directory / "relative"])
    done = piped("break write\nc\nlist\ndelete\ngoto event 2\n", recording=recording.path)
    assert "[relative] 3\t  return write" in done.stdout, done.stdout + done.stderr


def test_goto_a_time_says_how_to_go_past_the_event_there(piped):
    done = piped("goto 2\n")
    event, node = map(int, re.search(r"`goto event (\d+) n(\d)` goes to the event after it", done.stdout).groups())
    assert f"node {node} (n{node}) stands before its event {event - 1}," in done.stdout


def test_what_is_asked_of_the_stack_before_anybody_has_started(piped):
    done = piped("bt\nlist\ninfo locals\n0 bt\n0 up\nprint srv.period\n0-4 print srv.period\n")
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 2 and done.stderr.startswith("no node has started yet: all wait in the dynamic loader. `tbreak main`")
    assert "int main(int argc, char **argv) {" in done.stdout and "_dl_start_user ()" in done.stdout and "??" not in done.stdout
    assert done.stdout.count("not started] $") == 6 and "[n0 not started] #1" in done.stdout


def test_a_handler_that_raises_shows_its_line_and_the_group_stands_there(piped):
    done = piped("break stabilize\n  x = 1\n  x / 0\nc\npy print('at', session.hit.id, __NODE__.state)\ndelete\ngoto end\n")
    assert re.search(r'"<breakpoint 1>", line 2, in breakpoint 1\n    x / 0\n[ ~^]+\nZeroDivisionError: division by zero\n'
                     r"in the handler of breakpoint 1 \(stabilize\) on node \d \(n\d\) at \d\.\d{6} s\n", done.stderr), done.stderr
    assert "pyext/friday" not in done.stderr and "at 1 alive\n" in done.stdout and "the recording ends here" in done.stdout


def test_without_gdb_it_says_so_and_does_what_needs_none(recorder, ring):  # noqa: F811
    (recorder.directory / "input").write_text("break stabilize\nprint 1\nwatch srv.period\ngoto 1\ninfo nodes\ngoto end\n")
    (recorder.directory / "bin").mkdir()
    with open(recorder.directory / "input") as stdin:
        done = recorder.start([recorder.friday, "replay", ring.path], stdin=stdin, env={"PATH": str(recorder.directory / "bin")}).finish()
    assert done.returncode == 0 and done.stderr.splitlines() == [
        "this system refuses to start gdb 13 or newer (there is no program gdb): friday verify and break points at addresses work, but nothing knows "
        "symbols and expressions. Install Debian's package gdb."] * 3
    assert re.search(r"stands before its event \d+, 1\.\d{6} s", done.stdout) and "the recording ends here" in done.stdout
    recorder.none_left()


def test_a_gdb_that_is_killed_is_replaced_and_that_is_said(piped):
    kill = ("py import os, signal, subprocess\n"
            "py gdbs = subprocess.run(['pgrep', '-P', str(os.getpid()), '-f', 'interpreter=mi3'], capture_output=True, text=True).stdout.split()\n"
            "py [os.kill(int(gdb), signal.SIGKILL) for gdb in gdbs]\n"
            # Dead with all its threads: the last of them closes its pipes.
            "py dead = lambda gdb: os.listdir(f'/proc/{gdb}/task') == [gdb] and open(f'/proc/{gdb}/stat').read().rsplit(')', 1)[1].split()[0] == 'Z'\n"
            "py while not all(map(dead, gdbs)): pass\n")
    done = piped(f"tbreak stabilize\nc\n{kill}print srv.period\ncontinue\npy print(len(gdbs))\n")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "5\n" in done.stdout and re.search(r"^\[n\d\] \$1 = 150$", done.stdout, re.M) and "the recording ends here" in done.stdout
    assert re.search(r"^node \d: its gdb had died and was replaced; settings and values made in the old one are lost", done.stdout, re.M), done.stdout


def test_streams_of_all_sorts(recorder, ring):  # noqa: F811
    def shell(command, **env):
        return recorder.start(["/bin/sh", "-c", command.replace("REPLAY", f"'{recorder.friday}' replay '{ring.path}'")], env=env).finish()

    done = shell("echo 'info nodes' | REPLAY >/dev/full")
    assert done.returncode == 2 and done.stderr == "friday: cannot write the answers: No space left on device\n"
    assert shell("REPLAY <&-").returncode == 0 and shell("echo 'info nodes' | REPLAY >&- 2>&-").returncode == 0
    done = shell(r"printf 'py \042\377\042\npy print(\042\303\251\042)\npy 1 + 1' | REPLAY", LC_ALL="C")
    assert done.returncode == 0 and done.stdout.splitlines()[1:] == [r"\xe9", "2"] and done.stderr == ""
    recorder.none_left()


def test_a_reader_that_leaves_ends_it(recorder, ring):  # noqa: F811
    done = recorder.run(["/bin/sh", "-c", f"yes 'info nodes' | '{recorder.friday}' replay '{ring.path}' | head -n 3"])
    assert done.returncode == 0 and done.stdout.count("\n") == 3 and "Traceback" not in done.stderr
    recorder.none_left()


@pytest.mark.parametrize("command, code, said", [
    (["help", "errors"], 0, ""), (["refine", "RING", "0#20"], 0, ""),
    (["run", "SCRIPT", "RING"], 2, "friday: nobody reads the output any more: the recording was not checked to its end\n")], ids=lambda each: each[0] if isinstance(each, list) else "")
def test_a_reader_that_leaves_ends_other_commands_without_a_traceback(recorder, ring, tmp_path, command, code, said):  # noqa: F811
    (tmp_path / "prints.py").write_text("print('x' * 100000, flush=True)\n")
    read, write = os.pipe()
    os.close(read)
    words = [{"RING": str(ring.path), "SCRIPT": str(tmp_path / "prints.py")}.get(word, word) for word in command]
    done = subprocess.run([str(recorder.friday), *words], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (code, said)


def test_gdbs_connect_while_a_pipe_waits(recorder, ring):  # noqa: F811
    read, write = os.pipe()
    console = recorder.start([recorder.friday, "replay", ring.path], stdin=read)
    os.close(read)
    def connected(pid):  # then it has opened the program's copy, which only its node names
        try:
            return any(str(ring.path / "files") in os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            return False

    try:
        wait_until(lambda: sum("--interpreter=mi3" in line and connected(pid) for pid, line in recorder.processes().items()) == 5,
                   "five gdbs that are connected")
        os.write(write, b"break process_data\nc\n")
    finally:
        os.close(write)
    assert "stopped at breakpoint 1" in console.finish().stdout


def test_goto_lands_where_it_says_and_the_state_is_that_of_a_straight_run(piped, ring):  # noqa: F811
    done = piped("""
break set_successor
goto 2.5
info time
info nodes
py here = [(n.name, session.backend.event(n), session.backend.state_hash(n)) for n in __ALL__]
info messages 3 4
py last = session.backend.messages(3, 1)[0]
goto end
py print("hits", session.points[1].hits)
goto event 40 n2
py print("event", session.backend.event(2), session.node.name)
goto 2.5
py print("same", here == [(n.name, session.backend.event(n), session.backend.state_hash(n)) for n in __ALL__])
py received = last.target if last.target is not None else last.source
py number, event = last.number, last.target_event if last.target is not None else last.source_event
py import friday.commands
py friday.commands.execute(session, f"goto message {number}")
py print("before", session.node.id == received and session.backend.event(received) == event - 1)
finish
set sync causal
goto 1.5
info time
goto end
""")
    out = done.stdout
    assert done.returncode == 0 and done.stderr == "", done.stderr
    landed = re.search(r"^node (\d) \(n\d\) stands before its event (\d+), .*, (\d\.\d{6}) s$", out, re.M)
    assert landed and float(landed[3]) >= 2.5, out
    assert f"logical time {landed[3]} s" in out and re.search(rf"^\* +{landed[1]} +n\d +alive +{int(landed[2]) - 1} ", out, re.M), out
    assert re.search(r"^\d+ +\S+ .* datagram  ROHC.+$", out, re.M) and "hits 0\n" in out, out
    assert "event 39 n2\n" in out and "same True\n" in out and "before True\n" in out, out
    assert "sync is causal: at the start" in out and "sync causal\n" in out and out.count("the recording ends here") == 2, out


def test_continue_until_stops_at_the_change_that_the_program_prints(piped, ring):  # noqa: F811
    node, before, (printed, old, new) = next((node, earlier, change) for node in range(4) for changes in [ring.changes(node, "predecessor")]
                                             for earlier, change in zip([(0, None, None), *changes], changes) if change[1] and change[2])
    done = piped(f"""
py def predecessor(n): return @n(srv.predecessor->id) if @n(srv.predecessor) else None
continue until __LOGICALCLOCK__ is not None and predecessor({node}) == {new}
py print("there", __NODE__.id, predecessor({node}) == {new}, session.real_time)
delete
continue until predecessor({node}) == 1
""")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "now true: __LOGICALCLOCK__" in done.stdout and "->" in done.stdout and "not true at any point from there to the end" in done.stdout
    found = re.search(rf"^there {node} True ([\d.]+)$", done.stdout, re.M)
    assert found and before[0] - 0.01 <= float(found[1]) <= printed + 0.01, (done.stdout, before, printed)


def test_why_ends_at_the_message_that_goto_shows(piped):
    done = piped("break process_data\ncontinue\nwhy\npy n, e = __NODE__, session.backend.event(__NODE__)\n"
                 "py print('event', e, session.backend.events(n, e, 1)[0][1])\n")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    out = done.stdout
    first = re.search(r"messages that led here.*\n.*\n  (\d+) .* (n\d) +(\d+) +\d\.\d+ s +304 +datagram", out)
    assert first and f"event {first[3]} thread 0 call recvfrom(" in out, out  # the packet that is processed here
    assert f"`goto message {first[1]}`" in out


def test_goto_a_time_of_day_of_a_node_and_a_place_that_is_not_there(piped, ring):  # noqa: F811
    at, _, _ = ring.changes(2, "successor")[1]
    clock = time.strftime("%H:%M:%S", time.localtime(at)) + f"{at % 1:.3f}"[1:]
    done = piped(f"2 goto {clock}\npy print('there', __NODE__.name, __NODE__.real_time)\ngoto {time.strftime('%Y-%m-%d', time.localtime(at))} {clock}\n"
                 "goto 99:00\ngoto 2001-01-01 10:00\ngoto 1e5\ngoto nowhere\n")
    found = re.search(r"^there n2 ([\d.]+)$", done.stdout, re.M)
    assert found and at - 0.2 < float(found[1]) <= at + 0.001, (done.stdout, at)
    assert done.stdout.count("stands before its event") == 2 and [line.partition(" ")[0] for line in done.stderr.splitlines()] == ["`99:00`", "node", "`1e5`", "`nowhere`"]


def test_diff_shows_the_fields_in_which_nodes_differ(piped, ring):  # noqa: F811
    done = piped("goto 2\ndiff 1 2 srv\ndiff 1 2 srv.period\ndiff 0 1 srv.node.addr\ndiff 0 9 srv\n")
    assert re.search(r"^ +n1 +n2$", done.stdout, re.M), done.stdout
    assert re.search(rf"^srv\.node\.id +{ring.plan.nodes[1].id} +{ring.plan.nodes[2].id}$", done.stdout, re.M) and "\nsrv.period " not in done.stdout
    assert "equal on node 1 (n1) and node 2 (n2): 150" in done.stdout and re.search(r'^srv\.node\.addr +"127\.0\.0\.1:\d+" +"127\.0\.0\.1:\d+"$', done.stdout, re.M)
    assert done.stderr.startswith("no node 9")


def test_a_saved_session_is_the_same_again(piped, recorder):
    file = recorder.directory / "kept.friday"
    first = piped(f"""py import collections
py seen = collections.Counter(a=1)
py def name(n): return @n(srv.name)
alias where = info time
map chord @(srv.node.id)
1-2 watch srv.successor if srv.successor != 0
  seen[__NODE__.name] += 1
  cont
break process_data if packet_header == PACKET_GET
ignore 2 1
disable 2
goto 2
py seen = dict(seen)
save session {file}
py print("state", sorted(seen.items()), name(1), {{int(n): session.backend.event(n) for n in __ALL__}})
""")
    assert first.returncode == 0 and first.stderr == "", first.stderr
    second = piped(f"""source {file}
py print("state", sorted(seen.items()), name(1), {{int(n): session.backend.event(n) for n in __ALL__}})
where
py print(chord[@2(srv.node.id)].name)
info breakpoints
""")
    assert second.returncode == 0 and second.stderr == "", second.stderr
    state = [re.search(r"^state .*$", done.stdout, re.M)[0] for done in (first, second)]
    assert state[0] == state[1] and "logical time 2." in second.stdout and "\nn2\n" in second.stdout
    assert re.search(r"^1 +watch +yes +\d+ +n1, n2 +srv\.successor if srv\.successor != 0$", second.stdout, re.M), second.stdout
    assert re.search(r"^2 +breakpoint +no +0 +all nodes +process_data if packet_header == PACKET_GET$", second.stdout, re.M) and "seen[__NODE__.name] += 1" in second.stdout


def test_a_step_of_one_node_takes_the_others_along(piped):
    done = piped("""goto 2
node 2
py before = {int(n): session.backend.event(n) for n in __ALL__}
2 advance process_packet
2 step
2 next
2 finish
2 until
2 next 30
py after = {int(n): session.backend.event(n) for n in __ALL__}
py now = session.logical_time
py print("at", __NODE__.name, sorted(n for n in after if after[n] > before[n]), all(after[n] >= before[n] for n in after))
goto 2.9
py print("later", now < session.logical_time)
""")
    places = re.findall(r"^node 2 \(n2\)(?: stopped at breakpoint 1,|:) (\w+) \(", done.stdout, re.M)
    assert done.returncode == 0 and places[:5] == ["process_packet", "note_sender", "note_sender", "process_packet", "process_packet"], done.stdout
    moved = re.search(r"^at n2 \[(.*)\] True$", done.stdout, re.M)
    assert moved and "2" in moved[1] and "," in moved[1] and "later True" in done.stdout, done.stdout


def test_goto_output_finds_what_the_program_prints(piped, ring):  # noqa: F811
    lines = [line for line in ring.output(1).splitlines() if " finger up " in line]
    assert len(lines) >= 2
    done = piped("goto output n1 / finger up/\npy import friday.running\npy print(friday.running.written(session, __NODE__))\n"
                 "goto output n1 / finger\\s+up /\npy print(friday.running.written(session, __NODE__))\ngoto output 1 /no such text/\n"
                 "goto end\n" + "goto output n1 ?finger up?\npy print(friday.running.written(session, __NODE__))\n" * 2 + "goto output n1 ?no such text?\n"
                 "py print(friday.running.written(session, __NODE__))\n")
    said = re.findall(r"^b'(.*)\\n'$", done.stdout, re.M)
    assert said == [*lines[:2], lines[-1], lines[-2], lines[-2]], (done.stdout, lines)
    for text, side in ("/no such text/", "after"), ("?no such text?", "before"):
        assert re.search(rf"{re.escape(text)} matches none of the \d+ writes of node 1 \(n1\) {side} this place", done.stderr), done.stderr


def test_goto_and_messages_of_forked_nodes_and_pipes(piped, recorder):
    recording = recorder.record(["/bin/bash", "-c", "for i in 1 2; do /bin/echo child $i; done | cat"])
    nodes = {node["name"]: node["id"] for node in recorder.info(recording)["nodes"]}
    cat = next(id for name, id in nodes.items() if name.endswith("/exec-1") and name.count("child") == 1)
    done = piped(f"goto event 3 {cat}\npy print(session.node.id, session.backend.event({cat}))\ngoto end\ninfo messages {cat}\n"
                 f"goto message 2\npy print(session.node.id)\ngoto message 1\npy print(session.node.id)\n", recording=recording.path)
    warned = "friday: Without debug information: nodes "  # Debian's bash and cat; a machine with their debug packages has none to warn of
    assert done.returncode == 0 and all(line.startswith(warned) for line in done.stderr.splitlines()), done.stderr
    assert f"{cat} 2\n" in done.stdout and done.stdout.count(f"\n{cat}\n") == 2, done.stdout
    assert re.findall(r"^[12] .* 8 +pipe +(.*)$", done.stdout, re.M) == ["child 1", "[not kept]"], done.stdout


def test_going_to_messages_by_what_they_contain(piped, recorder):
    """One after the other, from where the group stands; those whose contents nobody has are counted."""
    recording = recorder.record(["/bin/bash", "-c", "for i in 1 2 3; do /bin/echo child $i; done | cat"])
    nodes = {node["name"]: node["id"] for node in recorder.info(recording)["nodes"]}
    cat = next(id for name, id in nodes.items() if name.endswith("/exec-1") and name.count("child") == 1)

    def searched(*commands):
        done = piped("".join(f"{command}\n" for command in commands), recording=recording.path)
        said = re.sub(r"\nnode \d+ \S+ ended at .*|\n\d+ short-lived .*", "", done.stdout)
        return done, re.findall(r"^message \d+: 8 bytes from (\S+)\nnode (\d+) .* stands before its event (\d+), .*read", said, re.M)

    done, told = searched("goto message /child [13]/", f"goto message {cat} /child [13]/", "goto message /child [13]/")
    assert [int(node) for _, node, _ in told] == [cat, cat] and int(told[0][2]) < int(told[1][2]), (told, done.stdout)
    assert re.search(r"/child \[13\]/ matches none of the \d+ messages? that the group receives after this place: \?REGEX\? searches before it", done.stderr), done.stderr
    stdout = recorder.run([recorder.friday, "dump", "--node", str(cat), "--call", "read", "--grep", "child [13]", recording.path]).stdout
    assert [int(line.split()[0]) for line in stdout.splitlines()] == [int(event) for _, _, event in told], (told, stdout)
    done, back = searched("goto end", "goto message ?child [13]?", f"goto message {cat} ?child [13]?", "goto message ?child [13]?", "goto message /child 3/")
    assert back == [*reversed(told), told[1]], (back, told, done.stdout)
    assert re.search(r"\?child \[13\]\? matches none of the \d+ messages? that the group receives before this place: /REGEX/ searches after it", done.stderr), done.stderr


def test_messages_are_those_that_matching_found(piped, recorder, ring):  # noqa: F811
    done = piped("goto end\npy print(len([m for m in session.backend.messages(None, 10**9) if None not in (m.source, m.target)]))\n"
                 "py print(all(m.sent < m.received for m in session.backend.messages(None, 10**9) if None not in (m.source, m.target)))\n")
    matched = sum(pair["messages"] for pair in recorder.info(ring.path)["messages"])
    assert done.stdout.endswith(f"{matched}\nTrue\n") and matched > 100, done.stdout


def test_what_a_program_writes_can_be_seen_as_info_output_says(piped, ring):  # noqa: F811
    done = piped("info output\ngoto 1\ninfo output\n1 info output 1\n")
    assert "nothing was written to standard output or error up to here" in done.stdout
    rows = re.findall(r"^(n\d) +(\d+) +out +\1 [\d.]+ .", done.stdout, re.M)
    assert {name for name, _ in rows[:-1]} == {"n0", "n1", "n2", "n3"} and rows[-1] == [row for row in rows if row[0] == "n1"][-1]
    name, event = rows[-1]
    done = piped(f"goto event {event} {name}\n1 print *(char*)$rsi@$rdx\n")
    shown = re.search(r'= "(n1 [\d.]+ .*?)\\n"', done.stdout)
    assert shown and shown[1] in ring.output(1), done.stdout + done.stderr
    done = piped("goto end\n1 info output 1000000 /finger (up|down)/\ninfo output /no such text/\n")
    found = [line.split("out", 1)[1].strip() for line in done.stdout.splitlines() if re.match(r"n1 +\d+ +out ", line)]
    assert found == [line for line in ring.output(1).splitlines() if re.search("finger (up|down)", line)] and found, done.stdout
    assert "nothing was written to standard output or error up to here in which /no such text/ is found" in done.stdout


# -- at a terminal ----------------------------------------------------------------------------------------------------
def test_prompt_stop_and_folding(terminal):
    assert "breakpoint 1 (process_data) on all nodes" in terminal.command("break process_data")
    shown = terminal.command("c")
    stopped = re.search(r"^node (\d) \(n\d\) stopped at breakpoint 1, process_data \(packet_id=\d+", shown.replace("\r", "\n"), re.M)
    assert stopped, shown
    terminal.send("all print srv.period\r")
    shown = terminal.expect(rf"\(friday {stopped[1]} @\d+\.\d+s\) $")
    assert re.search(r"^nodes 0-[34]: \$1 = 150$", shown, re.M), shown
    assert re.search(r"^\$2 = \d+$", terminal.command("print packet_id"), re.M), "in the frame of the node that stopped, and of no other"
    assert re.search(r"^#0  process_data .*\n#1 ", terminal.command("backtrace").replace("\r", ""), re.M)
    terminal.send("@(srv.period = 151)\r")
    terminal.expect(rf"\(friday {stopped[1]} altered @\d+\.\d+s\) $")
    assert re.search(rf"^node {stopped[1]} altered: \$\d = 151$", terminal.command("print srv.period"), re.M)
    terminal.send("quit\r")
    assert terminal.finish() == 0


def test_steps_after_a_run_with_a_progress_line_are_not_cut_short(terminal):
    terminal.command("goto 2")
    terminal.send("py import time; time.sleep(0.25)\r")  # longer than the turns of a run that shows its progress
    terminal.expect(PROMPT)
    for command in ("finish", "next", "next"):
        shown = terminal.command(command).replace("\r", "\n")  # behind a progress line, where the machine is busy
        assert re.search(r"^node \d \(n\d\): run \(", shown, re.M), (command, shown)


def test_blocks_have_a_prompt_of_their_own(terminal):
    terminal.command("watch srv.predecessor")
    terminal.send("  hits = __HIT__.id\r")
    terminal.expect(BLOCK)
    terminal.send("  cont\r")
    terminal.expect(BLOCK)
    assert "watch 1 (srv.predecessor) has a handler" in terminal.command("")
    terminal.send("commands 1\r")
    terminal.expect(BLOCK)
    terminal.send("print('hit of', __HIT__.id)\r\r")
    terminal.expect(r"> $")
    terminal.command("end")
    assert "hit of 1" in terminal.command("c")
    terminal.send("py for i in (7, 8):\r")
    terminal.expect(BLOCK)
    terminal.send("  print(i * 11)\r")
    terminal.expect(BLOCK)
    assert terminal.command("").split() == ["77", "88"]
    terminal.send("python\r")
    terminal.expect(BLOCK)
    terminal.send("half = 1\r\x03")
    terminal.expect(PROMPT)
    assert "NameError" in terminal.command("py half")


def test_completion(terminal):
    terminal.send("tbr\t")
    terminal.expect(r"tbreak $")
    terminal.send("process_da\t\r")  # ld.so has a process_dl_debug
    assert "breakpoint 1 (process_data) on all nodes" in terminal.expect(PROMPT)
    terminal.command("c")
    terminal.send("n2 print srv.succe\t")
    terminal.expect(r"n2 print srv\.successor$")
    terminal.send("\x03")
    terminal.expect(PROMPT)
    assert terminal.command("0 whatis srv.node.ad\t") == "node 0: type = char [24]\n"
    assert terminal.command("0 whatis srv.predecessor->i\t") == "node 0: type = chordID\n"
    terminal.send("info \t\t")
    assert "messages" in terminal.expect(r"watchpoints[^$]*info $")
    terminal.send("mes\tn3\t 2\r")
    terminal.expect(r"no message has been sent or received up to here|\d+ +datagram  ROHC.+\n" + PROMPT)
    terminal.command("py long_name_of_mine = 5")
    assert terminal.command("py long_na\t + 1") .split("\n")[-2:] == ["6", ""]
    assert re.search(r"= 150", terminal.command("node_list_0,1 print 1\x15n0,1 print srv.peri\t"))


def test_long_answers_go_through_the_pager(recorder, ring):  # noqa: F811
    with Terminal(recorder, [recorder.friday, "replay", ring.path], env={"PAGER": "less", "LESS": ""}) as terminal:
        terminal.expect(PROMPT)
        terminal.send("0 info functions s[ti]\r")
        shown = terminal.expect(r"^:$")  # less waits for a key; Ctrl-C does not end it, nor the console
        terminal.send("\x03")

        def quiet():
            size = len(terminal.raw)
            return terminal._read(1) and len(terminal.raw) == size

        def rang():
            if quiet():
                terminal.send("\x03")  # less overhears one that comes between its prompt and its wait for a key
            return re.search(r"\a.*:\x1b\[K\Z", terminal.raw, re.S)
        # It rings, draws the screen again, and takes no notice of a key that comes in between.
        wait_until(rang, "less's answer to Ctrl-C")
        wait_until(quiet, "less's rest")
        terminal.send("q")
        terminal.expect(PROMPT)
        assert terminal.command("set pager off") == "pager is off\n"
        whole = terminal.command("0 info functions s[ti]")
        assert "store_get" in shown + whole and whole.count("\n") > 40 > shown.count("\n")
    recorder.none_left()


def test_huge_answers_arrive_whole_and_ctrl_c_ends_them(terminal):
    terminal.command("set pager off")
    shown = terminal.command("py print('\\n'.join('x' * 70 for i in range(30000)))", 60)
    assert shown.count("x" * 70 + "\n") == 30000
    assert terminal.command("0 info functions st", 60).count("\n") > 200
    terminal.send("py while True: print('y' * 70)\r")
    terminal.expect("^y{70}\n")
    terminal.send("\x03")
    terminal.expect(r"interrupted\n" + PROMPT)
    assert terminal.command("py 6 * 7").endswith("42\n")


def test_history_is_kept_and_searched(recorder, ring):  # noqa: F811
    history = recorder.directory / "state" / "friday" / "history"
    with Terminal(recorder, [recorder.friday, "replay", ring.path]) as terminal:
        terminal.expect(PROMPT)
        for line in ("py 6 * 7", "py 6 * 7", "info nodes"):
            terminal.command(line)
        terminal.send("\x1b[A\x1b[A\r")
        assert "\n42\n" in terminal.expect(r"42\n[^\n]*" + PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
    assert history.read_text().splitlines() == ["py 6 * 7", "info nodes", "py 6 * 7"] and history.stat().st_mode & 0o777 == 0o600
    with Terminal(recorder, [recorder.friday, "replay", ring.path]) as terminal:
        terminal.expect(PROMPT)
        terminal.send("\x12nod")
        terminal.expect("info nodes")
        terminal.send("\r")
        assert "n4" in terminal.expect(PROMPT)
    recorder.none_left()


def test_ctrl_c_takes_back_a_line_stops_python_and_stops_the_group(terminal):
    terminal.send("kill everybody\x03")
    terminal.expect(r"\^C\n" + PROMPT)
    terminal.send("py 6 * 7\r\x03")  # at once: before the command or in it
    terminal.expect(PROMPT)
    terminal.send("python\rprint('in a loop')\rwhile True: pass\rend\r")
    terminal.expect("^in a loop\n")
    terminal.send("\x03")
    assert "interrupted" in terminal.expect(PROMPT)
    terminal.command("watch srv.predecessor")
    terminal.send("  print('in a handler')\r  while True: pass\r")
    terminal.expect(BLOCK)
    terminal.command("")
    terminal.send("c\r")
    terminal.expect("^in a handler\n")
    terminal.send("\x03")
    assert "interrupted" in terminal.expect(PROMPT)
    assert terminal.command("py 1 + 1") == "2\n"


def test_ctrl_c_while_the_group_runs_stops_it_and_it_goes_on(recorder):
    recording = recorder.record(["/usr/bin/awk", "BEGIN { for (i = 0; i < 3e7; i++) x += i; print x }"])
    with Terminal(recorder, [recorder.friday, "replay", recording.path]) as terminal:
        terminal.expect(PROMPT)
        for keys in ("\x03", "\x03\x03"):
            terminal.send("c\r")
            terminal.expect("events/s")
            terminal.send(keys)
            assert "interrupted" in terminal.expect(PROMPT)
            assert terminal.command("py 20 + 1") == "21\n"
        assert "the recording ends here" in terminal.command("c")
        terminal.send("\x04")
        assert terminal.finish() == 0
    recorder.none_left()


def test_ctrl_c_stops_a_group_that_computes_and_it_stands_until_it_goes_on(recorder):
    program = ["/usr/bin/awk", "BEGIN { for (k = 0; k < 600; k++) { for (i = 0; i < 1e5; i++) x += i; print k; fflush() } }"]
    recording = recorder.group({"group": {}, "node": [{"name": f"w{i}", "command": program, "stdout": f"w{i}.out"} for i in range(6)]}, timeout=90)
    with Terminal(recorder, [recorder.friday, "replay", recording.path]) as terminal:
        terminal.expect(PROMPT)
        seen = []
        for _ in range(3):
            terminal.send("c\r")
            terminal.expect("events/s")
            terminal.send("\x03")
            assert "interrupted" in terminal.expect(PROMPT)
            shown = terminal.command("py [session.backend.event(n) for n in __ALL__], str(session.logical_time)")
            events, now = re.match(r"\(\[(.*)\], '([\d.]+)'\)", shown).groups()
            again = terminal.command("py [session.backend.event(n) for n in __ALL__], str(session.logical_time)")
            assert shown == again, "the group stands"
            seen.append((float(now), sum(map(int, events.split(", ")))))
        assert seen == sorted(seen) and len({done for _, done in seen}) == 3
        assert "the recording ends here" in terminal.command("c", 60)
    recorder.none_left()


@pytest.mark.parametrize("env,columns", [({"TERM": "dumb"}, 120), ({"XDG_STATE_HOME": "/dev/null"}, 120), ({}, 38)],
                         ids=["a dumb terminal", "no place for the history", "a narrow terminal"])
def test_odd_terminals(recorder, ring, env, columns):  # noqa: F811
    with Terminal(recorder, [recorder.friday, "replay", ring.path], env={**env, "NO_COLOR": ""}, columns=columns) as terminal:
        terminal.expect(PROMPT)
        if env.get("TERM") == "dumb":
            assert "\x1b" not in terminal.raw
        assert "breakpoint 1 (stabilize) on all nodes" in terminal.command("tbreak stabilize")
        assert all(len(line) < columns for line in terminal.command("help goto").splitlines() if columns < 80 and "    " not in line)
        terminal.command("c")
        terminal.send("\x1b[A\r" if not env.get("TERM") else "\x10\r")
        assert "the recording ends here" in terminal.expect(PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
        if env.get("TERM") == "dumb":
            assert "\x1b" not in terminal.raw
    recorder.none_left()


def test_a_paste_with_an_empty_line_in_a_block(terminal):
    terminal.send("\x1b[200~watch srv.successor\n  if __HIT__.id:\n\n    print('pasted', __NODE__)\n  cont\npy print('after')\x1b[201~\r")
    shown = terminal.expect(r"after\n[^\n]*" + PROMPT)
    assert "watch 1 (srv.successor) has a handler" in shown and "error" not in shown.lower()
    assert "pasted 0" in terminal.command("c")


def test_it_can_be_suspended(terminal):
    terminal.send("py 'be")
    terminal.expect("py 'be")
    stat = pathlib.Path(f"/proc/{terminal.process.pid}/stat")
    os.kill(terminal.process.pid, signal.SIGSTOP)  # Ctrl-Z without a shell: a session leader ignores SIGTSTP
    wait_until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "it stops")
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.expect("py 'be")
    assert "before" in terminal.command("fore'")


def test_conditions_of_watches_are_looked_at_when_they_are_set(piped):
    done = piped("goto 1\nwatch srv.seq if srv.seq ==\nwatch srv.seq if nosuch > 3\nwatch srv.seq if srv.seq > 3\ncondition 3 srv.seq ==\ninfo watchpoints\n")
    assert done.stderr.count("syntax error") == 2, done.stderr
    assert len(re.findall(r"`nosuch > 3` cannot be evaluated here \(.*nosuch.*\)", done.stdout + done.stderr)) == 1, done
    assert re.search(r"^2 +watch .*nosuch > 3$", done.stdout, re.M) and re.search(r"^3 +watch .*srv\.seq > 3$", done.stdout, re.M), done.stdout
    assert not re.search(r"^1 +watch ", done.stdout, re.M), done.stdout
