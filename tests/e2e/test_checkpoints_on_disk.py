"""Checkpoints that a recording holds: a replay that begins at one comes to the same end, in memory too, as one from the start; each
part of a replay ends in the state that the next one begins with; and what is damaged is said and never replayed."""
import ctypes
import json
import os
import random
import shutil
import signal
import struct
import threading
import zlib

import pytest
from debug_support import opened, ring  # noqa: F401
from test_targets import TARGETS, start  # noqa: F401  (a fixture)

pytestmark = pytest.mark.limit(240)

# Shared memory in its forms, forks, threads, signals, programs that are replaced, code and mappings that come and go.
SAMPLE = {"map_ends", "map_shared", "sysv_ipc", "shared_turns", "fork_many", "exhaust", "threads_spin", "signals_threads", "signals_compute", "execs", "odd_maps",
          "load_library", "grows_down", "main_exits", "map_private"}


def cli(recorder, *words, code=0, timeout=120):
    done = recorder.run([recorder.friday, *words], timeout=timeout)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def verdict(recorder, path, *options, code=0):
    done = cli(recorder, "verify", path, "--hash", "--json", *options, code=code)
    return json.loads(done.stdout), done.stderr


def is_same_end(whole, part):
    """Memory of a node that had ended before is not kept."""
    return all(a == b or (a | {"hash": None}) == (b | {"hash": None}) and "hash" not in b for a, b in zip(whole["nodes"], part["nodes"], strict=True))


def compare(recorder, path, chance, places=5):
    """Makes checkpoints at random places, and compares replays from them with one from the start."""
    whole, _ = verdict(recorder, path)
    at = [f"{node['id']}#{chance.randrange(1, node['events'])}" for node in chance.choices(whole["nodes"], k=places) if node["events"] > 1]
    made = json.loads(cli(recorder, "checkpoint", path, "--json", *(word for place in at for word in ("--at", place))).stdout)
    assert made
    for kept in made:
        part, said = verdict(recorder, path, "--from", kept["mark"])
        assert part["from"] == kept["events"] and part["held"], (kept, said)
        assert all("noted while" in line for line in said.splitlines()), (kept, said)
        assert is_same_end(whole, part), kept
    assert "verified" in cli(recorder, "verify", path, "--slices", "3").stdout
    return made


@pytest.mark.parametrize("target", [pytest.param(target, id=target.name, marks=[] if target.name in SAMPLE else pytest.mark.full)
                                    for target in TARGETS if "gap" not in target.options and target.name == target.program and target.name != "foreign_memory"])
def test_a_replay_from_a_checkpoint_comes_to_the_same_end(target, start, recorder):  # noqa: F811
    recording = start(target, True, "--state-hash")
    compare(recorder, recording.path, random.Random(zlib.crc32(target.name.encode())))


@pytest.fixture
def held(ring, tmp_path, recorder):
    """A copy of the ring's recording with some checkpoints."""
    path = tmp_path / "held"
    shutil.copytree(ring.path, path)
    cli(recorder, "checkpoint", path, "--every", "1")
    return path


def state(session):
    return [(int(node), session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.all_nodes]


def test_a_session_begins_at_a_checkpoint(ring, held, opened):
    """Whether it makes checkpoints itself or not, forward and back; reads and stops are those of a straight replay."""
    chance = random.Random(5)
    straight, near, keeping = opened(ring), opened(held), opened(held)
    keeping.set_checkpoints(True)
    for session in (straight, near, keeping):
        session.watch("srv.successor")
    for _ in range(6):
        node, event = straight.backend.find_time(chance.uniform(0.5, ring.plan.seconds - 0.5))
        straight.restart()
        truth = None
        for session in (straight, near, keeping):
            session.goto(event, node=node)
            seen = state(session), {int(each): str(each.read("srv.node.id")) for each in session.all_nodes}
            stop = session.run()
            seen = *seen, stop.kind, stop.node, stop.event, state(session)
            truth = truth or seen
            assert seen == truth, (node, event)


def test_what_lies_before_is_searched_across_them(held, opened):
    session = opened(held)
    session.set_checkpoints(True)
    node, event = session.event_at("4.5")
    session.goto(event, node=node)
    session.watch("srv.successor")
    back = []
    while (stop := session.reverse_continue()) is not None:
        back.append((stop.node, stop.event))
    forward = opened(held)
    forward.watch("srv.successor")
    seen = []
    while (stop := forward.run()).kind == "watch" and float(stop.logical_time) < 4.5:
        seen.append((stop.node, stop.event))
    assert back == seen[::-1]


def test_scripts_run_between_two_places(held, recorder, tmp_path):
    script = tmp_path / "count.py"
    script.write_text("import friday\ns = friday.session\nprint('from', s.logical_time)\nhits = []\n"
                      "s.watch('srv.successor', lambda: hits.append(float(s.logical_time)))\n"
                      "s.at_end(lambda: print('hits', hits, 'at', s.logical_time))\n")
    whole = cli(recorder, "run", script, held).stdout
    part = cli(recorder, "run", script, held, "--from", "2", "--to", "4").stdout
    begin, end = float(part.split()[1]), float(part.split()[-1])
    assert 2 <= begin < 2.5 and 4 <= end < 4.5
    every = json.loads(whole.split("hits ")[1].split(" at")[0])
    assert json.loads(part.split("hits ")[1].split(" at")[0]) == [time for time in every if begin <= time < end]
    assert "nothing lies behind 1000" in cli(recorder, "run", script, held, "--from", "1000", code=2).stderr


def test_they_are_listed_and_removed(held, recorder):
    listed = json.loads(cli(recorder, "checkpoint", held, "--json").stdout)
    assert len(listed) > 3 and all(entry["mark"].count("#") == 1 for entry in listed)
    seconds = [entry["seconds"] for entry in listed]
    assert seconds == sorted(seconds) and all(each >= number for number, each in enumerate(seconds, 1))
    again = cli(recorder, "checkpoint", held, "--every", "1")
    assert again.stdout == "" and json.loads(cli(recorder, "checkpoint", held, "--json").stdout) == listed
    pages = (held / "checkpoints" / "pages").stat().st_size
    cli(recorder, "checkpoint", held, "--at", "2.5")
    assert (held / "checkpoints" / "pages").stat().st_size - pages < pages / 2, "pages that others have are not stored again"
    cli(recorder, "checkpoint", held, "--drop")
    assert not (held / "checkpoints").exists() and "holds no checkpoints" in cli(recorder, "checkpoint", held).stdout


def damage(path, chance):
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def test_what_is_damaged_is_said(held, recorder, opened):
    """A flipped bit in a table or in a page, a file that was cut off, one of another place: none is replayed, and the replay begins earlier."""
    chance = random.Random(2)
    tables = sorted((each for each in (held / "checkpoints").iterdir() if each.name != "pages"), key=lambda each: int(each.name))
    last = tables[-1]
    whole = last.read_bytes()
    pages = (held / "checkpoints" / "pages").read_bytes()

    def begins_earlier(what):
        part, said = verdict(recorder, held, "--from", "5.9")
        assert part["held"] and part["from"] < int(last.name) and "cannot be used" in said, (what, part["from"], said)

    for _ in range(6):
        damage(last, chance)
        begins_earlier("a bit of a table")
        last.write_bytes(whole)
    last.write_bytes(whole[:len(whole) // 2])
    begins_earlier("half a table")
    last.write_bytes(tables[0].read_bytes())
    begins_earlier("another table")
    last.write_bytes(b"")
    begins_earlier("an empty table")
    last.write_bytes(whole)
    (held / "checkpoints" / "pages").write_bytes(pages[:8192])
    part, said = verdict(recorder, held, "--from", "5.9")
    assert part["held"] and part["from"] == 0 and "cannot be used" in said
    (held / "checkpoints" / "pages").write_bytes(bytes(len(pages)))
    part, said = verdict(recorder, held, "--from", "5.9")
    assert part["held"] and part["from"] == 0 and "is not what it was" in said
    session = opened(held)
    node, event = session.event_at("5.5")
    assert session.goto(event, node=node).kind == "reached"
    assert any("cannot be used" in notice for notice in session.backend.take_notices())
    (held / "checkpoints" / "pages").write_bytes(pages)
    shutil.rmtree(held / "checkpoints")
    os.symlink("/etc", held / "checkpoints")
    assert "symbolic link" in cli(recorder, "verify", held, "--from", "3", code=2).stderr


def put_other_contents(table):
    """Gives two pages of a checkpoint each other's contents, and the file a checksum that fits."""
    data = bytearray(table.read_bytes())
    at = 32
    for _ in range(6):  # head, nodes, texts, threads, extended, maps
        at += 8 + (struct.unpack_from("<Q", data, at)[0] + 7) // 8 * 8
    page, count = 32, struct.unpack_from("<Q", data, at)[0] // 32
    at += 8
    pages = [bytes(data[at + n * page:at + (n + 1) * page]) for n in range(count)]
    one, other = next((n, m) for n in range(count) for m in range(n) if pages[n][16:] != pages[m][16:] and n - m > 3)
    data[at + one * page + 8:at + (one + 1) * page], data[at + other * page + 8:at + (other + 1) * page] = pages[other][8:], pages[one][8:]
    checksum = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    checksum.restype, checksum.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
    struct.pack_into("<Q", data, 24, checksum(bytes(data[32:]), len(data) - 32))
    table.write_bytes(data)


def test_a_state_that_differs_is_found_by_slices(held, recorder):
    """A checkpoint that is intact but says what was not: the slice before does not end in that state."""
    kept = json.loads(cli(recorder, "checkpoint", held, "--json").stdout)
    assert "verified" in cli(recorder, "verify", held, "--slices", "4").stdout
    table = held / "checkpoints" / str(kept[2]["events"])
    good = table.read_bytes()
    put_other_contents(table)
    failed = recorder.run([recorder.friday, "verify", held, "--slices", "20"], timeout=120)
    assert failed.returncode in (3, 4)  # what begins there may come to any end
    assert f"the state after event {kept[2]['events']} is not what the checkpoint there holds" in failed.stdout
    table.write_bytes(good[:100] + bytes(8) + good[108:])
    assert "damaged" in cli(recorder, "verify", held, "--slices", "20", code=2).stdout


def test_slices_say_what_a_replay_says(recorder, targets):
    """That another process has written into a node's memory, and that a recording was cut off."""
    recording = recorder.record([targets / "foreign_memory", "unseen"], name="it")
    whole, slices = recorder.verify(recording), cli(recorder, "verify", recording.path, "--slices", "3")
    notice = "noted while node 0 (it) was recorded: process "
    assert notice in whole.stderr and notice in slices.stderr, slices
    cut = [line for line in whole.stdout.splitlines() if "as far as it was recorded" in line]
    assert cut and all(line in slices.stdout for line in cut), (whole.stdout, slices.stdout)
    told = json.loads(cli(recorder, "verify", recording.path, "--slices", "3", "--json").stdout)
    assert any("cut_off" in node for node in told["slices"][-1]["nodes"]) and any("notices" in each for each in told["slices"]), told


@pytest.mark.parametrize("words", [["checkpoint", "--every", "0.2"], ["verify", "--slices", "4"], ["run", "--slices", "4", "SCRIPT"]], ids=lambda words: words[0])
def test_ctrl_c(words, held, recorder, tmp_path):
    """It ends soon, with nothing left behind, and the recording is as good as before."""
    script = tmp_path / "script.py"
    script.write_text("import friday\nneeds_past = False\nfriday.session.watch('srv.successor', lambda: None)\nfriday.session.run()\n")
    words = [str(script) if word == "SCRIPT" else word for word in words]
    for delay in (0.02, 0.1, 0.3, 0.6):
        running = recorder.start([recorder.friday, *words, held])
        threading.Event().wait(delay)
        if running.alive():
            running.interrupt()
        done = running.finish(20)
        assert done.returncode in (0, 2, 130, -signal.SIGINT), done
        recorder.none_left()
    assert "verified" in cli(recorder, "verify", held).stdout


def test_of_another_recording(held, recorder, targets):
    recording = recorder.record([targets / "workers"])
    shutil.copytree(held / "checkpoints", recording.path / "checkpoints")
    listed = cli(recorder, "checkpoint", recording.path)
    part, said = verdict(recorder, recording.path)
    assert part["held"] and not said and listed.returncode == 0
    tables = sorted((table for table in (recording.path / "checkpoints").iterdir() if table.name != "pages"), key=lambda table: int(table.name))
    tables[0].rename(tables[0].with_name("20"))
    part, said = verdict(recorder, recording.path, "--from", "0#40")
    assert part["held"] and part["from"] == 0 and "cannot be used" in said, (part, said)


def test_a_recording_that_cannot_be_written(ring, recorder, tmp_path):
    path = tmp_path / "fixed"
    shutil.copytree(ring.path, path)
    if os.geteuid() == 0:
        pytest.skip("machine: root may write everywhere")
    path.chmod(0o500)
    try:
        assert "ermission" in cli(recorder, "checkpoint", path, "--at", "2", code=2).stderr
    finally:
        path.chmod(0o700)


@pytest.mark.parametrize("options, message", [
    (["--at", "nonsense"], "is no mark"), (["--at", "99#1"], "no place 99#1"), (["--at", "-1"], "must not be negative"), (["--at", "1000"], "nothing lies behind"),
    (["--every", "0"], "--every"), (["--every", "-1"], "--every")])
def test_what_is_no_place(ring, recorder, options, message):
    done = recorder.run([recorder.friday, "checkpoint", ring.path, *options])
    assert done.returncode != 0 and message in done.stderr


LOOKS = """
needs_past = False

def look():
    if @(srv.seq) % 3 == 0:
        session.violation("thirds", nodes=[session.node], message=f"seq {@(srv.seq)} at {session.logical_time}")
session.watch("srv.seq", look)

def tick():
    session.violation("ticks", message=f"{session.logical_time} {@1(srv.seq)}")
session.every(tick, seconds=0.3)
session.breakpoint("process_data", lambda: session.violation("served", message=str(session.logical_time)))
session.at_end(lambda: session.violation("end", message=str(session.logical_time)))
"""


def report(recorder, script, path, *options, code=1):
    (recorder.directory / "looks.py").write_text(script)
    (recorder.directory / "report").unlink(missing_ok=True)
    done = recorder.run([recorder.friday, "run", recorder.directory / "looks.py", path, "--json", recorder.directory / "report", *options], timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads((recorder.directory / "report").read_text()), done.stderr


def test_slices_of_a_run_find_what_a_run_finds(held, recorder):
    whole, _ = report(recorder, LOOKS, held)
    assert {each["predicate"] for each in whole["violations"]} == {"thirds", "ticks", "served", "end"} and len(whole["violations"]) > 40
    for count in ("2", "4"):
        parts, said = report(recorder, LOOKS, held, "--slices", count)
        assert parts["violations"] == whole["violations"] and parts["outcome"] == "violated"
        assert f"[slice {count} of {count}]" in said and f"violated {len(whole['violations'])} in {count} slices" in said
    first, _ = report(recorder, LOOKS, held, "--slices", "3", "--stop-at-first")
    assert first["violations"] == whole["violations"][:1]


@pytest.mark.full
def test_who_may_not_be_run_in_slices(ring, held, recorder):
    for script in ("session.watch('srv.seq', lambda: None)", "needs_past = True", "from predicates.ring import Ring\nRing(session)"):
        refused, said = report(recorder, script, held, "--slices", "3", code=2)
        assert said.count("may need what came before a slice") == 1 and "without --slices" in refused["error"]
    ran, _ = report(recorder, "needs_past = False\nsession.run()", held, "--slices", "2", code=2)
    assert "runs the group itself" in ran["error"]
    for option in (["--node", "1"], ["--sync", "causal"], ["--from", "1"]):
        assert "slices" in report(recorder, LOOKS, held, "--slices", "2", *option, code=2)[1]
    found, said = report(recorder, LOOKS, ring.path, "--slices", "4")
    assert "1 slice only, as the recording holds no more checkpoints" in said and len(found["violations"]) > 40
    recorder.none_left()
