"""A replay that does something else than the recording stops at the first event that differs and says node, thread, event, time,
call site and its callers with their source lines, expected and actual, and the events around: in `friday verify`, its
--json, `friday run` and the console. Recordings are altered on purpose, sealed again so that no reader can tell."""
import collections
import json
import os
import re
import shutil
import signal

import pytest
from conftest import wait_until

FAULTED_AT, CHECKSUM = 168, 216  # of the trace's header (docs/trace-format.md)


@pytest.fixture
def recording(recorder, targets):
    done = recorder.record([targets / "diverge"], name="it")
    recorder.verify(done)
    return done


@pytest.fixture
def events(recorder):
    def events(recording, node=0):
        out = recorder.run([recorder.friday, "dump", recording.path, "--node", str(node), "--json"])
        assert out.returncode == 0, out.stderr
        return [json.loads(line) for line in out.stdout.splitlines()]
    return events


@pytest.fixture
def edit(recorder, build):
    def edit(recording, *change, node=0):
        done = recorder.run([build / "bin" / "friday_trace_edit", recording.path / "nodes" / str(node) / "trace", *map(str, change)])
        assert done.returncode == 0, done.stderr
        shutil.rmtree(recording.path / "cache", ignore_errors=True)
    return edit


def number_of(events, call, nth=0):
    """Index of the nth event of a call; negative: from the end."""
    return [event["event"] for event in events if event.get("call") == call][nth]


def report(recorder, recording, same_twice=True):
    """The divergence as `friday verify --json` tells it; what is true of every one is checked."""
    done = recorder.replay(recording, "--json")
    assert done.returncode == 3, done
    found = json.loads(done.stdout)
    assert not found["held"]
    d = found["divergence"]
    text = recorder.replay(recording)
    assert text.returncode == 3
    if not same_twice:
        return d
    assert text.stdout == d["text"]
    assert f"node {d['node']} ({d['name']}), thread {d['thread']}, event {d['event']} ({d['call']})" in text.stdout
    assert re.search(r"at \d+\.\d{6} s of logical time, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} UTC\n", text.stdout)
    assert f"- recorded: {d['expected']}\n+ replayed: {d['actual']}\n" in text.stdout
    around = [event["index"] for event in d["events"]]
    assert around == [n for n in range(d["event"] - 5, d["event"] + 6) if n in around]
    assert [event["index"] for event in d["events"] if event["differs"]] in ([d["event"]], [])
    marked = [line for line in text.stdout.splitlines() if line.startswith("->")]
    assert len(marked) == (1 if d["event"] in around else 0)
    recorder.none_left()
    return d


def functions(d):
    return [place.get("function") for place in d["chain"]]


def test_an_owner_that_died(recorder, targets, events, edit):
    """A mutex whose owner was killed is given back by nobody: who takes it next waits for it at replay, and did not."""
    owner_died = 16
    recording = recorder.record([targets / "robust_shared"], name="it")
    recorder.verify(recording)
    # What a futex brings may be the doing of an owner that exited: it gives its mutexes back itself, at replay too.
    told = [e["event"] for e in events(recording) if e.get("call") != "futex" and any(part["kind"] == owner_died for part in e["parts"])]
    edit(recording, told[0], "owner")
    d = report(recorder, recording, same_twice=False)
    # The child's end is seen at different calls from run to run; the lock is taken when the child has been waited for.
    between = [e.get("call") for e in events(recording) if told[0] <= e["event"] < d["event"]]
    assert d["node"] == 0 and "futex(" in d["actual"] and between[-1] == "wait4" and "clone" not in between


def test_one_byte_of_what_was_read(recorder, recording, events, edit):
    """The program computes something else from it and says so much later: the first event that differs is that write."""
    before = events(recording)
    edit(recording, number_of(before, "read", -1), "byte", 3)
    d = report(recorder, recording)
    assert d["kind"] in ("input", "argument") and d["call"] == "write"
    assert d["event"] == number_of(before, "getppid", -1) + 1
    assert functions(d)[1:3] == ["tell", "main"]
    caller = d["chain"][1]
    assert caller["module"] == "diverge" and caller["file"].endswith("tests/targets/diverge.c") and caller["line"] > 0
    assert d["chain"][0]["module"].startswith("libc") and 0 < d["chain"][0]["offset"] < 100
    assert "write(3, " in d["expected"] and "write(3, " in d["actual"] and '"sum ' in d["actual"]
    assert len(d["events"]) == 11


def test_another_input_hash(recorder, recording, events, edit):
    event = number_of(events(recording), "write", 0)
    edit(recording, event, "input")
    d = report(recorder, recording)
    assert (d["event"], d["kind"], d["call"]) == (event, "input", "write")
    assert '"what is summed up"' in d["actual"]
    hashes = [re.search(r"hashes to ([0-9a-f]{16})", d[key])[1] for key in ("expected", "actual")]
    assert hashes[0] != hashes[1]


def test_another_argument(recorder, recording, events, edit):
    event = number_of(events(recording), "lseek")
    edit(recording, event, "argument", 2, 5)
    d = report(recorder, recording)
    assert (d["event"], d["kind"]) == (event, "argument")
    assert "lseek(4, 5, SEEK_SET)" in d["expected"] and "argument 2 is 0x5" in d["expected"] and "lseek(4, 0, SEEK_SET)" in d["actual"]


@pytest.mark.parametrize("argument, told", [(1, "the number of such places that it has passed is {}"), (2, "the registers there hash to {:016x}")], ids=["place", "registers"])
def test_a_turn_that_was_given_away_elsewhere(recorder, targets, events, edit, argument, told):
    """Without a call nothing else would tell: the thread goes on, with what others have stored meanwhile."""
    recording = recorder.record([targets / "threads_pause"], name="it")
    recorder.verify(recording)
    pauses = [e for e in events(recording) if e.get("yield", "").startswith("at pause")]
    often = collections.Counter(e["thread"] for e in pauses).most_common(1)[0][0]  # which thread waits differs from run to run
    before, given = [e for e in pauses if e["thread"] == often][-2:]
    was = given["arguments"][argument - 1]
    other = before["arguments"][0] if argument == 1 else was - 1  # passed already: the turn is given away too early
    edit(recording, given["event"], "argument", argument, other)
    d = report(recorder, recording)
    assert (d["event"], d["kind"]) == (given["event"], "argument")
    assert told.format(other) in d["expected"]
    assert argument == 1 or told.format(was) in d["actual"]


def test_an_event_that_is_gone(recorder, recording, events, edit):
    event = number_of(events(recording), "read", -1)
    edit(recording, event, "drop")
    d = report(recorder, recording)
    assert (d["event"], d["kind"]) == (event, "call")
    assert "getppid()" in d["expected"] and "read(4, " in d["actual"] and functions(d)[1] == "main"


def test_the_last_event_is_gone(recorder, recording, events, edit):
    last = events(recording)[-1]["event"]
    edit(recording, last, "drop")
    d = report(recorder, recording)
    assert (d["event"], d["kind"], d["call"]) == (last, "end", "exit_group")
    assert "no more events: the program exited with 0" == d["expected"] and "exit_group(0)" in d["actual"]


def test_a_thread_that_is_gone(recorder, targets, events, edit):
    """Without the clone that made it, a thread's first event belongs to nobody."""
    recording = recorder.record([targets / "threads"], name="it")
    clone = number_of(events(recording), "clone", 0)
    edit(recording, clone, "drop")
    assert report(recorder, recording)["event"] == clone


def test_a_crash_that_is_not_recorded(recorder, targets, events, edit):
    """A program that trusts what it read dies of it: where, and what it should have done instead."""
    recording = recorder.record([targets / "diverge", "pointer"], name="it")
    recorder.verify(recording)
    edit(recording, number_of(events(recording), "read", -1), "byte", 7)  # a high byte of an address
    d = report(recorder, recording)
    assert (d["kind"], d["call"]) == ("end", "SIGSEGV")
    assert functions(d)[:2] == ["follow", "main"]
    assert "dies of SIGSEGV" in d["actual"] and "getppid()" in d["expected"]


def test_a_crash_that_does_not_happen_again(recorder, targets, events, edit):
    recording = recorder.record([targets / "diverge", "zero"], name="it")
    recorder.verify(recording)
    reads = [event["event"] for event in events(recording) if event.get("call") == "read" and event["result"] == 1]
    edit(recording, reads[-1], "byte", 0)
    d = report(recorder, recording)
    assert (d["kind"], d["call"]) == ("end", "getppid")
    assert d["expected"] == "no more events: the program was killed by SIGFPE" and "getppid()" in d["actual"]


@pytest.mark.parametrize("options", [(), ("--no-patch",)])
@pytest.mark.parametrize("how", ["fault", "divide", "illegal", "bus", "overflow"])
def test_a_crash_at_another_instruction(recorder, targets, how, options):
    """Where the program died is part of what is replayed: by the same signal, after the same events, but elsewhere is not the same."""
    recording = recorder.record([targets / "crash", how], name="it", options=options)
    recorder.verify(recording)
    trace = recording.path / "nodes/0/trace"
    with open(trace, "r+b") as file:
        file.seek(FAULTED_AT)
        place = int.from_bytes(file.read(8), "little")
        assert place
        file.seek(FAULTED_AT)
        file.write((place - 1).to_bytes(8, "little"))
        file.seek(CHECKSUM)
        file.write(bytes(8))  # there is none
    d = report(recorder, recording)
    assert d["kind"] == "end" and functions(d)[0] == "main"
    assert d["expected"].endswith(f"{d['call']} at {place - 1:#x}") and d["actual"] == f"thread 0 dies of {d['call']} at {place:#x}"


def test_nondeterminism_of_the_program(recorder, targets):
    """A time stamp taken by code that was made at run time is seen by nobody; what was computed from it is."""
    recording = recorder.record([targets / "diverge", "tsc"], name="it")
    d = report(recorder, recording, same_twice=False)
    assert d["call"] == "write" and functions(d)[1:3] == ["tell", "main"]


def test_in_scripts_and_the_console(recorder, recording, events, edit, tmp_path):
    edit(recording, number_of(events(recording), "read", -1), "byte", 3)
    d = report(recorder, recording)
    script = tmp_path / "script.py"
    script.write_text("""
import json
import friday
try:
    friday.session.run()
except friday.Divergence as e:
    keys = ("node", "node_name", "thread", "event", "kind", "call", "logical_time", "real_time", "mark", "expected", "actual")
    about = {key: getattr(e, key) for key in keys}
    about["chain"] = [(p.function, p.module, p.file, p.line, str(p)) for p in e.chain]
    about["events"] = [(n.index, n.differs, n.text) for n in e.events]
    about["text"] = str(e)
    print(json.dumps(about))
    raise
""")
    done = recorder.run([recorder.friday, "run", script, recording.path])
    assert done.returncode == 3, done
    about = json.loads(done.stdout)
    for key in ("node", "thread", "event", "kind", "call", "logical_time", "real_time", "mark", "expected", "actual", "text"):
        assert about[key] == d[key], key
    assert about["node_name"] == "it"
    assert [tuple(place) for place in about["chain"]] == [(p.get("function", ""), p.get("module", ""), p.get("file", ""), p.get("line", 0), p["text"]) for p in d["chain"]]
    assert [tuple(event) for event in about["events"]] == [(e["index"], e["differs"], e["text"]) for e in d["events"]]
    assert d["text"].strip() in done.stderr
    batch = tmp_path / "batch"
    batch.write_text("continue\n")
    done = recorder.run([recorder.friday, "replay", recording.path, "--batch", "-x", batch])
    assert done.returncode == 3 and d["text"].strip() in done.stdout + done.stderr, done


def test_a_recording_that_was_cut_off(recorder, targets):
    """What was recorded repeats; that it is not all the program did is said."""
    recording = recorder.record([targets / "unhandled"], name="it")
    cut = json.loads(recorder.verify(recording, "--json").stdout)["nodes"][0]["cut_off"]
    assert cut.startswith("recording ended at call seccomp (317), SECCOMP_SET_MODE_FILTER, which sets a seccomp filter")
    assert f"node 0 it: as far as it was recorded: {cut}\n" in recorder.verify(recording).stdout
    whole = recorder.record([targets / "calls"], name="it")
    assert "cut_off" not in json.loads(recorder.verify(whole, "--json").stdout)["nodes"][0]
    assert "as far as" not in recorder.verify(whole).stdout


def test_many_replays_of_one_recording(recorder, targets):
    recording = recorder.record([targets / "threads"], name="it")
    once = json.loads(recorder.verify(recording, "--hash", "--json").stdout)
    many = json.loads(recorder.verify(recording, "--times", "20", "--json").stdout)
    assert many["runs"] == 20 and many["nodes"] == once["nodes"]
    assert "20 times alike, 1 node," in recorder.verify(recording, "--times", "20").stdout


def test_the_first_replay_that_differs_is_named(recorder, targets):
    """Its memory holds a time stamp that no recorder sees, so no two replays are the same, though every call is."""
    recording = recorder.record([targets / "diverge", "silent"], name="it")
    recorder.verify(recording)
    done = recorder.replay(recording, "--times", "3")
    assert done.returncode == 3
    assert "run 2 of 3 differs" in done.stdout and "node 0 (it): the hash of its memory is" in done.stdout


@pytest.mark.full
@pytest.mark.limit(900)
def test_a_thousand_replays(recorder, targets):
    recording = recorder.record([targets / "threads"], name="it")
    assert json.loads(recorder.verify(recording, "--times", "1000", "--json", timeout=850).stdout)["runs"] == 1000



# A word is changed behind the program's back, as a fault of the replay would; only what it writes at its end depends on it.
ALTER = """
import sys
import friday
friday.session.goto({at})
{change}
try:
    friday.session.run()
except friday.Divergence as e:
    print(e.kind, e.event, e.actual, e.message.splitlines()[0], sep="|")
    raise
"""


@pytest.fixture
def altered(recorder, tmp_path):
    """altered(recording, event, change): what the divergence says after `change` was done before the event."""
    def altered(recording, at, change):
        script = tmp_path / "alter.py"
        script.write_text(ALTER.format(at=at, change=change))
        done = recorder.run([recorder.friday, "run", script, recording.path])
        assert done.returncode == 3, done
        kind, event, actual, first = done.stdout.splitlines()[0].split("|")
        assert "altered" in first
        return kind, int(event), actual
    return altered


DATA = "friday.session.nodes[0].write('sum', 7)"
STACK = """friday.session.nodes[0].gdb("frame function main")
friday.session.nodes[0].gdb("set var text[0] = 1")"""


@pytest.mark.parametrize("options", [(), ("--state-hash",), ("--state-hash=1",)])
def test_state_hash_finds_altered_data(recorder, targets, events, altered, options):
    """The writable data is looked at piece by piece; without the hash it is seen when the sum is written."""
    recording = recorder.record([targets / "diverge", "long"], name="it", options=options)
    recorder.verify(recording)
    calls = events(recording)
    first, last = number_of(calls, "getppid", 0), number_of(calls, "getppid", -1)
    assert last - first == 9999
    kind, event, actual = altered(recording, first + 20, DATA)
    if options:
        assert kind == "state" and event < first + (2000 if options == ("--state-hash",) else 200)
        assert "bytes of data at 0x" in actual
    else:
        assert kind in ("input", "argument") and event == last + 1


def test_state_hash_finds_an_altered_stack_at_once(recorder, targets, events, altered):
    recording = recorder.record([targets / "diverge", "long"], name="it", options=["--state-hash=1"])
    at = number_of(events(recording), "getppid", 0) + 20
    kind, event, actual = altered(recording, at, STACK)
    assert (kind, event) == ("state", at) and "256 bytes above the stack pointer" in actual


def test_state_hash_looks_at_all_memory_at_the_end(recorder, targets, events, altered):
    """What no call reads any more, and no piece that was looked at held."""
    recording = recorder.record([targets / "diverge", "long"], name="it", options=["--state-hash=1000000"])
    recorder.verify(recording)
    end = number_of(events(recording), "exit_group", 0)
    kind, event, actual = altered(recording, end, DATA)
    assert (kind, event) == ("state", end) and "bytes of data at 0x" in actual


@pytest.mark.parametrize("command", [
    ["threads"], ["threads_many"], ["threads_pause"], ["workers"], ["signals_order"], ["signals_jump"], ["fork_many"], ["execs", "2"], ["exceptions"],
    ["load_library"], ["sockets_tcp"], ["aio"], ["memory"]], ids=" ".join)
def test_state_hash_at_every_call_agrees(recorder, targets, command):
    """What is hashed is the program's own and is there again at replay, word for word: its registers, its stack, its data."""
    recording = recorder.record([targets / command[0], *command[1:]], options=["--state-hash=1"])
    recorder.verify(recording)


def test_state_hash_of_a_shell(recorder):
    recording = recorder.record(["/bin/bash", "-c", "for i in 1 2 3; do x=$(head -c 10 /etc/hostname | cat); (cd /; [ -x /bin/ls ]); done"],
                                options=["--state-hash=1"])
    recorder.verify(recording)


@pytest.mark.parametrize("limit, cause", [
    ("private", r"node 0 mapped \S+unseen-\w+ \(deleted\) privately \(event \d+\), and node 0 \(it\) wrote to the file afterwards \(event \d+\)"),
    ("code", r"node 0 makes code at run time \(event \d+\); what `rdtsc`"),
    ("killed", r"node 0 shares memory with processes that were killed, .* was not recorded: node 1 \(it/child-1\)$"),
], ids=["private", "code", "killed"])
def test_a_documented_limit_that_was_met_is_named(limit, cause, recorder, targets, tmp_path):
    if limit == "killed":
        running = recorder.start_record([targets / "unseen", limit], name="it", cwd=tmp_path)
        told = tmp_path / "child"
        wait_until(lambda: told.exists() and told.read_text().endswith("\n"), "the child does not run")
        child = int(told.read_text())
        stat = lambda: int(open(f"/proc/{child}/stat").read().rsplit(")", 1)[1].split()[11])  # noqa: E731
        wait_until(lambda: stat() >= 5, "the child does not compute")  # in its user mode for some clock ticks
        os.kill(child, signal.SIGKILL)
        recording = recorder.finish_record(running)
    else:
        recording = recorder.record([targets / "unseen", limit], name="it", cwd=tmp_path)
    told = recorder.replay(recording)
    assert told.returncode == 3 and re.search("^This may be why: " + cause, told.stdout, re.M), told.stdout
    assert "None of the limits" not in told.stdout


def test_without_a_limit_that_was_met_none_is_named(recorder, recording, events, edit):
    edit(recording, number_of(events(recording), "lseek"), "argument", 2, 5)
    told = recorder.replay(recording).stdout
    assert "None of the limits in `friday help determinism` was seen to be the cause." in told and "This may be why" not in told
