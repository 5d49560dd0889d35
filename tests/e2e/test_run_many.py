"""`friday run` of several scripts on several recordings: one process each, a summary, JSON and JUnit, and every way to end early."""

import json
import os
import pathlib
import re
import signal
import xml.etree.ElementTree as xml

import pytest
from conftest import wait_until
from console_support import Terminal
from debug_support import workers  # noqa: F401

pytestmark = pytest.mark.limit(90)

HOLDS = "import sys\nimport helper\nassert sys.argv[1:] == ['--word', 'x'], sys.argv\nseen = []\n@session.watch('total')\ndef total():\n    seen.append(helper.total())\n" \
        "@session.at_end\ndef end():\n    print('writes', len(seen))\n"
FAILS = "@session.watch('total')\ndef small():\n    assert @(total) < 20\n"
# Says that it is there, then computes for ever inside a handler.
LOOPS = "import os\n@session.watch('total')\ndef loop():\n    print('pid', os.getpid(), flush=True)\n    while True: pass\n"


@pytest.fixture
def scripts(tmp_path):
    """A directory with the scripts, and with several names for one recording."""
    for name, text in {"holds.py": HOLDS, "fails.py": FAILS, "loops.py": LOOPS, "bad.py": "1 / 0\n",
                       "helper.fri.py": "def total(): return @(total)\n"}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def suite_of(scripts, workers):
    """A directory of recordings."""
    (scripts / "suite").mkdir()
    (scripts / "suite" / "one").symlink_to(workers.path)
    return scripts / "suite"


def links(scripts, workers, *names):
    for name in names:
        (scripts / name).symlink_to(workers.path)
    return [scripts / name for name in names]


def test_scripts_on_recordings(recorder, scripts, workers):
    a, b = links(scripts, workers, "a", "b")
    (scripts / "empty").mkdir()
    done = recorder.run([recorder.friday, "run", scripts / "holds.py", "-s", scripts / "fails.py", "-s", scripts / "bad.py", a, b, scripts / "empty", "-j", "2",
                         "--json", scripts / "found.json", "--junit", scripts / "found.xml", "--", "--word", "x"])
    assert done.returncode == 2, done.stderr
    assert "suite is not a recording, but holds some, such as " in recorder.run([recorder.friday, "info", suite_of(scripts, workers)]).stderr
    assert sorted(done.stdout.splitlines()) == ["[holds.py a] writes 100", "[holds.py b] writes 100"]
    summary = done.stderr.splitlines()[-10:]
    assert [line.split()[2] for line in summary[:9]] == ["held", "held", "bad"] + ["violated", "violated", "bad"] + ["bad"] * 3
    assert summary[6].endswith("ZeroDivisionError: division by zero") and summary[9].endswith(": 2 held, 2 violated, 5 bad input")
    report = json.loads((scripts / "found.json").read_text())
    runs = {(pathlib.Path(run["script"]).name, pathlib.Path(run["recording"]).name): run for run in report["runs"]}
    assert report["exit"] == 2 and len(runs) == 9 and all(run["seconds"] > 0 for run in runs.values())
    assert {run["outcome"] for run in runs.values()} == {"held", "violated", "bad input"}
    violations = runs["fails.py", "a"]["violations"]
    assert violations == runs["fails.py", "b"]["violations"] and violations[0]["predicate"] == "small"
    assert violations[0]["values"]["total"]["new"] >= 20 and "turn (" in violations[0]["backtraces"]["workers"]
    assert done.stderr.count("violation of small") == 2 and f"[fails.py a] friday: {len(violations) - 1} more of small" in done.stderr
    suites = xml.parse(scripts / "found.xml").getroot()
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("9", "2", "5")
    recorder.none_left()


def test_one_run_at_its_first_violation(recorder, scripts, workers):
    done = recorder.run([recorder.friday, "run", scripts / "fails.py", workers.path, "--stop-at-first", "--json", scripts / "one.json", "--junit", scripts / "one.xml"])
    report = json.loads((scripts / "one.json").read_text())
    assert done.returncode == 1 and report["outcome"] == "violated" and len(report["violations"]) == 1 and "runs" not in report
    assert done.stderr.count("violation of small") == 1 and xml.parse(scripts / "one.xml").getroot().get("failures") == "1"


def test_a_flood_is_counted_and_each_violation_has_its_mark(recorder, scripts, workers):
    done = recorder.run([recorder.friday, "run", scripts / "fails.py", workers.path, "--json", scripts / "j.json"])
    violations = json.loads((scripts / "j.json").read_text())["violations"]
    assert done.returncode == 1 and len(violations) > 30 and done.stderr.count("violation of small") == 20
    assert [f"stands at {violation['mark']}" in done.stderr for violation in violations] == [True] * 20 + [False] * (len(violations) - 20)
    assert done.stderr.endswith(f"friday: {len(violations) - 20} more of small\nfriday: violated {len(violations)}; its stop points were hit 100 times\n")


def test_the_end_says_what_was_hit(recorder, scripts, workers):
    """A watch that never fires looks like one that held, so what was hit is said, and what was not."""
    (scripts / "some.py").write_text("seen = session.watch('total', lambda: None)\nnever = session.breakpoint('abort', lambda: None)\n")
    (scripts / "none.py").write_text("never = session.breakpoint('abort', lambda: None)\n")
    (scripts / "without.py").write_text("print('looked')\n")

    def ends(*options):
        done = recorder.run([recorder.friday, "run", *options, "--json", scripts / "j.json"])
        assert done.returncode == 0, done.stderr
        return done.stderr, json.loads((scripts / "j.json").read_text())
    said, report = ends(scripts / "some.py", workers.path)
    assert "friday: held: nothing was violated; its stop points were hit 100 times\nfriday: never hit: breakpoint 2 (abort)\n" in said
    assert report["hits"] == 100 and report["never_hit"] == ["breakpoint 2 (abort)"]
    assert "its stop points were never hit, so nothing was checked at them\nfriday: never hit: breakpoint 1 (abort)\n" in ends(scripts / "none.py", workers.path)[0]
    assert "held: nothing was violated; it had no stop points\n" in ends(scripts / "without.py", workers.path)[0]
    said, report = ends(scripts / "some.py", "-s", scripts / "none.py", workers.path)
    assert "[some.py] friday: never hit: breakpoint 2 (abort)\n" in re.sub(r"\[(\S+) \S+\]", r"[\1]", said) and [run["hits"] for run in report["runs"]] == [100, 0]


def test_each_run_of_many_at_its_first_violation(recorder, scripts, workers):
    done = recorder.run([recorder.friday, "run", scripts / "fails.py", *links(scripts, workers, "a", "b"), "--stop-at-first", "--json", scripts / "two.json"])
    assert done.returncode == 1 and [len(run["violations"]) for run in json.loads((scripts / "two.json").read_text())["runs"]] == [1, 1]


def test_a_killed_run_is_named_and_the_others_go_on(recorder, scripts, workers):
    a, b, c = links(scripts, workers, "a", "b", "c")
    running = recorder.start([recorder.friday, "run", scripts / "loops.py", a, b, "-j", "2"])
    pids = dict(line.split()[0::2] for line in (running.process.stdout.readline(), running.process.stdout.readline()))
    os.kill(int(pids["[a]"]), signal.SIGKILL)
    while "[a] died" not in (line := running.process.stderr.readline()):
        assert line
    os.kill(int(pids["[b]"]), signal.SIGINT)  # an ordinary end
    done = running.finish()
    assert done.returncode == 4 and "2 runs in" in done.stderr and done.stderr.rstrip().endswith("1 died, 1 interrupted")
    assert "the process of this run died: killed by signal 9 (SIGKILL)" in done.stderr
    recorder.none_left()


def test_nobody_is_left_when_the_batch_itself_is_killed(recorder, scripts, workers):
    running = recorder.start([recorder.friday, "run", scripts / "loops.py", *links(scripts, workers, "a", "b"), "-j", "2"])
    assert running.process.stdout.readline() and running.process.stdout.readline()
    running.process.kill()
    recorder.none_left()
    wait_until(lambda: not replayed(workers), "replayed processes are left", 10)


def test_ctrl_c_at_a_terminal_ends_all(recorder, scripts, workers):
    with Terminal(recorder, [recorder.friday, "run", scripts / "loops.py", *links(scripts, workers, "a", "b", "c"), "-j", "2", "--json", scripts / "j.json"]) as terminal:
        terminal.expect(r"^\[[ab]\] pid \d+$")
        terminal.expect(r"^\[[ab]\] pid \d+$")
        terminal.expect(r"0 of 3 done")
        terminal.send("\x03")
        terminal.expect(r"^3 runs in .*: 2 interrupted, 1 not run$")
        assert terminal.finish() == 2
    assert [run["outcome"] for run in json.loads((scripts / "j.json").read_text())["runs"]] == ["interrupted", "interrupted", "not run"]
    recorder.none_left()
    wait_until(lambda: not replayed(workers), "replayed processes are left", 10)


def replayed(recording):
    """Processes that have files of a recording in memory."""
    name, left = str(recording.path).encode(), []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid() and name in (entry / "maps").read_bytes():
                left.append(entry.name)
        except OSError:
            pass
    return left
