"""Values read from nodes, as snapshots: immutable, hashable, equal across nodes when type and bytes are equal.

    C or C++                    Python
    integers, characters, bool  Int, Char, Bool (int)
    pointers, references        Pointer (int that knows its type and prints as hex)
    enums                       Enum (int with a name)
    floating point              Float (float)
    char*, char[]               Str (str, up to NUL), Bytes (bytes) when it is not UTF-8; a NULL char* is a Pointer
    structs, unions, objects    Struct: fields by attribute or ["name"], decoded from the copied bytes when asked for
    other arrays                Array: a sequence, decoded likewise
    containers, smart pointers  see containers.py
    anything else               Raw

Each has `.bytes` (the copied bytes), `.type` (Type) and, but for numbers, `.address` (where it was read, or None). A
`char*` inside a struct stays a Pointer: what it points to is not in the copy, and reading it later would not be a
snapshot. Numbers compare as numbers do in Python.

Types come as JSON: {"types": {ID: TYPE, ...}}, where an ID is a number or a text, unique in the session, and TYPE is

    kind      int, bool, char, float, enum, pointer, reference, function, array, struct, union, typedef; else Raw
    name      as C or C++ writes it;  plain  without typedefs and qualifiers, if that is another one;  size  in bytes
    signed    of int, char, enum;  format  of float: ieee32, ieee64, ieee128, x87
    target    ID, of pointer, reference, typedef;  element  ID and  count, of array
    fields    of struct and union: [{name, type: ID, offset in bytes, bit_offset from there and bit_size of a bit-field
              (0 or absent otherwise), base: true for a base class}]; name "" or null for an anonymous member; and of a
              container of libstdc++ standard, its template's name, item, the ID of what its allocator allocates, and shift,
              the offset of an item in its node
    layout    of forward, which stands for the struct of that name and size whose fields are [name, offset, type's name, size]
    values    of enum: [[NAME, number]...]; the first name of a number is its name

The long words of the core (integer, boolean, character, floating, enumeration, structure) are understood too, and a
field with only a bit_offset counts it from the start of the struct. Each type gets a Python class of its own, so that a
number carries its type at no cost in space.
"""
from __future__ import annotations

import json
import struct
from typing import Any, Callable, Iterator, Mapping, Sequence

TypeId = int | str
Decoder = Callable[[bytes, "int | None", int], Any]  # bytes, address, node


def _type_id(value: Any) -> TypeId:
    return int(value) if isinstance(value, str) and value.isdigit() else value


class Snapshot:
    """What all values have in common: `.bytes` and `.type`."""
    __slots__ = ()
    type: "Type"
    bytes: bytes


class Int(int, Snapshot):
    """An integer of a node."""
    __slots__ = ()

    @property
    def bytes(self) -> bytes:
        return (int(self) & (1 << 8 * self.type.size) - 1).to_bytes(self.type.size, "little")


class Bool(Int):
    """A bool of a node. It prints as True or False; a value other than 0 and 1 prints as the number."""
    __slots__ = ()

    def __repr__(self) -> str:
        return ("False", "True")[self] if self in (0, 1) else int.__repr__(self)

    __str__ = __repr__


class Char(Int):
    """A character of a node: an int; `.char` is the character."""
    __slots__ = ()

    @property
    def char(self) -> str:
        """The character that has this number."""
        return chr(int(self) & (1 << 8 * self.type.size) - 1)


class Pointer(Int):
    """A pointer: an int that prints in hexadecimal; `%d` formats it as a decimal number."""
    __slots__ = ()

    def __repr__(self) -> str:
        return hex(self)

    __str__ = __repr__


class Enum(Int):
    """An enumerator: an int; `.name` is its name, flags joined by `|`, or the number when it has none."""
    __slots__ = ()

    @property
    def name(self) -> str:
        """Its name in the program."""
        names = self.type.enumerators
        if int(self) in names:
            return names[int(self)]
        flags = [name for value, name in names.items() if value > 0 and value & value - 1 == 0 and self & value]
        covered = sum(value for value in names if value > 0 and value & value - 1 == 0 and self & value)
        return "|".join(flags) if flags and covered == self else int.__repr__(self)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}: {int(self)}>"


class Float(float, Snapshot):
    """A floating-point number; a long double is rounded, its `.bytes` are exact."""
    __slots__ = ("bytes",)


class Str(str, Snapshot):
    """Text of a node, up to its terminating NUL."""
    __slots__ = ("bytes", "type", "address")


class Bytes(bytes, Snapshot):
    """Text of a node that is not valid UTF-8, up to its terminating NUL."""

    def __init__(self, *_: Any) -> None:
        self.bytes: bytes = b""
        self.type: Type
        self.address: int | None = None


class _Copied(Snapshot):
    """Base of values that keep their bytes and decode parts of them when asked."""
    __slots__ = ("bytes", "address")

    def __init__(self, data: bytes, address: int | None = None) -> None:
        object.__setattr__(self, "bytes", bytes(data))
        object.__setattr__(self, "address", address)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self.type.name} is a snapshot and cannot be changed: write to the program with @(... = ...)")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Copied):
            return NotImplemented
        return self.bytes == other.bytes and (self.type is other.type or self.type.key == other.type.key)

    def __hash__(self) -> int:
        return hash(self.bytes)

    def _friday_at(self, offset: int) -> int | None:
        return None if self.address is None else self.address + offset


class Raw(_Copied):
    """Bytes of a type that Friday does not decode."""
    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self.type.name}: {self.bytes.hex(' ')}>"


class Struct(_Copied):
    """A struct, union or C++ object. Fields are items (`v["type"]`), and attributes but for those called `bytes`, `type` and
    `address`, which are the snapshot's own: code for programs that it does not know reads items. Members of base classes and
    of anonymous structs and unions are found like own ones, unless several bases have a member of that name: each base class is a field by
    its name, and has its own. Iterates over (name, value)."""
    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        field = self.type.members.get(name)
        if field is None:
            raise AttributeError(f"{self.type.name} has no field `{name}`; it has: {', '.join(self.type.members)}")
        return self._friday_field(field)

    def __getitem__(self, name: str) -> Any:
        field = self.type.members.get(name)
        if field is None:
            raise KeyError(f"{self.type.name} has no field `{name}`; it has: {', '.join(self.type.members)}")
        return self._friday_field(field)

    def _friday_field(self, field: "Member") -> Any:
        return field.decode(self.bytes, self.address)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, self[name]) for name in self.type.members)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.type.members]

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name} = {value!r}" for name, value in self) + "}"


class Array(_Copied, Sequence):
    """A C array: a sequence of its elements; a slice is a tuple."""
    __slots__ = ()

    def __len__(self) -> int:
        return self.type.count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self._element(i) for i in range(*index.indices(len(self))))
        at = int(index)
        at += len(self) if at < 0 else 0
        if not 0 <= at < len(self):
            raise IndexError(f"{self.type.name} has no element {int(index)}")
        return self._element(at)

    def _element(self, index: int) -> Any:
        element = self.type.element
        offset = index * element.size
        return element.decode(self.bytes[offset:offset + element.size], self._friday_at(offset))

    def __repr__(self) -> str:
        more = ", ..." if len(self) > 200 else ""
        return "{" + ", ".join(repr(value) for value in self[:200]) + more + "}"


class Member:
    """The place of a field in its struct. `bit_size` is 0 unless it is a bit-field; `base`: it is a base class."""
    __slots__ = ("name", "offset", "type", "bit_offset", "bit_size", "base")

    def __init__(self, name: str, offset: int, type_: "Type", bit_offset: int = 0, bit_size: int = 0, base: bool = False) -> None:
        self.name, self.offset, self.type = name, offset, type_
        self.bit_offset, self.bit_size, self.base = bit_offset, bit_size, base

    def decode(self, data: bytes, address: int | None) -> Any:
        """The value of the field, from the bytes of its struct, which was read at `address`."""
        if not self.bit_size:
            return self.type.decode(data[self.offset:self.offset + self.type.size],
                                    None if address is None else address + self.offset)
        width = (self.bit_offset + self.bit_size + 7) // 8
        value = int.from_bytes(data[self.offset:self.offset + width], "little") >> self.bit_offset
        value &= (1 << self.bit_size) - 1
        size = self.type.size
        if self.type.resolved.signed and value >> self.bit_size - 1:
            value |= (1 << 8 * size) - (1 << self.bit_size)
        return self.type.decode(value.to_bytes(size, "little"))


_FLOATS: dict[str, Callable[[bytes], float]] = {
    "ieee32": lambda data: struct.unpack("<f", data)[0], "ieee64": lambda data: struct.unpack("<d", data)[0],
    "ieee128": lambda data: _wide_float(data, 15, 112, False), "x87": lambda data: _wide_float(data[:10], 15, 64, True)}
_NUMBERS: dict[str, type[Int]] = {"int": Int, "bool": Bool, "char": Char, "enum": Enum, "pointer": Pointer,
                                  "reference": Pointer, "function": Pointer, "member_pointer": Pointer}


def _wide_float(data: bytes, exponent_bits: int, fraction_bits: int, explicit_one: bool) -> float:
    number = int.from_bytes(data, "little")
    fraction = number & (1 << fraction_bits) - 1
    exponent = number >> fraction_bits & (1 << exponent_bits) - 1
    sign = -1.0 if number >> fraction_bits + exponent_bits & 1 else 1.0
    if exponent == (1 << exponent_bits) - 1:
        mantissa = fraction & (1 << fraction_bits - explicit_one) - 1
        return float("nan") if mantissa else sign * float("inf")
    if not explicit_one and exponent:
        fraction |= 1 << fraction_bits
    scale = max(exponent, 1) - (1 << exponent_bits - 1) + 1 - fraction_bits + explicit_one
    try:  # the quotient of two ints is rounded once; ldexp would overflow early
        value = fraction * 2 ** scale / 1 if scale >= 0 else fraction / 2 ** -scale
    except OverflowError:
        value = float("inf")
    return sign * value


_KINDS = {"integer": "int", "boolean": "bool", "character": "char", "floating": "float", "enumeration": "enum",
          "structure": "struct", "class": "struct"}


class Type:
    """A type of the program: `kind`, `name` as gdb prints it, `size` in bytes, and by kind `signed`, `target` (Type),
    `count` and `element` (Type), `members` (name to Member), `enumerators` (value to name)."""

    def __init__(self, table: "TypeTable", id_: TypeId, entry: Mapping[str, Any]) -> None:
        self.id = id_
        self.kind: str = _KINDS.get(entry["kind"], entry["kind"])
        self.name: str = entry.get("name") or f"<unnamed {self.kind}>"
        self.plain: str = entry.get("plain") or self.name  # without typedefs and qualifiers
        self.size: int = entry.get("size") or 0
        self.signed: bool = bool(entry.get("signed", False))
        self.count: int = entry.get("count") or 0
        self.enumerators: dict[int, str] = {}
        for name, value in entry.get("values") or ():
            number = int(value)
            if number < 0 and not self.signed:  # the core gives 64-bit enumerators as signed numbers
                number += 1 << 8 * self.size
            self.enumerators.setdefault(number, name)
        self._table = table
        self._entry = entry
        self.standard: str = entry.get("standard") or ""
        self.shift: int | None = entry.get("shift")  # of an item in its node
        self._own: list[Member] | None = None
        self._members: dict[str, Member] | None = None
        self._ambiguous: frozenset[str] = frozenset()
        self._containers: tuple[tuple[int, Type], ...] | None = None
        self._classes: dict[type, type] = {}
        self._key: tuple | None = None
        self.value_class: Any = None
        self.decode: Callable[..., Any] = self._first_decode

    def __repr__(self) -> str:
        return f"<type {self.name}>"

    @property
    def target(self) -> "Type":
        return self._table.struct_like(self._entry) if self.kind == "forward" else self._table[self._entry["target"]]

    @property
    def element(self) -> "Type":
        return self._table[self._entry["element" if "element" in self._entry else "target"]]

    @property
    def item(self) -> "Type":
        """The type that the allocator of a container of the standard library allocates."""
        return self._table[self._entry["item"]].resolved

    @property
    def own(self) -> list[Member]:
        """The fields of a struct or union as declared, including base classes and anonymous members."""
        if self._own is None:
            self._own = []
            for field in self._entry.get("fields", ()):
                offset, bit_offset = field.get("offset"), field.get("bit_offset") or 0
                if offset is None:
                    offset, bit_offset = divmod(bit_offset, 8)
                self._own.append(Member(field.get("name") or "", offset, self._table[field["type"]], bit_offset,
                                        field.get("bit_size") or 0, bool(field.get("base"))))
        return self._own

    @property
    def containers(self) -> "tuple[tuple[int, Type], ...]":
        """The containers of the standard library in an object of this type, including the object itself, as (offset, type)."""
        if self.kind in ("typedef", "forward"):
            return self.resolved.containers
        if self._containers is None:
            found: list[tuple[int, Type]] = []
            if self.standard:
                found.append((0, self))
            elif self.kind == "struct":  # not of a union, of which the active member is unknown
                for field in self.own:
                    found += [(field.offset + offset, type_) for offset, type_ in field.type.containers]
            elif self.kind == "array":
                each, size = self.element.containers, self.element.size
                found += [(i * size + offset, type_) for i in range(self.count if each else 0) for offset, type_ in each]
            self._containers = tuple(found)
        return self._containers

    @property
    def members(self) -> dict[str, Member]:
        """The fields by the names that find them: own ones, those of anonymous members, base classes, and what these have. What `ambiguous`
        names is not there; each base class has its own."""
        if self._members is None:
            self._find_members()
        return self._members or {}

    @property
    def ambiguous(self) -> frozenset[str]:
        """The names that several base classes have and no nearer field has: C++ refuses them without the name of the base class."""
        if self._members is None:
            self._find_members()
        return self._ambiguous

    def _find_members(self) -> None:
        inherited: dict[str, Member] = {}
        near: dict[str, Member] = {}  # of anonymous members, whose names C++ treats as own ones
        own: dict[str, Member] = {}
        ambiguous: set[str] = set()
        for member in self.own:
            inner = member.type.resolved
            if member.base:
                ambiguous |= inner.ambiguous | (inherited.keys() & inner.members.keys())
            if member.base or not member.name:
                (inherited if member.base else near).update(
                    (name, Member(name, member.offset + m.offset, m.type, m.bit_offset, m.bit_size)) for name, m in inner.members.items())
            if member.name:
                own[member.name] = member
        self._ambiguous = frozenset(ambiguous - near.keys() - own.keys())
        self._members = {**{name: m for name, m in inherited.items() if name not in ambiguous}, **near, **own}

    @property
    def key(self) -> tuple:
        """A key that is equal for types of the same name and layout, also in different programs. Typedefs and qualifiers make no other type."""
        if self._key is None:
            shape: tuple = ()
            if self.kind in ("struct", "union"):
                shape = tuple((m.name, m.offset, m.bit_offset, m.bit_size, m.type.shape_name, m.type.size,
                               m.type.resolved.key if m.base or not m.name else None) for m in self.own)
            elif self.kind == "array":
                shape = self.element.key
            self._key = (self.kind, self.shape_name, self.size, shape)
        return self._key

    @property
    def shape_name(self) -> str:
        """The plain name, in which also the elements of an array are plain."""
        return f"{self.element.shape_name} [{self.count}]" if self.kind == "array" else self.plain

    @property
    def is_text(self) -> bool:
        """Whether the type is char; signed char and unsigned char are numbers of one byte."""
        words = self.name.split()
        return self.kind == "char" and self.size == 1 and "unsigned" not in words and "signed" not in words

    @property
    def is_text_pointer(self) -> bool:
        return self.kind == "pointer" and "target" in self._entry and self.target.resolved.is_text

    @property
    def resolved(self) -> "Type":
        """The type without typedefs."""
        type_ = self
        while type_.kind in ("typedef", "forward"):
            type_ = type_.target
        return type_

    def _first_decode(self, data: bytes, address: int | None = None) -> Any:
        self.decode = self._make_decode()
        return self.decode(data, address)

    def _make_decode(self) -> Callable[..., Any]:
        if self.kind in ("typedef", "forward"):
            return self.resolved.decode
        if self.kind in _NUMBERS:
            return self._number_decode(_NUMBERS[self.kind])
        if self.kind == "float" and self._entry.get("format") in _FLOATS:
            return self._float_decode(_FLOATS[self._entry["format"]])
        if self.kind == "array" and self.element.resolved.is_text:
            return self.decode_text
        base = {"struct": Struct, "union": Struct, "array": Array}.get(self.kind, Raw)
        self.value_class = self.subclass(base)
        return self.value_class

    def subclass(self, base: type) -> type:
        """The Python class for values of this type, derived from `base`."""
        if base not in self._classes:
            self._classes[base] = type(base.__name__, (base,), {"__slots__": (), "type": self, "__module__": __name__})
        return self._classes[base]

    def _number_decode(self, base: type[Int]) -> Callable[..., Any]:
        self.value_class = self.subclass(base)
        from_bytes, signed = self.value_class.from_bytes, self.signed

        def decode(data: bytes, address: int | None = None, node: int = 0) -> Any:
            return from_bytes(data, "little", signed=signed)
        return decode

    def _float_decode(self, number: Callable[[bytes], float]) -> Callable[..., Any]:
        make = self.value_class = self.subclass(Float)

        def decode(data: bytes, address: int | None = None, node: int = 0) -> Any:
            value = make(number(data))
            value.bytes = bytes(data)
            return value
        return decode

    def decode_text(self, data: bytes, address: int | None = None, node: int = 0, *, whole: bool = False) -> "Str | Bytes":
        """Bytes of char as Str, or as Bytes if they are not UTF-8; up to the first NUL unless `whole`."""
        text = bytes(data) if whole else bytes(data).partition(b"\0")[0]
        value: Str | Bytes
        try:
            value = Str(text, "utf-8")
        except UnicodeDecodeError:
            value = Bytes(text)
        value.bytes, value.type, value.address = bytes(data), self, address
        return value


class TypeTable:
    """The types of a session by id; ids are unique in the session."""

    def __init__(self, fetch: Callable[[TypeId], str] | None = None) -> None:
        """fetch: called with a type id that is not known yet; returns a JSON table that contains it."""
        self._types: dict[TypeId, Type] = {}
        self._fetch = fetch

    def add(self, table: str | Mapping[str, Any]) -> None:
        """Adds a table, as JSON text or parsed."""
        parsed = json.loads(table) if isinstance(table, str) else table
        for id_, entry in parsed["types"].items():
            key = _type_id(id_)
            if key not in self._types:
                self._types[key] = Type(self, key, entry)

    def __getitem__(self, id_: TypeId) -> Type:
        key = _type_id(id_)
        if key not in self._types and self._fetch is not None:
            self.add(self._fetch(key))
        return self._types[key]

    def struct_like(self, entry: Mapping[str, Any]) -> Type:
        """The struct that an entry of kind forward stands for."""
        for type_ in self._types.values():
            if type_.kind == "struct" and type_.name == entry["name"] and type_.size == entry["size"]:
                if [[m.name, m.offset, m.type.name, m.type.size] for m in type_.own] == entry["layout"]:
                    return type_
        raise KeyError(f"no struct {entry['name']} is known")

    def decoder(self, id_: TypeId, read_string: Callable[[int, int], bytes]) -> Decoder:
        """The function that makes values of a type that is read as a whole; a char* is followed by read_string(node,
        address)."""
        type_ = self[id_].resolved
        if not type_.is_text_pointer:
            decode = type_.decode
            if decode == type_._first_decode:
                decode = type_.decode = type_._make_decode()
            return decode if type_.kind in _NUMBERS else lambda data, address, node: decode(data, address)

        def decode_string(data: bytes, address: int | None, node: int) -> Any:
            pointer = int.from_bytes(data, "little")
            return type_.decode_text(read_string(node, pointer), pointer) if pointer else type_.decode(data)
        return decode_string


_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', ord("'"): "\\'", 10: "\\n", 9: "\\t", 13: "\\r"}


def c_escape(value: "str | bytes") -> str:
    """The text with C escapes, for the inside of a C string or character literal."""
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return "".join(_ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in raw)


def c_quote(value: "str | bytes") -> str:
    """The text as a C string literal."""
    return f'"{c_escape(value)}"'


def castable(name: str) -> bool:
    """Whether a cast to a type of this name can be written in C."""
    return bool(name) and not any(mark in name for mark in ("<unnamed", "(anonymous", "{"))
