"""Each program of tests/targets: recorded it behaves exactly as on its own, and what was recorded replays."""

import json
import pathlib
import re
import shlex
import shutil

import pytest

LIST = pathlib.Path(__file__).resolve().parents[1] / "targets" / "list.txt"
LINES = "".join(f"input {i}\n" for i in range(100))


class Target:
    def __init__(self, line):
        command, _, options = line.partition("|")
        self.name, self.program, *self.arguments = shlex.split(command)
        self.source = re.sub("^(static|pie)_", "", self.program)
        self.options = dict(option.partition("=")[::2] for option in options.split())
        unknown = set(self.options) - {"varies", "differs", "exit", "signal", "ends", "nodes", "stdin", "patched", "gap", "int80", "full"}
        assert not unknown, f"{LIST}: {self.name} has unknown options {unknown}"

    @property
    def returncode(self):
        """Of the program itself, as subprocess gives it."""
        return -int(self.options["signal"]) if "signal" in self.options else int(self.options.get("exit", 0))


TARGETS = [Target(line) for line in LIST.read_text().splitlines() if line and line[0] != "#"]


@pytest.fixture
def start(recorder, targets, tmp_path, calls_of_32_bits):
    """start(target, recorded): runs it in an empty directory, its input in a file."""
    (tmp_path / "input").write_text(LINES)

    def start(target, recorded, *options):
        if "int80" in target.options and not calls_of_32_bits:
            pytest.skip("machine: its kernel takes no 32-bit calls")
        directory = tmp_path / ("recorded" if recorded else "native")
        directory.mkdir(exist_ok=True)
        command = [targets / target.program, *target.arguments]
        common = dict(cwd=directory, env={"TARGET_ONE": "1", "TARGET_TWO": "two words"})
        with open(tmp_path / "input" if "stdin" in target.options else "/dev/null") as stdin:
            if recorded:
                limit = 10 if "gap" in target.options else 60
                return recorder.record(command, name="it", stdin=stdin, options=options, timeout=limit, **common)
            return recorder.start(command, stdin=stdin, **common).finish()

    return start


def check_alone(target, native):
    assert native.returncode == target.returncode, f"without recording: {native.returncode} {native.stderr}"
    if target.source != "crash":
        assert native.stdout.endswith("SUCCESS\n"), native.stderr


def check_recorded(target, native, recording):
    code = target.returncode
    assert recording.returncode == (128 - code if code < 0 else code), recording.stderr
    if "varies" not in target.options and "differs" not in target.options:
        assert recording.stdout == native.stdout
    elif target.source != "crash":
        assert recording.stdout.endswith("SUCCESS\n")
    program_errors = "".join(line for line in recording.stderr.splitlines(True) if not line.startswith("friday: "))
    assert program_errors == native.stderr
    ended = recording.node("it")["ended"]
    if not target.source.startswith("execs"):  # its first node ends by exec
        assert ended == ({"how": "signal", "detail": -code} if code < 0 else {"how": "exit", "detail": code})
    assert recording.ended_at("it") == target.options.get("ends")
    nodes = target.options.get("nodes", "1")
    if nodes != "any":
        assert len(recording.nodes()) == int(nodes), [node["name"] for node in recording.nodes()]


def each_target(unwanted=None):
    marks = {"gap": pytest.mark.xfail(strict=True, reason="gap: not handled yet, see the limits in docs/determinism.md"), "full": pytest.mark.full}
    return [pytest.param(target, id=target.name, marks=[mark for option, mark in marks.items() if option in target.options])
            for target in TARGETS if unwanted not in target.options]


@pytest.mark.parametrize("target", each_target())
def test_target(target, start, recorder):
    native = start(target, recorded=False)
    check_alone(target, native)
    recording = start(target, True, "--state-hash")  # compared at replay: at the end all memory
    check_recorded(target, native, recording)
    recorder.none_left()
    recorder.verify(recording, "--times", "2")  # both come to the same memory


@pytest.mark.parametrize("target", each_target())
def test_target_of_which_a_schedule_is_kept(target, start, recorder):
    """It behaves as on its own, too, and what was kept can be read."""
    native = start(target, recorded=False)
    recording = start(target, True, "--schedule")
    code = target.returncode
    assert recording.returncode == (128 - code if code < 0 else code), recording.stderr
    if "varies" not in target.options and "differs" not in target.options:
        assert recording.stdout == native.stdout
    assert "".join(line for line in recording.stderr.splitlines(True) if not line.startswith("friday: ")) == native.stderr
    recorder.none_left()
    info = recorder.info(recording)
    assert info["contradictions"] == 0 and all(node["schedule"] for node in info["nodes"])


def calls_of(recorder, recording):
    """How many calls came through the catch-all, how many calls and ends of threads the traces hold, and how many signals."""
    nodes = recorder.info(recording)["nodes"]
    dumps = [recorder.run([recorder.friday, "dump", recording.path, "--node", str(node["id"]), "--json"]).stdout for node in nodes if node.get("events")]
    calls, signals = (sum(len(re.findall(f'"type":"(?:{kinds})"', dump)) for dump in dumps) for kinds in ("call|return|thread exit", "signal"))
    return sum(node["calls_caught"] for node in nodes if node.get("events")), calls, signals


@pytest.mark.full
@pytest.mark.parametrize("target", each_target(unwanted="patched"))
def test_target_with_every_call_trapped(target, start, recorder):
    """Without patched call sites, through Syscall User Dispatch alone."""
    recording = start(target, True, "--no-patch", "--state-hash")
    check_recorded(target, start(target, recorded=False), recording)
    caught, calls, signals = calls_of(recorder, recording)
    # A futex with inheritance is several events; a call that a signal comes before traps twice.
    assert -20 - calls // 5 <= caught - calls <= 20 + calls // 5 + signals, f"{caught} calls were trapped of {calls}, with {signals} signals"
    recorder.verify(recording)


@pytest.mark.parametrize("name", ["threads", "signals_restart", "sockets_tcp"])
def test_verifications_agree(name, start, recorder):
    """Ten verifications of one recording come to the same end state."""
    recording = start(next(t for t in TARGETS if t.name == name), recorded=True)
    states = set()
    for _ in range(10):
        done = recorder.verify(recording, "--hash", "--json")
        states.add(json.dumps([{key: node.get(key) for key in ("name", "events", "hash")} for node in json.loads(done.stdout)["nodes"]]))
    assert len(states) == 1, states


def test_racy_outcomes_replay_each_its_own(recorder, targets, tmp_path):
    """Recording does not make a race regular: twenty recordings differ in what they come to, and each replay comes to its own."""
    outcomes = {}
    for i in range(20):
        recording = recorder.record([targets / "shared_processes", "race"], name="it", cwd=tmp_path)
        assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n"), recording
        recorder.verify(recording)
        outcomes.setdefault(recording.stdout, recording)
    assert len(outcomes) > 1, outcomes.keys()


@pytest.mark.parametrize("name", ["fork_pipe", "robust_shared"])
@pytest.mark.parametrize("sync", ["clock", "causal", "free"])
def test_orders_of_replay(sync, name, start, recorder):
    recording = start(next(t for t in TARGETS if t.name == name), recorded=True)
    recorder.verify(recording, "--sync", sync)


# Refused calls that no target makes, with the reason. Of emulated and special ones there are none.
NEVER_MADE = {"uretprobe": "kills a program, unrecorded, that the kernel does not probe"}


@pytest.mark.full
@pytest.mark.limit(600)
def test_every_call_of_the_table_is_made(start, recorder, capsys):
    """What calls.def says of a call is shown to be true by a target that makes it, or it stands above why there is none."""
    table = recorder.run([recorder.friday, "record", "--list-calls"]).stdout
    rules = {name: rule for _, name, rule in (line.split()[:3] for line in table.splitlines())}
    made = set()
    for target in TARGETS:
        if "gap" in target.options:
            continue
        recording = start(target, recorded=True)
        for node in recording.nodes():
            events = recorder.run([recorder.friday, "dump", recording.path, "--node", str(node["id"]), "--json"]).stdout
            made |= set(re.findall(r'"call":"(\w+)"', events))
            if '"type":"thread exit"' in events:
                made.add("exit")  # which is an event of its own
        shutil.rmtree(recording.path)
    with capsys.disabled():
        print("\ncalls that no target makes:", *(f"{name} ({rule})" for name, rule in rules.items() if name not in made))
    assert not made - rules.keys() - {"unknown"}
    assert {name for name, rule in rules.items() if name not in made} == NEVER_MADE.keys()


def test_readers_of_the_list_agree():
    """CMake builds what this file runs: every program has a source, and every source is named, by the list, by CMake for a test of its
    own, or by a test that compiles it."""
    named = {target.program for target in TARGETS} | set(re.findall(r"\w+", (LIST.parent / "CMakeLists.txt").read_text()))
    named |= {name for test in pathlib.Path(__file__).parent.glob("test_*.py") for name in re.findall(r"\b(\w+)\.cc?\"", test.read_text())}
    sources = {re.sub(r"\.cc?$", "", file.name) for file in LIST.parent.glob("*.c*") if file.suffix in (".c", ".cc") and not file.name.startswith("stop_")}
    assert sources <= named and {target.source for target in TARGETS} <= sources
