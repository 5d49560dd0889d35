"""The console without a terminal: lines, blocks, node lists, answers, stops, errors, completion, and the table of commands."""
import json
import os
import pathlib
import re
import time

import pytest
from fake_backend import Event, FakeStop
from fake_console import Answering, Message, feed, make

import friday
from friday import table
from friday.answers import Output, ranges
from friday.commands import is_of_all
from friday.console import Console
from friday.frames import OWN_FRAME
from friday.teaching import LIST_NAMES

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def out(capsys):
    return lambda: capsys.readouterr().out


# -- lines and blocks -------------------------------------------------------------------------------------------------
def test_a_stop_point_is_set_at_once_and_the_indented_lines_that_follow_are_its_handler(out):
    console, backend = make(events=[Event(0, "f"), Event(1, "f")])
    console.feed("break f")
    assert list(backend.points) == [1] and not console.in_block and out() == "breakpoint 1 (f) on all nodes\n"
    feed(console, "  print('at', __NODE__)\n\n  cont")
    assert console.in_block and console.prompt() == "> "
    console.feed("continue")
    text = out()
    assert text.startswith("breakpoint 1 (f) has a handler\nat 0\nat 1\n") and "the recording ends here, at 2.000 s" in text


def test_at_a_terminal_an_empty_line_ends_a_block_but_not_within_a_paste(out):
    console, _ = make(terminal=True)
    feed(console, "py x = 1\nwatch y\n  x += 1")
    console.feed("", True)
    console.feed("  x += 1", True)
    assert console.in_block
    console.feed("")
    assert not console.in_block and console.session.points[1].handler.source == "  x += 1\n\n  x += 1"


def test_python_blocks(out):
    console, _ = make()
    feed(console, "py for i in range(2):\n  print(i)\npy x = [\n  1]\npython\ny = 2\n\nif y:\n  z = 3\nend\npy\n  w = 4\npy x, y, z, w")
    assert out() == "0\n1\n([1], 2, 3, 4)\n"
    console.session.backend.let(1, {"v": 7})
    console.session.backend.let(2, {"v": 8})
    feed(console, "2 py @(v)\nb,c py print(__NODE__.name)\n@'b'(v)\n2 @(v)")
    assert out().splitlines() == ["8", "b", "c", "7", "8"] and console.session.here == 0


def test_commands_up_to_end_and_for_the_last_stop_point(out):
    console, _ = make(events=[Event(0, "f"), Event(0, "g")])
    feed(console, "break f\nbreak g\ncommands 1\nprint('one')\ncont\nend\ncommands\nprint('two')\nend\nc")
    assert out().splitlines()[2:4] == ["one", "two"]
    feed(console, "commands 2\nend")
    assert console.session.points[2].handler is None


def test_the_input_ends_within_a_block(out, capsys):
    console, _ = make()
    feed(console, "watch x\n  cont")
    console.end()
    assert console.done and console.session.points[1].handler.source == "  cont"
    console, _ = make()
    feed(console, "python\nx = 1")
    console.end()
    assert "before the line `end` of a block" in capsys.readouterr().err and "x" not in console.session.namespace


def test_ctrl_c_forgets_a_block():
    console, backend = make()
    feed(console, "watch x\n  never")
    console.cancel()
    assert not console.in_block and console.session.points[1].handler is None


@pytest.mark.parametrize("text,message", [
    ("  x = 1", "takes none: a command begins at the left margin"),
    ("delete\n  x = 1", "takes none"),
    ("step 0x", "step [COUNT]"), ("0-1 step", "`step` moves one node and the others follow, but `0-1` are 2 nodes"), ("advance", "advance LOC"),
    ("finish 2", "`finish` takes no argument"), ("continue -1", "continue [COUNT | until PYTHON-EXPR]"),
    ("1 delete", "`delete` takes no node list"), ("source", "source FILE"), ("source /no/file", "cannot read /no/file: No such"),
    ("info", "info nodes|time|"), ("info program", "for the replayed group use `info nodes`"), ("node x", "no node is called `x`"),
    ("9 print x", "no node 9"), ("kill", "`kill` is refused: it would end a node"), ("!ls", "`!` is refused"), ("|bt|cat", "refused"), ("! ls -l", "refused"), ("2 !ls", "refused"), ("!2 !ls", "refused"), ("!ls -l", "refused"),
    ("r", "Use instead: restart"), ("rbreak x", "Friday sets the stop points"), ("target remote :1", "refused"), ("define f", "refused"), ("2 attach 7", "refused"),
    ("goto", "goto SECONDS | -SECONDS | event N"), ("goto event", "`goto event` needs the number of an event: for example"), ("goto event 0 x", "no node is called `x`"),
    ("goto event 5", "node 0 (a) has no event 5"), ("goto 7", "no time 7 s"), ("goto --1", "`--1` is no time"),
    ("0-1 goto event 1", "moves one node"), ("set sync never", "set sync clock|causal|free"), ("set patch-stores perhaps", "set patch-stores on|off"), ("0 set sync free", "set sync clock"),
    ("cont", ""), ("commands 99", "no stop point 99; there are: none"), ("goto evnt 3", "the nearest is `event`"),
])
def test_errors_are_said_and_the_console_lives(text, message, capsys):
    console, _ = make()
    feed(console, text)
    assert message in capsys.readouterr().err and not console.done and console.code == 0


def test_an_exception_in_a_handler_shows_its_line_and_stops_the_group(capsys):
    console, backend = make(events=[Event(1, "f"), Event(1, "f")])
    feed(console, "break f\n  y = 1\n  1 / 0\nc")
    text = capsys.readouterr().err
    assert '"<breakpoint 1>", line 2, in breakpoint 1\n    1 / 0\n' in text and "ZeroDivisionError" in text
    assert "in the handler of breakpoint 1 (f) on node 1 (b) at 1 s" in text and "pyext/friday" not in text
    assert backend.done == 1 and not console.done


@pytest.mark.parametrize("text,message", [
    ("py 1 +", "SyntaxError: invalid syntax"), ("@(x += 1)", "AtError"), ("py @9(x)", "no node 9"),
    ("py nonsense", "NameError"), ("py watchpoint('x', old=1)", "`old` would be a value for the handler"), ("py __ALL__ = 3", "__ALL__ is a metavariable and cannot be set"), ("py @b(x)", 'for the node of that name write `@"b"(...)`'), ("watch x\n  1 +\nquit", "SyntaxError"),
])
def test_errors_in_python_are_shown_as_python_shows_them(text, message, capsys):
    console, _ = make()
    feed(console, text)
    shown = capsys.readouterr().err
    assert message in shown and "pyext/friday" not in shown and "ast.py" not in shown


def test_batch_ends_at_the_first_error(tmp_path, capsys):
    for text, code in (("break nowhere", 2), ("py raise friday.ComponentDied('gdb has died')", 4), ("py exit(7)", 7)):
        console, backend = make(batch=True)
        console.feed(text)
        assert console.done and console.close() == code
    console, backend = make(batch=True)
    backend.final = FakeStop("divergence", node=0, message="the diff")
    console.feed("continue")
    assert (console.done, console.code) == (True, 3) and "the diff" in capsys.readouterr().err


def test_source_says_where_and_stops_there(tmp_path, capsys):
    file = tmp_path / "f.friday"
    file.write_text("# set\nbreak f\n  cont\n\nkill\nbreak g\n")
    console, backend = make()
    console.feed(f"source {file}")
    assert capsys.readouterr().err.startswith(f"{file}:5: `kill` is refused") and len(backend.points) == 1
    script = tmp_path / "f.py"
    script.write_text("import friday\nseen = []\n@session.watch('x')\ndef f():\n    seen.append(@(x))\n")
    console.source(str(script))
    assert console.session.points[2].what == "x" and capsys.readouterr().err == ""


NAMES = {"serve": [["", "/src/s.c", 10, True]], "main": [["", "/src/s.c", 30, True]], "server": [["", "/src/s.c", 1, False]],
         "packet_id": [["serve", "/src/s.c", 11, False], ["send", "/src/net.c", 7, False]], "end": [["run", "/src/s.c", 5, False]]}


def unknown(console, command, message, text):
    """Has gdb answer a command with an error."""
    console.session.backend.answers[command] = friday.NoSymbol(message)
    feed(console, text)


@pytest.mark.parametrize("command,text,message,said", [
    ("print sever", "0 print sever", 'No symbol "sever" in current context.', 'No symbol "sever" in current context; the nearest is `server`'),
    ("print end", "1 print end", 'No symbol "end" in current context.',
     "node 1: `end` is not in scope here: it is a variable of run (s.c:5); run is frame 1 of the node's stack: `1 frame 1`"),
    ("print packet_id", "1 print packet_id", 'No symbol "packet_id" in current context.',
     "it is a variable of serve (s.c:11), send (net.c:7); `break serve` stops where it is in scope"),
    ("print server.idd", "1 print server.idd", "There is no member named idd.", "There is no member named idd; the nearest is `id`"),
    ("print server.xyz", "1 print server.xyz", "There is no member named xyz.", "There is no member named xyz; there are id, next\n"),
    ("print zzzzz", "1 print zzzzz", 'No symbol "zzzzz" in current context.', 'No symbol "zzzzz" in current context.\n'),
    ("condition packett_id", "break serve if packett_id", 'the condition `packett_id`: No symbol "packett_id" in current context.', "the nearest is `packet_id`\n"),
])
def test_an_unknown_name_has_its_nearest_and_one_out_of_scope_its_place(command, text, message, said, capsys):
    console, backend = make()
    backend.answers |= {LIST_NAMES: json.dumps({"whole": True, "names": NAMES}), "complete print server.": "print server.id\nprint server.next\n"}
    backend.backtrace = lambda node: "#0  0x7f in poll (n=1)\n#1  0x55 in run (end=0) at s.c:5\n"
    unknown(console, command, message, text)
    assert said in capsys.readouterr().err
    assert sum(entry == (0, "gdb " + LIST_NAMES) for entry in backend.log) <= 1


def test_a_key_that_gdb_cannot_look_up_is_to_be_looked_up_in_python(capsys):
    console, backend = make()
    backend.answers['print app.ages["anna"] + 1'] = friday.BadExpression("Invalid cast.")
    feed(console, '0 print app.ages["anna"] + 1')
    assert 'gdb cannot look up the key "anna"; read the container and look it up in Python: @(app.ages)["anna"]\n' in capsys.readouterr().err


@pytest.mark.parametrize("asked,message,said", [
    ("info mesages", 'Undefined info command: "mesages".  Try "help info".', "`info` has no topic `mesages`; the nearest is `messages`\n"),
    ("info zzz", 'Undefined info command: "zzz".  Try "help info".', "`info` has no topic `zzz`\n"),
    ("info line 99999", "Line number 99999 is out of range", "Line number 99999 is out of range"),
    ("set snc clock", 'No symbol "snc" in current context.', "`snc` is neither a setting nor a variable; the nearest is `sync`\n"),
    ("set snc = 3", 'No symbol "snc" in current context.', 'No symbol "snc" in current context.\n'),
])
def test_a_word_that_a_command_does_not_know_has_its_nearest(asked, message, said, capsys):
    console, backend = make()
    backend.answers[asked] = (friday.NoSymbol if "symbol" in message else friday.BadExpression)(message)
    feed(console, asked)
    assert said in capsys.readouterr().err


def test_help_of_a_class_of_gdbs_leaves_out_what_is_refused(out):
    console, backend = make()
    backend.answers["help breakpoints"] = """Making program stop at certain points.

rbreak -- Set a breakpoint for all functions matching REGEXP.
break, brea, b -- Set breakpoint at specified location.
catch fork -- Catch calls to fork.
delete bookmark -- Delete a bookmark from the bookmark list.
skip file -- Ignore a file while stepping.
info line -- Core addresses of the code for a source line.
"""
    feed(console, "help breakpoints")
    shown = out()
    assert all(word in shown for word in ("Making program", "break, brea", "skip file", "info line"))
    assert not any(word in shown for word in ("rbreak", "catch fork", "bookmark"))


def test_cont_at_the_left_margin_below_a_handler_says_what_it_is(out):
    console, _ = make(events=[Event(1, "f")], terminal=True)
    feed(console, "break f\n  x = 1\ncont")
    assert "at the left margin `cont` is the command `continue`" in out()


def test_names_are_asked_once_a_program_and_reads_raise_the_better_error():
    backend = Answering()
    backend.answers[LIST_NAMES] = json.dumps({"whole": True, "names": NAMES})

    def read(node, plan):
        raise friday.NoSymbol(f'No symbol "{backend.plans[plan]}" in current context.')
    backend.read = read
    session = friday.Session(backend)
    for _ in range(3):
        with pytest.raises(friday.OutOfScope) as found:
            session.nodes[1].read("packet_id")
    assert found.value.scopes == ("serve", "send") and found.value.node == 1
    with pytest.raises(friday.NoSymbol) as found:
        session.nodes[0].read("servr")
    assert found.value.nearest in ("server", "serve")
    assert len([entry for entry in backend.log if LIST_NAMES in entry[1]]) == 1


def test_a_program_without_debug_information_says_so(capsys):
    console, backend = make()
    backend.answers[LIST_NAMES] = '{"whole": true, "names": {}}'
    unknown(console, "print x", 'No symbol "x" in current context.', "0 print x")
    unknown(console, "print y", 'No symbol table is loaded.  Use the "file" command.', "0 print y")
    assert capsys.readouterr().err.count("prog has no debug information; add it with `friday replay --symbols DIR` or `friday pack`") == 2


def test_a_local_that_the_function_does_not_have_is_not_watched():
    console, backend = make()
    backend.answers[LIST_NAMES] = json.dumps({"whole": True, "names": NAMES})
    with pytest.raises(friday.NoSymbol, match="serve has no variable `packet_it`; the nearest is `packet_id`"):
        console.session.watch("serve::packet_it")
    console.session.watch("serve::packet_id")
    half = Answering()
    half.answers[LIST_NAMES] = json.dumps({"whole": False, "names": NAMES})
    friday.Session(half).watch("serve::packet_it")  # not all names are known: gdb decides
    console.session.watch("Type::member")  # not a function of the program: gdb knows
    assert len(backend.points) == 2


# -- answers ----------------------------------------------------------------------------------------------------------
def test_gdb_answers_are_labelled_in_a_pipe_and_folded_on_a_terminal(out):
    values = {0: "$1 = 5\n", 1: "$1 = 5\n", 2: "$7 = 6\n"}
    console, backend = make()
    backend.answers = {"print x": values, "bt": {0: "#0 f\n#1 g\n"}}
    feed(console, "all print x\n0 bt\n1,2 x/2x $sp")
    assert out() == "[a] $1 = 5\n[b] $1 = 5\n[c] $7 = 6\n[a] #0 f\n[a] #1 g\n[b] gdb x/2x $sp\n[c] gdb x/2x $sp\n"
    console, backend = make(("a", "b", "c", "d"), terminal=True)
    backend.answers = {"print x": {**values, 3: "$2 = 5\n"}, "bt": {0: "#0 f\n#1 g\n"}}
    backend.altered_since[1] = 3
    feed(console, "all print x\na bt\ndelete\n")
    assert out() == ("nodes 0,3: 5\nnode 1 altered: $1 = 5\nnode 2: $7 = 6\nnode 0: #0 f\nnode 0: #1 g\n")


def test_without_a_list_a_command_of_gdb_means_the_selected_node(out):
    console, backend = make(("a", "b", "c"))
    feed(console, "print x\nnode b\nprint x\ninfo locals\nset var x = 1\nset x = 2\nset print pretty on\nset scope\n.,c bt")
    assert out() == ("[a] gdb print x\n<node 1 b>\n[b] gdb print x\n[b] gdb info locals\n[b] gdb set var x = 1\n[b] gdb set x = 2\n"
                     "[a] gdb set print pretty on\n[b] gdb set print pretty on\n[c] gdb set print pretty on\n"
                     "scope is node: without a node list a command of gdb goes to the selected node\n[b] gdb bt\n[c] gdb bt\n")
    feed(console, "set scope group\nprint x\n. print x\nset x == 2\nset scope none")
    assert out() == ("scope is group: without a node list a command of gdb goes to all nodes\n[a] gdb print x\n[b] gdb print x\n[c] gdb print x\n"
                     "[b] gdb print x\n[a] gdb set x == 2\n[b] gdb set x == 2\n[c] gdb set x == 2\n")


def test_on_a_terminal_the_answer_of_the_selected_node_looks_as_in_gdb(out):
    console, backend = make(("a", "b"), terminal=True)
    feed(console, "print x\n. print x")
    assert out() == "gdb print x\nnode 0: gdb print x\n"
    backend.altered_since[0] = 3
    feed(console, "print x")
    assert out() == "node 0 altered: gdb print x\n"


@pytest.mark.parametrize("text,every", [
    ("set print pretty on", True), ("set listsize 20", True), ("add-symbol-file a.o 0x400", True), ("directory /src", True), ("skip function f", True),
    ("set substitute-path /a=b /c", True), ("set environment A=B", True),
    ("set var x = 1", False), ("set variable x = 1", False), ("set x=1", False), ("set p->next[i] = 0", False), ("set $i = 2", False),
    ("print x", False), ("list", False), ("settle", False), ("show print", False), ("disassemble", False)])
def test_what_sets_up_gdb_is_for_every_node(text, every):
    assert is_of_all(text) == every


def test_an_error_of_one_node_is_its_answer_and_of_all_an_error(capsys):
    console, backend = make()
    no_x = friday.BadExpression('No symbol "x" in current context.', node=1)
    backend.answers = {"print x": {0: "$1 = 5\n", 1: no_x, 2: "$1 = 5\n"}, "print y": no_x}
    feed(console, "all print x\nall print y")
    assert capsys.readouterr() == ('[a] $1 = 5\n[b] No symbol "x" in current context.\n[c] $1 = 5\n',
                                   'No symbol "x" in current context.\n')


def test_without_a_node_alive_gdb_is_asked_of_those_that_ended_or_have_not_started(out):
    console, backend = make(("a", "b"), started=())
    console.feed("set scope group")
    out()
    console.feed("list")
    backend.state[1] = "ended"
    console.feed("list")
    assert out() == "[a not started] gdb list main\n[b not started] gdb list main\n[b ended] gdb list\n"


def test_ranges():
    assert ranges([0, 1, 2, 4, 6, 7]) == "0-2,4,6-7" and ranges([5]) == "5"


def test_a_bare_list_shows_the_innermost_source_of_a_node_in_a_library(out):
    console, backend = make(("a", "b"))
    backend.answers = {
        "frame": {0: "#0  poll (n=1) at ../linux/poll.c:29\n29\tin ../linux/poll.c\n", 1: "#0  f () at /src/a.c:5\n5\t  x = 1;\n"},
        OWN_FRAME: "1\n", "backtrace 20": "#0  poll (n=1) at ../linux/poll.c:29\n#1  0x55 in run (end=0) at /src/a.c:79\n"}
    feed(console, "all list\n0 l\n0 list f")
    asked = [entry for entry in backend.log if entry[1].startswith("gdb list")]
    assert asked == [(0, "gdb list /src/a.c:79"), (1, "gdb list"), (0, "gdb list"), (0, "gdb list f")]


@pytest.mark.parametrize("frame, says", [
    ("#0  memcpy () at ../sysdeps/memmove.S:353\n353\t../sysdeps/memmove.S: No such file or directory.\n", True),
    ("#0  std::vector<int>::push_back (this=0x1) at /usr/include/c++/12/bits/stl_vector.h:9\n9\t  f();\n", True), ("#0  f (n=1) at /src/a.c:5\n5\t  x = 1;\n", False)])
def test_a_watch_that_is_hit_in_a_library_names_the_programs_own_frame(out, frame, says):
    console, backend = make(events=[Event(0, None, {"x": 3})])
    backend.answers = {"frame": frame, OWN_FRAME: "1\n", "backtrace 20": "#0  g ()\n#1  0x55 in run (end=0) at /src/a.c:79\n"}
    feed(console, "watch x\ncontinue")
    assert (", called from run (end=0) at /src/a.c:79" in out()) == says


def test_long_answers_are_paged_on_a_terminal_only(tmp_path, monkeypatch, out):
    shown = tmp_path / "shown"
    monkeypatch.setenv("PAGER", f"/usr/bin/tee {shown}")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((80, 10)))
    console, backend = make(("a",), terminal=True)
    backend.answers = {"print big": "line\n" * 30, "print small": "line\n" * 3}
    feed(console, "print small")
    assert not shown.exists() and out().count("line") == 3
    feed(console, "print big")
    assert shown.read_text() == "line\n" * 30 and "line" not in out()
    feed(console, "set pager off\nprint big")
    assert out().count("line") == 30
    monkeypatch.setenv("PAGER", "/no/such/pager")
    feed(console, "set pager on\nprint big")
    assert out().count("line") == 30
    console, backend = make(("a",))
    backend.answers = {"print big": "line\n" * 30}
    feed(console, "print big")
    assert out().count("line") == 30


def test_a_matrix_product_by_mistake_says_what_it_is(capsys):
    console, _ = make()
    feed(console, "py 3 @(4)")
    assert "is Python's matrix product, since a value stands before the `@`" in capsys.readouterr().err


# -- stops ------------------------------------------------------------------------------------------------------------
FRAME = "#0  0x0000 in f (n=1,\n    m=2) at prog.c:7\n7\t  x = n;\n"


def test_a_stop_tells_node_stop_point_place_thread_time_and_source(out):
    console, backend = make(events=[Event(1, "f", {"x": 4}), Event(2, "f", {"x": 5}), Event(2, ends=True)])
    backend.answers["frame"] = FRAME
    feed(console, "watch x\nbreak f\nc\nc\nc")
    text = out()
    assert ("node 1 (b) stopped at watch 1, watch 2, f (n=1, m=2) at prog.c:7, thread 0, 1.000 s\n"
            "  x: undefined -> 4\n7\t  x = n;\n") in text
    assert "node 2 (c) ended at 3.000 s: exited with 0\nthe recording ends here, at 3.000 s" in text
    assert console.session.here == 2 and console.prompt() == "(friday 2 ended @3.000s) "


def test_ctrl_c_of_a_run_is_a_stop(out):
    console, backend = make()
    backend.final = FakeStop("interrupt")
    backend.answers["frame"] = FRAME
    console.feed("c")
    assert out() == "interrupted; node 0 (a) is in f (n=1, m=2) at prog.c:7, 0.000 s\n7\t  x = n;\n"


def test_continue_count_lets_hits_pass_and_step_counts_steps(out):
    console, backend = make(events=[Event(0, "f")] * 6)
    feed(console, "break f\nc\nc 3")
    assert backend.done == 4
    console.feed("restart")
    assert backend.done == 0 and "1 stop point kept" in out()
    stepped = []
    backend.step = lambda node, command: stepped.append((node, command)) or FakeStop("step", node=node)
    feed(console, "1 step 2\nnext\nuntil prog.c:9\n2 fin")
    assert stepped == [(1, "step"), (1, "step"), (1, "next"), (1, "until prog.c:9"), (2, "finish")]


def test_continue_count_before_the_first_stop_and_what_is_said_of_counts(out):
    console, backend = make(("a",), [Event(0, "f"), Event(0, "f"), Event(0, "f"), Event(0, "g")])
    feed(console, "break f\ncontinue 2\nignore 1 1\nignore 1 0")
    text = out()
    assert backend.done == 2 and text.count("stopped at breakpoint 1") == 1
    assert "breakpoint 1 (f) ignores its next 1 hit\n" in text and "breakpoint 1 (f) ignores no hits\n" in text
    feed(console, "restart\ncontinue 50")
    assert "the recording ends here" in out()


def test_info_shows_the_nodes_that_are_asked_for(capsys):
    console, _ = make(("red-1", "red-2", "blue"))
    feed(console, "info nodes red-*\ninfo time blue\ninfo nodes 0, 2\n")
    said = capsys.readouterr().out
    assert said.count("red-1") == 2 and said.count("red-2") == 1 and said.count("blue") == 2
    feed(console, "0 info nodes 1\ninfo nodes violet")
    assert "name the nodes before `info` or after `nodes`, not in both places" in (said := capsys.readouterr().err) and "no node is called `violet`" in said


def test_a_step_ends_where_something_else_stopped(out):
    console, backend = make(events=[Event(1, "f")])
    console.feed("break f")
    backend.step = lambda node, command: backend.do(backend.events[0])
    console.feed("0 step 5")
    assert backend.done == 1 and "node 1 (b) stopped at breakpoint 1" in out() and console.session.here == 1


def test_advance_goes_to_a_place_on_one_node_and_leaves_no_stop_point(out):
    console, backend = make(events=[Event(0, "f"), Event(1, "f"), Event(1, "g")])
    console.feed("1 advance f")
    assert backend.done == 2 and not console.session.points and not backend.points
    feed(console, "break g\nadvance h")
    console.feed("1 advance nowhere")
    assert list(backend.points) == [2]


def test_an_empty_line_repeats_only_what_may_be_repeated(out):
    console, backend = make(events=[Event(0, "f")] * 3, terminal=True)
    feed(console, "break f\n\nc\n\n\ndelete\n\n")
    assert backend.done == 3


# -- going to a place -------------------------------------------------------------------------------------------------
def test_goto_runs_forward_or_from_the_start_and_over_stop_points(out):
    console, backend = make(("a", "b"), [Event(0), Event(1), Event(0), Event(1, "f"), Event(0), Event(1)])
    feed(console, "break f\n  print('ran')\n\n  cont\ngoto event 2")
    assert backend.done == 4 and "node 0 (a) stands before its event 2" in (text := out()) and "ran\n" not in text and "back" not in text
    console.feed("goto event 0 b")
    assert (backend.done, console.session.here) == (1, 1)
    text = out()
    assert text.startswith("going back: the recording is replayed from its start\n") and "node 1 (b) stands before its event 0, f, 2 s" in text.replace("gdb frame", "f")
    for text, done, here in (("goto 5", 4, 0), ("goto 2.5s", 2, 0), ("goto 0", 0, 0), ("goto -2", 3, 1), ("goto -6s", 0, 0), ("1 goto event 2", 5, 1), ("goto end", 6, 1)):
        console.feed(text)
        assert (backend.done, console.session.here) == (done, here), text
    assert "the recording ends here" in out() and console.session.points[1].hits == 0
    backend.sent = [Message(1, 0, 0, 1, 1, 1, 4), Message(2, 1, 2, 6, None, None, None)]
    console.feed("goto message 1")
    assert (backend.done, console.session.here) == (3, 1)
    console.feed("goto message 2")
    assert backend.done == 5 and "no replayed node receives message 2: going to where it is sent" in out()


@pytest.mark.parametrize("asked, says", [
    ("goto 99", "the recording has no time 99 s: it goes from 0 to 2.000 s, or from -2.000 to 0 s before its end"), ("goto -500", "the recording has no time -500 s"),
    ("goto 7.5.2", "`7.5.2` is no time: write seconds such as 7.5"), ("goto 1,5", "`1,5` is no time"), ("goto nowhere", "`nowhere` is no time, no mark and no bookmark (there are no bookmarks)"),
    ("goto evnt", "the nearest is `event`"), ("goto output a /x", "the regular expression `/x` has no `/` at its end: write `goto output a /x/`"),
    ("goto message ?x", "the regular expression `?x` has no `?` at its end: write `goto message ?x?`"), ("goto output a //", "is empty"), ("goto output a", "needs a node and a regular expression"),
    ("goto event x", "`goto event` needs the number of an event, and not `x`"), ("goto 3#", "`3#` is no mark"), ("goto hop", "needs the number of a hop"), ("goto when 1", "`when EXPR` lists changes"),
    ("bookmark 3", "`goto 3` would mean a time, so a bookmark cannot have that name"), ("bookmark 10:30", "would mean a time"), ("bookmark 1#2", "would mean a mark"), ("bookmark when", "would mean another place"),
    ("1-9 print x", "no node 2-9, which `1-9` names; the recording has nodes 0 to 1"), ("9 print x", "no node 9; the recording has nodes 0 to 1"), ("0,!1-99999999999 print x", "no node 2-99999999999"),
    ("origin hop 2", "`origin EXPR` makes them")])
def test_a_place_or_a_name_that_is_none_is_told_what_is_wrong(asked, says, capsys):
    console, backend = make(("a", "b"), [Event(0), Event(1)])
    console.feed(asked)
    said = capsys.readouterr().err
    assert says in said and "usage" not in said and backend.done == 0


def test_what_the_command_line_names_is_named_in_its_errors(capsys):
    console, backend = make(("a", "b"), [Event(0), Event(1)])
    console.goto_first("foo", "--at")
    assert "--at foo: `foo` is no time" in capsys.readouterr().err
    console.goto_first("2", "--at")
    assert backend.done == 1


def test_goto_a_time_of_day(capsys, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    console, backend = make(("a", "b"), [Event(0), Event(1), Event(0, seconds=100), Event(0)])  # 00:16:41, 42, 18:22, 23
    for text, done in (("goto 00:16:42", 2), ("goto 0:17", 2), ("goto 1970-01-01 00:18:22.5", 3), ("goto 00:16:41", 0), ("1 goto 00:16:42", 1)):
        console.feed(text)
        assert backend.done == done, text
    assert capsys.readouterr().err == ""
    for wrong in ("goto 00:20:00", "goto 00:10:00", "goto 1970-01-02 00:16:42"):
        console.feed(wrong)
        assert "node 1 (b) has no event at that time: it was recorded from 1970-01-01 00:16:42 to" in capsys.readouterr().err
    console.feed("goto 25:00:00")
    assert "not a time of day" in capsys.readouterr().err


def test_set_sync_restarts_and_other_settings_are_gdbs(out):
    console, backend = make(("a",), [Event(0, "f")])
    feed(console, "break f\ncontinue\nset sync\nset sync causal\nset sync\nset print pretty on\n0 set var x = 1\ninfo time")
    text = out()
    assert backend.done == 0 and backend.order == "causal" and "sync is causal: at the start of the recording; 1 stop point kept" in text
    assert "sync is clock\n" in text and "sync causal\n" in text
    assert (0, "gdb set print pretty on") in backend.log and (0, "gdb set var x = 1") in backend.log


# -- predicates, questions, keeping -------------------------------------------------------------------------------------
def test_why_follows_the_messages_back(out):
    console, backend = make(events=[Event(0), Event(1), Event(2)] * 4)
    backend.done = 12
    backend.sent = [Message(1, 1, 0, 1, 0, 0, 1), Message(2, 0, 1, 2, 2, 1, 3), Message(3, 0, 2, 4, 2, 3, 6), Message(4, 2, 3, 5, 1, 3, 7)]
    backend.events = lambda node, first, count: [(i, f"call {i}") for i in range(first, first + count)]
    backend.event = lambda node: 3
    feed(console, "why 1\n2 why")
    said = out()
    assert "node 1 (b) has done its event 3" in said and "         0  call 0\n" in said and "         3  call 3\n" in said
    rows = [line.split() for line in said.partition("\n2 why")[0].split("first")[0].splitlines() if line.lstrip()[:1] in "1234" and "datagram" in line]
    assert [row[0] for row in rows] == ["4", "2", "1"]  # 3 came after node 2 had sent 4
    assert "goto message 4" in said and said.count("goto message 3") == 1


def test_diff_shows_the_fields_that_differ(out):
    console, backend = make()
    backend.let(0, {"n": backend.raw(bytes([1]) + bytes(15), "struct Node"), "v": backend.raw(bytes(12), "int [3]"), "x": 5})
    backend.let(1, {"n": backend.raw(bytes([2]) + bytes(15), "struct Node"), "v": backend.raw(bytes(8) + bytes([9, 0, 0, 0]), "int [3]"), "x": 5})
    feed(console, "diff a b n\ndiff 0 1 v\ndiff 0 b x")
    assert out() == ("      a  b\nn.id  1  2\n" "      a  b\nv[2]  0  9\n" "equal on node 0 (a) and node 1 (b): 5\n")


def test_diff_has_bounds(out):
    console, backend = make()
    backend.let(0, {"v": list(range(300))})
    backend.let(1, {"v": [-i for i in range(500)]})
    feed(console, "diff a b v")
    lines = out().splitlines()
    assert [line.split() for line in lines[:3]] == [["a", "b"], ["v[1]", "1", "-1"], ["v[2]", "2", "-2"]]
    assert len(lines) == 102 and lines[-1] == "and 399 more differences"
    feed(console, "diff a a v")
    assert len(out()) < 500


def test_aliases_stand_for_the_start_of_a_command(out, capsys):
    console, backend = make()
    feed(console, "alias px = print x\nalias px2 = px +\nall px\n1 px2 2\nalias\nalias px =\nalias\n")
    assert ("1", "gdb print x + 2") not in backend.log and (1, "gdb print x + 2") in backend.log and (2, "gdb print x") in backend.log
    assert "alias px = print x\nalias px2 = px +\n" in out()
    feed(console, "alias break = print\nalias a b\nalias p =")
    said = capsys.readouterr().err
    assert "`break` is a command of Friday's" in said and "alias [NAME = COMMAND ...]" in said and "there is no alias `p`" in said
    feed(console, "alias loop = loop\nloop")
    assert (0, "gdb loop") in backend.log


def test_a_saved_session_comes_back(tmp_path, out):
    file = tmp_path / "s.friday"
    console, backend = make(events=[Event(0, "f", {"x": 1})] * 3)
    backend.let(0, {"x": 0})
    feed(console, "py import math\npy counts = {1: [2]}\npy def twice(n):\n  return 2 * @(x)\n\nalias px = print x\nmap by @(x)\n"
                  "break f if x > 0\n  counts[1] = twice(1)\n  cont\n0-1 watch x\ntbreak g\ndisable 2\npy open_file = open('/dev/null')")
    console.session.every(lambda: None, seconds=5.0)
    feed(console, f"save session {file}")
    assert "4 stop points" in out()
    again, other = make(events=[Event(0, "f", {"x": 1})] * 3)
    other.conditions["x > 0"] = lambda node: True
    other.let(0, {"x": 0})
    feed(again, f"source {file}")
    first, second, third = again.session.points.values()
    assert (first.what, first.condition, first.handler.source) == ("f", "x > 0", "  counts[1] = twice(1)\n  cont")
    assert (second.what, [int(node) for node in second.nodes], second.enabled) == ("x", [0, 1], False) and third.temporary
    space = again.session.namespace
    assert space["counts"] == {1: [2]} and space["math"].pi > 3 and again.session.aliases == {"px": "print x"} and space["by"][0] == 0
    text = file.read_text()
    assert "# py open_file is a TextIOWrapper: not saved" in text and "timer 4 (every 5 s) was set by Python" in text
    feed(again, "continue")
    assert space["counts"] == {1: 2}


# -- info and help ----------------------------------------------------------------------------------------------------
def test_info_nodes_time_and_messages(capsys):
    out = lambda: capsys.readouterr().out  # noqa: E731
    console, backend = make(("a", "b"), started=(0,))
    backend.altered_since[0] = 2
    backend.sent = [Message(1, 0, 4, 1, 1, 6, 2), Message(2, None, None, None, 0, 5, 3, 5, "stream"),
                    Message(3, 1, 7, 4, 0, 8, 5, is_received=False), Message(4, 1, 8, 6, 0, 9, 7, is_sent=False, is_received=False)]
    console.feed("info nodes")
    assert re.search(r"^\* +0 +a +alive +none +2\.000 s +/usr/bin/prog$", text := out(), re.M), text
    assert re.search(r"^ +1 +b +not started +/usr/bin/prog$", text, re.M)
    console.feed("1 info nodes")
    assert "  a  " not in out()
    console.feed("info time")
    assert re.search(r"^node 0  a  1970-01-01 .*16:40\.000000  event none$", text := out(), re.M), text
    backend.contents = {1: b"PUT x", 2: b"GET \xff\n"}
    first, second = "1 a 4 1.000 s b 6 2.000 s 10 datagram PUT x".split(), r"2 outside a 5 3.000 s 5 stream GET \xff".split()
    third = "3 b 7 4.000 s a 8 not yet 10 datagram [not kept]".split()
    shown = lambda: [line.split() for line in out().splitlines()][1:]  # noqa: E731
    for command, expected in (("info messages", [first, second, third]), ("info messages 1", [first, third]), ("1 info mess", [first, third]),
                              ("info messages a 2", [second, third]), ("0,1 info messages 2", [second, third]), ("info messages /GET|nothing/", [second, "1 message could not be searched:"]),
                              ("info messages b 1 /PUT/", [first, "1 message could"])):
        console.feed(command)
        for line, wanted in zip(shown(), expected, strict=True):
            assert line == wanted or isinstance(wanted, str) and " ".join(line).startswith(wanted), command
    console.feed("info messages /DELETE/")
    assert "no message has been sent or received up to here in which /DELETE/ is found" in out()
    for wrong, message in (("info mess x", "no node is called `x`"), ("info messages 1 2 3", "info messages [NODES] [COUNT] [/REGEX/]"),
                           ("info messages /[/", "is not a regular expression"), ("1 goto message 1 /x/", "not in both places"),
                           ("goto message /PUT/", "matches none of the 2 messages that the group receives after this place"),
                           ("goto message a /x/", "2 messages that a receives")):
        console.feed(wrong)
        assert message in capsys.readouterr().err
    console.feed("info output")
    assert "nothing was written" in out()
    console.feed("info output /[/")
    assert "is not a regular expression" in capsys.readouterr().err


def test_info_breakpoints_and_watchpoints(out):
    console, _ = make(events=[Event(0, "f")])
    feed(console, "info breakpoints\nbreak f if n > 1\n  print(1)\n\n  cont\n0,2 watch x, y\ntb g\ndisable 2")
    out()
    feed(console, "i b\ninfo watchpoints\n1 info wat")
    lines = out().splitlines()
    assert [line.split(None, 4) for line in lines[1:2]] == [["1", "breakpoint", "yes", "0", "all nodes  f if n > 1"]]
    assert lines[2:4] == ["      print(1)", "      cont"]
    assert lines[4].split() == ["2", "watch", "no", "0", "a,", "c", "x,", "y"] and lines[5].split()[1] == "once"
    assert lines[7] == lines[4].replace("watch     ", "watch") or lines[7].split() == lines[4].split()
    assert lines[8] == "no watchpoints"


def test_info_of_gdb_goes_to_gdb(out):
    console, _ = make(("a",))
    feed(console, "info threads\n0 info line f")
    assert out() == "[a] gdb info threads\n[a] gdb info line f\n"


def test_help(out):
    console, _ = make()
    console.feed("help")
    listed = out()
    texts = [re.search(rf"^  {name} +(?=\w)", listed, re.M) for name in table.OWNED]
    assert len({len(found[0]) for found in texts}) == 1, "in one column"
    grouped = [name for names, _ in table.GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(table.OWNED) and all(f"{title}:\n  {names[0]} " in listed for title, (names, _) in table.GROUPS.items())
    assert all(len(line) <= 120 for line in listed.splitlines())
    for name, owned in table.OWNED.items():
        console.feed(f"help {name}")
        assert owned.usage in (text := out()) and owned.example.split("\n")[0] in text
    feed(console, "help kill\nhelp x")
    assert out() == f"{table.refusal('kill')}\ngdb help x\n"


# -- the table --------------------------------------------------------------------------------------------------------
def test_names_shorten_as_in_gdb():
    for short, name in {"b": "break", "c": "continue", "cont": "continue", "n": "next", "ni": "nexti", "si": "stepi", "s": "step",
                        "fin": "finish", "u": "until", "i": "info", "d": "delete", "dis": "disable", "tb": "tbreak",
                        "wa": "watch", "q": "quit", "h": "help", "r": "run", "k": "kill", "cond": "condition",
                        "rc": "reverse-continue", "reverse-next": "reverse-next"}.items():
        assert table.resolve(short) == name
    for word in ("p", "print", "bt", "l", "f", "x", "down", "up", "disas", "disassemble", "thread", "t", "show", "whatis",
                 "x/4x", "output", "where", "info2", "end", "call", "maint", "add-symbol-file", "symbol-file", "monitor"):
        assert table.resolve(word) is None, word
    for name, owned in table.OWNED.items():
        assert table.resolve(name) == name and table.resolve(name[:owned.letters]) == name
    assert not table.OWNED.keys() & table.REFUSED.keys()


def test_every_owned_command_is_carried_out_by_something():
    from friday.commands import verbs
    assert verbs().keys() == table.OWNED.keys()


def test_the_page_of_commands_has_the_table():
    page = (ROOT / "docs" / "commands.md").read_text()
    cell = lambda text: text.replace("|", "\\|")  # noqa: E731
    for name, owned in table.OWNED.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{cell(owned.usage)}` |"))
        assert cell(owned.text) in row and f"`{cell(owned.example.splitlines()[0])}`" in row, name
    console = page.split("\n## friday ")[0]  # the sections on other commands have tables of their own
    assert console.count("\n| `") == len(table.OWNED) + len({why[1:] for why in table.REFUSED.values()}) + 7
    for name, (_, why, instead) in table.REFUSED.items():
        row = next(line for line in page.splitlines() if line.endswith(f"| {why} | {instead} |") and f"`{cell(name)}`" in line)
        assert row.startswith("| `")


# -- completion -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("line,found", [
    ("tb", ["tbreak"]), ("b bre", []), ("1 ba", ["backtrace"]), ("red", ["red-1", "red-2", "redo"]), ("0,red-", ["0,red-1", "0,red-2"]),
    ("node red", ["red-1", "red-2"]), ("delete ", ["1", "2"]), ("info wa", ["watchpoints"]), ("info li", ["line"]),
    ("print srv.su", ["srv.successor", "srv.sum"]), ("1,2 print srv.su", ["srv.successor", "srv.sum"]),
    ("origin srv.su", ["srv.successor", "srv.sum"]), ("1 when srv.su", ["srv.successor", "srv.sum"]), ("when 2 + srv.su", ["srv.successor", "srv.sum"]),
    ("first total_", ["total_hits"]), ("first @1(srv.su", ["@1(srv.successor", "@1(srv.sum"]), ("rc ", ["until"]), ("rc until @1(srv.su", ["@1(srv.successor", "@1(srv.sum"]),
    ("break proc", ["process_data"]), ("py total_", ["total_hits"]), ("py x = max(total_", ["max(total_hits"]),
    ("@(srv.su", ["@(srv.successor", "@(srv.sum"]), ("py y = @1(srv.su", ["@1(srv.successor", "@1(srv.sum"]),
    ('py @"re', ['@"red-1"', '@"red-2"']), ("py @total_", ["@total_hits"]), ("py session.every_n", ["session.every_node"]), ("help adv", ["advance"]),
    ("continue ", ["until"]), ("catch sys", ["syscall"]), ("tcatch signal SIGUS", ["SIGUSR1", "SIGUSR2"]), ("handle SIGUSR1 nos", ["nostop"]), ("continue until total_", ["total_hits"]), ("why re", ["red-1", "red-2"]), ("diff a re", ["red-1", "red-2"]), ("diff a red-1 srv.su", ["srv.successor", "srv.sum"]),
    ("save ", ["session"]), ("quit ", []), ("goto ", ["end", "event", "hop", "message", "output", "when"]), ("goto output re", ["red-1", "red-2"]), ("goto ev", ["event"]), ("goto event 5 red", ["red-1", "red-2"]),
    ("goto message ", []), ("set sy", ["sync"]), ("set sync c", ["causal", "clock"]), ("info messages red", ["red-1", "red-2"]),
    ("info mess a", ["a"]), ("info ou", ["output"]), ("info prog", []), ("break sto", ["store_get"]),
])
def test_completion(line, found):
    console, backend = make(("a", "red-1", "red-2"))
    feed(console, "py total_hits = 0\nbreak f\nbreak g")
    backend.answers = {
        "complete print srv.su": "print srv.successor\nprint srv.sum\n", "complete print 2 + srv.su": "print 2 + srv.successor\nprint 2 + srv.sum\n", "complete info li": "info line\n",
        "complete break proc": "break process_data\n*** List may be truncated, max-completions reached. ***\n",
        "complete info prog": "info program\n", "complete break sto": "break store_get\nbreak stop@plt\nbreak stop@got.plt\n",
        "complete b bre": "", "complete tb": "tbreak\n", "complete ba": "backtrace\n", "complete red": ""}
    backend.gdb = lambda node, command: backend.answers.get(command, "")
    start = len(line) - len(line.split(" ")[-1])
    assert console.complete(line, start)[0] == found


def test_files_are_completed_after_source_and_python_in_blocks():
    console, _ = make()
    assert console.complete("source f", 7) is None
    feed(console, "py total_hits = 0\nwatch x\n  y = 1")
    assert console.complete("  y = total_", 6)[0] == ["total_hits"]


def test_completion_has_no_errors():
    console, backend = make()
    backend.gdb = lambda node, command: 1 / 0
    assert console.complete("print x", 6) == ([], False)
    assert console.complete("py session.nothing.x", 3) == ([], False)


def test_colour_is_for_terminals(monkeypatch):
    lines = []
    out = Output(lines.append, fold=True, colour=True)
    session = friday.Session(Answering(("a",)), console=True)
    out.answers({session.nodes[0]: "x\n"})
    assert lines == ["\x1b[36mnode 0:\x1b[0m x"]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Console(session, terminal=True).out.colour
