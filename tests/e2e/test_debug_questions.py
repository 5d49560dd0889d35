"""Expressions over containers: what Friday says is what the program itself computed and printed. They are answered by plans, without a gdb,
also inside larger expressions, in conditions and in watches, and a container that has no such value is named."""

import json
import os
import random
import re
import shlex
import subprocess

import pytest
from conftest import ROOT
from debug_support import BUILD, break_at, friday, opened, record_once  # noqa: F401
from friday.commands import Command
from friday.costs import info_costs

pytestmark = pytest.mark.limit(90)

PROGRAMS = ["container_questions_o0", "container_questions_o2", pytest.param("libc++", marks=pytest.mark.full)]
MASK = (1 << 64) - 1


def recording_of(program, request):
    factory = request.getfixturevalue("tmp_path_factory")
    path = with_libcxx(factory) if program == "libc++" else BUILD / "targets" / program
    return record_once(program, lambda recorder: recorder.record([path]), factory)


def with_libcxx(factory):
    """The program with Clang's library; FRIDAY_LIBCXX has more options for the compiler, for a library that is not installed."""
    path = factory.mktemp("libcxx", numbered=True) / "container_questions"
    made = subprocess.run(["clang++-19", "-std=c++23", "-stdlib=libc++", "-g", "-O0", "-fstandalone-debug", *shlex.split(os.environ.get("FRIDAY_LIBCXX", "")),
                           "-o", path, ROOT / "tests" / "targets" / "container_questions.cc"], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"there is no libc++ for clang++-19: {made.stderr.splitlines()[0]}")
    return path


def asked(recording):
    """The expressions that the program answered, with its answers."""
    lines = [line.split("\t") for line in (recording.stdout if isinstance(recording.stdout, str) else recording.stdout.decode()).splitlines()]
    return {text: json.loads(value) for text, value in lines}


def plain(value):
    """An answer of Friday as the program prints it."""
    if isinstance(value, (bool, float, str)):
        return value
    return int(value) & MASK


def same(value, expected):
    if isinstance(expected, bool):
        return isinstance(value, int) and bool(value) == expected
    return plain(value) == (expected & MASK if isinstance(expected, int) else expected)


@pytest.fixture(params=PROGRAMS)
def session(request, opened):  # noqa: F811
    recording = recording_of(request.param, request)
    session = opened(recording)
    session.questions = asked(recording)
    break_at(session, "ready")
    return session


def test_each_answer_is_that_of_the_program(session):
    node, wrong = session.node, []
    assert len(session.questions) > 100
    for text, expected in session.questions.items():
        try:
            found = node.read(text)
        except friday.Error as error:
            wrong.append(f"{text}: {error}")
            continue
        if not same(found, expected):
            wrong.append(f"{text}: {found!r} instead of {expected!r}")
    assert not wrong, "\n".join(wrong)
    assert node.altered is None


WHOLE = {
    "srv.own": (4, 5, 6), "srv.empty": (), "srv.rows": ((1, 2), (), (3,)), "srv.flags": tuple(i not in (3, 68) for i in range(70)), "srv.many": tuple(range(1000)),
    "srv.chain": ("x", "y"), "srv.forward": (5, 6), "srv.sides": ("left", "right"), "srv.no_items": (), "srv.text": "short", "srv.with_nul": "a\0b", "srv.long_text": "q" * 100,
    "srv.view": "view", "srv.nothing_seen": "", "srv.none": None, "srv.number": 4, "srv.title": "title", "srv.choice": "chosen", "srv.whole": 3, "srv.nobody": 0,
    "srv.unshared": 0, "srv.ages": {"anna": 30, "bert": 40, "a key that is longer than the others": 50}, "srv.tall": {i * 7 % 1000: i for i in range(1000)},
    "srv.lists": {"a": (1, 2, 3)}, "srv.set": (1, 2, 3), "srv.names": ("one", "two"), "srv.letters": tuple(map(ord, "abb")),
    "srv.votes": ((1, "yes"), (1, "perhaps"), (2, "no")), "srv.squares": {i - 5: i * i for i in range(1000)}, "srv.triple": (1, "two", ord("3")), "srv.count": 42,
    "srv.queue": (1, 2), "srv.stack": (3, 4), "srv.heap": (9, 1),
}


def test_a_whole_container_is_a_value(session):
    node = session.node
    assert {text: node.read(text) for text in WHOLE} == WHOLE
    assert list(node.view("srv.no_items")) == []
    assert [(entry.term, entry.owner) for entry in node.read("srv.log")] == [(1, "anna"), (2, "a rather long name of someone")]
    assert [entry.term for entry in node.read("srv.entries")] == list(range(50, 100)) and node.read("srv.words")["beta"].owner == "v"
    assert node.read("srv.owned") == node.read("srv.owned.get()") != 0 and set(node.read("srv.unsigneds")) == {7, 8}
    if session.questions.get("srv.pmr_map[1]"):
        assert node.read("srv.pmr_vector") == (1, 2, 3) and node.read("srv.pmr_text") == "pmr" and node.read("srv.pmr_map") == {1: 5}


REFUSED = {
    "srv.log[2].term": "index 2 is outside of srv.log, which holds 2 items", "srv.log[-1].term": "index -1 is outside of srv.log",
    "srv.log.at(srv.commit).owner": "index 2 is outside of srv.log", "srv.empty.back()": "srv.empty is empty", "srv.rows[1][0]": r"srv.rows\[1\] is empty",
    "srv.flags[70]": "index 70 is outside of srv.flags, which holds 70 items", "srv.many[1000]": "index 1000 is outside of srv.many",
    "srv.none->term": "srv.none holds no value", "*srv.none": "srv.none holds no value", "srv.nobody->term": "srv.nobody points to nothing",
    "*srv.unshared": "srv.unshared points to nothing", "std::get<0>(srv.choice)": "srv.choice does not hold int now",
    'srv.ages["zoe"]': 'srv.ages has no item with the key "zoe"', "srv.by_term.at(6).term": "srv.by_term has no item with the key 6",
    "srv.by_term.find(6)->second.term": "srv.by_term has no item with the key 6", "srv.squares[5000] + 1": "srv.squares has no item with the key 5000",
    "srv.empty[0] > 3 || srv.empty.empty()": "srv.empty is empty", "srv.no_items[0]": "srv.no_items is empty",
}


def test_a_value_that_does_not_exist_is_named(session):
    for text, words in REFUSED.items():
        for _ in range(2):
            with pytest.raises(friday.BadAddress, match=words):
                session.node.read(text)


def test_what_only_a_call_could_find_is_said_with_the_reason(session):
    with pytest.raises(friday.Error, match="srv.backwards cannot be searched without a call: it orders its keys by Backwards"):
        session.node.read("srv.backwards[1]")
    with pytest.raises(friday.Error, match="the keys of srv.by_term are no addresses or texts"):
        session.node.read('srv.by_term["five"].term')
    with pytest.raises(friday.Error, match="nowhere"):
        session.node.read("srv.log[0].nowhere")
    assert session.node.altered is None


SIGNS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "<": lambda a, b: a < b, "==": lambda a, b: a == b,
         "!=": lambda a, b: a != b, "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b), ">=": lambda a, b: a >= b}


def made(questions, dice):
    """A random expression of answered ones, and its value. The operands are small, so that no type of C overflows or changes a sign. None compares
    floating-point numbers, for which there is no bytecode."""
    def operand(depth):
        small = [(text, value) for text, value in questions.items() if isinstance(value, int) and 0 <= value < 100 and "9.5" not in text]
        if depth == 0 or dice.random() < 0.4:
            text, value = dice.choice(small)
            return f"({text})", value
        if dice.random() < 0.2:
            text, value = operand(depth - 1)
            return f"(!{text})", not value
        (left, a), (right, b) = operand(depth - 1), operand(depth - 1)
        truths = isinstance(a, bool) and isinstance(b, bool)  # gdb does not compute with two of them
        sign = dice.choice([sign for sign in SIGNS if (sign != "-" or a >= b) and not (truths and sign in "+-*<>=")])
        return f"({left} {sign} {right})", SIGNS[sign](a, b)

    return operand(3)


def try_random(session, seed, count):
    dice, wrong = random.Random(seed), []
    for _ in range(count):
        text, expected = made(session.questions, dice)
        for _ in range(2):
            try:
                found = session.node.read(text)
            except friday.Error as error:
                if "more than" in str(error):
                    break
                wrong.append(f"{text}: {error}")
                break
            if int(found) & MASK != int(expected) & MASK:
                wrong.append(f"{text}: {found!r} instead of {expected!r}")
    assert not wrong, "\n".join(wrong)


def test_costs_say_who_evaluated_what(session):
    node = session.node
    for text in ("srv.log[1].term", "srv.log[1].term", "ratio * 2 == 3"):
        node.read(text)
    costs = {cost.expression: cost for cost in session.costs}
    by_plan, by_gdb = costs["srv.log[1].term"], costs["ratio * 2 == 3"]
    assert (by_plan.by, by_plan.count, by_plan.reason) == ("plan", 2, "") and 0 < by_plan.each < by_plan.first <= by_plan.seconds
    assert (by_gdb.by, by_gdb.count) == ("gdb", 1) and by_gdb.reason
    assert {text for text, cost in costs.items() if cost.by == "gdb"} == {"ratio * 2 == 3"}
    lines = []
    info_costs(session, Command(None, "info", "costs log", "", 1, 1), lines.append)
    assert len(lines) == 2 and lines[1].split()[:2] == ["plan", "2"] and lines[1].endswith("srv.log[1].term")


def test_what_gdb_evaluates_again_and_again_is_said_once(session):
    text = "ratio * 2 == 3"
    while not (said := [notice for notice in session.backend.take_notices() if "is evaluated by gdb" in notice]):
        session.node.read(text)
    assert re.match(rf"`{re.escape(text)}` is evaluated by gdb, [\d.]+ ms each time: .*\(`info costs`\)", said[0])
    for _ in range(20):
        session.node.read(text)
    assert not [notice for notice in session.backend.take_notices() if "is evaluated by gdb" in notice]


def test_random_expressions_of_them(session):
    try_random(session, 1, 15)


def test_a_value_that_is_narrower_than_an_address_is_no_false_alarm(session):
    """The check of a plan tries addresses as the values of what it reads first, here a bool and an int."""
    for text, expected in {"(srv.log[0].term) >= (srv.set.contains(4))": True, "(srv.set.contains(4)) >= (srv.lists[\"a\"][1])": False}.items():
        assert bool(session.node.read(text)) == expected, text


@pytest.mark.full
@pytest.mark.limit(600)
def test_many_random_expressions_of_them(session):
    for seed in range(2, 12):
        try_random(session, seed, 60)


def test_watches_follow_containers(session):
    """Each change of an element, a key or what a smart pointer leads to is seen, wherever the container moves it."""
    seen = {}
    watched = ["srv.log[1].term", "srv.log[2].term", "srv.log.size()", "srv.log.back().term", 'srv.ages["dora"]', 'srv.ages["bert"]', 'srv.text == "short"', "srv.none->term",
               "srv.nobody->term", "srv.many.front()", "srv.squares[77]", "srv.empty[0]", "srv.by_term[5].term"]
    for text in watched:
        session.watch(text, lambda hit: seen.setdefault(hit.expression, []).append((hit.old, hit.new)))
    assert not [notice for notice in session.backend.take_notices() if "present address" in notice]
    run_to_end_of_changes(session)
    assert seen["srv.log[1].term"][-1] == (2, 20)
    sizes = seen["srv.log.size()"]  # libc++ has it empty for a moment
    assert sizes[0][0] == 2 and sizes[-1][1] == 3 and len(sizes) <= 2
    assert seen["srv.log[2].term"][0][0] is None and seen["srv.log[2].term"][-1][1] == 3
    assert seen["srv.log.back().term"][-1][1] == 3
    assert seen['srv.ages["dora"]'][0][0] is None and seen['srv.ages["dora"]'][-1][1] == 60 and seen['srv.ages["bert"]'] == [(40, 41)]
    assert [(bool(old), bool(new)) for old, new in seen['srv.text == "short"']] == [(True, False)]
    assert seen["srv.none->term"][0][0] is None and seen["srv.none->term"][-1][1] == 88
    assert seen["srv.nobody->term"][0][0] is None and seen["srv.nobody->term"][-1][1] == 55
    assert seen["srv.many.front()"][-1][1] == -1 and seen["srv.squares[77]"] == [(82 * 82, 1)]
    assert seen["srv.empty[0]"][0][0] is None and seen["srv.empty[0]"][-1][1] == 12
    assert "srv.by_term[5].term" not in seen


def run_to_end_of_changes(session):
    point = session.breakpoint("ready")
    point.stops = True
    stop = session.run()
    assert stop.kind == "breakpoint", stop


def test_conditions_on_containers(session):
    hits = []
    session.watch("srv.log[1].term", lambda hit: hits.append(hit.new), condition='srv.log.size() > 2 && srv.log.back().owner == "carl" && srv.log[1].term == 20')
    run_to_end_of_changes(session)
    assert hits == [20]
