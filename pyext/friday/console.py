"""The console of `friday replay`: it takes lines, carries out their commands and prints the answers.

console/repl.cc owns the terminal and the loop; it hands each line to `feed`, asks for the `prompt` and for completions,
and serves the backend's descriptors while it waits. This file needs no terminal.

An indented line continues the command before it: the handler of the stop point that was just set, or the block of a
`py` statement. A block ends with the indentation; at a terminal also with an empty line. `commands` and a bare `python`
take lines up to `end`.
"""
from __future__ import annotations

import contextlib
import linecache
import os
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import friday

from . import commands, completion
from .answers import Output, mark, seconds
from .backend import Stop
from .commands import Command, Quit
from .errors import ComponentDied, Divergence, Error, NodeNotStarted, OutOfScope, UsageError
from .handlers import compile_script
from .running import ended_line, goto_first, is_helper, tell_helpers
from .runner import BAD_INPUT, DIED, DIVERGED, Refused, open_session
from .points import StopPoint
from .sessions import Session
from .table import OWNED, resolve
from .teaching import to_know
from .violations import user_frames, user_traceback


@dataclass
class _Block:
    """The lines of a command's block, and the function that takes them."""
    done: Callable[[str], None]
    until_end: bool | None  # whether it ends with `end`; None: decided by the indentation of its first line
    lines: list[str] = field(default_factory=list)


class Console:
    """The console of one session. `terminal`: identical answers are put together and answers are coloured; `batch`: the first
    error ends the console.

    After each `feed`, `done` tells whether the console has ended, and `code` is the exit code."""

    def __init__(self, session: Session, *, terminal: bool = False, batch: bool = False) -> None:
        self.session = session
        self.terminal = terminal
        self.batch = batch
        self.done = False
        self.code = 0
        colour = terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM", "dumb") != "dumb"
        self.out = Output(print, fold=terminal, colour=colour)
        self.out.typed_ahead = b""
        self.out.paging = terminal and os.environ.get("TERM", "dumb") != "dumb"
        self._block: _Block | None = None
        self._last_point: StopPoint | None = None
        self._repeat = ""
        session.notice = self.out  # type: ignore[method-assign]
        session.on_exit = self._say_end
        session.on_violation = lambda violation: self.out(str(violation))
        friday.session = session

    def _say_end(self, stop: Stop) -> None:
        if not self.session.signals.at_death(stop.signal)[1]:
            return
        if is_helper(self.session, stop):
            self.session.helpers_ended.append(stop)  # said together with others
        else:
            tell_helpers(self.session, self.out)
            self.out(ended_line(self.session, stop))

    # -- what the terminal asks --------------------------------------------------------------------------------------
    @property
    def in_block(self) -> bool:
        return self._block is not None

    def take_typed_ahead(self) -> bytes:
        """What was typed at the terminal while a command was at work whose answer went to the pager. Returned once."""
        typed, self.out.typed_ahead = self.out.typed_ahead, b""
        return typed or b""

    def tell_moved(self) -> None:
        """Says that the group has been moved while the console waited for a line."""
        self.out(f"a gdb of yours has moved the group: it stands at {seconds(self.session.logical_time)} now")
        sys.stdout.flush()

    def prompt(self) -> str:
        if self._block is not None:
            return "> "
        session = self.session
        try:
            state = mark(session.node).removesuffix(" not started")
            return f"(friday {session.here}{state} @{float(session.logical_time):.3f}s) "
        except Error:
            return "(friday) "

    def complete(self, line: str, start: int) -> tuple[list[str], bool] | None:
        """The completions of a line that ends at the cursor, each of which replaces line[start:], and whether a blank follows
        them; None if file names are to be completed."""
        try:
            return completion.complete(self.session, line, start, self.in_block)
        except Exception:  # there is nowhere to show an error of a completion
            return [], False

    def fds(self) -> Sequence[int]:
        """Descriptors whose readiness `pump` serves."""
        return self.session.backend.fds()

    def pump(self) -> None:
        self.session.backend.pump(0)

    def greet(self) -> None:
        nodes = self.session.nodes.all
        names = ", ".join(node.name for node in nodes[:8]) + (", ..." if len(nodes) > 8 else "")
        self.out(f"{len(nodes)} node{'s' if len(nodes) != 1 else ''}: {names}.")
        self.out.prose("They stand at the start of the recording; `continue` runs them, `help` lists the commands.")
        for text in to_know(self.session):
            self.out.prose(text)

    # -- lines -------------------------------------------------------------------------------------------------------
    def feed(self, line: str, pasted: bool = False) -> None:
        """Takes one line of input. pasted: further lines follow at once, so an empty line does not end a block."""
        self._guard(self._feed, line.rstrip("\r\n"), pasted)

    def cancel(self) -> None:
        """Call it at Ctrl-C at the prompt: forgets a block that was begun."""
        self._block, self._last_point = None, None

    def end(self) -> None:
        """Call it at the end of the input: a block that was begun is carried out, unless it needs an `end`."""
        if self._block is not None:
            self._guard(self._finish_at_end)
        self.done = True

    def goto_first(self, place: str, option: str) -> None:
        """Goes to the place that an option of the command line names."""
        self._guard(goto_first, self.session, place, option, self.out)

    def source(self, path: str) -> None:
        self._guard(commands.source, self.session, path, self.out)

    def close(self) -> int:
        """Ends the replay and returns the exit code."""
        friday.session = None
        self.session.close()
        return self.code

    def _feed(self, line: str, pasted: bool) -> None:
        if self._block is not None and self._continue(line, pasted):
            return
        if not line.strip():
            if self.terminal and self._repeat:
                self._run(self._repeat)
            return
        if line[0] in " \t":
            self._begin_handler(line)
            return
        if line.startswith("#"):
            return
        self._last_point, self._repeat = None, ""
        nodes, verb, rest = commands.words(line, self.session)
        command = Command(nodes, verb, rest, "", 1, 2)
        if commands.needs_end(verb, rest):
            commands.check_block(self.session, command)
            self._block = _Block(lambda text: self._run_command(command, text), None)
        elif resolve(verb) in ("py", "python") and _incomplete(rest):
            self._block = _Block(lambda text: self._run_command(command, text), False)
        else:
            self._run(line)

    def _continue(self, line: str, pasted: bool) -> bool:
        """Gives a line to the block that was begun. Returns whether the line belongs to it."""
        block = self._block
        assert block is not None
        blank = not line.strip()
        if self.terminal and line.strip() in ("cont", "c") and line[0] not in " \t" and block.until_end is False:
            self.out("at the left margin `cont` is the command `continue`: indent it to make it a statement of the handler")
        if block.until_end is None and not blank:
            block.until_end = line[0] not in " \t"
        if line.strip() == "end" or blank and self.terminal and not pasted and block.until_end is False:
            self._finish()
            return True
        if blank or block.until_end or line[0] in " \t#":
            block.lines.append(line)
            return True
        self._finish()
        return False

    def _finish(self) -> None:
        block, self._block = self._block, None
        assert block is not None
        block.done("\n".join(block.lines))

    def _finish_at_end(self) -> None:
        block = self._block
        if block is not None and block.until_end is not False:
            self._block = None
            raise UsageError("the input ended before the line `end` of a block: the block was not carried out")
        self._finish()

    def _begin_handler(self, line: str) -> None:
        point, self._last_point = self._last_point, None
        if point is None or point.deleted:
            raise UsageError("an indented line belongs to the block of the command before it, which takes none: "
                             "a command begins at the left margin")

        def done(text: str) -> None:
            self.session.set_block(point, text)
            self.out(f"{point.label} has a handler")
        self._block = _Block(done, False, [line])

    def _run(self, line: str) -> None:
        nodes, verb, rest = commands.words(line, self.session)
        name = resolve(verb) or verb
        if name in OWNED and OWNED[name].repeats or name in ("list", "l", "up", "down", "x") or verb.startswith("x/"):
            self._repeat = line
        before = set(self.session.points)
        self._run_command(Command(nodes, verb, rest, "", 1, 2), "")
        if name in commands.SETS_POINT:
            new = self.session.points.keys() - before
            self._last_point = self.session.points[max(new)] if new else None

    def _run_command(self, command: Command, block: str) -> None:
        command.block = block
        with self.out.paged() if commands.only_answers(command) else contextlib.nullcontext():
            commands.run_command(self.session, command, show=self.out)

    # -- errors ------------------------------------------------------------------------------------------------------
    def _guard(self, function: Callable[..., Any], *args: Any) -> None:
        """Carries out a command and reports what it raises, so that no error ends the console."""
        try:
            function(*args)
        except Quit:
            self.done = True
        except SystemExit as error:  # `py exit()`
            self.done, self.code = True, error.code if isinstance(error.code, int) else self.code
        except KeyboardInterrupt:
            self._failed("interrupted", BAD_INPUT)
        except BrokenPipeError:
            self._output_gone()
        except BaseException as error:
            code = DIVERGED if isinstance(error, Divergence) else DIED if isinstance(error, ComponentDied) else BAD_INPUT
            self._failed(explain(error, self.session), code)
        try:
            tell_helpers(self.session, self.out)  # of a run that ended by an error, or that Python made
            for text in self.session.backend.take_notices():
                self.out(text)
            sys.stdout.flush()
        except OSError as error:
            self._output_gone(error)
        except Error:
            pass  # the session is over

    def _output_gone(self, error: OSError | None = None) -> None:
        """Ends the console because its output is closed, or cannot be written (error)."""
        self.done = True
        lost, sys.stdout = sys.stdout, open(os.devnull, "w")
        with contextlib.suppress(OSError):
            lost.close()
        if error is not None and not isinstance(error, BrokenPipeError):
            self.code = BAD_INPUT
            print(f"friday: cannot write the answers: {error.strerror}", file=sys.stderr)

    def _failed(self, text: str, code: int) -> None:
        with contextlib.suppress(OSError):  # _guard handles it
            sys.stdout.flush()
        Output(lambda line: print(line, file=sys.stderr), colour=self.out.colour).error(text)
        sys.stderr.flush()
        if self.batch:
            self.done, self.code = True, code


def _incomplete(source: str) -> bool:
    """Whether a Python statement is incomplete and needs more lines."""
    try:
        compile_script(source + "\n", "<input>")
    except SyntaxError as error:
        message = error.msg or ""
        return any(text in message for text in ("expected an indented block", "was never closed", "unterminated triple"))
    except ValueError:
        pass
    return False


_HINTS: dict[type[Error], str] = {NodeNotStarted: "run to where it has: a stop point and `continue`, or `goto`"}


def _is_plain(error: Error) -> bool:
    """Whether a traceback would tell the user nothing: the error has no frames of Python, or only the line that was just typed."""
    frames = user_frames(error)
    if not frames:
        return True
    name = frames[0].filename
    return len(frames) == 1 and name.startswith(("<py ", "<until ")) and sum(map(bool, map(str.strip, linecache.getlines(name)))) == 1


def _node_meant(error: NameError, session: Session) -> str:
    """The name that a NameError is about, if it stands between `@` and `(` and is the name of a node; else None."""
    frames = user_frames(error)
    name = error.name or ""
    if not frames or f"@{name}(" not in (frames[-1].line or "") or name not in {node.name for node in session.nodes}:
        return ""
    return name


def explain(error: BaseException, session: Session | None = None) -> str:
    """The text of an exception for the user: with a traceback if it came from the user's own Python, otherwise its message."""
    place = getattr(error, "place", None)
    prefix = f"{place}: " if place else ""
    if isinstance(error, Error) and _is_plain(error):
        hint = f"; {_HINTS[type(error)]}" if type(error) in _HINTS else ""
        if isinstance(error, OutOfScope) and session is not None and (way := session.names.hint(error)):
            hint = f"; {way}"
        if isinstance(error, ComponentDied) and error.message.startswith("gdb cannot answer"):
            hint = "; the node is unharmed, and the next question starts another gdb"
        return "\n".join([f"{prefix}{error}{hint}", *getattr(error, "__notes__", ())])
    if isinstance(error, TypeError) and "operand type(s) for @:" in str(error):
        error.add_note("`a @(b)` is Python's matrix product, since a value stands before the `@`; to read a node, put an operator or a "
                       "comma between them")
    if isinstance(error, NameError) and session is not None and (node := _node_meant(error, session)):
        error.add_note(f"`@{node}(...)` reads the node in the Python variable {node}; for the node of that name write `@\"{node}\"(...)`")
    if isinstance(error, SyntaxError) or user_frames(error):
        return user_traceback(error).rstrip("\n")
    return f"{prefix}a bug of Friday's, please report it:\n" + "".join(traceback.format_exception(error)).rstrip("\n")


def open_console(recording: str, *, nodes: str | None = None, sync: str = "clock", terminal: bool = False,
                 batch: bool = False, symbols: Sequence[str] = (), unconfined: bool = False) -> "Console | int":
    """The console for a command line; an exit code if the recording cannot be opened."""
    try:
        session = open_session(recording, nodes, sync, console=True, symbols=symbols, unconfined=unconfined)
        if not terminal:
            for text in to_know(session):
                print(f"friday: {text}", file=sys.stderr)
        return Console(session, terminal=terminal, batch=batch)
    except Refused as refused:
        print(f"friday: {refused}", file=sys.stderr)
        return refused.code
