"""A service on ZeroMQ, recorded: two I/O threads, four workers behind a router, and a publisher; its clients are not recorded."""

import json
import pathlib
import re
import subprocess

import pytest
from programs import Server, check, load, need, place  # noqa: F401

SOURCE = pathlib.Path(__file__).parent / "servers" / "zeromq.c"


@pytest.mark.full
@pytest.mark.limit(400)
@pytest.mark.parametrize("count", [50, 2_000])
def test_router_and_workers(recorder, ports, place, count):  # noqa: F811
    need("libzmq3-dev")
    program = place / "zeromq"
    subprocess.run(["cc", "-O2", "-g", "-Wall", "-pthread", "-o", program, SOURCE, "-lzmq"], check=True, timeout=60)
    port, = ports(1)
    server = Server(recorder, [program, "serve", port, "4"], port, port + 1)
    load(recorder, [program, "ask", port, "8", count])
    recording = server.finish()
    assert recording.stdout == f"{8 * count + 1} requests\n"
    check(recorder, recording)


@pytest.mark.limit(200)
@pytest.mark.parametrize("fault", [False, True])
def test_money_and_tokens_are_conserved_at_every_cut(recorder, ports, place, fault):  # noqa: F811
    """Four nodes, two I/O threads each, their state in containers; the program says itself what it did wrong."""
    need("libzmq3-dev")
    program = place / "tokens"
    source = SOURCE.with_name("tokens.cc")
    subprocess.run(["c++", "-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-o", program, source, "-lzmq"], check=True, timeout=120)
    where = ",".join(map(str, ports(4)))
    recording, lines = recorder.record_nodes([[program, i, where, 3, 1, *(["fault"] if fault else [])] for i in range(4)], timeout=120)
    check(recorder, recording)
    said = ["\n".join(each) for each in lines]
    sums = [tuple(map(int, re.search(r"holds (\d+) and (\d+) tokens", text).groups())) for text in said]
    found = recorder.directory / "found.json"
    done = recorder.run([recorder.friday, "run", SOURCE.with_name("tokens_check.py"), recording.path, "--json", found], timeout=120)
    taken, held = re.search(r"(\d+) tokens were taken; in sum (.*)", done.stdout).groups()
    assert int(taken) > 50 and held == f"{sum(money for money, _ in sums)} and {sum(count for _, count in sums)} tokens", done.stdout
    violations = json.loads(found.read_text())["violations"]
    if not fault:
        assert done.returncode == 0 and not violations and held == "4000 and 20 tokens"
        return
    forgotten = {(int(n), int(number)) for n, number in re.findall(r"n2 takes .* of n(\d) number (\d+)", said[2])}
    twice = {(v["values"]["transfer"] >> 32, v["values"]["transfer"] & 0xffffffff) for v in violations if "for the second time" in v["message"]}
    assert done.returncode == 1 and len(twice) > 3 and {(node - 1, number) for node, number in twice} <= forgotten
