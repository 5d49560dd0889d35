"""The benchmarks run: short ones, whose numbers are worth nothing, but all of them are there and no page is touched."""

import json
import re

import pytest
from conftest import ROOT
from native_gdb import no_calls

pytestmark = pytest.mark.full


def run_quick(recorder, name, timeout):
    """The keys and values that `run.py NAME --quick` found; each has its row in a page."""
    found, page = recorder.directory / "numbers.json", recorder.directory / "page.md"
    page.write_text((ROOT / "docs" / "performance.md").read_text())
    docs = {file: file.read_bytes() for file in (ROOT / "docs").iterdir()}
    done = recorder.run(["/usr/bin/python3", ROOT / "tests" / "bench" / "run.py", name, "--quick", "--json", found, "--markdown", page],
                        timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {file: file.read_bytes() for file in (ROOT / "docs").iterdir()} == docs, "a short run is no result"
    recorder.none_left()
    numbers = json.loads(found.read_text())[name]
    assert set(re.findall(rf"^\| `{name}` \| `(\w+)` \|", page.read_text(), re.M)) == set(numbers)
    return numbers


def keys_of(recorder, name):
    script = f"import sys, json; sys.path.insert(0, {str(ROOT / 'tests' / 'bench')!r}); import {name}; print(json.dumps(list({name}.KEYS)))"
    done = recorder.run(["/usr/bin/python3", "-B", "-c", script])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", ["fidelity", "stops", "evaluation", "console", "always", "diagnose", "history"])
def test_a_short_run_finds_every_number(recorder, name, debug_registers_report):
    numbers, keys = run_quick(recorder, name, 800), keys_of(recorder, name)
    if name == "console":
        keys = [key for key in keys if key not in ("interrupt_62_ms", "first_prompt_s_62")]  # not in a short run
    if name == "diagnose":
        keys = [key for key in keys if key not in ("forced_fail", "forced_pass")]  # a few runs show no order
    if name == "stops" and no_calls():
        keys = [key for key in keys if not key.startswith("gdb_call")]
    if name == "stops" and not debug_registers_report:
        keys = [key for key in keys if key not in ("gdb_watch_null_us", "gdb_false_positive_us")]
    assert set(numbers) == set(keys), sorted(set(numbers) ^ set(keys))
    assert all(isinstance(value, float | int) for value in numbers.values()), numbers


@pytest.mark.limit(600)
def test_pictures_are_drawn_where_they_are_asked_for(recorder):
    place = recorder.directory / "pictures"
    place.mkdir()
    done = recorder.run(["/usr/bin/python3", ROOT / "tests" / "bench" / "pictures.py", "--quick", "--to", place], timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {file.name for file in place.iterdir()} == {"performance-hit.png", "performance-nodes.png", "performance-share.png"}
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in place.iterdir())
    assert "fault" in done.stdout and "emulate" in done.stdout
    recorder.none_left()
