"""A gdb of the user's at a node's endpoint, as a front end drives it (MI) and as a person does (the command line), shows of the
replayed program what a gdb shows of the program itself: the same lines after each step, the same values, the same changes.

Each session is driven twice, on the program and on its replay, and every answer must be the same. C and C++, at -O0 and at -O2.
"""

import os
import re
import select
import signal
import subprocess
import time

import pytest
from conftest import SLOWNESS
from debug_support import BUILD, friday, opened, record_once, run_to_end  # noqa: F401
from native_gdb import no_calls

pytestmark = pytest.mark.limit(120)

# One of each language and of each level in the sample.
PROGRAMS = ["debug_session_O0", "debug_session_cxx_O2", *(pytest.param(name, marks=pytest.mark.full) for name in ("debug_session_O2", "debug_session_cxx_O0"))]


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request, tmp_path_factory):
    """(the program, its recording)"""
    path = BUILD / "targets" / request.param
    return path, record_once(request.param, lambda recorder: recorder.record([path]), tmp_path_factory)


class Gdb:
    """A gdb with pipes; while it is waited for, the session (if there is one) serves its endpoint."""

    def __init__(self, arguments, session=None):
        self.session = session
        self.process = subprocess.Popen(["gdb", "-nx", "-q", *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, bufsize=0, start_new_session=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        self.text = ""

    def wait_for(self, found, what, seconds=20):
        """found(text so far) until it is true; the text."""
        end = time.monotonic() + seconds * SLOWNESS
        while not found(self.text):
            assert time.monotonic() < end, f"gdb did not come to {what}:\n{self.text[-3000:]}"
            if self.session:
                self.session.backend.pump(0.02)
            if select.select([self.process.stdout], [], [], 0 if self.session else 0.2)[0]:
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data:
                    self.process.wait(10)
                    assert found(self.text), f"gdb ended before {what}:\n{self.text[-3000:]}"
                self.text += data.decode(errors="replace")
        return self.text

    def ended(self, seconds=60):
        """What it has said when it has ended."""
        return self.wait_for(lambda _: self.process.poll() is not None, "its end", seconds)

    def send(self, line):
        os.write(self.process.stdin.fileno(), line.encode() + b"\n")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


NO_MORE = None, "no-history"  # at the end of a replay, where the program exits; gdb 13 gives no reason


class Mi(Gdb):
    """Commands and answers of GDB/MI."""

    def __init__(self, arguments, session=None):
        super().__init__(["--interpreter=mi3", "-iex", "set auto-load python-scripts off", *arguments], session)
        self.token = 0
        for setting in ("confirm off", "pagination off", "debuginfod enabled off", "print thread-events off", "width 0"):
            self.ask(f"-gdb-set {setting}")

    def ask(self, command):
        """The result record behind the `^`."""
        self.token += 1
        mark = re.compile(rf"^{self.token}\^(.*)\n", re.M)
        self.send(f"{self.token}{command}")
        return mark.search(self.wait_for(mark.search, f"the answer of {command}"))[1]

    def value(self, expression):
        answer = self.ask(f'-data-evaluate-expression "{expression}"')
        found = re.fullmatch(r'(?:done,value|error,msg)="(.*?)"(?:,code="\w+")?', answer)
        assert found, answer
        return plain(found[1])

    def resume(self, command):
        """Where and why the program stops then: (reason, function, line, change of a value, value returned)."""
        before = len(self.text)
        answer = self.ask(command)
        assert answer.startswith("running"), f"{command}: {answer}"
        stop = re.compile(r"^\*stopped,(.*)\n", re.M)
        record = stop.search(self.wait_for(lambda text: stop.search(text, before), f"the stop after {command}"), before)[1]
        field = lambda name: (re.search(rf'\b{name}="(.*?)"', record) or [None, None])[1]  # noqa: E731
        old, new, returned = (field(name) and plain(field(name)) for name in ("old", "new", "return-value"))
        if field("reason") == "exited-normally" or field("func") == "__GI__exit" and field("reason") in NO_MORE:
            return "end", None, None, None, None
        return field("reason"), field("func"), field("line"), (old, new), returned

    def frames(self):
        """The functions and lines of the program's own frames."""
        answer = self.ask("-stack-list-frames")
        return re.findall(r'func="([^"]+)",[^{}]*?fullname="[^"]*?debug_session[^"]*",line="(\d+)"', answer)


def plain(text):
    """A value without addresses, which differ from run to run."""
    return re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", text)


def on_program(path, kind=Mi):
    return kind([path])


def on_replay(path, recording, opened, kind=Mi):
    session = opened(recording)
    return kind([path], session), session.nodes[0].endpoint


def both(program, opened, script):
    """script(gdb) on the program, at its main, and on its replay, at the same place."""
    path, recording = program
    said = []
    for replayed in (False, True):
        gdb = None
        try:
            if replayed:
                gdb, endpoint = on_replay(path, recording, opened)
                assert gdb.ask(f"-target-select remote {endpoint}").startswith("connected")
            else:
                gdb = on_program(path)
                gdb.ask("-inferior-tty-set /dev/null")
            gdb.ask("-break-insert main")
            first = gdb.resume("-exec-continue" if replayed else "-exec-run")
            said.append([("main", first), *script(gdb)])
        finally:
            if gdb:
                gdb.close()
    native, replay = said
    for number, (expected, got) in enumerate(zip(native, replay)):
        assert got == expected, f"answer {number}"
    assert len(native) == len(replay)


STEPS = [*["-exec-next"] * 2, "-exec-step", "-exec-step", "-exec-step", "-exec-next", "-exec-finish", "-exec-step", "-exec-next",
         "-exec-step-instruction", "-exec-next-instruction", "-exec-step-instruction", *["-exec-next"] * 3, "-exec-step", "-exec-step", "-exec-finish",
         *["-exec-step"] * 12]


def test_steps(program, opened):
    def script(gdb):
        for command in STEPS:
            if command == "-exec-finish" and gdb.frames()[0][0] == "main":
                command = "-exec-next"
            stop = gdb.resume(command)
            yield command, stop, gdb.frames() if stop[0] != "end" else None
            if stop[0] == "end":
                return
            yield gdb.value("total")
    both(program, opened, script)


def inside(program):
    """(functions to break at, expressions to read there)"""
    if "cxx" in program[0].name:
        return {"measure(int)": ["x"], "measure(double)": ["x"], "measure(shapes::Shape const&)": ["shape.sides", *([] if no_calls() else ["shape.name.size()"]), "shape"],
                "shapes::Shape::Shape": ["count"], "shapes::Square::area": ["edge", "*this", "this->sides"], "shapes::inner::area": ["a", "b", "a*b"],
                "largest<long>": ["a", "b"], "thrice": ["x"], "throws": ["which"], "shapes::Shape::operator+=": ["more", "sides"], "all_started": ["total"]}
    return {"square": ["x", "x + 1", "$rdi"], "sum_squares": ["n"], "factorial": ["n", "n == 2"], "scale": ["by", "ratio", "by * 2"], "move": ["*point", "point->name", "by"],
            "walk": ["head->next->next->x", "*head@1", "head->name[0]"], "twice": ["x"], "all_started": ["total", "sizeof(more)"]}


def test_breakpoints(program, opened):
    def script(gdb):
        places = inside(program)
        for place in places:
            answer = gdb.ask(f'-break-insert "{place}"')
            yield place, answer.split(",")[0], answer.count("addr=")
        for _ in range(60):
            stop = gdb.resume("-exec-continue")
            yield stop, gdb.frames()
            if stop[0] != "breakpoint-hit" or stop[1].startswith("all_started"):
                break
            for place, expressions in places.items():
                if place.split("(")[0].split("<")[0].endswith(stop[1].split("(")[0].split("<")[0]):
                    for expression in expressions:
                        yield expression, gdb.value(expression)
        assert stop[0] == "breakpoint-hit" and stop[1].startswith("all_started")
        yield [gdb.value(text) for text in places["all_started"]]
    both(program, opened, script)


def test_conditions_counts_and_temporary_breakpoints(program, opened):
    cxx = "cxx" in program[0].name
    ignored, conditional, once = ("measure", '-c "which == 2" throws', "all_started") if cxx else ("square", '-c "n == 3" factorial', "move")

    def script(gdb):
        for options in (f"-i 1 {ignored}", conditional, f"-t {once}"):
            yield gdb.ask(f"-break-insert {options}").split(",")[0]
        yield gdb.resume("-exec-continue"), gdb.frames()
        yield gdb.ask("-break-delete 2").split(",")[0]
        yield gdb.resume("-exec-continue"), gdb.frames()
        yield gdb.resume("-exec-finish"), gdb.frames()
        yield gdb.resume("-exec-continue")
        yield gdb.ask("-break-list").count("bkpt={")
    both(program, opened, script)


@pytest.mark.usefixtures("debug_registers")  # of the native gdb
def test_watchpoints(program, opened):
    cxx = "cxx" in program[0].name

    def script(gdb):
        for expression in ("total", "current" if cxx else "first.x", "measured" if cxx else "head"):
            yield gdb.ask(f'-break-watch "{expression}"').split(",")[0]
        gdb.ask("-break-insert all_started")
        for _ in range(40):
            stop = gdb.resume("-exec-continue")
            yield stop, gdb.frames()
            if stop[0] == "breakpoint-hit":
                return
        raise AssertionError("all_started was not reached")
    both(program, opened, script)


def calls(program):
    if "cxx" in program[0].name:
        return ["measure(4)", "measure(2.5)", "measure(*current)", "shapes::inner::area(6, 7)", "largest<int>(3, 4)", "largest<double>(0.5, 0.25)", "current->area()",
                "(*current)(10)", "current->name", "current->name.size()", "current->sides = 4", "throws(1)"]
    return ["square(12)", "factorial(6)", "scale(1.0)", "sum_squares(3)", "shifted(middle, 7)", "(long)strlen(\\\"twelve bytes\\\")", "total = total", "abs(-5)"]


def test_calls(program, opened):
    if no_calls():
        pytest.skip(no_calls())

    def script(gdb):
        cxx = "cxx" in program[0].name
        gdb.ask("-break-insert use_inline" if cxx else "-break-insert walk")
        yield gdb.resume("-exec-continue")
        for call in calls(program):
            yield call, gdb.value(call)
        yield gdb.frames(), gdb.value("$rip"), gdb.value("total")
        yield gdb.resume("-exec-next"), gdb.resume("-exec-finish") if not cxx else gdb.resume("-exec-next")
    both(program, opened, script)


def test_threads_and_their_variables(program, opened):
    def script(gdb):
        gdb.ask("-break-insert all_started")
        gdb.resume("-exec-continue")
        found = {}
        for number in re.findall(r'\bid="(\d+)",target-id', gdb.ask("-thread-info")):
            assert gdb.ask(f"-thread-select {number}").startswith("done")
            # The kernel's name of the thread is that of the file for the first one.
            name = re.search(rf'\bid="{number}",target-id="[^"]*"(?:,name="([^"]*)"|)', gdb.ask("-thread-info"))
            frames = [function for function, _ in gdb.frames()]  # a released thread may have gone on, or not
            found[gdb.value("own")] = frames, gdb.value("&own") == "ADDRESS" or gdb.value("&own"), name is not None
        yield sorted(found.items())
        assert len(found) == 4
        yield gdb.ask("-thread-select 1").split(",")[0]
        yield gdb.resume("-exec-next"), gdb.resume("-exec-next"), gdb.frames()
    both(program, opened, script)


def test_to_the_end(program, opened):
    """The replay ends as the program did; gdb is told that nothing follows, and the node can still be looked at."""
    path, recording = program
    gdb, endpoint = on_replay(path, recording, opened)
    try:
        gdb.ask(f"-target-select remote {endpoint}")
        total = None
        gdb.ask("-break-insert all_started")
        gdb.resume("-exec-continue")
        total = int(gdb.value("total"))
        assert gdb.resume("-exec-continue")[0] == "end"
        assert int(gdb.value("total")) == total + 1
        assert gdb.resume("-exec-continue")[0] == "end", "and says so again"
    finally:
        gdb.close()


# ---- The command line

RUN = "its start"  # `run` of the program, `continue` of the replay


def command_lines(program):
    cxx = "cxx" in program[0].name
    lines = ["break main", RUN, "info line", "next", "step", f"advance {'measure' if cxx else 'factorial'}", "info args", "backtrace", "finish", "next",
             f"tbreak {'shapes::inner::area' if cxx else 'walk'}", "continue", "backtrace", "up", "info locals", "down", "watch total", "continue", "continue",
             "info watchpoints", "delete 3", "print total", "ptype total", *[f"print {call}".replace('\\"', '"') for call in ([] if no_calls() else calls(program))], "advance all_started", "thread apply all -q -s print own", "until", "next", "info symbol all_started", "output total"]
    return lines


def cli(program, opened, endpoint=None, session=None):
    """What a gdb with these commands prints, from main on."""
    # gdb looks for the printers of C++ libraries by the files of this machine, not by those of a target.
    arguments = ["-batch", "-iex", "set auto-load python-scripts off"]
    settings = ["set confirm off", "set pagination off", "set debuginfod enabled off", "set print thread-events off", "set width 0", "set print address off"]
    settings += [f"target remote {endpoint}"] if endpoint else ["tty /dev/null"]
    for line in [*settings, "echo <begin>\\n", *command_lines(program)]:
        arguments += ["-ex", line if line != RUN else "continue" if endpoint else "run"]
    gdb = Gdb([*arguments, *([] if endpoint else [program[0]])], session)
    try:
        text = gdb.ended()
    finally:
        gdb.close()
    text = text.partition("<begin>\n")[2]
    text = re.sub(r"Thread \S+ (?:\([^)]*\)|\"[^\"]*\" \([^)]*\))", "Thread", text)
    text = re.sub(r'^(?:\[Thread debugging.*|Using host lib.*|Continuing\.|\[Switching.*|)\n', "", text, flags=re.M)
    text = re.sub(r"^(Thread \d+ .*|Thread) hit ", "", text, flags=re.M)
    text = re.sub(r"\n?\[Inferior 1 .*detached\]$|(?<=of )target:", "", text.strip(), flags=re.M)
    return [plain(line) for line in text.splitlines()]


@pytest.mark.usefixtures("debug_registers")  # of the native gdb
def test_the_command_line(program, opened):
    native = cli(program, opened)
    session = opened(program[1])
    replay = cli(program, opened, session.nodes[0].endpoint, session)
    assert replay == native
    assert any("Old value" in line for line in native) and len(native) > 40


# ---- Beside Friday

@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = BUILD / "targets" / "debug_session_O0"
    return record_once("debug_session_O0", lambda recorder: recorder.record([path]), tmp_path_factory)


@pytest.fixture
def attached(recording, opened):
    """(session, a gdb at its node's endpoint)"""
    session = opened(recording)
    gdb = Mi([], session)
    assert gdb.ask(f"-target-select remote {session.nodes[0].endpoint}").startswith("connected")
    yield session, gdb
    gdb.close()


def test_stop_points_live_beside_fridays(attached):
    """At one address and at others: each is hit by whoever set it, ids are one's own."""
    session, gdb = attached
    seen = []
    first = session.breakpoint("square", lambda hit: seen.append(int(hit.node.read("x"))))
    gdb.ask("-break-insert square")
    gdb.ask("-break-insert factorial")
    assert gdb.resume("-exec-continue")[:2] == ("breakpoint-hit", "square")
    assert session.points[first.id].hits == 0 and seen == []
    gdb.ask("-break-delete 1")
    assert gdb.resume("-exec-continue")[0] == "signal-received", "a stop point of Friday's"
    assert "stopped at a stop point of Friday; its handler runs" in gdb.text
    # Friday goes on with what its own stop points have met, and meets none of gdb's.
    assert session.node.read("x") == 2
    second = session.breakpoint("factorial")
    stop = session.run()
    assert stop.ids == (second.id,) and seen[-3:] == [2, 3, 4] and session.read(None, "n") == 5
    assert list(session.points) == [first.id, second.id]
    second.delete()
    session.step(None, "finish")
    gdb.ask("-break-delete")
    gdb.ask("-break-insert walk")
    assert gdb.resume("-exec-continue")[:2] == ("breakpoint-hit", "walk")
    run_to_end(session)


def test_ctrl_c_in_the_users_gdb_stops_the_group(tmp_path_factory, opened):
    recording = record_once("perl", lambda recorder: recorder.record(["/usr/bin/perl", "-e", "for ($i = 0; $i < 40e6; $i++) {}"]), tmp_path_factory)
    session = opened(recording)
    gdb = Gdb(["-ex", "set confirm off", "-ex", f"target remote {session.nodes[0].endpoint}", "-ex", "echo ready\\n"], session)
    try:
        gdb.wait_for(lambda text: "ready" in text, "its prompt")
        gdb.send("continue")
        gdb.wait_for(lambda text: "Continuing." in text, "its run")
        stopper = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -INT {gdb.process.pid}"])
        gdb.wait_for(lambda text: "Program received signal SIGINT" in text, "the interrupt", 20)
        assert stopper.wait() == 0
        gdb.send("echo again\\n")
        gdb.wait_for(lambda text: text.count("again") >= 1, "its prompt")
        # It goes away while the group runs.
        gdb.send("continue")
        subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -KILL {gdb.process.pid}"]).wait()
        session.backend.pump(1)
    finally:
        gdb.close()
    run_to_end(session)


def test_one_gdb_at_a_time_and_none_before_the_start(attached, recording):
    session, gdb = attached
    endpoint = session.nodes[0].endpoint
    assert endpoint == session.nodes[0].endpoint and os.stat(os.path.dirname(endpoint)).st_mode & 0o077 == 0
    other = Gdb(["-batch", "-ex", f"target remote {endpoint}"], session)
    try:
        assert "already being debugged by another client" in other.ended()
    finally:
        other.close()
    assert gdb.value("total") == "0", "the first one is unharmed"
    # Restarted, the node stands at its start again for whoever is there.
    gdb.ask("-break-insert factorial")
    assert gdb.resume("-exec-continue")[:2] == ("breakpoint-hit", "factorial")
    session.restart()
    assert gdb.resume("-exec-continue")[:2] == ("breakpoint-hit", "factorial") and gdb.value("n") == "5"
    gdb.process.send_signal(signal.SIGKILL)
    run_to_end(session)
