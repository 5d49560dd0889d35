"""What a copy of the state of handlers has, and what it names as what cannot go back. With recordings: tests/e2e/test_states.py."""
import collections
import types

import pytest
from fake_backend import FakeBackend  # noqa: F401  (makes friday importable)

from friday import states


class Counting:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 0


@pytest.mark.parametrize("view", [
    dict.keys, dict.values, dict.items, types.MappingProxyType, lambda rows: collections.OrderedDict.items(collections.OrderedDict(rows)),
    lambda rows: types.MappingProxyType(collections.ChainMap(rows))])
def test_what_a_view_of_a_dict_shows_goes_back(view):
    inner = [1]
    seen = view({"a": inner})
    own = {"seen": seen}
    copy = states.Snapshot([], own)
    assert copy.uncopied == {}
    inner.append(2)
    copy.restore(own, frozenset())
    assert inner == [1]


@pytest.mark.parametrize("view", [dict.keys, types.MappingProxyType])
def test_a_dict_that_only_a_view_shows_goes_back(view):
    rows = {"a": 1}
    own = {"seen": view(rows)}
    copy = states.Snapshot([], own)
    rows["b"] = 2
    copy.restore(own, frozenset())
    assert list(own["seen"]) == ["a"]


def test_the_attributes_of_a_class_are_not_set_behind_its_back():
    plain = type("Plain", (), {"rows": [1], "total": 0, "__slots__": ()})
    own = {"seen": vars(plain)}
    copy = states.Snapshot([], own)
    plain.total = 1
    plain.rows.append(2)
    copy.restore(own, frozenset())
    assert copy.uncopied == {} and plain.rows == [1] and vars(plain)["total"] == plain.total == 1


def test_what_can_be_looked_into_by_nobody_is_named():
    own = {"rows": iter([1]), "keys": iter({"a": 1}.keys()), "data": memoryview(bytearray(1))}
    assert states.Snapshot([], own).uncopied.keys() == {"rows", "keys"}


def test_types_are_looked_at_once():
    own = {"all": [Counting() for _ in range(100)]}
    states.Snapshot([], own)
    before = states._slots.cache_info().misses, states._has_hidden_contents.cache_info().misses
    copy = states.Snapshot([], own)
    own["all"][7].count = 5
    copy.restore(own, frozenset())
    assert own["all"][7].count == 0
    assert (states._slots.cache_info().misses, states._has_hidden_contents.cache_info().misses) == before
