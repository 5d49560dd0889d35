"""Expressions and collections: what a predicate's names may be mapped to."""

import struct

import pytest
from support import friday, session_of

from predicates.names import field, fields, items, read, read_row, watched


@pytest.fixture
def node():
    session = session_of([])
    backend = session.backend
    backend.let(0, {"x": 7, "n": 2, "far": 9, "list": [1, 2, 3]})
    struct = lambda id, next: backend.raw(id.to_bytes(8, "little") + next.to_bytes(8, "little"), "struct Node")  # noqa: E731
    backend.let(0, {"head": backend.raw(0x100, "struct Node *"), "*head": struct(5, 0x200), "*head->next": struct(6, 0)})
    backend.let(0, {"nothing": backend.raw(0, "struct Node *"), "ring": backend.raw(0x100, "struct Node *")})
    return session.nodes[0]


def test_texts_and_functions(node):
    assert read(node, "x") == 7 and read(node, lambda n: n.read("x") + n.id) == 7
    assert read_row(node, {"a": "x", "b": "n"}) == {"a": 7, "b": 2}


def test_a_null_pointer_on_the_way_is_none(node):
    def null(_):
        raise friday.BadAddress("cannot read 0x8", address=8)
    assert read(node, null) is None
    with pytest.raises(friday.NoSymbol):
        read(node, "no_such_thing")


def test_arrays_and_their_first_elements(node):
    assert list(items("list")(node)) == [1, 2, 3] and list(items("list[:n]")(node)) == [1, 2]
    with pytest.raises(friday.UsageError, match="`far` is 9 on a, but `list` has 3 elements"):
        items("list[:far]")(node)
    with pytest.raises(friday.UsageError, match="`x` is 7, not an array"):
        items("x")(node)


def test_linked_lists(node):
    assert [element.id for element in items("head..next")(node)] == [5, 6]
    assert items("nothing..next")(node) == []


def test_functions_give_anything(node):
    assert list(items(lambda n: range(3))(node)) == [0, 1, 2] == items(lambda n: iter(range(3)))(node) and items(lambda n: None)(node) == []


def test_fields_by_path():
    class Inner:
        id = 4
    class Outer:
        node, up = Inner(), True
    assert field(Outer, "node.id") == 4 and field(Outer, "") is Outer and fields(Outer, "node.id, up") == (4, True)
    assert field({"a": {"b": 1}}, "a.b") == 1 and fields(7, "") == 7


def test_fields_that_are_called_as_what_a_snapshot_knows_of_itself(node):
    backend = node.session.backend
    backend.let(0, {"entry": backend.raw(struct.pack("<4i", 1, 2, 3, 4), "struct Entry", address=0x500)})
    entry = node.read("entry")
    assert fields(entry, "type, address, bytes, term") == (1, 2, 3, 4)
    assert (entry.type.name, entry.address, len(entry.bytes)) == ("struct Entry", 0x500, 16) and entry["type"] == 1
    with pytest.raises(friday.UsageError, match="`length` cannot be read: struct Entry has no field `length`; it has: type, address, bytes, term"):
        field(entry, "length")
    with pytest.raises(friday.UsageError, match="`term.type` cannot be read: a value of type int has no fields"):
        field(entry, "term.type")


def test_what_is_watched():
    assert watched(["a", None, "b[:n]", "a"]) == ["a", "b", "n"]
    for alien, what in ((lambda n: 1, "a function"), ("head..next", "the list `head..next`")):
        with pytest.raises(friday.UsageError, match=f"{what} does not say which memory to watch: give watch= with expressions, or at="):
            watched([alien])
