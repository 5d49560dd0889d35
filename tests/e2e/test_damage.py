"""Damage to a recording is reported, never replayed: one flipped byte, a dropped record, two swapped ones, a cut file, a
trace of another version or with unknown features."""
import struct

import pytest

HEADER = 4096
COMMITTED = 128  # offset of FileHeader::committed (core/shim/trace_format.h)
CHECKSUM = 216  # of FileHeader::checksum
CALL = 16


def trace_of(recording):
    return recording.path / "nodes" / "0" / "trace"


def records(data):
    """(offset, size, type) of each record."""
    at, end = HEADER, struct.unpack_from("<Q", data, COMMITTED)[0]
    while at < end:
        size, kind = struct.unpack_from("<IH", data, at)
        yield at, size, kind
        at += size


@pytest.fixture
def recording(recorder):
    done = recorder.record(["/bin/cat", "/etc/hostname"])
    recorder.verify(done)
    return done


def damage(recording, change):
    path = trace_of(recording)
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, CHECKSUM, 0)  # the damage that is meant is found by itself
    data = change(data)
    path.write_bytes(data)


def expect_report(recorder, recording, *words):
    for command in ("verify",):
        done = recorder.replay(recording)
        said = done.stdout + done.stderr
        assert done.returncode in (2, 3), (command, done.returncode, said)
        for word in words:
            assert word in said, said


def events(data):
    return [(at, size) for at, size, kind in records(data) if kind >= CALL]


def test_flipped_payload_byte(recorder, recording):
    def flip(data):
        at = data.index(open("/etc/hostname", "rb").read(), HEADER)
        data[at] ^= 1
        return data
    damage(recording, flip)
    expect_report(recorder, recording, "node 0", "event", "damaged")


@pytest.mark.parametrize("place", range(6))
def test_any_flipped_byte_of_an_event(recorder, recording, place):
    def flip(data):
        at, size = events(data)[3 + 5 * place]
        data[at + size * place // 6] ^= 0x10
        return data
    damage(recording, flip)
    expect_report(recorder, recording, "node 0")


def test_dropped_record(recorder, recording):
    def drop(data):
        at, size = events(data)[10]
        struct.pack_into("<Q", data, COMMITTED, struct.unpack_from("<Q", data, COMMITTED)[0] - size)
        return data[:at] + data[at + size:]
    damage(recording, drop)
    expect_report(recorder, recording, "node 0")


def test_swapped_records(recorder, recording):
    def swap(data):
        (a, n), (b, m) = events(data)[10:12]
        return data[:a] + data[b:b + m] + data[a:a + n] + data[b + m:]
    damage(recording, swap)
    expect_report(recorder, recording, "node 0")


def test_cut_trace(recorder, recording):
    damage(recording, lambda data: data[:len(data) - 1000])
    expect_report(recorder, recording)


def test_wrong_version(recorder, recording):
    def other(data):
        struct.pack_into("<I", data, 8, 999)
        return data
    damage(recording, other)
    expect_report(recorder, recording, "version")


def test_unknown_feature(recorder, recording):
    def other(data):
        struct.pack_into("<Q", data, 16, 1 << 40)
        return data
    damage(recording, other)
    expect_report(recorder, recording, "feature")


def test_missing_file_copy(recorder, recording):
    for copy in (recording.path / "files").iterdir():
        copy.unlink()
    expect_report(recorder, recording)
    recorder.none_left()


def test_exchanged_file_copy(recorder, recording):
    """Code and symbols come from the copies: another build of a library under the old name is refused, not replayed."""
    copies = sorted((recording.path / "files").iterdir(), key=lambda path: path.stat().st_size)
    copies[-1].chmod(0o600)
    copies[-1].write_bytes(copies[-2].read_bytes())
    expect_report(recorder, recording, "not the file that was recorded", copies[-1].name)


def test_flipped_byte_of_a_file_copy(recorder, recording):
    for copy in (recording.path / "files").iterdir():
        content = bytearray(copy.read_bytes())
        content[len(content) // 2] ^= 1
        copy.chmod(0o600)
        copy.write_bytes(content)
        break
    expect_report(recorder, recording, "not the file that was recorded")


def test_not_a_recording(recorder, tmp_path, friday):
    done = recorder.run([friday, "verify", tmp_path])
    assert done.returncode == 2 and "recording" in done.stderr


def test_processor_without_a_recorded_feature(recorder, recording):
    """As if it had been recorded on a processor that has everything, which none does: AMX is Intel's, XOP was AMD's."""
    FEATURES, CHECKSUMS, CPUID = 16, 1 << 2, 168

    def change(data):
        (features,) = struct.unpack_from("<Q", data, FEATURES)
        struct.pack_into("<Q", data, FEATURES, features & ~CHECKSUMS)
        image = next(at for at, _, kind in records(data) if kind == 1)
        data[image + CPUID:image + CPUID + 128] = b"\xff" * 128
        return data

    damage(recording, change)
    done = recorder.replay(recording)
    assert done.returncode == 2, done
    assert "this processor lacks" in done.stderr and ("xop" in done.stderr or "amx_tile" in done.stderr), done.stderr
