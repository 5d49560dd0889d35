"""A plain gdb of the user's runs backward in C and in C++, as it is built while it is written and as it is delivered: what it shows on the
way back is what it has shown on the way there."""
import json
import re
import subprocess

import pytest
from conftest import SLOWNESS
from console_support import PROMPT, Terminal
from debug_support import BUILD, record_once

FUNCTIONS = {"debug_session": ["square", "factorial", "scale", "move", "walk", "main"],
             "debug_session_cxx": ["measure", "shapes::Square::area", "shapes::Shape::operator()", "shapes::inner::area", "largest<long>", "thrice",
                                   "use_inline", "throws", "careful"]}
START = {"debug_session": "main", "debug_session_cxx": "measure(int)"}  # from where on it calls functions of its own

# What gdb executes; it writes what it found to the file named by `result`.
WALK = r"""
import json, random
import gdb

REGISTERS = "rip rsp rbp rax rbx rcx rdx rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
chance, found = random.Random(7), {}

def do(command):
    return gdb.execute(command, to_string=True)

def place():
    return [int(gdb.parse_and_eval("(long)$" + name)) for name in REGISTERS] + [str(gdb.parse_and_eval("$eflags"))]

def depth():
    # How many calls below main, without those that the compiler has put into their callers.
    frame, count = gdb.newest_frame(), 0
    while frame is not None and frame.name() != "main":
        count += frame.type() != gdb.INLINE_FRAME
        frame = frame.older()
    return count

def at_start_of_line():
    frame = gdb.newest_frame()
    return frame.find_sal().pc == frame.pc()

# Instructions.
there = [(place(), depth(), gdb.newest_frame().name())]
for _ in range(STEPS):
    do("stepi")
    there.append((place(), depth(), gdb.newest_frame().name()))
back = [there[-1]]
for _ in range(STEPS):
    do("reverse-stepi")
    back.append((place(), depth(), gdb.newest_frame().name()))
found["instructions"] = [there, back[::-1]]

# Lines and functions, from random places among these instructions. In the dynamic loader gdb takes all for a trampoline that leads
# somewhere else, and asks to be brought far away.
found["moves"] = moves = []
places = [each[0] for each in there]
at = 0
for _ in range(MOVES):
    target = chance.choice([n for n in range(len(there) // 3, len(there)) if there[n][2] and gdb.solib_name(there[n][0][0]) is None])
    if target != at:
        do(f"stepi {target - at}" if target > at else f"reverse-stepi {at - target}")
    at, kind = target, chance.choice(["reverse-step", "reverse-next", "reverse-finish", "reverse-stepi", "reverse-nexti"])
    if kind == "reverse-finish" and (depth() == 0 or gdb.newest_frame().type() == gdb.INLINE_FRAME):
        continue
    before = [at, depth()]
    do(kind)
    now = [n for n, each in enumerate(places) if each == place()]
    moves.append([kind, *before, now, depth(), at_start_of_line()])
    if not now or min(now) >= before[0]:
        break
    at = max(n for n in now if n < before[0])

# Breakpoints from the start, up to the end of the program if it is near.
do(f"reverse-stepi {at}")
for name in FUNCTIONS:
    do("break " + name)
there, back = [], []
while len(there) < HITS:
    do("continue")
    if "exit" in gdb.newest_frame().name():
        break
    there.append((place(), gdb.newest_frame().name()))
if len(there) == HITS:
    back.append(there[-1])
while len(back) < len(there):
    do("reverse-continue")
    back.append((place(), gdb.newest_frame().name()))
found["hits"] = [there, back[::-1]]
do("delete")

# Writes to a variable.
do("watch total")
there, back = [int(gdb.parse_and_eval("total"))], []
for _ in range(6):
    do("continue")
    there.append(int(gdb.parse_and_eval("total")))
for _ in range(6):
    do("reverse-continue")
    back.append(int(gdb.parse_and_eval("total")))
found["values"] = [there, back[::-1]]

with open(result, "w") as file:
    json.dump(found, file)
"""


@pytest.fixture(params=["debug_session_cxx_O2", *(pytest.param(name, marks=pytest.mark.full) for name in ("debug_session_O2", "debug_session_O0", "debug_session_cxx_O0"))])
def walked(request, recorder, tmp_path, tmp_path_factory):
    """(name of the program, what gdb has found)"""
    program, _, level = request.param.rpartition("_")
    recording = record_once(request.param, lambda recorder: recorder.record([BUILD / "targets" / request.param]), tmp_path_factory)
    script, result = tmp_path / "walk.py", tmp_path / "found.json"
    script.write_text(f"STEPS, MOVES, HITS = 150, 40, 16\nFUNCTIONS, result = {FUNCTIONS[program]!r}, {str(result)!r}\n" + WALK)
    with Terminal(recorder, [recorder.friday, "replay", recording.path]) as console:
        console.expect(PROMPT)
        assert "node 0: not started here" in console.command("info endpoints")
        console.command(f"tbreak {START[program]}")
        console.command("continue")
        endpoint = re.search(r"gdb -x (\S+)", console.command("info endpoints"))[1]
        gdb = subprocess.run(["gdb", "-nx", "-q", "-batch", "-iex", "set auto-load off", "-iex", "set confirm off", "-x", endpoint, "-x", script],
                             capture_output=True, text=True, timeout=300 * SLOWNESS, stdin=subprocess.DEVNULL)
        assert result.exists(), gdb.stdout[-2000:] + gdb.stderr[-2000:]
    recorder.none_left()
    return program, json.loads(result.read_text())


def test_what_is_shown_on_the_way_back(walked):
    program, found = walked
    there, back = found["instructions"]
    assert back == there
    assert len(found["moves"]) > 25, found["moves"][-1]
    for kind, at, depth, places, new_depth, starts_a_line in found["moves"]:
        assert places and min(places) < at, "it is a place of the way there, before this one"
        if kind == "reverse-stepi":
            assert at - 1 in places
        if kind in ("reverse-step", "reverse-next"):
            assert starts_a_line
        if kind in ("reverse-next", "reverse-nexti"):
            assert new_depth <= depth
        if kind == "reverse-finish":
            assert new_depth < depth
    there, back = found["hits"]
    assert back == there and len({name for _, name in there}) > 2
    there, back = found["values"]
    assert back == there[:-1] and len(set(there)) == 7
