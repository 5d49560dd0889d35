"""Gdbs of the user's beside the console: each sees where the group stands, whoever has moved it."""

import re

import pytest
from console_support import PROMPT, Terminal
from debug_support import ring  # noqa: F401

GDB = r"^\(gdb\) $"


@pytest.fixture
def console(recorder, ring):  # noqa: F811
    with Terminal(recorder, [recorder.friday, "replay", ring.path]) as opened:
        opened.expect(PROMPT)
        opened.command("break process_packet")
        assert "stopped at breakpoint 1" in opened.command("c")
        opened.command("delete")
        yield opened
    recorder.none_left()


def endpoints(console):
    """node: the script by which a gdb connects to it."""
    return {int(node): path for node, path in re.findall(r"^node (\d) \(n\d\): gdb -x (\S+)", console.command("info endpoints"), re.M)}


class ExternalGdb(Terminal):
    """A gdb at a terminal. The console serves it while it waits at its prompt."""

    def __init__(self, recorder, *arguments):
        super().__init__(recorder, ["gdb", "-nx", "-q", "-iex", "set pagination off", "-iex", "set confirm off", "-iex", "set style enabled off",
                                    "-iex", "set auto-load off", *arguments], columns=200)
        self.expect(GDB, 60)

    def command(self, line, seconds=60):
        self.send(line + "\r")
        shown = self.expect(GDB, seconds)
        return re.sub(GDB, "", shown.partition("\n")[2], flags=re.M)


def test_gdbs_and_the_prompt_follow_whoever_moves_the_group(console, recorder):
    paths = endpoints(console)
    here, there = sorted(paths)[:2]
    with ExternalGdb(recorder, "-x", paths[here]) as first, ExternalGdb(recorder, "-x", paths[there]) as second:
        # The console moves the group: both gdbs show the place where their nodes stand now.
        second.command("backtrace")
        for gdb in (first, second):
            gdb.command("info threads")
        assert "stopped at breakpoint" in console.command(f"{here} tbreak stabilize") + console.command("c")
        for gdb in (first, second):
            gdb.expect("The group has been moved by others. Now node")
            gdb.expect(GDB)
        assert re.match(r"#0 +stabilize \(", first.command("backtrace")) and "stabilize" in first.command("info threads")
        # A gdb moves it: the prompt of the console and the other gdb follow.
        before = console.command("info time")
        first.command("tbreak stabilize")
        assert re.search(r"stabilize \(", first.command("continue"))
        shown = console.expect(r"a gdb of yours has moved the group: it stands at [\d.]+ s now\n" + PROMPT.lstrip("^"))
        now = re.search(r"stands at ([\d.]+) s", shown)[1]
        assert f"@{now}s)" in shown and now != re.search(r"logical time ([\d.]+)", before)[1]
        second.expect("The group has been moved by others. Now node")
        second.expect(GDB)
        assert "stabilize" in console.command(f"{here} backtrace")
        # And what each shows is what the console's own gdb says of the node.
        for node, gdb in ((here, first), (there, second)):
            own = re.findall(r"#\d+ +(?:0x\w+ in )?(\w+)", console.command(f"{node} backtrace"))
            assert own and re.findall(r"#\d+ +(?:0x\w+ in )?(\w+)", gdb.command("backtrace")) == own
        # The console goes back, and they go with it.
        console.command(f"{here} break stabilize")
        forward = [console.command("c") for _ in range(2)]
        assert all("stopped at breakpoint" in each for each in forward), forward
        for gdb in (first, second):
            gdb.expect("The group has been moved by others. Now node")
            gdb.command("info threads")
        before = console.command("info time")
        assert "stopped at breakpoint" in console.command("reverse-continue") and console.command("info time") != before
        for gdb in (first, second):
            gdb.expect("The group has been moved by others. Now node")
            gdb.expect(GDB)
        for node, gdb in ((here, first), (there, second)):
            own = re.findall(r"#\d+ +(?:0x\w+ in )?(\w+)", console.command(f"{node} backtrace"))
            assert own and re.findall(r"#\d+ +(?:0x\w+ in )?(\w+)", gdb.command("backtrace")) == own
        for gdb in (first, second):
            gdb.send("quit\r")
            gdb.finish()


def test_a_gdb_that_cannot_follow_is_refused_what_would_be_old(console, recorder):
    paths = endpoints(console)
    node = min(paths)
    socket = paths[node].removesuffix(".py")
    with ExternalGdb(recorder, "-ex", f"target remote {socket}") as gdb:
        assert re.search(r"^#0 ", gdb.command("backtrace"), re.M) and "1 at" in gdb.command("tbreak stabilize")
        console.command("tbreak stabilize")
        assert "stopped at" in console.command("c")
        shown = gdb.command("info registers rax") + gdb.command("info threads") + gdb.command("print srv.received")
        assert "The group has been moved by others" in shown, shown
        # It may go on: then it knows.
        shown = gdb.command("continue")
        while "has ended" in shown:  # the end of another node stops the group, too
            shown = gdb.command("continue")
        assert "stabilize" in shown
        assert "moved by others" not in gdb.command("info registers rax") + gdb.command("backtrace")
        gdb.send("quit\r")
        gdb.finish()


def test_a_gdb_of_the_user_runs_backward(console, recorder):
    """Its own steps, breakpoints and watches; the prompt of the console follows it."""
    paths = endpoints(console)
    here = min(paths)
    console.command(f"{here} tbreak process_packet")
    console.command("c")
    with ExternalGdb(recorder, "-x", paths[here]) as gdb:
        gdb.command("tbreak process_packet")
        gdb.command("continue")
        forward = [gdb.command("frame")]
        for _ in range(4):
            gdb.command("next")
            forward.append(gdb.command("frame"))
        for shown in forward[-2::-1]:
            for _ in range(3):  # a line of several pieces of code is gone back over piece by piece
                gdb.command("reverse-next")
                if (back := gdb.command("frame")) == shown:
                    break
            assert back == shown
        changed = gdb.command("watch srv.seq")
        assert "atchpoint" in changed
        values = []
        for _ in range(3):
            gdb.command("continue")
            values.append(int(re.search(r"= (\d+)", gdb.command("print srv.seq"))[1]))
        for value in values[::-1]:
            shown = gdb.command("reverse-continue")  # stops before the store
            assert "atchpoint" in shown and int(re.search(r"= (\d+)", gdb.command("print srv.seq"))[1]) == value - 1, shown
        assert "packet" in gdb.command("reverse-finish") or gdb.command("backtrace").startswith("#0")
        gdb.send("quit\r")
        gdb.finish()
    console.expect(r"a gdb of yours has moved the group: it stands at [\d.]+ s now\n" + PROMPT.lstrip("^"))


def test_what_a_gdb_of_the_user_stores_alters_its_node(console, recorder):
    """At once for memory, with the next run for registers; what it prints and what it calls to no effect does not."""
    paths = endpoints(console)
    here = min(paths)
    console.command(f"{here} tbreak process_packet")
    console.command("c")
    value = console.command(f"py @{here}(srv.node.id)")
    console.command(f"{here} next")
    altered = lambda: f"<node {here} " in console.command("py session.altered")  # noqa: E731
    with ExternalGdb(recorder, "-x", paths[here]) as gdb:
        assert re.search(r"= \d+", gdb.command("print srv.node.id"))
        assert re.search(r"= \d+", gdb.command("print mix(5)")) and re.search(r"= \d+", gdb.command("print mix(6)"))
        assert not altered()
        gdb.command("set var srv.node.id = 1")
        console.expect(r"^\(friday \d+ altered @")  # the prompt says so by itself
        console.expect(r"s\) $")
        assert altered() and console.command(f"py @{here}(srv.node.id)") == "1\n"
        assert "altered" in console.command("info mark"), "it has no past"
        gdb.send("quit\r")
        gdb.finish()
    console.command(f"{here} next")
    console.command("undo")
    assert altered() and console.command(f"py @{here}(srv.node.id)") == "1\n", "it belongs to the place"
    console.command("undo")
    assert not altered() and console.command(f"py @{here}(srv.node.id)") == value
    with ExternalGdb(recorder, "-x", paths[here]) as gdb:
        gdb.command("print $r15 = $r15 + 1")
        console.command(f"{here} stepi")
        assert altered()
        gdb.send("quit\r")
        gdb.finish()
