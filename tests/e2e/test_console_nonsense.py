"""Nonsense typed at the console: lines made at random from commands, node lists, expressions and brackets, valid and not. Whatever is
typed, the prompt comes back, the console lives, and no bug of Friday's own is reported.
"""

import random
import re

import pytest
from console_support import BLOCK, PROMPT, Terminal
from debug_support import ring  # noqa: F401

COMMANDS = """break tbreak watch delete enable disable ignore condition commands continue step next stepi nexti finish until advance restart goto set
node map info py python why diff alias save source help print x backtrace list frame up down thread disassemble ptype whatis call @ run kill jump
display return shell complete maint define document echo output printf symbol-file tui step! bogus b c s n u i p""".split()
NODES = ["", "", "", "0", "1,2", "0-3", "!1", "n2", "n*", "all", "77", "n9", "3-1", ",", "-1", "n[", "0-99999999999", "é"]
WORDS = """process_data srv srv.successor srv.successor->id srv->period packet_id stabilize main chord.c:58 *0x10 *main known[3] srv.failed fault.c:999
nodes watchpoints time messages output threads locals registers breakpoints event message end until if == = += ( ) [ ] { } ' " ` $rip $1 $$ % %( %(x)d
%% @ @(srv.period) @2(srv) @99(x) @(x=1) @n("y") -1 0 1 2 99 1e9 0x 0x10 99999999999999999999 12:00:00 25:99 1.5s /x /40i srv.period=3 in_range(1,2,3) atoid("7")
atoid(0) 1/0 srv.period/0 x[0] lambda: : import os raise Exception() [] None __ALL__ __NODE__ __HIT__ cont safe gdb -l -page -writes sync clock causal
free gdb lazy pager off on patch-stores session #comment é \\ , ; && | > < ? * ! ~ \t""".split(" ")
WORDS = [word for text in WORDS for word in text.split("\n")]
LINES = ["@", "@(", "@()", "@(srv.period", "@1(srv.period = )", "py", "py (", "py '", "py \"\"\"", "  indented", "commands", "commands 1", "python", "info", "goto",
         "goto output n1 /[/", "goto output n1 /x/", "watch", "watch srv.period,", "break if", "break x if", "1", "1 2 3", ",,,", "info messages n1 n2 3", "print",
         "print (((", "x/", "x/999999 $sp", "print known", "info functions str", "0 info types s", "help help", "help nothing", "set", "set sync", "set pager", "alias",
         "alias a = a", "a", "alias b2 = c2", "alias c2 = b2", "b2", "map", "map 1x y", "map m @(", "save", "save session /nowhere/x", "source /dev/null", "source .",
         "diff 1", "diff 1 2", "diff 1 2 srv", "diff 1 99 srv", "why 99", "step 0", "step -1", "next 2", "finish 3", "until nowhere", "advance", "continue 0",
         "catch", "catch syscall x", "catch signal 77", "tcatch fork 1", "catch throw x", "handle", "handle all stop nostop", "handle USR1", "info signals x", "continue until", "continue until (", "continue until 1/0", "continue until True", "py 1/0", "py raise SystemError('x')", "py def f(:", "py [].x.y",
         "py watchpoint('nothing')", "py breakpoint('nowhere')", "py watchpoint([])", "py session.run()", "py session.goto(-5)", "py session.points[1].delete()",
         "py session.node = 'x'", "py for i in range(3): print(i)", "py @(srv.successor_list[7777777])", "@(srv.node.id = )", "@(*(int*)0 = 1)", "@(main())",
         "call abort()", "print srv.period++", "0 set var $rip = 0", "thread 77", "frame 99", "list 99999", "disassemble 0,1", "maint agent-eval srv.period"]


def nonsense(generator):
    """One line, without what ends the console or takes it away from the terminal."""
    kind = generator.random()
    if kind < 0.4:
        line = generator.choice(LINES)
    elif kind < 0.9:
        words = [generator.choice(NODES), generator.choice(COMMANDS), *generator.choices(WORDS, k=generator.randrange(5))]
        line = " ".join(filter(None, words))
    else:
        line = "".join(generator.choices("@(){}[]\"'`%$=:;.,!|&~#\\ abcsn019é", k=generator.randrange(1, 30)))
    if generator.random() < 0.1:
        at = generator.randrange(len(line) + 1)
        line = line[:at] + generator.choice(["", " ", "@", "\"", "(", ")", "\x07"]) + line[at + 1:]
    return re.sub(r"\b(q|qu|qui|quit|exit)\b", "", line)


def type_nonsense(recorder, ring, seed, lines):  # noqa: F811
    generator = random.Random(seed)
    typed = []
    with Terminal(recorder, [recorder.friday, "replay", ring.path], env={"PAGER": "cat"}, columns=300) as terminal:
        terminal.expect(PROMPT, 60)
        for _ in range(lines):
            line = nonsense(generator)
            typed.append(line)
            terminal.send(line + "\r")
            shown = terminal.expect(f"({PROMPT})|({BLOCK})", 60)
            while re.search(BLOCK, shown, re.M) and not re.search(PROMPT, shown, re.M):
                terminal.send("end\r")
                more = terminal.expect(f"({PROMPT})|({BLOCK})", 60)
                shown, last = more, shown
                if re.search(BLOCK, more, re.M) and re.search(BLOCK, last, re.M):
                    terminal.send("\x03")
                    shown = terminal.expect(PROMPT, 60)
            assert "a bug of Friday's" not in shown and "friday: internal error" not in shown, (seed, typed[-5:], shown)
            assert terminal.process.poll() is None, (seed, typed[-5:], shown)
        assert terminal.command("py 6 * 7").endswith("42\n"), typed[-5:]
        terminal.send("quit\r")
        assert terminal.finish() == 0
    recorder.none_left()


@pytest.mark.limit(120)
def test_sixty_lines_of_nonsense(recorder, ring):  # noqa: F811
    type_nonsense(recorder, ring, 1, 60)


@pytest.mark.full
@pytest.mark.limit(1200)
@pytest.mark.parametrize("seed", range(2, 6))
def test_three_hundred_lines_of_nonsense(recorder, ring, seed):  # noqa: F811
    type_nonsense(recorder, ring, seed, 300)
