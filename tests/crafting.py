"""Recordings changed as somebody would who knows the format: every hash and checksum is right again (docs/trace-format.md)."""
import ctypes
import struct

_xxh = ctypes.CDLL("libxxhash.so.0")


class _Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


_xxh.XXH3_128bits.restype = _Hash128
_xxh.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
_xxh.XXH3_64bits_withSeed.restype = ctypes.c_uint64
_xxh.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]

HEADER_SIZE, COMMITTED = 12, 128  # offsets in the trace's header


def hash_of_file(content):
    """The 16 bytes by which a trace names a file of these contents."""
    found = _xxh.XXH3_128bits(content, len(content))
    return struct.pack(">QQ", found.high, found.low)


def records(data):
    """(offset, size) of each record of a trace."""
    at, end = struct.unpack_from("<I", data, HEADER_SIZE)[0], struct.unpack_from("<Q", data, COMMITTED)[0]
    while at < end:
        size = struct.unpack_from("<I", data, at)[0]
        yield at, size
        at += size


def seal(data):
    """Gives each record of a trace (a bytearray) its checksum."""
    for at, size in records(data):
        struct.pack_into("<I", data, at + 8, 0)
        struct.pack_into("<I", data, at + 8, _xxh.XXH3_64bits_withSeed(bytes(data[at:at + size]), size, at) & 0xffffffff)


def change_file(recording, place, change):
    """Replaces the copy that contains the bytes `place` by change(its contents), under its new name, in the files and in all traces."""
    path, content = next((path, content) for path in (recording / "files").iterdir() if place in (content := path.read_bytes()))
    changed = change(content)
    before, after = bytes.fromhex(path.name), hash_of_file(changed)
    assert before == hash_of_file(content), "the name of a copy is the hash of its contents"
    path.unlink()
    (path.parent / after.hex()).write_bytes(changed)
    for trace in recording.glob("nodes/*/trace"):
        data = bytearray(trace.read_bytes().replace(before, after))
        seal(data)
        trace.write_bytes(data)
