"""Modules in Friday's dialect: `import checks` finds checks.fri.py where it would find checks.py, unless there is an ordinary
module of that name.

Importing friday installs the finder. In such a module `@4(srv.load)`, `watchpoint(...)` and the metavariables refer to
`friday.session` as it is when the code runs. So the module may be imported before there is a session, and may be used with
several sessions one after the other.
"""
from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import at
from .handlers import SET_SUITE, compile_script, cont

if TYPE_CHECKING:
    from .sessions import Session

SUFFIX = ".fri.py"


def current_session() -> "Session":
    """`friday.session`. Raises UsageError when it is not set."""
    import friday
    return friday._current()


class _Current:
    """Stands for the session: an access to an attribute goes to what is `friday.session` at that time. Metavariables use it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(current_session(), name)


def module_names() -> dict[str, Any]:
    """The hidden names of rewritten code in a module: those of language.hidden_names, for the current session."""
    def of_session(name: str) -> Callable[..., Any]:
        return lambda *args, **options: current_session().namespace[name](*args, **options)

    forwarded = (at.READ, at.WRITE, at.META, at.QUOTE, at.GDB, SET_SUITE, "watchpoint", "breakpoint")
    return {**{name: of_session(name) for name in forwarded}, at.CONT: cont, at.SESSION: _Current()}


class DialectLoader(SourceFileLoader):
    """Compiles a module from Friday's dialect; there are no cached .pyc files."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        return compile_script(importlib.util.decode_source(data), os.fspath(path))

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(module_names())
        super().exec_module(module)


class DialectFinder(MetaPathFinder):
    """Finds NAME.fri.py in the directories of sys.path and of packages."""

    def __init__(self) -> None:
        self._directories: dict[str, FileFinder] = {}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        for entry in sys.path if path is None else path:
            directory = entry or os.getcwd()
            finder = self._directories.get(directory)
            if finder is None:
                finder = self._directories[directory] = FileFinder(directory, (DialectLoader, [SUFFIX]))
            spec = finder.find_spec(fullname, target)
            if spec is not None and spec.loader is not None:  # otherwise a directory that could be part of a namespace package
                return spec
        return None

    def invalidate_caches(self) -> None:
        for finder in self._directories.values():
            finder.invalidate_caches()


def install() -> None:
    """Adds the finder once, after Python's own finders."""
    if not any(isinstance(finder, DialectFinder) for finder in sys.meta_path):
        sys.meta_path.append(DialectFinder())
