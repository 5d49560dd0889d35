"""The demo's build compiles several sources as one: what stands in two files of a folder must not have one name in both. It is what a new user
builds first, so each run of the tests tries it, without optimisation, which takes two thirds of the time."""
import os
import subprocess

import pytest
from conftest import ROOT

pytestmark = pytest.mark.limit(1500)


@pytest.mark.parametrize("options", [["-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 -DNDEBUG"], pytest.param([], marks=pytest.mark.full)], ids=["quick", "whole"])
def test_sources_can_be_compiled_together(tmp_path, options):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FRIDAY")}
    for command in (["cmake", "--preset", "demo", "-B", tmp_path, *options], ["cmake", "--build", tmp_path, "--target", "friday", "chord", "chordclient", "-j2"]):
        done = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=1400)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
