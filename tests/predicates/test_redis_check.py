"""tests/e2e/servers/redis_cluster_check.py on nodes in memory, whose clusters are as wrong as no real one was caught being."""

import io
import json
import struct

import pytest
from support import ROOT, Event, friday, session_of

import fake_backend  # isort: skip  (support says where it is)

CHECK = ROOT / "tests" / "e2e" / "servers" / "redis_cluster_check.py"
CLUSTER = "((struct redisServer*)&server)->cluster"
SLOTS = 16384
OWNERS = {"kind": "array", "name": "clusterNode *[16384]", "size": 8 * SLOTS, "element": "6", "count": SLOTS}
ADDRESSES = {name: 0x1000 * number for number, name in enumerate("abc", 1)}  # of the clusterNode of each


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """checked([(node, primary, epoch, {owner: slots}), ...]): the violations when nodes save these configurations."""
    monkeypatch.setitem(fake_backend.TYPES, "20", OWNERS)
    monkeypatch.setitem(fake_backend.NAMES, OWNERS["name"], "20")

    def check(saved):
        session = session_of([], start={f"{CLUSTER}->slots[0]": 0, **{f"((struct clusterNode*){at:#x})->name": name for name, at in ADDRESSES.items()}})
        session.backend.events = [Event(node, "clusterSaveConfig", {
            f"{CLUSTER}->slots": session.backend.raw(b"".join(struct.pack("<Q", ADDRESSES[owner]) * len(slots) for owner, slots in owners.items()), OWNERS["name"]),
            f"{CLUSTER}->myself->name": "abc"[node], f"{CLUSTER}->myself->configEpoch": epoch, f"{CLUSTER}->myself->flags & 1": int(primary)})
            for node, primary, epoch, owners in saved]
        report = tmp_path / "report.json"
        friday.run_script(str(CHECK), session, ["--slots", "0", "--lasting", "0.5"], json_path=str(report), out=io.StringIO())
        return [(violation["predicate"], violation["message"]) for violation in json.loads(report.read_text())["violations"]]
    return check


def halves(first, second):
    return {first: range(SLOTS // 2), second: range(SLOTS // 2)}


def test_one_primary_a_shard_and_epoch(checked):
    assert checked([(0, True, 1, halves("a", "b")), (1, True, 2, halves("a", "b")), (2, False, 2, halves("a", "b"))]) == []


def test_a_primary_that_takes_over_has_an_epoch_of_its_own(checked):
    found = checked([(0, True, 1, halves("a", "b")), (1, True, 2, halves("a", "b")), (2, True, 3, halves("c", "b"))])
    assert [predicate for predicate, _ in found if predicate == "one_primary"] == []


def test_two_primaries_of_a_shard_in_one_epoch(checked):
    found = checked([(0, True, 1, halves("a", "b")), (1, True, 2, halves("a", "b")), (2, True, 1, halves("c", "b"))])
    assert [message for predicate, message in found if predicate == "one_primary"] == [
        "c leads in term ('0-8191', 1), and a has led in it since 1.0 s, event 0 of a"]


def test_owners_that_nodes_disagree_about(checked):
    saved = [(0, True, 1, halves("a", "b")), (1, True, 2, halves("a", "b")), (2, True, 3, halves("c", "b")), (1, True, 2, halves("a", "b"))]
    assert checked(saved) == [("slot_owners", "nodes disagree about slots 0-8191, for 1.000 s, longer than 0.5 s")]
