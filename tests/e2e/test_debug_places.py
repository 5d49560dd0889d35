"""Where breakpoints can stand: in libraries that come and go, at instructions, in the program's own code."""

import pathlib
import re
import shlex
import subprocess

import pytest
from debug_support import BUILD, break_at, final_state, friday, opened, plain_end_of, record_once, recorded_target, run_to_end  # noqa: F401
from test_debug_robust import children

pytestmark = pytest.mark.limit(60)


loads = recorded_target("load_library")
clocks = recorded_target("clocks")
plain_end = plain_end_of("loads")


def test_a_breakpoint_waits_for_its_library_each_time(loads, opened, plain_end):
    """The library is loaded, used and unloaded five times."""
    session = opened(loads)
    with pytest.raises(friday.NoSymbol):
        session.breakpoint("part_times")
    hits = []
    waiting = session.breakpoint("-pending part_times", lambda hit: hits.append(int(hit.node.read("count"))))
    session.breakpoint("-pending nobody_has_this", lambda: hits.append("nobody"))
    run_to_end(session)
    assert hits == [1000] * 5
    session.restart()
    waiting.disable()
    assert final_state(session) == plain_end and len(hits) == 5


def test_a_watch_waits_for_its_library_each_time(loads, opened, plain_end):
    session = opened(loads)
    with pytest.raises(friday.NoSymbol):
        session.watch("part_used")
    hits = []
    waiting = session.watch("-pending part_used", lambda hit: hits.append((hit.old, hit.new, hit.location.split(" ")[0])))
    session.watch("-pending nobody_has_this", lambda hit: hits.append("nobody"))
    run_to_end(session)
    assert [hit for hit in hits if hit[1] == 3] == [(0, 3, "part_pid")] * 5, hits
    assert all(new in (0, 3, None) for _, new, _ in hits), hits
    session.restart()
    waiting.disable()
    assert final_state(session) == plain_end


def test_a_breakpoint_set_in_a_library_that_goes(loads, opened, plain_end):
    session = opened(loads)
    waiting = session.breakpoint("-pending part_times")
    assert session.run().ids == (waiting.id,)
    hits = []
    session.breakpoint("part_pid", lambda: hits.append(session.backend.event(0)))
    waiting.delete()
    assert final_state(session) == plain_end
    assert len(hits) == 4 and hits == sorted(set(hits)), "in the four that are loaded later"


def areas():
    """What the one replayed process has mapped: (low, high, rights, path)."""
    pid = next(pid for pid, name in children().items() if name == "friday-stub")
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        area, rights, _, _, _, *path = line.split(maxsplit=5)  # proc_pid_maps(5)
        low, high = (int(word, 16) for word in area.split("-"))
        yield low, high, rights, path[0] if path else ""


def is_shim(path):
    return path.startswith("/") and "/files/" in path and pathlib.Path(path).read_bytes() == (BUILD / "lib" / "friday-shim.so").read_bytes()


def own_code():
    """Where the one replayed process has code of the shim and of friday-stub: {file: address}."""
    found = {path: (low + high) // 2 for low, high, rights, path in areas() if rights == "r-xp" and (path.endswith("/friday-stub") or is_shim(path))}
    assert len(found) == 2, found
    return found


def loaded_size(file):
    """Bytes of address space that a library takes, in whole pages."""
    segments = subprocess.run(["readelf", "-lW", file], capture_output=True, text=True, check=True).stdout
    return max(int(line.split()[2], 16) + int(line.split()[5], 16) for line in segments.splitlines() if " LOAD " in line) + 4095 & ~4095


def test_what_lies_right_behind_the_shim_is_the_programs(tmp_path_factory, opened):
    """The loader's memory and the kernel's own library (vdso) follow the shim without a gap now and then. Here they do so because the
    kernel lays out a process from the end of the largest stack that it may have, and large libraries at multiples of 2 MiB."""
    probe = subprocess.run(["setarch", "-R", "true"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"machine: its addresses are always random: {probe.stderr.strip()}")
    stack, size = 128 << 20, loaded_size(BUILD / "lib" / "friday-shim.so")
    for attempt in ("apart", "adjacent"):
        recording = record_once(attempt, lambda recorder: recorder.record(
            [BUILD / "targets" / "workers"], prefix=["setarch", "-R", "prlimit", f"--stack={stack}:"]), tmp_path_factory)
        session = opened(recording)
        vdso = int(re.search(r"AT_SYSINFO_EHDR.* (0x[0-9a-f]+)", session.gdb("info auxv", nodes=0)[session.nodes[0]])[1], 16)
        end = min(low for low, _, _, path in areas() if is_shim(path)) + size
        first = vdso  # of the run of mappings that ends with the vdso
        for low, high, _, path in sorted(areas(), reverse=True):
            if high == first or (low < end < high and high == first):
                first = max(low, end)
        if first == end:
            break
        session.close()
        stack += first - end
    assert first == end < vdso, f"shim to {end:#x}, vdso and what is before it from {first:#x}"
    session.breakpoint(f"*{vdso + 0x800:#x}").delete()
    break_at(session, "turn")
    node, place, before = session.nodes[0], f"*(unsigned char*){end:#x}", session.backend.state_hash(0)
    node.write(place, node.read(place) ^ 1)
    assert session.backend.state_hash(0) != before, "memory of the program"
    with pytest.raises(friday.Error, match="Friday's own code"):
        session.breakpoint(f"*{end - 1:#x}")


def test_addresses_where_no_breakpoint_can_stand(loads, opened, plain_end):
    session = opened(loads)
    place = int(session.gdb("output/u (unsigned long)&main", nodes=0)[session.nodes[0]])
    code = session.gdb("disassemble /r main", nodes=0)[session.nodes[0]].splitlines()
    long = next(line for line in code if "<+" in line and len(line.split(":", 1)[1].split("\t")[1].split()) > 4)
    inside = int(long.split()[0], 16) + 1
    for location, words in ((f"*{inside:#x}", "in the middle of the instruction"), ("*0x10", "no code at"), (f"*{place - 0x10000000:#x}", "no code at"),
                            ("friday_dispatch", "Friday's own code|not defined")):
        with pytest.raises(friday.Error, match=words):
            session.breakpoint(location)
    for name, address in own_code().items():
        with pytest.raises(friday.Error, match="Friday's own code"):
            session.breakpoint(f"*{address:#x}")
        assert name and not session.points
    session.breakpoint(f"*{place:#x}", lambda: None)
    assert final_state(session) == plain_end


# ---- Programs that appear later

def test_a_breakpoint_waits_for_a_program_that_is_executed_later(tmp_path_factory, opened):
    """A shell forks, and both it and its child become other programs: nodes that do not exist yet when the breakpoint is set."""
    workers = shlex.quote(str(BUILD / "targets" / "workers"))
    recording = record_once("shell", lambda recorder: recorder.record(["/bin/sh", "-c", f"{workers} & wait; exec {workers}"]), tmp_path_factory)
    session = opened(recording)
    plain = {node: events for node, (events, _) in final_state(session).items()}
    session.restart()
    hits = {}
    point = session.breakpoint("turn", lambda hit: hits.setdefault((hit.node.name, hit.thread), []).append(int(hit.node.read("number"))))
    waiting = {session.nodes[node].name for node, address, _ in point.places if address is None}
    assert waiting == {"sh"}, "the shell has no such function"
    final = final_state(session)
    names = {name for name, _ in hits}
    assert len(names) == 2 and len(hits) == 8, "four threads of each program"
    assert all(len(set(numbers)) == 1 and len(numbers) == 25 for numbers in hits.values()), "each stop names its thread"
    assert point.hits == 200 and point.id == 1, "one id for all of them"
    assert {node: events for node, (events, _) in final.items()} == plain
    assert {session.nodes[node].name for node, address, text in point.places if address and text.startswith("turn at workers.c:")} == names


def test_frames_of_functions_that_read_a_clock(clocks, opened):
    """Friday replaces the code of these functions of the kernel's library (vdso), whose own used the stack."""
    session = opened(clocks)
    break_at(session, "main")
    function = re.search(r"0x[0-9a-f]+", session.node.gdb("info address __vdso_gettimeofday"))[0]
    break_at(session, f"*{function}")
    for _ in range(2):
        frames = session.node.gdb("backtrace").splitlines()
        assert "gettimeofday" in frames[0] and " in main ()" in frames[1], frames
        session.step(0, "stepi")
    session.step(0, "reverse-stepi")
    session.step(0, "finish")
    assert "main" in session.node.gdb("frame")
