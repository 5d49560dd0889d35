"""Redis from Debian, recorded under load: one primary with two replicas that copy it, and unrecorded clients."""

import os

import pytest
from conftest import answers, wait_until

CLI, BENCHMARK, SERVER = "/usr/bin/redis-cli", "/usr/bin/redis-benchmark", "/usr/bin/redis-server"


class Redis:
    """A recorded group of servers; index 0 is the primary."""

    def __init__(self, recorder, ports, directory, *options, record=()):
        self.recorder, self.ports = recorder, ports
        nodes = []
        for index, port in enumerate(ports):
            place = directory / f"data{index}"
            place.mkdir()
            copies = ["--replicaof", "127.0.0.1", str(ports[0])] if index else []
            nodes.append({"name": f"redis-{index}", "cwd": str(place), "stdout": f"redis-{index}.log", "command": [
                SERVER, "--port", str(port), "--bind", "127.0.0.1", "--daemonize", "no", "--save", "", "--repl-diskless-sync-delay", "0", *copies, *options]})
        self.running = recorder.start_record({"node": nodes}, options=record)
        for port in ports:
            wait_until(lambda: answers(port), f"no server at {port}", 30)

    def ask(self, index, *words):
        done = self.recorder.run([CLI, "-p", str(self.ports[index]), *words])
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def field(self, index, section, name):
        lines = dict(line.partition(":")[::2] for line in self.ask(index, "info", section).splitlines())
        return lines.get(name, "").strip()

    def wait_for_copies(self):
        for index in range(1, len(self.ports)):
            wait_until(lambda: self.field(index, "replication", "master_link_status") == "up", f"replica {index} has no link", 40)
        def same():
            size = self.ask(0, "dbsize")
            return all(self.ask(i, "dbsize") == size for i in range(1, len(self.ports)))
        wait_until(same, "the replicas do not catch up", 40)

    def load(self, requests, *tests):
        done = self.recorder.run([BENCHMARK, "-p", str(self.ports[0]), "-n", str(requests), "-c", "10", "-r", "1000", "-t", ",".join(tests), "--csv"], timeout=300)
        assert done.returncode == 0, done.stderr

    def end(self):
        self.running.signal(15)
        recording = self.recorder.finish_record(self.running, 60)
        assert recording.returncode == 0, recording.stderr
        return recording


def put_and_get(redis):
    redis.ask(0, "set", "greeting", "hello from a client")
    assert redis.ask(0, "incrby", "counter", "42") == "42"
    redis.ask(0, "rpush", "list", *(f"item{i}" for i in range(200)))
    redis.ask(0, "hset", "hash", "field", "value")
    assert redis.ask(0, "eval", "return redis.call('get', KEYS[1])", "1", "counter") == "42"
    redis.wait_for_copies()
    for index in range(len(redis.ports)):
        assert redis.ask(index, "get", "greeting") == "hello from a client"
        assert redis.ask(index, "llen", "list") == "200"


def check(recorder, recording, servers):
    for index in range(servers):
        node = recording.node(f"redis-{index}")
        assert node["ended"] == {"how": "exit", "detail": 0}, node
        assert recording.ended_at(f"redis-{index}") is None
    recorder.none_left()
    recorder.verify(recording, timeout=300)


def run(recorder, ports, directory, requests):
    redis = Redis(recorder, ports(3), directory)
    redis.wait_for_copies()
    redis.load(requests // 2, "set", "get")
    put_and_get(redis)
    redis.load(requests // 2, "incr", "lpush", "mset", "sadd")
    redis.wait_for_copies()
    recording = redis.end()
    # A replica's copy is made by a forked child of the primary.
    assert [n["name"] for n in recording.nodes() if n["name"].startswith("redis-0/child-")], "the primary forked no child"
    check(recorder, recording, 3)


@pytest.mark.limit(240)
def test_primary_and_replicas(recorder, ports, tmp_path):
    run(recorder, ports, tmp_path, 10_000)


@pytest.mark.full
@pytest.mark.limit(900)
def test_primary_and_replicas_under_load(recorder, ports, tmp_path):
    run(recorder, ports, tmp_path, 100_000)


@pytest.mark.limit(240)
def test_save_and_rewrite(recorder, ports, tmp_path):
    """Snapshots and log rewriting: forked children that write and rename files; keys that expire meanwhile."""
    redis = Redis(recorder, ports(1), tmp_path)
    redis.load(2000, "set")
    redis.ask(0, "set", "brief", "x", "px", "50")
    redis.ask(0, "config", "set", "appendonly", "yes")
    wait_until(lambda: redis.field(0, "persistence", "aof_rewrite_in_progress") == "0", "the rewriting does not end")
    redis.ask(0, "bgsave")
    wait_until(lambda: redis.field(0, "persistence", "rdb_bgsave_in_progress") == "0", "the saving does not end")
    assert redis.field(0, "persistence", "rdb_last_bgsave_status") == "ok"
    wait_until(lambda: redis.ask(0, "get", "brief") == "", "the key does not expire")
    recording = redis.end()
    assert (tmp_path / "data0" / "dump.rdb").exists()
    check(recorder, recording, 1)


@pytest.mark.limit(240)
def test_killed_replica(recorder, ports, tmp_path):
    """kill -9 of one node in mid-run: the others go on, and everything replays up to their ends."""
    redis = Redis(recorder, ports(2), tmp_path)
    redis.wait_for_copies()
    redis.load(1000, "set")
    pid = int(redis.field(1, "server", "process_id"))
    os.kill(pid, 9)
    redis.load(1000, "set")
    recording = redis.end()
    assert recording.node("redis-1")["ended"] == {"how": "signal", "detail": 9}
    recorder.none_left()
    recorder.verify(recording)


@pytest.mark.limit(240)
def test_subset_of_nodes(recorder, ports, tmp_path):
    redis = Redis(recorder, ports(2), tmp_path)
    put_and_get(redis)
    recording = redis.end()
    check(recorder, recording, 2)
    for name in ("redis-0", "redis-1"):
        recorder.verify(recording, "--node", name)
    for sync in ("causal", "free"):
        recorder.verify(recording, "--sync", sync)


@pytest.mark.full
@pytest.mark.limit(400)
def test_threads_that_wait_for_each_other_in_loops(recorder, ports, tmp_path):
    """With I/O threads: these and the main thread wait without a call, and count meanwhile."""
    redis = Redis(recorder, ports(1), tmp_path, "--io-threads", "3", "--io-threads-do-reads", "yes")
    put_and_get(redis)
    redis.load(2000, "set", "get", "lpush")
    recording = redis.end()
    assert "has kept others waiting" not in recording.stderr
    events = recorder.run([recorder.friday, "dump", "--node", "redis-0", recording.path], timeout=120).stdout
    assert events.count(" yield ") > 100, "its I/O threads did not take part"
    recorder.verify(recording, "--times", "5")
