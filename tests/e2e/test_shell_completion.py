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


# What zsh's completion system has, as far as the script needs it: it says what it is given.
ZSH = """
compdef() { :; }
compadd() { print -rl -- "${(P@)2}"; }
_files() { print FILES; }
PATH=$1:$PATH
eval "$(friday completion zsh)"
shift
words=(friday "$@"); CURRENT=$#words
_friday
"""


@pytest.mark.full
def test_zsh_completes_the_same(recorder):
    if not shutil.which("zsh"):
        pytest.skip("machine: there is no zsh")
    recording = recorder.record(["/usr/bin/env", "true"], name="primary")
    for words in (["rep"], [""], ["verify", "--ti"], ["dump", recording.path, "--node", "pri"], ["help", "tu"]):
        done = subprocess.run(["zsh", "-f", "-c", ZSH, "zsh", recorder.friday.parent, *map(str, words)], capture_output=True, text=True, timeout=30)
        assert done.stdout.split() == completed(recorder, words) and not done.stderr, done
    done = subprocess.run(["zsh", "-f", "-c", ZSH, "zsh", recorder.friday.parent, "record", "--", "ls", ""], capture_output=True, text=True, timeout=30)
    assert done.stdout == "FILES\n" and not done.stderr, done


def test_names_of_sessions_are_completed(recorder, tmp_path, monkeypatch):
    monkeypatch.setenv("FRIDAY_SESSIONS", str(tmp_path))
    done = recorder.run([recorder.friday, "record", "-q", "-s", "monday", "--node", "primary", "--", "/bin/true"])
    assert done.returncode == 0, done
    assert completed(recorder, ["replay", "mon"]) == ["monday"] and completed(recorder, ["record", "mon"]) == []
    assert completed(recorder, ["dump", "monday", "--node", "pri"]) == ["primary"]
