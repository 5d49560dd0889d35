"""Invariants as pytest tests: the fixture `friday_session` is a fresh session on each `--recording`.

    def test_ring_stays_closed(friday_session):
        @friday_session.watch("srv.successor")
        def closed():
            node = friday_session.node
            assert node.read("srv.node.id") != node.read("srv.successor->id")

If a test does not run the group itself, the group is run to its end after the test function returns. An assertion that fails in a handler,
or a violation that a predicate reports, does not end the run; at the end, the test fails with the violations found and their evidence. In modules
named test_*.fri.py `@` may be used.

    $ PYTHONPATH=$(friday --python-path) /usr/bin/python3 -m pytest --recording monday --recording tuesday

`--recording REC` may be repeated: each test then runs on each recording. Without it the tests are skipped, unless a conftest.py defines the
fixture `friday_recording`, which returns a path. `--friday-symbols DIR` has the same effect as `friday run --symbols`. The marker
`friday_nodes("0-3,!2")` makes a test replay only these nodes, `friday_sync("causal")` makes it replay in another order. pytest finds the
plugin by itself if the directory that `friday --python-path` prints is in PYTHONPATH.
"""
from __future__ import annotations

import functools
import os
import sys
from types import ModuleType, TracebackType
from typing import Any, Callable, Iterator

import pytest

import friday

from .errors import Error
from .handlers import compile_tree, script_tree
from .modules import SUFFIX, module_names
from .reports import short_names
from .violations import PACKAGE, Violation

_SESSION: Any = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("friday", "recordings replayed by Friday")
    group.addoption("--recording", action="append", default=[], metavar="REC",
                    help="run the tests that use friday_session on this recording; may be repeated")
    group.addoption("--friday-symbols", action="append", default=[], metavar="DIR",
                    help="directory with .build-id/ of separate debug information; may be repeated")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "friday_nodes(list): replay only these nodes, e.g. '0-3,!2' or 'redis-*'")
    config.addinivalue_line("markers", "friday_sync(order): replay in this order, 'clock' (as without it), 'causal' or 'free'")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    recordings = metafunc.config.getoption("recording")
    if "friday_recording" in metafunc.fixturenames and recordings:
        metafunc.parametrize("friday_recording", recordings, ids=short_names(recordings))


@pytest.fixture
def friday_recording() -> str:
    """The path of the recording: each `--recording` in turn. A conftest.py may define this fixture to have one without the option."""
    pytest.skip("no recording: pytest --recording REC")


@pytest.fixture
def friday_session(request: pytest.FixtureRequest, friday_recording: str) -> Iterator[friday.Session]:
    """A friday.Session on the recording, at its start; it is `friday.session` too. See the head of the plugin."""
    session = _opened(friday_recording, _marked(request, "friday_nodes", None), _marked(request, "friday_sync", "clock"),
                      request.config.getoption("friday_symbols"))
    session.collecting = True
    before, friday.session = friday.session, session
    request.node.stash[_SESSION] = session
    with session:
        yield session
    friday.session = before


def _opened(recording: str, nodes: str | None, sync: str, symbols: list[str]) -> friday.Session:
    try:
        return friday.Session(recording, nodes=nodes, sync=sync, symbols=symbols)
    except Error as error:
        refused = str(error)
    pytest.fail(refused, pytrace=False)


def _marked(request: pytest.FixtureRequest, name: str, default: Any) -> Any:
    """The argument of the closest marker of a name."""
    marker = request.node.get_closest_marker(name)
    if marker is None:
        return default
    if len(marker.args) != 1 or marker.kwargs:
        raise pytest.UsageError(f"{request.node.nodeid}: the marker {name} takes one argument")
    return marker.args[0]


# -- running ----------------------------------------------------------------------------------------------------------
@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    session = pyfuncitem.stash.get(_SESSION, None)
    if session is None:
        yield
        return
    function = pyfuncitem.obj
    pyfuncitem.obj = _checked(function, session, pyfuncitem)
    try:
        yield
    finally:
        pyfuncitem.obj = function


def _checked(function: Callable[..., Any], session: friday.Session, item: pytest.Function) -> Callable[..., Any]:
    """The test function, then the rest of the run and the verdict."""
    @functools.wraps(function)
    def test(*args: Any, **options: Any) -> None:
        __tracebackhide__ = True
        try:
            function(*args, **options)
            if not session._has_run and (session.points or session.at_end_functions or session.at_exit_functions):
                session.run()
        except Exception as error:
            item.add_report_section("call", "friday", "\n".join([f"{session!r}, at {session.node!r}", *([_verdict(session)] if session.violations else [])]))
            raise error.with_traceback(_without_package(error.__traceback__))
        if session.violations:
            pytest.fail(_verdict(session), pytrace=False)
    return test


def _without_package(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package, but for the innermost if nothing else is left."""
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    chain = None
    for each in reversed([f for f in frames if not f.tb_frame.f_code.co_filename.startswith(PACKAGE)] or frames[-1:]):
        chain = TracebackType(chain, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return chain


def _verdict(session: friday.Session) -> str:
    """The first violation of each predicate in full, and how many more there are."""
    of_predicate: dict[str, list[Violation]] = {}
    for violation in session.violations:
        of_predicate.setdefault(violation.predicate, []).append(violation)
    lines = [f"node {node} ({node.name}) was altered since {since}" for node, since in session.altered.items()]
    for predicate, found in of_predicate.items():
        lines += [str(found[0]), *([f"and {len(found) - 1} more of {predicate}"] if len(found) > 1 else [])]
    lines += [f"{session.violations_dropped} more violations are not kept"] if session.violations_dropped else []
    return "\n".join(lines)


# -- modules in the dialect -------------------------------------------------------------------------------------------
class DialectModule(pytest.Module):
    """A test module test_*.fri.py. Its assertions are explained as pytest explains those of other modules."""

    def _getobj(self) -> ModuleType:
        path = os.fspath(self.path)
        name = self.path.name.removesuffix(SUFFIX)
        try:
            with open(path, encoding="utf-8") as file:
                source = file.read()
            tree = script_tree(source, path)
            _explain_assertions(tree, source, path, self.config)
            module = ModuleType(name)
            module.__file__ = path
            module.__dict__.update(module_names())
            if os.path.dirname(path) not in sys.path:
                sys.path.insert(0, os.path.dirname(path))  # as pytest does for a module without a package
            exec(compile_tree(tree, path), module.__dict__)
        except SyntaxError as error:
            raise self.CollectError(f"{path}:{error.lineno}: {error.msg}\n    {(error.text or '').strip()}") from error
        return module


def _explain_assertions(tree: Any, source: str, path: str, config: pytest.Config) -> None:
    if config.getoption("assertmode") != "rewrite":
        return
    from _pytest.assertion.rewrite import rewrite_asserts
    rewrite_asserts(tree, source.encode(), path, config)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Any, parent: Any) -> pytest.Module | None:
    if module_path.name.endswith(SUFFIX):
        return DialectModule.from_parent(parent, path=module_path)
    return None
