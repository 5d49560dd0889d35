"""Makes the seeds of the fuzz targets from real recordings: seeds.py FRIDAY DIRECTORY writes DIRECTORY/{trace,packed,recording,group}/*.

Checksums are switched off (a feature bit of the header) and most of each start image is left out, so that seeds are small and a
changed byte gets further than the first check. One seed is a trace as it was.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

HEADER, FEATURES, COMMITTED, EVENTS, ALLOCATED, CHECKSUM = 4096, 16, 128, 136, 192, 216
IMAGE_TYPES, CHECKSUMS, MOST = (1, 2, 3, 6), 4, 24000
IMAGE_SHARE = 12000

GROUPS = [
    '[group]\nstop_after = 1.5\nstop_when_ends = "b"\nmax_size = "20G"\n[[node]]\nname = "a"\ncommand = ["/bin/true", "x"]\n'
    'cwd = "/tmp"\nenv = { A = "1", B = "two" }\nstart_delay = 0.5\nstdout = "a.out"\nstderr = "a.err"\nrecord = false\nstop_signal = "INT"\n'
    '[[node]]\nname = "b"\ncommand = ["/bin/cat"]\n',
    '[[node]]\nname = """a"""\ncommand = [\'b\']\nenv.X = "\\u00e9"\n', "group = 3\n", "[[node]]\n[[node]]\n", '[group]\nmax_size = "4M"\n',
]


def records(data):
    at, end = HEADER, struct.unpack_from("<Q", data, COMMITTED)[0]
    while at < end:
        size, kind = struct.unpack_from("<IH", data, at)
        yield kind, data[at:at + size]
        at += size


def small(data, image=False, last=False):
    """The trace's events from the first on, or its last ones, as many as fit, with the other records between them; `image`: and
    something of its start image."""
    kept, size, images = [], 0, 0
    everything = list(records(data))
    for kind, record in reversed(everything) if last else everything:
        if kind in IMAGE_TYPES:
            images += len(record)
            if not image or images > IMAGE_SHARE:
                continue
        if size + len(record) > MOST:
            if kind >= 16:
                break
            continue
        size += len(record)
        kept.append((kind, bytearray(record)))
    if last:
        kept.reverse()
    events, of_thread = 0, {}
    for kind, record in kept:  # events count from 0, in each thread too
        if kind >= 16:
            thread = struct.unpack_from("<I", record, 12)[0]
            struct.pack_into("<QI", record, 16, events, of_thread.get(thread, 0))
            of_thread[thread] = of_thread.get(thread, 0) + 1
            events += 1
        elif kind == 7:
            struct.pack_into("<Q", record, 16, events)
    body = b"".join(record for _, record in kept)
    header = bytearray(data[:HEADER])
    struct.pack_into("<Q", header, FEATURES, struct.unpack_from("<Q", header, FEATURES)[0] & ~CHECKSUMS)
    struct.pack_into("<Q", header, COMMITTED, HEADER + len(body))
    struct.pack_into("<Q", header, EVENTS, events)
    struct.pack_into("<Q", header, ALLOCATED, HEADER + len(body))
    struct.pack_into("<I", header, ALLOCATED + 16, 0)
    struct.pack_into("<Q", header, CHECKSUM, 0)
    return bytes(header) + body


def record(friday, path, command, *options):
    subprocess.run([friday, "record", "-q", "-o", path, *options, "--", *command], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def main(friday, target):
    kinds = {kind: target / kind for kind in ("trace", "packed", "recording", "group")}
    for path in kinds.values():
        path.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(GROUPS):
        (kinds["group"] / str(number)).write_text(text)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        talk = ("import os, socket, threading\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                "s = socket.create_server(('127.0.0.1', 0))\nt = threading.Thread(target=lambda: s.accept()[0].sendall(b'x' * 9000))\nt.start()\n"
                "c = socket.create_connection(s.getsockname())\nwhile c.recv(3000): pass\na.send(b'datagram'); print(b.recv(99))\n"
                "p = os.fork()\nif p == 0: os._exit(3)\nprint(os.waitpid(p, 0))\n")
        record(friday, work / "talk", ["/usr/bin/python3", "-S", "-c", talk], "--no-compress")
        record(friday, work / "cat", ["/bin/cat", "/etc/hostname"], "--no-compress")
        record(friday, work / "long", ["/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=100k", "count=45", "status=none"])
        traces = [path.read_bytes() for path in sorted(work.glob("*/nodes/*/trace"))]
        for number, data in enumerate(traces):
            (kinds["trace"] / str(number)).write_bytes(small(data))
            (kinds["trace"] / f"{number}-image").write_bytes(small(data, image=True))
            (kinds["trace"] / f"{number}-last").write_bytes(small(data, last=True))
        (kinds["trace"] / "whole").write_bytes(min(traces, key=len))
        for first, second in ((0, 1), (1, 2), (2, 2)):
            for last in (False, True):
                one, two = (small(traces[number % len(traces)], last=last) for number in (first, second))
                (kinds["recording"] / f"{first}-{second}-{last}").write_bytes(struct.pack("<I", len(one)) + one + two)
        packed = next(work.glob("long/nodes/0/trace.zst")).read_bytes()
        for first in (0, 1, 3, 0x41):
            (kinds["packed"] / f"{first}").write_bytes(bytes([first]) + packed)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
