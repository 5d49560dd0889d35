"""Recording goes on behind a seccomp filter that allows all system calls which the shim makes by itself (core/shim/filters.cc). The list of these is
compared with the shim's code here."""

import pathlib
import re

SHIM = pathlib.Path(__file__).parents[2] / "core" / "shim"


def calls_in(text: str) -> set[str]:
    """The calls that code makes: native(sys::NAME, and friday_interruptible(area, sys::NAME."""
    return set(re.findall(r"\b(?:native|friday_interruptible)\((?:area, )?sys::(\w+)", text))


def test_all_calls_of_the_shim_are_in_the_list():
    made = set().union(*(calls_in(path.read_text()) for path in SHIM.iterdir() if path.suffix in (".cc", ".h")))
    made |= set(re.findall(r"__NR_(\w+)", (SHIM / "entry.S").read_text()))
    listed = set(re.findall(r"sys::(\w+)", re.search(r"kOwnCalls\[\] = \{(.*?)\}", (SHIM / "filters.cc").read_text(), re.DOTALL)[1]))
    assert made - listed == {"ptrace"}, "the shim makes calls that no filter is asked about"  # which it makes where the program has made it
    assert listed - made <= {"write"}, "the shim does not make these calls"


def test_what_is_found():
    assert calls_in("x = native(sys::read, 1); friday_interruptible(area, sys::poll, wait); native((long)frame->rax, a[0])") == {"read", "poll"}
