"""`friday pack`: a recording brings its debug information along, and says what it holds before it is handed on."""

import json
import shlex
import shutil
import socket
import subprocess
import threading

import pytest
from console_support import PROMPT, Terminal
from debug_support import BUILD

SOURCE = r"""
#include <stdio.h>
struct pair { int first, second; } answer = {20, 22};
int add(struct pair *p) { return p->first + p->second; }
int main(void) { printf("%d\n", add(&answer)); return 0; }
"""


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return notes.partition("Build ID: ")[2].split()[0]


def split_program(directory, name="summing"):
    """A stripped program, and the file with its debug information."""
    directory.mkdir(exist_ok=True)
    source, program, symbols = (directory / f"{name}{end}" for end in (".c", "", ".debug"))
    source.write_text(SOURCE.replace("20, 22", f"20, {len(name) + 15}"))
    subprocess.run(["gcc", "-g", "-O0", "-Wl,--build-id", "-o", program, source], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, symbols], check=True)
    subprocess.run(["strip", "--strip-all", program], check=True)
    return program, symbols


def asked(recorder, recording, *options):
    done = recorder.start([recorder.friday, "replay", recording, "--batch", *options], stdin=subprocess.PIPE)
    done.process.stdin.write("break add\ncontinue\nprint p->second\n")
    done.process.stdin.close()
    done.process.stdin = None
    return done.finish(60)


def pack(recorder, recording, *options):
    done = recorder.run([recorder.friday, "pack", "--json", recording, *options])
    assert done.returncode == 0, done.stderr
    return {file["path"]: file for file in json.loads(done.stdout)["files"]}


def test_symbols_of_a_stripped_program_are_found_by_build_id_or_missed_by_name(recorder, tmp_path):
    program, symbols = split_program(tmp_path / "built")
    recording = recorder.record([program], name="stripped")
    done = recorder.run(["/bin/sh", "-c", f"echo 'print nothing_like_it' | '{recorder.friday}' replay '{recording.path}'"])
    assert "summing has no debug information" in done.stderr and done.stderr.startswith("friday: Without debug information: node 0 (summing)."), done.stderr
    (tmp_path / "empty.py").write_text("")
    two = recorder.record({"node": [{"name": name, "command": [str(each)]} for name, each in (("a", program), ("b", BUILD / "targets" / "calls"), ("c", program))]}, name="group")
    done = recorder.run([recorder.friday, "run", tmp_path / "empty.py", two.path])
    assert done.returncode == 0 and done.stderr.startswith("friday: Without debug information: nodes 0,2 (summing)."), done.stderr
    done = asked(recorder, recording.path, "--symbols", tmp_path)
    assert done.returncode == 2 and f"no symbols in {tmp_path}: it has no directory .build-id" in done.stderr
    id = build_id(program)
    (tmp_path / ".build-id" / id[:2]).mkdir(parents=True)
    shutil.move(symbols, tmp_path / ".build-id" / id[:2] / f"{id[2:]}.debug")
    warning = "Without debug information: node 0 (summing). Of functions the names are known at most, of variables and lines nothing; add it with `--symbols DIR`"
    for options, warned in ((), True), (("--symbols", tmp_path), False):
        with Terminal(recorder, [recorder.friday, "replay", recording.path, *options], columns=250) as terminal:
            assert (warning in terminal.expect(PROMPT)) == warned
    done = asked(recorder, recording.path, "--symbols", tmp_path)
    assert done.returncode == 0 and "= 22" in done.stdout, done.stderr
    done = recorder.run(["/bin/sh", "-c", f"printf 'break ad\\nprint answr\\nwatch add::q\\n' | '{recorder.friday}' replay '{recording.path}' --symbols '{tmp_path}'"])
    assert [line.rpartition("nearest is ")[2].partition(";")[0] for line in done.stderr.splitlines()] == ["`add`", "`answer`", "add has no variable `q`"], done.stderr
    script = tmp_path / "s.py"
    script.write_text("@friday.session.breakpoint('add')\ndef f():\n    print('second', @(p->second))\n")
    done = recorder.run([recorder.friday, "run", script, recording.path, "--symbols", tmp_path])
    assert done.returncode == 0 and done.stdout == "second 22\n", done.stderr
    recorder.none_left()


def test_symbols_move_along(recorder, tmp_path):
    program, symbols = split_program(tmp_path / "built")
    store = tmp_path / "store"
    (store / "deep").mkdir(parents=True)
    shutil.move(symbols, store / "deep" / "any-name")
    recording = recorder.record([program], name="it")
    assert recording.stdout == "42\n"
    bare = asked(recorder, recording.path)
    assert bare.returncode != 0 and "22" not in bare.stdout, "without packing there should be no symbols"
    packed = pack(recorder, recording.path, "--symbols", store)
    assert packed[str(program)]["state"] == "added" and packed[str(program)]["source"] == str(store / "deep" / "any-name")
    assert packed[str(program)]["build_id"] == build_id(program)
    # Another machine has neither the program nor its symbols.
    shutil.rmtree(store)
    shutil.rmtree(program.parent)
    moved = tmp_path / "moved"
    shutil.move(recording.path, moved)
    said = asked(recorder, moved)
    assert said.returncode == 0 and "= 22" in said.stdout, (said.stdout, said.stderr)
    assert "summing.c:4" in said.stdout, said.stdout
    assert pack(recorder, moved)[str(program)]["state"] == "present"
    recorder.verify(moved)
    # A merged recording keeps it.
    other = recorder.record(["/bin/true"], name="other").path
    done = recorder.run([recorder.friday, "merge", "-o", tmp_path / "merged", moved, other])
    assert done.returncode == 0, done.stderr
    assert pack(recorder, tmp_path / "merged")[str(program)]["state"] == "present"


def test_symbols_of_the_system_and_shared_parts(recorder, tmp_path):
    """As -dbgsym packages have them: by build id below /usr/lib/debug, with a part that several files share (dwz)."""
    program, symbols = split_program(tmp_path / "built")
    shared, shared_symbols = split_program(tmp_path / "shared", "shared-part")
    link = tmp_path / "link"
    link.write_bytes(b"../../.dwz/part.debug\0" + bytes.fromhex(build_id(shared)))
    subprocess.run(["objcopy", "--add-section", f".gnu_debugaltlink={link}", symbols], check=True)
    system, id = tmp_path / "system", build_id(program)
    (system / ".build-id" / id[:2]).mkdir(parents=True)
    shutil.move(symbols, system / ".build-id" / id[:2] / f"{id[2:]}.debug")
    (system / ".dwz").mkdir()
    shutil.move(shared_symbols, system / ".dwz" / "part.debug")
    recording = recorder.record([program], name="it")
    done = recorder.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f"mount --bind {system} /usr/lib/debug && exec {shlex.quote(str(recorder.friday))} pack --json {recording.path}"])
    if "unshare failed" in done.stderr:
        pytest.skip(f"machine: it gives an ordinary user no namespaces: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    packed = {file["path"]: file for file in json.loads(done.stdout)["files"]}
    assert packed[str(program)]["state"] == "added" and packed[str(program)]["source"].startswith("/usr/lib/debug/.build-id/")
    kept = sorted(file.relative_to(recording.path / "debug").as_posix() for file in (recording.path / "debug").rglob("*.debug"))
    assert kept == sorted(f".build-id/{each[:2]}/{each[2:]}.debug" for each in (id, build_id(shared)))
    assert all(file.stat().st_mode & 0o077 == 0 for file in (recording.path / "debug").rglob("*"))


def test_symbols_of_another_build_are_not_taken(recorder, tmp_path):
    program, symbols = split_program(tmp_path / "built")
    recording = recorder.record([program], name="it")
    _, others = split_program(tmp_path / "other", "other")
    assert pack(recorder, recording.path, "--symbols", others.parent)[str(program)]["state"] == "missing"
    done = recorder.run([recorder.friday, "pack", recording.path, "--symbols", tmp_path / "none"])
    assert done.returncode == 2 and "cannot search" in done.stderr and "--symbols" in done.stderr
    done = recorder.run([recorder.friday, "pack", tmp_path])
    assert done.returncode == 2 and "is not a recording" in done.stderr
    id = build_id(program)
    assert not (recording.path / "debug" / ".build-id" / id[:2] / f"{id[2:]}.debug").exists()


READER = r"""
import os, socket, sys
open(sys.argv[1]).read()
talk = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
talk.recv(100)
sys.stdin.readline()
os.write(1, b"done\n")
"""


def test_check_says_what_a_recording_holds(recorder, tmp_path):
    secrets = tmp_path / "deploy.pem"
    secrets.write_text("a key that nobody may see\n" * 100)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def answer():
        peer, _ = listener.accept()
        peer.sendall(b"forty-two bytes that came from a peer.....")
        peer.close()

    thread = threading.Thread(target=answer)
    thread.start()
    command = ["/usr/bin/python3", "-S", "-c", READER, secrets, str(port), "--password=hunter2"]
    recording = recorder.record(command, name="reader", env={"DEPLOY_TOKEN": "t0psecret-value", "PLAIN": "x"})
    thread.join(10)
    listener.close()
    assert recording.stdout == "done\n", recording
    before = {file: file.read_bytes() for file in recording.path.rglob("*") if file.is_file()}
    done = recorder.run([recorder.friday, "pack", "--check", "--json", recording.path])
    assert done.returncode == 0, done.stderr
    held = json.loads(done.stdout)
    node = held["nodes"][0]
    assert node["name"] == "reader" and node["argv"][-1] == "--password=hunter2"
    assert {"DEPLOY_TOKEN", "PLAIN", "PATH"} <= set(node["environment"])
    assert node["file_bytes"][str(secrets)] == secrets.stat().st_size
    assert node["peer_bytes"][f"127.0.0.1:{port}"] == 42
    assert str(secrets) in node["paths"] and node["memory_bytes"] > 100_000 and node["sent_bytes"] >= 5
    copies = {copy["path"]: copy for copy in held["copies"]}
    assert any("libc.so" in path and copy["code"] for path, copy in copies.items())
    assert held["bytes"] >= sum(copy["bytes"] for copy in held["copies"])
    said = recorder.run([recorder.friday, "pack", "--check", recording.path])
    assert said.returncode == 0, said.stderr
    for words in ("environment variable DEPLOY_TOKEN", f"of {secrets}", "the command line has an argument like a secret's", "Whoever has it can read", "42 bytes"):
        assert words in said.stdout, (words, said.stdout)
    assert "t0psecret-value" not in said.stdout + done.stdout, "it shows a value"
    assert {file: file.read_bytes() for file in recording.path.rglob("*") if file.is_file()} == before, "--check changed the recording"
    assert b"t0psecret-value" in (recording.path / "nodes" / "0" / "trace").read_bytes(), "the value is held, as the report says"


def test_check_of_a_damaged_recording(recorder, tmp_path):
    recording = recorder.record(["/bin/echo", "hello"], name="echo")
    trace = recording.path / "nodes" / "0" / "trace"
    trace.write_bytes(trace.read_bytes()[:-100])
    done = recorder.run([recorder.friday, "pack", "--check", recording.path])
    assert done.returncode == 0 and "NOT READ TO ITS END" in done.stdout and "truncated" in done.stdout, (done.stdout, done.stderr)
