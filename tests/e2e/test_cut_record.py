"""A program is recorded across a cut, and its inside replays by itself: small programs, random ones, threads, a child process, a crash, and
logs that are damaged. FRIDAY_CUT_CHECK=1 logs a hash of the inside's variables at each return to the outside, which the replay compares."""

import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys

import pytest
from conftest import ROOT

SOURCES = ROOT / "tests" / "targets" / "cut_record"
sys.path.insert(0, str(SOURCES))
import random_c  # noqa: E402
from read_log import BLOCK_HEAD, HEAD, Log  # noqa: E402

RANDOM_PROGRAMS = 12  # each with CUTS choices of what is inside; `--full` has more
CUTS = 5


class Recorder:
    """Builds programs, records them and replays them in one directory."""

    def __init__(self, place, friday, tool, planner):
        self.place, self.friday, self.tool, self.planner = place, friday, tool, planner

    def run(self, *words, check=True, env=None):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, cwd=self.place,
                              stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def compile(self, name, *sources, options=("-O2",)):
        for source in sources:
            if (SOURCES / source).exists():
                shutil.copy(SOURCES / source, self.place)
            self.run(self.friday, "cc", *options, "-g", "-w", f"-I{SOURCES}", "-c", source, "-o", f"{source}.o")
        self.run(self.friday, "cc", *[f"{source}.o" for source in sources], "-o", name, "-lpthread")
        shutil.rmtree(self.place / "facts", ignore_errors=True)
        self.run(self.tool, "facts", name, "-o", "facts")

    def plan_of(self, name, target):
        self.run(self.friday, "cut", "choose", name, "--target", target, "--plan", "plan")

    def random_plan(self, seed, *inside):
        if not self.planner.exists():
            pytest.skip("machine: this build of Friday has no helper cut_record_plan")
        return self.run(self.planner, "facts", "plan", seed, *inside).stdout.split()

    def build(self, name, check=True):
        return self.run(self.tool, "recording", "--plan", "plan", name, "-o", "built", check=check)

    def record(self, name, *arguments, check=True):
        shutil.rmtree(self.place / "logs", ignore_errors=True)
        (self.place / "logs").mkdir()
        done = self.run(f"built/{name}", *arguments, check=check, env={"FRIDAY_CUT_LOG": "logs", "FRIDAY_CUT_CHECK": "1"})
        return done, sorted((self.place / "logs").iterdir(), key=lambda path: path.stat().st_mtime_ns)

    def replay(self, name, log):
        return self.run(f"built/{name}", check=False, env={"FRIDAY_CUT_REPLAY": str(log)})

    def replays(self, name, log):
        done = self.replay(name, log)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (done.returncode, done.stdout, done.stderr)


@pytest.fixture
def recorder(build, friday, tmp_path):
    tool = build / "lib" / "friday-bitcode"
    if not tool.exists():
        pytest.skip("machine: this build of Friday has no part for compilers (FRIDAY_CUT=OFF)")
    if not shutil.which("clang-19"):
        pytest.skip("machine: it has no clang-19")
    return Recorder(tmp_path, friday, tool, build / "bin" / "cut_record_plan")


def kinds(log, program):
    found = {}
    for kind, _, _, _ in Log(log, program).records():
        found[kind] = found.get(kind, 0) + 1
    return found


MODULE = ["module_handle", "module_visit", "module_compare", "module_end", "find", "note"]


def server(recorder):
    """The server with its module inside, and nothing else. Some choices of memory are refused."""
    recorder.compile("server", "server.c", "module.c")
    for seed in range(60):
        recorder.random_plan(seed, *MODULE)
        if recorder.build("server", check=False).returncode == 0:
            return
    raise AssertionError("no choice of memory can be built")


@pytest.mark.parametrize("options", [("-O0",), ("-O2",), ("-O3", "-fPIE"), ("-O1", "-fomit-frame-pointer", "-fcf-protection")])
def test_module_replays(recorder, options):
    """Callbacks, structures by value, memory of both sides, and variables that the other side writes."""
    recorder.compile("server", "server.c", "module.c", options=options)
    recorder.plan_of("server", "module.c")
    recorder.build("server")
    assert "200 requests" in recorder.run("built/server", 200).stdout
    done, (log,) = recorder.record("server", 200)
    assert "200 requests" in done.stdout
    for _ in range(3):
        recorder.replays("server", log)


def test_a_replay_in_the_console(recorder):
    """The program that replays the inside is recorded as any other: then the console goes through the module, forward and backward."""
    recorder.compile("server", "server.c", "module.c", options=("-O0",))
    recorder.plan_of("server", "module.c")
    recorder.build("server")
    _, (log,) = recorder.record("server", 30)
    recorder.run(recorder.friday, "record", "-q", "-o", "rec", "--", "built/server", env={"FRIDAY_CUT_REPLAY": str(log)})
    assert "verified" in recorder.run(recorder.friday, "verify", "rec").stdout
    words = ["break module_handle", *["continue"] * 5, "node 1", "next", "print request->number", "print handled", "watch handled", "continue",
             "print handled", "reverse-continue", "print handled"]
    found = recorder.run(recorder.friday, "replay", "rec", "--batch", *(word for command in words for word in ("--ex", command)))
    number, before, behind, again = (int(line.split(" = ")[1]) for line in found.stdout.splitlines() if " $" in line)
    assert 2 <= number <= 4 and (before, behind, again) == (number, number + 1, number), found.stdout


def test_every_cut_of_the_server(recorder):
    built = 0
    recorder.compile("server", "server.c", "module.c")
    for seed in range(25):
        recorder.random_plan(seed)
        done = recorder.build("server", check=False)
        if done.returncode != 0:
            assert "cannot be recorded across this cut" in done.stderr and ".c:" in done.stderr, done.stderr
            continue
        built += 1
        _, (log,) = recorder.record("server", 50)
        recorder.replays("server", log)
    assert built >= 10  # the others have qsort() move memory inside while it calls inside


def random_programs(recorder, seeds):
    replayed = refused = entries = 0
    for seed in seeds:
        (recorder.place / "random.c").write_text(random_c.Program(seed, size=6 + seed % 8).source())
        recorder.compile("random", "random.c", options=[f"-O{seed % 4}"])
        for cut in range(CUTS):
            inside = recorder.random_plan(seed * 100 + cut)
            done = recorder.build("random", check=False)
            if done.returncode != 0:
                assert "cannot be recorded across this cut" in done.stderr, (seed, cut, done.stderr)
                refused += 1
                continue
            done, (log,) = recorder.record("random")
            assert done.stderr == "", (seed, cut, done.stderr)
            again = recorder.replay("random", log)
            assert (again.returncode, again.stderr) == (0, ""), (seed, cut, again.returncode, again.stderr, inside)
            entries += kinds(log, recorder.place / "built" / "random").get("entry", 0)
            replayed += 1
    assert replayed > refused and entries > 10 * replayed, (replayed, refused, entries)


def test_random_programs(recorder):
    random_programs(recorder, range(RANDOM_PROGRAMS))


@pytest.mark.full
@pytest.mark.parametrize("part", range(40))
def test_many_random_programs(recorder, part):
    random_programs(recorder, range(1000 + 10 * part, 1010 + 10 * part))


def test_threads_and_a_child(recorder):
    recorder.compile("threads", "threads.c", "threads_module.c")
    for seed in range(1, 4):
        recorder.random_plan(seed, "count_item", "count_add", "note")
        recorder.build("threads")
        _, logs = recorder.record("threads")
        assert len(logs) == 2
        for log in logs:
            for _ in range(3):
                recorder.replays("threads", log)
        first = next(log for log in logs if Log(log, recorder.place / "built" / "threads").blocks > 1)
        assert kinds(first, recorder.place / "built" / "threads")["new_thread"] == 5


def crash(recorder):
    recorder.compile("crash", "crash.c")
    recorder.random_plan(2, "module_step")
    recorder.build("crash")
    done, (log,) = recorder.record("crash", check=False)
    assert done.returncode == -signal.SIGSEGV
    return log


def test_crash_inside_is_found_again(recorder):
    """The process was killed by it, so its log has no end; the replay crashes at the same place, and the outside never runs."""
    log = crash(recorder)
    for _ in range(3):
        assert recorder.replay("crash", log).returncode == -signal.SIGSEGV


def test_debugger_sees_the_inside_only(recorder):
    if not shutil.which("gdb"):
        pytest.skip("machine: it has no gdb")
    server(recorder)
    _, (log,) = recorder.record("server", 20)
    shown = recorder.run("gdb", "-q", "-batch", "-ex", "break note", "-ex", "run", "-ex", "backtrace", "-ex", "print served", "-ex",
                         "print bias", "built/server", check=False, env={"FRIDAY_CUT_REPLAY": str(log)}).stdout
    assert "in module_handle" in shown and "friday_cut_outside_is_not_replayed" in shown
    assert "in main" not in shown and "$" not in shown.split("not_replayed")[-1], shown


def damaged(recorder, log, name, change):
    data = bytearray(log.read_bytes())
    changed = change(data)
    data = data if changed is None else changed
    path = recorder.place / "damaged.cutlog"
    path.write_bytes(data)
    return recorder.replay(name, path)


def test_damaged_logs(recorder):
    server(recorder)
    _, (log,) = recorder.record("server", 30)
    (used,) = struct.unpack_from("<I", log.read_bytes(), HEAD + 8)

    def flip(at):
        def change(data):
            data[at] ^= 16
        return change

    for at in range(HEAD + BLOCK_HEAD, HEAD + BLOCK_HEAD + used, max(1, used // 20)):
        done = damaged(recorder, log, "server", flip(at))
        assert done.returncode == 2 and "damaged in block 0" in done.stderr, (at, done)
    for length in (0, 100, HEAD, HEAD + 5000):
        done = damaged(recorder, log, "server", lambda data, length=length: data[:length])
        assert done.returncode == 2 and "cut off" in done.stderr, (length, done)
    done = damaged(recorder, log, "server", flip(20))
    assert done.returncode == 2 and "another build" in done.stderr
    assert recorder.replay("server", recorder.place / "none").returncode == 2


def test_changed_values_diverge(recorder):
    """A log of a process that was killed has no checksum in its last block; what is changed there is found by what the program does."""
    server(recorder)
    _, (log,) = recorder.record("server", 30)
    program = recorder.place / "built" / "server"
    wanted = {"entry_end": 0, "returned": 0, "call_end": 0, "read 8": 0, "call": 0}
    for kind, _, at, length in Log(log, program).records():
        if wanted.get(kind, 9) >= 3:
            continue
        wanted[kind] += 1

        def change(data, at=at, length=length, kind=kind):
            struct.pack_into("<I", data, HEAD + 12, 0)  # the block is not sealed
            struct.pack_into("<I", data, 104, 0)        # and the process was killed
            data[at + (1 if kind == "entry_end" else length - 1)] ^= 1
        done = damaged(recorder, log, "server", change)
        assert done.returncode in (2, 3) or kind in ("read 8", "call_end", "returned"), (kind, done)
        if done.returncode == 3:
            assert "diverged at crossing" in done.stderr and ".c:" in done.stderr, done.stderr
    assert wanted["entry_end"] == 3


def test_plan_of_another_build(recorder):
    recorder.compile("server", "server.c", "module.c")
    recorder.plan_of("server", "module.c")
    recorder.compile("server", "server.c", "module.c", options=("-O2", "-DOTHER"))
    (recorder.place / "server.c").write_text((SOURCES / "server.c").read_text() + "int more(void) { return 1; }\n")
    recorder.run(recorder.friday, "cc", "-O2", "-g", f"-I{SOURCES}", "-c", "server.c", "-o", "server.c.o")
    recorder.run(recorder.friday, "cc", "server.c.o", "module.c.o", "-o", "server")
    done = recorder.build("server", check=False)
    assert done.returncode == 2 and "does not fit" in done.stderr


def test_directory_is_missing(recorder):
    recorder.compile("crash", "crash.c")
    recorder.random_plan(2, "module_step")
    recorder.build("crash")
    done = recorder.run("built/crash", check=False, env={"FRIDAY_CUT_LOG": "nowhere"})
    assert done.returncode == -signal.SIGSEGV and "nothing is recorded" in done.stderr


@pytest.mark.parametrize("text,message", [
    ("void unknown(long*); long state; int f(void){ unknown(&state); return (int)state; } int main(void){ return f(); }", "has no code"),
    ("#include <stdarg.h>\nlong state; int f(int n, ...){ va_list a; va_start(a, n); state += va_arg(a, int); va_end(a); return (int)state; }"
     " int main(void){ return f(1, 2); }", "variable number of arguments"),
    ("__thread long state; int f(int n){ state += n; return (int)state; } int main(void){ return f(1) + f(2); }", "thread-local"),
])
def test_what_is_refused(recorder, text, message):
    (recorder.place / "refused.c").write_text(text)
    (recorder.place / "lib.c").write_text("void unknown(long* at) { *at = 3; }")
    recorder.run("clang-19", "-shared", "-fPIC", "lib.c", "-o", "libunknown.so")
    recorder.run(recorder.friday, "cc", "-g", "-O1", "-c", "refused.c", "-o", "refused.o")
    recorder.run(recorder.friday, "cc", "refused.o", "-o", "refused", "-L.", "-lunknown")
    recorder.run(recorder.tool, "facts", "refused", "-o", "facts")
    for seed in range(30):  # until the memory is inside
        recorder.random_plan(seed, "f")
        done = recorder.build("refused", check=False)
        if done.returncode != 0:
            break
    assert done.returncode == 2 and message in done.stderr and "Choose a target" in done.stderr, done.stderr


def test_runtime_lies_beside_the_tool(recorder):
    assert pathlib.Path(recorder.tool).with_name("friday-cut-runtime.o").exists()
