"""Breakpoints by every kind of name that C++ has: Friday's stand where a plain gdb's stand on the program itself, all of them, and a hit
says which. Names of Friday's own code in the process are no names of the program.
"""

import re

import pytest
from conftest import ROOT
from debug_support import BUILD, break_at, friday, opened, record_once, run_to_end  # noqa: F401
from test_debug_mi import Mi

pytestmark = pytest.mark.limit(60)
LINES = (ROOT / "tests" / "targets" / "debug_session_cxx.cc").read_text().splitlines()


def line_of(text):
    return f"debug_session_cxx.cc:{1 + next(i for i, line in enumerate(LINES) if text in line)}"


LOCATIONS = {
    "overloads": ["measure", "measure(int)", "measure(double)", "measure(shapes::Shape const&)"],
    "templates": ["largest", "largest<int>", "largest<long>(long, long)", "largest<double>"],
    "inlined functions": ["thrice"],
    "namespaces": ["shapes::inner::area", "inner::area", "area", "-qualified shapes::inner::area", "shapes::Shape::area", "shapes::Square::area"],
    "constructors": ["shapes::Shape::Shape", "shapes::Square::Square", "shapes::Shape::Shape(int, std::string)"],
    "destructors": ["shapes::Shape::~Shape", "shapes::Square::~Square"],
    "operators": ["shapes::Shape::operator+=", "shapes::Shape::operator()", "shapes::Shape::operator()(int) const"],
    "lambdas": [line_of("total += more;")],
    "lines": [line_of("return a < b"), line_of("long result = x * 3"), line_of("return x + 1;"), line_of("sides += more;"), line_of("throw std::runtime_error")],
}


@pytest.fixture(scope="module", params=["O0", "O2"])
def program(request, tmp_path_factory):
    path = BUILD / "targets" / f"debug_session_cxx_{request.param}"
    return path, record_once(path.name, lambda recorder: recorder.record([path]), tmp_path_factory)


@pytest.fixture(scope="module")
def native(program):
    """places(LOCATION): where a gdb puts it in the running program, relative to main; None when it refuses."""
    gdb = Mi([program[0]])
    gdb.ask("-inferior-tty-set /dev/null")
    gdb.ask("-break-insert main")
    gdb.resume("-exec-run")
    main = int(re.search(r"0x[0-9a-f]+", gdb.ask('-data-evaluate-expression "&main"'))[0], 16)

    def places(location):
        answer = gdb.ask(f"-break-insert {'-qualified ' if location.startswith('-') else ''}\"{location.removeprefix('-qualified ')}\"")
        return sorted(int(at, 16) - main for at in re.findall(r'\baddr="(0x[0-9a-f]+)"', answer)) if answer.startswith("done") else None

    yield places
    gdb.close()


@pytest.mark.parametrize("kind", LOCATIONS)
def test_breakpoints_stand_where_gdbs_stand(program, native, opened, kind):
    session = opened(program[1])
    main = int(session.node.gdb("output/u (unsigned long)&main"))
    for location in LOCATIONS[kind]:
        expected = native(location)
        try:
            point = session.breakpoint(location)
        except friday.NoSymbol:
            assert expected is None, location
            continue
        places = point.places
        assert sorted(address - main for _, address, _ in places) == expected, location
        assert all(node == 0 and text for node, _, text in places)


def test_a_hit_says_which_place_it_is(program, opened, capsys):
    session = opened(program[1])
    point = session.breakpoint("measure")
    assert len(point.places) == 3
    lines = [session.run().location for _ in range(3)]
    assert [re.sub(r" at .*", "", line) for line in lines] == ["measure(int)", "measure(double)", "measure(shapes::Shape const&)"]
    assert {text for _, _, text in point.places} == set(lines)
    # Each has the scope of its own place.
    point.delete()
    session.restart()
    seen = []
    session.breakpoint("largest", lambda hit: seen.append((hit.location.partition(" at ")[0], hit.node.read("a < b"))))
    inlined = session.breakpoint("thrice", lambda hit: seen.append((hit.location, True)))
    optimised = "O2" in program[0].name
    assert len(inlined.places) == (2 if optimised else 1), "a function that was inlined stands in each that it was inlined into"
    run_to_end(session)
    assert [re.search(r"largest<\w+>|thrice", name)[0] for name, _ in seen] == ["largest<int>", "largest<long>", "largest<double>", *["thrice"] * (2 if optimised else 3)]
    assert [bool(value) for _, value in seen[:3]] == [True, True, False]


def test_names_of_the_shim_are_none_of_the_programs(program, opened):
    session = opened(program[1])
    break_at(session, "use_inline")
    for name in ("friday_dispatch", "friday::shim::replay_wait", "replay_apply", "shim.cc:1", "dispatch.cc:100", "friday_enter"):
        with pytest.raises(friday.Error, match="defined|No source file|No symbol|No function"):
            session.breakpoint(name)
    assert "friday" not in session.node.gdb("info functions friday") .split(":", 1)[1]
    assert "friday-shim" not in session.node.gdb("info sharedlibrary")
    assert [name for name in session.backend.complete(0, "friday") if "friday" in name] == []
    assert [name for name in session.backend.complete(0, "replay_") if name.startswith("replay_")] == []
