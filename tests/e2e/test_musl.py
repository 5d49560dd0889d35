"""Programs linked with musl (Alpine's C library): those that its loader starts preload the shim like others, and static ones are
loaded by the shim itself."""

import socket
import subprocess
import threading

import pytest
from conftest import ROOT, wait_until
from ports import free_ports
from programs import need

FLAGS = {"dynamic": [], "static": ["-static"]}


@pytest.mark.full
@pytest.mark.parametrize("kind", FLAGS)
@pytest.mark.parametrize("name, arguments, nodes", [
    ("own_program", [], 7), ("threads", [], 1), ("fork_pipe", [], 2), ("execs", ["2"], 3), ("signals_order", [], 1)])
def test_program_of_musl(recorder, tmp_path, kind, name, arguments, nodes):
    need("musl-tools")
    program = tmp_path / name
    source = ROOT / "tests" / "targets" / f"{name}.c"
    subprocess.run(["musl-gcc", "-D_GNU_SOURCE", "-g", "-O1", *FLAGS[kind], "-o", program, source], check=True, timeout=120)
    alone = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert alone.returncode == 0, alone
    recording = recorder.record([program, *arguments], name="it", cwd=tmp_path, options=["--state-hash"])
    assert recording.returncode == 0 and recording.stdout == alone.stdout, recording
    assert len(recording.nodes()) == nodes and "recording ended" not in recording.stderr, recording.stderr
    recorder.verify(recording, "--times", 3)


# Two threads take connections; each line is answered with how many there have been.
SERVER = r"""
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
struct Served { unsigned long lines; char last[64]; } served;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int listener, clients;
static void answer(int connection, const char *line) {
  char text[32];
  pthread_mutex_lock(&lock);
  served.lines++;
  snprintf(served.last, sizeof served.last, "%s", line);
  const int length = snprintf(text, sizeof text, "%lu\n", served.lines);
  pthread_mutex_unlock(&lock);
  if (write(connection, text, length) != length) exit(1);
}
static void *serve(void *unused) {
  for (;;) {
    const int connection = accept(listener, NULL, NULL);
    if (connection < 0) return unused;
    FILE *from = fdopen(connection, "r");
    for (char line[64]; fgets(line, sizeof line, from);) {
      line[strcspn(line, "\n")] = 0;
      if (!strcmp(line, "end")) exit(0);
      answer(connection, line);
    }
    fclose(from);
  }
}
int main(int argc, char **argv) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (void *)&at, sizeof at) || listen(listener, 100)) return 1;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, serve, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  return clients;
}
"""


@pytest.mark.full
@pytest.mark.parametrize("kind", FLAGS)
def test_server_of_musl(recorder, tmp_path, kind):
    """Under load, verified ten times, and questioned in the console."""
    need("musl-tools")
    (tmp_path / "server.c").write_text(SERVER)
    subprocess.run(["musl-gcc", "-D_GNU_SOURCE", "-g", "-O0", *FLAGS[kind], "-pthread", "-o", tmp_path / "server", tmp_path / "server.c"], check=True, timeout=60)
    port, = free_ports(1)
    running = recorder.start_record([tmp_path / "server", str(port)], name="server")

    def is_there():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0
    wait_until(is_there, "the server does not listen", 20)
    answers = []

    def client(number):
        for turn in range(10):
            with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rw") as lines:
                for i in range(20):
                    lines.write(f"client {number} line {turn * 20 + i}\n")
                    lines.flush()
                    answers.append(int(lines.readline()))
    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == list(range(1, 801))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"end\n")
    recording = recorder.finish_record(running)
    assert recording.returncode == 0, recording
    recorder.verify(recording, "--times", 10)
    asked = recorder.run([recorder.friday, "replay", recording.path, "--batch", "-ex", "break answer if served.lines == 398 || served.lines == 399", "-ex", "continue", "-ex", "continue", "-ex", "print served.lines",
                          "-ex", "backtrace 2", "-ex", "reverse-continue", "-ex", "goto end", "-ex", "print served"])
    assert asked.returncode == 0 and "399" in asked.stdout and "answer (" in asked.stdout and "serve (" in asked.stdout and "lines = 800" in asked.stdout, asked.stdout + asked.stderr
