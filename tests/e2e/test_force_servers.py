"""`friday force` on real servers: an order of messages that hardly ever comes by itself comes in every run, and the other one, too."""

import json
import subprocess

import pytest
from conftest import ROOT, toml
from identity import without_root
from programs import need, place  # noqa: F401
from test_postgres import BIN, OPTIONS

pytestmark = pytest.mark.limit(300)
PYTHON = "/usr/bin/python3"
TIMES = 3


def forced(recorder, directory, group, nodes, steps, times=TIMES):
    """How many of the runs have failed, all of which were forced."""
    (directory / "group.toml").write_text(toml({"group": {"timeout": 100, **group}, "node": nodes}))
    (directory / "order.json").write_text(json.dumps({"steps": [dict(zip(("from", "to", "text"), step)) for step in steps]}))
    done = recorder.run([recorder.friday, "force", "--order", directory / "order.json", "--group", directory / "group.toml", "-o", directory / "forced", "-n", str(times), "--json"],
                        timeout=200)
    assert done.returncode == 0, done
    result = json.loads(done.stdout)
    assert (result["runs"], result["forced"]) == (times, times), result
    return result["forced_failed"]


# Writes to the primary and reads from its replica at once: the value may not have come there yet.
READER = """
import sys, time
sys.path.insert(0, sys.argv[3])
from redis_client import Redis
primary, replica = Redis(int(sys.argv[1])), Redis(int(sys.argv[2]))
primary.ask("SET", "probe", "1")
while replica.ask("GET", "probe") != "1": time.sleep(0.05)  # only then the primary sends what it gets at once
primary.ask("SET", "it", "7")
sys.exit(replica.ask("GET", "it") != "7")
"""


@pytest.mark.parametrize("stale", [True, False], ids=["stale", "fresh"])
def test_a_replica_is_read_before_it_has_the_write(stale, recorder, tmp_path):
    need("redis-server")
    (tmp_path / "reader.py").write_text(READER)
    server = lambda name, *options: {"name": name, "ready": f"port {{port:{name}}}", "command": [
        "redis-server", "--port", f"{{port:{name}}}", "--bind", "127.0.0.1", "--save", "", "--dir", "{dir}", "--repl-diskless-sync-delay", "0", *options]}
    nodes = [server("primary"), server("replica", "--replicaof", "127.0.0.1", "{port:primary}"),
             {"name": "reader", "command": [PYTHON, str(tmp_path / "reader.py"), "{port:primary}", "{port:replica}", str(ROOT / "tests" / "apps" / "booking")]}]
    steps = [("reader", "replica", "GET it"), ("primary", "replica", "SET it #")]
    failed = forced(recorder, tmp_path, {"stop_when_ends": "reader", "must_succeed": ["reader"]}, nodes, steps if stale else steps[::-1])
    assert failed == (TIMES if stale else 0)


@pytest.mark.parametrize("lost", [True, pytest.param(False, marks=pytest.mark.full)], ids=["lost", "kept"])
def test_two_clients_of_postgres_lose_an_update(lost, recorder, place):  # noqa: F811
    need("postgresql-15")
    subprocess.run(without_root([f"{BIN}/initdb", "-D", place / "data", "-U", "tester", "-A", "trust", "--no-sync", "--locale=C"]), check=True, timeout=120, stdout=subprocess.DEVNULL)
    (place / "add.sql").write_text("SELECT v FROM t WHERE k = 1 \\gset\nUPDATE t SET v = :v + 1 WHERE k = 1;\n")
    psql = [f"{BIN}/psql", "-X", "-q", "-h", "127.0.0.1", "-p", "{port:pg}", "-U", "tester", "-d", "postgres", "-v", "ON_ERROR_STOP=1"]
    client = lambda name, after, *options, **more: {"name": name, "command": [*psql, *options], "after": after, **more}
    nodes = [{"name": "pg", "ready": "output ready to accept", "stderr": "pg.log",
              "command": [str(word) for word in without_root([f"{BIN}/postgres", "-D", str(place / "data"), "-p", "{port:pg}", *OPTIONS])]},
             client("reset", ["pg"], "-c", "DROP TABLE IF EXISTS t; CREATE TABLE t AS SELECT 1 AS k, 0 AS v", ready="exit"),
             client("one", ["reset"], "-f", str(place / "add.sql"), ready="exit"), client("two", ["reset"], "-f", str(place / "add.sql"), ready="exit"),
             client("check", ["one", "two"], "-c", "SELECT 1 / (v - 1) FROM t")]
    look, write = "Q SELECT v FROM t WHERE k = #", "Q UPDATE t SET v = # + # WHERE k = #;"
    steps = [("one", "", look), ("two", "", look), ("one", "", write)] if lost else [("one", "", write), ("two", "", look)]
    failed = forced(recorder, place, {"stop_when_ends": "check", "must_succeed": ["check"]}, nodes, steps)
    assert failed == (TIMES if lost else 0)
