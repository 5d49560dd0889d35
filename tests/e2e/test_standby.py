"""`friday record --standby`: programs run unrecorded until `friday live REC full` switches the recording on, while they serve; `off` ends it again."""

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import SLOWNESS, answers, wait_until
from test_memcached import SERVER, work
from test_record_keep import CHAIN, FORKS, SIGNALS, THREADS
from test_redis import Redis, put_and_get

PYTHON = "/usr/bin/python3"


def live(recorder, recording, *arguments, ok=True):
    path = getattr(recording, "recording", getattr(recording, "path", recording))
    done = recorder.run([recorder.friday, "live", path, *arguments], timeout=60)
    assert not ok or done.returncode == 0, done
    return done


def nodes_of(recorder, running):
    """Names of what is recorded now; none while all is on standby."""
    done = recorder.run([recorder.friday, "info", "--json", running.recording])
    if done.returncode:
        return []
    return [node["name"] for node in json.loads(done.stdout)["nodes"]]


def start(recorder, program, seconds, options=()):
    running = recorder.start_record([PYTHON, "-c", program, str(seconds)], name="it", options=["--standby", *options])
    wait_until(lambda: "on standby" in live(recorder, running, ok=False).stdout, "nothing is on standby", 30 * SLOWNESS)
    return running


def events_of(recorder, running, name="it"):
    done = recorder.run([recorder.friday, "live", running.recording, "--json"])
    return sum(node["events"] for node in json.loads(done.stdout)["nodes"] if node["name"].startswith(name)) if done.returncode == 0 else 0


# -- one program ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("program", [CHAIN, THREADS, FORKS], ids=["chain", "threads", "forks"])
def test_switched_on_while_it_runs(program, recorder):
    running = start(recorder, program, 5)
    time.sleep(0.7)
    assert nodes_of(recorder, running) == []
    assert "recorded from now on: " in live(recorder, running, "full").stdout
    recording = recorder.finish_record(running)
    assert recording.returncode == 0, recording
    info = recorder.info(recording)["nodes"]
    first = next(node for node in info if node["name"] == "it")
    assert first["events"] > 20 and first["ended"] == "exited with 0", info
    recorder.verify(recording)


def test_signals(recorder, tmp_path):
    source = tmp_path / "signals.c"
    source.write_text(SIGNALS)
    subprocess.run(["cc", "-O2", "-o", tmp_path / "signals", source, "-lm"], check=True)
    running = recorder.start_record([tmp_path / "signals", "5"], name="it", options=["--standby"])
    wait_until(lambda: "on standby" in live(recorder, running, ok=False).stdout, "it is not on standby", 30 * SLOWNESS)
    time.sleep(0.5)
    live(recorder, running, "full")
    recording = recorder.finish_record(running)
    assert recording.returncode == 0 and recording.stdout.split()[1] == "1", recording
    recorder.verify(recording)


# What the kernel promises about signals and calls, which it must keep on standby, too: a handler runs soon, whether the thread computes
# or has just come from a call; a read that is interrupted fails, or goes on if the handler says so.
PROMISES = r"""
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile sig_atomic_t rung;
static void on_alarm(int signal) { rung = 1; }
static void ring(long us) {
  struct itimerval soon = {{0, us}, {0, us}};  // again and again: one may come before the call that it shall interrupt
  rung = 0;
  setitimer(ITIMER_REAL, &soon, 0);
}
static void handle(int flags) {
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
  sigaction(SIGALRM, &action, 0);
}
static int ends[2];
static void* writes_late(void* unused) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, 0);
  usleep(30000);
  return (void*)write(ends[1], "x", 1);
}
int main(int count, char** arguments) {
  const time_t stop = time(0) + atoi(arguments[1]);
  long spins = 0, failed = 0, went_on = 0;
  char byte;
  pipe(ends);
  for (long round = 0; time(0) < stop; round++) {
    handle(0);
    ring(50 + round % 200);
    for (int calls = round % 50; calls > 0; calls--) getppid();
    while (!rung) spins++;
    ring(2000);
    if (read(ends[0], &byte, 1) != -1 || errno != EINTR || !rung) return printf("a read was not interrupted\n"), 1;
    failed++;
    if (round % 20) continue;
    handle(SA_RESTART);
    pthread_t writer;
    pthread_create(&writer, 0, writes_late, 0);
    ring(2000);
    if (read(ends[0], &byte, 1) != 1 || !rung) return printf("a read did not go on\n"), 1;
    went_on++;
    pthread_join(writer, 0);
  }
  printf("%d\n", failed > 50 && went_on > 3);
  return 0;
}
"""


@pytest.mark.parametrize("switched", [False, True], ids=["standby", "switched"])
def test_what_the_kernel_promises(switched, recorder, tmp_path):
    (tmp_path / "promises.c").write_text(PROMISES)
    subprocess.run(["cc", "-O2", "-w", "-o", tmp_path / "promises", tmp_path / "promises.c", "-lpthread"], check=True)
    running = recorder.start_record([tmp_path / "promises", "5"], name="it", options=["--standby"])
    wait_until(lambda: "on standby" in live(recorder, running, ok=False).stdout, "it is not on standby", 30 * SLOWNESS)
    if switched:
        time.sleep(1)
        live(recorder, running, "full")
    recording = recorder.finish_record(running)
    assert (recording.returncode, recording.stdout) == (0, "1\n"), recording
    if switched:
        recorder.verify(recording)


# Loops in which the thread is mostly in the shim, although it makes no call.
LOOPS = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <x86intrin.h>
static volatile sig_atomic_t rung;
static void on_alarm(int signal) { rung = 1; }
int main(void) {
  unsigned long sum = 0;
  signal(SIGALRM, on_alarm);
  for (int round = 0; round < 300; round++) {
    struct itimerval soon = {{0, 0}, {0, 300 + round}};
    rung = 0;
    setitimer(ITIMER_REAL, &soon, 0);
    if (round % 2) while (!rung) sum += __rdtsc();
    else while (!rung) _mm_pause();
  }
  printf("%d\n", sum > 0);
  return 0;
}
"""


def test_signals_in_loops(recorder, tmp_path):
    (tmp_path / "loops.c").write_text(LOOPS)
    subprocess.run(["cc", "-O2", "-w", "-o", tmp_path / "loops", tmp_path / "loops.c"], check=True)
    recording = recorder.record([tmp_path / "loops"], name="it", options=["--standby"])
    assert (recording.returncode, recording.stdout) == (0, "1\n"), recording


def test_never_switched_on(recorder):
    """The program runs as it would alone, and the recording says that there is nothing in it."""
    running = start(recorder, THREADS, 1.5)
    recording = recorder.finish_record(running)
    assert recording.returncode == 0 and len(recording.stdout.split()) == 2, recording
    assert "nothing was recorded: the programs ran on standby to their end" in recording.stderr
    done = recorder.run([recorder.friday, "info", recording.path])
    assert done.returncode == 2 and "holds no nodes" in done.stderr, done
    recorder.none_left()


def test_on_and_off_and_on(recorder):
    running = start(recorder, THREADS, 12)
    for _ in range(2):
        live(recorder, running, "full")
        before = events_of(recorder, running)
        wait_until(lambda: events_of(recorder, running) > before + 100, "nothing is recorded", 30)
        assert "on standby from now on: it" in live(recorder, running, "off").stdout
        assert "on standby" in live(recorder, running).stdout
    recording = recorder.finish_record(running)
    assert recording.returncode == 0, recording
    nodes = recorder.info(recording)["nodes"]
    assert [node["name"] for node in nodes] == ["it", "it#2"] and all(node["events"] > 100 for node in nodes), nodes
    assert all(node["ended"] == "recording ended: it was switched off (friday live)" for node in nodes), nodes
    recorder.verify(recording)


IDLE = """
import os, queue, select, socket, threading, time
here, there = socket.socketpair()
end, start = os.pipe()
for wait in (queue.Queue().get, lambda: there.recv(10), lambda: select.select([there], [], []), lambda: os.read(end, 1), threading.Event().wait):
    threading.Thread(target=wait, daemon=True).start()
began = time.monotonic()
time.sleep(5)
assert 4.9 < time.monotonic() - began < 8, time.monotonic() - began
os._exit(0)
"""


COMPUTES = """
import threading, time, hashlib, sys
stop = time.monotonic() + float(sys.argv[1])
def work():
    state = b""
    while time.monotonic() < stop:
        for _ in range(20000):
            state = hashlib.sha256(state).digest()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.parametrize("program, seconds", [(IDLE, 0), (COMPUTES, 4)], ids=["wait", "compute"])
def test_threads_that(program, seconds, recorder):
    running = start(recorder, program, seconds)
    live(recorder, running, "full")
    recording = recorder.finish_record(running)
    assert recording.returncode == 0, recording
    recorder.verify(recording)


# -- servers -------------------------------------------------------------------------------------------------------------
@pytest.mark.limit(240)
def test_a_group_under_load(recorder, ports, tmp_path):
    """Redis with two replicas. Connections that were there before are matched by their bytes' positions."""
    redis = Redis(recorder, ports(3), tmp_path, record=["--standby"])
    redis.wait_for_copies()
    redis.load(3000, "set,get,lpush")
    said = live(recorder, redis.running, "full").stdout
    assert all(f"redis-{index}" in said for index in range(3)), said
    redis.load(3000, "set,get,lpush")
    put_and_get(redis)
    recording = redis.end()
    recorder.verify(recording, timeout=240)
    info = recorder.info(recording)
    number = {node["name"]: node["id"] for node in info["nodes"]}
    sent = {(pair["from"], pair["to"]): pair["bytes"] for pair in info["messages"]}
    assert all(sent.get((number["redis-0"], number[name]), 0) > 50_000 for name in ("redis-1", "redis-2")), (number, sent)


@pytest.mark.limit(240)
def test_a_server_with_threads(recorder, ports):
    port = ports(1)[0]
    identity = ["-u", "nobody"] if os.geteuid() == 0 else []
    running = recorder.start_record([SERVER, *identity, "-p", str(port), "-t", "4", "-l", "127.0.0.1"], name="it", options=["--standby"])
    wait_until(lambda: answers(port), "memcached does not listen")
    work(port, 1, 100)
    live(recorder, running, "full")
    work(port, 1, 100)
    running.signal(signal.SIGINT)
    recording = recorder.finish_record(running)
    recorder.verify(recording)


def test_only_some_nodes(recorder, ports, tmp_path):
    redis = Redis(recorder, ports(3), tmp_path, record=["--standby"])
    redis.wait_for_copies()
    live(recorder, redis.running, "full", "--node", "redis-1")
    put_and_get(redis)
    assert nodes_of(recorder, redis.running) == ["redis-1"]
    live(recorder, redis.running, "full", "--node", "redis-[02]")
    redis.load(500, "set")
    recording = redis.end()
    assert {node["name"] for node in recorder.info(recording)["nodes"]} == {"redis-0", "redis-1", "redis-2"}
    recorder.verify(recording)


# -- what goes wrong -----------------------------------------------------------------------------------------------------
def test_a_recorder_that_is_killed(recorder):
    running = start(recorder, THREADS, 3)
    program = next(pid for pid, line in recorder.processes().items() if "record -o" not in line)
    running.signal(signal.SIGKILL)
    running.process.wait(20)
    done = live(recorder, running, "full", ok=False)
    assert done.returncode == 2 and "the recorder of" in done.stderr, done
    wait_until(lambda: program not in recorder.processes(), "the program does not end", 60)


def test_what_cannot_be_switched(recorder):
    running = recorder.start_record([PYTHON, "-c", CHAIN, "20"], name="it")
    wait_until(lambda: nodes_of(recorder, running), "nothing is recorded")
    done = live(recorder, running, "off", ok=False)
    assert done.returncode == 2 and "--standby" in done.stderr, done
    running.signal(signal.SIGINT)
    running.finish()
    running = start(recorder, CHAIN, 20)
    done = live(recorder, running, "full", "--node", "other", ok=False)
    assert done.returncode == 2 and "no program that runs has this name" in done.stderr, done
    running.signal(signal.SIGINT)
    running.finish()
    for other in (["--lean"], ["--budget", "100K"]):
        done = recorder.run([recorder.friday, "record", "-o", running.recording.with_name("no"), "--standby", *other, "--", "/bin/true"])
        assert done.returncode == 2 and "does not go with" in done.stderr, done
