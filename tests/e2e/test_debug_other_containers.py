"""Containers and smart pointers of Boost and Abseil: as values, and their elements in expressions, which no gdb has to evaluate."""

import subprocess

import pytest
from conftest import ROOT
from debug_support import break_at, friday, opened, record_once  # noqa: F401

SOURCE = ROOT / "tests" / "targets" / "other_containers.cc"
LIBRARIES = [f"-labsl_{name}" for name in ("raw_hash_set", "hash", "city", "low_level_hash", "hashtablez_sampler", "throw_delegate")]
pytestmark = [pytest.mark.full, pytest.mark.limit(120)]


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def recorded(request, tmp_path_factory):
    return record_once(f"other_containers{request.param}", lambda recorder: compiled(recorder, request.param), tmp_path_factory)


def compiled(recorder, level):
    program = recorder.directory / "other_containers"
    made = subprocess.run(["g++", "-std=c++17", "-g", level, "-o", program, SOURCE, *LIBRARIES], capture_output=True, text=True, timeout=120)
    if made.returncode and "No such file" in made.stderr:
        pytest.skip(f"machine: there is no Boost or no Abseil: {made.stderr.splitlines()[0]}")
    assert made.returncode == 0, made.stderr
    return recorder.record([program])


@pytest.fixture
def session(recorded, opened):  # noqa: F811
    found = opened(recorded)
    break_at(found, "ready")
    return found


def entries(*pairs):
    return tuple({"term": term, "kind": kind} for term, kind in pairs)


VALUES = {
    "none": (), "small_in": (1, 2, 3), "small_out": (1, 2, 3, 4, 5, 6), "flat": {1: "one", 2: "two"}, "flat_set": (3, 4, 5), "nothing": None,
    "inlined_none": (), "array": (1, 2, 3, 4), "ages": {i: str(i * i) for i in range(100)}, "words": {word: ord(word[0]) for word in ("alpha", "beta", "gamma")},
    "no_set": (),
}
ENTRIES = {"entries": entries((1, 10), (2, 20), (3, 30)), "fixed": entries((7, 70), (8, 80)), "inlined_in": entries((21, 1), (22, 2)),
           "inlined_out": entries((21, 1), (22, 2), (23, 3), (24, 4))}


def test_each_is_a_value(session):
    node = session.node
    assert {name: node.read(f"all.{name}") for name in VALUES} == VALUES
    assert {name: tuple(dict(item) for item in node.read(f"all.{name}")) for name in ENTRIES} == ENTRIES
    assert set(node.read("all.odd")) == {i for i in range(1, 60, 2)} - set(range(10, 50))
    assert {key: dict(entry) for key, entry in node.read("all.nodes").items()} == {4: {"term": 41, "kind": 42}}
    assert dict(node.read("all.some")) == {"term": 9, "kind": 90}
    assert int(node.read("all.shared")) == int(node.read("all.shared.px")) != 0
    whole = node.read("all")
    assert whole.words == VALUES["words"] and whole.small_out == VALUES["small_out"], "inside a struct too"


@pytest.mark.parametrize("name", ["entries", "small_in", "small_out", "fixed", "inlined_in", "inlined_out", "inlined_none", "array"])
def test_a_view_has_the_items_of_the_value(name, session):
    whole, view = session.node.read(f"all.{name}"), session.node.view(f"all.{name}")
    assert len(view) == len(whole) and list(view) == list(whole) and tuple(view[1:3]) == tuple(whole[1:3])


ELEMENTS = {
    "entries[1].term": 2, "entries.size()": 3, "entries.back().term": 3, "entries.front().kind": 10, "none.size()": 0, "none.empty()": True,
    "small_in[2]": 3, "small_out[5]": 6, "small_out.size()": 6, "fixed[1].kind": 80, "fixed.size()": 2, "fixed.back().term": 8,
    "some->term": 9, "some.get().term": 9, "nothing.is_initialized()": False, "some.has_value()": True, "shared->term": 11, "scoped->term": 12, "counted->value": 13,
    "inlined_in[1].term": 22, "inlined_out[3].term": 24, "inlined_in.size()": 2, "inlined_out.size()": 4, "inlined_none.empty()": True, "inlined_out.back().kind": 4,
    "array[2]": 3, "array.size()": 4, "ages.size()": 100, "odd.size()": 10, "no_set.empty()": True, "words.size()": 3, "nodes.size()": 1, "flat.size()": 2, "flat_set.empty()": False,
}


def test_elements_are_read_without_gdb(session):
    assert {text: session.node.read(f"all.{text}") for text in ELEMENTS} == ELEMENTS
    by_gdb = [cost.expression for cost in session.costs if cost.by != "plan" and cost.expression.removeprefix("all.") in ELEMENTS]
    assert not by_gdb, by_gdb


@pytest.mark.parametrize("text, says", [("entries[3].term", "3"), ("inlined_in[2].term", "2"), ("fixed[2].term", "2"), ("none.front()", "empty"), ("nothing->term", "")])
def test_what_is_not_there_is_refused(text, says, session):
    with pytest.raises(friday.Error) as refused:
        session.node.read(f"all.{text}")
    assert says in str(refused.value), refused.value
