"""Containers and smart pointers of the C++ standard library as values, in expressions and as gdb prints them."""

import re

import pytest
from debug_support import BUILD, break_at, friday, opened, record_once, run_to_end  # noqa: F401
from friday.language import as_json
from friday.running import change_lines

pytestmark = pytest.mark.limit(60)


@pytest.fixture(scope="module", params=["containers", "containers_o0"])
def containers(request, tmp_path_factory):
    return record_once(request.param, lambda recorder: recorder.record([BUILD / "targets" / request.param]), tmp_path_factory)


@pytest.fixture
def node(containers, opened):  # noqa: F811
    session = opened(containers)
    break_at(session, "ready")
    return session.node


VALUES = {
    "names": ("one", "", "a name that is longer than fifteen characters"),
    "flags": tuple(i not in (3, 68) for i in range(70)),
    "rows": ((1, 2), (), (3,)),
    "empty": (), "few": (1, 2, 3), "many": tuple(range(1000)),
    "chain": ("x", "y"), "no_chain": (), "forward": (5, 6, 7), "pair_of": ("left", "right"), "none_of": (),
    "set": (1, 2, 3), "letters": tuple(map(ord, "abb")),
    "ages": {"anna": 30, "bert": 40}, "votes": ((1, "yes"), (1, "perhaps"), (2, "no")),
    "large": {i: i * i for i in range(1000)}, "tall": {i * 7 % 1000: i for i in range(1000)},
    "text": "short", "with_nul": "a\0b", "not_utf8": b"\xff\xfe", "long_text": "q" * 5000, "wide_text": tuple(map(ord, "h\u00e9")),
    "view": "a view of it", "part": "view",
    "nobody": 0, "closed": 0, "where": 0, "some": 4, "nothing": None, "some_text": "given",
    "choice": "chosen", "number": 3, "plain_choice": 2.5, "triple": (1, "two", ord("3")), "count": 42, "ready": True,
    "queue": (1, 2), "stack": (3, 4), "heap": (9, 1),
}


def test_each_kind_of_container_is_a_value(node):
    read = {name: node.read(f"all.{name}") for name in VALUES}
    assert read == VALUES
    assert set(node.read("all.words")) == {"alpha", "beta"} and sorted(node.read("all.twice")) == [(1, 10), (1, 11)]
    assert as_json([node.read("all.ages"), node.read("all.names")[:2], node.read("all.single")]) == [
        {"anna": 30, "bert": 40}, ["one", ""], {"id": 11, "balance": 11.5, "owner": "gerd"}]
    with pytest.raises(ValueError, match="cannot be passed to the program as a whole"):
        node.call("ready", node.read("all.ages"))
    assert [[(slot.number, slot.more) for slot in slots] for slots in (node.read("all.slots"), node.read("all.by_slot").values())] == [[(1, 2), (3, 4)], [(6, 7)]]
    assert [[(each.letter, each.value) for each in packed] for packed in (node.read("all.packed"), node.read("all.by_packed").values())] == [
        [(97, 1.5), (98, -2.0)], [(99, 9.0)]]
    assert [node.read(f"all.{text}") for text in ("slots.front().more", "packed.front().value", "by_slot[5].more", "by_packed[8].letter", "slots.begin()->number")] == [2, 1.5, 7, 99, 1]
    assert list(node.read("all.tall")) == list(range(1000)), "in the map's order"
    assert node.read("all.wide")[1].value == 2.5
    for name, value in read.items():
        assert value is None or hash(value) == hash(node.read(f"all.{name}"))


@pytest.mark.parametrize("name", ["names", "rows", "empty", "none_of", "many", "few", "accounts", "flags", "set", "chain"])
def test_a_view_has_the_items_of_the_value(node, name):
    """Of random access and not, of strings and of plain numbers."""
    whole, view = node.read(f"all.{name}"), node.view(f"all.{name}")
    assert len(view) == len(whole) and list(view) == list(whole) and view[:] == tuple(whole)
    for cut in (slice(1, 2), slice(0, 300), slice(990, 2000), slice(3, 1), slice(-2, None), slice(None, None, 2)):
        assert tuple(view[cut]) == tuple(whole[cut])
    with pytest.raises(IndexError):
        view[len(whole)]


UNKNOWN = {
    "all.text": ["{} == \"short\"", "{}.size()", "{}[0]", "{}.empty()"], "all.numbers": ["{}[1]", "{}.size()"], "all.row": ["{}[1]", "{}.size()"],
    "all.both": ["std::get<0>({})"], "all.choice": ["std::get<1>({})", "{}.index()"], "all.shared": ["{} + 0", "{}.load()", "{} == 7"], "all.part": ["{}[1]", "{}.size()"],
}


def test_a_class_with_a_known_name_and_another_layout_is_refused(tmp_path_factory, opened):
    """A member that is missing is never taken for an empty container, nor another one for it."""
    session = opened(record_once("unknown_layouts", lambda recorder: recorder.record([BUILD / "targets" / "unknown_layouts"]), tmp_path_factory))
    break_at(session, "ready")
    node = session.node
    for name, expressions in UNKNOWN.items():
        if name not in ("all.choice", "all.part"):  # a variant's first alternative is where it always is; a span is a plain struct in Python
            with pytest.raises(friday.BadExpression, match="of node 0 has an unknown layout.*; known are those of libstdc"):
                node.read(name)
        for text in expressions:
            with pytest.raises(friday.Error, match="is laid out in a way that is not known here"):
                node.read(text.format(name))
    for name in ("all.numbers", "all.row"):
        with pytest.raises(friday.BadExpression, match="has an unknown layout"):
            list(node.view(name))


def test_an_atomic_smart_pointer_is_not_taken_for_a_number_in_it(node):
    with pytest.raises(friday.BadExpression, match="this atomic of node 0 has an unknown layout"):
        node.read("all.handed")


def test_a_view_reads_only_what_is_asked_for(node):
    read, seen = node.session.backend.read_memory, []
    view = node.view("all.many")
    view._session = type("Counting", (), {"moves": view._moves, "backend": type("Memory", (), {"read_memory": staticmethod(
        lambda *where: seen.append(where[2]) or read(*where))})})
    assert view[500] == 500 and view[10:13] == (10, 11, 12) and seen == [4, 12]


def test_a_view_is_good_until_the_group_moves_on(containers, opened):
    session = opened(containers)
    break_at(session, "ready")
    view = session.node.view("all.many")
    assert view[3] == 3
    session.run()
    with pytest.raises(friday.UsageError, match="the group has moved on since the view of `all.many` was made"):
        view[3]
    for text, why in (("all.ages", "not an array"), ("all.text", "not an array"), ("all.count", "not an array")):
        with pytest.raises(friday.UsageError, match=why):
            session.node.view(text)


def test_an_enumerator_of_64_bits_without_a_sign(node):
    mask = node.read("mask")
    assert mask == 2**64 - 1 and mask.name == "Mask::all"


def test_what_containers_hold_is_copied_with_them(node):
    accounts, index, single, several, tree = (node.read(f"all.{name}") for name in ("accounts", "index", "single", "several", "tree"))
    everything, names, owner = node.read("all"), node.read("all.names"), node.read("all.single.owner")
    ages = node.read("all.ages")
    break_at(node.session, "ready")
    assert node.read("all.accounts")[0].balance == 100 and node.read("all.names") == ("one", "")
    assert node.read("all.ages") == {"anna": 30, "bert": 40, "carl": 50} and node.read("all.large") == {}
    assert node.read("*unmade") == (1, 2, 3) and node.read("all.single.owner") == "another"
    assert [(a.id, a.balance, a.owner) for a in accounts] == [(1, 1.5, "anna"), (2, -2, "bert")]
    assert index[7].owner == "carl" and index[8].owner == "dora" and single.owner == "gerd" and owner == "gerd"
    assert [a.owner for a in several] == ["hans", "ida"]
    assert names[2].startswith("a name") and ages == {"anna": 30, "bert": 40}
    assert everything.text == "short" and everything.accounts == accounts and everything.single == single and everything.tree == tree
    assert everything.single != node.read("all.single") and everything.several == several == node.read("all.several")
    assert tree.name == "root" and [c.name for c in tree.children] == ["left", "right"]
    assert tree.children[1].children[0].name == "leaf" and tree.by_number[5].name == "five"
    assert [a.id for a in node.read("all.big")] == list(range(280, 300))


def test_names_of_an_unnamed_namespace_are_found_from_everywhere(node):
    node.session.run()  # to the end, in the C library; what was destroyed is still there to be read
    assert node.read("all.text") == "changed" and node.read("all.single.id + all.several[1].id") == 11 + 13
    assert node.read("sizeof(all.count)") == 4
    with pytest.raises(friday.NoSymbol, match='No symbol "alll"'):
        node.read("alll.text")


def test_operators_are_known_where_the_node_stands_in_the_c_library(node):
    break_at(node.session, "malloc")
    assert "language is \"auto; currently c\"" in node.gdb("show language") or "currently asm" in node.gdb("show language")
    assert node.read("*all.shared").owner == "frida" and node.read("all.shared->id") == 10 and node.read("all.names[0]") == "one"
    assert node.read("all.owned->balance * 2") == 19 and "auto" in node.gdb("show language") and node.altered is None


def test_gdb_evaluates_operators_itself_where_the_node_stands_in_the_c_library(node):
    break_at(node.session, "malloc")
    assert node.gdb("print all.owned->balance * 2").endswith(" = 19\n") and node.gdb("output all.names[0]").endswith('"one"')
    assert node.gdb("p (*all.shared).id").endswith(" = 10\n") and "auto" in node.gdb("show language") and node.altered is None
    assert node.read('all.ages["anna"]') == 30


def test_operators_of_smart_pointers_and_vectors_work_in_expressions(node):
    assert node.read("all.owned->owner") == "emil" and node.read("all.shared->id") == 10 and node.read("all.owned->balance * 2") == 19
    assert node.read("all.accounts[1].owner") == "bert" and node.read("all.names[0]") == "one" and node.read("all.many[999]") == 999
    assert node.read("*all.owned").owner == "emil" and node.read("all.weak") == node.read("all.shared")
    assert node.read("all.accounts.size()") == 2 and node.altered is None


def test_an_object_that_is_not_made_yet_is_said_to_be_none(node):
    with pytest.raises(friday.BadExpression, match=r"this vector of node 0 .*not constructed yet"):
        node.read("*unmade")
    assert node.read("unmade->_M_impl._M_start") == 0xc1c2c3c4c5c6c7c8


def test_gdb_prints_them_as_gdb_does(node):
    assert node.gdb("print all.ages").strip().endswith('std::map with 2 elements = {["anna"] = 30, ["bert"] = 40}')
    assert "std::vector of length 2, capacity 2" in node.gdb("print all.accounts")
    assert 'get() = 0x' in node.gdb("print all.owned")


def test_a_watch_of_a_size_sees_each_change(containers, opened):  # noqa: F811
    session = opened(containers)
    break_at(session, "ready")
    seen = []
    session.watch("all.ages._M_t._M_impl._M_node_count", lambda hit: seen.append((hit.old, hit.new)))
    session.watch("all.single.owner._M_string_length", lambda hit: seen.append((hit.old, hit.new, session.node.read("all.single.owner"))))
    break_at(session, "ready")
    assert seen[0] == (2, 3) and seen[1][:2] == (4, 7) and len(seen) == 2


def test_a_stop_tells_what_a_container_holds_now_and_of_a_large_struct_what_differs(containers, opened):  # noqa: F811
    session = opened(containers)
    break_at(session, "ready")
    told = {}
    session.watch("all.ages, all.single.owner, all", lambda hit: told.setdefault(hit.expression, []).extend(change_lines(session, hit)))
    break_at(session, "ready")
    assert "  all.ages: now {['anna'] = 30, ['bert'] = 40, ['carl'] = 0}" in told["all.ages"], told
    assert "  all.single.owner: now 'another'" in told["all.single.owner"]
    assert any(re.fullmatch(r"  all\.large\.\S+count: 1000 -> 0", line) for line in told["all"]), told["all"]
    assert max(len(line) for lines in told.values() for line in lines) < 250


def test_hits_of_containers_have_values_or_say_that_they_are_not_known(containers, opened):  # noqa: F811
    session = opened(containers)
    break_at(session, "ready")
    counts, texts, vectors, kept = [], [], [], []
    session.watch("all.count", lambda hit: counts.append((hit.old, hit.new, change_lines(session, hit))))
    session.watch("all.text", lambda hit: texts.append((hit.old, hit.new)))
    @session.watch("all.names")
    def names(hit):
        kept.append(hit)
        with pytest.raises(friday.BadExpression, match="the items of this vector of node 0 are not known.*the memory no longer holds the items from before the write"):
            hit.old
        vectors.append(hit.new)
    break_at(session, "ready")
    assert counts == [(42, 0, ["  all.count: 42 -> 0"]), (0, 7, ["  all.count: 0 -> 7"])]
    assert texts[0][0] == "short" and texts[-1][1] == "changed", texts
    assert vectors == [("one", "")]
    with pytest.raises(friday.BadExpression, match="the group has moved on since that stop"):
        kept[0].new


def test_conditions_on_what_has_no_truth_are_said(containers, opened, capsys):  # noqa: F811
    session = opened(containers)
    break_at(session, "ready")
    counts = []
    session.watch("all.count", lambda hit: counts.append(hit.new), condition="all.count")
    text = session.watch("all.text", lambda: None, condition="all.text")
    break_at(session, "ready")
    assert counts == [7] and text.hits
    said = capsys.readouterr().err
    assert f"the condition of stop point {text.id} is neither true nor false: `all.text` is a std::" in said and said.count("it counts as true") == 1


POINTERS = {"all.nobody->balance": 3.5, "all.nothing_shared->id": 4, "(*all.nobody).id": 5, "all.nobody->owner._M_string_length": 6}


def test_a_watch_through_a_null_smart_pointer_is_undefined_until_it_points_somewhere(containers, opened):  # noqa: F811
    session = opened(containers)
    break_at(session, "ready")
    seen = {}
    for expression in POINTERS:
        session.watch(expression, lambda hit: seen.setdefault(hit.expression, []).append((hit.old, hit.new)))
    assert not [notice for notice in session.backend.take_notices() if "watched where it stands" in notice]
    run_to_end(session)
    for expression, last in POINTERS.items():
        assert seen[expression][0][0] is None and seen[expression][0][1] is not None, seen
        assert any(new == last for _, new in seen[expression]), (expression, seen)


def test_a_watch_of_an_element_follows_it(containers, opened):  # noqa: F811
    session = opened(containers)
    break_at(session, "ready")
    seen = []
    session.watch("all.accounts[0].balance", lambda hit: seen.append((hit.old, hit.new)))
    session.watch("*app::counter", lambda hit: seen.append((hit.old, hit.new)))
    assert not [notice for notice in session.backend.take_notices() if "watched at its present address" in notice]
    break_at(session, "ready")
    assert seen == [(1.5, 100), (1, 2)]
