"""Programs linked with musl (Alpine's C library): those that its loader starts preload the shim like others, and static ones are
loaded by the shim itself."""

import subprocess

import pytest
from conftest import ROOT
from programs import need

FLAGS = {"dynamic": [], "static": ["-static"]}


@pytest.mark.full
@pytest.mark.parametrize("kind", FLAGS)
@pytest.mark.parametrize("name, arguments, nodes", [
    ("own_program", [], 7), ("threads", [], 1), ("fork_pipe", [], 2), ("execs", ["2"], 3), ("signals_order", [], 1)])
def test_program_of_musl(recorder, tmp_path, kind, name, arguments, nodes):
    need("musl-tools")
    program = tmp_path / name
    source = ROOT / "tests" / "targets" / f"{name}.c"
    subprocess.run(["musl-gcc", "-D_GNU_SOURCE", "-g", "-O1", *FLAGS[kind], "-o", program, source], check=True, timeout=120)
    alone = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert alone.returncode == 0, alone
    recording = recorder.record([program, *arguments], name="it", cwd=tmp_path, options=["--state-hash"])
    assert recording.returncode == 0 and recording.stdout == alone.stdout, recording
    assert len(recording.nodes()) == nodes and "recording ended" not in recording.stderr, recording.stderr
    recorder.verify(recording, "--times", 3)
