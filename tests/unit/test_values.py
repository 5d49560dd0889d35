"""Snapshots: what each kind of C value is in Python, equality, immutability, bytes."""
import ctypes
import json
import math
import struct

import pytest
from fake_backend import FakeBackend

import friday
from friday import values
from friday.language import as_json

# The fields of struct pair behind `a`.
BEHIND_A = [
    {"name": "low", "offset": 4, "type": "1", "bit_offset": 0, "bit_size": 3},
    {"name": "high", "offset": 4, "type": "2", "bit_offset": 3, "bit_size": 7},
    {"name": "name", "offset": 8, "type": "11"},
    {"name": "next", "offset": 16, "type": "6"}]
TABLE = {"types": {
    "1": {"kind": "int", "name": "int", "size": 4, "signed": True},
    "2": {"kind": "int", "name": "unsigned long", "size": 8, "signed": False},
    "3": {"kind": "char", "name": "char", "size": 1, "signed": True},
    "4": {"kind": "char", "name": "unsigned char", "size": 1, "signed": False},
    "5": {"kind": "pointer", "name": "char *", "size": 8, "target": "3"},
    "6": {"kind": "pointer", "name": "struct pair *", "size": 8, "target": "10"},
    "7": {"kind": "enum", "name": "enum color", "size": 4, "values": [["RED", 0], ["GREEN", 1], ["BLUE", 2], ["ALSO_BLUE", 2]]},
    "8": {"kind": "float", "name": "float", "size": 4, "format": "ieee32"},
    "9": {"kind": "float", "name": "long double", "size": 16, "format": "x87"},
    "10": {"kind": "struct", "name": "struct pair", "plain": "pair", "size": 24, "fields": [
        {"name": "a", "offset": 0, "type": "1"},
        *BEHIND_A]},
    "11": {"kind": "array", "name": "char [8]", "size": 8, "element": "3", "count": 8},
    "12": {"kind": "array", "name": "int [2][3]", "size": 24, "element": "13", "count": 2},
    "13": {"kind": "array", "name": "int [3]", "size": 12, "element": "1", "count": 3},
    "14": {"kind": "bool", "name": "bool", "size": 1},
    "15": {"kind": "typedef", "name": "pair_t", "size": 24, "target": "10"},
    "16": {"kind": "struct", "name": "Derived", "size": 16, "fields": [
        {"name": "Base", "offset": 0, "type": "17", "base": True},
        {"name": "", "offset": 4, "type": "18"},
        {"name": "bytes", "offset": 8, "type": "1"}]},
    "17": {"kind": "struct", "name": "Base", "size": 4, "fields": [{"name": "x", "offset": 0, "type": "1"}]},
    "18": {"kind": "union", "name": "", "size": 4, "fields": [
        {"name": "whole", "offset": 0, "type": "1"}, {"name": "first", "offset": 0, "type": "4"}]},
    "19": {"kind": "vector", "name": "__m128", "size": 4},
    "20": {"kind": "integer", "name": "short", "size": 2, "signed": True},
    "21": {"kind": "structure", "name": "wide", "size": 4, "fields": [
        {"name": "flags", "type": "20", "bit_offset": 17, "bit_size": 2}]},
    "22": {"kind": "int", "name": "__int128", "size": 16, "signed": True},
    "23": {"kind": "float", "name": "quad", "plain": "_Float128", "size": 16, "format": "ieee128"},
    "24": {"kind": "struct", "name": "const pair_t", "plain": "pair", "size": 24, "fields": [
        {"name": "a", "offset": 0, "type": "25"},
        *BEHIND_A]},
    "25": {"kind": "int", "name": "number_t", "plain": "int", "size": 4, "signed": True},
    "26": {"kind": "array", "name": "const number_t [3]", "size": 12, "element": "27", "count": 3},
    "27": {"kind": "int", "name": "const number_t", "plain": "int", "size": 4, "signed": True},
    "28": {"kind": "struct", "name": "Both", "size": 8, "fields": [
        {"name": "Base", "offset": 0, "type": "17", "base": True}, {"name": "Other", "offset": 4, "type": "29", "base": True}]},
    "29": {"kind": "struct", "name": "Other", "size": 4, "fields": [{"name": "x", "offset": 0, "type": "1"}]},
    "30": {"kind": "union", "name": "", "size": 4, "fields": [{"name": "x", "offset": 0, "type": "1"}, {"name": "f", "offset": 0, "type": "8"}]},
    "31": {"kind": "struct", "name": "Hiding", "size": 8, "fields": [
        {"name": "Base", "offset": 0, "type": "17", "base": True}, {"name": "", "offset": 4, "type": "30"}]},
    "32": {"kind": "struct", "name": "Third", "size": 4, "fields": [{"name": "x", "offset": 0, "type": "1"}]},
    "33": {"kind": "struct", "name": "Deeper", "size": 12, "fields": [
        {"name": "Both", "offset": 0, "type": "28", "base": True}, {"name": "Third", "offset": 8, "type": "32", "base": True}]},
}}
PAIR = struct.pack("<iI8sQ", -5, 0b1010101_101, b"bob\0junk", 0x6000)


@pytest.fixture
def types():
    table = values.TypeTable()
    table.add(json.dumps(TABLE))
    return table


def decode(types, id_, data, address=0x1000):
    return types.decoder(id_, lambda node, at: b"text at %d" % at)(data, address, 0)


def test_integers(types):
    value = decode(types, 1, b"\xfe\xff\xff\xff")
    assert value == -2 and isinstance(value, int) and value + 1 == -1
    assert value.bytes == b"\xfe\xff\xff\xff" and value.type.name == "int"
    assert {value: 1}[-2] == 1 and json.dumps(value) == "-2" and repr(value) == "-2" and f"{value:5}" == "   -2"
    assert decode(types, 2, b"\xff" * 8) == 2 ** 64 - 1
    assert decode(types, 22, b"\xff" * 16) == -1 and decode(types, 22, b"\0" * 15 + b"\x80") == -2 ** 127


def test_bools_and_characters(types):
    assert decode(types, 14, b"\1") == True and str(decode(types, 14, b"\1")) == "True"  # noqa: E712
    assert not decode(types, 14, b"\0") and str(decode(types, 14, b"\7")) == "7"
    char = decode(types, 3, b"A")
    assert char == 65 and char.char == "A" and decode(types, 4, b"\xff") == 255


def test_pointers_know_their_type_and_print_as_hex(types):
    pointer = decode(types, 6, struct.pack("<Q", 0x7fff0010))
    assert pointer == 0x7fff0010 and f"{pointer}" == "0x7fff0010" and "%d" % pointer == "2147418128"
    assert pointer.type.name == "struct pair *" and pointer.type.target.name == "struct pair"
    assert not decode(types, 6, bytes(8))


def test_enums_have_a_name(types):
    blue = decode(types, 7, b"\2\0\0\0")
    assert (blue, blue.name, str(blue), "%d" % blue, repr(blue)) == (2, "BLUE", "BLUE", "2", "<BLUE: 2>")
    assert decode(types, 7, b"\3\0\0\0").name == "GREEN|BLUE" and decode(types, 7, b"\x0b\0\0\0").name == "11"


def test_floats(types):
    assert decode(types, 8, struct.pack("<f", 1.5)) == 1.5
    for number in (1.0, -2.5, 1e308, math.pi, 0.0, math.inf, 5e-324):
        data = bytes(ctypes.c_longdouble(number))
        value = decode(types, 9, data)
        assert value == number and value.bytes == data and isinstance(value, float)
    assert math.isnan(decode(types, 9, bytes(ctypes.c_longdouble(math.nan))))
    assert decode(types, 23, bytes(14) + b"\xff\x3f") == 1.0, "whatever the type is called"


def test_text(types):
    text = decode(types, 11, b"bob\0junk")
    assert text == "bob" and isinstance(text, str) and text.bytes == b"bob\0junk" and text.address == 0x1000
    assert decode(types, 11, b"unended!") == "unended!"
    binary = decode(types, 11, b"\xff\xfe\0.....")
    assert binary == b"\xff\xfe" and isinstance(binary, bytes) and binary.bytes == b"\xff\xfe\0....."
    assert decode(types, 5, struct.pack("<Q", 7)) == "text at 7"
    null = decode(types, 5, bytes(8))
    assert null == 0 and isinstance(null, values.Pointer)


def test_structs_decode_from_the_copied_bytes(types):
    pair = decode(types, 15, PAIR)
    assert (pair.a, pair.low, pair.high, pair.name, pair.next) == (-5, -3, 0b1010101, "bob", 0x6000)
    assert pair["a"] == -5 and pair.bytes == PAIR and pair.address == 0x1000 and pair.name.address == 0x1008
    assert repr(pair) == "{a = -5, low = -3, high = 85, name = 'bob', next = 0x6000}"
    assert dict(pair)["next"].type.name == "struct pair *"
    with pytest.raises(AttributeError, match="no field `b`; it has: a, low"):
        pair.b
    with pytest.raises(AttributeError, match="snapshot"):
        pair.a = 3
    with pytest.raises(AttributeError, match="snapshot"):
        pair.bytes = b""


def test_equality_and_hash_are_by_type_and_bytes(types):
    one, two = decode(types, 10, PAIR, 1), decode(types, 15, PAIR, 2)
    other = decode(types, 10, bytes(24))
    again = values.TypeTable()
    again.add(TABLE)
    assert one == two == decode(again, 10, PAIR) and hash(one) == hash(two) and one != other
    assert len({one, two, other}) == 2
    assert one != decode(types, 12, PAIR) and one != PAIR
    named_otherwise = decode(types, 24, PAIR)
    assert one == named_otherwise and hash(one) == hash(named_otherwise), "const and typedefs make no other type"
    numbers = struct.pack("<3i", 1, 2, 3)
    assert decode(types, 13, numbers) == decode(types, 26, numbers) and hash(decode(types, 13, numbers)) == hash(decode(types, 26, numbers))
    changed = json.loads(json.dumps(TABLE))
    changed["types"]["10"]["fields"][0]["offset"] = 4
    moved = values.TypeTable()
    moved.add(changed)
    assert one != decode(moved, 10, PAIR)


def test_bases_anonymous_members_and_taken_names(types):
    value = decode(types, 16, struct.pack("<iiii", 1, 0x102, 3, 0))
    assert (value.x, value.whole, value.first, value["bytes"]) == (1, 0x102, 2, 3) and len(value.bytes) == 16
    assert value.Base.x == 1
    both = decode(types, 28, struct.pack("<ii", 1, 2))
    assert (both.Base.x, both.Other.x) == (1, 2) and "x" not in dict(both)
    with pytest.raises(AttributeError, match="no field `x`; it has: Base, Other"):
        both.x


def test_a_name_that_an_anonymous_member_and_a_base_have_is_the_anonymous_members(types):
    """C++ treats the names of an anonymous union as the class's own, which hide those of its bases."""
    value = decode(types, 31, struct.pack("<ii", 5, 77))
    assert (value.x, value.Base.x) == (77, 5) and dict(value)["x"] == 77 and "x = 77" in repr(value) and "x" in dir(value)
    assert types[31].ambiguous == frozenset()


def test_a_name_that_is_ambiguous_in_a_base_is_ambiguous_behind_it(types):
    value = decode(types, 33, struct.pack("<iii", 1, 2, 3))
    with pytest.raises(AttributeError, match="no field `x`"):
        value.x
    assert (value.Base.x, value.Other.x, value.Third.x) == (1, 2, 3) and types[33].ambiguous == {"x"}
    assert repr(value) == "{Base = {x = 1}, Other = {x = 2}, Both = {Base = {x = 1}, Other = {x = 2}}, Third = {x = 3}}"


def test_a_type_is_another_one_if_a_base_or_an_anonymous_member_is_laid_out_otherwise(types):
    for id_, whole in (("29", "28"), ("30", "31")):
        changed = json.loads(json.dumps(TABLE))
        changed["types"][id_]["fields"][0]["type"] = "7"
        other = values.TypeTable()
        other.add(changed)
        assert types[whole].key != other[whole].key, f"type {id_} in {whole}"


def test_arrays(types):
    array = decode(types, 12, struct.pack("<6i", *range(6)))
    assert [list(row) for row in array] == [[0, 1, 2], [3, 4, 5]] and array[1][2] == 5 and array[-1][0] == 3
    assert array[0][1:] == (1, 2) and len(array) == 2 and 4 in array[1] and array[1].address == 0x100c
    assert repr(array) == "{{0, 1, 2}, {3, 4, 5}}"
    with pytest.raises(IndexError, match="no element 2"):
        array[2]


def test_unknown_kinds_are_raw(types):
    assert repr(decode(types, 19, b"\1\2\3\4")) == "<__m128: 01 02 03 04>"


def test_the_words_of_the_core(types):
    assert decode(types, 20, b"\xff\xff") == -1
    assert decode(types, 21, struct.pack("<I", 0b10 << 17)).flags == -2


def test_types_are_fetched_once_when_first_seen():
    asked = []

    def fetch(id_):
        asked.append(id_)
        return json.dumps(TABLE)
    table = values.TypeTable(fetch)
    assert table[10].name == "struct pair" and table["1"].name == "int" and asked == [10]


def test_c_text_of_values():
    session = friday.Session(FakeBackend())
    backend = session.backend

    def text(raw):
        return friday.language.c_text(session, 0, session.decoders[raw[0]](raw[1], raw[2], 0))
    c_text = friday.language.c_text
    assert [c_text(session, 0, v) for v in (True, 5, 2.5, 'a"\\\n\1', b"\xff")] == [
        "1", "5", "2.5", '"a\\"\\\\\\n\\001"', '"\\377"']
    assert text(backend.raw(0x40, "struct Node *")) == "((struct Node *)0x40)"
    assert text(backend.raw(1, "enum state")) == "1"
    data = bytes(range(16))
    staged = text(backend.raw(data, "struct Node"))
    assert staged.startswith("(*(struct Node *)0x") and backend.memory[int(staged[:-1].split(")")[-1], 16)] == data
    assert text(backend.raw(bytes(12), "int [3]")).startswith("((int *)0x")
    for bad in (None, [1], math.inf):
        with pytest.raises((TypeError, ValueError), match="cannot be written in C"):
            c_text(session, 0, bad)


def test_json_of_values(types):
    node = list(friday.Session(FakeBackend(("n0",))).nodes)[0]
    pair, color = decode(types, 10, PAIR), decode(types, 7, b"\1\0\0\0")
    assert as_json({"p": pair, "c": color, 3: (1.5, math.inf, None, node)}) == {
        "p": {"a": -5, "low": -3, "high": 85, "name": "bob", "next": "0x6000"}, "c": "GREEN",
        "3": [1.5, "inf", None, {"id": 0, "name": "n0"}]}
