"""What handlers have collected goes back in time with the group.

A handler may count, remember and compare: in names of the session, in its own names, in objects of predicates. When the group
goes back, all of this becomes what it was at that time. For this, the state is copied whenever the group gets a checkpoint. After
a return, the copy of the last checkpoint before that place is put back, and the handlers of what lies between run again, with
their output held back.

A copy holds the contents of each mutable object that can be reached from the session's names and from the handlers; putting it
back changes those same objects. What the user sets at the console belongs to no time and stays.
"""
from __future__ import annotations

import array
import bisect
import collections
import contextlib
import functools
import gc
import io
import random
import sys
import sysconfig
import time
import types
from typing import TYPE_CHECKING, Any, Callable, Collection, Iterator

if TYPE_CHECKING:
    from .backend import Stop
    from .sessions import Session

_IMMUTABLE = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range, slice, types.CodeType, types.BuiltinFunctionType)
_CONTAINERS = (dict, list, collections.deque, set, bytearray, array.array)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_HIDING_MODULES = frozenset(("_thread", "threading", "socket", "_socket", "selectors", "subprocess", "queue", "sqlite3"))
_UNCOPYABLE = (io.IOBase, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_LIBRARIES = tuple(filter(None, {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})) + ("/usr/lib/python3",)


def _is_fridays(thing: type) -> bool:
    return thing.__module__.split(".")[0] in (__package__, "_friday")


def is_users_module(module: types.ModuleType) -> bool:
    """Whether a module is the user's or a predicate: neither Friday, nor Python's, nor one that is installed."""
    path = getattr(module, "__file__", None)
    return bool(path) and not module.__name__.startswith((__package__ or "friday", "_friday")) and not path.startswith(_LIBRARIES)


def _is_users_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return kind.__module__ in ("__friday__", "__main__") or (module is not None and is_users_module(module))


class Snapshot:
    """The contents of all mutable objects that can be reached from some roots."""

    def __init__(self, roots: "list[Any]", own: "dict[str, Any]") -> None:
        """own: a dictionary of which only some names belong to the state; it is the session's namespace without what the session has
        put there."""
        self._kept: list[tuple[Any, Callable[[Any], None], Any]] = []
        self.uncopied: dict[str, Any] = {}  # what cannot be copied, by the names that lead to it
        self.names = dict(own)
        self._seen: set[int] = set()
        waiting: list[tuple[str, Any]] = [(name, value) for name, value in own.items()] + [("a handler", root) for root in roots]
        while waiting:
            where, thing = waiting.pop()
            if isinstance(thing, _IMMUTABLE) or id(thing) in self._seen:
                continue
            self._seen.add(id(thing))
            waiting.extend((where, inner) for inner in self._keep(where, thing))
        del self._seen

    def _add(self, thing: Any, restore: Callable[[Any], None], contents: Any) -> Any:
        self._kept.append((thing, restore, contents))
        return contents

    def _keep(self, where: str, thing: Any) -> "Iterator[Any] | list[Any]":
        """Keeps the contents of one object, and returns what they refer to."""
        kind = type(thing)
        if isinstance(thing, types.ModuleType):
            return self._keep_module(thing) if is_users_module(thing) else []
        if isinstance(thing, types.FunctionType):
            module = sys.modules.get(thing.__module__ or "")
            return [*(thing.__closure__ or ()), thing.__defaults__, thing.__kwdefaults__, *self._keep_attributes(thing),
                    *([module] if module and is_users_module(module) else [])]
        if isinstance(thing, functools.partial):
            return [thing.func, thing.args, thing.keywords, *self._keep_attributes(thing)]
        if isinstance(thing, (staticmethod, classmethod)):
            return [thing.__func__]
        if isinstance(thing, property):
            return [thing.fget, thing.fset, thing.fdel]
        if isinstance(thing, type):
            return self._keep_class(thing) if _is_users_class(thing) else []
        if isinstance(thing, types.MethodType):
            return [thing.__self__, thing.__func__]
        if isinstance(thing, types.CellType):
            return self._keep_cell(thing)
        if isinstance(thing, (tuple, frozenset)):
            return list(thing)
        if isinstance(thing, _VIEWS):
            return gc.get_referents(thing)
        if isinstance(thing, types.MappingProxyType):
            return _behind_proxy(thing)
        if _is_fridays(kind):
            return []
        if isinstance(thing, _UNCOPYABLE) or _is_opaque(thing):
            self.uncopied.setdefault(where, thing)
            return []
        inner: list[Any] = []
        if isinstance(thing, dict):
            items = self._add(thing, _restore_dict(thing), list(dict.items(thing)))
            inner += [part for item in items for part in item]
        elif isinstance(thing, _CONTAINERS):
            contents = self._add(thing, _restore_sequence(thing), list(thing))
            inner += contents if not isinstance(thing, (bytearray, array.array)) else []
        elif isinstance(thing, random.Random):
            self._add(thing, thing.setstate, thing.getstate())
        return [*inner, *self._keep_attributes(thing)]

    def _keep_module(self, module: types.ModuleType) -> list[Any]:
        """Keeps the names that a module has now. A name that it gets later stays."""
        inner = []
        for name, value in list(vars(module).items()):
            if not name.startswith("__"):
                inner.append(self._add(module, _restore_name(module, name), value))
        return inner

    def _keep_class(self, kind: type) -> list[Any]:
        inner = []
        for name, value in list(vars(kind).items()):
            if isinstance(value, (types.FunctionType, staticmethod, classmethod, property)):
                inner.append(value)
            if not name.startswith("__") and not isinstance(value, (staticmethod, classmethod, property)):
                inner.append(self._add(kind, _restore_class(kind, name), value))
        return inner

    def _keep_cell(self, cell: types.CellType) -> list[Any]:
        try:
            contents = cell.cell_contents
        except ValueError:  # it has no value yet
            def empty(_: Any) -> None:
                with contextlib.suppress(ValueError):
                    del cell.cell_contents
            self._add(cell, empty, None)
            return []

        def fill(value: Any) -> None:
            cell.cell_contents = value
        self._add(cell, fill, contents)
        return [contents]

    def _keep_attributes(self, thing: Any) -> list[Any]:
        inner: list[Any] = []
        own = getattr(thing, "__dict__", None)
        if isinstance(own, dict):
            inner += [value for _, value in self._add(own, _restore_dict(own), list(own.items()))]
        for name in _slots(type(thing)):
            missing = object()
            value = getattr(thing, name, missing)
            if value is not missing:
                with contextlib.suppress(AttributeError, TypeError):
                    inner.append(self._add(thing, _restore_slot(thing, name), value))
        return inner

    def restore(self, own: "dict[str, Any]", preset: "frozenset[str]") -> None:
        """Puts everything back; `own` is the namespace now, of which the names in `preset` stay."""
        for thing, restore, contents in self._kept:
            restore(contents)
        for name in [name for name in own if name not in preset and name not in self.names]:
            del own[name]
        own.update(self.names)


def _behind_proxy(proxy: "types.MappingProxyType[Any, Any]") -> list[Any]:
    """The mapping that a read-only view shows; of the attributes of a class, which only the class itself may set, their values."""
    shown = gc.get_referents(proxy)
    if len(shown) == 1 and type(shown[0]) is dict and "__doc__" in shown[0]:  # which each class has
        return list(shown[0].values())
    return shown


def _is_opaque(thing: Any) -> bool:
    """Whether it is an object of C code with contents that nobody can see: a socket, a lock, a thread, an iterator."""
    kind = type(thing)
    return kind.__module__ in _HIDING_MODULES or (_has_hidden_contents(kind) and not hasattr(thing, "__dict__"))


@functools.lru_cache(maxsize=4096)
def _has_hidden_contents(kind: type) -> bool:
    """Whether objects of a type can be changed (an array of numpy, which cannot be hashed; an iterator) and show nothing but attributes."""
    if issubclass(kind, _CONTAINERS) or _slots(kind):
        return False
    return hasattr(kind, "__next__") or kind.__hash__ is None


@functools.lru_cache(maxsize=4096)
def _slots(kind: type) -> tuple[str, ...]:
    """The names of the slots that objects of a type have."""
    found: dict[str, None] = {}
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        found.update((name, None) for name in ((slots,) if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__"))
    return tuple(found)


def _is_same(now: "list[tuple[Any, Any]]", then: "list[tuple[Any, Any]]") -> bool:
    return len(now) == len(then) and all(one[0] is other[0] and one[1] is other[1] for one, other in zip(now, then))


def _restore_dict(thing: "dict[Any, Any]") -> Callable[[Any], None]:
    def restore(items: Any) -> None:
        if _is_same(list(dict.items(thing)), items):
            return
        dict.clear(thing)
        dict.update(thing, items)
        if isinstance(thing, collections.OrderedDict):
            for key, _ in items:
                thing.move_to_end(key)
    return restore


def _restore_sequence(thing: Any) -> Callable[[Any], None]:
    def restore(contents: Any) -> None:
        if len(thing) == len(contents) and all(now is then for now, then in zip(thing, contents)):
            return
        if isinstance(thing, (set, collections.deque)):
            thing.clear()
            thing.update(contents) if isinstance(thing, set) else thing.extend(contents)
        else:
            thing[:] = array.array(thing.typecode, contents) if isinstance(thing, array.array) else contents
    return restore


def _restore_class(kind: type, name: str) -> Callable[[Any], None]:
    def restore(value: Any) -> None:
        if vars(kind).get(name) is not value:
            type.__setattr__(kind, name, value)
    return restore


def _restore_name(module: types.ModuleType, name: str) -> Callable[[Any], None]:
    def restore(value: Any) -> None:
        vars(module)[name] = value
    return restore


def _restore_slot(thing: Any, name: str) -> Callable[[Any], None]:
    def restore(value: Any) -> None:
        object.__setattr__(thing, name, value)
    return restore


_MOST_MOVES = 128  # at least as many as `undo` and `redo` keep


class _Copy:
    def __init__(self, events: int, index: int, snapshot: Snapshot) -> None:
        self.events, self.index, self.snapshot = events, index, snapshot


class States:
    """The state of the handlers of a session, at each of its checkpoints."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.on = False
        self.again = False  # True while handlers run again over what they have seen before
        self._log: list[int] = []  # for each run of handlers so far, how many events the group had completed
        self._index = 0  # how many of them the state of now has seen
        self._copies: dict[int, _Copy] = {}  # by the number of the checkpoint
        self._last: _Copy | None = None  # the last copy that was taken; it holds while no handler runs
        self._moves: dict[int, _Copy] = {}  # of the places to which `undo` goes back, by their tags
        self._tags = 0
        self._selected: dict[int, int] = {}  # by tag: the node that was selected
        self._told: set[str] = set()
        self._aside = False

    @contextlib.contextmanager
    def set_aside(self) -> Iterator[None]:
        """For a search that runs the group without the user's handlers: what runs meanwhile is no part of their past, and their state stays
        what it is. Call arrived() behind it unless the group stands where it stood before."""
        kept = self._aside
        if not kept:
            self.note(passing=True)
        self._aside = True
        try:
            yield
        finally:
            self._aside = kept
            if self.on and not kept:
                self.session.backend.new_checkpoints()  # those that the search has made have no copy

    @property
    def go_back(self) -> bool:
        """Whether what handlers have collected goes back with the group, so that none of it belongs to an earlier run."""
        return self.on and self.session.backend.sync() == "clock"

    def _counts(self) -> bool:
        """Whether what runs now is part of the handlers' past."""
        return self.on and not self._aside

    def set_on(self, on: bool) -> None:
        self.on = on
        self._copies.clear()
        self._moves.clear()
        self._log, self._index, self._last = [], 0, None
        self.session.backend.new_checkpoints()  # those of before have no copy

    # -- forward
    def will_run(self) -> None:
        """Call before the group runs forward with handlers: what they saw behind this place belongs to another past now."""
        self.note(passing=True)
        if not self._counts() or self._index == len(self._log):
            return
        done = self.session.backend.events_done()
        del self._log[self._index:]
        self.session.backend.drop_checkpoints(done)
        self._copies = {number: copy for number, copy in self._copies.items() if copy.events <= done and copy.index <= self._index}

    def note(self, passing: bool = False) -> None:
        """Call when the group has stopped, before any handler runs: copies the state for the checkpoints that the run has made. passing:
        the run has called no handlers, so this is only done for checkpoints at which the state was what it is now."""
        if not self._counts() or not (made := self.session.backend.new_checkpoints()):
            return
        began = time.monotonic()
        for number, events in made:
            if not passing or bisect.bisect_left(self._log, events) == self._index == bisect.bisect_right(self._log, events):
                self._copies[number] = _Copy(events, self._index, self._now().snapshot)
        known = {number for number, _ in self.session.backend.checkpoint_numbers()}
        self._copies = {number: copy for number, copy in self._copies.items() if number in known}
        self.session.backend.note_copy(time.monotonic() - began)

    def ran(self) -> None:
        """Call when handlers will have run."""
        if self._counts() and not self.again and self._index == len(self._log):
            self._log.append(self.session.backend.events_done())
            self._index += 1
            self._last = None

    def has_seen_this(self) -> bool:
        """Whether handlers have run for this stop before. Then the state of now holds what they did, or arrived() calls them again."""
        done = self.session.backend.events_done() if self.on else 0
        return self.on and bisect.bisect_left(self._log, done) != bisect.bisect_right(self._log, done)

    def set_by_user(self, before: "dict[str, Any]", names: "Collection[str] | None" = None) -> None:
        """Call when the user has executed Python at the console, with the namespace as it was before: what has changed stays when the group goes back.
        names: only these can be the user's."""
        own = self._own()
        self._last = None
        gone = [name for name in before.keys() - own.keys() if names is None or name in names]
        new = {name: value for name, value in own.items() if (name not in before or before[name] is not value) and (names is None or name in names)}
        for copy in [*self._copies.values(), *self._moves.values()]:
            for name in gone:
                copy.snapshot.names.pop(name, None)
            copy.snapshot.names.update(new)

    # -- back
    def tag(self) -> int:
        """A tag for the place where the group stands, to come back to the state of now with returned()."""
        self._tags += 1
        self._selected[self._tags] = self.session.here
        self._selected.pop(self._tags - _MOST_MOVES, None)
        if self.on:
            self._moves[self._tags] = self._now()
            self._moves.pop(self._tags - _MOST_MOVES, None)
        return self._tags

    def selected(self, tag: int, otherwise: int) -> int:
        """The node that was selected at the place with this tag."""
        return self._selected.get(tag, otherwise)

    def returned(self, tag: int) -> None:
        """Call when the group has come back to the place with this tag."""
        if (copy := self._moves.get(tag)) is not None:
            self.note(passing=True)
            self._put_back(copy)

    def arrived(self) -> None:
        """Call when the group was brought to a place without running handlers: makes the state what it was there."""
        if not self._counts() or not self._log:
            return
        self.note(passing=True)
        done = self.session.backend.events_done()
        first, behind = bisect.bisect_left(self._log, done), bisect.bisect_right(self._log, done)
        if first == behind == self._index:
            return
        for number, copy in sorted(self._copies.items(), key=lambda each: -each[1].events):
            if copy.events > done or copy.index > behind:
                continue
            if copy.index == first == behind:
                return self._put_back(copy)
            if copy.events < done and self._come_again(number, copy):
                if self._index < first:
                    self.session.notice("what handlers have collected is not all that they had at this time: stop points have been deleted or disabled since")
                return
        self.session.notice("what handlers have collected could not go back to this time: no checkpoint before it is left")

    def _come_again(self, number: int, copy: _Copy) -> bool:
        """Puts the copy back and runs the handlers behind it again, up to where the group stands. False if the checkpoint is gone."""
        session = self.session
        kept = (session.here, session.last_stop, session._point, session._standing, session.stop_asked, session.finished)
        notice = session.notice
        session.notice = lambda text: None  # type: ignore[method-assign]
        self._put_back(copy)
        self.again = session._running = session._in_handler = True
        held = io.StringIO()
        try:
            with contextlib.redirect_stdout(held), contextlib.redirect_stderr(held):
                return session.backend.come_again(number, self._hit)
        finally:
            self.again = session._running = session._in_handler = False
            session.notice = notice  # type: ignore[method-assign]
            session.here, session.last_stop, session._point, session._standing, session.stop_asked, session.finished = kept
            self._last = None

    def _hit(self, stop: "Stop") -> None:
        self._index += 1 if self.session.run_again(stop) else 0

    def _put_back(self, copy: _Copy) -> None:
        copy.snapshot.restore(self.session.namespace, self.session._preset)
        self._index, self._last = copy.index, None
        self.session._declare()

    # -- copies
    def _own(self) -> "dict[str, Any]":
        session = self.session
        return {name: value for name, value in session.namespace.items() if name not in session._preset}

    def _now(self) -> _Copy:
        if self._last is None:
            session = self.session
            roots: list[Any] = [point.run for point in session.points.values() if point.run is not None]
            roots += [*session.at_exit_functions, *session.at_end_functions, session.state]
            self._last = _Copy(0, self._index, Snapshot(roots, self._own()))
            for where, thing in self._last.snapshot.uncopied.items():
                if where not in self._told:
                    self._told.add(where)
                    session.notice(f"{where} holds a {type(thing).__name__}, which cannot go back in time with the group; keep what a handler collects in plain values, lists and dicts")
        return self._last
