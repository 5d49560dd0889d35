"""Containers that a damaged memory holds: each is refused in a sentence, none is followed for ever. Good ones are in
tests/e2e/test_debug_containers.py, on a program."""
import struct

import pytest
from fake_backend import FakeBackend  # noqa: F401

from friday.containers import Gone, Unreadable, make, value_of
from friday.errors import BadAddress, BadExpression
from friday.values import TypeTable

INT, LONG, POINTER = 1, 2, 3
PLAIN = {INT: {"kind": "int", "name": "int", "size": 4, "signed": True}, LONG: {"kind": "int", "name": "unsigned long", "size": 8},
         POINTER: {"kind": "pointer", "name": "void *", "size": 8, "target": INT}}


def record(name, size, *fields, **more):
    return {"kind": "struct", "name": name, "size": size, "fields": [{"name": n, "type": t, "offset": o} for n, t, o in fields], **more}


TYPES = {
    **PLAIN,
    10: record("vector<int>::_Vector_impl", 24, ("_M_start", POINTER, 0), ("_M_finish", POINTER, 8)),
    11: record("vector<int>", 24, ("_M_impl", 10, 0), standard="vector", item=INT),
    20: record("_List_node_base", 16, ("_M_next", POINTER, 0), ("_M_prev", POINTER, 8)),
    21: record("list<int>::_List_impl", 16, ("_M_node", 20, 0)),
    22: record("list<int>", 16, ("_M_impl", 21, 0), standard="list", item=INT, shift=16),
    30: record("_Rb_tree_node_base", 32, ("_M_color", LONG, 0), ("_M_parent", POINTER, 8), ("_M_left", POINTER, 16), ("_M_right", POINTER, 24)),
    31: record("_Rb_tree_impl", 48, ("_M_header", 30, 8), ("_M_node_count", LONG, 40)),
    32: record("_Rb_tree", 48, ("_M_impl", 31, 0)),
    33: record("set<int>", 48, ("_M_t", 32, 0), standard="set", item=INT, shift=32),
    40: record("Holder", 72, ("set", 33, 0), ("list", 22, 48), ("number", INT, 64)),
    41: record("Clash", 48, ("inside", 22, 0), ("_at", INT, 16), ("_field", INT, 20), ("_piece", INT, 24), ("type", INT, 28)),
    60: record("_Hashtable", 40, ("_M_before_begin", POINTER, 16), ("_M_element_count", LONG, 24)),
    61: record("unordered_set<int>", 40, ("_M_h", 60, 0), standard="unordered_set", item=INT, shift=8),
    62: record("vector<int>", 24, ("__begin_", POINTER, 0), ("__size_", LONG, 8), standard="vector", item=INT),
    63: record("array<int, 2>", 8, ("items", LONG, 0), standard="array"),
    64: record("tuple<int, int>", 8, ("items", LONG, 0), standard="tuple"),
    65: record("atomic<int>", 16, ("owner", POINTER, 0), ("_M_i", LONG, 8), standard="atomic"),
    70: record("A", 8, ("id", LONG, 0)),
    71: record("B", 8, ("id", LONG, 0)),
    72: {"kind": "struct", "name": "Heir", "size": 48, "fields": [
        {"name": "A", "type": 70, "offset": 0, "base": True}, {"name": "B", "type": 71, "offset": 8, "base": True},
        {"name": "", "type": 73, "offset": 16}, {"name": "A", "type": LONG, "offset": 24}, {"name": "list", "type": 22, "offset": 32}]},
    73: record("", 8, ("id", LONG, 0)),
    50: record("vector<short>", 24, ("_M_begin", POINTER, 0), standard="vector", item=INT),
}
AT = 0x1000


class Memory:
    def __init__(self, words):
        self.words, self.reads = words, 0

    def __call__(self, address, size):
        self.reads += 1
        data = b"".join(struct.pack("<Q", self.words.get(at, 0)) for at in range(address & ~7, address + size + 8, 8))
        if not any(at in self.words for at in range(address & ~7, address + size, 8)):
            raise BadAddress(f"cannot read {address:#x}")
        return data[address & 7:][:size]


def value(type_id, words, memory):
    table = TypeTable()
    table.add({"types": TYPES})
    type_ = table[type_id]
    return make(type_, struct.pack(f"<{len(words)}Q", *words), AT, Memory(memory))


def test_good_ones():
    assert value(11, [0x2000, 0x2008, 0], {0x2000: 5 | 6 << 32}) == (5, 6)
    assert value(22, [0x2000, 0x2000], {0x2000: AT, 0x2010: 7}) == (7,)
    assert value(33, [0, 0, 0x2000, 0, 0, 1], {0x2000: 0, 0x2010: 0, 0x2018: 0, 0x2020: 9}) == (9,)


@pytest.mark.parametrize("type_id, words, memory, why", [
    (11, [0x2010, 0x2000, 0], {}, "ends at 0x2000 and starts at 0x2010"),
    (11, [0x2000, 0x2003, 0], {}, "ends at"),
    (11, [0, 1 << 46, 0], {}, "holds .* items"),
    (11, [0x2000, 0x2008, 0], {}, "cannot be read"),
    (22, [0x2000, 0x2000], {0x2000: 0x2000, 0x2010: 1}, "does not end after 1000000 items"),
    (22, [0, 0], {}, "cannot be read"),
    (33, [0, 0, 0x2000, 0, 0, 1], {0x2000: 0, 0x2010: 0x2000, 0x2018: 0, 0x2020: 1}, "deeper than a balanced tree"),
    (33, [0, 0, 0x2000, 0, 0, 1], {0x2000: 0, 0x2010: 0, 0x2018: 0x2000, 0x2020: 1}, "more than the 1 items"),
    (33, [0, 0, 0x2000, 0, 0, 2], {0x2000: 0, 0x2010: 0, 0x2018: 0, 0x2020: 1}, "holds 2 items and has 1"),
    (33, [0, 0, 0, 0, 0, (1 << 64) - 1], {}, "holds"),
    (61, [0, 0, 0, 2, 0], {}, "says that it holds 2 items and has 0"),
    *((type_id, [0x2000, 3, 0][:words], {0x2000: 1}, "has an unknown layout") for type_id, words in ((50, 3), (62, 3), (63, 1), (64, 1), (65, 2))),
])
def test_what_is_none_is_refused(type_id, words, memory, why):
    with pytest.raises(Unreadable, match=why):
        value(type_id, words, memory)


def test_one_in_a_struct_that_is_none_stays_as_it_is_laid_out():
    holder = value(40, [0, 0, 0, 0, 0, 5, 0x2000, 0x2000, 77], {0x2000: AT + 48, 0x2010: 3})
    assert holder.list == (3,) and holder.number == 77
    assert holder.set._M_t._M_impl._M_node_count == 5


def test_fields_are_never_hidden_by_what_a_value_is_made_with():
    clash = value(41, [0x2000, 0x2000, 1 | 2 << 32, 3 | 4 << 32, 0, 0], {0x2000: AT, 0x2010: 9})
    assert (clash.inside, clash._at, clash._field, clash._piece, clash["type"]) == ((9,), 1, 2, 3, 4)


def test_two_that_hold_containers_are_equal_if_all_of_their_parts_are():
    """Also those that no name finds: the base class A is hidden by the field A, and its `id` by that of the anonymous member."""
    def heir(*ids, item=9):
        return value(72, [*ids, AT + 32 if item is None else 0x2000, AT + 32 if item is None else 0x2000], {0x2000: AT + 32, 0x2010: item or 0})
    one = heir(1, 2, 3, 4)
    assert one == heir(1, 2, 3, 4) and hash(one) == hash(heir(1, 2, 3, 4)) and (one.id, one.A, one.B.id, one.list) == (3, 4, 2, (9,))
    for other in (heir(8, 2, 3, 4), heir(1, 8, 3, 4), heir(1, 2, 8, 4), heir(1, 2, 3, 8), heir(1, 2, 3, 4, item=8), heir(1, 2, 3, 4, item=None)):
        assert one != other


def test_what_lay_outside_of_the_bytes_is_not_known_later():
    def gone(address, size):
        raise Gone("the group has moved on since that stop")
    table = TypeTable()
    table.add({"types": TYPES})
    with pytest.raises(BadExpression, match="the items of this vector of node 3 are not known: they are in other memory, and the group has moved on"):
        value_of(table[11], struct.pack("<3Q", 0x2000, 0x2008, 0), AT, gone, 3)
    assert value_of(table[11], struct.pack("<3Q", 0x2000, 0x2000, 0), AT, gone, 3) == ()
    assert value_of(table[22], struct.pack("<2Q", AT, AT), AT, gone, 3) == ()
