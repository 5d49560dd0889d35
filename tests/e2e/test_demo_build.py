"""Each source of Friday can be compiled by itself, as in a build in which somebody works. A build from nothing compiles several as one (tests/run.sh
and the demo do), where a source may miss what another one includes. tests/unit/test_names.py looks for the opposite: names that clash there."""
import concurrent.futures
import json
import re
import shlex
import subprocess

import pytest
from conftest import ROOT

pytestmark = [pytest.mark.full, pytest.mark.limit(1500)]


def test_each_source_can_be_compiled_by_itself(tmp_path):
    done = subprocess.run(["cmake", "--preset", "release", "-B", tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    entries = [each for each in json.loads((tmp_path / "compile_commands.json").read_text())
               if each["file"].endswith(".cc") and each["file"].startswith(tuple(f"{ROOT}/{room}/" for room in ("core", "console", "pyext")))]
    assert len(entries) > 200

    def compile(entry):
        command = [word for word in shlex.split(re.sub(r" -(?:o|MF|MT) \S+| -MD\b", "", entry["command"])) if word != "-c"]
        done = subprocess.run([*command, "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True, timeout=300)
        return f"{entry['file']}: {done.stderr[-2000:]}" if done.returncode else None
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failed = [each for each in pool.map(compile, entries) if each]
    assert not failed, "\n".join(failed)
