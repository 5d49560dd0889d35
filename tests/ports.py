"""Ports of loopback for servers of tests and benchmarks."""
from __future__ import annotations

import os
import random
import socket

FIRST, LAST = 10000, 32000
_given: set[int] = set()


def _own_ports() -> range:
    """Tests that run side by side have a range each: what one was told is free the other might take before it is used."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = (LAST - FIRST) // workers
    return range(FIRST + worker * share, FIRST + (worker + 1) * share)


def free_ports(count: int, kind: int = socket.SOCK_STREAM) -> list[int]:
    """Ports of 127.0.0.1 that are free now and that nobody gets by chance: below those the kernel gives to sockets that name
    none (ip(7), ip_local_port_range), and each given once by this process, so that servers started at once differ.
    """
    ports: list[int] = []
    own = _own_ports()
    while len(ports) < count:
        port = random.SystemRandom().choice(own)
        if port in _given:
            continue
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        ports.append(port)
    return ports
