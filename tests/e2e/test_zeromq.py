"""A service on ZeroMQ, recorded: two I/O threads, four workers behind a router, and a publisher; its clients are not recorded."""

import pathlib
import subprocess

import pytest
from programs import Server, check, load, need, place  # noqa: F401

SOURCE = pathlib.Path(__file__).parent / "servers" / "zeromq.c"


@pytest.mark.full
@pytest.mark.limit(400)
@pytest.mark.parametrize("count", [50, 2_000])
def test_router_and_workers(recorder, ports, place, count):  # noqa: F811
    need("libzmq3-dev")
    program = place / "zeromq"
    subprocess.run(["cc", "-O2", "-g", "-Wall", "-pthread", "-o", program, SOURCE, "-lzmq"], check=True, timeout=60)
    port, = ports(1)
    server = Server(recorder, [program, "serve", port, "4"], port, port + 1)
    load(recorder, [program, "ask", port, "8", count])
    recording = server.finish()
    assert recording.stdout == f"{8 * count + 1} requests\n"
    check(recorder, recording)
