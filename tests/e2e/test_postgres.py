"""PostgreSQL 15 from Debian, recorded under pgbench: shared memory, semaphores, background workers; killed and recovered."""

import contextlib
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
    def __init__(self, recorder, ports, place, record=()):  # noqa: F811
        need("postgresql-15")
        self.recorder, self.place, (self.port,), self.record = recorder, place, ports(1), record
        subprocess.run(without_root([f"{BIN}/initdb", "-D", place / "data", "-U", "tester", "-A", "trust", "--no-sync", "--locale=C"]),
                       check=True, timeout=120, stdout=subprocess.DEVNULL)
        self.server = self.start()

    def start(self):
        server = Server(self.recorder, without_root([f"{BIN}/postgres", "-D", self.place / "data", "-p", self.port, *OPTIONS]), self.port, options=self.record)
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


@pytest.mark.full
@pytest.mark.limit(900)
def test_a_backend_is_killed(recorder, ports, place):  # noqa: F811
    """The postmaster ends all its other children, makes the shared memory anew and recovers from the log; what was committed stays."""
    postgres = Postgres(recorder, ports, place)
    postgres.sql("create table kept (n int)")
    postgres.sql("insert into kept select generate_series(1, 1000)")
    sleeper = recorder.start([f"{BIN}/psql", "-h", "127.0.0.1", "-p", postgres.port, "-U", "tester", "-d", "postgres", "-c", "select pg_sleep(300)"])
    backend = "select pid from pg_stat_activity where query = 'select pg_sleep(300)'"
    os.kill(int(wait_until(lambda: postgres.sql(backend), "the backend does not sleep")), 9)
    assert sleeper.finish().returncode != 0
    wait_until(lambda: recorder.run([f"{BIN}/psql", "-h", "127.0.0.1", "-p", postgres.port, "-U", "tester", "-d", "postgres", "-c", "select 1"]).returncode == 0,
               "not recovered", 60)
    assert postgres.sql("select count(*), sum(n) from kept") == "1000|500500"
    postgres.sql("insert into kept values (1001)")
    recording = postgres.end()
    assert "all server processes terminated; reinitializing" in recording.stderr
    check(recorder, recording)


@pytest.mark.full
@pytest.mark.limit(900)
def test_all_of_it_is_killed(recorder, ports, place):  # noqa: F811
    """Two recordings: one that ends wherever each process stood, one of the server that finds the log and recovers."""
    postgres = Postgres(recorder, ports, place)
    postgres.client("pgbench", "-i", "-q", "-s", "1", "postgres")
    postgres.bench(4, 50)
    before = postgres.sql("select sum(abalance) from pgbench_accounts")
    pids = [int(pid) for pid in postgres.sql("select pid from pg_stat_activity where pid <> pg_backend_pid()").split()]
    postmaster = int((place / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, 9)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # the others end by themselves when they find it gone
            os.kill(pid, 9)
    killed = postgres.server.finish(137)
    recorder.verify(killed, "--times", "5", timeout=600)
    (place / "data" / "postmaster.pid").unlink()
    postgres.server = postgres.start()
    assert postgres.sql("select sum(abalance) from pgbench_accounts") == before
    recovered = postgres.end()
    assert "automatic recovery in progress" in recovered.stderr
    check(recorder, recovered)
