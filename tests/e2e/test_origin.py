"""`origin`: values whose way is known are followed back to where they were planted, through nodes, copies, messages and parts of messages."""
import json
import re
import subprocess

import pytest
from console_support import PROMPT, Terminal
from debug_support import BUILD, break_at, friday, opened, recorded_target, ring  # noqa: F401

pytestmark = pytest.mark.limit(240)

planted_o0 = recorded_target("planted_o0")
planted_o2 = recorded_target("planted_o2")
texts_o0 = recorded_target("copied_texts_o0")
texts_o2 = recorded_target("copied_texts_o2")
debug_session = recorded_target("debug_session_O0")

SINK, SOURCE, RELAY = 0, 1, 2
BY_MESSAGES = ["received", "sent", "received", "sent"]  # how the value has come from the source through the relay


def arrived(program):
    """A fixture: a session on a recording of the program, unoptimised and optimised, where it calls arrived()."""
    @pytest.fixture(params=[pytest.param(f"{program}_o0", marks=pytest.mark.full), f"{program}_o2"])
    def session_there(request, opened):
        session = opened(request.getfixturevalue(request.param))
        session.set_checkpoints(True)
        break_at(session, "arrived")
        return session
    return session_there


planted, texts = arrived("planted"), arrived("texts")


def place(session):
    return [(int(node), session.backend.event(int(node)), session.backend.state_hash(int(node))) for node in session.all_nodes]


def messages(hops):
    return [hop.how for hop in hops if hop.how in ("received", "sent")]


@pytest.mark.parametrize("expression,function", [
    ("by_copies", "plant_value"), ("by_struct", "plant_value"), ("by_network_order", "plant_network_order"), ("by_half", "plant_port"),
    ("record.inner.value", "plant_value"), ("record.text[5]", "plant_text"), ("record.text", "plant_text"), ("by_string", "plant_text"),
    ("*by_string._M_dataplus._M_p@30", "plant_text")])
def test_a_value_that_came_in_messages_is_followed_to_where_it_was_computed(planted, expression, function):
    before = place(planted)
    hops = planted.origin(expression, node=SINK)
    assert place(planted) == before
    last = hops[-1]
    assert last.how == "computed" and int(last.node) == SOURCE and function in last.place, hops
    assert last.inputs and messages(hops) == BY_MESSAGES
    nodes = [int(hop.node) for hop in hops]
    assert nodes == sorted(nodes, key=[SINK, RELAY, SOURCE].index) and set(nodes) == {SINK, SOURCE, RELAY}


def test_the_value_stays_the_same_on_its_way(planted):
    planted_value = planted.nodes[SINK].read("by_half").to_bytes(8, "little")
    assert all(planted_value.startswith(hop.value) for hop in planted.origin("by_half", node=SINK))
    order = planted.nodes[SINK].read("by_network_order").to_bytes(4, "little")
    hops = planted.origin("by_network_order", node=SINK)
    assert hops[0].value == order and hops[-1].value in order  # the last one holds a part of it, in the order of the sink
    assert any(hop.value in order[::-1] and hop.value not in order for hop in hops), "it was sent in the order of the network"


def test_a_hop_is_a_place_where_the_value_is(planted):
    """Before the writing instruction the old value is there, behind it the new one."""
    expression = "by_struct"
    hop = planted.origin(expression, node=SINK)[0]
    planted.goto(hop.mark)
    assert planted.mark() == hop.mark
    assert planted.nodes[SINK].read(expression) == 0
    planted.step(SINK, "stepi")
    assert planted.nodes[SINK].read(expression).to_bytes(8, "little") == hop.value


@pytest.mark.parametrize("copy, source", [("by_memcpy", "from"), *(pytest.param(*way, marks=pytest.mark.full) for way in (
    ("by_strcpy", "from"), ("by_snprintf", "from"), ("by_struct.text", "block.text"), ("by_string", "string._M_dataplus._M_p")))])
def test_a_copy_by_several_moves_is_followed_as_a_whole(texts, copy, source):
    """The C library copies a text by moves that may overlap; all together have one piece of memory as their source."""
    sources = []
    for k in range(23 if copy == "by_snprintf" else 24):  # of a long one it makes two copies
        address = int(texts.node.read(f"(long)&{'*' * ('_M_p' in source)}pairs[{k}].{source}"))
        hop, = texts.origin(f"pairs[{k}].{copy}", most=1)
        assert hop.how == "copied" and hop.value == texts.backend.read_string(0, address), (k, hop)
        if " from 0x" in hop.text:  # by several moves; of one move the next hop has the address
            assert hop.text == f"copied from {address:#x}", (k, hop)
            sources.append(k)
    assert len(sources) > 8 or copy == "by_struct.text", sources
    hops = texts.origin(f"pairs[6].{copy}")
    assert hops[-1].how == "computed" and "plant" in hops[-1].place, hops


@pytest.fixture
def in_parts(recorder, tmp_path, opened):
    """Numbers whose bytes come from different writes."""
    source = tmp_path / "in_parts.c"
    source.write_text("""#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
volatile unsigned seed = 5;
volatile int by_stores;
unsigned long by_messages;
__attribute__((noinline)) unsigned char plant(void) { return (unsigned char)(seed * 20 + 1); }
__attribute__((noinline)) unsigned plant_upper(void) { return seed * 3; }
__attribute__((noinline)) void arrived(void) { __asm__ volatile(""); }
int main(void) {
  volatile unsigned char *bytes = (volatile unsigned char *)&by_stores;
  by_stores = 0x01000000;
  bytes[0] = plant();
  bytes[3] = 0;
  int ends[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  unsigned parts[2] = {0, plant_upper()};
  if (fork() == 0) {
    write(ends[0], parts, 4);
    write(ends[0], parts + 1, 4);
    _exit(0);
  }
  wait(0);
  read(ends[1], &by_messages, 8);
  arrived();
}
""")
    subprocess.run(["gcc", "-g", "-O1", "-w", "-o", tmp_path / "in_parts", source], check=True)
    session = opened(recorder.record([tmp_path / "in_parts"], name="in_parts", cwd=tmp_path))
    session.set_checkpoints(True)
    break_at(session, "arrived")
    return session


def test_of_a_number_the_bytes_that_are_not_zero_are_followed_and_the_others_can_be(in_parts):
    before = place(in_parts)
    hops = in_parts.origin("by_stores")
    assert "plant" in hops[-1].place and hops[0].text.startswith("byte 0 of 4: "), hops
    last, rest = hops[0].inputs  # in the order in which going back has met them
    assert (last.name, last.value, last.is_part, last.written) == ("byte 3 of 4", b"\0", True, True)
    assert (rest.name, rest.value, rest.is_part, rest.written) == ("bytes 1 to 2 of 4", b"\0\0", True, False)
    (latest,) = in_parts.origin((hops[0], last))
    assert latest.how == "constant" and "movb" in latest.text, "the store of 0, not the one of 0x01000000 before it"
    (earliest,) = in_parts.origin((hops[0], rest))
    assert earliest.how == "constant" and "0x1000000" in earliest.text and place(in_parts) == before


def test_of_a_number_that_came_by_two_sends_the_part_that_is_not_zero_is_followed(in_parts):
    hops = in_parts.origin("by_messages")
    received = next(hop for hop in hops if hop.how == "received")
    assert "plant_upper" in hops[-1].place and received.text.startswith("bytes 4 to 7 of 8: "), hops
    (lower,) = received.inputs
    assert lower.name == "bytes 0 to 3 of 8" and [hop.how for hop in in_parts.origin((received, lower))][:2] == ["received", "sent"]


def test_memory_that_was_given_back(planted):
    """What the program has left there is followed as before; what the allocator keeps there is its own; what is not mapped any more is said."""
    before = place(planted)
    assert "plant_value" in planted.origin("freed[4]", node=SINK)[-1].place
    hops = planted.origin("freed[1]", node=SINK)
    assert hops and messages(hops) == [], hops
    with pytest.raises(friday.BadAddress, match="cannot read 8 bytes"):
        planted.origin("unmapped[4]", node=SINK)
    assert place(planted) == before


def test_a_text_of_two_parts_is_not_taken_for_one_copy(texts):
    text = texts.backend.read_string(0, int(texts.node.read("(long)&joined")))
    hop, = texts.origin("joined", most=1)
    assert len(text) == 76 and hop.value == text[16:] and hop.text.startswith("bytes 16 to 75 of 76: copied from 0x"), hop


def test_a_value_from_before_the_fork_is_followed_into_the_parent(planted):
    hops = planted.origin("by_inheritance", node=SINK)
    assert [hop.how for hop in hops if hop.how not in ("copied",)] == ["received", "sent", "forked", "computed"]
    assert [int(hop.node) for hop in hops if hop.how in ("sent", "forked")] == [SOURCE, SINK]
    assert "plant_inherited" in hops[-1].place


def test_a_value_in_shared_memory_is_followed_to_the_node_that_wrote_it(planted):
    hops = planted.origin("by_sharing", node=SINK)
    assert int(hops[0].node) == SINK and int(hops[-1].node) == SOURCE
    assert "plant_shared" in hops[-1].place and messages(hops) == []


def test_a_value_in_a_file_is_followed_to_who_wrote_it(planted):
    """By its contents, or by the place in the file that both calls name; not where two writes are the same."""
    for expression in ("by_record_file", "by_placed_file"):
        hops = planted.origin(expression, node=SINK)
        assert messages(hops) == ["received", "sent"] and "plant_in_file" in hops[-1].place, hops
        received, sent = (hop for hop in hops if hop.how in ("received", "sent"))
        assert "from a file that node 1" in received.text and int(sent.node) == SOURCE and "byte 8 of what it writes" in sent.text
    twins = planted.origin("by_twin_file", node=SINK)
    assert twins[-1].how == "outside" and "more than one place in the 2 writes to it agrees" in twins[-1].text


def test_a_value_in_a_pipe_of_the_nodes_own(planted):
    hops = planted.origin("by_own_pipe", node=SINK)
    assert messages(hops) == ["received", "sent"] and "plant_in_pipe" in hops[-1].place and {int(hop.node) for hop in hops} == {SINK}, hops
    assert "byte 8 of what it writes" in next(hop.text for hop in hops if hop.how == "sent")
    received = next(hop for hop in hops if hop.how == "received")
    (upper,) = received.inputs  # its second half, which is zero, came by itself
    hops = planted.origin((received, upper))
    assert (upper.name, upper.value, upper.written) == ("bytes 4 to 7 of 8", bytes(4), True)
    assert "byte 12 of what it writes" in next(hop.text for hop in hops if hop.how == "sent")


def test_what_has_no_way_back_says_why(planted):
    constant, = planted.origin("constant_value", node=SINK)
    assert constant.how == "constant" and "1267" in constant.text
    outside, = planted.origin("by_file", node=SINK)
    assert outside.how == "outside" and "pread64" in outside.text and "file" in outside.text
    begin = planted.origin("*(char*)environ[0]", node=SINK)[-1]
    assert begin.how == "begin" and "environment" in begin.text


def test_what_was_computed_with_is_followed_in_turn(planted):
    hops = planted.origin("by_text", node=SINK)
    last = hops[-1]
    assert last.how == "computed" and "strto" in last.place
    total = sum(int.from_bytes(each.value, "little") for each in last.inputs)
    assert total == planted.nodes[SINK].read("by_text")
    before = place(planted)
    for each in last.inputs:
        further = planted.origin((last, each))
        assert further and further[0].how in ("copied", "computed") and place(planted) == before


@pytest.mark.parametrize("expression", ["by_bits.kind", "(&by_bits)->kind", "( record . bits.kind )"])
def test_a_bit_field_is_not_its_neighbours(planted, expression):
    """Stores that change others in the same bytes are passed over."""
    kind = planted.nodes[SINK].read("by_bits.kind")
    hops = planted.origin(expression, node=SINK)
    assert hops[0].text.startswith("bits 3 to 7 of 8: ") and int.from_bytes(hops[0].value, "little") == kind << 3
    last = hops[-1]
    assert int(last.node) == SOURCE and last.how == "computed" and messages(hops) == BY_MESSAGES, hops
    planted.goto(hops[0].mark)  # there it still has its old value, which it gets by one instruction
    if expression == "by_bits.kind":
        assert planted.nodes[SINK].read("by_bits.kind") == 0 != kind


def test_a_bit_field_that_nothing_has_changed(planted):
    hops = planted.origin("from_start.kind", node=SINK)
    assert [hop.how for hop in hops] == ["begin"] and int.from_bytes(hops[0].value, "little") == 21 << 3


def test_values_are_shown_by_their_type(debug_session, opened):
    session = opened(debug_session)
    session.set_checkpoints(True)
    session.breakpoint("all_started", temporary=True)
    session.run()
    assert [hop.shown for hop in session.origin("ratio")] == ["1.5", "1.5"]
    assert [hop.shown for hop in session.origin("last.name")] == ['"last"']
    assert [hop.shown for hop in session.origin("last.name[0]")] == ["108 'l'"]
    pointer = session.origin("middle.next")
    assert pointer[0].shown == hex(session.read(0, "middle.next"))


def test_a_register_and_what_is_no_place(planted):
    assert planted.origin("$rbp", node=SINK)
    assert [len(planted.origin(name, node=SINK)[0].value) for name in ("$r12d", "$sp", "$ymm1")] == [4, 2, 32]
    for wrong in ("9", "by_copies + 1", "$rip"):
        with pytest.raises(friday.UsageError, match="no place in memory"):
            planted.origin(wrong, node=SINK)
    with pytest.raises(friday.errors.BadAddress):
        planted.origin("*(long*)8", node=SINK)
    for wrong, taught in (("no_such_name", "No symbol"), ("by_copis", "the nearest is `by_copies`"), ("by_bits.knd", "the nearest is `kind`")):
        with pytest.raises(friday.errors.NoSymbol, match=taught):
            planted.origin(wrong, node=SINK)


def test_an_altered_group_has_no_past(planted):
    planted.backend.write(SINK, "by_copies", "3")
    with pytest.raises(friday.errors.Unsupported, match="altered"):
        planted.origin("by_copies", node=SINK)


def test_only_in_the_order_clock(planted_o0, opened):
    session = opened(planted_o0, sync="causal")
    session.breakpoint("arrived")
    session.run()
    with pytest.raises(friday.errors.Unsupported, match="order clock"):
        session.origin("by_copies", node=SINK)


def test_through_the_ring(ring, opened):
    """The id of a node's successor was read from the command line of the successor, whatever nodes have told it to others."""
    session = opened(ring)
    session.set_checkpoints(True)
    break_at(session, "process_data")
    ids = {session.nodes[node].read("srv.node.id"): int(node) for node in range(3)}
    followed = 0
    for node in ids.values():
        wanted = session.nodes[node].read("srv.successor->id")
        if wanted not in ids:
            continue
        followed += 1
        hops = session.origin("srv.successor->id", node=node)
        assert int(hops[-1].node) == ids[wanted] and "strto" in hops[-1].place, hops
        assert messages(hops)[-1] == "sent" and all(int.from_bytes(hop.value, "little") == wanted for hop in hops)
    assert followed


def test_in_the_console(recorder, planted_o2):
    with Terminal(recorder, [BUILD / "bin/friday", "replay", planted_o2.path]) as terminal:
        terminal.expect(PROMPT)
        terminal.command("break arrived")
        terminal.command("continue")
        shown = terminal.command("0 origin by_sharing")
        assert "plant_shared" in shown and "computed by" in shown and "origin 3.1" in shown, shown
        assert "plant_shared" in terminal.command("goto hop 3")
        assert "no hop 9" in terminal.command("goto hop 9")
        assert "`goto hop 3` goes to this hop, and `origin 3.1` follows " in terminal.command("origin hop 3")
        assert "arrived" in terminal.command("undo")
        assert "has no inputs" in terminal.command("origin 1.1")
        assert "hop" in terminal.command("origin 3.2")
        assert "usage" in terminal.command("origin")


def test_a_run_says_where_the_values_come_from(ring, recorder, tmp_path, opened):
    """`friday run --origin`: of the first violation of each predicate, and the run goes on as if the group had never been elsewhere."""
    script = tmp_path / "check.py"
    script.write_text("import friday\nsession = friday.session\nhits = []\n\n@session.watch('srv.successor')\ndef settled():\n    hits.append(str(session.logical_time))\n"
                      "    assert session.node.read('srv.successor->id') == 0\n\n@session.breakpoint('stabilize')\ndef never():\n    assert session.node.read('srv.seq') < 0\n\n"
                      "@session.at_end\ndef tell():\n    print('hits', len(hits), hits[-1])\n")
    plain, traced = tmp_path / "plain.json", tmp_path / "traced.json"
    without = recorder.run([recorder.friday, "run", script, ring.path, "--json", plain])
    with_ = recorder.run([recorder.friday, "run", script, ring.path, "--json", traced, "--origin"], timeout=200)
    assert without.returncode == with_.returncode == 1 and without.stdout == with_.stdout, with_.stderr
    found, before = json.loads(traced.read_text())["violations"], json.loads(plain.read_text())["violations"]
    shown = [violation for violation in found if "origins" in violation]
    assert {violation["predicate"] for violation in shown} == {"settled", "never"} and len(shown) == 2
    without_origins = [{key: value for key, value in violation.items() if key != "origins"} for violation in found]
    assert [one | {"mark": None} for one in without_origins] == [one | {"mark": None} for one in before]
    assert sum(one["mark"] is not None for one in before) > len(before) / 2, "most carry a mark without a second run"
    session = opened(ring)
    session.set_checkpoints(True)
    for violation in shown:
        session.goto(violation["mark"])
        assert session.here == violation["node"]["id"] and str(session.logical_time) == violation["logical_time"]
        for value, hops in violation["origins"].items():
            assert value.startswith(f"@{session.here}(") and hops and all("[" in hop for hop in hops), violation["origins"]
            assert f"where {value} comes from" in with_.stderr
    computed = [hops[-1] for violation in shown for hops in violation["origins"].values() if ": computed by" in hops[-1]]
    assert computed and all(re.search(r" from [^\[]+ = ", hop) for hop in computed), computed
