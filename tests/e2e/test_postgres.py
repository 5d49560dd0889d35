"""PostgreSQL 15 from Debian, recorded under pgbench: shared memory, semaphores, background workers; killed and recovered."""

import os
import re
import subprocess

import pytest
from conftest import wait_until
from identity import without_root
from programs import Server, check, load, need, place  # noqa: F401

BIN = "/usr/lib/postgresql/15/bin"
OPTIONS = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "shared_buffers=8MB", "-c", "max_connections=20",
           "-c", "autovacuum_naptime=1s"]


class Postgres:
    def __init__(self, recorder, ports, place):  # noqa: F811
        need("postgresql-15")
        self.recorder, self.place, (self.port,) = recorder, place, ports(1)
        subprocess.run(without_root([f"{BIN}/initdb", "-D", place / "data", "-U", "tester", "-A", "trust", "--no-sync", "--locale=C"]),
                       check=True, timeout=120, stdout=subprocess.DEVNULL)
        self.server = self.start()

    def start(self):
        server = Server(self.recorder, without_root([f"{BIN}/postgres", "-D", self.place / "data", "-p", self.port, *OPTIONS]), self.port)
        wait_until(lambda: self.recorder.run([f"{BIN}/pg_isready", "-h", "127.0.0.1", "-p", self.port]).returncode == 0, "not ready", 60)
        return server

    def client(self, program, *options):
        return load(self.recorder, [f"{BIN}/{program}", "-h", "127.0.0.1", "-p", self.port, "-U", "tester", *options])

    def sql(self, text):
        return self.client("psql", "-d", "postgres", "-A", "-t", "-c", text).strip()

    def bench(self, clients, transactions, *options):
        text = self.client("pgbench", "-n", "-c", clients, "-t", transactions, *options, "postgres")
        assert re.search(rf"processed: {clients * transactions}/{clients * transactions}", text), text

    def end(self):
        # SIGINT is its fast shutdown: clients are cut off.
        os.kill(int((self.place / "data" / "postmaster.pid").read_text().split()[0]), 2)
        return self.server.finish()


@pytest.mark.full
@pytest.mark.limit(900)
@pytest.mark.parametrize("transactions", [20, 1_000])
def test_pgbench(recorder, ports, place, transactions):  # noqa: F811
    postgres = Postgres(recorder, ports, place)
    postgres.client("pgbench", "-i", "-q", "-s", "1", "postgres")
    postgres.bench(1, transactions)
    postgres.bench(6, transactions)
    postgres.bench(4, transactions, "-S", "-M", "prepared")
    balance = "select sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts"
    assert postgres.sql(balance) == "t"
    assert postgres.sql("set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set min_parallel_table_scan_size = 0; "
                        "select count(*) from pgbench_accounts a join pgbench_branches b using (bid)").splitlines()[-1] == "100000"
    postgres.sql("checkpoint")
    recording = postgres.end()
    assert len(recording.nodes()) >= 10
    check(recorder, recording)
