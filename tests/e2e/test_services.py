"""What a person who runs services needs: `friday doctor`, `friday info --live`, and the texts that record a service."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from conftest import wait_until

PYTHON = "/usr/bin/python3"
REFUSE = pathlib.Path(__file__).with_name("refuse_calls.py")
PTRACE, PERSONALITY, MEMFD, PRCTL, PERF, AFFINITY, UFFD, SECCOMP = 101, 135, 319, 157, 298, 203, 323, 317
DISPATCH = f"{PRCTL}=59"

# Works until it is told to stop; each round reads 1000 bytes.
TICKER = r"""
import os, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
source = os.open("/dev/urandom", os.O_RDONLY)
rounds, end = 0, time.monotonic() + 60
while not stop and time.monotonic() < end:
    os.read(source, 1000)
    rounds += 1
    if rounds == 100:
        open(sys.argv[1], "w").close()
    time.sleep(0.001)
print("stopped" if stop else "ran out")
"""


@pytest.fixture
def ticker(tmp_path):
    (tmp_path / "ticker.py").write_text(TICKER)
    return [PYTHON, str(tmp_path / "ticker.py"), str(tmp_path / "ready")], tmp_path / "ready"


@pytest.fixture
def doctor(recorder, tmp_path):
    """doctor(*calls to refuse, prefix=...): its exit code and its answer."""

    def ask(*calls, prefix=(), directory=tmp_path, options=()):
        command = [recorder.friday, "doctor", directory, "--json", *options]
        if calls:
            command = [PYTHON, REFUSE, *map(str, calls), "--", *command]
        done = recorder.run([*prefix, *command])
        assert done.returncode in (0, 1), done.stderr
        answer = json.loads(done.stdout)
        assert (done.returncode == 0) == (answer["record"] and answer["replay"])
        answer["by_name"] = {check["name"]: check for check in answer["checks"]}
        return answer

    return ask


def refused(answer):
    return {name for name, check in answer["by_name"].items() if not check["works"]}


# -- doctor ------------------------------------------------------------------------------------------------------------
def test_doctor_finds_that_this_machine_works(recorder, doctor):
    """The tests themselves record and replay here."""
    answer = doctor()
    assert answer["record"] and answer["replay"], answer
    for check in answer["checks"]:
        assert check["needed_for"] in ("record and replay", "record", "replay", "speed", "nothing")
        assert check["works"] or check["costs"] and check["message"].startswith("this system refuses "), check
    done = recorder.run([recorder.friday, "doctor"])
    assert done.returncode == 0 and done.stdout.endswith("record will work, replay will work\n"), done.stdout


@pytest.mark.parametrize("call, name, record, replay", [
    (PTRACE, "tracing a child (ptrace)", True, False), (MEMFD, "files in memory (memfd)", True, False),
    (SECCOMP, "filters of system calls", True, False), (DISPATCH, "Syscall User Dispatch", False, False), (AFFINITY, "choosing processors", True, True),
    (PERSONALITY, "personality", True, True), (PERF, "hardware counters", True, True), (UFFD, "userfaultfd", True, True)])
def test_doctor_under_a_filter(doctor, call, name, record, replay):
    before, answer = doctor(), doctor(call)
    untried = {"debug registers"} if call == PTRACE else set()  # they are tried by tracing
    assert refused(answer) - untried == (refused(before) | {name}) - untried
    assert "Operation not permitted" in answer["by_name"][name]["found"]
    assert (answer["record"], answer["replay"]) == (record, replay)
    assert answer["machine"]["seccomp"] == "a filter restricts this process"


def test_the_same_words_when_it_happens(recorder, doctor, tmp_path):
    """What doctor says in advance is what record and replay say then."""
    recording = recorder.record(["/bin/echo", "x"], name="it")
    for call, name in (PTRACE, "tracing a child (ptrace)"), (MEMFD, "files in memory (memfd)"), (SECCOMP, "filters of system calls"):
        message = doctor(call)["by_name"][name]["message"]
        done = recorder.run([PYTHON, REFUSE, str(call), "--", recorder.friday, "verify", recording.path])
        assert done.returncode == 2 and message in done.stderr, done.stderr
    message = doctor(DISPATCH)["by_name"]["Syscall User Dispatch"]["message"]
    done = recorder.run([PYTHON, REFUSE, DISPATCH, "--", recorder.friday, "record", "-o", tmp_path / "none", "--", "/bin/echo", "harmed"])
    assert done.returncode == 2 and message in done.stderr and "harmed" not in done.stdout, done
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name, limit, subcommand", [
    ("open files", "--nofile=64", "verify"), ("disk space", f"--fsize={8 << 20}", "record"), ("address space for traces", f"--as={40 << 20}", "record")])
def test_the_same_words_under_limits(recorder, doctor, tmp_path, name, limit, subcommand):
    prefix = ["/usr/bin/prlimit", limit]
    check = doctor(prefix=prefix)["by_name"][name]
    line = ["verify", recorder.record(["/bin/echo", "x"]).path] if subcommand == "verify" else ["record", "-o", tmp_path / "rec", "--", "/bin/echo", "unharmed"]
    done = recorder.run([*prefix, recorder.friday, *line])
    assert not check["works"] and f"): {check['costs']} {check['allow']}" in done.stderr, (check, done.stderr)
    assert "this system refuses " in done.stderr
    if name == "address space for traces":
        assert (done.returncode, done.stdout) == (0, "unharmed\n"), done.stderr


def test_the_same_words_where_processors_cannot_be_chosen(recorder, doctor, tmp_path):
    recording, _ = recorder.record_nodes([["/bin/echo", "x"], ["/bin/echo", "y"]])
    message = doctor(AFFINITY)["by_name"]["choosing processors"]["message"]
    done = recorder.run([PYTHON, REFUSE, AFFINITY, "--", recorder.friday, "verify", recording.path])
    assert done.returncode == 0 and done.stderr == f"friday verify: {message}\n", done.stderr
    (tmp_path / "input").write_text("continue\n")
    with open(tmp_path / "input") as stdin:
        done = recorder.start([PYTHON, REFUSE, AFFINITY, "--", recorder.friday, "replay", recording.path], stdin=stdin).finish()
    assert done.stdout.splitlines().count(message) == 1, done


def test_a_recorder_with_little_room_harms_no_program(recorder, tmp_path):
    """Whatever it cannot have, threads first, the program runs, and what is recorded replays."""
    recorded = []
    for mib in range(30, 120, 6):
        path = tmp_path / str(mib)
        done = recorder.run(["/usr/bin/prlimit", f"--as={mib << 20}", recorder.friday, "record", "-o", path, "--", "/bin/echo", "unharmed"])
        assert "terminate" not in done.stderr, (mib, done.stderr)
        assert (done.returncode, done.stdout) == (0, "unharmed\n") or mib < 60 and done.returncode in (2, 127), (mib, done)
        if done.returncode == 0 and "recording ended" not in done.stderr:
            recorder.verify(path)
            recorded.append(mib)
    assert 114 in recorded


def test_a_recorder_that_gets_no_thread_goes_on(recorder, tmp_path):
    """A thread's stack is as large as the limit of stacks, which is more than there are addresses."""
    path = tmp_path / "rec"
    script = "import os; print(len(os.read(os.open('/dev/zero', os.O_RDONLY), 8 << 20)))"
    done = recorder.run(["/usr/bin/prlimit", f"--stack={512 << 20}", f"--as={400 << 20}", recorder.friday, "record", "-o", path, "--", PYTHON, "-S", "-c", script])
    assert (done.returncode, done.stdout) == (0, f"{8 << 20}\n"), done.stderr
    assert "friday: traces are not compressed: the system gives no thread" in done.stderr and "go unnoticed" in done.stderr, done.stderr
    node = path / "nodes" / "0"
    assert not (node / "trace.zst").exists() and (node / "trace").read_bytes()[208:212] == bytes(4), "readers must not think that it is being compressed"
    recorder.verify(path)


def test_without_filters_only_what_is_trusted_replays(recorder):
    recording = recorder.record(["/bin/echo", "x"])
    refusing = [PYTHON, REFUSE, str(SECCOMP), "--", recorder.friday, "verify", recording.path]
    assert recorder.run(refusing).returncode == 2
    done = recorder.run([*refusing, "--unconfined"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_record_works_where_doctor_says_so(recorder, tmp_path):
    """Without ptrace, memfd and the rest a program is recorded all the same."""
    path = tmp_path / "rec"
    calls = list(map(str, (PTRACE, MEMFD, PERSONALITY, PERF, AFFINITY, UFFD)))
    done = recorder.run([PYTHON, REFUSE, *calls, "--", recorder.friday, "record", "-o", path, "--", "/bin/echo", "recorded"])
    assert (done.returncode, done.stdout) == (0, "recorded\n"), done.stderr
    recorder.verify(path)


def test_doctor_under_limits(doctor):
    answer = doctor(prefix=["/usr/bin/prlimit", f"--fsize={8 << 20}"])
    assert not answer["record"] and answer["replay"] and "File too large" in answer["by_name"]["disk space"]["found"]
    answer = doctor(prefix=["/usr/bin/prlimit", f"--as={48 << 20}"])
    assert not answer["record"] and not answer["replay"]
    assert "Cannot allocate memory" in answer["by_name"]["address space for traces"]["found"]
    answer = doctor(prefix=["/usr/bin/prlimit", "--nofile=64"])
    assert answer["record"] and not answer["replay"] and answer["by_name"]["open files"] == answer["by_name"]["open files"] | {"works": False, "found": "64 allowed"}


def test_doctor_in_a_namespace(doctor):
    """As root of a user namespace of its own, where that is allowed."""
    if subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode:
        pytest.skip("machine: user namespaces are not allowed here")
    answer = doctor(prefix=["unshare", "-Ur"])
    assert answer["record"] and answer["replay"], refused(answer)


def test_doctor_and_gdb(doctor, tmp_path):
    answer = doctor(options=["--gdb", "/absent/gdb"])
    assert answer["record"] and not answer["replay"]
    assert "Debian's package gdb" in answer["by_name"]["gdb"]["message"]
    old = tmp_path / "gdb"
    old.write_text("#!/bin/sh\necho 'GNU gdb (Debian 10.1-1.7) 10.1.90'\n")
    old.chmod(0o755)
    answer = doctor(options=["--gdb", old])
    assert not answer["by_name"]["gdb"]["works"] and "10.1" in answer["by_name"]["gdb"]["found"]
    assert not answer["by_name"]["Python in gdb"]["works"]


def test_doctor_where_nothing_can_be_written(doctor):
    answer = doctor(directory="/proc/absent/recordings")
    assert not answer["record"] and "disk space" in refused(answer)


# -- info --live -------------------------------------------------------------------------------------------------------
def live(recorder, path):
    done = recorder.run([recorder.friday, "info", "--live", "--json", path])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_live(recorder, ticker):
    command, ready = ticker
    running = recorder.start_record(command, name="it")
    wait_until(ready.exists, "the program does not tick")
    first = live(recorder, running.recording)
    node = first["nodes"][0]
    assert first["recording"] and first["recorders"] == [running.pid]
    assert (node["name"], node["state"], node["recorder_pid"]) == ("it", "recording", running.pid)
    assert "ticker.py" in pathlib.Path(f"/proc/{node['pid']}/cmdline").read_text()
    assert node["trace_bytes"] > 100000 and node["events"] > 200 and node["disk_bytes"] > 0
    assert node["mb_per_hour"] > 100 and node["mb_per_hour_now"] > 10  # about 1 MB/s, less on a busy machine
    assert live(recorder, running.recording)["trace_bytes"] > first["trace_bytes"]
    done = recorder.run([recorder.friday, "info", "--live", running.recording])
    assert f"being recorded by {running.pid}" in done.stdout and "MB/h now" in done.stdout, done.stdout
    running.signal(signal.SIGTERM)
    recording = recorder.finish_record(running)
    assert recording.stdout == "stopped\n"
    after = live(recorder, recording.path)
    assert not after["recording"] and after["recorders"] == []
    assert after["nodes"][0]["state"] == "ended" and after["nodes"][0]["text"] == "exited with 0"
    assert "mb_per_hour_now" not in after["nodes"][0] and after["nodes"][0]["mb_per_hour"] > 0


def test_live_after_the_recorder_was_killed(recorder, ticker):
    command, ready = ticker
    running = recorder.start_record(command, name="it")
    wait_until(ready.exists, "the program does not tick")
    program = live(recorder, running.recording)["nodes"][0]["pid"]
    os.kill(running.pid, signal.SIGKILL)
    wait_until(lambda: not live(recorder, running.recording)["recording"], "the dead recorder is said to record")
    node = live(recorder, running.recording)["nodes"][0]
    assert node["state"] == "recorder dead" and node["pid"] == program
    assert f"its recorder ({running.pid}) is dead" in node["text"]
    os.kill(program, signal.SIGTERM)
    running.process.communicate(timeout=30)
    recorder.none_left()
    assert live(recorder, running.recording)["nodes"][0]["state"] == "ended"


def test_live_of_a_group(recorder, ticker):
    command, ready = ticker
    running = recorder.start_record({"node": [{"name": "short", "command": ["/bin/echo", "x"]}, {"name": "long", "command": command}]})
    wait_until(ready.exists, "the program does not tick")
    wait_until(lambda: [n["state"] for n in live(recorder, running.recording)["nodes"]] == ["ended", "recording"], "states", 30)
    running.signal(signal.SIGTERM)
    recorder.finish_record(running)


def test_live_of_no_recording(recorder, tmp_path):
    done = recorder.run([recorder.friday, "info", "--live", tmp_path])
    assert done.returncode == 2 and "is not a recording" in done.stderr


# -- services ----------------------------------------------------------------------------------------------------------
def unit_of(text):
    """{key: [values]} of the [Service] section; anything that is no comment, section or setting fails."""
    settings, section = {}, None
    for line in text.splitlines():
        if not line or line[0] in "#;":
            continue
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match[1]
            continue
        key, equals, value = line.partition("=")
        assert equals and section == "Service" and re.fullmatch(r"[A-Z]\w+", key), line
        settings.setdefault(key, []).append(value)
    return settings


def test_systemd_drop_in(recorder, tmp_path):
    command = ["/usr/bin/env", "-i", "two words", "50%", "$HOME", 'a"b\\c', ""]
    done = recorder.run([recorder.friday, "record", "--print-systemd", "--node", "web", "--max-size", "2G", "--strict", "--", *command])
    assert done.returncode == 0, done.stderr
    unit = unit_of(done.stdout)
    first, line = unit["ExecStart"]
    assert first == "", "a drop-in replaces a command only behind an empty one"
    friday = f'"{recorder.friday}"' if " " in str(recorder.friday) else recorder.friday
    assert line == (f'{friday} record -q -o /var/lib/friday/web --node web --max-size 2G --strict -- '
                    r'/usr/bin/env -i "two words" 50%% $$HOME "a\"b\\c" ""')
    assert unit["StateDirectory"] == ["friday"] and unit["KillMode"] == ["mixed"]
    assert "/etc/systemd/system/web.service.d/friday.conf" in done.stdout
    assert sum(line.startswith("#") for line in done.stdout.splitlines()) >= 8, "each setting is explained"
    analyze = shutil.which("systemd-analyze")
    if analyze:
        (tmp_path / "web.service.d").mkdir()
        (tmp_path / "web.service").write_text("[Unit]\nDescription=web\n[Service]\nExecStart=/bin/true\n")
        (tmp_path / "web.service.d" / "friday.conf").write_text(done.stdout)
        for path in (tmp_path / "web.service", tmp_path / "web.service.d" / "friday.conf"):
            path.chmod(0o644)  # it complains of what the umask(2) of some users allows
        verified = subprocess.run([analyze, "verify", "--man=no", tmp_path / "web.service"], capture_output=True, text=True,
                                  env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"})
        said = [line for line in verified.stderr.splitlines() if "web.service" in line or "friday.conf" in line]
        assert not said, said


def test_systemd_drop_in_with_a_place_of_its_own(recorder, tmp_path):
    done = recorder.run([recorder.friday, "record", "--print-systemd", "-o", "here", "--", "/bin/true"], cwd=tmp_path)
    unit = unit_of(done.stdout)
    assert f" -o {tmp_path}/here --node true --max-size 10G -- /bin/true" in unit["ExecStart"][1]
    assert "StateDirectory" not in unit


def test_container_entry_point(recorder, tmp_path):
    """The line is run as it is, by a shell, with an argument of the container's."""
    script = tmp_path / "it's a service"
    script.write_text("#!/bin/sh\necho \"$@\"\nexit 7\n")
    script.chmod(0o755)
    done = recorder.run([recorder.friday, "record", "--print-container", "-o", tmp_path / "rec", "--node", "web", "--", script, "a b", "$HOME"])
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert len(lines) == 2
    words = json.loads(lines[0].removeprefix("ENTRYPOINT "))
    assert words[words.index("--") + 1:] == [str(script), "a b", "$HOME"] and words[0] == str(recorder.friday)
    for command in (["/bin/sh", "-c", lines[1], "sh", "more"], [*words, "more"]):
        ran = recorder.run(command)
        assert (ran.returncode, ran.stdout) == (7, "a b $HOME more\n"), ran.stderr
    recorder.verify(tmp_path / "rec")
    assert len(recorder.info(tmp_path / "rec")["nodes"]) >= 2


@pytest.mark.parametrize("arguments, words", [
    ([], "a service is one program"), (["--", "/absent/program"], "was not found"), (["--node", "7", "--", "/bin/true"], "cannot name a node"),
    (["--max-size", "huge", "--", "/bin/true"], "is not a size"), (["--", "/bin/echo", "a\nb"], "a new line")])
def test_services_that_cannot_be(recorder, arguments, words):
    done = recorder.run([recorder.friday, "record", "--print-systemd", *arguments])
    assert done.returncode == 2 and words in done.stderr and done.stdout == "", done
