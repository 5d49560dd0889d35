"""A service on ZeroMQ, recorded: two I/O threads, four workers behind a router, and a publisher; its clients are not recorded."""

import collections
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


@pytest.mark.full
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
    assert done.returncode == 1
    check_taken_twice(said[2], violations, sums)


def check_taken_twice(said, violations, sums):
    """n2 prints what it takes without noting it down: whatever stands there again is money or a token too many."""
    taken = collections.Counter(re.findall(r"n2 takes (money|token) (\d+) as (\d+)", said))
    again = taken - collections.Counter(dict.fromkeys(taken, 1))
    money, tokens = ({key: times for key, times in again.items() if key[0] == kind} for kind in ("money", "token"))
    assert money and len(again) > 3, said
    messages = collections.Counter(v["message"] for v in violations if v["predicate"] == "conservation")
    lost = collections.Counter({text: count for text, count in messages.items() if re.match(r"n\d lost 1 that no transfer explains: ", text)})
    expected = {f"n2 received {amount if kind == 'money' else 1} ({id}) for the second time": times for (kind, amount, id), times in again.items()}
    assert messages - lost == expected
    # A token that comes to who has it already vanishes in the set.
    assert sum(held for held, _ in sums) == 4000 + sum(int(amount) * times for (_, amount, _), times in money.items())
    assert sum(count for _, count in sums) == 20 + sum(tokens.values()) - lost.total()
