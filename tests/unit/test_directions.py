"""Dependencies point one way (docs/architecture.md, "The parts"): who includes whom, read from the sources."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

# What each room may include besides its own files. "shim" is not among them: of the shim others see SHIM_HEADERS only.
ROOMS = {
    "core/base": (),
    "core/shim": (),
    "core/trace": ("core/base",),
    "core/record": ("core/base", "core/trace"),
    "core/stop": ("core/base",),
    "core/rsp": ("core/base", "core/stop"),
    "core/mi": ("core/base",),
    "core/replay": ("core/base", "core/trace", "core/stop"),
    "core/infer": ("core/base", "core/trace", "core/stop", "core/replay"),
    "core/history": ("core/base", "core/trace", "core/replay"),
    "core/debug": ("core/base", "core/trace", "core/stop", "core/rsp", "core/mi", "core/replay", "core/history"),
    "core/origin": ("core/base", "core/trace", "core/stop", "core/replay", "core/history", "core/debug"),
    "core/study": ("core/base", "core/trace"),
    "core/cut": ("core/base",),
    "console": ("core/base", "core/trace", "core/record", "core/stop", "core/rsp", "core/mi", "core/replay", "core/infer", "core/cut", "core/history", "core/debug", "core/study"),
    "pyext": ("core/base", "core/trace", "core/stop", "core/mi", "core/replay", "core/infer", "core/history", "core/debug", "core/origin"),
}
# What the shim shares with those who write and read its traces: formats and the table of calls.
SHIM_HEADERS = {"chaos_draw.h", "shim_abi.h", "trace_format.h", "calls.def", "call_flags.h", "call_numbers.h", "loader.h", "plain.h", "thread_name.h"}
READ_SHIM_HEADERS = ("core/trace", "core/record", "core/replay", "console")


def sources(room: str) -> list[pathlib.Path]:
    return sorted(path for path in (ROOT / room).rglob("*") if path.suffix in (".cc", ".h", ".S", ".def"))


def room_of(path: str) -> str:
    """"core/trace/reader.h" -> "core/trace"."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "core" else parts[0]


def refusal(room: str, included: str) -> str | None:
    """Why a file of the room may not include this one."""
    target = room_of(included)
    if target == room or target not in ROOMS or target in ROOMS[room]:
        return None
    if target == "core/shim" and room in READ_SHIM_HEADERS:
        name = included.rpartition("/")[2]
        return None if name in SHIM_HEADERS else f"of core/shim others may include only {', '.join(sorted(SHIM_HEADERS))}"
    return f"{room} may use only {', '.join(ROOMS[room]) or 'itself'}"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_includes_only_what_stands_below_it(room):
    files = sources(room)
    assert files, f"{room} has no sources"
    wrong = [f"{path.relative_to(ROOT)} includes {included}: {why}"
             for path in files for included in INCLUDE.findall(path.read_text())
             if (why := refusal(room, included))]
    assert not wrong, "\n".join(wrong)


def test_every_room_is_known():
    there = {room_of(str(path.relative_to(ROOT))) for top in ("core", "console", "pyext") for path in sources(top)}
    assert there == set(ROOMS), "a new room needs its line here and in docs/architecture.md"


def test_the_directions_have_no_cycle():
    """The table itself points one way: each room stands behind all that it uses."""
    seen: list[str] = []
    for room, used in ROOMS.items():
        assert all(each in seen for each in used), f"{room} uses {set(used) - set(seen)}, which stands behind it"
        seen.append(room)


@pytest.mark.parametrize("room, included", [("core/base", "core/trace/reader.h"), ("core/replay", "core/mi/session.h"),
                                            ("core/trace", "core/shim/runtime.h"), ("pyext", "core/record/launch.h")])
def test_what_points_the_other_way_is_found(room, included):
    assert refusal(room, included)


def test_replay_and_stop_know_neither_gdb_nor_python():
    wrong = [str(path.relative_to(ROOT)) for room in ("core/base", "core/trace", "core/record", "core/stop", "core/replay")
             for path in sources(room) if re.search(r"#include <(pybind11|Python)", path.read_text())]
    assert not wrong, wrong


def test_the_shim_includes_the_kernels_headers_and_its_own():
    """It is freestanding: no libc. <stdint.h> and <stddef.h> are the compiler's, xxhash is used as a header alone."""
    allowed = re.compile(r"(linux|asm)/|stdint\.h|stddef\.h|xxhash\.h")
    wrong = [f"{path.relative_to(ROOT)}: <{name}>" for path in sources("core/shim")
             for name in re.findall(r"^#include <([^>]+)>", path.read_text(), re.MULTILINE) if not allowed.match(name)]
    assert not wrong, wrong
