"""Containers and smart pointers of the C++ standard library (libstdc++ and libc++), Boost and Abseil as Python values.

    std::string, string_view, unique_ptr, ...   Python
    string, string_view of char                 Str, or Bytes when it is not UTF-8; of other characters: Items of numbers
    vector, deque, list, forward_list, array,   Items: a tuple
      set, multiset, tuple, their unordered_
      forms, queue, stack, priority_queue
    map, unordered_map                          Map: a mapping, in the container's order
    multimap, unordered_multimap                Items of (key, value)
    unique_ptr, shared_ptr, weak_ptr            Pointer; the object that it points to is not copied
    optional                                    its value, or None
    variant                                     the value of its alternative, or None if it is valueless by exception
    atomic                                      its value
    of Boost: vector, small_vector, static_     Items
      vector, array, flat_set
    flat_map                                    Map
    optional, shared_ptr, scoped_ptr, ...       as those of the standard library
    of Abseil: InlinedVector, FixedArray,       Items
      flat_hash_set, node_hash_set
    flat_hash_map, node_hash_map                Map

A container is copied with all its items when it is read, so that it is a snapshot like every other value: `follow` makes it from the
object's bytes and the node's memory. Containers inside a struct are copied with it. The memory may not hold a valid container (before
its constructor has run, after its destructor, or when it is damaged); then `Unreadable` says what is wrong. The layouts are those of GCC
5 to 14 (the new ABI of strings and lists), of libc++ 14 and 19, of Boost 1.74 and of Abseil 20220623.
"""
from __future__ import annotations

import re
from typing import Any, Callable, Iterator, Mapping

from .errors import BadAddress, BadExpression
from .values import Array, Decoder, Member, Snapshot, Struct, Type

Memory = Callable[[int, int], bytes]  # (address, size) -> the bytes there; raises BadAddress
MOST_ITEMS = 1_000_000
MOST_BYTES = 64 << 20


TEXTS = ("basic_string", "basic_string_view")


class Unreadable(Exception):
    """The memory does not hold a valid container. The text completes the sentence "this vector ...": "holds -3 items"."""


class Unknown(Unreadable):
    """The type of a container has not the members of a known layout. The text completes the same sentence."""


class Gone(Exception):
    """The memory that is needed has changed since, and its earlier bytes are not known. The text says why."""


class Items(tuple, Snapshot):
    """The items of a container, in the container's order: a tuple that has also its `.type`, its `.address` and the bytes of the object."""

    def __init__(self, *_: Any) -> None:
        self.bytes: bytes = b""
        self.address: int | None = None

    def __repr__(self) -> str:
        more = ", ..." if len(self) > 200 else ""
        return "{" + ", ".join(repr(value) for value in self[:200]) + more + "}"

    __str__ = __repr__


class Map(Mapping[Any, Any], Snapshot):
    """The pairs of a map, in the map's order: a mapping that is hashable."""

    def __init__(self, pairs: Any) -> None:
        self._pairs = dict(pairs)
        self.bytes: bytes = b""
        self.address: int | None = None

    def __getitem__(self, key: Any) -> Any:
        return self._pairs[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __hash__(self) -> int:
        return hash(frozenset(self._pairs.items()))

    def __repr__(self) -> str:
        shown = [f"[{key!r}] = {value!r}" for key, value, _ in zip(self._pairs, self._pairs.values(), range(200))]
        return "{" + ", ".join(shown + ["..."] * (len(self) > 200)) + "}"


class _Holding:
    """Base of structs and arrays that hold containers: keeps the values of these, by offset in the object. The names of its
    attributes begin with _friday_, so that no field of a program has them."""

    __slots__ = ()

    def _friday_piece(self, type_: Type, offset: int, size: int) -> Any:
        data, address = self.bytes[offset:offset + size], self._friday_at(offset)  # type: ignore[attr-defined]
        type_ = type_.resolved
        if offset in self._friday_inside and type_.standard:  # type: ignore[attr-defined]
            return self._friday_inside[offset]  # type: ignore[attr-defined]
        if type_.standard or not type_.containers:
            return type_.decode(data, address)
        within = {at - offset: value for at, value in self._friday_inside.items() if offset <= at < offset + size}  # type: ignore[attr-defined]
        return _holding(type_, data, address, within)


class HoldingStruct(_Holding, Struct):
    """A struct that holds containers. Two are equal if their fields and base classes are, wherever the containers store their items."""
    __slots__ = ("_friday_inside",)

    def _friday_field(self, field: Member) -> Any:
        return super()._friday_field(field) if field.bit_size else self._friday_piece(field.type, field.offset, field.type.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HoldingStruct):
            return NotImplemented
        return self.type.key == other.type.key and self._friday_parts() == other._friday_parts()

    def __hash__(self) -> int:
        return hash(self._friday_parts())

    def _friday_parts(self) -> tuple[Any, ...]:
        """The values of the fields as declared. Not every one of them has a name that finds it."""
        return tuple(self._friday_field(field) for field in self.type.own)


class HoldingArray(_Holding, Array):
    """An array whose elements are or hold containers."""
    __slots__ = ("_friday_inside",)

    def _element(self, index: int) -> Any:
        size = self.type.element.size
        return self._friday_piece(self.type.element, index * size, size)

    def __eq__(self, other: object) -> bool:
        return self[:] == other[:] if isinstance(other, HoldingArray) else NotImplemented

    def __hash__(self) -> int:
        return hash(self[:])


def _holding(type_: Type, data: bytes, address: int | None, inside: dict[int, Any]) -> Any:
    value = type_.subclass(HoldingArray if type_.kind == "array" else HoldingStruct)(data, address)
    object.__setattr__(value, "_friday_inside", inside)
    return value


class Object:
    """An object in a node: its type, its copied bytes, its address, and a function that reads other memory."""

    def __init__(self, type_: Type, data: bytes, address: int | None, memory: Memory) -> None:
        self.type, self.data, self.address, self.memory = type_, data, address, memory

    def raw(self) -> Any:
        """The object as a plain struct."""
        return self.type.decode(self.data, self.address)

    def part(self, type_: Type, offset: int) -> Any:
        """The value of a type at an offset in the object."""
        return make(type_, self.data[offset:offset + type_.size], None if self.address is None else self.address + offset, self.memory)

    def items_at(self, type_: Type, address: int, count: int) -> tuple[Any, ...]:
        check(0 <= count <= MOST_ITEMS and count * type_.size <= MOST_BYTES, f"holds {count} items")
        if not count:
            return ()
        size = type_.size
        data = self.memory(address, count * size)
        return tuple(make(type_, data[i * size:(i + 1) * size], address + i * size, self.memory) for i in range(count))

    def number(self, *names: str) -> int:
        """The eight bytes of the outermost member with one of these names, or of what is at its start."""
        offset, found = _find(self.type, names)
        known(found.resolved.kind in ("struct", "union") or found.resolved.size == 8)
        return int.from_bytes(self.data[offset:offset + 8], "little")

    def word(self, address: int) -> int:
        return int.from_bytes(self.memory(address, 8), "little")


class Nodes:
    """The nodes of a list, tree or hash table: links, then the item. Each node is read in one piece."""

    def __init__(self, object_: Object) -> None:
        if object_.type.shift is None:
            raise Unknown("has an unknown layout")
        self.object, self.item, self.offset = object_, object_.type.item, object_.type.shift
        self.size = self.offset + self.item.size

    def read(self, address: int) -> bytes:
        return self.object.memory(address, self.size)

    def value(self, address: int, data: bytes) -> Any:
        return make(self.item, data[self.offset:], address + self.offset, self.object.memory)

    def chain(self, first: int, end: int, most: int = MOST_ITEMS, following: int = 0) -> Iterator[Any]:
        """The items from the node at `first` up to, not including, that at `end`. Each has the address of the next one at the offset `following`."""
        node, count = first, 0
        while node != end:
            check(count < most, f"does not end after {count} items")
            data = self.read(node)
            yield self.value(node, data)
            node, count = int.from_bytes(data[following:following + 8], "little"), count + 1

    def tree(self, root: int, count: int, left: int) -> Iterator[Any]:
        """The items of a red-black tree, in order. A node has the addresses of its children at the offset `left`."""
        check(0 <= count <= MOST_ITEMS, f"holds {count} items")
        left_of: list[tuple[int, bytes]] = []
        node, found = root, 0
        while left_of or node:
            while node:
                check(len(left_of) < 128, "is deeper than a balanced tree is")
                left_of.append((node, self.read(node)))
                node = int.from_bytes(left_of[-1][1][left:left + 8], "little")
            node, data = left_of.pop()
            check(found < count, f"has more than the {count} items that it says")
            yield self.value(node, data)
            found += 1
            node = int.from_bytes(data[left + 8:left + 16], "little")
        check(found == count, f"says that it holds {count} items and has {found}")


def check(good: bool, what: str) -> None:
    if not good:
        raise Unreadable(what)


def known(good: bool) -> None:
    if not good:
        raise Unknown("has an unknown layout")


def make(type_: Type, data: bytes, address: int | None, memory: Memory) -> Any:
    """The value of an object with the containers in it. Raises Unreadable if the object is a container but not a valid one; an
    invalid container inside a struct stays a plain struct."""
    type_ = type_.resolved
    if not type_.containers:
        return type_.decode(data, address)
    if type_.standard:
        return follow(type_, data, address, memory)
    inside = {}
    for offset, container in type_.containers:
        try:
            inside[offset] = follow(container, data[offset:offset + container.size], None if address is None else address + offset, memory)
        except (Unreadable, BadAddress, Gone):
            pass
    return _holding(type_, data, address, inside)


def follow(type_: Type, data: bytes, address: int | None, memory: Memory) -> Any:
    """The value of a container. Raises Unreadable if it is not valid."""
    reader = READERS[type_.standard]
    try:
        value = reader(Object(type_, data, address, memory))
    except (KeyError, AttributeError) as error:
        raise Unknown(f"has an unknown layout: {error}") from None
    except BadAddress as error:
        raise Unreadable(f"leads to memory that cannot be read: {error}") from None
    if isinstance(value, (Items, Map)):
        value.bytes, value.address = bytes(data), address
    return value


def _items(object_: Object, values: Any) -> Items:
    return object_.type.subclass(Items)(values)


def _pairs(object_: Object, found: Any) -> Any:
    """The pairs as a Map, or as Items if a key can occur more than once."""
    pairs = [(pair["first"], pair["second"]) for pair in found]
    return _items(object_, pairs) if "multi" in object_.type.standard else object_.type.subclass(Map)(pairs)


# -- contiguous ---------------------------------------------------------------------------------------------------------
class Places:
    """Where the items of a container with random access stand: their type, how many there are, and runs(first, last), which yields
    (address, count) for the items from first up to, not including, last."""

    def __init__(self, item: Type, count: int, runs: Callable[[int, int], Iterator[tuple[int, int]]]) -> None:
        self.item, self.count, self.runs = item, count, runs


def contiguous(item: Type, start: int, count: int) -> Places:
    """Items that stand one behind the other."""
    return Places(item, count, lambda first, last: iter([(start + first * item.size, last - first)] if first < last else []))


def _vector_places(object_: Object) -> Places | None:
    if object_.type.name.startswith("boost::"):
        count = object_.number("m_size")
        check(count <= MOST_ITEMS, f"holds {count} items")
        return contiguous(object_.type.item.resolved, object_.number("m_start"), count)
    start_type = _find(object_.type, ("_M_start", "__begin_"))[1].resolved
    if start_type.kind != "pointer" or not _has(object_.type, "_M_finish", "__end_"):
        return None  # of bits
    start, finish, size = object_.number("_M_start", "__begin_"), object_.number("_M_finish", "__end_"), object_.type.item.size
    check(start <= finish and (finish - start) % size == 0, f"ends at {finish:#x} and starts at {start:#x}")
    return contiguous(object_.type.item, start, (finish - start) // size)


def _vector(object_: Object) -> Any:
    places = _vector_places(object_)
    if places is not None:
        return _items(object_, object_.items_at(places.item, *next(places.runs(0, places.count), (0, 0))))
    known(object_.type.item.resolved.kind == "bool")
    if _has(object_.type, "__size_"):
        return _items(object_, _bits(object_, object_.number("__begin_"), 0, object_.number("__size_")))
    start, finish = object_.raw()._M_impl._M_start, object_.raw()._M_impl._M_finish
    first, skipped = int(start._M_p), int(start._M_offset)
    return _items(object_, _bits(object_, first, skipped, (int(finish._M_p) - first) * 8 + int(finish._M_offset) - skipped))


def _bits(object_: Object, first: int, skipped: int, count: int) -> tuple[bool, ...]:
    check(0 <= count <= MOST_ITEMS, f"holds {count} bits")
    data = int.from_bytes(object_.memory(first, (count + skipped + 7) // 8), "little") if count else 0
    return tuple(bool(data >> skipped + i & 1) for i in range(count))


def _deque_places(object_: Object) -> Places:
    """The items stand in blocks of equal length, to which an array of pointers leads; the first block may begin with unused places."""
    item = object_.type.item
    if _has(object_.type, "__start_"):
        block, table = 4096 // item.size if item.size < 256 else 16, object_.number("__begin_")
        unused, count = object_.number("__start_"), object_.number("__size_")
        check(count <= MOST_ITEMS and unused <= MOST_ITEMS, f"holds {count} items")
    else:
        block = max(1, 512 // item.size)
        start, finish = object_.raw()._M_impl._M_start, object_.raw()._M_impl._M_finish
        blocks, table = (int(finish._M_node) - int(start._M_node)) // 8, int(start._M_node)
        unused = (int(start._M_cur) - int(start._M_first)) // item.size
        count = blocks * block + (int(finish._M_cur) - int(finish._M_first)) // item.size - unused
        check(0 <= blocks <= MOST_ITEMS and 0 <= unused < block and 0 <= count <= MOST_ITEMS, f"has {blocks} blocks and holds {count} items")

    def runs(first: int, last: int) -> Iterator[tuple[int, int]]:
        at, end = first + unused, last + unused
        while at < end:
            many = min(block - at % block, end - at)
            yield object_.word(table + 8 * (at // block)) + at % block * item.size, many
            at += many
    return Places(item, count, runs)


def _deque(object_: Object) -> Any:
    places = _deque_places(object_)
    return _items(object_, (value for run in places.runs(0, places.count) for value in object_.items_at(places.item, *run)))


def _array_member(object_: Object) -> tuple[int, Type] | None:
    """(offset, type) of the member that holds the items; None for an array<T, 0>, whose members are no items."""
    if re.search(r", 0[uUlLzZ]*>$", object_.type.name):
        return None
    offset, found = _find(object_.type, ("_M_elems", "__elems_", "elems"))
    known(found.resolved.kind == "array")
    return offset, found.resolved


def _array_places(object_: Object) -> Places | None:
    member = _array_member(object_)
    if member is None:
        return None
    check(object_.address is not None, "has no place in memory")
    return contiguous(member[1].element.resolved, object_.address + member[0], member[1].count)  # type: ignore[operator]


def _static_places(object_: Object) -> Places:
    check(object_.address is not None, "has no place in memory")
    count = object_.number("m_size")
    check(count <= MOST_ITEMS, f"holds {count} items")
    return contiguous(object_.type.item.resolved, object_.address + _find(object_.type, ("storage",))[0], count)  # type: ignore[operator]


def _inlined_places(object_: Object) -> Places:
    """Of an InlinedVector: as long as the items are few, they are in the object. A word has twice their number, and 1 more if they are elsewhere."""
    metadata, data = _find(object_.type, ("metadata_",)), _find(object_.type, ("data_",))
    (size_at, size), (pointer_at, _), (inside_at, _) = (_find(metadata[1], ("value",)), _find(data[1], ("allocated_data",)), _find(data[1], ("inlined_data",)))
    known(size.resolved.kind == "int" and size.resolved.size == 8)
    word_at = metadata[0] + size_at
    word = int.from_bytes(object_.data[word_at:word_at + 8], "little")
    check(word >> 1 <= MOST_ITEMS, f"holds {word >> 1} items")
    if word & 1:
        at = data[0] + pointer_at
        start = int.from_bytes(object_.data[at:at + 8], "little")
    else:
        check(object_.address is not None, "has no place in memory")
        start = object_.address + data[0] + inside_at  # type: ignore[operator]
    return contiguous(object_.type.item.resolved, start, word >> 1)


def _fixed_places(object_: Object) -> Places:
    alloc_at, alloc = _find(object_.type, ("size_alloc_",))
    size_at, size = _find(alloc, ("value",))
    known(size.resolved.kind == "int" and size.resolved.size == 8)
    count = int.from_bytes(object_.data[alloc_at + size_at:alloc_at + size_at + 8], "little")
    check(count <= MOST_ITEMS, f"holds {count} items")
    return contiguous(object_.type.item.resolved, object_.number("data_"), count)


def _of_places(places: Callable[[Object], Places | None]) -> Callable[[Object], Any]:
    def read(object_: Object) -> Any:
        found = places(object_)
        known(found is not None)
        return _items(object_, object_.items_at(found.item, *next(found.runs(0, found.count), (0, 0))))  # type: ignore[union-attr]
    return read


def _array(object_: Object) -> Any:
    member = _array_member(object_)
    if member is None:
        return _items(object_, ())
    offset, item = member[0], member[1].element
    return _items(object_, (object_.part(item, offset + i * item.size) for i in range(member[1].count)))


def _text(object_: Object) -> tuple[Type, int, int]:
    """(type of a character, address of the first one, number) of a string or string_view."""
    if not (_has(object_.type, "__s") and _has(object_.type, "__l")):
        pointer = _find(object_.type, ("_M_p", "_M_str", "__data_", "__data"))[1]
        known(pointer.resolved.kind == "pointer")
        return (pointer.resolved.target.resolved, object_.number("_M_p", "_M_str", "__data_", "__data"),
                object_.number("_M_string_length", "_M_len", "__size_", "__size"))
    # In libc++ a short string is in the object itself, with twice its length in the first byte; that of a long one is odd. Since version
    # 15 the two parts of that byte are bit fields, of which the first is __is_long_.
    short, long_ = (_find(object_.type, (name,))[1] for name in ("__s", "__l"))
    pointer_at, pointer = _find(long_, ("__data_",))
    known(_find(short, ("__is_long_", "__size_"))[0] == 0 and _find(short, ("__data_",))[0] == pointer.resolved.target.resolved.size)
    if not object_.data[0] & 1:
        check(object_.address is not None, "has no place in memory")
        return pointer.resolved.target.resolved, object_.address + _find(short, ("__data_",))[0], object_.data[0] >> 1  # type: ignore[operator]
    length_at = _find(long_, ("__size_",))[0]
    return (pointer.resolved.target.resolved, *(int.from_bytes(object_.data[place:place + 8], "little") for place in (pointer_at, length_at)))


def _string(object_: Object) -> Any:
    character, address, length = _text(object_)
    size = character.size or 1
    check(0 <= length * size <= MOST_BYTES, f"has {length} characters")
    data = object_.memory(address, length * size) if length else b""
    if size != 1:
        return _items(object_, (int.from_bytes(data[i:i + size], "little") for i in range(0, len(data), size)))
    return object_.type.decode_text(data, address, whole=True)


# -- linked ------------------------------------------------------------------------------------------------------------
def _list(object_: Object) -> Any:
    check(object_.address is not None, "has no place in memory")
    head, type_ = _find(object_.type, ("_M_node", "__end_"))
    following = _find(type_, ("_M_next", "__next_"))[0]
    first = int.from_bytes(object_.data[head + following:head + following + 8], "little")
    return _items(object_, Nodes(object_).chain(first, object_.address + head, following=following))  # type: ignore[operator]


def _forward_list(object_: Object) -> Any:
    return _items(object_, Nodes(object_).chain(object_.number("_M_head", "__before_begin_"), 0))


def _in_tree(object_: Object) -> Iterator[Any]:
    if _has(object_.type, "__begin_node_"):  # a node has left and right first
        return Nodes(object_).tree(object_.number("__end_node_", "__pair1_"), object_.number("__size_", "__pair3_"), 0)
    impl = object_.raw()._M_t._M_impl  # colour, parent, left and right, 8 bytes each
    return Nodes(object_).tree(int(impl._M_header._M_parent), int(impl._M_node_count), 16)


def _in_hash_table(object_: Object) -> Iterator[Any]:
    count = object_.number("_M_element_count", "__size_", "__p2_")
    check(0 <= count <= MOST_ITEMS, f"holds {count} items")
    found = 0
    for found, value in enumerate(Nodes(object_).chain(object_.number("_M_before_begin", "__first_node_", "__p1_"), 0, count), 1):
        yield value
    check(found == count, f"says that it holds {count} items and has {found}")


def _in_slots(object_: Object) -> Iterator[Any]:
    """The items of a table of Abseil: a byte for each slot says whether it is full; in a node_hash_* the slots have the addresses of the items."""
    count, capacity = object_.number("size_"), object_.number("capacity_")
    check(count <= capacity <= 2 * MOST_ITEMS, f"holds {count} items in {capacity} slots")
    if not count:
        return
    item, in_nodes = object_.type.item.resolved, object_.type.standard.startswith("node")
    size = 8 if in_nodes else item.size
    check(capacity * size <= MOST_BYTES, f"has {capacity} slots of {size} bytes")
    control, first = object_.memory(object_.number("ctrl_"), capacity), object_.number("slots_")
    full = [i for i, byte in enumerate(control) if byte < 128]
    check(len(full) == count, f"says that it holds {count} items and has {len(full)}")
    slots = object_.memory(first, capacity * size)
    for i in full:
        data, address = slots[i * size:(i + 1) * size], first + i * size
        if in_nodes:
            address = int.from_bytes(data, "little")
            data = object_.memory(address, item.size)
        yield make(item, data, address, object_.memory)


# -- of one value or a few ---------------------------------------------------------------------------------------------
def _find(type_: Type, names: tuple[str, ...]) -> tuple[int, Type]:
    """(offset, type) of the outermost member with one of these names, searched in members and base classes. Raises KeyError."""
    level = [(0, type_.resolved)]
    while level:
        deeper = []
        for offset, each in level:
            for field in each.own:
                if field.name in names and not field.base:
                    return offset + field.offset, field.type
                if field.type.resolved.kind in ("struct", "union"):
                    deeper.append((offset + field.offset, field.type.resolved))
        level = deeper
    raise KeyError(names[0])


def _has(type_: Type, *names: str) -> bool:
    try:
        return _find(type_, names) is not None
    except KeyError:
        return False


def _heads(type_: Type, offset: int = 0) -> Iterator[tuple[int, int, Type]]:
    """(index, offset, type) of the values of a tuple. A value is the member of a _Head_base<I, T>, or its base if T is an empty
    class; _Head_base<I, T> and _Tuple_impl<I + 1, ...> are the bases of _Tuple_impl<I, T, ...>."""
    for field in type_.own:
        inner, at = field.type.resolved, offset + field.offset
        template, _, arguments = inner.name.partition("<")
        if template.endswith(("_Head_base", "__tuple_leaf")):
            for held in inner.own:
                yield int(arguments.partition(",")[0].rstrip("ulULzZ")), at + held.offset, held.type
        elif inner.kind == "struct":
            yield from _heads(inner, at)


def _tuple(object_: Object) -> Any:
    heads = sorted(_heads(object_.type), key=lambda head: head[0])
    known([head[0] for head in heads] == list(range(len(heads))) and (bool(heads) or object_.type.name.endswith("<>")))
    return _items(object_, (object_.part(type_, offset) for _, offset, type_ in heads))


def _unique(object_: Object) -> Any:
    if _has(object_.type, "__ptr_"):
        offset, type_ = _find(object_.type, ("__ptr_",))
        if type_.resolved.kind == "struct":  # a pair of the pointer and the deleter
            within, type_ = _find(type_, ("__value_",))
            offset += within
        return object_.part(type_, offset)
    for index, offset, type_ in _heads(object_.type):  # a unique_ptr is a tuple of the pointer and the deleter
        if index == 0:
            return object_.part(type_, offset)
    raise KeyError("_M_head_impl")


def _shared(object_: Object) -> Any:
    offset, type_ = _find(object_.type, ("_M_ptr", "__ptr_", "px"))
    return object_.part(type_, offset)


def _optional(object_: Object) -> Any:
    engaged, _ = _find(object_.type, ("_M_engaged", "__engaged_", "m_initialized"))
    if object_.type.name.startswith("boost::"):
        return object_.part(object_.type.item, _find(object_.type, ("m_storage",))[0]) if object_.data[engaged] else None
    offset, type_ = _find(object_.type, ("_M_value", "__val_"))
    return object_.part(type_, offset) if object_.data[engaged] else None


def _variant(object_: Object) -> Any:
    """The value of a variant, which is laid out as a union of the first alternative and a union of the others."""
    index_at, index_type = _find(object_.type, ("_M_index", "__index"))
    index = int.from_bytes(object_.data[index_at:index_at + index_type.size], "little")
    if index == (1 << 8 * index_type.size) - 1:
        return None
    offset, type_ = _find(object_.type, ("_M_u", "__data"))
    for names in [("_M_rest", "__tail")] * index + [("_M_first", "__head"), ("_M_storage", "__value")]:
        deeper, type_ = _find(type_, names)
        offset += deeper
    return object_.part(type_, offset)


def _atomic(object_: Object) -> Any:
    offset, type_ = _find(object_.type, ("_M_i", "_M_p", "_M_fp", "__a_value"))
    known(offset == 0)  # in an atomic<shared_ptr<T>> it is a part of something else
    return object_.part(type_, offset)


def _adapter(object_: Object) -> Any:
    offset, type_ = _find(object_.type, ("c",))
    return object_.part(type_, offset)


def _buffer(object_: Object) -> Any:
    return object_.part(object_.type.item, 0)


READERS: dict[str, Callable[[Object], Any]] = {
    "vector": _vector, "deque": _deque, "list": _list, "forward_list": _forward_list, "array": _array,
    **dict.fromkeys(("set", "multiset"), lambda o: _items(o, _in_tree(o))),
    **dict.fromkeys(("map", "multimap"), lambda o: _pairs(o, _in_tree(o))),
    **dict.fromkeys(("unordered_set", "unordered_multiset"), lambda o: _items(o, _in_hash_table(o))),
    **dict.fromkeys(("unordered_map", "unordered_multimap"), lambda o: _pairs(o, _in_hash_table(o))),
    **dict.fromkeys(TEXTS, _string),
    **dict.fromkeys(("queue", "stack", "priority_queue"), _adapter),
    **dict.fromkeys(("shared_ptr", "weak_ptr"), _shared), **dict.fromkeys(("__aligned_membuf", "__aligned_buffer"), _buffer),
    **dict.fromkeys(("scoped_ptr", "intrusive_ptr"), _shared),
    **dict.fromkeys(("small_vector", "flat_set", "flat_multiset"), _of_places(_vector_places)),
    **dict.fromkeys(("flat_map", "flat_multimap"), lambda o: _pairs(o, _of_places(_vector_places)(o))),
    **dict.fromkeys(("flat_hash_set", "node_hash_set"), lambda o: _items(o, _in_slots(o))),
    **dict.fromkeys(("flat_hash_map", "node_hash_map"), lambda o: _pairs(o, _in_slots(o))),
    "static_vector": _of_places(_static_places), "InlinedVector": _of_places(_inlined_places), "FixedArray": _of_places(_fixed_places),
    "unique_ptr": _unique, "tuple": _tuple, "optional": _optional, "variant": _variant, "atomic": _atomic,
}


RANDOM_ACCESS: dict[str, Callable[[Object], Places | None]] = {
    "vector": _vector_places, "deque": _deque_places, "array": _array_places, "small_vector": _vector_places, "static_vector": _static_places,
    "InlinedVector": _inlined_places, "FixedArray": _fixed_places}


def unknown(type_: Type, node: int, error: Unknown) -> BadExpression:
    """The refusal of a container whose layout is not known."""
    return BadExpression(f"this {type_.standard} of node {node} {error}; known are those of libstdc++ (GCC 5 to 14), libc++ 14 and 19, Boost 1.74 and Abseil 20220623; `print` shows its memory")


def value_of(type_: Type, data: bytes, address: int | None, memory: Memory, node: int) -> Any:
    """The value of an object that is or holds containers, made from its bytes; `memory` reads what lies outside of them. Raises
    BadExpression if a container is not valid or its items are not known."""
    def around(at: int, size: int) -> bytes:
        if address is not None and address <= at and at + size <= address + len(data):
            return data[at - address:at - address + size]  # the characters of a short string are in the object itself
        return memory(at, size)

    try:
        return make(type_, data, address, around)
    except Unknown as error:
        raise unknown(type_, node, error) from None
    except Unreadable as error:
        raise BadExpression(f"this {type_.standard} of node {node} {error}: it is not constructed yet, already destroyed, or damaged; `print` shows its memory") from None
    except Gone as error:
        raise BadExpression(f"the items of this {type_.standard} of node {node} are not known: they are in other memory, and {error}; "
                            "read what it holds where the group stands") from None


def text_of(type_: Type, data: bytes, address: int, memory: Memory) -> tuple[int, int] | None:
    """(address, bytes) of the characters of a string or string_view that has some; None of any other object, and if it is not valid."""
    if type_.resolved.standard not in TEXTS:
        return None
    try:
        character, first, length = _text(Object(type_.resolved, data, address, memory))
    except (Unreadable, Gone):
        return None
    size = length * (character.size or 1)
    return (first, size) if 0 < size <= MOST_BYTES else None


def decoder(type_: Type, memory: Callable[[int, int, int], bytes]) -> Decoder:
    """The function that makes values of a type with containers. `memory` is called with (node, address, size)."""
    return lambda data, address, node: value_of(type_, data, address, lambda at, size: memory(node, at, size), node)
