"""`friday record --keep TIME`: the recording reaches back for that time only, in parts, each of which begins with an image of the running process."""

import os
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest
from conftest import SLOWNESS, answers, wait_until
from crafting import records, seal
from test_lean import set_random_values
from test_memcached import SERVER, work
from test_redis import Redis, put_and_get

PYTHON = "/usr/bin/python3"

# One thread; each value depends on all before it.
CHAIN = r"""
import hashlib, os, sys, time
state, stop = b"", time.monotonic() + float(sys.argv[1])
while time.monotonic() < stop:
    state = hashlib.sha256(state + os.urandom(8)).digest()
    time.sleep(0.001)
print(state.hex())
"""

# Threads that wait for locks, for time and for bytes, and some that begin and end.
THREADS = r"""
import hashlib, os, queue, socket, sys, threading, time
stop, jobs, done = time.monotonic() + float(sys.argv[1]), queue.Queue(), [0] * 4
def worker(n):
    while time.monotonic() < stop or not jobs.empty():
        try:
            hashlib.sha256(jobs.get(timeout=0.1)).digest()
            done[n] += 1
        except queue.Empty:
            pass
here, there = socket.socketpair()
read = [0]
def reader():
    while data := there.recv(1000):
        read[0] += len(data)
threads = [threading.Thread(target=worker, args=(n,)) for n in range(4)] + [threading.Thread(target=reader)]
for thread in threads:
    thread.start()
made = sent = 0
while time.monotonic() < stop:
    jobs.put(os.urandom(20))
    made += 1
    sent += here.send(b"x" * (made % 50 + 1))
    if made % 50 == 0:
        time.sleep(0.005)
    if made % 1000 == 0:
        threading.Thread(target=time.sleep, args=(0.02,)).start()
here.close()
for thread in threads:
    thread.join()
assert sum(done) == made and read[0] == sent
print(made, sent)
"""

# Handlers of signals, nested and while calls wait; a signal stack; floating-point state that lives across calls.
SIGNALS = r"""
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long alarms, users;
static void on_alarm(int signal) { alarms++; if (alarms % 3 == 0) raise(SIGUSR1); }
static void on_user(int signal) { users++; }
int main(int count, char** arguments) {
  stack_t stack = {malloc(1 << 16), 0, 1 << 16};
  sigaltstack(&stack, 0);
  struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK}, user = {.sa_handler = on_user, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &alarm, 0);
  sigaction(SIGUSR1, &user, 0);
  struct itimerval often = {{0, 3000}, {0, 3000}};
  setitimer(ITIMER_REAL, &often, 0);
  double sum = 0;
  time_t stop = time(0) + atoi(arguments[1]);
  for (long n = 1; time(0) < stop; n++) {
    sum += sqrt(n) * getppid();
    struct timespec nap = {0, 500000};
    nanosleep(&nap, 0);
  }
  printf("%f %d\n", sum, alarms > 100 && users > 30);
}
"""

# Forks again and again; the children live for different times, and one outlives several parts.
FORKS = r"""
import os, sys, time
stop = time.monotonic() + float(sys.argv[1])
def child(seconds):
    pid = os.fork()
    if pid == 0:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.01)
        os._exit(7)
    return pid
children = [child(float(sys.argv[1]) * 0.9)]
while time.monotonic() < stop:
    children.append(child(0.05))
    time.sleep(0.1)
    while len(children) > 3:
        assert os.waitstatus_to_exitcode(os.waitpid(children.pop(1), 0)[1]) == 7
for pid in children:
    os.waitpid(pid, 0)
print("done")
"""


def parts_of(recorder, recording, name):
    """The nodes that are parts of this one's recording, the oldest first."""
    nodes = recorder.info(recording)["nodes"]
    return [node for node in nodes if node["name"] == name or node["name"].startswith(f"{name}/part-") and "/" not in node["name"][len(name) + 1:]]


def check(recorder, recording, name, most=4):
    """The recording of one process that has run for many times what is kept."""
    assert recording.returncode == 0, recording
    parts = parts_of(recorder, recording, name)
    assert 2 <= len(parts) <= most and parts[0]["name"] != name, [part["name"] for part in parts]
    assert all(part["events"] for part in parts)
    recorder.verify(recording, timeout=240)
    return parts


# A part is kept for as long as a child that it forked, so with forks there may be some more.
@pytest.mark.parametrize("program, most", [(CHAIN, 4), (THREADS, 4), (FORKS, 6)], ids=["chain", "threads", "forks"])
def test_python(program, most, recorder):
    recording = recorder.record([PYTHON, "-c", program, "6"], name="it", options=["--keep", "2s"], timeout=120)
    check(recorder, recording, "it", most)


# Nothing happens in them, but that they wait: for time, alone or with threads that wait otherwise, and with children.
IDLE = {
    "alone": "import time; time.sleep(6)",
    "threads": """
import os, queue, select, socket, threading, time
here, there = socket.socketpair()
end, start = os.pipe()
for wait in (queue.Queue().get, lambda: there.recv(10), lambda: select.select([there], [], []), lambda: os.read(end, 1), threading.Event().wait):
    threading.Thread(target=wait, daemon=True).start()
poll = select.epoll()
poll.register(there, select.EPOLLIN)
began = time.monotonic()
poll.poll(6)
assert 5.9 < time.monotonic() - began < 9, time.monotonic() - began
os._exit(0)
""",
    "child": """
import os, time
if os.fork() == 0:
    time.sleep(6)
    os._exit(0)
os.wait()
""",
}


@pytest.mark.parametrize("program", IDLE)
@pytest.mark.parametrize("lean", [[], ["--lean"]], ids=["plain", "lean"])
def test_idle(program, lean, recorder):
    """Its recording is cut once, with --lean again and again, and what it waits for comes in time."""
    began = time.monotonic()
    recording = recorder.record([PYTHON, "-c", IDLE[program]], name="it", options=["--keep", "2s", *lean], timeout=120)
    assert recording.returncode == 0 and 6 <= time.monotonic() - began < 20 * SLOWNESS, recording
    names = [node["name"] for node in recorder.info(recording)["nodes"]]
    assert "it" not in names and "it/child-1" not in names, names
    assert len(names) <= (10 if lean else 4), names
    assert "cannot be cut off" not in recording.stderr, recording.stderr
    recorder.verify(recording, timeout=240)


# Receives what cannot be compressed, 20 MB a second.
FLOOD = """
import os, sys, time
source = open("/dev/urandom", "rb", buffering=0)
stop, total = time.monotonic() + 12, 0
while time.monotonic() < stop:
    total += len(source.read(1 << 16))
    time.sleep(0.003)
print(total)
"""


def stored(recording):
    sizes = []
    for trace in (recording / "nodes").glob("*/trace*"):
        try:
            sizes.append(trace.stat().st_blocks * 512)
        except FileNotFoundError:
            pass
    return sum(sizes) >> 20


@pytest.mark.limit(240)
def test_what_fits_into_a_size(recorder):
    """The recording never takes much more, with up to 16 MiB of room for each process."""
    running = recorder.start_record([PYTHON, "-c", FLOOD], name="it", options=["--keep", "64M"])
    most = 0
    while running.process.poll() is None:
        most = max(most, stored(running.recording))
        time.sleep(0.05)
    recording = recorder.finish_record(running)
    assert int(recording.stdout) > 100_000_000, recording.stdout
    assert most < 64 + 48 and 32 < stored(recording.path) <= 64, (most, stored(recording.path))
    assert parts_of(recorder, recording, "it")[0]["name"] != "it"
    recorder.verify(recording, timeout=240)


def test_signals(recorder, tmp_path):
    (tmp_path / "signals.c").write_text(SIGNALS)
    subprocess.run(["gcc", "-O2", "-g", "-o", tmp_path / "signals", tmp_path / "signals.c", "-lm"], check=True)
    recording = recorder.record([tmp_path / "signals", "6"], name="it", options=["--keep", "2s"], timeout=120)
    assert recording.stdout.split()[1] == "1", recording.stdout
    check(recorder, recording, "it")


def test_what_a_part_begins_with_is_compared(recorder):
    """The replay of a part must come to the memory with which the next part begins: a byte that is changed there is found."""
    recording = recorder.record([PYTHON, "-c", CHAIN, "3"], name="it", options=["--keep", "1s", "--no-compress"], timeout=120)
    first, second = (part["id"] for part in check(recorder, recording, "it")[:2])
    trace = recording.path / "nodes" / str(second) / "trace"
    data = bytearray(trace.read_bytes())
    image_map, image_pages, heap = 2, 3, None
    for at, size in records(data):
        kind = struct.unpack_from("<H", data, at + 4)[0]
        if kind == image_map and struct.unpack_from("<I", data, at + 60)[0] == 4:  # the heap
            heap = struct.unpack_from("<QQ", data, at + 16)
        if kind == image_pages and heap and heap[0] <= struct.unpack_from("<Q", data, at + 16)[0] < heap[1]:
            data[at + size - 100] ^= 1
            break
    seal(data)
    trace.write_bytes(data)
    shutil.rmtree(recording.path / "cache", ignore_errors=True)
    replayed = recorder.replay(recording)
    assert replayed.returncode == 3 and f"divergence: node {first}" in replayed.stdout and "the memory differs" in replayed.stdout, replayed


# Prints the messages between nodes that are in the recording, but for those from or to nodes with the ids.
MESSAGES = r"""
import sys
import friday
without = {int(text) for text in sys.argv[2:]}
for message in friday.Recording(sys.argv[1]).messages():
    if message.is_sent and message.is_received and not without & {message.source.id, message.target.id}:
        print(message.source.id, message.source_event, message.target.id, message.target_event, message.bytes)
"""


def messages(recorder, path, *without):
    done = recorder.run([PYTHON, "-c", MESSAGES, path, *map(str, without)], env={"PYTHONPATH": str(recorder.friday.parent.parent / "python")}, timeout=120)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


@pytest.mark.limit(300)
@pytest.mark.parametrize("lean", [[], pytest.param(["--lean"], marks=pytest.mark.full)], ids=["plain", "lean"])
def test_a_group_under_load(lean, recorder, ports, tmp_path):
    """Redis with two replicas: the parts verify, with and without the first ones, and without them the same messages are found between the others."""
    redis = Redis(recorder, ports(3), tmp_path, record=["--keep", "8s", *lean])
    redis.wait_for_copies()
    end = time.monotonic() + 9
    while time.monotonic() < end:
        redis.load(2000, "set,get,lpush")
        set_random_values(redis.ports[0], 300, 4000)
    put_and_get(redis)
    redis.wait_for_copies()
    recording = redis.end()
    parts = {name: parts_of(recorder, recording, name) for name in ("redis-0", "redis-1", "redis-2")}
    assert all(len(nodes) >= 3 for nodes in parts.values()), parts
    if lean:
        lack = [node for nodes in parts.values() for node in nodes[1:] if node.get("left_out", {}).get("bytes", 0) > 100_000]
        assert len(lack) >= 3, parts
    recorder.verify(recording, timeout=240)
    first = [nodes[0]["id"] for nodes in parts.values()]
    first += [node["id"] for node in recorder.info(recording)["nodes"] if node.get("parent") in first]  # which saved the first data for the replicas
    expected = messages(recorder, recording.path, *first)
    for number in first:
        shutil.rmtree(recording.path / "nodes" / str(number))
    shutil.rmtree(recording.path / "cache")
    assert len(expected) > 1000 and messages(recorder, recording.path) == expected
    recorder.verify(recording, timeout=240)


@pytest.mark.limit(240)
def test_a_server_with_threads(recorder, ports):
    """memcached, as an ordinary user's or as root's, with clients that are not recorded."""
    port = ports(1)[0]
    identity = ["-u", "nobody"] if os.geteuid() == 0 else []
    running = recorder.start_record([SERVER, *identity, "-p", str(port), "-t", "4", "-l", "127.0.0.1"], name="it", options=["--keep", "2s"])
    wait_until(lambda: answers(port), "memcached does not listen")
    end = time.monotonic() + 6
    while time.monotonic() < end:
        work(port, 1, 200)
    running.signal(signal.SIGINT)
    recording = recorder.finish_record(running)
    check(recorder, recording, "it")


@pytest.mark.parametrize("sent", [pytest.param(signal.SIGKILL, marks=pytest.mark.full), signal.SIGINT])
def test_a_recorder_that_ends(sent, recorder):
    """What is on the disk when the recorder is killed can be replayed, also if a part has just begun."""
    running = recorder.start_record([PYTHON, "-c", CHAIN, "60"], name="it", options=["--keep", "1s"])
    nodes = running.recording / "nodes"
    wait_until(lambda: (nodes / "4").exists(), "there are no parts", 30 * SLOWNESS)
    running.signal(sent)
    running.finish()
    recorder.kill_all()
    done = recorder.replay(running.recording, timeout=240)
    if done.returncode:  # the process that wrote the image of the last part was killed, too, or the recorder was about to begin it
        last = max(int(node.name) for node in nodes.iterdir())
        assert re.search(rf"node {last}: (the start image of the trace .*is not complete|.*is empty, not a trace. Recording of this node never began)", done.stderr, re.S), done
        recorder.verify(running.recording, "--node", f"0-{last - 1}", timeout=240)


@pytest.mark.parametrize("text", ["0s", "10", "-5m", "s", "1y", "nan s", "1e9h", "2m3", "2g", "m"])
def test_a_time_that_is_none(text, recorder):
    done = recorder.run([recorder.friday, "record", "-o", recorder.directory / "never", f"--keep={text}", "--", "/bin/true"])
    assert done.returncode == 2 and "write a number and s, m, h or d, such as 30s or 10m" in done.stderr, done
    assert not (recorder.directory / "never").exists()


# Waits for limited times, by different calls, while other threads do enough to be cut into parts. Prints which waits were too long or too short.
WAITS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static struct timespec wait = {4, 500000000};
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static int word, semaphores;
static void* waiter(void* which) {
  struct timespec t = wait;
  struct timeval v = {4, 500000};
  struct epoll_event event;
  struct sembuf down = {0, -1, 0};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  const double start = now();
  const char* name = "";
  switch ((long)which) {
    case 0: name = "nanosleep"; syscall(SYS_nanosleep, &t, &t); break;
    case 1: name = "clock_nanosleep"; clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0); break;
    case 2: name = "poll"; poll(0, 0, 4500); break;
    case 3: name = "ppoll"; ppoll(0, 0, &t, 0); break;
    case 4: name = "select"; select(0, 0, 0, 0, &v); break;
    case 5: name = "epoll"; epoll_wait(epoll_create1(0), &event, 1, 4500); break;
    case 6: name = "futex"; syscall(SYS_futex, &word, FUTEX_WAIT, 0, &t, 0, 0); break;
    case 7: name = "sigtimedwait"; sigtimedwait(&set, 0, &t); break;
    case 8: name = "semtimedop"; semtimedop(semaphores, &down, 1, &t); break;
  }
  const double took = now() - start;
  if (took < 4.4 || took > 6) printf("%s %.2f\n", name, took);
  return 0;
}
int main(void) {
  pthread_t threads[9];
  semaphores = semget(IPC_PRIVATE, 1, 0600);
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, 0);
  for (long n = 0; n < 9; n++) pthread_create(&threads[n], 0, waiter, (void*)n);
  const double stop = now() + 7;
  while (now() < stop) usleep(500), getppid();
  for (int n = 0; n < 9; n++) pthread_join(threads[n], 0);
  semctl(semaphores, 0, IPC_RMID);
  printf("waited\n");
}
"""


def test_limited_waits_take_as_long_as_they_should(recorder, tmp_path):
    (tmp_path / "waits.c").write_text(WAITS)
    subprocess.run(["gcc", "-O1", "-g", "-o", tmp_path / "waits", tmp_path / "waits.c", "-lpthread"], check=True)
    recording = recorder.record([tmp_path / "waits"], name="it", options=["--keep", "2s"], timeout=120)
    assert recording.stdout == "waited\n", recording.stdout
    check(recorder, recording, "it")


@pytest.mark.parametrize("text, says", [("1M", "is too small"), ("G", "is not a size"), ("2Gb", "is not a size"), ("-2G", "is not a size"), ("2G 10m", "is not a size")])
def test_a_size_that_is_none(text, says, recorder):
    done = recorder.run([recorder.friday, "record", "-o", recorder.directory / "never", f"--keep={text}", "--", "/bin/true"])
    assert done.returncode == 2 and says in done.stderr, done
    assert not (recorder.directory / "never").exists()
