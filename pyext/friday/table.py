"""The table of the console's commands: what Friday owns, and what it refuses with the reason; all else goes to gdb.

docs/commands.md shows the same table (a test compares them); `help` prints it.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owned:
    """A command of Friday's: the fewest letters that mean it, how it is written, what it does, and an example."""
    letters: int
    usage: str
    text: str
    example: str
    nodes: bool = False  # a node list may stand before it
    repeats: bool = False  # an empty line at the prompt does it again


OWNED: dict[str, Owned] = {
    "break": Owned(1, "[NODES] break [-pending] LOC [if COND]", "Stops the group where a node comes to LOC: FUNC, FILE:LINE or "
                   "*ADDR. -pending: LOC may be in a library that is not loaded yet, and stands in each one that comes. Indented lines that follow are its handler, in Python.",
                   "0-3 break process_data if packet_id == 7", nodes=True),
    "tbreak": Owned(2, "[NODES] tbreak LOC [if COND]", "A breakpoint that is deleted when it is hit.",
                    "tbreak insert_finger", nodes=True),
    "watch": Owned(2, "[NODES] watch [-l] [-page] [-writes] [-reads] [-access] [-pending] EXPR[, EXPR...] [if COND]", "Stops the group after a write that changes an "
                   "expression on a node. FUNC::LOCAL is armed at each entry of FUNC; a local lives as long as its frame. -l: the "
                   "memory that EXPR means now. -page: a stack's page is protected when the four debug registers do not suffice. "
                   "-writes: writes of the same value too. -reads, -access: as rwatch and awatch. -pending: EXPR may be in a library that is not loaded yet. Memory that "
                   "nodes share is watched in all of them. Indented lines that follow are its handler.",
                   "watch srv.successor\n  if not @(srv.successor):\n    print(__NODE__, \"is alone\")\n  cont",
                   nodes=True),
    "rwatch": Owned(2, "[NODES] rwatch EXPR[, EXPR...] [if COND]", "Stops the group after the program has read what an expression means: `watch "
                    "-reads`. By the four debug registers, 8 bytes each. As in gdb a store that leaves the value as it is counts as a read, and what a "
                    "system call reads is not seen. Indented lines that follow are its handler.", "2 rwatch srv.seq", nodes=True),
    "awatch": Owned(2, "[NODES] awatch EXPR[, EXPR...] [if COND]", "As rwatch, but after stores too: `watch -access`.", "2 awatch srv.seq", nodes=True),
    "delete": Owned(1, "delete [ID...]", "Deletes stop points by their global ids; all of them without ids.",
                    "delete 2 3"),
    "enable": Owned(2, "enable [ID...]", "Switches stop points on.", "enable 2"),
    "disable": Owned(3, "disable [ID...]", "Switches stop points off; they keep their ids and handlers.", "disable 2"),
    "ignore": Owned(3, "ignore ID COUNT", "Lets the next COUNT hits of a stop point pass.", "ignore 1 100"),
    "condition": Owned(4, "condition ID [COND]", "Sets the condition of a stop point, in C; without COND it has none.",
                       "condition 1 packet_id == 7"),
    "commands": Owned(4, "commands ID ... end", "Gives a stop point a handler in Python; an empty one takes it away.",
                      "commands 1\nprint(@(packet_id))\ncont\nend"),
    "continue": Owned(1, "continue [COUNT | until PYTHON-EXPR]", "Runs the group until a stop point stops it, Ctrl-C or the end. With "
                      "COUNT, the stop points of the last stop let COUNT-1 hits pass. With until, it also stops in the first "
                      "state in which a Python expression is true: after each write that changes what the expression reads of "
                      "the nodes it is looked at again.",
                      "continue until @2(srv.successor->id) == @4(srv.node.id)", repeats=True),
    "step": Owned(1, "[NODE] step [COUNT]", "Steps the selected node to another source line, into functions; the other "
                  "nodes follow in logical time.", "3 step", nodes=True, repeats=True),
    "next": Owned(1, "[NODE] next [COUNT]", "Like step, but over functions.", "next 5", nodes=True, repeats=True),
    "stepi": Owned(5, "[NODE] stepi [COUNT]", "Steps one instruction.", "stepi", nodes=True, repeats=True),
    "nexti": Owned(5, "[NODE] nexti [COUNT]", "Steps one instruction, over calls.", "nexti", nodes=True, repeats=True),
    "finish": Owned(3, "[NODE] finish", "Runs until the selected node's function returns.", "finish", nodes=True),
    "until": Owned(1, "[NODE] until [LOC]", "Runs until the selected node comes to LOC, or past the current line.",
                   "until process.c:80", nodes=True, repeats=True),
    "advance": Owned(2, "[NODE] advance LOC", "Runs until the selected node comes to LOC.", "advance process.c:80",
                     nodes=True),
    "restart": Owned(4, "restart", "Goes back to the start of the recording. Stop points and Python's names stay, "
                     "altered marks go.", "restart"),
    "goto": Owned(2, "[NODE] goto SECONDS | event N [NODE] | message N | HH:MM:SS [NODE] | output NODE /REGEX/ | end", "Goes to a place in the recording: the "
                  "first event at or after a logical time or the node's wall clock, where a node is about to make its event "
                  "N, where message N (of `info messages`) is about to be received, the next write of a node to its standard output or error that a "
                  "regular expression finds, or the end. What lies behind is reached "
                  "from the start, as after restart. Stop points on the way neither stop nor run their handlers.",
                  "goto 5.212", nodes=True),
    "set": Owned(3, "set sync clock|causal|free, set gdb background|lazy, set patch-stores on|off, set pager on|off", "Settings of the replay. sync: restarts the replay in "
                 "another order: by the clock (all nodes in one order), by what caused what, or none. gdb: starts each node's gdb at "
                 "once, or when it is first asked. patch-stores: whether a store that often hits a watched page in vain is replaced by "
                 "code that looks first (on unless set). pager: whether answers longer than the terminal go through $PAGER. All other settings are gdb's, of each node.", "set sync causal", nodes=True),
    "node": Owned(2, "node [NODE]", "Selects the node that a bare @() means and that is stepped; without NODE shows it.",
                  "node redis-1"),
    "map": Owned(3, "map NAME EXPR", "Names nodes by an identifier of the program: NAME[key] is the node whose value "
                 "of the Python expression is key; also a dictionary from nodes to identifiers.",
                 "map chord @(srv.node.id)"),
    "info": Owned(1, "[NODES] info nodes|breakpoints|watchpoints|time|messages|output|endpoints|...", "Shows what Friday knows; "
                  "messages: the last ones sent and received by now, for goto message; output: the last writes to standard output and error; endpoints: where a gdb of your own finds a node. Other words (threads, locals, "
                  "registers, ...) go to gdb.", "info messages redis-1 5", nodes=True),
    "py": Owned(2, "[NODES] py STATEMENT", "Executes Python in the session's namespace, which stays; @NODE(EXPR) reads "
                "a node. Shows the value of an expression. With a node list, once on each node.",
                "py [@n(srv.successor->id) for n in __ALL__]", nodes=True),
    "python": Owned(6, "python ... end", "The lines up to `end` as Python; with a statement like py.",
                    "python\ntotal = 0\ndef twice(x): return 2 * x\nend", nodes=True),
    "why": Owned(3, "[NODE] why [NODE]", "Shows what led to where a node stands: its last events, and the last message it "
                 "received, the last that its sender had received before, and so on.", "why 3", nodes=True),
    "diff": Owned(4, "diff NODE NODE EXPR", "Where a value differs between two nodes: structs and arrays field by field.",
                  "diff 1 2 srv"),
    "alias": Owned(5, "alias [NAME = COMMAND ...]", "A word that stands for the start of a command; without COMMAND it is "
                   "forgotten; alone, lists them.", "alias sx = print srv.successor->id"),
    "save": Owned(2, "save session FILE", "Writes what was set up to a file that `source` carries out: stop points with their "
                  "handlers, Python's names, aliases, maps and the place.", "save session ring.friday"),
    "source": Owned(2, "source FILE", "Carries out the commands of a file; a file *.py is Python in Friday's dialect.",
                    "source ring.friday"),
    "help": Owned(1, "help [COMMAND]", "Lists the commands, or explains one of Friday's or gdb's.", "help watch"),
    "quit": Owned(1, "quit", "Ends the replay; so does end of input (Ctrl-D).", "quit"),
}

GDB_COMMANDS = ("backtrace", "disassemble", "down", "frame", "list", "print", "ptype", "thread", "up", "whatis", "x")  # the usual

ALIASES = {"bre": "break", "si": "stepi", "ni": "nexti", "exit": "quit", "thbreak": "tbreak", "hbreak": "break"}

_RECORDED = "a recording has happened already: Friday built the nodes when it opened it"
_STOPS = "stop points belong to Friday, which sets them in all nodes and moves them when nodes start"
_RUNS = "it would move one node and leave the others behind"
_OUTSIDE = "commands of the system do not belong to the replay; use another terminal"
_INPUT = "gdb would ask for more lines, and it has no terminal here"

REFUSED: dict[str, tuple[int, str, str]] = {  # name -> (fewest letters, why, what to use)
    "run": (1, _RECORDED, "restart"),
    "start": (5, _RECORDED, "restart, then tbreak main"),
    "starti": (6, _RECORDED, "restart"),
    "kill": (1, "it would end a node that lives on in the recording", "quit, or --node to leave nodes out"),
    "attach": (2, "the nodes are those of the recording", "friday replay REC --node LIST"),
    "detach": (3, "a node that runs alone no longer follows the recording", "quit"),
    "disconnect": (6, "gdb without its node can answer nothing", "quit"),
    "target": (2, "gdb's target is the replayed node", "friday replay REC"),
    "file": (3, "programs and symbols come from the recording", "add-symbol-file for more symbols"),
    "exec-file": (6, "programs come from the recording", "friday replay REC"),
    "core-file": (4, "a recording is not a core file", "gdb, outside of Friday"),
    "load": (3, "it would write over the replayed program", "@(x=%(value)d) to change a variable"),
    "inferior": (3, "each node has a gdb of its own, with one inferior", "node NODE"),
    "add-inferior": (5, "each node has a gdb of its own, with one inferior", "node NODE"),
    "clone-inferior": (4, "each node has a gdb of its own, with one inferior", "node NODE"),
    "remove-inferiors": (6, "each node has a gdb of its own, with one inferior", "friday replay REC --node LIST"),
    "rbreak": (3, _STOPS, "break"),
    "catch": (3, _STOPS, "break on the function of the C library"),
    "tcatch": (3, _STOPS, "tbreak on the function of the C library"),
    "dprintf": (2, _STOPS, "break with a handler that prints and ends in `cont`"),
    "trace": (5, _STOPS, "break with a handler that ends in `cont`"),
    "tstart": (4, _STOPS, "break with a handler that ends in `cont`"),
    "clear": (2, _STOPS, "delete ID"),
    "display": (4, "stops are Friday's, so gdb would never show it", "a handler that prints"),
    "jump": (1, _RUNS, "goto"),
    "signal": (3, _RUNS, "nothing: signals come from the recording"),
    "queue-signal": (2, _RUNS, "nothing: signals come from the recording"),
    "return": (3, "the node would leave the recording at once", "finish"),
    "record": (3, "the group is a recording already", "goto or restart to go back"),
    "checkpoint": (2, "it would fork one node of a group", "restart"),
    "fork": (4, "it would fork one node of a group", "restart"),
    "reverse-continue": (9, "this build runs forward only", "goto, which goes back over the start"),
    "rc": (2, "this build runs forward only", "goto, which goes back over the start"),
    "reverse-step": (9, "this build runs forward only", "goto, which goes back over the start"),
    "reverse-next": (9, "this build runs forward only", "goto, which goes back over the start"),
    "reverse-stepi": (13, "this build runs forward only", "goto, which goes back over the start"),
    "reverse-nexti": (13, "this build runs forward only", "goto, which goes back over the start"),
    "reverse-finish": (9, "this build runs forward only", "goto, which goes back over the start"),
    "shell": (3, _OUTSIDE, "another terminal"),
    "!": (1, _OUTSIDE, "another terminal"),
    "make": (3, _OUTSIDE, "another terminal"),
    "pipe": (3, _OUTSIDE, "py, with the answer of session.gdb(...)"),
    "|": (1, _OUTSIDE, "py, with the answer of session.gdb(...)"),
    "edit": (2, _OUTSIDE, "another terminal"),
    "cd": (2, "gdb is not where you are", "friday started in that directory"),
    "define": (3, _INPUT, "python, with a function"),
    "document": (3, _INPUT, "python, with a docstring"),
    "if": (2, _INPUT, "py if ...:"),
    "while": (3, _INPUT, "py while ...:"),
    "python-interactive": (7, _INPUT, "py"),
    "pi": (2, _INPUT, "py"),
    "guile": (2, _INPUT, "py"),
    "gu": (2, _INPUT, "py"),
    "guile-repl": (6, _INPUT, "py"),
    "tui": (3, "gdb has no terminal here", "list, info frame"),
    "layout": (2, "gdb has no terminal here", "list, disassemble"),
    "focus": (2, "gdb has no terminal here", "list, disassemble"),
    "interrupt": (3, "the group stands whenever you can type", "Ctrl-C while it runs"),
}


def resolve(word: str) -> str | None:
    """The owned or refused command that a word means, as gdb shortens them; None is gdb's."""
    if word in OWNED or word in REFUSED:
        return word
    if word in ALIASES:
        return ALIASES[word]
    for name, owned in OWNED.items():
        if len(word) >= owned.letters and name.startswith(word):
            return name
    for name, (letters, _, _) in REFUSED.items():
        if len(word) >= letters and name.startswith(word):
            return name
    return None


def refusal(name: str) -> str:
    """Why a command is refused, and what to use."""
    _, why, instead = REFUSED[name]
    return f"`{name}` is refused: {why}. Use instead: {instead}"
