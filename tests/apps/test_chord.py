"""The ring on its own, unrecorded: it comes together, serves, survives deaths, and breaks where the seed says."""

import json
import pathlib
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest

CHORD = pathlib.Path(__file__).resolve().parent / "chord"
sys.path.insert(0, str(CHORD))
import ring  # noqa: E402
from native_gdb import no_calls  # noqa: E402

SEEDS = range(1, 11)
SHORT = dict(nodes=8, seconds=6.5, gap=0.1, period=150)


def run(directory, **options):
    plan = ring.make_plan(**options)
    return plan, ring.run_native(plan, apps=ring.find_apps(), directory=directory)


def assert_ended_well(plan, result):
    assert set(result.codes) == {program.name for program in plan.programs}
    assert {name: (code, result.err[name]) for name, code in result.codes.items() if code} == {}
    assert len(result.summary) == len(plan.nodes)


def test_ring_comes_together_and_serves(tmp_path):
    plan, result = run(tmp_path, nodes=8, seconds=8, seed=1)
    assert_ended_well(plan, result)
    assert ring.links_wrong(result, plan) == []
    changes = [line.split() for out in result.out.values() for line in out.splitlines() if " successor " in line]
    times = [float(words[1]) for words in changes]
    late = next(float(words[1]) for words in changes if words[0] == f"n{plan.late}")
    early = [t - times[0] for t in sorted(times) if t < late]
    assert early[-1] - early[0] < 3.0, "the first seven nodes took too long"
    assert max(times) - late < 1.5, "the late join took too long"
    client = result.client
    assert client["put_ok"] > 50 and client["hit"] > 40
    assert client["hit"] >= 0.95 * (client["hit"] + client["miss"] + client["stale"])
    assert client["timeout"] < 0.1 * (client["put"] + client["get"])
    assert sum(int(s["puts"]) for s in result.summary.values()) >= client["put_ok"]


def test_ring_closes_again_after_deaths(tmp_path):
    plan, result = run(tmp_path, nodes=8, seconds=11, seed=4, kills=3)
    assert_ended_well(plan, result)
    killed = [node for node in plan.nodes if node.dies is not None]
    assert len(killed) == 3
    assert all(result.ended[node.name] < result.stopped for node in killed)
    assert ring.links_wrong(result, plan) == []


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """Ten rings with the fault, at once."""
    def one(seed):
        directory = tmp_path_factory.mktemp(f"fault{seed}")
        truth = directory / "truth.json"
        plan, result = run(directory, seed=seed, fault=True, truth=str(truth), **SHORT)
        return plan, result, json.loads(truth.read_text()) if truth.exists() else None

    with ThreadPoolExecutor(len(SEEDS)) as pool:
        return dict(zip(SEEDS, pool.map(one, SEEDS)))


@pytest.mark.parametrize("seed", SEEDS)
def test_fault_breaks_the_ring_at_the_node_of_the_seed(faulty, seed):
    plan, result, truth = faulty[seed]
    assert_ended_well(plan, result)
    victim, late = plan.nodes[plan.victim], plan.nodes[plan.late]
    assert truth, "no truth file: the fault was not planted"
    assert (truth["node"], truth["index"], truth["id"]) == (victim.name, ring.fault_victim(seed, 8), f"{victim.id:016x}")
    assert truth["skipped"] == truth["after"]["sender"] == f"{late.id:016x}"
    assert truth["after"]["type"] == "NOTIFY_ACK" and truth["after"]["seq"] > 0
    wrong = ring.successor_of(late.id, [node.id for node in plan.nodes])
    assert truth["wrong_successor"] == f"{wrong:016x}"
    assert ring.links_wrong(result, plan) == [f"{victim.name}: successor is {wrong:016x}, not {late.id:016x}"]
    (line,) = [line for line in result.out[victim.name].splitlines() if line.endswith("(farewell)")]
    assert abs(float(line.split()[1]) - truth["time"]) < 0.1


def test_seeds_choose_different_victims():
    assert len({ring.fault_victim(seed, 8) for seed in SEEDS}) > 3


def test_published_lines_stand_where_they_are_printed():
    """Examples 4.1.2 break at chord.c:58 and process.c:69 and use the names in scope there."""
    assert (CHORD / "chord.c").read_text().splitlines()[57].strip() == "srv.node.id = atoid(id);"
    assert (CHORD / "process.c").read_text().splitlines()[68].strip().startswith("forward(packet, successor);")


def test_plan_follows_from_its_seed_and_becomes_toml():
    options = dict(nodes=8, seconds=30, kills=2, ports=range(5000, 5008), truth="/t/truth.json")
    healthy, faulty = (ring.make_plan(seed=3, fault=fault, **options) for fault in (False, True))
    assert ring.make_plan(seed=3, **options) == healthy
    assert [n.id for n in healthy.nodes] == [n.id for n in faulty.nodes] and healthy.victim == faulty.victim
    group = tomllib.loads(ring.group_toml(faulty, "/apps"))
    assert group["group"] == {"stop_after": 30.0}
    assert [node["name"] for node in group["node"]] == [f"n{i}" for i in range(8)] + ["client"]
    last = group["node"][7]
    assert last["command"][0] == "/apps/chord" and "--fault" in last["command"] and last["start_delay"] == 12.0
    assert [node["record"] for node in group["node"]] == [True] * 8 + [False]
    assert sum("--seconds" in node["command"] for node in group["node"][:8]) == 2


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(nodes=3, seconds=30), "at least 4"),
        (dict(nodes=8, seconds=2), "the ring is together after"),
        (dict(nodes=4, seconds=30, kills=3), "3 kills asked for"),
    ],
)
def test_plan_refuses_what_cannot_work(options, message):
    with pytest.raises(ValueError, match=message):
        ring.make_plan(seed=1, **options)


@pytest.mark.parametrize("seed", range(50))
def test_the_late_joiner_lands_right_behind_the_victim(seed):
    plan = ring.make_plan(nodes=8, seconds=30, seed=seed, kills=2, ports=range(5000, 5008))
    ids = [node.id for node in plan.nodes]
    assert len(set(ids)) == 8
    assert ring.successor_of(ids[plan.victim], ids) == ids[plan.late]
    assert {0, plan.victim, plan.late}.isdisjoint(node.index for node in plan.nodes if node.dies is not None)
    assert re.fullmatch(r"[0-9a-f]{16}", f"{ids[0]:016x}")


def gdb(*commands):
    """The output of gdb's commands on a node that stands where chord.c:58 is reached."""
    words = ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "break chord.c:58", "-ex", "run"]
    for command in commands:
        words += ["-ex", command]
    words += ["--args", str(ring.find_apps() / "chord"), "--port", "0", "--id", "00000000000000ff", "--seconds", "0.1"]
    return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout


def test_published_expressions_can_be_asked():
    if no_calls():
        pytest.skip(no_calls())
    out = gdb(
        'printf "$ = %s\\n", (char*)id', 'print atoid("0000000000000010")', "next", "print srv.node.id", "print srv.predecessor->id",
        "set var srv.failed[0].id = 0x20", "set var srv.failed[1].id = 0x30",
        "print is_between(&srv.failed[0].id, 0x10, &srv.failed[1].id)",
        "print is_between((chordID*)&srv.failed[1].id, 0x10, &srv.failed[0].id)", "print is_get(PACKET_GET)",
        'printf "$ = %s\\n", srv.node.addr',
    )
    values = [line.split(" = ", 1)[1] for line in out.splitlines() if line.startswith("$")]
    assert values[:-1] == ["00000000000000ff", "16", "255", "255", "1", "0", "1"], out
    assert values[-1].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    "place, names",
    [
        ("chord.c:58", ["id"]),
        ("process.c:69", ["packet_id", "successor"]),
        ("process_data", ["packet_id", "packet_header"]),
        ("insert_finger", ["id", "addr", "f"]),
        ("remove_finger", ["f"]),
    ],
)
def test_published_names_are_in_scope(place, names):
    out = gdb(f"info scope {place}", "info line stabilize")
    for name in names:
        assert f"Symbol {name} is" in out, out
    assert "stabilize.c" in out
