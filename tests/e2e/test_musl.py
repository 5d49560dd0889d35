"""A program linked with musl, whose loader would preload the shim but start it otherwise: refused by name, and unharmed when a
recorded program executes it."""

import subprocess

import pytest
from programs import need

SOURCE = r"""
#include <stdio.h>
int main(int count, char** words) { return printf("%d words, %s\n", count, words[count - 1]) < 0; }
"""


@pytest.mark.full
def test_program_of_musl(recorder, tmp_path):
    need("musl-tools")
    program = tmp_path / "small"
    subprocess.run(["musl-gcc", "-x", "c", "-o", program, "-"], input=SOURCE, text=True, check=True, timeout=60)
    refused = recorder.record([program, "alone"])
    assert refused.returncode == 2 and "is linked with musl (/lib/ld-musl-x86_64.so.1)" in refused.stderr, refused
    recording = recorder.record(["/bin/sh", "-c", f"{program} one two; echo it ended with $?"], name="it")
    assert recording.stdout == "3 words, two\nit ended with 0\n", recording
    assert "is linked with musl" in recording.stderr
    recorder.verify(recording)
