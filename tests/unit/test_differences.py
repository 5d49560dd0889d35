"""Where two values differ: what `diff` compares in each kind of container. Values from real programs are in
tests/e2e/test_debug_containers.py."""

import random
from types import SimpleNamespace

import pytest
from fake_backend import FakeBackend  # noqa: F401  (makes friday importable)

from friday.containers import Items, Map
from friday.differences import NONE, differences, shown


def container(standard, values):
    base = Map if standard in ("map", "unordered_map") else Items
    return type(base.__name__, (base,), {"type": SimpleNamespace(standard=standard, name=standard)})(values)


@pytest.mark.parametrize("standard, a, b, found", [
    ("vector", [1, 2], [1, 2], []),
    ("vector", [1, 2], [1, 3, 4], [("x[1]", 2, 3), ("x[2]", NONE, 4)]),
    ("map", [(1, "a"), (2, "b")], [(2, "c"), (3, "d")], [("x[1]", "a", NONE), ("x[2]", "b", "c"), ("x[3]", NONE, "d")]),
    ("unordered_map", [(1, "a"), (2, "b")], [(2, "b"), (1, "a")], []),
    ("set", [1, 2, 3], [2, 3, 4], [("x holds 1", "once", NONE), ("x holds 4", NONE, "once")]),
    ("unordered_set", [1, 2, 3], [3, 1, 2], []),
    ("multiset", [1, 1, 2], [1, 2], [("x holds 1", "2 times", "once")]),
    ("multimap", [(1, "a"), (1, "b")], [(1, "a"), (2, "b")], [("x[1]", ["a", "b"], ["a"]), ("x[2]", NONE, ["b"])])])
def test_each_kind_is_compared_in_its_own_way(standard, a, b, found):
    assert list(differences("x", container(standard, a), container(standard, b))) == found


def test_containers_in_containers():
    inner = lambda *values: container("vector", values)  # noqa: E731
    a, b = (container("map", {7: inner(1, *rest)}.items()) for rest in ((2,), (5, 6)))
    assert list(differences("x", a, b)) == [("x[7][1]", 2, 5), ("x[7][2]", NONE, 6)]


@pytest.mark.parametrize("seed", range(5))
def test_a_difference_is_shown_exactly_where_there_is_one(seed):
    dice = random.Random(seed)
    for standard in ("vector", "set", "map"):
        make = lambda: [dice.randint(0, 9) for _ in range(dice.randint(0, 8))]  # noqa: E731
        a, b = make(), make()
        if standard == "map":
            left, right = ({key: dice.randint(0, 2) for key in keys} for keys in (a, b))
            found = {path: (x, y) for path, x, y in differences("x", container("map", left.items()), container("map", right.items()))}
            assert found == {f"x[{key}]": (left.get(key, NONE), right.get(key, NONE)) for key in left.keys() | right.keys() if left.get(key) != right.get(key)}
        elif standard == "set":
            paths = {path for path, _, _ in differences("x", container("set", set(a)), container("set", set(b)))}
            assert paths == {f"x holds {item}" for item in set(a) ^ set(b)}
        else:
            paths = {path for path, _, _ in differences("x", container("vector", a), container("vector", b))}
            assert paths == {f"x[{i}]" for i in range(max(len(a), len(b))) if a[i:i + 1] != b[i:i + 1]}


def test_a_cell_has_bounds():
    assert shown(NONE) == "none" and shown(None) == "None" and len(shown("x" * 100)) == 60
