"""The forms in which one session is used: a plain interpreter cell by cell, also typed at its prompt, and pytest with its plugin."""

import json
import os
import re
import xml.etree.ElementTree as xml

import pytest
from console_support import Terminal
from debug_support import BUILD, friday, workers  # noqa: F401

pytestmark = pytest.mark.limit(90)
WRITES = 100  # of workers: each of its four threads adds 25 times


@pytest.fixture
def environment(recorder):
    """What a user sets, and nothing else of Python's."""
    said = recorder.run([recorder.friday, "--python-path"])
    assert said.returncode == 0 and os.path.isdir(said.stdout.strip())
    return {"PYTHONPATH": said.stdout.strip(), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}


def test_version(recorder, environment):
    """The command's, the package's and that of its metadata, from one place."""
    code = "import friday, importlib.metadata as m; print(m.version('friday'), friday.__version__)"
    package = recorder.run(["/usr/bin/python3", "-c", code], env=environment)
    said = recorder.run([recorder.friday, "--version"])
    assert said.returncode == 0 and package.stdout.split() == [said.stdout.strip()] * 2


# -- a plain interpreter ----------------------------------------------------------------------------------------------
CELLS = ["import friday",
         "session = friday.open({path!r})",
         "seen, ticks = [], []",
         "watch = session.watch('total')(lambda hit: seen.append((hit.node.name, hit.old, hit.new)))",
         "timer = session.every(seconds=0.0001)(lambda: ticks.append(session.logical_time))",
         "end = session.at_end(lambda: seen.append('end'))",
         "point = session.breakpoint('turn', temporary=True)",
         "stop = session.run()",
         "print(stop.kind, stop.location.split(' (')[0], session.node.read('number') in range(1, 5))",
         "print(friday.session is session, session.nodes['workers'].call('nested_of', 5))",
         "print(session.run().kind, len(seen), seen[-1], len(ticks) > 3)",
         "session.restart(); seen.clear()",
         "print(session.run_until(lambda: session.nodes[0].read('total') > 20)[1].holds, session.nodes[0].read('total') > 20)",
         "session.execute('x = @(total) + 1'); print(session.namespace['x'] == session.nodes[0].read('total') + 1)",
         "session.close()"]
SAID = ["breakpoint turn", "True", f"end {WRITES + 1} end True", "True True", "True"]


def test_cells_in_a_plain_interpreter(recorder, workers, environment):
    """Each cell is executed apart, as a notebook does."""
    cells = [cell.format(path=str(workers.path)) for cell in CELLS]
    done = recorder.run(["/usr/bin/python3", "-c", f"space = {{}}\nfor cell in {cells!r}: exec(compile(cell, 'cell', 'exec'), space)"], env=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(SAID) and all(line.startswith(said) for line, said in zip(lines, SAID)), lines
    recorder.none_left()


def test_typed_at_the_prompt(recorder, workers, environment):
    with Terminal(recorder, ["/usr/bin/python3", "-i", "-q"], env=environment, columns=300) as terminal:
        for cell in CELLS:
            terminal.expect("^>>> $")
            terminal.send(cell.format(path=str(workers.path)) + "\n")
            terminal.expect(re.escape(cell.format(path=str(workers.path))[-20:]) + "$")
        terminal.expect("^>>> $")
        terminal.send("import friday; s = friday.open(%r)\n" % str(workers.path))
        terminal.expect("^>>> $")
        terminal.send("p = s.breakpoint('turn', lambda: [None for _ in iter(int, 1)])\n")  # computes for ever
        terminal.expect("^>>> $")
        terminal.send("r = print('going') or s.run()\n")
        terminal.expect("^going$")
        terminal.send("\x03")
        shown = terminal.expect("^>>> $")
        assert "KeyboardInterrupt" in shown, shown
        terminal.send("p.delete(); s.run().kind, s.nodes[0].read('total')\n")
        terminal.expect(r"^\('end', 250\)$")
        terminal.expect("^>>> $")
        terminal.send("exit()\n")
        assert terminal.finish() == 0
    for said in SAID:
        assert re.search("^" + re.escape(said), terminal.raw.replace("\r", ""), re.M), said
    recorder.none_left()


# -- all forms --------------------------------------------------------------------------------------------------------
DECORATORS = """
counts = {"turn": 0, "total": 0, "tick": 0}
@session.breakpoint("turn", nodes="workers", condition="number == 1")
def turn(hit):
    counts[hit.location.split(" ")[0]] += 1
@session.watch("total")
def total():
    counts[session.hit.expression] += 1
@session.every(seconds=0.00002)
def tick():
    counts["tick"] += 1
@session.at_end
def end():
    print("counted", *counts.values())
"""


@pytest.mark.parametrize("form", ["friday run", "console", "pytest dialect", *(pytest.param(form, marks=pytest.mark.full) for form in (
    "friday run of a module", "console source", "interpreter", "pytest"))])
def test_decorators_mean_the_same_in_all_forms(recorder, workers, environment, form):
    place = recorder.directory / "forms"
    place.mkdir()
    (place / "deco.fri.py").write_text("import friday\nsession = friday.session\n" + DECORATORS)
    (place / "deco_script.py").write_text(DECORATORS if form != "friday run of a module" else "import deco\n")
    test = "def test(friday_session):\n    session = friday_session\n" + DECORATORS.replace("\n", "\n    ")
    (place / "test_deco.py").write_text(test)
    (place / "test_deco.fri.py").write_text(test)
    fed = {"console": f"python\n{DECORATORS}end\ncontinue\n", "console source": f"source {place}/deco_script.py\ncontinue\n"}.get(form)
    if fed is not None:
        (place / "input").write_text(fed)
    command = {"friday run": [recorder.friday, "run", place / "deco_script.py", workers.path], "console": [recorder.friday, "replay", workers.path, "-x", place / "input", "--batch"],
               "interpreter": ["/usr/bin/python3", "-c", f"import friday\nsession = friday.open({str(workers.path)!r})\n{DECORATORS}session.run()"],
               "pytest": ["/usr/bin/python3", "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--recording", workers.path,
                          place / ("test_deco.fri.py" if form == "pytest dialect" else "test_deco.py")]}[form.partition(" of")[0].partition(" source")[0].partition(" dialect")[0]]
    done = recorder.run(command, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"^\.?counted (\d+ \d+ \d+)", done.stdout, re.M)[1]
    with friday.Session(workers.path) as session:
        said = []
        space = {"session": session, "print": lambda word, *counts: said.extend(counts)}
        exec(DECORATORS, space)
        session.run()
    assert said[:2] == [25, WRITES] and said[2] > 2 and list(map(int, found.split())) == said


STOPS = """
seen = []
@session.watch("total")
def total(hit):
    seen.append(hit.new)
    if len(seen) == 7:
        friday.stop()
"""


@pytest.mark.parametrize("form", ["friday run", "pytest"])
def test_stop_in_a_decorators_handler_ends_the_run_there(recorder, workers, environment, form):
    script = recorder.directory / "stops.py"
    script.write_text(f"{STOPS}session.run()\nprint('at', len(seen), seen[-1] == session.nodes[0].read('total'), session.finished)\n")
    test = recorder.directory / "test_stops.py"
    test.write_text("import friday\ndef test(friday_session):\n    session = friday_session\n" + script.read_text().replace("\n", "\n    "))
    command = {"friday run": [recorder.friday, "run", script, workers.path],
               "pytest": ["/usr/bin/python3", "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--recording", workers.path, test]}[form]
    done = recorder.run(command, env=environment)
    assert done.returncode == 0 and "at 7 True False" in done.stdout, done.stdout + done.stderr


def test_what_was_altered_is_said_before_anything_that_is_found(recorder, workers, environment):
    script = recorder.directory / "alters.py"
    script.write_text('@session.breakpoint("turn", condition="number == 2")\ndef turn(hit):\n    hit.point.delete()\n    hit.node.write("total", 1000)\n'
                      '    friday.violation("mine", message="found")\n    friday.stop()\n')
    done = recorder.run([recorder.friday, "run", script, workers.path, "--json", recorder.directory / "f.json"], env=environment)
    report = json.loads((recorder.directory / "f.json").read_text())
    assert done.returncode == 1 and [(each["id"], each["name"]) for each in report["altered"]] == [(0, "workers")] and float(report["altered"][0]["since"]) >= 0, report
    lines = done.stderr.splitlines()
    first = next(i for i, line in enumerate(lines) if "was altered since" in line)
    assert "violation of mine" in lines[first + 1], done.stderr


# -- pytest -----------------------------------------------------------------------------------------------------------
ORDINARY = '''
import friday
import helpers
import pytest
from predicates.monotonic import Monotonic

def test_holds_and_is_run_to_its_end(friday_session):
    writes = []
    friday_session.watch("total", lambda: writes.append(1))
    friday_session.at_end(lambda: print("writes", len(writes), helpers.total()))

def test_predicate(friday_session):
    Monotonic(friday_session, counter="total")
    friday_session.every(lambda: friday.violation("of mine", message="told", x=1) if not friday_session.violations else None, seconds=0.0003)

def test_exception(friday_session):
    @friday_session.breakpoint("turn")
    def handler():
        friday.violation("before")
        return {}["absent"]
    friday_session.run()

def test_only_an_exit_is_looked_at(friday_session):
    @friday_session.at_exit
    def ends(stop):
        assert False, "it has ended"

def test_goes_somewhere_first(friday_session):
    friday_session.goto(10, node=0)
    @friday_session.watch("total")
    def small():
        assert friday_session.node.read("total") < 20

@pytest.mark.friday_sync("free")
@pytest.mark.friday_nodes("workers")
def test_markers(friday_session):
    assert friday_session.backend.sync() == "free" and friday_session.last_stop is None

@pytest.mark.friday_nodes("nobody")
def test_bad_marker(friday_session):
    pass

def test_of_no_recording():
    assert friday.session is None
'''
DIALECT = '''
import helpers

def total():
    return @(total)

def test_dialect(friday_session):
    limit = 20
    @friday_session.watch("total")
    def small():
        assert total() < limit
    watchpoint(["own"], "workers")
        cont

def test_plain_assertion(friday_session):
    friday_session.run()
    assert @"workers"(total) == 251
'''


def pytests(recorder, directory, environment, *options):
    """(exit code, what was printed, {name: (outcome, text)})."""
    done = recorder.run(["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=found.xml", *options, "."], cwd=directory, env=environment)
    found = {}
    for case in xml.parse(directory / "found.xml").getroot().iter("testcase"):
        kind = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        found[case.get("name")] = ("passed", "") if kind is None else (kind.tag, f"{kind.get('message')}\n{kind.text}")
    return done.returncode, done.stdout, found


@pytest.fixture
def suite(tmp_path):
    folder = tmp_path / "suite"
    folder.mkdir()
    for name, text in {"test_ordinary.py": ORDINARY, "test_dialect.fri.py": DIALECT, "helpers.fri.py": "def total():\n    return @(total)\n"}.items():
        (folder / name).write_text(text)
    return folder


def test_invariants_in_pytest(recorder, workers, environment, suite):
    code, out, found = pytests(recorder, suite, environment, "--recording", workers.path, "-rP")
    assert code == 1 and "writes 100 250" in out, out
    assert {name: outcome for name, (outcome, _) in found.items()} == {
        "test_holds_and_is_run_to_its_end[rec1]": "passed", "test_predicate[rec1]": "failure", "test_exception[rec1]": "failure",
        "test_only_an_exit_is_looked_at[rec1]": "failure", "test_goes_somewhere_first[rec1]": "failure",
        "test_markers[rec1]": "passed", "test_bad_marker[rec1]": "error", "test_of_no_recording": "passed",
        "test_dialect[rec1]": "failure", "test_plain_assertion[rec1]": "failure"}, out
    text = {name.partition("[")[0]: text for name, (_, text) in found.items()}
    assert "violation of of mine on node 0 (workers)" in text["test_predicate"] and "x = 1" in text["test_predicate"]
    assert "KeyError: 'absent'" in text["test_exception"] and "in the handler of breakpoint 1 (turn) on node 0" in text["test_exception"]
    assert "sessions.py" not in text["test_exception"] and "violation of before" in out
    assert 'no node matches "nobody"' in text["test_bad_marker"] and "another exception" not in text["test_bad_marker"]
    small = text["test_dialect"]
    for said in ("violation of small", r"assert \d+ < 20\n \+  where \d+ = total\(\)", "test_dialect.fri.py:11: assert total", r"#0  turn \(", r"and \d+ more of small"):
        assert re.search(said, small), small
    assert 'assert @"workers"(total) == 251' in text["test_plain_assertion"] and "assert 250 == 251" in text["test_plain_assertion"]
    recorder.none_left()


@pytest.mark.full
def test_installed(recorder, workers, suite):
    """From a directory of its own, with nothing of the build, and all libraries but glibc's; the plugin may also be named."""
    place = recorder.directory / "installed"
    done = recorder.run(["cmake", "--install", BUILD, "--prefix", place])
    assert done.returncode == 0, done.stderr
    found = {str(path.relative_to(place)) for path in place.rglob("*")}
    assert {"bin/friday", "lib/friday-shim.so", "lib/friday-stub", "python/friday/__init__.pyi", "python/friday/py.typed", "python/predicates/leader.py"} <= found
    assert not [path for path in place.rglob("*") if path.is_symlink() and not path.resolve().is_relative_to(place) or path.name == "__pycache__"]
    loaded = recorder.run([place / "bin" / "friday"], env={"LD_TRACE_LOADED_OBJECTS": "1"}).stdout
    others = [line.split()[0] for line in loaded.splitlines() if "=>" in line and f"{place}/" not in line]
    assert "libpython3" in loaded and set(others) <= {"libc.so.6", "libm.so.6"}, loaded
    path = recorder.run([place / "bin" / "friday", "--python-path"]).stdout.strip()
    assert path == str(place / "python")
    code, out, cases = pytests(recorder, suite, {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}, "-p", "friday.pytest_plugin",
                               "--recording", workers.path, "-k", "holds")
    assert code == 0 and list(cases.values()) == [("passed", "")], out
    recording = recorder.directory / "rec"
    assert recorder.run([place / "bin" / "friday", "record", "-o", recording, "--", "/bin/echo", "installed"]).stdout == "installed\n"
    assert recorder.run([place / "bin" / "friday", "verify", recording]).returncode == 0


def test_each_recording_and_none(recorder, workers, environment, suite):
    (suite / "other").symlink_to(workers.path)
    code, out, found = pytests(recorder, suite, environment, "--recording", workers.path, "--recording", "other", "-k", "markers")
    assert code == 0 and list(found) == ["test_markers[rec1]", "test_markers[other]"], out
    code, out, found = pytests(recorder, suite, environment, "-k", "markers")
    assert code == 0 and "no recording: pytest --recording REC" in found["test_markers"][1], out
    (suite / "conftest.py").write_text(f"import pytest\n@pytest.fixture\ndef friday_recording(): return {str(workers.path)!r}\n")
    assert pytests(recorder, suite, environment, "-k", "markers")[2] == {"test_markers": ("passed", "")}
    (suite / "test_wrong.fri.py").write_text("def test():\n    @(x += 1)\n")
    code, out, _ = pytests(recorder, suite, environment, "--recording", workers.path)
    assert code == 2 and "test_wrong.fri.py:2: " in out and "@(x += 1)" in out
