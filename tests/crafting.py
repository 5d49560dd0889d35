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

_xxh.XXH3_64bits.restype = ctypes.c_uint64
_xxh.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

HEADER_SIZE, COMMITTED, CHECKSUM, HEADER_BYTES = 12, 128, 216, 256  # offsets in the trace's header, and its size
HASH_BLOCK = 240  # kHashBlock of core/shim/trace_format.h


def block_hash(data, seed):
    """The hash of a record: XXH3-64 over blocks of HASH_BLOCK bytes, where the hash of each block is the seed of the next."""
    for at in range(0, max(len(data), 1), HASH_BLOCK):
        part = data[at:at + HASH_BLOCK]
        seed = _xxh.XXH3_64bits_withSeed(part, len(part), seed)
    return seed


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
    """Gives each record of a trace (a bytearray) its checksum, and the header its own."""
    for at, size in records(data):
        struct.pack_into("<I", data, at + 8, 0)
        struct.pack_into("<I", data, at + 8, block_hash(bytes(data[at:at + size]), at) & 0xffffffff)
    clear_checksum(data)
    struct.pack_into("<Q", data, CHECKSUM, _xxh.XXH3_64bits(bytes(data[:4096]), 4096))


def clear_checksum(data):
    """As a recorder that was killed leaves the header."""
    struct.pack_into("<Q", data, CHECKSUM, 0)


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


# -- The compressed form

_zstd = ctypes.CDLL("libzstd.so.1")
_zstd.ZSTD_compress.restype = ctypes.c_size_t
_zstd.ZSTD_compress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]

PAGE, BLOCK = 4096, 4 << 20


def zstd(data):
    out = ctypes.create_string_buffer(len(data) + (len(data) >> 7) + 1024)
    size = _zstd.ZSTD_compress(out, len(out), data, len(data), 1)
    return out.raw[:size]


def block(offset, data, *, frame=None, size=None, stored=None):
    """A block of the compressed form that holds these bytes of the trace, or says so."""
    frame = zstd(data) if frame is None else frame
    head = struct.pack("<II8sQQQQ", 0x184d2a50, 40, b"FRIDAYZ1", offset, len(data) if size is None else size, len(frame) if stored is None else stored,
                       _xxh.XXH3_64bits_withSeed(data, len(data), offset))
    return head + frame


def last_block(data):
    """The end of the compressed form, with the header page of a trace."""
    page = bytes(data[:PAGE])
    return struct.pack("<II8sQ", 0x184d2a51, PAGE + 16, b"FRIDAYZE", _xxh.XXH3_64bits(page, PAGE)) + page


def packed(data):
    """A whole trace, compressed."""
    data = bytes(data)
    return b"".join(block(at, data[at:at + BLOCK]) for at in range(PAGE, len(data), BLOCK)) + last_block(data)
