"""Reads the log of a cut (core/cut/runtime/log.h) with the tables of its program: what was recorded, and how many bytes that took."""

import collections
import struct

KINDS = ["", "thread", "new_thread", "entry", "entry_end", "call", "call_end", "store", "fill", "allocated", "reallocated", "made", "end", "stopped", "quiet", "returned"]
HEAD, BLOCK, BLOCK_HEAD = 4096, 65536, 32


def sections(program):
    file = open(program, "rb").read()
    (start,), (count, names) = struct.unpack_from("<Q", file, 40), struct.unpack_from("<HH", file, 60)
    heads = [struct.unpack_from("<IIQQQQ", file, start + 64 * i) for i in range(count)]
    text = file[heads[names][4]:heads[names][4] + heads[names][5]]
    found = {text[h[0]:text.index(b"\0", h[0])].decode(): file[h[4]:h[4] + h[5]] for h in heads if h[1] not in (0, 8)}

    def string(address):
        for h in heads:
            if h[3] and h[3] <= address < h[3] + h[5]:
                at = h[4] + address - h[3]
                return file[at:file.index(b"\0", at)].decode()
        return "?"
    return found, string


class Log:
    def __init__(self, path, program):
        self.data = open(path, "rb").read()
        found, self.string = sections(program)
        self.sites = list(struct.iter_unpack("<QQQII", found.get("friday_sites", b"")))
        self.entries = list(struct.iter_unpack("<QQQIIIIII", found.get("friday_entries", b"")))
        (self.checked,), (self.blocks, self.state) = struct.unpack_from("<I", self.data, 12), struct.unpack_from("<QI", self.data, 96)

    def records(self):
        """(kind, name, place in the file, bytes) of each record."""
        for number in range(self.blocks):
            base = HEAD + number * BLOCK
            at, end = base + BLOCK_HEAD, base + BLOCK_HEAD + struct.unpack_from("<I", self.data, base + 8)[0]
            while at < end:
                kind, name, after = self.record(at)
                yield kind, name, at, after - at
                at = after

    def varint(self, at):
        value = shift = 0
        while True:
            byte = self.data[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    def record(self, at):
        first, at = self.data[at], at + 1
        if first & 7:
            code = first & 7
            if code == 5:
                count, at = self.varint(at)
                return "read many", "", at + count
            return f"read {1 << (code - 1)}", "", at + (1 << (code - 1))
        kind = KINDS[first >> 3]
        name = ""
        if kind in ("thread", "new_thread"):
            _, at = self.varint(at)
            at += 16 if kind == "new_thread" else 0
        elif kind == "entry":
            number, at = self.varint(at)
            _, at = self.varint(at)
            _, at = self.varint(at)
            name, at = self.string(self.entries[number][0]), at + self.entries[number][4]
        elif kind == "entry_end":
            _, at = self.varint(at + 4)
            at += 8 if self.checked else 0
        elif kind in ("call", "call_end", "returned"):
            number, at = self.varint(at)
            _, at = self.varint(at)
            site = self.sites[number]
            name = f"{self.string(site[2])} in {self.string(site[0])}:{site[3]}"
            at += {"call": 4, "call_end": site[4], "returned": 4 + site[4]}[kind]
        elif kind in ("store", "fill", "allocated", "made"):
            count, at = self.varint(at + 8)
            at += count if kind == "store" else 1 if kind == "fill" else 0
        elif kind == "reallocated":
            _, at = self.varint(at + 16)
            _, at = self.varint(at)
        elif kind == "quiet":
            at += 8
        elif kind == "stopped":
            count, at = self.varint(at)
            at += count
        return kind, name, at

    def bytes_of_kinds(self):
        counted = collections.Counter()
        for kind, name, _, count in self.records():
            counted[kind, name] += count
        return counted
