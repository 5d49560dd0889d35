"""Random expressions over small programs, read by Friday (by plans that are kept and shared) and by a plain gdb at the same node's
endpoint (expression_oracle.py): the same value, or the same refusal. Each is read twice by Friday and again at later stops, where a plan that
was kept may be wrong. The seed is fixed in the sample; with --full many more are tried, and FRIDAY_ORACLE_SEEDS=FIRST-LAST chooses."""

import json
import os
import pathlib
import re
import subprocess

import pytest
from debug_support import BUILD, friday, opened, record_once, run_to_end  # noqa: F401
from test_debug_mi import Gdb
from test_debug_variants import variants  # noqa: F401

pytestmark = pytest.mark.limit(120)

ORACLE = pathlib.Path(__file__).with_name("expression_oracle.py")
C = ["square", "move", "factorial", "shifted", "scale", "walk", "all_started"]
CXX = ["use_inline", "thrice", "shapes::inner::area", "measure", "careful", "use_containers", "shapes::Square::area", "all_started"]
PLACES = {"debug_session_O0": C, "debug_session_O2": C, "debug_session_cxx_O0": CXX, "debug_session_cxx_O2": CXX,
          "variants": ["-pending choose", "between"], "workers": ["turn if i < 3"]}
EXTRA = {"variants": ["chosen", "before_it", "chosen_there"], "debug_session_cxx_O0": ["total", "current", "own"], "debug_session_cxx_O2": ["total", "current", "own"],
         "debug_session_O0": ["total", "head", "own", "more"], "debug_session_O2": ["total", "head", "own", "more"], "workers": ["total", "own"]}
STOPS = 4  # at each place, at most
NODES = 3  # asked at each stop
BAD_ADDRESS = re.compile("annot access memory")


def kind_of(words):
    """What a refusal says, whoever says it."""
    if BAD_ADDRESS.search(words) or "cannot read" in words:
        return "memory"
    if "optimized out" in words:
        return "optimized out"
    if re.search('No symbol "|no member (or method )?named|is not in scope', words):
        return "no such name"
    if re.search("Division by zero|division by zero|divides by zero", words):
        return "division"
    return "other"


class Plain:
    """A plain gdb for a node's endpoint."""

    def __init__(self, session, node, directory):
        self.session, self.node, self.answers = session, node, directory / f"answers-{int(node)}"
        self.gdb = Gdb(["-iex", "set debuginfod enabled off", "-iex", "set confirm off", "-iex", "set auto-load no", "-iex", "set sysroot /", "-ex", f"python exec(open({str(ORACLE)!r}).read())"], session)
        self.asked = 0

    def ask(self, seed, count, extra):
        said = self.node.gdb("thread")
        thread = re.search(r"Thread 1\.(\d+)", said)
        assert thread, said
        self.asked += 1
        path = f"{self.answers}-{self.asked}"
        if self.asked > 1:
            self.gdb.send("disconnect")
            self.gdb.send(f"echo parted {self.asked}\\n")
            self.gdb.wait_for(lambda text: f"parted {self.asked}\n" in text, "its end of the connection")
            for _ in range(3):
                self.session.backend.pump(0.0)  # the endpoint sees that it is free
        self.gdb.send(f"target remote {self.node.endpoint}")
        self.gdb.send(f"python ask({seed}, {count}, {thread[1]}, {extra!r}, {path!r})")
        self.gdb.wait_for(lambda text: f"asked {path}" in text, f"answers of stop {self.asked}", 60)
        return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def read(session, node, text):
    try:
        return session.backend.read(int(node), session.backend.plan(text))[1].hex(), None
    except friday.Error as error:
        return None, str(error)


def agree(answer, data, refused):
    """Whether Friday says the same: the value, or for the same reason that there is none."""
    if (data, kind_of(refused or "")) == (answer.get("bytes"), kind_of(answer.get("refused", ""))):
        return True
    # A static variable that the compiler removed is in no index: gdb knows its name only once it has read that file's debug information.
    removed = re.search("optimized out|value not located in memory", refused or "")
    return bool(removed) and kind_of(answer.get("refused", "")) == "no such name"


def compare(session, node, answers):
    """What Friday says otherwise than gdb."""
    wrong = []
    for answer in answers:
        for time in ("first", "again"):
            data, refused = read(session, node, answer["text"])
            if node.altered is not None:
                return [*wrong, f"{answer['text']} ({time}) altered the node"]
            if not agree(answer, data, refused):
                wrong.append(f"{answer['text']} ({time}): gdb: {answer.get('bytes') or answer.get('refused')}, Friday: {data or refused}")
    return wrong


def try_seed(session, places, extra, seed, directory, count=20):
    plain, wrong, compared, stops = {}, [], 0, {}
    for place in places:
        location, _, condition = place.partition(" if ")
        session.breakpoint(location, condition=condition or None).stops = True
    try:
        while (stop := session.run()).kind == "breakpoint":
            point = stop.ids[0]
            stops[point] = stops.get(point, 0) + 1
            if stops[point] >= STOPS:
                session.points[point].disable()
            chosen = [session.nodes[stop.node], *(node for node in session.all_nodes if int(node) != stop.node)][:NODES]
            for node in chosen:
                if node not in plain:
                    plain[node] = Plain(session, node, directory)
                answers = plain[node].ask(seed * 1000 + len(stops) * 10 + stops[point] % 3, count, extra)
                wrong += [f"node {node} at {stop.location}, stop {stops[point]}: {text}" for text in compare(session, node, answers)]
                compared += len(answers)
    finally:
        for each in plain.values():
            each.gdb.close()
    assert compared > 50
    return wrong


def recording_of(program, request):
    if program == "variants":
        return request.getfixturevalue("variants")
    factory = request.getfixturevalue("tmp_path_factory")
    return record_once(program, lambda recorder: recorder.record([BUILD / "targets" / program]), factory)


def seeds():
    first, _, last = os.environ.get("FRIDAY_ORACLE_SEEDS", "2-6").partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("program", ["debug_session_O0", "debug_session_cxx_O2", "variants", *(pytest.param(name, marks=pytest.mark.full)
                                     for name in ("debug_session_O2", "debug_session_cxx_O0", "workers"))])
def test_friday_says_what_gdb_says(program, request, opened, tmp_path):
    wrong = try_seed(opened(recording_of(program, request)), PLACES[program], EXTRA[program], 1, tmp_path)
    assert not wrong, "\n".join(wrong)


def test_operators_of_a_class_without_a_name_are_refused_in_words_of_the_expression(request, opened):
    """libstdc++'s package fails to look for operators of a lambda's class."""
    session = opened(recording_of("debug_session_cxx_O2", request))
    session.breakpoint("shapes::inner::area")
    assert session.run().kind == "breakpoint"
    for expression in ("!main::add", "main::add == 0"):
        with pytest.raises(friday.Error, match="not located in memory|No symbol \"operator"):
            session.read(None, expression)


def test_reading_an_array_without_memory_calls_no_malloc(recorder, opened, tmp_path):
    """The compiler kept its values in the debug information alone; gdb copies such an array into memory from the program's malloc as soon as
    it is computed with, also when only its type is asked for."""
    (tmp_path / "tag.c").write_text("""
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
  static const unsigned char tag[4] = {1, 2, 3, 4};
  getppid();
  printf("%d\\n", tag[1] + argc);
  return argv[argc] != 0;
}
""")
    subprocess.run(["/usr/bin/cc", "-g", "-O2", "-o", tmp_path / "tag", tmp_path / "tag.c"], check=True)
    session = opened(recorder.record([tmp_path / "tag"], name="it"))
    session.breakpoint("getppid")
    assert session.run().kind == "breakpoint"
    assert [int(value) for value in session.read(0, "main::tag")] == [1, 2, 3, 4] and session.read(0, "main::tag[1]") == 2
    for expression in ("*main::tag", "(*main::tag)", "*main::tag + 1"):
        with pytest.raises(friday.Error, match="memory that the program allocates"):
            session.read(0, expression)
    assert not session.altered
    run_to_end(session)


@pytest.mark.full
@pytest.mark.limit(600)
@pytest.mark.parametrize("program", PLACES)
def test_friday_says_what_gdb_says_of_many(program, request, opened, tmp_path):
    session, wrong = opened(recording_of(program, request)), []
    for seed in seeds():
        directory = tmp_path / str(seed)
        directory.mkdir()
        wrong += [f"seed {seed}: {text}" for text in try_seed(session, PLACES[program], EXTRA[program], seed, directory, 60)]
        for point in list(session.points):
            session.delete(point)
        session.restart()
    assert not wrong, "\n".join(wrong)
