"""Messages held back between hosts, each a network namespace of its own (`[network]` of a group file) with 50 ms on the way: a study whose
script runs on a host too, and a busy Redis, of which nothing is lost or reordered inside a connection."""

import json
import subprocess

import pytest
from conftest import toml
from programs import need
from test_diagnose import diagnose, rows
from test_force import PYTHON, force, heard

pytestmark = pytest.mark.limit(300)
DELAY = {"subnet": "10.77.0.0/24", "delay_ms": 25}  # each way

# Says in which order two clients were heard, one at a time; with the second one first it has lost something. Both are answered at the end:
# a study's run ends with its script, which is one of them.
SERVER = r"""
import select, socket, sys
listener = socket.create_server((sys.argv[1], 7000))
heard, connections = [], [listener]
while len(heard) < 2:
    for ready in select.select(connections, [], [])[0]:
        if ready is listener: connections.append(listener.accept()[0]); continue
        data = ready.recv(100)
        heard.append(data.decode().strip())
for connection in connections[1:]: connection.sendall(b"ok\n")
print("heard " + ", ".join(heard), flush=True)
"""
CLIENT = r"""
import random, socket, sys, time
connection = socket.create_connection((sys.argv[1], 7000))
time.sleep(random.uniform(0, 0.02) if sys.argv[3] == "any" else float(sys.argv[3]))
connection.sendall(sys.argv[2].encode() + b"\n")
assert connection.recv(100) == b"ok\n"
"""
CHECK = r"""
import sys
said = open(sys.argv[1] + "/server.out").read().split()
sys.exit(f"the second one was first: {' '.join(said)}" if said[1] == "second," else 0)
"""


def write_group(tmp_path, waits, check=False):
    for name, text in (("server", SERVER), ("client", CLIENT), ("check", CHECK)):
        (tmp_path / f"{name}.py").write_text(text)
    nodes = [{"name": "server", "command": [PYTHON, str(tmp_path / "server.py"), "{address:server}"], "ready": "port 7000", "stdout": "{dir}/server.out" if check else "server.out"}]
    nodes += [{"name": name, "command": [PYTHON, str(tmp_path / "client.py"), "{address:server}", name, wait], "after": ["server"]} for name, wait in waits.items()]
    group = {"timeout": 60, "stop_when_ends": "server"}
    if check:
        group["check"] = [PYTHON, str(tmp_path / "check.py"), "{dir}"]
    path = tmp_path / "group.toml"
    path.write_text(toml({"group": group, "network": DELAY, "node": nodes}))
    return path


@pytest.mark.parametrize("options", [[], ["--record"]], ids=["schedule", "recorded"])
def test_an_order_across_hosts(options, recorder, tmp_path):
    """The client that speaks half a second later is heard first."""
    group = write_group(tmp_path, {"early": "0", "late": "0.5"})
    done = force(recorder, tmp_path, group, [("late", "server", "late"), ("early", "server", "early")], *options)
    assert done.returncode == 0, done
    assert heard(tmp_path, 3) == ["late", "early"]
    if options:
        recorder.verify(tmp_path / "forced" / "run-3")
    recorder.none_left()


def test_a_study_across_hosts(recorder, tmp_path):
    """Its script is a client on a host of its own. What compare finds is forced, as failed and as passed."""
    group = write_group(tmp_path, {"first": "any"}, check=True)
    script = [PYTHON, str(tmp_path / "client.py"), "{address:server}", "second", "any"]
    made = diagnose(recorder, tmp_path / "study", group, "-n", "40", "--name", "second", script=script)
    results = {row["result"]: row["run"] for row in rows(tmp_path / "study")}
    assert made.returncode == 0 and sorted(results) == ["FAILED", "passed"], made
    compared = recorder.run([recorder.friday, "compare", tmp_path / "study", "--json"], timeout=60)
    assert json.loads(compared.stdout)["orders"], compared
    for result, number in sorted(results.items()):
        done = recorder.run([recorder.friday, "force", tmp_path / "study", str(number), "-n", "5", "--json"], timeout=120)
        assert done.stdout, done
        forced = json.loads(done.stdout)
        assert forced["forced"] == 5 and forced["forced_failed"] == (5 if result == "FAILED" else 0), (result, done)
    recorder.none_left()


# 100 connections with a count each, of which every answer is checked, and messages among them that wait for another host.
LOAD = r"""
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
enum { kLines = 100, kBatches = 100, kBatch = 20 };
static struct line { int socket, asked, heard; size_t kept; char text[4096]; } lines[kLines];
static void ask(int n) {
  char out[kBatch * 64], *to = out;
  for (int i = 0; i < kBatch; i++) {
    const char key[] = {'k', 'e', 'y', '-', 'a' + n / 10, 'a' + n % 10, 0};
    if (n % 10 == 0 && lines[n].asked == 3 * kBatch && i == 7) to += sprintf(to, "*3\r\n$6\r\nINCRBY\r\n$6\r\n%s\r\n$1\r\n1\r\n", key);
    else to += sprintf(to, "*2\r\n$4\r\nINCR\r\n$6\r\n%s\r\n", key);
  }
  lines[n].asked += kBatch;
  if (send(lines[n].socket, out, to - out, 0) != to - out) perror("send"), exit(1);
}
static int hear(int n) {
  struct line* line = &lines[n];
  const ssize_t got = recv(line->socket, line->text + line->kept, sizeof line->text - line->kept, 0);
  if (got <= 0) perror("recv"), exit(1);
  char *at = line->text, *end = at + line->kept + got, *stop;
  for (; (stop = memchr(at, '\n', end - at)); at = stop + 1)
    if (at[0] != ':' || atoi(at + 1) != ++line->heard) fprintf(stderr, "connection %d, answer %d is %.20s\n", n, line->heard, at), exit(1);
  memmove(line->text, at, line->kept = end - at);
  if (line->heard == line->asked && line->heard < kBatches * kBatch) ask(n);
  return line->heard == kBatches * kBatch;
}
int main(int argc, char** argv) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7000), .sin_addr.s_addr = inet_addr(argv[1])};
  struct pollfd set[kLines];
  struct timespec begun, end;
  while (argc > 2 && access(argv[2], F_OK)) usleep(10000);
  clock_gettime(CLOCK_MONOTONIC, &begun);
  for (int n = 0; n < kLines; n++) {
    lines[n].socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(lines[n].socket, (void*)&to, sizeof to)) perror("connect"), exit(1);
    set[n] = (struct pollfd){lines[n].socket, POLLIN, 0};
    ask(n);
  }
  for (int done = 0; done < kLines;) {
    poll(set, kLines, -1);
    for (int n = 0; n < kLines; n++)
      if (set[n].revents && hear(n)) set[n].fd = -1, set[n].revents = 0, done++;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%d answers, %.0f a second\n", kLines * kBatches * kBatch, kLines * kBatches * kBatch / (end.tv_sec - begun.tv_sec + (end.tv_nsec - begun.tv_nsec) / 1e9));
  return argc < 2;
}
"""
LATE = r"""
import os, socket, sys, time
connection = socket.create_connection((sys.argv[1], 7000))
while len(sys.argv) > 3 and not os.path.exists(sys.argv[3]): time.sleep(0.01)
time.sleep(float(sys.argv[2]))
connection.sendall(b"*3\r\n$3\r\nSET\r\n$4\r\nlate\r\n$2\r\nup\r\n")
assert connection.recv(100) == b"+OK\r\n"
"""


WAITING = [("late", "redis", "SET late up"), *(("load", "redis", f"INCRBY key-{tens}a #") for tens in "abcdefghij")]


def make_load(tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    subprocess.run(["/usr/bin/cc", "-O1", "-x", "c", "-o", tmp_path / "load", "-"], input=LOAD, text=True, check=True, timeout=60)


def test_nothing_is_lost_under_load(recorder, tmp_path):
    """200,000 requests over 100 connections. Ten of them wait for a client on a third host, with all that follows on their connections."""
    need("redis-server")
    make_load(tmp_path)
    nodes = [{"name": "redis", "command": ["redis-server", "--port", "7000", "--bind", "{address:redis}", "--save", "", "--protected-mode", "no", "--dir", "{dir}"], "ready": "port 7000", "stdout": "redis.out"},
             {"name": "load", "command": [str(tmp_path / "load"), "{address:redis}"], "after": ["redis"], "stdout": "load.out"},
             {"name": "late", "command": [PYTHON, str(tmp_path / "late.py"), "{address:redis}", "2"], "after": ["redis"]}]
    group = tmp_path / "group.toml"
    group.write_text(toml({"group": {"timeout": 100, "stop_when_ends": "load", "must_succeed": ["load"]}, "network": DELAY, "node": nodes}))
    done = force(recorder, tmp_path, group, WAITING, times=2)
    result = json.loads(done.stdout)
    assert done.returncode == 0 and result["forced"] == 2, done
    said = (tmp_path / "forced" / "run-2" / "load.out").read_text()
    assert said.startswith("200000 answers"), said
    recorder.none_left()
