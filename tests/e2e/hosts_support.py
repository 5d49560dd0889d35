"""Hosts made of namespaces: a router and any number of hosts around it, each with a network, a clock, a boot id and a name of
its own, made by an ordinary user. Nothing of the machine's own network is touched, and all of it is gone with its processes.

    world = World(recorder)
    a, b = world.host("a"), world.host("b", ahead=1000)     # b's CLOCK_MONOTONIC is 1000 s ahead
    a.start([...]); world.router.run([...])

CLOCK_MONOTONIC is shifted by a time namespace, so the programs see it too. No kernel lets it drift: friday_skew writes that
into a recording.
"""

import os
import pathlib
import shutil
import subprocess
import uuid

import pytest
from conftest import wait_until

ENTER = ["nsenter", "--preserve-credentials", "--user", "--net", "--mount", "--uts", "--time"]
NFT = "/usr/sbin/nft"
MAKE = ["--net", "--mount", "--uts", "--time", "--fork", "--kill-child"]


# One of each thing that a World does; a container may allow some of them only.
PROBE = """set -e
hostname probe
mount --bind /dev/null /proc/sys/kernel/random/boot_id
ip link add name probe0 type veth peer name probe1
echo 1 > /proc/sys/net/ipv4/ip_forward"""


def need_namespaces():
    """Skips where the machine refuses what a World is made of."""
    for program, package in (("unshare", "util-linux"), ("ip", "iproute2"), (NFT, "nftables")):
        if not shutil.which(program):
            pytest.fail(f"there is no {program}, which is in Debian's package {package}; console/setup.sh installs it")
    probe = subprocess.run(["unshare", "--user", "--map-root-user", *MAKE, "--monotonic", "1", "sh", "-c", PROBE], capture_output=True, text=True, timeout=20)
    if probe.returncode != 0:
        pytest.skip(f"machine: it gives this user no hosts made of namespaces (user, net, mount, uts, time): {probe.stderr.strip()}")


class Place:
    """Namespaces that one process holds; programs are started in them."""

    def __init__(self, world, name, command, setup="true"):
        self.world, self.name = world, name
        script = f"set -e; {setup}; echo up $$; exec cat"
        self.holder = world.recorder.start([*command, "sh", "-c", script], stdin=subprocess.PIPE)
        line = self.holder.process.stdout.readline().split()
        if line[:1] != ["up"]:
            pytest.fail(f"the namespaces of {name} could not be made: {self.holder.finish(10).stderr}")
        self.pid = line[1]

    def within(self, command, cwd=None):
        return [*ENTER, "--target", self.pid, "env", "-C", cwd or self.world.recorder.directory, *command]

    def start(self, command, *, cwd=None, **options):
        return self.world.recorder.start(self.within(command, cwd), **options)

    def run(self, command, *, timeout=60, **options):
        done = self.start(command, **options).finish(timeout)
        assert done.returncode == 0, (self.name, command, done.stdout, done.stderr)
        return done.stdout

    def processes(self):
        """The command lines of all that runs in this place."""
        found, here = [], os.stat(f"/proc/{self.pid}/ns/net").st_ino
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "ns/net").stat().st_ino == here:
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                pass  # gone, or another user's
        return found

    def record(self, name, command, **options):
        """Starts `friday record` of one program in this place; a recording a place."""
        recorder = self.world.recorder
        path = recorder.directory / f"rec-{self.name}"
        running = self.start([recorder.friday, "record", "-q", "-o", path, "--node", name, "--", *command], **options)
        running.recording = path
        return running


class World:
    def __init__(self, recorder):
        need_namespaces()
        self.recorder, self.hosts = recorder, []
        self.router = Place(self, "router", ["unshare", "--user", "--map-root-user", *MAKE], "ip link set lo up; echo 1 > /proc/sys/net/ipv4/ip_forward")

    def host(self, name, *, ahead=0):
        number = len(self.hosts) + 1
        boot = self.recorder.directory / f"boot-{name}"
        boot.write_text(f"{uuid.uuid4()}\n")
        setup = f"hostname {name}; mount --bind {boot} /proc/sys/kernel/random/boot_id; ip link set lo up"
        host = Place(self, name, self.router.within(["unshare", *MAKE, "--monotonic", str(ahead)]), setup)
        host.address, host.gateway, host.ahead = f"10.77.{number}.2", f"10.77.{number}.1", ahead
        for place, command in ((self.router, f"link add to-{name} type veth peer name eth0 netns {host.pid}"),
                               (self.router, f"addr add {host.gateway}/24 dev to-{name}"), (self.router, f"link set to-{name} up"),
                               (host, f"addr add {host.address}/24 dev eth0"), (host, "link set eth0 up"),
                               (host, f"route add default via {host.gateway}")):
            place.run(["ip", *command.split()])
        self.hosts.append(host)
        return host

    def rewrite(self, rules):
        """Destination addresses rewritten by the router: {(protocol, address, port): (address, port)}."""
        probe = self.router.start([NFT, "add table ip probe; add chain ip probe incoming { type nat hook prerouting priority -100; }"]).finish(20)
        if probe.returncode != 0:
            pytest.skip(f"machine: its kernel rewrites no addresses (nf_tables with NAT): {probe.stderr.strip()}")
        lines = "\n".join(f"ip daddr {at} {protocol} dport {port} dnat to {to[0]}:{to[1]}" for (protocol, at, port), to in rules.items())
        chain = f"table ip rewritten {{\nchain incoming {{\ntype nat hook prerouting priority -100\n{lines}\n}}\n}}\n"
        file = self.recorder.directory / "rewritten.nft"
        file.write_text(chain)
        self.router.run([NFT, "-f", file])

    def connects(self, place, address, port):
        """Waits until something accepts connections there."""
        probe = f"import socket; socket.create_connection(('{address}', {port}), 2).close()"
        wait_until(lambda: place.start(["/usr/bin/python3", "-c", probe]).finish(20).returncode == 0, f"nothing accepts at {address}:{port}", 30)
