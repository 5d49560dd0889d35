"""Modules *.fri.py: found by import, and of the session that is current when their code runs."""
import importlib
import sys
import traceback

import pytest
from fake_backend import Event, FakeBackend

import friday


def session_of(events=(), **variables):
    backend = FakeBackend(("a", "b"), events)
    for node in (0, 1):
        backend.let(node, {name: value + node for name, value in variables.items()})
    return friday.Session(backend)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory to import from; what is imported from it is forgotten."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before, friday.session = set(sys.modules), None
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]
    friday.session = None


def test_a_module_serves_one_session_after_the_other(place):
    (place / "fri_checks.fri.py").write_text('''"""Its docstring."""
LIMIT = 10
seen = []

def both():
    return [@n(x) for n in __ALL__]

def set_up():
    watchpoint(["x"])
        seen.append((__NODE__, @(x), __LOGICALCLOCK__))
        cont

def write(value):
    @1(x = %(value)d)
''')
    import fri_checks
    assert fri_checks.__doc__ == "Its docstring." and fri_checks.__file__ == str(place / "fri_checks.fri.py")
    with pytest.raises(friday.UsageError, match="no session"):
        fri_checks.both()
    for start in (1, 5):
        friday.session = session_of([Event(1, changes={"x": 9})], x=start)
        assert fri_checks.both() == [start, start + 1]
        fri_checks.set_up()
        friday.session.run()
        fri_checks.write(start)
        assert friday.session.nodes[1].read("x") == start
    assert fri_checks.seen == [(1, 9, 1), (1, 9, 1)]
    assert not (place / "__pycache__").exists(), "code of another dialect's version must not be kept"


def test_packages_and_reloading(place):
    (place / "fri_pack").mkdir()
    (place / "fri_pack" / "__init__.py").write_text("")
    inner = place / "fri_pack" / "inner.fri.py"
    inner.write_text("from fri_other import double\ndef value():\n    return double(@(x))\n")
    (place / "fri_other.fri.py").write_text("def double(v): return v * 2 + @'b'(x)\n")
    from fri_pack import inner as module
    friday.session = session_of(x=3)
    assert module.value() == 10
    inner.write_text("def value():\n    return @'b'(x)\n")
    assert importlib.reload(module).value() == 4


def test_ordinary_modules_come_first(place):
    (place / "fri_same.py").write_text("which = 'plain'\n")
    (place / "fri_same.fri.py").write_text("which = 'dialect'\n")
    import fri_same
    assert fri_same.which == "plain"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fri_absent")
    assert sum(type(finder).__name__ == "DialectFinder" for finder in sys.meta_path) == 1


def test_errors_show_the_users_line(place):
    (place / "fri_wrong.fri.py").write_text("ok = 1\n@(x += 1)\n")
    with pytest.raises(SyntaxError) as caught:
        import fri_wrong  # noqa: F401
    assert (caught.value.lineno, caught.value.text) == (2, "@(x += 1)") and caught.value.filename == str(place / "fri_wrong.fri.py")
    (place / "fri_raises.fri.py").write_text("def f():\n    return 1 / @(x)\n")
    import fri_raises
    friday.session = session_of(x=0)
    with pytest.raises(ZeroDivisionError) as caught:
        fri_raises.f()
    assert "1 / @(x)" in traceback.extract_tb(caught.tb)[-1].line
