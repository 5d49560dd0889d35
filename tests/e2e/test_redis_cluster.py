"""Redis Cluster of Debian's Redis 7.0, six recorded nodes under load: snapshots by forked children, and a failover."""

import os
import re

import pytest
from conftest import wait_until
from programs import Server, check, load, place  # noqa: F401

CLI, BENCHMARK, SERVER = "/usr/bin/redis-cli", "/usr/bin/redis-benchmark", "/usr/bin/redis-server"
FAIL_AFTER_MS = 3000


class Cluster:
    def __init__(self, recorder, ports, place, *, server=SERVER, options=()):  # noqa: F811
        self.recorder, self.ports = recorder, ports(6)
        nodes = []
        for index, (port, bus) in enumerate(zip(self.ports, ports(6))):
            directory = place / f"data{index}"
            directory.mkdir()
            nodes.append({"name": f"redis-{index}", "cwd": str(directory), "stdout": f"redis-{index}.log", "command": [
                server, "--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", str(bus), "--save", "",
                "--cluster-node-timeout", str(FAIL_AFTER_MS), "--repl-diskless-sync-delay", "0", *(options or ["--cluster-require-full-coverage", "no"])]})
        self.server = Server(recorder, {"node": nodes}, *self.ports)
        load(recorder, [CLI, "--cluster", "create", *(f"127.0.0.1:{port}" for port in self.ports), "--cluster-replicas", "1", "--cluster-yes"])
        self.wait_until_well(self.ports)

    def ask(self, port, *words):
        return load(self.recorder, [CLI, "-c", "-p", port, *words], timeout=30).strip()

    def field(self, port, section, name):
        found = re.search(rf"^{name}:(.*?)\r?$", self.ask(port, *section.split()), re.MULTILINE)
        return found and found[1].strip()

    def role(self, port):
        return self.field(port, "info replication", "role")

    def wait_until_well(self, ports):
        for port in ports:
            wait_until(lambda: self.field(port, "cluster info", "cluster_state") == "ok", f"the cluster is not well at {port}", 60)
            wait_until(lambda: self.role(port) == "master" or self.field(port, "info replication", "master_link_status") == "up",
                       f"the replica at {port} has no link", 60)

    def load(self, requests, *, port=None):
        load(self.recorder, [BENCHMARK, "--cluster", "-p", port or self.ports[0], "-n", requests, "-c", "12", "-r", "5000", "-t", "set,get,incr", "-q"])

    def save(self):
        primaries = [port for port in self.ports if self.role(port) == "master"]
        for port in primaries:
            self.ask(port, "bgsave")
        for port in primaries:
            wait_until(lambda: self.field(port, "info persistence", "rdb_bgsave_in_progress") == "0", "the saving does not end", 60)
            assert self.field(port, "info persistence", "rdb_last_bgsave_status") == "ok"

    def fail_over(self):
        """Kills a primary; its replica takes over. The ports that are left."""
        victim = next(port for port in self.ports[1:] if self.role(port) == "master")
        me = self.ask(victim, "cluster", "myid")
        # Who copies whom spreads by gossip.
        heir = int(wait_until(lambda: re.search(rf"^\w+ 127.0.0.1:(\d+)@\d+ slave {me} ", self.ask(victim, "cluster", "nodes"), re.MULTILINE),
                              f"{victim} has no replica", 30)[1])
        os.kill(int(self.field(victim, "info server", "process_id")), 9)
        left = [port for port in self.ports if port != victim]
        wait_until(lambda: self.role(heir) == "master", f"the replica at {heir} does not take over from {victim}", 60)
        self.wait_until_well(left)
        return left


@pytest.mark.full
@pytest.mark.limit(900)
@pytest.mark.parametrize("requests", [2_000, 30_000])
def test_snapshots_and_failover(recorder, ports, place, requests):  # noqa: F811
    cluster = Cluster(recorder, ports, place)
    cluster.load(requests)
    cluster.save()
    left = cluster.fail_over()
    cluster.load(requests, port=left[0])
    cluster.ask(left[0], "set", "greeting", "hello")
    assert cluster.ask(left[-1], "get", "greeting") == "hello"
    recording = cluster.server.end()
    assert sum("/child-" in node["name"] for node in recording.nodes()) >= 3, "no forked child saved"
    assert sorted(node["ended"]["detail"] for node in recording.nodes() if "/" not in node["name"]) == [0, 0, 0, 0, 0, 9]
    check(recorder, recording)
