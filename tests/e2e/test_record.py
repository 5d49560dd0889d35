"""`friday record` when things go wrong, and what it promises: bad input, group files, calls that are not handled, limits."""

import os
import pathlib
import shlex
import shutil

import pytest
from record_support import PYTHON, said, when, worker


# -- bad input ---------------------------------------------------------------------------------------------------------
def test_no_command(recorder):
    done = recorder.record([])
    assert done.returncode == 2
    said(done, "nothing to record", "--group")


def test_absent_program(recorder):
    done = recorder.record(["/absent/program"])
    assert done.returncode == 2
    said(done, "/absent/program was not found")
    assert not done.path.exists(), "a recording was made of nothing"
    assert said(recorder.record(["no-such-program-on-the-path"]), "PATH")


def test_name_that_means_something_else(recorder):
    for name in ("7", "a/b", "all", "n*"):
        done = recorder.record(["/bin/echo"], name=name)
        assert done.returncode == 2
        said(done, "cannot name a node")


def test_who_may_not_execute_what_it_wrote_records_nothing(recorder):
    """PR_SET_MDWE, which systemd's MemoryDenyWriteExecute= sets: no code could be patched. It is inherited, so it is set before the recorder starts."""
    forbid = ("import ctypes, os, sys; os.execvp(sys.argv[1], sys.argv[1:]) "
              "if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0 else sys.exit(99)")
    done = recorder.record(["/bin/echo", "hello"], prefix=["/usr/bin/python3", "-c", forbid])
    if done.returncode == 99:
        pytest.skip("machine: its kernel is older than 6.3 and has no PR_SET_MDWE")
    assert done.returncode == 2
    said(done, "PR_SET_MDWE", "MemoryDenyWriteExecute=no")


@pytest.mark.parametrize("content, words", [
    (b"", "not a program"), (b"MZ" + bytes(100), "neither an ELF program nor a script"), (b"\x7fELF" + bytes(100), "not an x86-64"),
    (b"#!\n" + bytes(100), "interpreter"), (b"#!/absent/interpreter\n" + bytes(100), "/absent/interpreter"),
])
def test_no_program_at_all(recorder, tmp_path, content, words):
    file = tmp_path / "program"
    file.write_bytes(content)
    file.chmod(0o755)
    done = recorder.record([file])
    assert done.returncode == 2
    said(done, words)


def test_setuid_program(recorder, tmp_path):
    copy = tmp_path / "setuid"
    shutil.copy("/bin/echo", copy)
    if os.geteuid() == 0:
        os.chown(copy, 65534, 65534)  # as root only another owner's setuid bit changes who runs it
        copy.chmod(0o4755)
    else:
        # An ordinary user's own setuid bit changes nothing; another group of theirs does.
        groups = [g for g in os.getgroups() if g != os.getegid()]
        if not groups:
            pytest.skip("machine: this user belongs to one group only, so no program of theirs can be set-id")
        os.chown(copy, -1, groups[0])
        copy.chmod(0o2755)
    done = recorder.record([copy, "hello"])
    assert done.returncode == 2
    said(done, "setuid or setgid", "LD_PRELOAD", "without the bit")


def test_script_is_recorded(recorder, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho \"script $1\"\n")
    script.chmod(0o755)
    recording = recorder.record([script, "argument"])
    assert (recording.returncode, recording.stdout) == (0, "script argument\n")
    recorder.verify(recording)


def test_directory_that_is_no_recording(recorder, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("mine")
    done = recorder.record(["/bin/echo"], path=tmp_path / "full")
    assert done.returncode == 2
    said(done, "not a recording", "new or empty directory")
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["letter"]


def test_recording_that_is_a_file(recorder, tmp_path):
    (tmp_path / "file").write_text("mine")
    done = recorder.record(["/bin/echo"], path=tmp_path / "file")
    assert done.returncode == 2
    said(done, "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_directory_that_does_not_exist(recorder, tmp_path):
    done = recorder.record(["/bin/echo"], path=tmp_path / "absent" / "rec")
    assert done.returncode == 2
    said(done, "cannot create the recording", "No such file or directory")


def test_unwritable_directory(recorder, tmp_path):
    if os.geteuid() == 0:
        path = pathlib.Path("/proc/friday-recording")  # where not even root may create anything
    else:
        (tmp_path / "closed").mkdir(mode=0o500)
        path = tmp_path / "closed" / "rec"
    done = recorder.record(["/bin/echo"], path=path)
    assert done.returncode == 2
    said(done, "cannot create the recording")


@pytest.mark.parametrize("name", ["with a space", "with:a colon", "$ORIGIN"])
def test_an_installation_that_the_loader_cannot_name(recorder, tmp_path, name):
    """The loader takes LD_PRELOAD for several names where a path has a space or a colon, and expands what begins with $."""
    place = tmp_path / name
    for part in ("bin/friday", "lib/friday-shim.so", "lib/friday-stub"):
        (place / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pathlib.Path(recorder.friday).parents[1] / part, place / part)
    friday, recording = place / "bin" / "friday", tmp_path / "rec"
    done = recorder.run([friday, "record", "-o", recording, "--", "/bin/sh", "-c", "/bin/echo from another program"])
    assert done.returncode == 0 and done.stdout == "from another program\n", done.stderr
    done = recorder.run([friday, "verify", recording])
    assert done.returncode == 0 and "verified: 2 nodes" in done.stdout, done.stdout + done.stderr


def test_relative_paths(recorder, tmp_path):
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    shutil.copy("/bin/echo", work / "bin" / "echo")
    recording = recorder.record(["bin/echo", "relative"], path="rec", cwd=work)
    assert (recording.returncode, recording.stdout) == (0, "relative\n")
    recording.path = work / "rec"
    assert recording.nodes()[0]["program"] == str(work / "bin" / "echo")
    recorder.verify(recording)


def test_trailing_slash_and_empty_directory(recorder, tmp_path):
    (tmp_path / "empty").mkdir()
    recording = recorder.record(["/bin/echo", "x"], path=f"{tmp_path}/empty/")
    assert recording.returncode == 0
    recorder.verify(recording)


# -- group files -------------------------------------------------------------------------------------------------------
BAD_GROUPS = [
    ("", "no \\[\\[node\\]\\]"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"", ":3: "),
    ("[[node]]\nname = \"a\"\n", "node a has no command"),
    ("[[node]]\ncommand = [\"/bin/true\"]\n", "has no name"),
    ("[[node]]\nname = \"a\"\ncommand = \"/bin/true\"\n", ":3: command must be a list"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/sleep\", 1]\n", ":3: command must be a list of strings"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\ncolour = \"red\"\n", ":4: unknown key \"colour\".*known: name, command"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nstart_delay = -1\n", ":4: start_delay must not be negative"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nstart_delay = \"soon\"\n", ":4: start_delay must be a number"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nstop_signal = \"WINCH\"\n", ":4: unknown stop_signal"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\nenv = { A = 1 }\n", ":4: A must be a string"),
    ("[group]\nstop_when_ends = \"b\"\n[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n", "stop_when_ends names b"),
    ("[group]\nstop_later = 3\n[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n", ":2: unknown key \"stop_later\""),
    ("group = 3\n[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n", ":1: unknown entry \"group\""),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n", "two nodes are named a"),
    ("[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n[[node]]\nname = \"b\"\ncommand = [\"/absent\"]\n", "node b: the program /absent was not found"),
]


@pytest.mark.parametrize("text, words", BAD_GROUPS, ids=range(len(BAD_GROUPS)))
def test_bad_group_file(recorder, tmp_path, text, words):
    file = tmp_path / "group.toml"
    file.write_text(text)
    done = recorder.run([recorder.friday, "record", "-o", tmp_path / "rec", "--group", file])
    assert done.returncode == 2
    said(done, words)
    assert not (tmp_path / "rec").exists()


def test_group_and_command(recorder, tmp_path):
    done = recorder.run([recorder.friday, "record", "-o", tmp_path / "rec", "--group", "group.toml", "--", "/bin/true"])
    assert done.returncode == 2
    said(done, "not both")


def test_group_file_that_is_absent(recorder, tmp_path):
    done = recorder.run([recorder.friday, "record", "-o", tmp_path / "rec", "--group", tmp_path / "absent.toml"])
    assert done.returncode == 2
    said(done, "absent.toml")


# -- groups ------------------------------------------------------------------------------------------------------------
def test_keys_of_a_group_file(recorder, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    recording = recorder.group({"group": {"stop_after": 30}, "node": [
        {"name": "one", "command": ["/bin/sh", "-c", "pwd; echo $COLOUR; echo error >&2"], "cwd": str(work), "env": {"COLOUR": "dark red"},
         "stdout": "one.out", "stderr": str(tmp_path / "one.err")},
        {"name": "two", "command": ["/bin/echo", "from two"], "start_delay": 2},
        {"name": "helper", "command": ["/bin/echo", "not recorded"], "record": False},
    ]})
    assert recording.returncode == 0, recording.stderr
    assert (recording.path / "one.out").read_text() == f"{work}\ndark red\n"
    assert (tmp_path / "one.err").read_text() == "error\n"
    assert sorted(recording.stdout.splitlines()) == ["from two", "not recorded"]
    assert {node["name"] for node in recording.nodes()} == {"one", "two"}
    assert recording.node("two")["started_ns"] - recording.node("one")["started_ns"] >= 1e9  # one starts at once, but that takes its time
    recorder.verify(recording)


# -- calls that are not handled ----------------------------------------------------------------------------------------
def test_strict_ends_the_group(recorder, targets, worker):
    command, file = worker()
    recording = recorder.record({"node": [{"name": "worker", "command": list(map(str, command))},
                                          {"name": "it", "command": when(file, f"exec {shlex.quote(str(targets / 'unhandled'))}")}]}, options=["--strict"])
    assert recording.returncode == 1, recording.stderr
    assert "stopped" in recording.stdout
    assert recording.ended_at("it/exec-1") == "seccomp"
    recorder.none_left()
    recorder.verify(recording)


def test_not_strict_goes_on(recorder, targets):
    recording = recorder.record([targets / "unhandled"], name="it")
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n")
    assert "the program went on" in recording.stderr
    end = recording.node("it")["recording_end"]
    assert end["text"] == "0x1" and end["detail"] == 317, "SECCOMP_SET_MODE_FILTER"


# -- limits and addresses ----------------------------------------------------------------------------------------------
def test_environment_of_the_caller_is_kept(recorder):
    recording = recorder.record(["/usr/bin/env"], env={"LD_PRELOAD": "", "GLIBC_TUNABLES": "glibc.malloc.check=0", "WORD": "kept"})
    assert "WORD=kept" in recording.stdout.splitlines()
    assert [line for line in recording.stdout.splitlines() if line.startswith("GLIBC_TUNABLES=glibc.malloc.check=0:")]
    recorder.verify(recording)


def test_low_descriptor_limit(recorder):
    """The shim's socket finds a place below any limit."""
    recording = recorder.record(["/bin/sh", "-c", "echo low"], prefix=["/usr/bin/prlimit", "--nofile=20"])
    assert (recording.returncode, recording.stdout) == (0, "low\n"), recording.stderr
    recorder.verify(recording)


def test_limit_of_addresses_is_handed_on(recorder, targets):
    """A statically linked program gets it as well as one that preloads the shim."""
    script = f"ulimit -v 60000; /bin/sh -c 'ulimit -v'; exec {shlex.quote(str(targets / 'static_crash'))} thread"
    recording = recorder.record(["/bin/sh", "-c", script], name="it")
    assert (recording.returncode, recording.stdout.splitlines()[0]) == (33, "60000"), recording.stderr
    recorder.verify(recording)


def test_small_limit_of_data(recorder):
    """It counts code that can be written: less than that of libcrypto, which is patched page by page."""
    recording = recorder.record(["/usr/bin/prlimit", "--data=12000000", PYTHON, "-c", "import ssl; print(1)"])
    assert (recording.returncode, recording.stdout) == (0, "1\n"), recording.stderr
    recorder.verify(recording)


def test_calls_that_came_through_the_catch_all_are_counted(recorder, targets):
    """Code made at run time makes 302 calls; all others come from code that was patched, or trapped ones are few."""
    few = recorder.info(recorder.record([targets / "output"], name="it"))["nodes"][0]["calls_caught"]
    many = recorder.info(recorder.record([targets / "jit"], name="it"))["nodes"][0]["calls_caught"]
    assert few < 50 and 302 <= many < 352


def test_code_of_libraries_that_come_later_is_patched(recorder, targets):
    """A library loaded five times makes a thousand calls each time: none through the catch-all, and `friday info` counts its call sites."""
    before = recorder.info(recorder.record([targets / "output"], name="it"))["nodes"][0]
    later = recorder.info(recorder.record([targets / "load_library"], name="it"))["nodes"][0]
    assert later["calls_caught"] < 50
    assert later["call_sites"]["patched"] >= before["call_sites"]["patched"] + 5
