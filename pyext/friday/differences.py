"""Where two values differ: fields, elements, and what containers hold, for the command `diff`."""
from __future__ import annotations

from collections import Counter
from typing import Any, Iterator, Sequence

from .containers import Items, Map
from .values import Array, Bytes, Snapshot, Str, Struct, c_quote

Difference = tuple[str, Any, Any]  # the path, and what stands there in either value

_SETS = frozenset({"set", "multiset", "unordered_set", "unordered_multiset", "flat_set", "flat_multiset", "flat_hash_set", "node_hash_set"})
_MULTIMAPS = frozenset({"multimap", "unordered_multimap", "flat_multimap"})


class _None:
    """Stands for what one of the two values does not have."""

    def __repr__(self) -> str:
        return "none"


NONE = _None()


def differences(path: str, a: Any, b: Any) -> Iterator[Difference]:
    """The places where two values differ, down to fields and items; what one of them lacks is NONE there. Sequences are compared index by
    index, maps key by key, and sets by what is in only one of them, wherever it stands."""
    if isinstance(a, Map) and isinstance(b, Map):
        yield from _by_key(path, a, b)
    elif isinstance(a, Items) and isinstance(b, Items) and _standard(a, b) <= _MULTIMAPS:
        yield from _by_key(path, _grouped(a), _grouped(b))
    elif isinstance(a, Items) and isinstance(b, Items) and _standard(a, b) <= _SETS:
        yield from _as_sets(path, a, b)
    elif isinstance(a, (Items, Array)) and isinstance(b, (Items, Array)):
        yield from _by_index(path, a, b)
    elif isinstance(a, Struct) and isinstance(b, Struct) and a.type.kind == b.type.kind == "struct":
        yield from _by_field(path, dict(a), dict(b))
    elif a != b:
        yield path, a, b


def _standard(a: Items, b: Items) -> set[str]:
    return {a.type.standard, b.type.standard}


def _by_field(path: str, a: dict[str, Any], b: dict[str, Any]) -> Iterator[Difference]:
    for name in {**a, **b}:
        yield from differences(f"{path}.{name}", a.get(name, NONE), b.get(name, NONE))


def _by_index(path: str, a: Sequence[Any], b: Sequence[Any]) -> Iterator[Difference]:
    for i in range(max(len(a), len(b))):
        yield from differences(f"{path}[{i}]", a[i] if i < len(a) else NONE, b[i] if i < len(b) else NONE)


def _by_key(path: str, a: Any, b: Any) -> Iterator[Difference]:
    for key in {**dict.fromkeys(a), **dict.fromkeys(b)}:
        yield from differences(f"{path}[{shown(key)}]", a[key] if key in a else NONE, b[key] if key in b else NONE)


def _grouped(pairs: Items) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _as_sets(path: str, a: Items, b: Items) -> Iterator[Difference]:
    left, right = Counter(a), Counter(b)
    for item in {**left, **right}:
        if left[item] != right[item]:
            yield f"{path} holds {shown(item)}", _times(left[item]), _times(right[item])


def _times(count: int) -> Any:
    return NONE if not count else "once" if count == 1 else f"{count} times"


def shown(value: Any, most: int = 60) -> str:
    """A value on a line, cut off after `most` characters: texts of a program in quotes."""
    if isinstance(value, (Str, Bytes)):
        text = c_quote(value)
    else:
        text = str(value) if isinstance(value, (Snapshot, str)) else repr(value)
    return text if len(text) <= most else text[:most - 4] + " ..."
