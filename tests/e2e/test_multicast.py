"""Datagrams that are nobody's own: multicast, of which each receiver gets a copy, and what raw sockets send, with and without an IP header
that the program makes itself. They are matched by their addresses, as others are."""
import subprocess

import pytest

NETWORK = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c",
           "ip link set lo up && ip link set lo multicast on && ip route add 224.0.0.0/4 dev lo && exec \"$@\"", "sh"]

PROGRAM = """
import os, socket, struct, sys, time
role, kind, listeners = sys.argv[1], sys.argv[2], int(sys.argv[3])
GROUP, PORT, PROTOCOL = "224.0.0.5", 5000, 253
raw = kind != "udp"
s = socket.socket(socket.AF_INET, socket.SOCK_RAW if raw else socket.SOCK_DGRAM, PROTOCOL if raw else 0)
if role == "listen":
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if not raw:
        s.bind(("", PORT))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + socket.inet_aton("127.0.0.1"))
    open(f"ready-{kind}-{os.getpid()}", "w").close()
    got = 0
    while True:
        bytes, _ = s.recvfrom(2000)
        got += 1
        if bytes.endswith(b"the last of them"):
            break
    print(got)
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    if kind == "header":
        s.setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1)
    while sum(name.startswith("ready-" + kind) for name in os.listdir(".")) < listeners:
        time.sleep(0.01)
    def send(text, to):
        data = text.encode()
        if kind == "header":
            data = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 0, 0, 1, PROTOCOL, 0, socket.inet_aton("127.0.0.1"), socket.inet_aton(to)) + data
        s.sendto(data, (to, 0 if raw else PORT))
    for i in range(10):
        send(f"to one of them {i}", "127.0.0.1")
        send(f"to all of them {i}", GROUP)
    send("the last of them", GROUP)
    print(21)
"""


@pytest.mark.parametrize("kind", ["udp", "raw", "header"])
def test_multicast(recorder, tmp_path, kind):
    probe = subprocess.run([*NETWORK, "true"], capture_output=True, text=True, timeout=20)
    if probe.returncode != 0:
        pytest.skip(f"machine: it gives this user no network of its own: {probe.stderr.strip()}")
    program = ["/usr/bin/python3", "-c", PROGRAM]
    commands = [[*program, "listen", kind, "2"], [*program, "listen", kind, "2"], [*program, "send", kind, "2"]]
    recording, printed = recorder.record_nodes(commands, prefix=NETWORK, cwd=tmp_path)
    recorder.verify(recording)
    info = recorder.info(recording)
    received = sum(int(lines[0]) for lines in printed[:2])
    assert received >= 32
    assert sum(node["messages"]["received"] for node in info["nodes"]) == received
    assert info["matched"]["unmatched_receives"] == 0 and info["matched"]["content"] == 0, info["matched"]
