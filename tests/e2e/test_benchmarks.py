"""The benchmarks run: short ones, whose numbers are worth nothing, but all of them are there and no page is touched."""

import json

import pytest
from conftest import ROOT

pytestmark = pytest.mark.full


def run_quick(recorder, name, timeout):
    """The keys and values that `run.py NAME --quick` found."""
    found = recorder.directory / "numbers.json"
    docs = {file: file.read_bytes() for file in (ROOT / "docs").iterdir()}
    done = recorder.run(["/usr/bin/python3", ROOT / "tests" / "bench" / "run.py", name, "--quick", "--json", found], timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {file: file.read_bytes() for file in (ROOT / "docs").iterdir()} == docs, "a short run is no result"
    recorder.none_left()
    return json.loads(found.read_text())[name]


def keys_of(recorder, name):
    script = f"import sys, json; sys.path.insert(0, {str(ROOT / 'tests' / 'bench')!r}); import {name}; print(json.dumps(list({name}.KEYS)))"
    done = recorder.run(["/usr/bin/python3", "-B", "-c", script])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", ["stops", "evaluation", "console"])
def test_a_short_run_finds_every_number(recorder, name):
    numbers, keys = run_quick(recorder, name, 800), keys_of(recorder, name)
    if name == "console":
        keys.remove("interrupt_62_ms")  # not in a short run
    assert set(numbers) == set(keys), sorted(set(numbers) ^ set(keys))
    assert all(isinstance(value, float | int) for value in numbers.values()), numbers
