"""memcached from Debian with four worker threads and eight concurrent clients, started as root for another user."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import answers, wait_until

SERVER = "/usr/bin/memcached"


class Client:
    """The text protocol, as far as the test needs it."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.file = self.socket.makefile("rwb")

    def line(self, text, *blocks):
        for part in (text, *blocks):
            self.file.write(part.encode() + b"\r\n")
        self.file.flush()
        return self.file.readline().decode().strip()

    def put(self, key, value):
        assert self.line(f"set {key} 0 0 {len(value)}", value) == "STORED"

    def get(self, key):
        answer = self.line(f"get {key}")
        if answer == "END":
            return None
        value = self.file.readline().decode().rstrip("\r\n")
        assert self.file.readline() == b"END\r\n"
        return value

    def close(self):
        self.file.close()
        self.socket.close()


def work(port, number, turns):
    client = Client(port)
    for turn in range(turns):
        key = f"client{number}-{turn % 50}"
        value = f"{number}:{turn}:" + "x" * (turn * 37 % 3000)
        client.put(key, value)
        assert client.get(key) == value
        client.line(f"incr shared {number + 1}")
        if turn % 10 == 0:
            assert client.get("absent") is None
            client.put("contended", value)
            assert client.get("contended")
    client.close()
    return sum(number + 1 for _ in range(turns))


def run(recorder, port, turns):
    identity = ["-u", "nobody"] if os.geteuid() == 0 else []
    running = recorder.start_record([SERVER, "-t", "4", "-l", "127.0.0.1", "-p", str(port), "-U", "0", *identity], name="cache")
    wait_until(lambda: answers(port), "memcached does not answer", 30)
    first = Client(port)
    first.put("shared", "0")
    with ThreadPoolExecutor(8) as pool:
        total = sum(pool.map(lambda number: work(port, number, turns), range(8)))
    assert first.get("shared").strip() == str(total)
    first.line("stats")
    first.close()
    running.signal(signal.SIGINT)
    recording = recorder.finish_record(running, 60)
    assert recording.returncode == 0, recording.stderr
    assert recording.node("cache")["ended"] == {"how": "exit", "detail": 0}
    assert recording.ended_at("cache") is None
    recorder.none_left()
    recorder.verify(recording, timeout=300)


@pytest.mark.limit(240)
def test_eight_clients(recorder, ports):
    run(recorder, ports(1)[0], 200)


@pytest.mark.full
@pytest.mark.limit(900)
def test_eight_clients_for_long(recorder, ports):
    run(recorder, ports(1)[0], 5000)


@pytest.mark.limit(240)
def test_many_connections_come_and_go(recorder, ports):
    port = ports(1)[0]
    identity = ["-u", "nobody"] if os.geteuid() == 0 else []
    running = recorder.start_record([SERVER, "-t", "2", "-l", "127.0.0.1", "-p", str(port), "-U", "0", *identity], name="cache")
    wait_until(lambda: answers(port), "memcached does not answer", 30)
    for i in range(100):
        client = Client(port)
        client.put("key", str(i))
        assert client.get("key") == str(i)
        client.close()
    running.signal(signal.SIGINT)
    recording = recorder.finish_record(running, 60)
    assert recording.returncode == 0, recording.stderr
    recorder.verify(recording)
