"""Programs that take the place of recorded ones: what cannot be recorded is recorded up to there and named, and runs unharmed."""

import os
import re
import shlex
import shutil

import pytest

# Its child executes the program of the first argument; behind it the parent goes on.
PARENT = """
import os, sys
child = os.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print("ended with", code, flush=True)
"""


def record_child(recorder, *command, **options):
    return recorder.record(["/usr/bin/python3", "-c", PARENT, *command], name="it", **options)


def check_left(recorder, recording, why):
    """Node 1 is recorded up to its execve, which the recorder and `info` tell; node 0 went on, and both replay."""
    assert recording.returncode == 0, recording.stderr
    assert re.search(f"node 1 it/child-1: .* recording ended by execve: .*{why}", recording.stderr), recording.stderr
    nodes = {node["name"]: node for node in recorder.info(recording)["nodes"]}
    assert set(nodes) == {"it", "it/child-1"}
    assert nodes["it"]["ended"] == "exited with 0"
    assert re.search(f"executed a program that is not recorded: .*{why}", nodes["it/child-1"]["ended"])
    assert nodes["it/child-1"]["events"] > 0
    recorder.verify(recording)


def test_static_program(recorder, targets):
    """It is a node like others, also when its parent is none of its kind."""
    recording = record_child(recorder, targets / "static_crash", "not at all")
    assert recording.stdout == "about to end by not at all\nended with 44\n" and recording.returncode == 0
    nodes = {node["name"]: node for node in recorder.info(recording)["nodes"]}
    executed = [node for node in nodes.values() if node["program"] == str(targets / "static_crash")]
    assert len(executed) == 1 and executed[0]["ended"] == "exited with 44" and executed[0]["argv"][1:] == ["not at all"], nodes
    recorder.verify(recording)


def test_the_program_itself_executes_a_static_one(recorder, targets):
    recording = recorder.record(["/bin/sh", "-c", f"exec {shlex.quote(str(targets / 'static_crash'))} thread"], name="it")
    assert recording.returncode == 33 and "recording ended" not in recording.stderr
    assert recorder.info(recording)["nodes"][0]["ended"] == f"replaced by {targets / 'static_crash'} (execve)"
    recorder.verify(recording)


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("machine: only root can make a program of another owner, or give it capabilities")


def as_nobody(command):
    return ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]


def open_to_all(path):
    """Everybody may come to `path`."""
    for directory in path.parents:
        if directory.stat().st_uid == os.geteuid() and not directory.stat().st_mode & 1:
            directory.chmod(directory.stat().st_mode | 0o011)


def test_setuid_program(recorder, tmp_path):
    needs_root()
    copy = tmp_path / "setuid"
    shutil.copy("/usr/bin/id", copy)
    os.chown(copy, 65533, -1)
    copy.chmod(0o4755)
    recording = record_child(recorder, copy, "-un")
    assert recording.stdout.endswith("ended with 0\n") or "cannot find name" in recording.stderr
    check_left(recorder, recording, "setuid is setuid or setgid")


def test_program_with_file_capabilities(recorder, tmp_path):
    """Only for others than root do they mean anything, so the child gives its privileges up before."""
    needs_root()
    copy = tmp_path / "capable"
    shutil.copy("/usr/bin/id", copy)
    # struct vfs_cap_data, version 2: CAP_NET_BIND_SERVICE permitted and effective.
    try:
        os.setxattr(copy, "security.capability", bytes.fromhex("01000002" "00040000" "00000000" "00000000" "00000000"))
    except OSError as error:
        pytest.skip(f"machine: files have no capabilities here ({error})")
    open_to_all(copy)
    recording = recorder.record(as_nobody([copy, "-u"]), name="it")
    assert (recording.returncode, recording.stdout) == (0, "65534\n")
    assert re.search("recording ended by execve: .*capable has file capabilities", recording.stderr), recording.stderr
    recorder.verify(recording)


def test_program_that_may_be_executed_and_not_read(recorder, tmp_path):
    """The kernel hides from such a process which of its pages have changed. An ordinary user's recorder cannot read its code, and says so."""
    copy = tmp_path / "hidden"
    shutil.copy("/usr/bin/id", copy)
    copy.chmod(0o111)
    open_to_all(copy)
    command = ["/bin/sh", "-c", f"{copy} -u; exit $?"]
    recording = recorder.record(as_nobody(command) if os.geteuid() == 0 else command, name="it")
    assert (recording.returncode, recording.stdout) == (0, "65534\n" if os.geteuid() == 0 else f"{os.geteuid()}\n"), recording.stderr
    seen = re.search(f"are not recorded in {copy}: it cannot be opened for reading", recording.stderr)
    assert bool(seen) == (os.geteuid() != 0), recording.stderr
    recorder.verify(recording, "--times", "3")


@pytest.mark.parametrize("change", ["seteuid", "setegid"])
@pytest.mark.parametrize("how", ["os.execv(words[0], words)", "sys.exit(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(words[0], words, {}), 0)[1]))"],
                         ids=["exec", "spawn"])
def test_effective_user_is_not_the_real_one(recorder, change, how):
    """The kernel has the loader distrust the environment then: no preloading, also by an ordinary program."""
    needs_root()
    script = f"import os, sys; os.{change}(65534); words = ['/usr/bin/id', '-{change[4]}']; {how}"
    recording = recorder.record(["/usr/bin/python3", "-c", script], name="it")
    assert (recording.returncode, recording.stdout) == (0, "65534\n"), recording.stderr
    why = "id was executed by a process whose real and effective user or group differ: the loader ignores LD_PRELOAD"
    assert re.search(f"(recording ended by execve|never recorded): .*{why}", recording.stderr), recording.stderr
    assert [node for node in recorder.info(recording)["nodes"] if why in node["ended"]]
    recorder.verify(recording)


def test_clean_environment(recorder):
    recording = recorder.record(["/usr/bin/env", "-i", "/bin/sh", "-c", "echo \"<$HOME>\"; exec /usr/bin/env"], name="it")
    assert recording.returncode == 0 and recording.stdout.startswith("<>\n")
    nodes = recorder.info(recording)["nodes"]
    assert [node["name"] for node in nodes] == ["it", "it/exec-1", "it/exec-1/exec-1"]
    assert [node.get("replaces") for node in nodes] == [None, 0, 1]
    assert nodes[0]["ended"] == f"replaced by {os.path.realpath('/bin/sh')} (execve)"
    assert nodes[1]["argv"][0] == "/bin/sh" and nodes[2]["argv"] == ["/usr/bin/env"]
    recorder.verify(recording)


def test_spawned_program_follows_its_spawn(recorder):
    """The edge from execve of a child by vfork to the program's first event, in causal order."""
    script = "import subprocess; print(subprocess.run(['/bin/echo', 'spawned'], capture_output=True).stdout)"
    recording = recorder.record(["/usr/bin/python3", "-c", script], name="it")
    assert recording.stdout == "b'spawned\\n'\n"
    nodes = recorder.info(recording)["nodes"]
    assert [node.get("spawned_by") for node in nodes] == [None, 0]
    for sync in ("clock", "causal"):
        recorder.verify(recording, "--sync", sync)


def test_a_program_without_a_path(recorder):
    """A program in a memfd, as container runtimes copy themselves into, is recorded as others are, and nothing says that it was not."""
    copy = ("import os; it = os.memfd_create('it', 0); os.write(it, open('/bin/echo', 'rb').read()); "
            "os.execve(it, ['echo', 'hello'], os.environ)")
    recording = recorder.record(["/usr/bin/python3", "-c", copy], name="it")
    assert recording.returncode == 0 and recording.stdout == "hello\n", recording.stderr
    nodes = recorder.info(recording)["nodes"]
    assert len(nodes) == 2 and "memfd:it" in nodes[0]["ended"] and "cannot stat" not in nodes[0]["ended"] + recording.stderr, nodes
    recorder.verify(recording)
