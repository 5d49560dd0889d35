"""The command friday completed by the shells themselves."""

import shutil
import subprocess

import pytest


def completed(recorder, words):
    """What bash offers for the last of the words."""
    script = f"""
PATH={recorder.friday.parent}:$PATH
source <(friday completion bash)
COMP_WORDS=(friday "$@"); COMP_CWORD=$#
_friday
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", *map(str, words)], capture_output=True, text=True, timeout=30)
    assert not done.stderr, done.stderr
    return done.stdout.split()


def test_bash_completes_subcommands_options_nodes_and_pages(recorder):
    recording = recorder.record(["/usr/bin/env", "true"], name="primary")
    assert completed(recorder, ["rep"]) == ["replay", "report"]
    assert {"verify", "record", "help"} <= set(completed(recorder, [""]))
    assert completed(recorder, ["verify", "--ti"]) == ["--times"]
    assert completed(recorder, ["verify", recording.path, "--sync", "c"]) == ["causal", "clock"]
    assert completed(recorder, ["dump", recording.path, "--node", "pri"]) == ["primary", "primary/exec-1"]
    assert "tutorial" in completed(recorder, ["help", "tu"])
    assert completed(recorder, ["record", "--", "ls", "--"]) == [] and completed(recorder, ["verify", "x"]) == [], "bash completes files there"


def test_the_script_for_zsh_is_zsh(recorder):
    if not shutil.which("zsh"):
        pytest.skip("machine: there is no zsh")
    script = subprocess.run([recorder.friday, "completion", "zsh"], capture_output=True, text=True, check=True).stdout
    subprocess.run(["zsh", "-n", "-c", script], check=True, timeout=30)
