"""Bytes that find their sender although no buffer of the program held them, or although several threads and processes moved them at once."""
import pytest


def all_matched(recorder, recording, nodes):
    """Every message inside the group has found its other side; returns how many. The parent's last line goes to the test."""
    info = recorder.info(recording)
    assert len(info["nodes"]) == nodes
    keys = ("sent_unmatched", "received_unmatched", "sent_unplaced", "received_unplaced")
    lost = {node["name"]: [node["messages"][key] for key in keys] for node in info["nodes"]}
    assert lost == {name: [1 if name == "it" else 0, 0, 0, 0] for name in lost}
    assert info["contradictions"] == 0
    return sum(pair["messages"] for pair in info["messages"])


@pytest.mark.parametrize("way", ["write", "sendfile", "splice", "tee", "vmsplice", "receive", "aio", "aio-receive"])
def test_a_body_that_the_kernel_carries(way, recorder, targets, tmp_path):
    recording = recorder.record([targets / "carriers", way], name="it", cwd=tmp_path)
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n"), recording
    rounds, carried = 5, {pair["from"]: pair["bytes"] for pair in recorder.info(recording)["messages"]}
    assert carried == {0: rounds, 1: rounds * (9 + 3000)}
    info = recorder.info(recording)
    # The pipe through which a process passes bytes to itself is never read to its end with tee.
    assert [node["messages"]["received_unmatched"] for node in info["nodes"]] == [0, 0]
    if way != "tee":
        all_matched(recorder, recording, 2)
    recorder.verify(recording, "--sync", "causal")


@pytest.mark.parametrize("how, nodes, least", [("lines", 2, 4000), ("wake", 1, 0), ("pipe", 5, 1200), ("socket", 5, 1200)])
def test_many_at_one_stream(how, nodes, least, recorder, targets, tmp_path):
    """Threads that write one pipe without a lock, children that read one end: each message is found, and the order holds."""
    recording = recorder.record([targets / "crowded", how], name="it", cwd=tmp_path)
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n"), recording
    assert all_matched(recorder, recording, nodes) >= least
    recorder.verify(recording, "--sync", "causal")
