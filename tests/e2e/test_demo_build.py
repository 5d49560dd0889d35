"""The demo's build compiles several sources as one: what stands in two files of a folder must not have one name in both. It is what a new user
builds first. tests/unit/test_names.py looks for such names in each run of the tests."""
import os
import subprocess

import pytest
from conftest import ROOT

pytestmark = [pytest.mark.full, pytest.mark.limit(1500)]


def test_sources_can_be_compiled_together(tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FRIDAY")}
    for command in (["cmake", "--preset", "demo", "-B", tmp_path, "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0"], ["cmake", "--build", tmp_path, "--target", "friday", "chord", "chordclient", "-j2"]):
        done = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=1400)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
