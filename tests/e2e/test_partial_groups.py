"""A group of which only some nodes are replayed."""

import json
import re


def test_who_shares_memory_with_a_chosen_node_is_replayed_too(recorder, build):
    """Node 5 is forked from node 0, and reads what nodes 1 to 4 have stored."""
    shared = recorder.record([build / "targets" / "shared_watch", recorder.directory / "file"], name="it")
    done = recorder.verify(shared, "--node", "5", "--json")
    assert [node["id"] for node in json.loads(done.stdout)["nodes"]] == list(range(6))
    said = re.findall(r"node (\d) \(\S+\) is replayed too: it shares memory with node \d \(\S+\)", done.stderr)
    assert sorted(said) == ["1", "2", "3", "4"], done.stderr
    assert "is replayed too" not in recorder.verify(shared).stderr
