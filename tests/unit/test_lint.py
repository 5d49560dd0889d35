"""tests/lint_python.py: what it finds, and what it passes over because tests and packages are written so."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def lint(*names):
    return subprocess.run(["/usr/bin/python3", ROOT / "tests" / "lint_python.py"], input="\n".join(map(str, names)), capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("text, found", [
    ("import os\n", "1: 'os' imported but unused"), ("def f():\n    return absent\n", "2: undefined name 'absent'"),
    ("def f():\n    kept = 1\n", "2: local variable 'kept' is assigned to but never used"), ("def f(:\n", "1: invalid syntax"),
    ("import os  # noqa: F401\n", None), ("import os\nprint(os.name)\n", None)])
def test_what_it_finds(tmp_path, text, found):
    path = tmp_path / "one.py"
    path.write_text(text)
    done = lint(path)
    assert (done.returncode, done.stdout, done.stderr) == ((1, f"{path}:{found}\n", "") if found else (0, "", ""))


def test_a_fixture_that_a_test_takes_is_used(tmp_path):
    (tmp_path / "tests").mkdir()
    test, script = tmp_path / "tests" / "one.py", tmp_path / "one.py"
    for path in test, script:
        path.write_text("from support import ring, workers\n\n\ndef test_one(ring):\n    assert ring\n")
    assert lint(test).stdout == f"{test}:1: 'support.workers' imported but unused\n"
    assert len(lint(script).stdout.splitlines()) == 3


def test_a_package_imports_what_it_offers_and_gdbs_script_is_one():
    parts = sorted((ROOT / "core" / "mi").glob("gdb_*.py"))
    assert len(parts) > 2 and lint("pyext/friday/__init__.py", *parts).returncode == 0
