"""Many runs at a time: what a batch makes of what the processes of its runs say, print and die of."""
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import textwrap
import xml.etree.ElementTree as xml

import pytest
from fake_backend import Event, FakeBackend

import friday
from friday import reports
from friday.batch import Batch
from friday.reports import Outcome
from friday.runner import main

TELL = "import os, sys, json, time\ntell = lambda m: os.write(int(sys.argv[1]), (json.dumps(m) + '\\n').encode())\n"
END = "tell({'end': {'code': %d, 'word': %r, 'error': %r, 'altered': [], 'dropped': 0, 'points': 0, 'hits': 0, 'never_hit': []}})\n"
HELD = END % (0, "held", "")


def batch(texts, jobs=2):
    """Runs of Python texts that speak to the batch as a process of `friday run` does: (outcomes, labels)."""
    runs = [Outcome("s.py", f"rec{i}") for i in range(len(texts))]
    made = Batch(runs, lambda run, fd: ["/usr/bin/python3", "-c", TELL + textwrap.dedent(texts[runs.index(run)]), str(fd)])
    made.run(jobs)
    return runs, made.labels


def test_all_that_runs_say_and_print(capfd):
    violation = {"predicate": "p", "message": "broken"}
    runs, labels = batch([
        "print('to out', flush=True)\nprint('half', end='', file=sys.stderr)\n" + HELD,
        f"tell({{'progress': [0.5, 10.0]}})\ntell({{'violation': {violation}, 'text': 'the text'}})\n" + END % (1, "violated", ""),
        END % (3, "diverged", "friday: diverged: node 1\nmore"), END % (7, "exit 7", "")])
    assert labels == ["rec0", "rec1", "rec2", "rec3"]
    assert [(run.code, run.word, run.summary) for run in runs] == [
        (0, "held", "held"), (1, "violated", "violated 1"), (3, "diverged", "diverged"), (7, "exit 7", "exit 7")]
    assert runs[1].violations == [violation] and runs[1].texts == ["the text"] and sorted(runs[0].output.split("\n")) == ["", "half", "to out"]
    out, err = capfd.readouterr()
    assert out == "[rec0] to out\n" and "[rec0] half\n" in err and re.search(r"\[rec1\] violated 1 in \d+\.\d s \(\d of 4\)\n", err)
    assert reports.worst(runs) == 7
    lines = reports.summary_lines(runs, labels, 1.0)
    assert re.fullmatch(r"rec2  diverged +\d+\.\d s  diverged: node 1", lines[2])
    assert lines[-1] == "4 runs in 1.0 s: 1 held, 1 violated, 1 diverged, 1 exit 7"


def test_a_run_that_dies_is_named_and_keeps_what_it_found(capfd):
    runs, _ = batch(["tell({'violation': {'predicate': 'p'}, 'text': 't'})\nos.kill(os.getpid(), 9)", HELD, "sys.exit(5)"])
    assert [run.word for run in runs] == ["died", "held", "died"] and reports.worst(runs) == reports.DIED
    assert "killed by signal 9 (SIGKILL)" in runs[0].error and len(runs[0].violations) == 1 and runs[0].summary == "violated 1, died"
    assert "ended with 5 without a report" in runs[2].error


def test_output_of_a_process_that_outlives_its_run_is_not_waited_for():
    """The pipe of a dead run may be held open by what it started."""
    runs, _ = batch(["import subprocess\nchild = subprocess.Popen(['/bin/sleep', '60'])\nprint(child.pid, flush=True)\n" + HELD])
    assert runs[0].word == "held" and runs[0].seconds < 50
    os.kill(int(runs[0].output), signal.SIGKILL)


def test_no_more_than_so_many_at_a_time(tmp_path):
    text = (f"open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w')\ntime.sleep(0.05)\nprint(len(os.listdir({str(tmp_path)!r})))\n"
            f"os.remove({str(tmp_path)!r} + '/' + str(os.getpid()))\n" + HELD)
    runs, _ = batch([text] * 6, jobs=2)
    assert all(run.word == "held" and int(run.output) <= 2 for run in runs)


# A batch in a process of its own, for signals.
SCRIPT = """
import sys
sys.path.insert(0, {unit!r})
import test_batch
runs, labels = test_batch.batch([{texts}], jobs=2)
for run in runs:
    print(run.word, '|', run.error, file=sys.stderr)
"""
WAITS = """
try:
    print('up', flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    tell({'end': {'code': 2, 'word': 'interrupted', 'error': 'friday: interrupted', 'altered': [], 'dropped': 0, 'points': 0, 'hits': 0, 'never_hit': []}})
"""
DEAF = "import signal\nsignal.signal(2, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)\n"


def batch_process(texts):
    return subprocess.Popen(["/usr/bin/python3", "-c", SCRIPT.format(unit=str(pathlib.Path(__file__).parent), texts=texts)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("numbers", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM, signal.SIGINT], [signal.SIGHUP, signal.SIGTERM]])
def test_signals_end_all_runs(numbers):
    """The first one asks; the second kills who does not listen. What was not begun is said to be so."""
    process = batch_process("test_batch.WAITS, test_batch.DEAF, test_batch.HELD")
    up = [process.stdout.readline(), process.stdout.readline()]
    assert sorted(up) == ["[rec0] up\n", "[rec1] up\n"]
    process.send_signal(numbers[0])
    while "rec0] interrupted" not in (line := process.stderr.readline()):
        assert line, "it ended without an answer"
    process.send_signal(numbers[1])
    out, err = process.communicate(timeout=30)
    assert err.splitlines()[-3:] == ["interrupted | friday: interrupted", "interrupted | interrupted: killed by signal 9 (SIGKILL)",
                                "not run | interrupted before it began"], out + err


def test_a_reader_that_goes_away_ends_all_runs():
    """As in `friday run ... | head -1`."""
    process = batch_process("'while True: print(1, flush=True)', test_batch.WAITS")
    assert process.stdout.readline().endswith(("] 1\n", "] up\n"))
    process.stdout.close()
    err = process.communicate(timeout=30)[1]
    assert not re.search("^Traceback", err, re.M) and [line.split(" | ")[0] for line in err.splitlines()[-2:]] == ["interrupted", "interrupted"], err


@pytest.mark.parametrize("paths, scripts, labels", [
    (["/x/a", "/y/b"], ["s.py"], ["a", "b"]), (["/x/a", "/y/a", "b/"], ["s.py"], ["/x/a", "/y/a", "b"]),
    (["/x/a"], ["p/s.py", "q/t.py"], ["s.py a", "t.py a"]), (["/x/a"], ["p/s.py", "q/s.py"], ["p/s.py a", "q/s.py a"])])
def test_labels_tell_runs_apart(paths, scripts, labels):
    assert Batch([Outcome(script, path) for script in scripts for path in paths], lambda run, fd: []).labels == labels


# -- reports ----------------------------------------------------------------------------------------------------------
def outcome(code, *, error="", word="", violations=(), **more):
    run = Outcome("s.py", more.pop("recording", "rec"), **more)
    run.ended(code, error, word)
    run.violations, run.texts = list(violations), [f"text of {v['message']}" for v in violations]
    return run


def test_junit(tmp_path):
    bad = {"predicate": "leader", "message": "two leaders \x01<&\ud800"}
    path = tmp_path / "report.xml"
    reports.write_junit(path, [
        outcome(0, recording="a", seconds=1.5, output="said \x1b[1m"), outcome(1, recording="b", violations=[bad] * 25, dropped=3, seconds=1),
        outcome(3, recording="c", error="friday: diverged: x\n- a\n+ b"), outcome(2, recording="d", word="not run", error="interrupted before it began"),
        outcome(4, recording="e", violations=[bad], error="gdb has died"), outcome(1, recording="f")])
    suites = xml.parse(path).getroot()
    assert {k: suites.get(k) for k in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "6", "failures": "2", "errors": "3", "skipped": "1", "time": "2.500"}
    cases = {case.get("name"): case for case in suites.iter("testcase")}
    assert list(cases) == list("abcdef") and all(case.get("classname") == "s.py" for case in cases.values())
    assert cases["a"].find("system-out").text == "said \\x1b[1m" and len(cases["a"]) == 1
    failure = cases["b"].find("failure")
    assert failure.get("type") == "leader" and failure.get("message") == "violated 28; first: two leaders \\x01<&\\xd800"
    assert failure.text.count("text of two") == 20 and failure.text.endswith("and 8 more")
    assert cases["c"].find("error").get("type") == "diverged" and "+ b" in cases["c"].find("error").text
    assert cases["d"].find("skipped") is not None and {child.tag for child in cases["e"]} == {"failure", "error"}


def test_json_of_one_run_and_of_many(tmp_path):
    one = outcome(1, violations=[{"predicate": "p", "message": "m"}], seconds=1.23456)
    reports.write_json(tmp_path / "one", [one])
    first = json.loads((tmp_path / "one").read_text())
    assert first == {"script": "s.py", "recording": "rec", "exit": 1, "outcome": "violated", "error": None, "seconds": 1.23456, "altered": [],
                     "violations": one.violations, "violations_not_kept": 0, "hits": 0, "never_hit": []}
    reports.write_json(tmp_path / "two", [one, outcome(3, error="e")])
    both = json.loads((tmp_path / "two").read_text())
    assert both["exit"] == 3 and both["runs"][0] == first and both["runs"][1]["error"] == "e"


def test_what_keeps_a_run_from_beginning(tmp_path, capsys):
    assert main(["/no/script.py"], ["a", "b"], json_path=str(tmp_path / "j")) == 2
    report = json.loads((tmp_path / "j").read_text())
    assert [run["error"] for run in report["runs"]] == ["cannot read the script /no/script.py: No such file or directory"] * 2
    assert main([str(tmp_path)], ["a"]) == 2 and "Is a directory; the scripts come first" in capsys.readouterr().err
    (tmp_path / "s.py").write_text("")
    assert main([str(tmp_path / "s.py")], ["a"], junit_path="/no/dir/x") == 2
    assert capsys.readouterr().err == "friday: cannot write /no/dir/x: No such file or directory\n"


def test_stop_at_first(tmp_path):
    (tmp_path / "s.py").write_text("@session.breakpoint('f')\ndef g():\n    friday.violation('p')\n    friday.violation('q')\n"
                                   "@session.at_end\ndef end(): raise RuntimeError\n")
    session = friday.Session(FakeBackend(("a",), [Event(0, "f")] * 3))
    out = io.StringIO()
    assert friday.run_script(str(tmp_path / "s.py"), session, out=out, stop_at_first=True) == 1
    assert [violation.predicate for violation in session.violations] == ["p"] and session.backend.done == 1, out.getvalue()
