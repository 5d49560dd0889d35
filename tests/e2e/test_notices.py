"""What `friday record` says of programs that run, but not as they would alone."""

import json
import mmap
import os
import re
import signal
import subprocess

import pytest
from conftest import wait_until

# A loop that counts in memory how often it goes round while it waits for another thread, in code that is made at run time: no
# point of it can be named.
SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile int flag;
static volatile long counter;
static void* raise_flag(void* unused) { while (!counter) usleep(100); flag = 1; return unused; }
int main(void) {
  const unsigned char code[] = {0x48, 0xff, 0x07, 0x83, 0x3e, 0, 0x74, 0xf8, 0xc3};  // 1: incq (%rdi); cmpl $0, (%rsi); je 1b; ret
  void* made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(made, code, sizeof code);
  pthread_t thread;
  pthread_create(&thread, NULL, raise_flag, NULL);
  ((void (*)(volatile long*, volatile int*))made)(&counter, &flag);
  return printf("never\\n");
}
"""


@pytest.fixture
def counting(tmp_path, recorder):
    (tmp_path / "counting.c").write_text(SOURCE)
    recorder.run(["/usr/bin/cc", "-O1", "-o", tmp_path / "counting", tmp_path / "counting.c", "-lpthread"])
    return tmp_path / "counting"


def test_threads_that_wait_their_turn_are_no_notice(recorder, targets):
    for name in ("threads", "threads_crowd", "workers"):
        assert "kept" not in recorder.record([targets / name]).stderr


def test_a_loop_that_keeps_others_waiting_is_named(counting, recorder):
    running = recorder.start_record([counting], name="it")
    description = running.recording / "nodes" / "0" / "node.json"
    wait_until(lambda: description.exists() and json.loads(description.read_text()).get("notice"), "nothing was said", seconds=40)
    running.signal(signal.SIGTERM)  # is handed on, and kills it where it stands
    recording = recorder.finish_record(running)
    assert re.search(r"thread 0 has kept others waiting for seconds, as it makes no call, at 0x\w+", recording.stderr), recording.stderr
    # The registers alone would name a point in the loop, a wrong one: there is no such event. Behind a call a thread may have had to wait.
    events = recorder.run([recorder.friday, "dump", "--node", "it", recording.path]).stdout
    yields = [line for line in events.splitlines() if " yield " in line]
    assert all("behind a call" in line for line in yields) and "clone" in events, yields


@pytest.mark.parametrize(("who", "node"), [("processes", 1), ("threads", 0)])
def test_who_keeps_others_waiting_is_named_from_outside(recorder, targets, tmp_path, who, node):
    """While they wait, though the one that has the turn can do nothing about it: it is stopped. Then it goes on, and so do they."""
    computes = tmp_path / "computes"
    running = recorder.start_record([targets / "keeps_turn", who, computes], name="it")
    wait_until(lambda: computes.exists() and computes.read_text().endswith("\n"), "it does not compute")
    pid = int(computes.read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        description = running.recording / "nodes" / str(node) / "node.json"
        wait_until(lambda: description.exists() and json.loads(description.read_text()).get("notice"), "nothing was said", seconds=40)
    finally:
        os.kill(pid, signal.SIGCONT)
    recording = recorder.finish_record(running)
    assert recording.returncode == 0 and recording.stdout == "SUCCESS\n", recording
    if who == "processes":
        sentence = rf"process {pid} \(keeps_turn\), thread {pid}, has kept process \d+ \(keeps_turn\) waiting for 4 seconds .*it is stopped: `kill -CONT {pid}`"
    else:
        sentence = (rf"process {pid} \(keeps_turn\), a child by vfork of process \d+ \(keeps_turn\), has kept other threads waiting for 4 seconds "
                    rf".*it is stopped: `kill -CONT {pid}`")
    assert len(re.findall(sentence, recording.stderr)) == 2, recording.stderr  # at once, and at the end
    recorder.verify(recording)


def test_memory_that_an_unrecorded_process_writes(recorder, targets, tmp_path):
    """It is named, and what it stored is not taken for what the program did: its replay diverges."""
    path = tmp_path / "shared"
    path.write_bytes(bytes(4096))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 4096) as outside:
        running = recorder.start_record([targets / "shared_outside", path], name="it")
        description = running.recording / "nodes" / "0" / "node.json"
        wait_until(lambda: description.exists() and json.loads(description.read_text()).get("notice"), "nothing was said", seconds=40)
        outside[0:1] = b"x"
        recording = recorder.finish_record(running)
    assert recording.stdout == "x\nSUCCESS\n"
    sentence = rf"process {os.getpid()} \(.*\) is not in this recording and can write to {re.escape(str(path))}"
    assert re.search(sentence, recording.stderr)
    assert re.search(sentence, recorder.run([recorder.friday, "info", recording.path]).stdout)
    replayed = recorder.replay(recording)
    assert replayed.returncode == 3 and "divergence: node 0" in replayed.stdout
    assert re.search("This may be why: " + sentence, replayed.stdout)


def test_memory_that_is_written_after_its_writers_recording(recorder, targets, tmp_path):
    path = tmp_path / "shared"
    path.write_bytes(bytes(4096))
    recording = recorder.record([targets / "shared_outside", path, "sealed"], name="it")
    assert recording.returncode == 0 and recording.stdout == "x\nSUCCESS\n" and recording.ended_at("it/child-1") in ("prctl", "seccomp"), recording.stderr
    replayed = recorder.replay(recording)
    assert replayed.returncode == 3 and re.search(r"This may be why: node 0 shares memory .* node 1 \(it/child-1\)$", replayed.stdout, re.M), replayed.stdout


def test_memory_that_another_recorded_process_writes(recorder, targets):
    """The recording of the one that writes ends there, by name; the other one's says that it does not have what was written."""
    recording = recorder.record([targets / "foreign_memory", "child"], name="it")
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n"), recording
    assert recording.ended_at("it/child-1") == "process_vm_writev"
    noted = r"process \d+ has written into its memory \(process_vm_writev\)"
    assert re.search(noted, recording.stderr), recording.stderr
    replayed = recorder.replay(recording)
    assert replayed.returncode == 3 and re.search(f"This may be why: {noted}", replayed.stdout), replayed.stdout


def test_memory_that_another_process_writes_and_that_nobody_looks_at(recorder, targets):
    """Nothing diverges, and yet the memory of the replay is not what it was: whoever replays it is told."""
    recording = recorder.record([targets / "foreign_memory", "unseen"], name="it")
    assert recording.returncode == 0 and recording.ended_at("it/child-1") == "process_vm_writev", recording
    noted = r"noted while node 0 \(it\) was recorded: process \d+ has written into its memory \(process_vm_writev\)"
    verified = recorder.verify(recording)
    assert re.search(noted, verified.stderr), verified
    assert "process_vm_writev" in json.loads(recorder.verify(recording, "--json").stdout)["nodes"][0]["notice"]
    (recorder.directory / "nothing.py").write_text("")
    assert re.search(noted, recorder.run([recorder.friday, "run", recorder.directory / "nothing.py", recording.path]).stderr)
    with open("/dev/null") as stdin:
        assert re.search(noted, recorder.start([recorder.friday, "replay", recording.path], stdin=stdin).finish(60).stderr)


@pytest.mark.parametrize("how", ["vfork", "chroot", "pids"])
def test_memory_that_recorded_processes_share_is_no_notice(recorder, targets, tmp_path, how):
    """One that sees no /proc, one that numbers processes in its own way, and a child by vfork are recorded as others are."""
    path = tmp_path / "shared"
    path.write_bytes(bytes(4096))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 4096):  # somebody to be found, so that one knows when others were looked for
        running = recorder.start_record([targets / "shared_insiders", how, path, tmp_path], name="it")

        def notices():
            return [json.loads(file.read_text()).get("notice", "") for file in running.recording.glob("nodes/*/node.json")]

        wait_until(lambda: any(notices()) or running.process.poll() is not None, "nothing was said", seconds=40)
        (tmp_path / "done").touch()
        recording = recorder.finish_record(running, 30)
    if recording.returncode == 77:
        pytest.skip(f"machine: {recording.stdout}")
    assert recording.stdout.endswith("SUCCESS\n"), recording
    assert re.findall(r"process (\d+) \(.*?\) is not in this recording", "; ".join(notices())) == [str(os.getpid())], notices()
    recorder.verify(recording)


SOCKET_FILE = """
import fcntl, os, socket
s = socket.socket(socket.AF_UNIX)
s.bind("here")
os.close(fcntl.ioctl(s, 0x89e0))  # SIOCUNIXFILE
"""


@pytest.mark.parametrize(("program", "asked"), [
    (["unhandled"], "seccomp (317), SECCOMP_SET_MODE_FILTER"),
    (["unwelcome", "dispatch"], "prctl (157), PR_SET_SYSCALL_USER_DISPATCH"),
    (["clone_flags", "memory"], "clone (56), CLONE_VM"),
    (["clone_flags", "descriptors"], "clone (56), CLONE_FILES"),
    (SOCKET_FILE, "ioctl (16), SIOCPROTOPRIVATE"),
])
def test_a_call_that_is_not_handled_is_named(recorder, targets, tmp_path, program, asked):
    """By what it was asked to do, where that is a code among its arguments."""
    prefix = ()
    command = [targets / program[0], *program[1:]]
    if program == SOCKET_FILE:
        command, prefix = ["/usr/bin/python3", "-c", program], ["unshare", "--user", "--map-root-user", "--net"]
        if subprocess.run([*prefix, "true"], capture_output=True).returncode:
            pytest.skip("machine: it gives this user no network of its own")
    recording = recorder.record(command, name="it", cwd=tmp_path, prefix=prefix)
    assert recording.returncode == 0, recording.stderr
    for said in (recording.stderr, recorder.run([recorder.friday, "info", recording.path]).stdout):
        assert f"recording ended at call {asked}, " in said, said


def test_a_program_without_proc_is_not_recorded(recorder):
    """The shim reads its own mappings there. The program runs as it is, and its node says why."""
    without = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec /bin/echo it runs"]
    if subprocess.run(without, capture_output=True).returncode:
        pytest.skip("machine: it lets this user mount nothing")
    recording = recorder.record(without, name="it")
    assert recording.returncode == 0 and recording.stdout == "it runs\n", recording
    assert "/proc is not mounted where it is executed" in recording.stderr, recording.stderr
    recorder.verify(recording)
