"""Ports of loopback for servers of tests and benchmarks."""
from __future__ import annotations

import random
import socket

_given: set[int] = set()


def free_ports(count: int, kind: int = socket.SOCK_STREAM) -> list[int]:
    """Ports of 127.0.0.1 that are free now and that nobody gets by chance: below those the kernel gives to sockets that name
    none (ip(7), ip_local_port_range), and each given once by this process, so that servers started at once differ.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(10000, 32000)
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
