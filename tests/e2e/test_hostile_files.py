"""Files of a recording that a stranger made: what is no regular file, leads elsewhere, has no end or grows without one, or holds what a
terminal obeys. Whatever command looks at it comes to its end soon and in little memory, says which file it refuses, and writes nowhere else.
"""
import functools
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys

import pytest
from crafting import BLOCK, CHECKSUM, COMMITTED, PAGE, block, clear_checksum, last_block, packed, seal, zstd

READERS = ("info", "live", "dump", "verify", "replay", "check", "merge", "python")
# Commands that read the same files by the same ways, so they are tried in the full run only.
OTHERS = ("log", "missing", "restore", "run", "checkpoints", "from", "checkpoint", "ls")
SECONDS, MEMORY = 40, 1 << 30
SESSION = "import sys, friday\ntry:\n    friday.Session(sys.argv[1]).close()\nexcept friday.Error as error:\n    sys.exit(f'friday: {error}')\n"
TERA = 1 << 40


@functools.cache
def measuring():
    """The process in which measured.py runs."""
    return subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("measured.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module", autouse=True)
def measuring_ends():
    yield
    if measuring.cache_info().currsize:
        with measuring():  # closes its input, at which it ends
            pass
        measuring.cache_clear()


class Answer:
    """How a command ended: its exit code, what it said, and the memory of the largest process of it."""

    def __init__(self, command, environment, directory):
        out = directory / "said"
        asked = {"command": [str(word) for word in command], "environment": environment, "output": str(out), "seconds": SECONDS}
        print(json.dumps(asked), file=measuring().stdin, flush=True)
        used = json.loads(measuring().stdout.readline())
        self.code = used["code"]
        self.raw = out.read_bytes()
        self.said = self.raw.decode("utf-8", "surrogateescape")
        assert not used["late"], (command, "took too long", self.said[-2000:])
        assert used["memory"] < MEMORY, (command, "took too much memory", used["memory"])
        assert self.code >= 0, (command, "was ended by a signal", self.code, self.said[-2000:])
        for word in ("Traceback", "bad_alloc", "length_error", "terminate called", "a bug of Friday's"):
            assert word not in self.said, (command, self.said[-2000:])
        assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]", self.raw), (command, "speaks to the terminal", self.raw)

    def refuses(self, reader, name):
        """Whether it did not do what was asked, and named this. Two commands go on with what else there is to tell."""
        return (self.code != 0 or reader in ("info", "check")) and str(name) in self.said


class Victim:
    """A recording that a test spoils, what lies outside of it, and the commands that look at it."""

    def __init__(self, friday, original, directory):
        self.friday, self.directory = friday, directory
        self.path, self.other, self.outside = directory / "recording", directory / "other", directory / "outside"
        shutil.copytree(original / "one", self.path)
        shutil.copytree(original / "two", self.other)
        self.outside.mkdir()
        (self.outside / "secret").write_text("of nobody's concern")
        self.python_path = subprocess.run([friday, "--python-path"], capture_output=True, text=True, check=True).stdout.strip()

    @property
    def script(self):
        path = self.directory / "nothing.py"
        path.write_text("")
        return path

    @property
    def trace(self):
        return self.path / "nodes" / "0" / "trace"

    @property
    def copy(self):
        return max((self.path / "files").iterdir(), key=lambda path: path.stat().st_size)

    def change_trace(self, change):
        data = bytearray(self.trace.read_bytes())
        self.trace.write_bytes(change(data) or data)

    def describe(self, **fields):
        path = self.path / "nodes" / "0" / "node.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    def command(self, reader):
        return {"info": ["info", self.path], "live": ["info", "--live", self.path], "dump": ["dump", "--node", "0", self.path], "verify": ["verify", self.path],
                "replay": ["replay", "--batch", self.path], "check": ["pack", "--check", self.path], "json": ["info", "--json", self.path],
                "merge": ["merge", "--separate-hosts", "-o", self.directory / "merged", f"a={self.path}", f"b={self.other}"],
                "log": ["log", self.path], "missing": ["info", "--missing", self.path], "restore": ["restore", self.path], "run": ["run", self.script, self.path],
                "checkpoints": ["checkpoint", self.path], "from": ["verify", "--from", "0#20", self.path], "checkpoint": ["checkpoint", self.path, "--at", "0#20"],
                "ls": ["ls", self.path.parent]}[reader]

    def look(self, reader):
        """What this reader makes of it; nothing outside has changed by it."""
        before = self.what_lies_outside()
        command = [sys.executable, "-c", SESSION, self.path] if reader == "python" else [self.friday, *self.command(reader)]
        answer = Answer(command, {**os.environ, "PYTHONPATH": self.python_path, "XDG_STATE_HOME": str(self.directory)}, self.directory)
        shutil.rmtree(self.directory / "merged", ignore_errors=True)
        assert self.what_lies_outside() == before, (reader, answer.said)
        return answer

    def what_lies_outside(self):
        return {path.name: path.is_file() and path.read_bytes() for path in self.outside.rglob("*")}


@pytest.fixture(scope="module")
def original(friday, tmp_path_factory):
    directory = tmp_path_factory.mktemp("original")
    for name in ("one", "two"):
        subprocess.run([friday, "record", "-q", "-o", directory / name, "--", "/bin/cat", "/etc/hostname"], check=True, stdout=subprocess.DEVNULL)
    return directory


@pytest.fixture
def victim(friday, original, tmp_path):
    return Victim(friday, original, tmp_path)


def replace(make):
    """The file is replaced by something else: make(path, victim)."""
    def change(victim, path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path, victim)
    return change


def moved_out(victim, path):
    """The true contents, behind a link."""
    target = victim.directory / "moved"
    path.rename(target)
    path.symlink_to(target)


def make_socket(path, victim):
    here = os.getcwd()
    os.chdir(path.parent)  # such names are short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def grow(size):
    def change(victim, path):
        os.truncate(path, size)
    return change


FIFO, SOCKET = replace(lambda path, victim: os.mkfifo(path)), replace(make_socket)
ENDLESS = replace(lambda path, victim: path.symlink_to("/dev/zero"))
DIRECTORY = replace(lambda path, victim: path.mkdir())
ALL, READ_TRACES, READ_COPIES = READERS, ("info", "dump", "verify", "replay", "merge", "python"), ("verify", "replay", "check", "merge", "python")

# What is spoiled, how, and which commands must refuse it by name. The others may do without it.
THINGS = {
    "a FIFO as the trace": ("nodes/0/trace", FIFO, READ_TRACES),
    "a socket as the trace": ("nodes/0/trace", SOCKET, READ_TRACES),
    "a link to /dev/zero as the trace": ("nodes/0/trace", ENDLESS, READ_TRACES),
    "a directory as the trace": ("nodes/0/trace", DIRECTORY, READ_TRACES),
    "the trace behind a link": ("nodes/0/trace", moved_out, READ_TRACES),
    "a FIFO as the compressed trace": ("nodes/0/trace.zst", FIFO, READ_TRACES),
    "a FIFO as the node's description": ("nodes/0/node.json", FIFO, READ_TRACES),
    "a link to /dev/zero as the node's description": ("nodes/0/node.json", ENDLESS, READ_TRACES),
    "a description of a terabyte": ("nodes/0/node.json", grow(TERA), READ_TRACES),
    "a FIFO as the recording's description": ("recording.json", FIFO, ALL),
    "a link to /dev/zero as the recording's description": ("recording.json", ENDLESS, ALL),
    "a recording's description of a terabyte": ("recording.json", grow(TERA), ALL),
    "a FIFO as the directory of nodes": ("nodes", FIFO, ALL),
    "the nodes behind a link": ("nodes", moved_out, ALL),
    "a node behind a link": ("nodes/0", moved_out, READ_TRACES),
    "a FIFO as a file's copy": ("COPY", FIFO, READ_COPIES),
    "a link to /dev/zero as a file's copy": ("COPY", ENDLESS, READ_COPIES),
    "a file's copy behind a link": ("COPY", moved_out, READ_COPIES),
    "the copies behind a link": ("files", moved_out, READ_COPIES),
    "a FIFO among the debug information": ("debug/.build-id/ab/cd.debug", FIFO, READ_COPIES),
    "the debug information behind a link": ("debug", replace(lambda path, victim: path.symlink_to(victim.outside)), READ_COPIES),
}


@pytest.mark.parametrize("case", THINGS, ids=lambda case: case.replace(" ", "-").replace("/", "-"))
def test_what_is_no_file_is_refused_by_name(victim, case):
    name, change, refusing = THINGS[case]
    path = victim.copy if name == "COPY" else victim.path / name
    change(victim, path)
    for reader in READERS:
        answer = victim.look(reader)
        if reader in refusing:
            assert answer.refuses(reader, path), (reader, answer.code, answer.said)


@pytest.mark.full
@pytest.mark.parametrize("case", THINGS, ids=lambda case: case.replace(" ", "-").replace("/", "-"))
def test_other_commands_come_to_their_end(victim, case):
    name, change, _ = THINGS[case]
    change(victim, victim.copy if name == "COPY" else victim.path / name)
    for reader in OTHERS:
        victim.look(reader)


# What is spoiled of the checkpoints that a recording holds.
CHECKPOINTS = {
    "a FIFO as a table": ("20", FIFO), "a table behind a link": ("20", moved_out), "a link to /dev/zero as a table": ("20", ENDLESS), "a table of a terabyte": ("20", grow(TERA)),
    "a FIFO as the pages": ("pages", FIFO), "the pages behind a link": ("pages", moved_out), "a link to /dev/zero as the pages": ("pages", ENDLESS),
    "no pages": ("pages", lambda victim, path: os.truncate(path, 0)), "a directory as the pages": ("pages", DIRECTORY), "all behind a link": ("", moved_out),
    "a link out": ("", replace(lambda path, victim: path.symlink_to(victim.outside))), "a FIFO": ("", FIFO),
}


@pytest.mark.parametrize("case", CHECKPOINTS, ids=lambda case: case.replace(" ", "-").replace("/", "-"))
def test_a_checkpoint_that_is_no_file_is_not_used(victim, case):
    """The replay begins at the start then, or the directory is refused by name. Nothing is written to where a link leads, also when another
    checkpoint is made."""
    assert victim.look("checkpoint").code == 0 and (victim.path / "checkpoints" / "20").exists()
    name, change = CHECKPOINTS[case]
    path = victim.path / "checkpoints" / name
    change(victim, path)
    answer = victim.look("from")
    if name:
        assert answer.code == 0 and re.search("cannot be used|holds no checkpoint", answer.said), answer.said
    else:
        assert answer.code == 2 and f"{path} is a" in answer.said, answer.said
    for reader in ("checkpoints", "checkpoint"):
        victim.look(reader)


@pytest.mark.skipif(os.geteuid() != 0, reason="machine: only root can make a device")
def test_a_device_as_the_trace(victim):
    victim.trace.unlink()
    os.mknod(victim.trace, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    for reader in READ_TRACES:
        answer = victim.look(reader)
        assert answer.refuses(reader, f"{victim.trace} is a device"), (reader, answer.said)


CACHES = {
    "a link out": lambda cache, outside: cache.symlink_to(outside),
    "a FIFO": lambda cache, outside: os.mkfifo(cache),
    "links inside": lambda cache, outside: (cache.mkdir(), (cache / "symbols").symlink_to(outside), *[(cache / name).symlink_to(outside / name) for name in ("schedule", "index-0")]),
    "FIFOs inside": lambda cache, outside: (cache.mkdir(), *[os.mkfifo(cache / name) for name in ("schedule", "index-0")]),
    "a FIFO among the symbols": lambda cache, outside: ((cache / "symbols").mkdir(parents=True), os.mkfifo(cache / "symbols" / "aabb.gdb-index")),
}


@pytest.mark.parametrize("case", CACHES, ids=lambda case: case.replace(" ", "-"))
def test_the_cache_is_never_written_through(victim, case):
    """A cache that cannot be used costs time, nothing else: each command does what it does without."""
    cache = victim.path / "cache"
    names = [path.relative_to(cache) for path in cache.rglob("*")] if cache.exists() else []
    shutil.rmtree(cache, ignore_errors=True)
    CACHES[case](cache, victim.outside)
    for reader in READERS:
        answer = victim.look(reader)
        assert answer.code == 0, (reader, names, answer.said)


def test_the_names_of_caches_above_are_true(victim):
    victim.look("info")
    assert {"schedule", "index-0"} <= {path.name for path in (victim.path / "cache").iterdir()}, list((victim.path / "cache").iterdir())


# -- What grows

def put_compressed(victim, make):
    """make(trace): the bytes of the compressed form, in place of the plain one."""
    data = bytes(victim.trace.read_bytes())
    victim.trace.unlink()
    (victim.trace.parent / "trace.zst").write_bytes(make(data))


def test_a_compressed_trace_is_taken_as_the_plain_one(victim):
    """Else what follows would prove nothing."""
    put_compressed(victim, packed)
    for reader in READERS:
        assert (answer := victim.look(reader)).code == 0, (reader, answer.said)


def with_committed(page, committed):
    page = bytearray(page)
    struct.pack_into("<Q", page, COMMITTED, committed)
    clear_checksum(page)
    return page


FRAME = zstd(bytes(BLOCK))
BOMBS = {
    "blocks of zeros behind the last record": lambda data: packed(bytes(with_committed(data, len(data) + 64 * BLOCK)) + bytes(64 * BLOCK)),
    "a block that says to be larger than it is": lambda data: block(PAGE, data[PAGE:], size=BLOCK) + last_block(data),
    "a block that says to be smaller than it is": lambda data: block(PAGE, data[PAGE:], size=4096) + last_block(with_committed(data, 8192)),
    "a frame of 4 GiB in a block of 4 MiB": lambda data: block(PAGE, data[PAGE:], frame=FRAME * 1024, size=BLOCK) + last_block(with_committed(data, PAGE + BLOCK)),
    "200 GiB in 50,000 blocks": lambda data: b"".join(block(PAGE + n * BLOCK, b"", frame=FRAME, size=BLOCK) for n in range(50_000)) + last_block(with_committed(data, PAGE + 50_000 * BLOCK)),
    "a million blocks of a byte": lambda data: b"".join(block(PAGE + n, b"", frame=FRAME, size=1) for n in range(1_000_000)) + last_block(with_committed(data, PAGE + 1_000_000)),
}


@pytest.mark.parametrize("case", BOMBS, ids=lambda case: case.replace(" ", "-").replace(",", ""))
def test_a_compressed_trace_grows_to_no_more_than_it_says(victim, case):
    put_compressed(victim, BOMBS[case])
    free = shutil.disk_usage(victim.path).free
    for reader in ("info", "dump", "verify", "check", "merge", "python"):
        answer = victim.look(reader)
        assert answer.refuses(reader, victim.trace), (reader, answer.code, answer.said)
    assert shutil.disk_usage(victim.path).free > free - (1 << 30)


def test_a_frame_that_takes_a_terabyte_of_the_file(victim):
    put_compressed(victim, lambda data: block(PAGE, data[PAGE:], frame=b"", size=BLOCK, stored=TERA - 4096))
    os.truncate(victim.trace.parent / "trace.zst", TERA)
    for reader in ("info", "dump", "verify", "merge", "python"):
        answer = victim.look(reader)
        assert answer.refuses(reader, victim.trace), (reader, answer.said)


def test_a_plain_trace_of_a_terabyte(victim):
    """Its header says that all of it is committed: the first record of zeros is the end."""
    victim.change_trace(lambda data: with_committed(data, TERA))
    os.truncate(victim.trace, TERA)
    for reader in ("info", "dump", "verify", "merge", "python"):
        answer = victim.look(reader)
        assert answer.refuses(reader, victim.trace), (reader, answer.said)


def test_a_description_nested_deeper_than_memory(victim):
    (victim.trace.parent / "node.json").write_text("[" * (15 << 20))
    for reader in READERS:
        assert (answer := victim.look(reader)).code == 0, (reader, answer.said)


@pytest.mark.parametrize("reader", ["info", "dump", "check", "merge"])
def test_little_memory_is_said_in_words(victim, reader):
    """A limit of the user's that leaves too little, for a description that can be read in more."""
    victim.describe(argv=["x"] * 300_000)
    limits = ["prlimit", f"--as={150 << 20}", victim.friday]
    answer = Answer([*limits, *victim.command(reader)], dict(os.environ), victim.directory)
    assert answer.code in (0, 2), answer.said


# -- What a terminal obeys

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202emoc.elpmaxe\nnode 9 forged\r\x7f"


def test_names_are_shown_and_not_obeyed(victim):
    """Answer looks at every byte that each command says."""
    victim.describe(name=EVIL, lineage=[EVIL], argv=[EVIL, EVIL], host=EVIL, cwd=EVIL, notice=EVIL, program=EVIL)
    for reader in ("info", "live", "verify", "check", "merge", "python", "replay"):
        answer = victim.look(reader)
        assert answer.code == 0, (reader, answer.said)
        assert not re.search(r"^node 9", answer.said, re.M), (reader, answer.said)
        if reader in ("info", "live", "check", "merge"):
            assert r"\x1b]0;title\x07" in answer.said and r"\u202e" in answer.said and r"\nnode 9 forged\x0d\x7f" in answer.said, answer.said


def test_json_tells_names_as_they_are(victim):
    victim.describe(name=EVIL, argv=[EVIL])
    answer = victim.look("json")
    node = json.loads(answer.said)["nodes"][0]
    assert node["name"] == EVIL and node["argv"] == [EVIL]


def test_paths_in_events_and_files(victim):
    """What the trace itself tells, also where it is no UTF-8."""
    before, after = b"/etc/hostname", b"/\x1b[2J\x9b\xff\xe2\x80\xae\r\nx"

    def change(data):
        assert before in data and len(before) == len(after)
        data[:] = data.replace(before, after)
        seal(data)

    victim.change_trace(change)
    dump = victim.look("dump")
    assert r"/\x1b[2J\x9b\xff\u202e\x0d\nx" in dump.said, dump.said
    for reader in READERS:
        victim.look(reader)


def test_a_program_whose_path_is_no_text(victim):
    """The node's name, where its description is lost."""
    (victim.trace.parent / "node.json").unlink()

    def change(data):
        data[:] = data.replace(b"/usr/bin/cat\0", b"/usr/\x1b[2J\xff\xfe\0\0")
        seal(data)

    victim.change_trace(change)
    for reader in READERS:
        victim.look(reader)


# -- The header

@pytest.mark.parametrize("place", range(0, 224, 8))
def test_a_header_with_a_flipped_bit(victim, place):
    """No byte of a header is believed that is not what the recorder wrote."""
    victim.change_trace(lambda data: data.__setitem__(place + place // 8 % 8, data[place + place // 8 % 8] ^ 0x20))
    for reader in ("info", "dump", "verify", "merge"):
        answer = victim.look(reader)
        assert answer.refuses(reader, victim.trace), (reader, answer.code, answer.said)


def test_a_trace_of_a_time_before_the_checksum(victim):
    victim.change_trace(clear_checksum)
    for reader in READERS:
        assert (answer := victim.look(reader)).code == 0, (reader, answer.said)


def test_a_merged_recording_has_a_header_that_holds(victim):
    """merge --separate-hosts changes the header of each trace."""
    merged = victim.directory / "both"
    done = subprocess.run([victim.friday, "merge", "--separate-hosts", "-o", merged, f"a={victim.path}", f"b={victim.other}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for trace in merged.glob("nodes/*/trace"):
        before, data = trace.read_bytes(), bytearray(trace.read_bytes())
        seal(data)
        assert data == before and any(data[CHECKSUM:CHECKSUM + 8]), trace
    victim.path = merged
    assert (answer := victim.look("verify")).code == 0, answer.said


# -- Holes

def test_a_hole_costs_neither_disk_nor_silence(recorder, victim):
    """A program maps a file of 8 GiB that holds 3 bytes of data: so does the copy, and that of a merge."""
    large = victim.outside.parent / "large"
    with open(large, "wb") as file:
        file.seek((8 << 30) - 3)
        file.write(b"end")
    code = f"import mmap, os; m = mmap.mmap(os.open({str(large)!r}, os.O_RDONLY), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ); print(m[-3:])"
    recording = recorder.record([sys.executable, "-S", "-c", code])
    assert recording.stdout == "b'end'\n", recording
    recorder.verify(recording)
    merged = victim.directory / "both"
    subprocess.run([victim.friday, "merge", "-o", merged, f"a={recording.path}", f"b={victim.other}"], check=True, capture_output=True)
    for directory in (recording.path, merged):
        copies = [path.stat() for path in (directory / "files").iterdir() if path.stat().st_size == 8 << 30]
        assert len(copies) == 1 and copies[0].st_blocks * 512 < 1 << 20, copies


# -- a second recorder adds to it -----------------------------------------------------------------------------------------
def to_outside(victim, path):
    """What was there has its place outside, behind a link."""
    if path.exists():
        path.rename(victim.outside / path.name)
    else:
        (victim.outside / path.name).write_bytes(bytes(8192))
    path.symlink_to(victim.outside / path.name)


@pytest.mark.parametrize(("name", "change"), [
    *((name, to_outside) for name in ("tokens", "recording.json", "nodes", "files", "files/*")),
    ("tokens", FIFO), ("tokens", DIRECTORY), ("recording.json", FIFO), ("nodes", SOCKET), ("files", FIFO)])
def test_nothing_outside_is_written_by_a_recorder_that_adds_to_it(victim, name, change):
    """It is refused by name; without a copy of a file, which it does not trust, its contents stand in the trace."""
    path = victim.copy if name == "files/*" else victim.path / name
    change(victim, path)
    before = victim.what_lies_outside()
    answer = Answer([victim.friday, "record", "-o", victim.path, "--", "/bin/cat", "/etc/hostname"], dict(os.environ), victim.directory)
    assert victim.what_lies_outside() == before, answer.said
    if name == "files/*":
        path.unlink()
        assert answer.code == 0 and "verified" in Answer([victim.friday, "verify", "--node", "1", victim.path], dict(os.environ), victim.directory).said
    else:
        assert answer.code == 2 and f"{path} is a" in answer.said, answer.said


@pytest.mark.parametrize("change", [to_outside, FIFO, DIRECTORY, SOCKET])
def test_output_of_a_group_goes_through_no_link(victim, change, tmp_path):
    """A relative `stdout` lies in the recording, which may be a stranger's."""
    change(victim, victim.path / "n.out")
    before = victim.what_lies_outside()
    group = tmp_path / "group.toml"
    group.write_text('[[node]]\nname = "n"\ncommand = ["/bin/echo", "hello"]\nstdout = "n.out"\n')
    answer = Answer([victim.friday, "record", "-o", victim.path, "--group", group], dict(os.environ), victim.directory)
    assert victim.what_lies_outside() == before, answer.said
    assert answer.code == 2 and "node n: stdout: " in answer.said and "n.out is a" in answer.said, answer.said


def test_output_of_a_group_in_a_directory_of_its_own(recorder, tmp_path):
    group = {"group": {}, "node": [{"name": "n", "command": ["/bin/echo", "hello"], "stdout": "logs/n/out"}]}
    recording = recorder.record(group)
    assert recording.returncode == 0 and (recording.path / "logs" / "n" / "out").read_text() == "hello\n", recording
    lost = recorder.record({"group": {}, "node": [{"name": "n", "command": ["/bin/echo", "hello"], "stdout": str(tmp_path / "none" / "out")}]})
    assert lost.returncode == 2 and "node n: stdout: " in lost.stderr and "No such file" in lost.stderr, lost.stderr


# -- What nobody ends: nodes that wait for each other ------------------------------------------------------------------------
PARENT_UUID, FORK_EVENT = 64, 80  # offsets in the trace's header


@pytest.fixture(scope="module")
def forked(friday, tmp_path_factory):
    path = tmp_path_factory.mktemp("forked") / "recording"
    subprocess.run([friday, "record", "-q", "-o", path, "--", "/bin/sh", "-c", "(echo child); echo parent"], check=True, stdout=subprocess.DEVNULL)
    return path


ORPHANS = {
    "of a parent that is not there": (lambda data: data.__setitem__(slice(PARENT_UUID, PARENT_UUID + 16), b"nobody's child.."), 2, "does not hold that one"),
    "of itself": (lambda data: data.__setitem__(slice(PARENT_UUID, PARENT_UUID + 16), data[48:64]), 2, "does not hold that one"),
    "of an event that forks nobody": (lambda data: struct.pack_into("<Q", data, FORK_EVENT, 3), 4, "the order of this recording cannot be followed"),
}


@pytest.mark.parametrize("case", ORPHANS, ids=lambda case: case.replace(" ", "-"))
@pytest.mark.parametrize("command", [["verify"], ["run", "script"]], ids=lambda command: command[0])
def test_a_child_that_nothing_forks(friday, forked, tmp_path, command, case):
    """What its parent does behind the fork comes after what the child does, which never begins."""
    change, code, words = ORPHANS[case]
    shutil.copytree(forked, tmp_path / "recording")
    (tmp_path / "script").write_text("import friday\nfriday.session.run()\n")
    trace = tmp_path / "recording" / "nodes" / "1" / "trace"
    data = bytearray(trace.read_bytes())
    change(data)
    seal(data)
    trace.write_bytes(data)
    answer = Answer([friday, *(word.replace("script", str(tmp_path / "script")) for word in command), tmp_path / "recording"], dict(os.environ), tmp_path)
    assert answer.code == code and words in answer.said, (answer.code, answer.said)


@pytest.mark.parametrize("command", ["verify", "info"])
def test_a_copy_of_a_node(friday, forked, tmp_path, command):
    """Its parent has forked one child, so a second one would be waited for without end."""
    shutil.copytree(forked, tmp_path / "recording")
    shutil.copytree(tmp_path / "recording" / "nodes" / "1", tmp_path / "recording" / "nodes" / "7")
    answer = Answer([friday, command, tmp_path / "recording"], dict(os.environ), tmp_path)
    assert answer.code == (2 if command == "verify" else 0) and "node 7 is a copy of node 1" in answer.said, (answer.code, answer.said)


def test_generations_without_end(victim):
    """Thousands of nodes, each the child of the one before: 20 MB of recording, and names that grow with each generation."""
    page = bytearray(victim.trace.read_bytes()[:PAGE])
    struct.pack_into("<QQ", page, COMMITTED, PAGE, 0)  # no record, and no event
    parent = bytes(page[48:64])
    for number in range(1, 5001):
        uuid = struct.pack("<QQ", number, 1)
        page[48:64], page[PARENT_UUID:PARENT_UUID + 16] = uuid, parent
        seal(page)
        directory = victim.path / "nodes" / str(number)
        directory.mkdir()
        (directory / "trace").write_bytes(page)
        parent = uuid
    for reader in ("info", "dump", "verify"):
        assert (answer := victim.look(reader)).code == 0, (reader, answer.said[-2000:])
