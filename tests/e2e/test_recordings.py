"""friday.Recording: a recording as data, held beside what `friday dump`, `friday info` and a replay of it say."""

import json
import os
import random
import shutil

import pytest
from debug_support import friday, opened, ring, run_to_end  # noqa: F401


@pytest.fixture(scope="module")
def data(ring):
    return friday.Recording(ring.path)


def test_nodes_are_those_of_info(data, ring, recorder):
    told = {node["id"]: node for node in recorder.info(ring.path)["nodes"]}
    assert [int(node) for node in data.nodes] == sorted(told)
    for node in data.nodes:
        about = told[node]
        assert (node.name, node.program, list(node.argv), node.host, node.pid, node.event_count, node.ended) == (
            about["name"], about["program"], about["argv"], about["host"], about["pid"], about["events"], about["ended"])
        assert data[node.name] is node and data[int(node)] is node
    assert data.event_count == sum(node.event_count for node in data.nodes)


def test_events_are_those_of_dump(data, ring, recorder):
    node = data.nodes[1]
    dumped = [json.loads(line) for line in recorder.run([recorder.friday, "dump", "--node", str(int(node)), "--json", ring.path]).stdout.splitlines()]
    events = list(data.events(node))
    assert [event.to_json() for event in events] == dumped and len(events) == node.event_count
    assert all(each["mark"] == f"{int(node)}#{each['event']}" for each in dumped)
    assert [(e.index, e.thread, e.call, e.arguments, e.result) for e in events] == [
        (d["event"], d["thread"], d.get("call"), tuple(d["arguments"]), d["result"]) for d in dumped]
    assert [len(e.transfers) for e in events] == [sum("channel" in part for part in d["parts"]) for d in dumped]
    assert [float(e.time) for e in events] == pytest.approx([d["seconds"] for d in dumped])
    some = random.Random(7).sample(events, 20)
    assert [str(data.event(node, e.index)) for e in some] == [str(e) for e in some], "in any order"


def test_dump_without_a_node_takes_the_only_one_or_names_them(data, ring, recorder):
    done = recorder.run([recorder.friday, "dump", ring.path])
    assert done.returncode == 2 and f"has {len(data.nodes)} nodes: say with --node which of them (--node '*': all): 0 {data.nodes[0].name}, 1 " in done.stderr
    alone = recorder.record(["/bin/true"])
    assert recorder.run([recorder.friday, "dump", alone.path]).stdout == recorder.run([recorder.friday, "dump", "--node", "0", alone.path]).stdout != ""


def test_a_node_that_was_removed_is_missed(ring, recorder, tmp_path):
    """Its messages come from nobody then, as if it had never been recorded."""
    copy, gone = tmp_path / "copy", len(recorder.info(ring.path)["nodes"]) - 1
    shutil.copytree(ring.path, copy)
    assert "missing_nodes" not in recorder.info(copy)
    name = recorder.info(copy)["nodes"][gone]["name"]
    shutil.rmtree(copy / "nodes" / str(gone))
    shutil.rmtree(copy / "cache", ignore_errors=True)
    text = f"node {gone} ({name}) was recorded, but is not here any more: removed, or not copied"
    assert recorder.info(copy)["missing_nodes"]["nodes"] == [{"id": gone, "name": name}]
    assert text in recorder.run([recorder.friday, "info", copy]).stdout
    done = recorder.run([recorder.friday, "verify", copy])
    assert done.returncode == 0 and f"friday verify: {text}" in done.stderr
    assert text not in recorder.run([recorder.friday, "verify", copy, "--node", "0"]).stderr
    shutil.rmtree(copy / "roll")  # a recording of an earlier version
    assert "missing_nodes" not in recorder.info(copy)


def test_events_are_chosen_by_place_and_call(data):
    node = data.nodes[0]
    sends = list(data.events(node, call="sendto"))
    assert sends and {e.call for e in sends} == {"sendto"} and sends == sorted(sends, key=lambda e: e.index)
    assert [e.index for e in data.events(node, first=3, last=5)] == [3, 4, 5]
    assert list(data.events(node, first=node.event_count)) == []
    received = next(e for n in data.nodes for e in data.events(n, call="recvfrom") if e.result > 0)
    (moved,) = received.transfers
    assert (moved.direction, moved.bytes) == ("in", received.result) and received.error is None
    assert moved.peer is None and sends[0].transfers[0].peer.startswith("127.0.0.1:"), "who receives did not ask who sent"
    sender = next(m for m in data.messages() if m.target == received.node and m.target_event == received.index)
    assert received.memory == ((received.arguments[1], received.memory[0][1]),) and len(received.memory[0][1]) == sender.bytes
    assert moved.payload == received.memory[0][1] and moved.missing is None
    assert sends[0].transfers[0].payload is None and sends[0].transfers[0].missing == "only its hash was kept"
    assert "payload" not in repr(moved) and moved == received.transfers[0]
    channel, = (c for c in data.channels(received.node) if c.number == moved.channel)
    assert channel.kind == "datagram" and channel.local.startswith("127.0.0.1:")


def test_a_failed_call_has_its_error(data):
    failed = [e for node in data.nodes for e in data.events(node) if e.error]
    assert failed and all(-4095 <= e.result < 0 and f" = -1 {e.error}" in str(e) for e in failed)


def test_messages_times_and_edges_are_those_of_a_session(data, ring, opened):
    session = opened(ring)
    assert [m.to_json() for m in data.messages()] == [m.to_json() for m in session.messages()]
    assert [m.number for m in data.messages(src="n1", dst=2)] == [m.number for m in session.messages(src="n1", dst=2)]
    assert all(m.is_sent == (m.source is not None) for m in data.messages())
    node = session.nodes["n2"]
    for index in random.Random(3).sample(range(data["n2"].event_count), 8):
        session.restart()
        session.goto(index, node=node)
        assert str(session.logical_time) == str(data.time("n2", index))
    between = [(m.source, m.source_event, m.target, m.target_event) for m in data.messages() if m.source is not None and m.target is not None]
    edges = {(e.source, e.source_event, e.target, e.target_event) for e in data.edges() if e.kind == "datagram"}
    assert between and set(between) == edges


def test_contents_are_what_the_receivers_got_and_what_the_senders_had(data, ring, opened):
    received = {}
    for message in data.messages():
        if message.target is not None and message.missing is None:
            received.setdefault((message.target, message.target_event), []).append(message.data)
    assert received
    for (node, event), parts in received.items():
        assert b"".join(parts) == b"".join(moved.payload for moved in data.event(node, event).transfers), (node, event)
    session = opened(ring)
    sent = [message for message in session.messages() if message.source is not None and message.is_sent is False]
    assert all(message.data is not None for message in sent if message.target is not None)
    for message in random.Random(5).sample([message for message in sent if message.target is not None], 6):
        session.goto(message.source_event, node=message.source)
        assert data.event(message.source, message.source_event).call == "sendto"
        address, size = data.event(message.source, message.source_event).arguments[1:3]
        assert (size, message.data) == (message.bytes, session.backend.read_memory(message.source, address, size))


def test_who_is_not_replayed_has_received_nothing_that_is_kept(ring):
    part = friday.Recording(ring.path, nodes="n1")
    lost = [message for message in part.messages() if message.target is None]
    assert lost and all(message.data is None and "no replayed node receives it" in message.missing for message in lost)
    assert all(len(message.data) == message.bytes for message in part.messages() if message.target is not None)


@pytest.mark.parametrize("how", ["lines", "pipe", "socket"])
def test_contents_of_messages_in_streams_that_many_share(how, recorder, targets, tmp_path):
    """Parts of streams: the bytes of each receive are those of its messages one after the other."""
    recording = recorder.record([targets / "crowded", how], name="it", cwd=tmp_path)
    data = friday.Recording(recording.path)
    received = {}
    for message in data.messages():
        if message.target is not None:
            assert message.missing is None and len(message.data) == message.bytes, message
            received.setdefault((message.target, message.target_event), []).append(message.data)
    assert len(received) > 100
    for (node, event), parts in received.items():
        assert b"".join(parts) == b"".join(moved.payload for moved in data.event(node, event).transfers if moved.direction == "in"), (node, event)


def test_the_order_keeps_what_happened_before(data):
    place = {(int(node), index): at for at, (node, index) in enumerate(data.order())}
    assert len(place) == data.event_count
    for node in data.nodes:
        assert all(place[int(node), i] < place[int(node), i + 1] for i in range(node.event_count - 1))
    assert data.edges()
    for edge in data.edges():
        assert place[int(edge.source), edge.source_event] < place[int(edge.target), edge.target_event], edge
    node, index = data.nodes[1], data.nodes[1].event_count // 2
    assert data.position(node, index) == place[int(node), index]
    times = [data.time(int(n), i) for n, i in sorted(place, key=place.get)]
    assert times == sorted(times) and data.duration == float(times[-1]) - float(times[0])
    assert data.real_time(node, index) == pytest.approx(data.real_time(node, 0) + float(data.time(node, index)) - float(data.time(node, 0)), abs=0.05)


def test_nothing_is_started_or_left_open(ring):
    def own(what):
        return sorted(os.listdir(f"/proc/self/{what}"))

    before = own("fd"), own("task")
    data = friday.Recording(ring.path)
    list(data.events(0, last=10))
    children = [task for task in own("task") if open(f"/proc/self/task/{task}/children").read()]
    del data
    assert (own("fd"), own("task")) == before and not children


def test_a_part_of_the_nodes(ring):
    part = friday.Recording(ring.path, nodes="n1,n2")
    assert [node.name for node in part.nodes] == ["n1", "n2"]
    assert any(m.source is None for m in part.messages()), "who is left out is nobody"
    assert list(part.events("n1")) and part.event_count == sum(node.event_count for node in part.nodes)
    with pytest.raises(friday.NoNode):
        part["n3"]


def test_wrong_questions_teach(data, tmp_path):
    with pytest.raises(friday.NoNode, match="the nearest is `n[0-9]`"):
        data["m1"]
    with pytest.raises(friday.NoNode, match="has no node 99"):
        data.events(99)
    with pytest.raises(friday.UsageError, match="it has"):
        data.event("n1", data["n1"].event_count)
    with pytest.raises(friday.UsageError, match="an integer of at least 0, not -1"):
        data.event("n1", -1)
    with pytest.raises(friday.BadRecording):
        friday.Recording(tmp_path)
    with pytest.raises(friday.NoNode):
        friday.Recording(data.path, nodes="nobody")
