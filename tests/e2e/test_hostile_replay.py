"""A recording is a stranger's: what it makes a replayed process do stays in that process. Each test changes the recorded code
(tests/targets/hostile.c) so that it attacks at replay, with all hashes and checksums right, and looks that nothing outside has
changed and that `friday verify` names what was tried.
"""
import os
import socket
import struct

import pytest
from crafting import change_file, records, seal

MARK = b"attack no.: "
NOTHING_TRIED = 99
IMAGE_REGISTERS, IMAGE_MAP, IMAGE_PAGES = 1, 2, 3  # kImageRecord, kImageMap, kImagePages of trace_format.h


@pytest.fixture
def outside(recorder, tmp_path):
    """What an attack is after: a path, a port and a process, and whether it has got there."""
    class Outside:
        path = tmp_path / "reached"

        def __init__(self):
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.port = self.listener.getsockname()[1]
            self.victim = recorder.start(["sleep", "600"])

        def untouched(self):
            self.listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                self.listener.accept()
            return self.victim.alive() and not self.path.exists()

    found = Outside()
    yield found
    found.listener.close()


def friday_stub_addresses(build):
    """The addresses of the loop and of the table of friday-stub: after the int3 at its entry, and in its only writable segment."""
    image = (build / "lib" / "friday-stub").read_bytes()
    entry, headers = struct.unpack_from("<QQ", image, 24)
    size, count = struct.unpack_from("<HH", image, 54)
    segments = [struct.unpack_from("<IIQQ", image, headers + n * size) for n in range(count)]
    return entry + 1, next(address for kind, flags, _, address in segments if kind == 1 and flags & 2)


@pytest.fixture
def crafted(recorder, build, targets, outside):
    """crafted(NUMBER): a recording that makes this attack when it is replayed."""
    def make(number):
        recording = recorder.record([targets / "hostile", outside.path, outside.port, outside.victim.pid, *map(hex, friday_stub_addresses(build))])
        assert recording.returncode == 0, recording.stderr
        change_file(recording.path, MARK, lambda code: code.replace(MARK + bytes(4), MARK + struct.pack("<I", number)))
        return recording
    return make


def test_a_changed_copy_is_what_is_replayed(recorder, crafted):
    """Else the attacks below would prove nothing: hashes and checksums are right, and it is replayed as any other."""
    recorder.verify(crafted(NOTHING_TRIED))


ATTACKS = {
    1: ("creates a file by the shim's own call", "open"),
    2: ("connects to a port", "socket"),
    3: ("creates a file by a call of its own, with Syscall User Dispatch off", "open"),
    4: ("creates a file by int 0x80", "32-bit"),
    5: ("creates a file by sysenter", None),  # where the processor has none, it is an invalid instruction
    6: ("forks a child that creates a file", None),
    7: ("executes a shell", "execve"),
    8: ("kills another process", "kill"),
    9: ("traces another process", "ptrace"),
    10: ("opens its own memory file", "open"),
    11: ("makes an io_uring", "io_uring_setup"),
    12: ("creates a file by a number of the x32 calls", "open"),
    13: ("creates a file through the code of friday-stub", "open"),
    14: ("writes to the descriptors that it finds", "write"),
    15: ("forks a child that nobody traces", "clone"),
    16: ("reads the time by the vsyscall page", None),
    17: ("reads a file", "openat"),
    18: ("signals another process", "tgkill"),
    19: ("leaves its session", "setsid"),
    20: ("lets go of its owner", "prctl"),
    22: ("forks without end", None),
    23: ("kills Friday", "getppid"),
}


@pytest.mark.parametrize("number", ATTACKS, ids=lambda number: ATTACKS[number][0].replace(" ", "-"))
def test_attack(recorder, crafted, outside, tmp_path, calls_of_32_bits, number):
    recording = crafted(number)
    out = tmp_path / "out"
    done = recorder.run(["sh", "-c", f'exec "$0" verify "$1" > "{out}"', recorder.friday, recording.path], timeout=60)
    said = out.read_text() + done.stderr
    assert outside.untouched()
    assert done.returncode in (3, 4) and "verified" not in said, (done.returncode, said)
    assert "changed by a replayed process" not in said
    call = ATTACKS[number][1]
    if call == "32-bit" and not calls_of_32_bits:
        call = None  # the kernel has refused it before the filter sees it
    assert call is None or f"system call {call}" in said or f"{call} system call" in said, said
    outside.victim.process.kill()
    recorder.none_left()


def test_only_who_asks_for_it_runs_it_unconfined(recorder, crafted, outside):
    """The attack does work: without the filter the file is there."""
    recorder.verify(crafted(1), "--unconfined")
    assert outside.path.exists()


@pytest.mark.parametrize("number", [21, 24, 25], ids=["its own", "shared and mapped no more", "page tables"])
def test_memory_without_end(recorder, crafted, number):
    """The replayed process takes what there is: it is stopped at the limit, here one of the user's."""
    recording = crafted(number)
    done = recorder.run(["prlimit", f"--rss={256 << 20}", recorder.friday, "verify", recording.path], timeout=100)
    assert done.returncode == 4 and "use more than 256 MiB of memory" in done.stdout + done.stderr, done


def test_a_start_image_with_contents_for_friday_stub(recorder, build, outside):
    """friday-stub, which builds the process, runs before the filter is installed: nothing from the recording may be written into it."""
    recording = recorder.record(["/bin/cat", "/etc/hostname"])
    loop, _ = friday_stub_addresses(build)
    page = loop & ~0xfff
    path = page + 0x200
    attack = (b"\xb8" + struct.pack("<I", 2) + b"\x48\xbf" + struct.pack("<Q", path) + b"\xbe" + struct.pack("<I", os.O_CREAT | os.O_WRONLY)
              + b"\xba" + struct.pack("<I", 0o600) + b"\x0f\x05\xeb\xfe")  # open(path, O_CREAT | O_WRONLY, 0600), and then a loop
    code = bytearray(b"\x90" * 0x200 + os.fsencode(outside.path) + b"\0").ljust(4096, b"\0")
    code[0x200 - len(attack):0x200] = attack
    trace = recording.path / "nodes" / "0" / "trace"
    data = bytearray(trace.read_bytes())
    at = next(at for at, size in records(data) if struct.unpack_from("<H", data, at + 4)[0] == IMAGE_PAGES and size == 32 + 4096)
    struct.pack_into("<Q", data, at + 16, page)
    data[at + 32:at + 32 + 4096] = code
    seal(data)
    trace.write_bytes(data)
    done = recorder.replay(recording, timeout=30)
    assert outside.untouched()
    assert done.returncode == 2 and f"contents for address {page:#x}, where it maps nothing" in done.stderr, done


def test_a_start_image_that_never_arrives(recorder, tmp_path):
    """The first instruction that is entered jumps to itself, where no Ctrl-C reaches it yet."""
    recording = recorder.record(["/bin/cat", "/etc/hostname"])
    trace = recording.path / "nodes" / "0" / "trace"
    data = bytearray(trace.read_bytes())
    kinds = [(struct.unpack_from("<H", data, at + 4)[0], at) for at, _ in records(data)]
    start = next(at for kind, at in kinds if kind == IMAGE_REGISTERS)
    which = next(n for n, (kind, _) in enumerate(kinds) if kind == IMAGE_PAGES)
    mapped, pages = next(at for kind, at in reversed(kinds[:which]) if kind == IMAGE_MAP), kinds[which][1]
    data[pages + 32:pages + 34] = b"\xeb\xfe"
    struct.pack_into("<I", data, mapped + 56, 7)  # it may be executed
    struct.pack_into("<Q", data, start + 16, struct.unpack_from("<Q", data, pages + 16)[0])
    seal(data)
    trace.write_bytes(data)
    script = tmp_path / "script.py"
    script.write_text("pass\n")
    for command in (["verify", recording.path], ["run", script, recording.path]):
        done = recorder.run([recorder.friday, *command], timeout=60)
        assert done.returncode not in (0, 3) and "does not reach the program" in done.stdout + done.stderr, done
    recorder.none_left()
