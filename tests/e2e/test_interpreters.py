"""Servers in Python and Perl, and a bash pipeline: recorded, asked by unrecorded clients at once, verified."""

import hashlib
import pathlib
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from programs import Server, check, load, place  # noqa: F401

SERVERS = pathlib.Path(__file__).parent / "servers"
CLIENTS = 8


def ask(port, number, count, algorithm):
    """A client that sends lines, sometimes several at once, and knows the answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, connection.makefile("rwb") as file:
        kinds = ["slow", "lookup", "plain", "plain"]
        for turn in range(count):
            lines = [f"{kinds[(turn + k) % 4]} {number} {turn} {k} {'x' * (turn * 97 % 2500)}\n".encode() for k in range(1 + turn % 3)]
            file.write(b"".join(lines))
            file.flush()
            for line in lines:
                assert file.readline().decode().strip() == hashlib.new(algorithm, line).hexdigest()


def run(recorder, ports, command, count, algorithm="sha256"):
    port, = ports(1)
    server = Server(recorder, [*command, port], port)
    with ThreadPoolExecutor(CLIENTS) as pool:
        for result in [pool.submit(ask, port, number, count, algorithm) for number in range(CLIENTS)]:
            result.result()
    recording = server.end()
    assert recording.stdout == "ended\n"
    check(recorder, recording)
    return recording


SIZES = [20, pytest.param(1_000, marks=pytest.mark.full)]


@pytest.mark.limit(400)
@pytest.mark.parametrize("count", SIZES)
def test_python_asyncio(recorder, ports, count):
    run(recorder, ports, ["/usr/bin/python3", SERVERS / "echo_asyncio.py"], count)


@pytest.mark.full
@pytest.mark.limit(400)
@pytest.mark.parametrize("count", [20, 1_000])
def test_python_threads(recorder, ports, count):
    run(recorder, ports, ["/usr/bin/python3", SERVERS / "echo_threads.py"], count)


@pytest.mark.full
@pytest.mark.limit(400)
@pytest.mark.parametrize("count", [20, 1_000])
def test_perl_forks(recorder, ports, count):
    recording = run(recorder, ports, ["/usr/bin/perl", SERVERS / "echo_fork.pl"], count, "md5")
    assert len(recording.nodes()) >= 1 + CLIENTS


PIPELINE = r"""
set -o pipefail
numbers() { for ((i = 0; i < $1; i++)); do echo "$((i * 7919 % 1000)) line $i"; done; }
trap 'echo "trapped" >&2' USR1
total=$(numbers "$1" | sort -n | awk '{ sum += $1; last = $0 } END { print sum, last }')
count=$(numbers "$1" | grep -c 'line .*7' | tr -d ' ')
diff <(numbers 50 | sort | uniq | md5sum) <(numbers 50 | sort | uniq | md5sum) && same=yes
kill -USR1 $$
numbers 200 | tee numbers.txt | gzip -9 | gunzip > back.txt && cmp back.txt numbers.txt && zipped=yes
{ read -r first; wait; } < <(sleep 0.05; echo late) &
wait $!
cat <<< "$total $count ${same:-no} ${zipped:-no} $(wc -l < numbers.txt)"
"""


@pytest.mark.limit(300)
@pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=pytest.mark.full)])
def test_bash_pipeline(recorder, tmp_path, count):
    plain = load(recorder, ["/bin/bash", "-c", PIPELINE, "pipeline", count], cwd=tmp_path)
    recording = recorder.record(["/bin/bash", "-c", PIPELINE, "pipeline", count], name="pipeline", cwd=tmp_path, timeout=200)
    assert recording.returncode == 0 and recording.stdout == plain, recording
    assert "trapped" in recording.stderr
    assert sum("/exec-" in node["name"] for node in recording.nodes()) >= 12
    check(recorder, recording)
