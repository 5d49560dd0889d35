"""Where breakpoints can stand: in libraries that come and go, at instructions, in the program's own code."""

import pathlib
import shlex

import pytest
from debug_support import BUILD, final_state, friday, opened, plain_end_of, record_once, recorded_target, run_to_end  # noqa: F401
from test_debug_robust import children

pytestmark = pytest.mark.limit(60)


loads = recorded_target("load_library")
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


def own_code():
    """Where the one replayed process has code of the shim and of the stub: {file: address}."""
    shim = (BUILD / "lib" / "friday-shim.so").read_bytes()
    pid = next(pid for pid, name in children().items() if name == "friday-stub")
    found = {}
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        area, rights, _, _, _, *path = line.split(maxsplit=5)  # proc_pid_maps(5)
        path = path[0] if path else ""
        if rights == "r-xp" and path.startswith("/") and (path.endswith("/friday-stub") or pathlib.Path(path).read_bytes() == shim):
            low, high = (int(word, 16) for word in area.split("-"))
            found[path] = (low + high) // 2
    assert len(found) == 2, found
    return found


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
