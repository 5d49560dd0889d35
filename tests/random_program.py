"""Random C programs for the oracles of expressions: structures in each other, pointers, bit-fields, unions, variables of one name in several
scopes, of threads and of functions, functions that the compiler puts into others, and libraries that are loaded at run time and have types
and variables of the same names. A seed always makes the same program. Nothing in it is undefined: it never crashes by itself.

A program runs in several threads and comes by `stop_here` in each, and by `stop_there` of the library that its first argument names.
"""
from __future__ import annotations

import pathlib
import random
import subprocess

SCALARS = ("char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long", "long long", "float", "double",
           "bool", "enum Color")
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Og")
HEAD = """#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum Color { RED, GREEN = 5, BLUE = -3 };
static volatile long sink;
#define KEEP(pointer) asm volatile("" : : "g"(pointer) : "memory")
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
"""


class Source:
    """The text of one program or library."""

    def __init__(self, chance: random.Random, stop: str):
        self.chance, self.stop = chance, stop
        self.cxx = chance.random() < 0.4
        self.types: list[str] = []  # the names of structures and unions, each made of those before
        self.lines: list[str] = []

    def exported(self) -> str:
        return 'extern "C" ' if self.cxx else ""

    def some(self, most: int) -> int:
        return self.chance.randrange(1, most + 1)

    def scalar(self) -> str:
        return self.chance.choice(SCALARS)

    def value(self, type: str, of: str) -> str:
        """An expression of the scalar type, made of a whole number's text."""
        if type == "enum Color":
            return f"({of}) % 3 ? GREEN : BLUE"
        if type == "bool":
            return f"(({of}) & 1) != 0"
        return f"({type})(({of}) * {self.chance.choice((1, 3, -7, 1001, 0.5) if type in ('float', 'double') else (1, 3, -7, 1001))})"

    def member(self, name: str, union: bool) -> tuple[str, str]:
        """A member's declaration, and the statements that fill it: `o` is the object's address, `n` a number."""
        kind = self.chance.random()
        if kind < 0.35:
            type = self.scalar()
            return f"{type} {name};", f"o->{name} = {self.value(type, 'n')};"
        if kind < 0.5:
            type = self.chance.choice(("int", "unsigned", "unsigned char", "long", "unsigned short"))
            width = self.some({"unsigned char": 8, "unsigned short": 16, "long": 60}.get(type, 31))
            return f"{type} {name} : {width};", f"o->{name} = {self.chance.randrange(1000)} + n;"
        if kind < 0.62:
            type, count = self.scalar(), self.some(4)
            return f"{type} {name}[{count}];", f"for (int i = 0; i < {count}; i++) o->{name}[i] = {self.value(type, 'n + i')};"
        if kind < 0.7:
            return f"short {name}[2][3];", f"for (int i = 0; i < 6; i++) o->{name}[i / 3][i % 3] = (short)(n * i);"
        if kind < 0.8 and self.types:
            type = self.chance.choice(self.types)
            if self.chance.random() < 0.3:
                return f"{type} {name}[2];", f"fill_{type}(&o->{name}[0], n); fill_{type}(&o->{name}[1], n + 1);"
            return f"{type} {name};", f"fill_{type}(&o->{name}, n + 2);"
        if kind < 0.9 and self.types:
            type = self.chance.choice(self.types)
            target = self.chance.choice(("NULL", f"&pool_{type}[n & 1]", f"&pool_{type}[1]"))
            return f"{type}* {name};", f"o->{name} = {target};"
        if kind < 0.94:
            return f"const char* {name};", f'o->{name} = n & 1 ? "odd" : "{name}";'
        if kind < 0.97 and not union:
            return "union { " + f"int {name}_w; float {name}_f; unsigned char {name}_b[4]; " + "};", f"o->{name}_w = n + 77;"
        return f"long (*{name})(long);", f"o->{name} = n & 1 ? twice : NULL;"

    def make_type(self, name: str):
        union = self.chance.random() < 0.2
        members = [self.member(f"{self.chance.choice('abcxyz')}{i}", union) for i in range(self.some(6))]
        self.lines += [f"typedef {'union' if union else 'struct'} {name} {{", *(f"  {text}" for text, _ in members), f"}} {name};",
                       f"static {name} pool_{name}[2];",
                       f"static void fill_{name}({name}* o, int n) {{", "  memset(o, 0, sizeof *o);", *(f"  {fill}" for _, fill in members), "}"]
        self.types.append(name)

    def make_variables(self):
        self.fill = []
        for i in range(self.some(5) + 1):
            storage = self.chance.choice(("", "static ", "static __thread ", "static volatile "))
            name = self.chance.choice(("state", "total", "table")) + str(i)
            if self.chance.random() < 0.5:
                type = self.chance.choice(self.types)
                storage = storage.replace("volatile ", "")
                self.lines.append(f"{storage}{type} {name};")
                self.fill.append(f"fill_{type}(&{name}, n + {i});")
            else:
                type = self.scalar()
                self.lines.append(f"{storage}{type} {name} = {self.chance.choice(('RED', 'GREEN')) if type == 'enum Color' else self.chance.randrange(2)};")
                self.fill.append(f"{name} = {self.value(type, f'n + {i}')};")
        self.lines += ["static void fill_all(int n) {", *(f"  fill_{type}(&pool_{type}[0], n); fill_{type}(&pool_{type}[1], n + 1);" for type in self.types),
                       *(f"  {each}" for each in self.fill), "}"]

    def locals_(self, depth: int) -> tuple[list[str], list[str]]:
        """Declarations of some local variables, and statements behind a call that keep some of them alive until then."""
        made, kept = [], []
        for name in self.chance.sample(("i", "n2", "left", "item", "list", "text", "state0", "ratio", "flag"), self.some(4)):
            kind = self.chance.random()
            if kind < 0.45:
                type = self.scalar()
                qualifier, value = self.chance.choice(("", "", "static ", "volatile ", "const ")), self.value(type, "n")
                made.append(f"static {type} {name}; {name} = {value};" if qualifier == "static " else f"{qualifier}{type} {name} = {value};")
                kept.append(f"sink += (long){name};")
            elif kind < 0.75:
                type = self.chance.choice(self.types)
                made.append(f"{type} {name}; fill_{type}(&{name}, n + {depth});")
                kept.append(f"KEEP(&{name});")
            elif kind < 0.9:
                type = self.chance.choice(self.types)
                made.append(f"{type}* {name} = {self.chance.choice((f'&pool_{type}[n & 1]', 'NULL', f'&pool_{type}[0]'))};")
                kept.append(f"KEEP({name});")
            else:
                made.append(f"int {name}[3] = {{n, n + 1, {depth}}};")
                kept.append(f"sink += {name}[n & 1];")
        return made, [each for each in kept if self.chance.random() < 0.6]

    def make_function(self, number: int, inner: str | None):
        """A function that calls the one before, or comes by the place to stop at."""
        by_value = self.chance.choice(self.types)
        pointed = self.chance.choice(self.types)
        head = f"{self.chance.choice(('INLINE', 'NOINLINE', 'NOINLINE'))} long f{number}(int n, {by_value} whole, {pointed}* item2)"
        made, kept = self.locals_(number)
        call = f"sink += {inner};" if inner else f"{self.stop}(n);"
        body = [*made]
        if self.chance.random() < 0.5:  # a scope of its own, whose variables may have the names of those around
            hidden, more = self.locals_(number + 10)
            body += ["if (n >= 0) {", *(f"  {each}" for each in hidden), f"  {call}", *(f"  {each}" for each in more), "}"]
        elif self.chance.random() < 0.5:
            body += [f"for (long turn = 0; turn < {self.some(2)}; turn++) {{", f"  {call}", "  sink += turn;", "}"]
        else:
            body.append(call)
        if self.chance.random() < 0.5:
            kept.append("KEEP(&whole);")
        self.lines += [head + " {", *(f"  {each}" for each in body + kept), "  return n + (item2 != NULL);", "}"]
        return by_value, pointed

    def make(self) -> str:
        self.lines = [HEAD, "NOINLINE long twice(long n) { return 2 * n; }",
                      f"{self.exported()}__attribute__((noinline)) void {self.stop}(int n) {{ sink += n; KEEP(&sink); }}"]
        for number in range(self.some(4) + 1):
            self.make_type(f"T{number}")
        self.make_variables()
        inner = None
        for number in range(self.some(4) + 1):
            by_value, pointed = self.make_function(number, inner)
            inner = f"f{number}(n + {number % 2}, pool_{by_value}[n & 1], {self.chance.choice((f'&pool_{pointed}[0]', 'NULL'))})"
        self.inner = inner
        return "\n".join([*self.lines, *self.end()])

    def end(self) -> list[str]:
        raise NotImplementedError


class Program(Source):
    def __init__(self, chance: random.Random):
        super().__init__(chance, "stop_here")

    def end(self) -> list[str]:
        threads = self.chance.randrange(3)
        return ["static void* run(void* number) {", "  int n = (int)(long)number;", "  fill_all(n);",
                "  for (int round = 0; round < 2; round++) { getppid(); sink += " + self.inner + "; }", "  return NULL;", "}",
                "int main(int argc, char** argv) {", f"  pthread_t threads[{threads + 1}];",
                f"  for (long i = 0; i < {threads}; i++) pthread_create(&threads[i], NULL, run, (void*)(i + 1));",
                "  run(NULL);", f"  for (int i = 0; i < {threads}; i++) pthread_join(threads[i], NULL);",
                "  for (int i = 1; i < argc; i++) {", "    void* library = dlopen(argv[i], RTLD_NOW);", "    if (!library) return 2;",
                '    long (*entry)(int) = (long (*)(int))dlsym(library, "entry");', "    for (int n = 0; n < 3; n++) { getppid(); sink += entry(n); }",
                "  }", f"  {self.stop}(99);", "  return 0;", "}", ""]


class Library(Source):
    def __init__(self, chance: random.Random):
        super().__init__(chance, "stop_there")

    def end(self) -> list[str]:
        return [self.exported() + "long entry(int n) {", "  fill_all(n);", f"  return {self.inner};", "}", ""]


def build(seed: int, directory: pathlib.Path) -> tuple[pathlib.Path, list[pathlib.Path]]:
    """Makes a program and two libraries that it can load, in the directory."""
    chance = random.Random(seed)
    made = []
    for source, name in ((Program(chance), "program"), (Library(chance), "first.so"), (Library(chance), "second.so")):
        path = directory / (name.partition(".")[0] + (".cc" if source.cxx else ".c"))
        path.write_text(source.make())
        options = [chance.choice(LEVELS), chance.choice(("-gdwarf-4", "-gdwarf-5")), "-w"]
        if name == "program":
            options.append(chance.choice(("-no-pie", "-fPIE -pie")))
        else:
            options.append("-fPIC -shared")
        subprocess.run(["/usr/bin/c++" if source.cxx else "/usr/bin/cc", *" ".join(options).split(), "-o", directory / name, path, "-pthread"],
                       check=True, capture_output=True, text=True)
        made.append(directory / name)
    return made[0], made[1:]
