"""The table of the console's commands: those that Friday carries out itself, and those that it refuses, with the reason. All
others go to gdb.

docs/commands.md shows the same table (a test compares them); `help` prints it.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owned:
    """A command that Friday carries out itself: the fewest letters that select it, its syntax, what it does, and an example."""
    letters: int
    usage: str
    text: str
    example: str
    nodes: bool = False  # whether a node list may stand before it
    repeats: bool = False  # whether an empty line at the prompt repeats it


OWNED: dict[str, Owned] = {
    "break": Owned(1, "[NODES] break [-pending] LOC [if COND]", "Sets a breakpoint: the group stops when a node reaches LOC, which is FUNC, FILE:LINE or "
                   "*ADDR. -pending: LOC may be in a library that is not loaded yet; the breakpoint is set in each library that has it once that is loaded. "
                   "Indented lines that follow are its handler, in Python.",
                   "0-3 break process_data if packet_id == 7", nodes=True),
    "tbreak": Owned(2, "[NODES] tbreak LOC [if COND]", "A breakpoint that is deleted when it is hit.",
                    "tbreak insert_finger", nodes=True),
    "watch": Owned(2, "[NODES] watch [-l] [-page] [-writes] [-reads] [-access] [-pending] EXPR[, EXPR...] [if COND]", "Sets a watchpoint: the group stops after a write that changes the value of an "
                   "expression on a node. FUNC::LOCAL is watched from each entry of FUNC on; the watch of a local lasts until its function returns or is left. "
                   "-l: watches the memory that EXPR denotes now. -page: if the four debug registers do not suffice, protects pages of a stack, too. "
                   "-writes: stops also after writes of the same value. -reads, -access: as rwatch and awatch. -pending: EXPR may be in a library that is not loaded yet. Memory that "
                   "several nodes share is watched in all of them. Indented lines that follow are its handler.",
                   "watch srv.successor\n  if not @(srv.successor):\n    print(__NODE__, \"is alone\")\n  cont",
                   nodes=True),
    "rwatch": Owned(2, "[NODES] rwatch EXPR[, EXPR...] [if COND]", "Stops the group after the program has read the memory of an expression; the same as `watch "
                    "-reads`. It uses the four debug registers, which cover 8 bytes each. As in gdb, a store of the same value counts as a read, and reads by "
                    "system calls are not seen. Indented lines that follow are its handler.", "2 rwatch srv.seq", nodes=True),
    "awatch": Owned(2, "[NODES] awatch EXPR[, EXPR...] [if COND]", "Like rwatch, but stops after stores too; the same as `watch -access`.", "2 awatch srv.seq", nodes=True),
    "catch": Owned(3, "[NODES] catch syscall [NAME...] | signal [NAME...] | fork | exec | throw | rethrow | catch [if COND]", "Sets a catchpoint: the group stops when a node is "
                   "about to make one of these system calls (without names: any), to enter its handler of one of these signals or has died of it, to make a process, to "
                   "replace its program, or throws, rethrows or catches a C++ exception. At a call the node stands in it; the stop shows its arguments and its "
                   "recorded result. Indented lines that follow are its handler.", "2,3 catch syscall connect accept4", nodes=True),
    "tcatch": Owned(2, "[NODES] tcatch syscall [NAME...] | signal [NAME...] | fork | exec | throw | rethrow | catch [if COND]", "A catchpoint that is deleted when it is hit.",
                    "tcatch signal SIGUSR1", nodes=True),
    "delete": Owned(1, "delete [ID...]", "Deletes the stop points with these global ids; without ids, all stop points.",
                    "delete 2 3"),
    "enable": Owned(2, "enable [ID...]", "Enables stop points.", "enable 2"),
    "disable": Owned(3, "disable [ID...]", "Disables stop points; they keep their ids and handlers.", "disable 2"),
    "ignore": Owned(3, "ignore ID COUNT", "Ignores the next COUNT hits of a stop point.", "ignore 1 100"),
    "condition": Owned(4, "condition ID [COND]", "Sets the condition of a stop point, a C expression; without COND, removes it.",
                       "condition 1 packet_id == 7"),
    "commands": Owned(4, "commands ID ... end", "Gives a stop point a handler in Python; an empty handler removes it.",
                      "commands 1\nprint(@(packet_id))\ncont\nend"),
    "continue": Owned(1, "continue [COUNT | until PYTHON-EXPR]", "Runs the group until a stop point stops it, until Ctrl-C, or to the end of the recording. With "
                      "COUNT, the stop points of the last stop ignore their next COUNT-1 hits. With until, the group also stops in the first "
                      "state in which the Python expression is true; it is evaluated again after each write that changes what it reads "
                      "from the nodes.",
                      "continue until @2(srv.successor->id) == @4(srv.node.id)", repeats=True),
    "reverse-continue": Owned(9, "reverse-continue [COUNT | until PYTHON-EXPR]", "Runs the group back to the previous hit of a stop point, of any node; with COUNT, as often. "
                              "Also `rc`. The group stands there as after a run forward, so behind the store at a watchpoint. Stop points with a handler are "
                              "passed over. With until, also back to the last moment at which the Python expression was true: directly before the write that ended it.",
                              "reverse-continue until @2(srv.successor->id) == 4", repeats=True),
    "reverse-step": Owned(9, "[NODE] reverse-step [COUNT]", "Steps the selected node back to the line before, into functions; also `rs`. The other nodes "
                          "go back with it. Stop points on the way are passed over.", "3 reverse-step", nodes=True, repeats=True),
    "reverse-next": Owned(9, "[NODE] reverse-next [COUNT]", "Like reverse-step, but goes back over calls; also `rn`.", "reverse-next 5", nodes=True, repeats=True),
    "reverse-stepi": Owned(13, "[NODE] reverse-stepi [COUNT]", "Steps back over one instruction; also `rsi`.", "reverse-stepi", nodes=True, repeats=True),
    "reverse-nexti": Owned(13, "[NODE] reverse-nexti [COUNT]", "Steps back over one instruction, or over a whole call; also `rni`.", "reverse-nexti", nodes=True, repeats=True),
    "reverse-finish": Owned(9, "[NODE] reverse-finish", "Goes back to where the selected node's function was called.", "reverse-finish", nodes=True),
    "step": Owned(1, "[NODE] step [COUNT]", "Steps the selected node to another source line, entering functions; the other "
                  "nodes follow in logical time.", "3 step", nodes=True, repeats=True),
    "next": Owned(1, "[NODE] next [COUNT]", "Like step, but does not enter functions.", "next 5", nodes=True, repeats=True),
    "stepi": Owned(5, "[NODE] stepi [COUNT]", "Steps one instruction.", "stepi", nodes=True, repeats=True),
    "nexti": Owned(5, "[NODE] nexti [COUNT]", "Steps one instruction; a called function runs to its end.", "nexti", nodes=True, repeats=True),
    "finish": Owned(3, "[NODE] finish", "Runs until the selected node's function returns.", "finish", nodes=True),
    "until": Owned(1, "[NODE] until [LOC]", "Runs until the selected node reaches LOC, or a line after the current one.",
                   "until process.c:80", nodes=True, repeats=True),
    "advance": Owned(2, "[NODE] advance LOC", "Runs until the selected node reaches LOC.", "advance process.c:80",
                     nodes=True),
    "restart": Owned(4, "restart", "Goes back to the start of the recording. Stop points and Python names stay; "
                     "no node is altered any more.", "restart"),
    "first": Owned(5, "first PYTHON-EXPR", "Goes to the first place from which a condition is true. It halves the span between a place where it is not and a later one where it is, "
                   "so it is meant for a condition that stays true: a value that is wrong now. What cannot be read yet counts as false.",
                   "first @3(srv.successor->id) == 7"),
    "when": Owned(3, "[NODES] when EXPR", "Lists the times at which a value changes, over the whole recording. Each with the values before and after, and the function that wrote. `goto when N` goes behind the write of row N. "
                  "The group stays where it is.", "3 when srv.successor", nodes=True),
    "origin": Owned(2, "[NODE] origin EXPR | HOP.INPUT", "Shows where a value comes from, across nodes: the writes, messages and sends that have brought it. It ends where an instruction has computed the value, "
                    "at a constant, at what comes from outside of the group, or where it cannot be followed further. `goto hop N` stands at one of the places; `origin HOP.INPUT` follows what was computed with. "
                    "The group stays where it is.", "3 origin srv.successor->id", nodes=True),
    "undo": Owned(3, "undo", "Takes the last command back that moved the group: it stands where it stood before, altered as it was then. The last 30 are kept.", "undo"),
    "redo": Owned(4, "redo", "Makes the move again that `undo` has taken back.", "redo"),
    "bookmark": Owned(3, "bookmark [NAME [MARK]]", "Keeps the place where the group stands, or a mark, under a name for `goto NAME`. `info mark` shows the mark of this place, which "
                      "means the same in every session with this recording, and `info bookmarks` lists those that were kept.", "bookmark wrong_value"),
    "goto": Owned(2, "[NODE] goto SECONDS | -SECONDS | event N [NODE] | message N | message [NODES] /REGEX/ | message [NODES] ?REGEX? | HH:MM:SS [NODE] | output NODE /REGEX/ | output NODE ?REGEX? | hop N | when N | MARK | BOOKMARK | end", "Goes to a place in the recording: before the "
                  "first event at or after a logical time, one so long before the end (-60s), or a time on the node's wall clock; before event N of a node; "
                  "before the receipt of message N (see `info messages`), or of the next message in whose contents a regular expression is found; before the next write of a node to its standard output or error in which a "
                  "regular expression is found (?REGEX? instead of /REGEX/: of the last one before this place); to hop N of the last `origin`, or behind the write of row N of the last `when`; to a mark (see `info mark`) or a bookmark; or to the end. An earlier place is reached "
                  "from the nearest checkpoint. Stop points on the way neither stop the group nor run their handlers.",
                  "goto 5.212", nodes=True),
    "set": Owned(3, "set scope node|group, set sync clock|causal|free, set gdb background|lazy, set patch-stores on|off, set checkpoints on|off|SIZE, set pager on|off", "Settings of the replay. scope: whether a command of gdb without a node list goes to the selected node (node) or to all nodes (group). sync: restarts the replay in "
                 "another order: clock (all nodes in the order of logical time), causal (only causes before effects), or free (no order). gdb: starts each node's gdb at "
                 "once (background), or when it is first needed (lazy). patch-stores: whether a store that often writes to a watched page, but not to the watched bytes, is replaced by "
                 "code that checks its address first (on by default). checkpoints: whether runs make checkpoints, from which goto reaches an earlier place, or how much memory these may take (2G). pager: whether answers longer than the terminal go through $PAGER. All other settings are those of gdb, and go to each node's gdb.", "set sync causal", nodes=True),
    "handle": Owned(2, "handle SIGNAL... stop|nostop|print|noprint...", "Says what the group does when a node dies of a signal, and when it enters its handler of one: "
                    "stop there, say it, or nothing. At the start it stops when a node dies of a signal by which a program fails (SIGSEGV, SIGABRT, ...), says every "
                    "other end, and is silent about handlers. `all` are all signals. Signals come from the recording: they cannot be held back.",
                    "handle SIGUSR1 stop"),
    "node": Owned(2, "node [NODE]", "Selects the node that commands of gdb, a bare @(), `step` and the like mean; without NODE, shows it. A stop selects the node that stopped. "
                  "`.` stands for the selected node wherever a node is named.",
                  "node redis-1"),
    "map": Owned(3, "map NAME EXPR", "Names nodes by an identifier of the program: NAME[key] is the node on which the "
                 "Python expression has the value key. The expression may also be a dictionary from nodes to identifiers.",
                 "map chord @(srv.node.id)"),
    "info": Owned(1, "[NODES] info nodes|breakpoints|watchpoints|time|messages|output|endpoints|signals|costs|steps|checkpoints|mark|bookmarks|...", "Shows what Friday knows about the group. "
                  "messages: the last messages that were sent or received, with their contents, and their numbers for `goto message`, with /REGEX/ only those in which it is found; output: what was last written to standard output and error, with /REGEX/ only where it is found; endpoints: how to connect a gdb of your own to each node; costs: which expressions were evaluated by a plan and which by gdb, and how long it took; steps: what the events and random faults of the group file did to nodes and their network, and when. Other topics (threads, locals, "
                  "registers, ...) go to gdb.", "info messages redis-1 5", nodes=True),
    "py": Owned(2, "[NODES] py STATEMENT", "Executes Python in the session's namespace, whose names persist; @NODE(EXPR) reads "
                "from a node. The value of an expression is shown. With a node list, it is executed once for each node.",
                "py [@n(srv.successor->id) for n in __ALL__]", nodes=True),
    "python": Owned(6, "python ... end", "Executes the lines up to `end` as Python; with a statement on its own line, the same as py.",
                    "python\ntotal = 0\ndef twice(x): return 2 * x\nend", nodes=True),
    "why": Owned(3, "[NODE] why [NODE]", "Shows what led to the state of a node: its last events, the last message that it "
                 "received, the last message that the sender of that one had received before, and so on.", "why 3", nodes=True),
    "diff": Owned(4, "diff NODE NODE EXPR", "Shows where a value differs between two nodes: structs field by field, arrays and containers item by item, maps by key, sets by what only one holds.",
                  "diff 1 2 srv"),
    "alias": Owned(5, "alias [NAME = COMMAND ...]", "Makes NAME stand for the start of a command; without COMMAND, deletes the alias; "
                   "alone, lists all aliases.", "alias sx = print srv.successor->id"),
    "save": Owned(2, "save session FILE", "Saves what was set up in the session to a file for `source`: stop points with their "
                  "handlers, Python names, aliases, maps and the position.", "save session ring.friday"),
    "source": Owned(2, "source FILE", "Carries out the commands of a file; a file named *.py is executed as Python in Friday's dialect.",
                    "source ring.friday"),
    "help": Owned(1, "help [COMMAND | PAGE | page [PAGE [WORDS]]]", "Lists the commands, or explains one command of Friday or gdb; or shows a page of the documentation (`help page` lists them), or the places of a page in which the words occur.", "help watch"),
    "quit": Owned(1, "quit", "Ends the replay; so does the end of the input (Ctrl-D).", "quit"),
}

# The commands by what they are for, as `help` lists them; of each group the forms of others, and the commands of gdb, that belong to it.
GROUPS: dict[str, tuple[tuple[str, ...], str]] = {
    "Running": (("continue", "step", "next", "stepi", "nexti", "finish", "until", "advance", "restart"), ""),
    "Going back, and to a place": (("reverse-continue", "reverse-step", "reverse-next", "reverse-stepi", "reverse-nexti", "reverse-finish", "goto", "first", "bookmark",
                                    "undo", "redo"), ""),
    "Stop points": (("break", "tbreak", "watch", "rwatch", "awatch", "catch", "tcatch", "handle", "delete", "enable", "disable", "ignore", "condition", "commands"),
                    "`info breakpoints` lists them"),
    "Looking": (("info", "when", "origin", "diff", "node"), "gdb's: print, backtrace, frame, up, down, list, ptype, x, info locals|threads|registers"),
    "Messages": (("why",), "`info messages` lists them, `goto message N` goes to one; `info output` has what programs wrote"),
    "Python": (("py", "python", "map"), "a line that starts with @ is Python, too: @3(srv.node.id) reads a variable of node 3"),
    "Session": (("set", "alias", "save", "source", "help", "quit"), ""),
}

# The commands that move the group, so that `undo` takes them back.
MOVES = {"continue", "reverse-continue", "step", "next", "stepi", "nexti", "finish", "until", "advance", "reverse-step", "reverse-next", "reverse-stepi",
         "reverse-nexti", "reverse-finish", "restart", "goto", "first"}

GDB_COMMANDS = ("backtrace", "disassemble", "down", "frame", "list", "print", "ptype", "thread", "up", "whatis", "x")  # offered for misspelt words

ALIASES = {"bre": "break", "si": "stepi", "ni": "nexti", "exit": "quit", "thbreak": "tbreak", "hbreak": "break", "rc": "reverse-continue", "rs": "reverse-step", "rn": "reverse-next",
           "rsi": "reverse-stepi", "rni": "reverse-nexti"}

_RECORDED = "the programs have already run: Friday rebuilt the nodes from the recording when it opened it"
_STOPS = "Friday sets the stop points, in all nodes, including those that start later"
_RUNS = "it would run one node without the others"
_OUTSIDE = "it would run a command of the system, which is not part of the replay"
_INPUT = "gdb would ask for more lines, but it has no terminal here"

REFUSED: dict[str, tuple[int, str, str]] = {  # name -> (fewest letters, why, what to use)
    "run": (1, _RECORDED, "restart"),
    "start": (5, _RECORDED, "restart, then tbreak main"),
    "starti": (6, _RECORDED, "restart"),
    "kill": (1, "it would end a node that goes on in the recording", "quit, or --node to leave nodes out"),
    "attach": (2, "the nodes are those of the recording", "friday replay REC --node LIST"),
    "detach": (3, "a node that runs alone no longer follows the recording", "quit"),
    "disconnect": (6, "gdb can answer nothing without its node", "quit"),
    "target": (2, "gdb's target is the replayed node", "friday replay REC"),
    "file": (3, "programs and symbols come from the recording", "add-symbol-file for more symbols"),
    "exec-file": (6, "programs come from the recording", "friday replay REC"),
    "core-file": (4, "a recording is not a core file", "gdb, outside of Friday"),
    "load": (3, "it would overwrite the replayed program", "@(x=%(value)d) to change a variable"),
    "inferior": (3, "each node has a gdb of its own, with one inferior", "node NODE"),
    "add-inferior": (5, "each node has a gdb of its own, with one inferior", "node NODE"),
    "clone-inferior": (4, "each node has a gdb of its own, with one inferior", "node NODE"),
    "remove-inferiors": (6, "each node has a gdb of its own, with one inferior", "friday replay REC --node LIST"),
    "rbreak": (3, _STOPS, "break"),
    "dprintf": (2, _STOPS, "break with a handler that prints and ends in `cont`"),
    "trace": (5, _STOPS, "break with a handler that ends in `cont`"),
    "tstart": (4, _STOPS, "break with a handler that ends in `cont`"),
    "clear": (2, _STOPS, "delete ID"),
    "display": (4, "gdb shows it only at stops of its own, and the stops here are Friday's", "a handler that prints"),
    "jump": (1, _RUNS, "goto"),
    "signal": (3, _RUNS, "nothing: signals come from the recording"),
    "queue-signal": (2, _RUNS, "nothing: signals come from the recording"),
    "return": (3, "the node would diverge from the recording at once", "finish"),
    "record": (3, "the group is replayed from a recording already", "goto or restart to go back"),
    "checkpoint": (2, "runs make checkpoints of the whole group by themselves", "info checkpoints"),
    "fork": (4, "it would fork one node of a group", "restart"),
    "shell": (3, _OUTSIDE, "another terminal"),
    "!": (1, _OUTSIDE, "another terminal"),
    "make": (3, _OUTSIDE, "another terminal"),
    "pipe": (3, _OUTSIDE, "py, with the answer of session.gdb(...)"),
    "|": (1, _OUTSIDE, "py, with the answer of session.gdb(...)"),
    "edit": (2, _OUTSIDE, "another terminal"),
    "cd": (2, "gdb does not run in your directory", "start friday in that directory"),
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
    "interrupt": (3, "the group is stopped whenever you can type", "Ctrl-C while it runs"),
}


def resolve(word: str) -> str | None:
    """The owned or refused command that a word abbreviates; None if it is a command of gdb's."""
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
    """The message for a refused command: why it is refused, and what to use instead."""
    _, why, instead = REFUSED[name]
    return f"`{name}` is refused: {why}. Use instead: {instead}"
