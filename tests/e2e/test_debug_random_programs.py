"""Random expressions over random programs (random_program.py): what Friday reads is what a plain gdb reads at the same place. Each group has
three nodes of one program, of which two load a library at run time: each one of its own, with the same names in it.

FRIDAY_PROGRAM_SEEDS=FIRST-LAST chooses the programs.
"""
import os

import pytest
import random_program
from debug_support import friday, opened  # noqa: F401
from test_debug_oracle import try_seed

pytestmark = pytest.mark.limit(120)
EXTRA = ["state0", "total0", "total1", "table1", "pool_T0", "pool_T1", "f0::whole", "f1::item", "f1::item2", "sink", "main::argc", "run::n"]


def seeds():
    first, _, last = os.environ.get("FRIDAY_PROGRAM_SEEDS", "1-24").partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("seed", [seed if seed == 1 else pytest.param(seed, marks=pytest.mark.full) for seed in seeds()])
def test_friday_says_what_gdb_says_of_a_random_program(seed, recorder, opened, tmp_path):
    program, libraries = random_program.build(seed, tmp_path)
    nodes = [{"name": "alone", "command": [str(program)]}] + [{"name": path.stem, "command": [str(program), str(path)]} for path in libraries]
    session = opened(recorder.group({"node": nodes}))
    wrong = try_seed(session, ["stop_here", "-pending stop_there"], EXTRA, seed, tmp_path, 40)
    assert not wrong, "\n".join(wrong)
