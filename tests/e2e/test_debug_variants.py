"""Groups of one program whose nodes load different libraries at run time: what one node's gdb was asked is never said of another node
that has other libraries, and stop points wait in each node for its own."""

import pytest
from debug_support import BUILD, friday, opened, record_once, run_to_end  # noqa: F401

pytestmark = pytest.mark.limit(60)

LIBRARIES = {"first": "a", "second": "b", "third": "c", "both": "-a b", "turned": "b a", "ordered": "a b", "again": "a"}
START, STEP = {"a": 10, "b": 20, "c": 30}, {"a": 1, "b": 100, "c": 1000}


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    def make(recorder):
        program = str(BUILD / "targets" / "load_variants")
        return recorder.group({"node": [{"name": name, "command": [program, *libraries.split()]} for name, libraries in LIBRARIES.items()]})
    return record_once("variants", make, tmp_path_factory)


def values(name):
    """What `chosen` of each library of a node is after each of its changes, in order."""
    found = []
    for library in LIBRARIES[name].split():
        letter = library.removeprefix("-")
        found += [START[letter] + STEP[letter] * times for times in (1, 2, 3)]
    return found


@pytest.mark.parametrize("gdb", ["background", "lazy"])
@pytest.mark.parametrize("chosen", [None, "first", "second", "both"])
def test_a_watch_that_waits_is_hit_in_each_node_by_its_own_variable(variants, opened, gdb, chosen):
    session, hits = opened(variants), {}
    session.backend.gdb_start(gdb)
    session.watch("-pending chosen", lambda hit: hit.new is not None and hit.location.startswith("choose") and hits.setdefault(hit.node.name, []).append(hit.new),
                  nodes=chosen)
    run_to_end(session)
    wanted = {name: values(name) for name in LIBRARIES if chosen in (None, name)}
    wanted = {name: found[:3] if name in ("turned", "ordered") else found for name, found in wanted.items()}  # of two the first one is meant
    assert hits == wanted


@pytest.mark.parametrize("gdb", ["background", "lazy"])
def test_a_breakpoint_that_waits_stands_in_each_library_and_gdb_knows_where(variants, opened, gdb):
    session, hits, stacks = opened(variants), {}, []
    session.backend.gdb_start(gdb)

    @session.breakpoint("-pending choose")
    def chosen(hit):
        hits.setdefault(hit.node.name, []).append((hit.location.split(" ")[0], int(hit.node.read("k")), hit.node.read("chosen")))
        stacks.append(hit.node.gdb("backtrace"))
    run_to_end(session)
    for name, libraries in LIBRARIES.items():
        found = hits[name]
        assert [place for place, _, _ in found] == ["choose"] * len(found) and [k for _, k, _ in found] == [1, 2, 3] * len(libraries.split()), (name, found)
        before = [value - STEP[letter] for value, letter in zip(values(name), [each.strip("-") for each in libraries.split() for _ in range(3)])]
        if name in ("turned", "ordered"):
            before[3:] = [values(name)[2]] * 3  # of two variables of one name gdb takes the one that was loaded first, wherever the node stands
        assert [value for _, _, value in found] == before, (name, found)
    assert stacks and not any("??" in stack for stack in stacks)


def test_values_after_one_library_has_gone_and_another_has_come(variants, opened):
    session, seen = opened(variants), {}
    session.breakpoint("between", lambda hit: seen.setdefault(hit.node.name, []).append(int(hit.node.read("chosen"))) if "end" not in hit.node.read("name") else None)
    run_to_end(session)
    assert {name: found for name, found in seen.items() if " " not in LIBRARIES[name]} == {name: [values(name)[-1]] for name in LIBRARIES if " " not in LIBRARIES[name]}
    assert seen["both"] == [13, 320] and seen["turned"] == [320, 320] and seen["ordered"] == [13, 13]


def test_a_bit_field_of_a_frame_further_out(variants, opened):
    """gdb reads it, and says where the whole stands that it is a part of."""
    session = opened(variants)
    session.breakpoint("-pending choose", nodes="first")
    assert session.run().kind == "breakpoint"
    assert (session.read(None, "main::parts.first"), session.read(None, "main::parts.second")) == (5, 9)
    with pytest.raises(friday.Error, match="cannot be watched"):
        session.watch("-l main::parts.second")


def test_libraries_are_known_on_nodes_without_a_stop_point(variants, opened):
    session = opened(variants)
    session.backend.pump(1.0)  # gdbs connect before the libraries come
    run_to_end(session)
    for node in session.nodes:
        listed = node.gdb("info sharedlibrary")
        for letter in LIBRARIES[node.name].split():
            if not letter.startswith("-"):
                line, = [line for line in listed.splitlines() if f"load_variants_{letter}.so" in line]
                assert " Yes " in line, listed
        assert int(node.read("chosen")) == (values(node.name)[2] if node.name in ("turned", "ordered") else values(node.name)[-1])


def test_after_a_restart_libraries_are_gone_until_they_come_again(variants, opened):
    session, hits = opened(variants), []
    session.breakpoint("-pending choose", lambda hit: hits.append((hit.node.name, int(hit.node.read("chosen")))))
    run_to_end(session)
    first, hits[:] = list(hits), []
    session.restart()
    started = session.breakpoint("main", nodes="first")
    assert session.run().ids == (started.id,)
    with pytest.raises(friday.NoSymbol):
        session.nodes["first"].read("chosen")
    run_to_end(session)
    assert hits == first and hits
