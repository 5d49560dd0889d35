"""Mosquitto from Debian: two recorded brokers with a bridge between them, unrecorded publishers and subscribers at both ends."""

import subprocess

import pytest
from conftest import wait_until
from programs import Server, check, load, need, place  # noqa: F401

SERVER, PUBLISH, SUBSCRIBE = "/usr/sbin/mosquitto", "/usr/bin/mosquitto_pub", "/usr/bin/mosquitto_sub"
COMMON = "allow_anonymous true\nmax_queued_messages 0\nlog_type none\n"


class Brokers:
    def __init__(self, recorder, ports, place):  # noqa: F811
        self.recorder, (self.near, self.far) = recorder, ports(2)
        near, far = place / "near.conf", place / "far.conf"
        far.write_text(f"listener {self.far} 127.0.0.1\npersistence true\npersistence_location {place}/\n{COMMON}")
        near.write_text(f"listener {self.near} 127.0.0.1\n{COMMON}connection to-far\naddress 127.0.0.1:{self.far}\n"
                        "topic news/# out 1\ntopic orders/# in 1\nrestart_timeout 1\ntry_private false\n")
        self.server = Server(recorder, {"node": [{"name": "far", "command": [SERVER, "-c", str(far)]},
                                                 {"name": "near", "command": [SERVER, "-c", str(near)]}]}, self.near, self.far)
        # The bridge says on this topic, which is kept, that it is up.
        wait_until(lambda: self.subscribe(self.near, "$SYS/broker/connection/+/state", "-C", 1, "-W", 30) == ["1"],
                   "the bridge does not come up", 60)

    def subscribe(self, port, topic, *options, timeout=120):
        return load(self.recorder, [SUBSCRIBE, "-p", port, "-t", topic, "-q", "1", *options], timeout).splitlines()

    def cross(self, source, target, topic, count):
        """Messages through the bridge: all of them arrive, in order. The reader's subscription is there before the first is sent."""
        reader = ["-c", "-i", f"reader-{topic.replace('/', '-')}"]
        self.subscribe(target, topic, *reader, "-E")
        messages = [f"{number} {'x' * (number * 97 % 2000)}" for number in range(count)]
        with subprocess.Popen([PUBLISH, "-p", str(source), "-t", topic, "-q", "1", "-l"], stdin=subprocess.PIPE, text=True) as publisher:
            publisher.communicate("".join(message + "\n" for message in messages), timeout=120)
        assert publisher.returncode == 0
        assert self.subscribe(target, topic, *reader, "-C", count) == messages


def run(recorder, ports, place, count):  # noqa: F811
    need("mosquitto", "mosquitto-clients")
    brokers = Brokers(recorder, ports, place)
    brokers.cross(brokers.near, brokers.far, "news/today", count)
    brokers.cross(brokers.far, brokers.near, "orders/new", count)
    recording = brokers.server.end()
    assert [node["name"] for node in recording.nodes()] == ["far", "near"]
    check(recorder, recording)


@pytest.mark.full
@pytest.mark.limit(400)
@pytest.mark.parametrize("count", [100, 5_000])
def test_bridge(recorder, ports, place, count):  # noqa: F811
    run(recorder, ports, place, count)
