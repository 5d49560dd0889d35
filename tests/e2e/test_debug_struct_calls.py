"""Random structs and unions, returned and taken by functions of a program that was compiled for the test: Friday's plan of a call and gdb
itself (by the same endpoint) find the same in what the function returns. The seed is fixed in the sample; FRIDAY_STRUCT_SEEDS=FIRST-LAST
chooses others, and FRIDAY_STRUCT_TYPES how many types each program has.
"""

import ast
import os
import random
import re
import subprocess

import pytest
from debug_support import break_at, friday, opened, record_once  # noqa: F401
from test_debug_oracle import kind_of
from test_debug_robust import no_gdb_needed

pytestmark = pytest.mark.limit(120)

SCALARS = ["char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long", "_Bool", "enum kind",
           "float", "double", "float", "double", "struct node *"]
OPERATORS = ["-{}", "!{}", "~{}", "{} > limit", "({} == 3)", "{} + 1", "{} && limit", "{} * limit - 2", "limit < 9 || {}"]
COUNT = int(os.environ.get("FRIDAY_STRUCT_TYPES", "8"))
# gdb's value with every scalar in it, in the form of plain() below.
FLATTEN = """python
def friday_flatten(value):
    type = value.type.strip_typedefs()
    if type.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return [(field.name, friday_flatten(value[field])) for field in type.fields()]
    if type.code == gdb.TYPE_CODE_ARRAY:
        return [friday_flatten(value[i]) for i in range(*(end + i for i, end in enumerate(type.range())))]
    return repr(float(value)) if type.code == gdb.TYPE_CODE_FLT else int(value)
"""


def plain(value):
    """A snapshot in the form in which gdb is asked for it."""
    if isinstance(value, friday.Struct):
        return [(name, plain(field)) for name, field in value]
    if isinstance(value, (friday.Array, friday.Bytes)) and not isinstance(value, (int, str)):
        return [plain(item) for item in value]
    if isinstance(value, friday.Str):
        raise AssertionError("the program has no strings")
    return repr(float(value)) if isinstance(value, float) else int(value)


class Program:
    """The text of a program with random types, each with a function that returns it and, for some, one that takes it."""

    def __init__(self, seed, count):
        self.random, self.fields, self.text = random.Random(seed), [], []
        self.doubtful = set()  # numbers of types about which compilers have disagreed, or that are rare
        self.add('#include <string.h>\nenum kind {NONE, FEW, MANY = 7};\nstruct node {int x; struct node *next;};\n'
                 'struct node nodes[4] = {{11, nodes + 1}, {22, nodes + 2}, {33, nodes + 3}, {44, nodes}};\nint limit = 5;')
        for number in range(count):
            self.add_type(number)
        self.add('__attribute__((noinline)) void here(void) { __asm__ volatile(""); }\nint main(void) {')
        self.text += [f"  v{number} = make_{number}({number} + 3);" for number in range(count)]
        self.add("  here(); return 0; }")

    def add(self, text):
        self.text.append(text)

    def add_type(self, number):
        choose = self.random.choice
        union = self.random.random() < 0.2
        members, bits = [], not union and self.random.random() < 0.2
        for place in range(self.random.choice([1, 1, 2, 2, 2, 3, 4, 5, 8])):
            name, kind = f"m{place}", self.random.random()
            if bits:
                type = choose(["int", "unsigned", "long", "_Bool"])
                members.append((type, name, ":1" if type == "_Bool" else f":{self.random.randrange(1, 30)}"))
            elif kind < 0.2 and len(self.doubtful) < number:
                inner = choose([each for each in range(number) if each not in self.doubtful])
                members.append((f"{self.fields[inner][0]} t{inner}", name, ""))
            else:
                type = choose(SCALARS)
                members.append((type, name, "" if type == "char" else choose(["", "", "", "[2]", "[3]"])))
        if bits and self.random.random() < 0.5:
            members.insert(0, (choose(SCALARS), "first", ""))
        keyword = "union" if union else "struct"
        packed = " __attribute__((packed))" if self.random.random() < 0.06 else " __attribute__((aligned(16)))" if self.random.random() < 0.04 else ""
        unnamed = " int :32;" if not union and self.random.random() < 0.04 else ""
        if packed or unnamed:
            self.doubtful.add(number)
        self.fields.append((keyword, members))
        declared = "".join(f" {type} {name}{suffix};" for type, name, suffix in members)
        self.add(f"{keyword}{packed} t{number} {{{declared}{unnamed}}};")
        # Everything is zero but what is set, so that no value is left to chance.
        self.add(f"__attribute__((noinline)) {keyword} t{number} make_{number}(int n) {{ {keyword} t{number} s; memset(&s, 0, sizeof s);")
        for place, (type, name, suffix) in enumerate(members):
            targets = [f"s.{name}[{i}]" for i in range(int(suffix[1]))] if suffix.startswith("[") else [f"s.{name}"]
            for i, target in enumerate(targets):
                self.add(f"  {target} = {self.value(type, place + i)};")
        self.add("  return s; }")
        self.add(f"{keyword} t{number} v{number};")
        self.add(f"__attribute__((noinline)) double take_{number}(char a, {keyword} t{number} s, double b, int c) {{"
                 f" double sum = a + b * 3 + c; return memcmp(&s, &v{number}, sizeof s) ? -1 - sum : sum; }}")

    def value(self, type, place):
        if type.startswith(("struct t", "union t")):
            return f"make_{type.split(' t')[1]}(n + {place})"
        if type == "struct node *":
            return f"&nodes[(n + {place}) & 3]"
        if type == "enum kind":
            return "(n & 1) ? MANY : FEW"
        if type in ("float", "double"):
            return f"n * 1.5 - {place} * 0.25"
        return f"n * {self.random.choice([-77, 3, 1234567, -9])} + {place}"

    def path(self, number):
        """What may follow make_NUMBER(...), and whether it is an integer."""
        text, (_, members) = "", self.fields[number]
        while True:
            type, name, suffix = self.random.choice(members)
            text += f".{name}"
            if suffix.startswith("["):
                text += f"[{self.random.randrange(int(suffix[1]))}]"
            if type == "struct node *":
                return text + self.random.choice(["", "->x", "->next", "->next->x", "[0]", "->next[0].x"]), False
            if not type.startswith(("struct t", "union t")):
                return text, type not in ("float", "double")
            _, members = self.fields[int(type.split(" t")[1])]
            if self.random.random() < 0.3:
                return text, False

    def expressions(self, number):
        call = f"make_{number}({self.random.randrange(-9, 99)})"
        found = [call, f"({call})"]
        for _ in range(3):
            path, whole = self.path(number)
            found.append(call + path)
            if whole:
                found.append(self.random.choice(OPERATORS).format(call + path))
        return [*found, f"take_{number}(3, v{number}, 0.5, limit)"]


def program_of(seed, count, options, factory):
    program, directory = Program(seed, count), factory.mktemp("structs")
    source = directory / "structs.c"
    source.write_text("\n".join(program.text))
    subprocess.run(["/usr/bin/cc", "-g", "-w", "-Wl,-z,now", *options, "-o", directory / "structs", source], check=True)
    return program, directory / "structs"


def ask_gdb(node, text):
    try:
        said = node.gdb(f"python print('is', repr(friday_flatten(gdb.parse_and_eval({text!r}))))")
    except friday.Error as error:
        return kind_of(str(error))
    return ast.literal_eval(re.search(r"^is (.*)$", said, re.MULTILINE)[1])


def ask_friday(node, text):
    try:
        return plain(node.read(text))
    except friday.Error as error:
        return kind_of(str(error))


def seeds():
    first, _, last = os.environ.get("FRIDAY_STRUCT_SEEDS", "1").partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("options", [["-O0"], ["-O2"]], ids="".join)
def test_the_plan_of_a_call_finds_what_gdb_finds(tmp_path_factory, opened, options):
    for seed in seeds():
        program, path = program_of(seed, COUNT, options, tmp_path_factory)
        session = opened(record_once(f"structs {seed} {options}", lambda recorder, path=path: recorder.record([path]), tmp_path_factory))
        break_at(session, "here")
        node = session.node
        node.gdb(FLATTEN)
        wrong, planned = [], {}
        for number in range(len(program.fields)):
            in_registers = node.read(f"sizeof(v{number})") <= 16
            for text in program.expressions(number):
                got, expected = ask_friday(node, text), ask_gdb(node, text)
                if got != expected:
                    wrong.append(f"seed {seed}: {text}: gdb: {expected}, Friday: {got}")
                certain = number not in program.doubtful and (in_registers or not text.startswith("take"))
                if certain and got != "memory" and "||" not in text:  # where the call comes first
                    planned[text] = got
        assert not wrong, "\n".join(wrong)
        assert len(planned) > len(program.fields) * 3
        session.restart()
        break_at(session, "here")
        with no_gdb_needed() as stopped:
            again = {text: ask_friday(session.node, text) for text in planned}
        assert stopped and again == planned and session.node.altered is None


FIELDS = """
struct packed { int a : 3, b : 30; unsigned long c : 40; } __attribute__((packed));
__attribute__((noinline, used)) struct packed make_packed(int n) { return (struct packed){-2, n, 77}; }
__attribute__((noinline)) void here(void) { __asm__ volatile(""); }
int main(void) { here(); return 0; }
"""


def test_bit_fields_of_what_gdb_must_call_for_are_not_lost(tmp_path_factory, opened):
    directory = tmp_path_factory.mktemp("fields")
    (directory / "fields.c").write_text(FIELDS)
    subprocess.run(["/usr/bin/cc", "-g", "-O1", "-o", directory / "fields", directory / "fields.c"], check=True)
    session = opened(record_once("fields", lambda recorder: recorder.record([directory / "fields"]), tmp_path_factory))
    break_at(session, "here")
    value = session.node.read("make_packed(-5)")
    assert (value.a, value.b, value.c) == (-2, -5, 77)


CLASSES = """
#include <string>
struct Vec { double x, y; double norm() const { return x + y; } };
struct Empty {};
struct Tagged : Empty, Vec { };
enum class Color : unsigned char { red, green };
struct Mixed { int number; Color color; Vec& vec; };
struct Copied { long x; Copied* self; explicit Copied(long n) : x(n), self(this) {} Copied(const Copied& other) : x(other.x), self(this) {} };
struct Ended { long x; ~Ended() { x = 0; } };
struct Virtual { long x; virtual long get() { return x; } };
struct Holds { Copied inner; };
template <typename T> struct Cell { T item; int index; };
Vec vec{1, 2};
int limit = 5;
#define CALLED __attribute__((noinline, used))
CALLED Vec make_vec(double x) { return {x, 2 * x}; }
CALLED Tagged make_tagged(double x) { Tagged t; t.x = x, t.y = 1; return t; }
CALLED Mixed make_mixed(int n) { return {n, Color::green, vec}; }
CALLED Cell<float> make_cell(int n) { return {n * 0.5f, n}; }
CALLED Vec& same_vec(Vec& v) { return v; }
CALLED double norm_of(Vec v, const Cell<float>& cell) { return v.norm() + cell.item; }
CALLED Copied make_copied(long n) { return Copied(n); }
CALLED Ended make_ended(long n) { return {n}; }
CALLED Virtual make_virtual(long n) { Virtual v; v.x = n; return v; }
CALLED Holds make_holds(long n) { return {Copied(n)}; }
Cell<float> cell{0.5f, 1};
__attribute__((noinline)) void here() { __asm__ volatile(""); }
int main() { here(); return 0; }
"""


def test_classes_whose_objects_are_copied_as_bytes_are_planned(tmp_path_factory, opened):
    directory = tmp_path_factory.mktemp("classes")
    (directory / "classes.cc").write_text(CLASSES)
    subprocess.run(["/usr/bin/c++", "-g", "-O1", "-Wl,-z,now", "-o", directory / "classes", directory / "classes.cc"], check=True)
    session = opened(record_once("classes", lambda recorder: recorder.record([directory / "classes"]), tmp_path_factory))
    break_at(session, "here")
    node = session.node
    expected = {"make_vec(2).y": 4, "make_tagged(3).x": 3, "make_mixed(4).number > limit": 0, "make_mixed(7).color": 1, "make_mixed(4).vec.y": 2,
                "make_cell(3).item": 1.5, "make_cell(3).index + 1": 4, "same_vec(vec).y": 2, "norm_of(vec, cell)": 3.5}
    assert {text: node.read(text) for text in expected} == expected
    assert (node.read("make_vec(2)").x, node.read("same_vec(vec)").address, node.read("make_vec(2)").address) == (2, node.read("&vec"), None)
    with no_gdb_needed() as stopped:
        assert stopped and {text: node.read(text) for text in expected} == expected
    for text in ("make_copied(5).x", "make_ended(5).x", "make_virtual(5).x", "make_holds(5).inner.x"):
        assert node.read(text) == 5
        with pytest.raises(AssertionError, match="was asked '.*-friday-value"), no_gdb_needed():
            node.read(text)
