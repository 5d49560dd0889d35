"""Mosquitto from Debian: two recorded brokers with a bridge between them, unrecorded publishers and subscribers at both ends."""

import json
import subprocess

import pytest
from conftest import toml, wait_until
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


# Writes the configuration of a broker, with a bridge if there is another one's port, and becomes it.
START = """
import os, sys
name, port, other, place = sys.argv[1:5]
bridge = f"connection to-far\\naddress 127.0.0.1:{other}\\ntopic news/# out 0\\nrestart_timeout 1\\ntry_private false\\n" if other != "0" else ""
user = "user root\\n" if os.getuid() == 0 else ""
with open(f"{place}/{name}.conf", "w") as file:
    file.write(f"listener {port} 127.0.0.1\\nallow_anonymous true\\nlog_type none\\n{user}{bridge}")
os.execv("/usr/sbin/mosquitto", ["mosquitto", "-c", f"{place}/{name}.conf"])
"""
# Subscribes at one broker, and some time later publishes at the other: the message may come while the bridge is down.
SCRIPT = """
import random, subprocess, sys, time
near, far = sys.argv[1:3]
time.sleep(1.6)
reader = subprocess.Popen(["/usr/bin/mosquitto_sub", "-p", far, "-t", "news/#", "-C", "1", "-W", "9"], stdout=subprocess.PIPE, text=True)
time.sleep(random.random() * 8)
subprocess.run(["/usr/bin/mosquitto_pub", "-p", near, "-t", "news/today", "-m", "it rains"], check=True)
sys.exit(reader.communicate()[0].strip() != "it rains")
"""


@pytest.mark.full
@pytest.mark.limit(600)
def test_a_message_that_is_lost_around_a_reconnect(recorder, tmp_path):
    """One broker is killed and begins again, and its neighbour's bridge connects five seconds later. What goes along with losing a message is that
    the neighbour receives it before the other one has accepted the connection, which the protocol says in four bytes: 20 02 00 00."""
    need("mosquitto", "mosquitto-clients")
    for name, text in (("start.py", START), ("script.py", SCRIPT)):
        (tmp_path / name).write_text(text)
    start = lambda name, other: ["/usr/bin/python3", str(tmp_path / "start.py"), name, f"{{port:{name}}}", other, "{dir}"]
    nodes = [{"name": "far", "command": start("far", "0"), "ready": "port {port:far}"},
             {"name": "near", "command": start("near", "{port:far}"), "after": ["far"], "ready": "port {port:near}"}]
    (tmp_path / "group.toml").write_text(toml({"group": {"timeout": 60}, "node": nodes, "event": [{"at": 1.2, "kill": "far"}, {"at": 1.4, "restart": "far"}]}))
    study = tmp_path / "study"
    done = recorder.run([recorder.friday, "diagnose", "-q", "-o", study, "--schedule", "--group", tmp_path / "group.toml", "-n", "28", "-j", "4", "--",
                         "/usr/bin/python3", tmp_path / "script.py", "{port:near}", "{port:far}"], timeout=500)
    assert done.returncode in (0, 1), done
    answer = json.loads(recorder.run([recorder.friday, "compare", study, "--json"], timeout=60).stdout)
    assert answer["verdict"] == "order", answer["text"]
    # The publisher's three messages come together, and the first three answers of the other broker: these runs cannot tell such orders apart.
    first, second = answer["orders"][0]["messages"]
    between = [(each["partner"].partition("/")[0], each["role"].partition("/")[0]) for each in (first, second)]
    assert between == [("script", "near"), ("far", "near")], answer["orders"][0]["text"]
    alike = [answer["orders"][0]["text"], *answer["orders"][0]["alike_orders"]]
    assert any("news/todayit rains" in text and text.endswith("`# bytes: 544` from far/exec") for text in alike), alike
