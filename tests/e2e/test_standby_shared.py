"""`friday live REC full` for processes that share memory: they begin together, with one state of what they share."""

import os
import re
import subprocess
import time

import pytest
from conftest import SLOWNESS, wait_until
from programs import Server, children, load, need, place  # noqa: F401
from test_nginx import CONFIG
from test_postgres import BIN, Postgres
from test_standby import events_of, live, nodes_of

pytestmark = pytest.mark.limit(180)

# Processes that change a table in shared memory under a lock in it, and print what they have seen there. KIND says what kind of memory that is.
SHARERS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { kWords = 20000, kChildren = 3 };
struct Table {
  pthread_mutex_t lock;
  unsigned long count, words[kWords];
};
static struct Table* map_it(const char* kind, const char* path, int* file) {
  void* at = MAP_FAILED;
  if (!strcmp(kind, "segment")) {
    const int id = shmget(IPC_PRIVATE, sizeof(struct Table), IPC_CREAT | 0600);
    at = shmat(id, 0, 0);
    shmctl(id, IPC_RMID, 0);
  } else if (!strcmp(kind, "anonymous")) {
    at = mmap(0, sizeof(struct Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  } else {
    const int fd = !strcmp(kind, "memfd") ? memfd_create("table", 0) : open(path, O_RDWR | O_CREAT, 0600);
    if (!strcmp(kind, "unlinked")) unlink(path);
    if (ftruncate(fd, sizeof(struct Table))) exit(3);
    at = mmap(0, sizeof(struct Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!strcmp(kind, "unlinked")) close(fd);
    else *file = fd;
  }
  if (at == MAP_FAILED) exit(4);
  return at;
}
static unsigned long work(struct Table* t, unsigned self, time_t stop) {
  unsigned long seen = self, random = self + 1;
  while (time(0) < stop) {
    if (pthread_mutex_lock(&t->lock) == EOWNERDEAD) pthread_mutex_consistent(&t->lock);
    for (int i = 0; i < 50; i++) {
      random = random * 6364136223846793005ul + 1442695040888963407ul;
      unsigned long* word = &t->words[(random >> 33) % kWords];
      seen = seen * 31 + *word + t->count++;
      *word = seen;
    }
    pthread_mutex_unlock(&t->lock);
    usleep(500 + 100 * self);
  }
  return seen;
}
int main(int count, char** arguments) {
  const time_t stop = time(0) + atoi(arguments[2]);
  int file = -1;
  struct Table* t = map_it(arguments[1], arguments[3], &file);
  pthread_mutexattr_t shared;
  pthread_mutexattr_init(&shared);
  pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&t->lock, &shared);
  for (unsigned i = 0; i < kWords; i++) t->words[i] = i * 7919;
  for (unsigned i = 1; i <= kChildren; i++)
    if (fork() == 0) {
      if (file >= 0 && i == kChildren) {  // another mapping of the same
        munmap(t, sizeof *t);
        t = mmap(0, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      }
      dprintf(1, "%lx\n", work(t, i, stop));
      _exit(0);
    }
  dprintf(1, "%lx\n", work(t, 0, stop));
  while (wait(0) > 0) {}
  unsigned long sum = 0;
  for (unsigned i = 0; i < kWords; i++) sum = sum * 31 + t->words[i];
  printf("%lu steps, %lx\n", t->count, sum);
  return 0;
}
"""
KINDS = ["anonymous", "segment", "file", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("memfd", "memory", "unlinked"))]


@pytest.fixture(scope="module")
def sharers(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sharers")
    (directory / "sharers.c").write_text(SHARERS)
    subprocess.run(["cc", "-g", "-O1", "-w", "-o", directory / "sharers", directory / "sharers.c", "-lpthread"], check=True)
    return directory / "sharers"


def on_standby(recorder, running):
    wait_until(lambda: "on standby" in live(recorder, running, ok=False).stdout, "nothing is on standby", 30 * SLOWNESS)
    time.sleep(0.7)  # it does something before
    assert nodes_of(recorder, running) == []


def path_for(kind, tmp_path):
    return f"/dev/shm/friday-test-{os.getpid()}-{tmp_path.name}" if kind == "memory" else tmp_path / "table"


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_memory(kind, recorder, sharers, tmp_path):
    path = path_for(kind, tmp_path)
    try:
        running = recorder.start_record([sharers, kind, "6", path], name="it", options=["--standby"])
        on_standby(recorder, running)
        assert live(recorder, running, "full").stdout.count("it/child-") == 3
        recording = recorder.finish_record(running)
    finally:
        if kind == "memory":
            os.unlink(path)
    assert recording.returncode == 0 and re.search(r"^[0-9]+ steps", recording.stdout, re.M), recording
    nodes = recorder.info(recording)["nodes"]
    assert len(nodes) == 4 and all(node["ended"] == "exited with 0" and node["events"] > 200 for node in nodes), nodes
    recorder.verify(recording, "--times", "3")
    recorder.none_left()


@pytest.mark.full
def test_some_only(recorder, sharers, tmp_path):
    """What others store while they stay on standby would not be recorded, so nobody begins, and it is said why."""
    group = {"node": [{"name": name, "command": [str(sharers), "file", "30", str(tmp_path / "table")]} for name in ("a", "b")]}
    running = recorder.start_record(group, options=["--standby"])
    wait_until(lambda: live(recorder, running, ok=False).stdout.count("on standby") >= 2, "nothing is on standby", 30 * SLOWNESS)
    done = recorder.run([recorder.friday, "live", running.recording, "full", "--node", "a"], timeout=90)
    assert done.returncode == 1 and re.search(r"not all that share memory with it are meant, such as b \(process \d+\)", done.stderr), done
    assert "recorded from now on: " in live(recorder, running, "full").stdout
    recording = recorder.finish_record(running)
    assert recording.returncode == 0, recording
    recorder.verify(recording)


def test_a_process_is_killed_meanwhile(recorder, sharers, tmp_path):
    """Whatever ends while the others stand still: they go on, and what is recorded of them is right."""
    running = recorder.start_record([sharers, "anonymous", "8", "-"], name="it", options=["--standby"])
    on_standby(recorder, running)
    program = next(pid for pid in children(running.pid) if children(pid))
    child = children(program)[0]
    switching = recorder.start([recorder.friday, "live", running.recording, "full"])
    os.kill(child, 9)
    assert switching.finish(60).returncode == 0
    recording = recorder.finish_record(running)
    assert recording.returncode == 0, recording
    recorder.verify(recording)
    recorder.none_left()


@pytest.mark.parametrize("kind", ["anonymous", pytest.param("file", marks=pytest.mark.full)])
def test_on_and_off_and_on(kind, recorder, sharers, tmp_path):
    running = recorder.start_record([sharers, kind, "14", tmp_path / "table"], name="it", options=["--standby"])
    on_standby(recorder, running)
    for _ in range(2):
        live(recorder, running, "full")
        before = events_of(recorder, running)
        wait_until(lambda: events_of(recorder, running) > before + 500, "nothing is recorded", 30)
        assert live(recorder, running, "off").stdout.count("it/child-") == 3
    recording = recorder.finish_record(running)
    assert recording.returncode == 0 and re.search(r"^[0-9]+ steps", recording.stdout, re.M), recording
    nodes = recorder.info(recording)["nodes"]
    assert len(nodes) == 8 and all(node["ended"] == "recording ended: it was switched off (friday live)" for node in nodes), nodes
    recorder.verify(recording, "--times", "3")


@pytest.mark.parametrize("kind", ["anonymous", pytest.param("segment", marks=pytest.mark.full), pytest.param("file", marks=pytest.mark.full)])
def test_the_last_seconds(kind, recorder, sharers, tmp_path):
    """What is older is removed of all that share memory at once, so that what is left replays."""
    running = recorder.start_record([sharers, kind, "13", tmp_path / "table"], name="it", options=["--keep", "4s"])
    recording = recorder.finish_record(running)
    assert recording.returncode == 0 and re.search(r"^[0-9]+ steps", recording.stdout, re.M), recording
    nodes = recorder.info(recording)["nodes"]
    assert all("/part-" in node["name"] for node in nodes) and 8 <= len(nodes) <= 24, nodes
    recorder.verify(recording, "--times", "3")
    recorder.none_left()


@pytest.mark.full
@pytest.mark.limit(600)
def test_the_last_seconds_of_postgres(recorder, ports, place):  # noqa: F811
    postgres = Postgres(recorder, ports, place, record=["--keep", "6s"])
    postgres.client("pgbench", "-i", "-q", "-s", "1", "postgres")
    postgres.client("pgbench", "-n", "-c", "4", "-T", "20", "postgres")
    assert postgres.sql("select sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts") == "t"
    recording = postgres.end()
    assert all("part-" in node["name"] or "child-" in node["name"] for node in recording.nodes()), recording.nodes()
    recorder.verify(recording, "--times", "3", timeout=300)
    recorder.none_left()


@pytest.mark.full
@pytest.mark.limit(600)
@pytest.mark.parametrize("attempt", range(3))
def test_postgres(attempt, recorder, ports, place):  # noqa: F811
    postgres = Postgres(recorder, ports, place, record=["--standby"])
    postgres.client("pgbench", "-i", "-q", "-s", "1", "postgres")
    bench = recorder.start([f"{BIN}/pgbench", "-h", "127.0.0.1", "-p", postgres.port, "-U", "tester", "-n", "-c", "4", "-T", "6", "postgres"])
    time.sleep(1 + attempt)
    live(recorder, postgres.server.running, "full")
    assert bench.finish(60).returncode == 0
    assert postgres.sql("select sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts") == "t"
    recording = postgres.end()
    assert len(recording.nodes()) >= 8
    recorder.verify(recording, "--times", "3", timeout=300)
    recorder.none_left()


@pytest.mark.full
@pytest.mark.limit(600)
def test_nginx(recorder, ports, place):  # noqa: F811
    need("nginx-light", "apache2-utils")
    port, behind = ports(2)
    (place / "www").mkdir()
    (place / "www" / "small").write_text("a small file\n")
    config = place / "nginx.conf"
    config.write_text(CONFIG.format(place=place, port=port, behind=behind, user="user nobody nogroup;" if os.geteuid() == 0 else ""))
    server = Server(recorder, ["/usr/sbin/nginx", "-p", place, "-e", place / "error.log", "-c", config], port, behind, options=["--standby"])
    bench = recorder.start(["ab", "-q", "-k", "-t", "5", "-n", "1000000", "-c", "8", f"http://127.0.0.1:{port}/small"])
    time.sleep(1)
    live(recorder, server.running, "full")
    assert bench.finish(60).returncode == 0
    load(recorder, ["ab", "-q", "-n", "20", "-c", "2", f"http://127.0.0.1:{port}/limited/small"])
    recording = server.end()
    assert len([node for node in recorder.info(recording)["nodes"] if node["events"] > 10]) >= 5
    recorder.verify(recording, "--times", "3", timeout=300)
    recorder.none_left()
