"""`friday cc` and `friday c++` build as clang 19 does, and keep the bitcode: small programs of several files, in C and C++, as makefiles,
archives, shared libraries and plug-ins have them. What friday-bitcode reads from them: modules, facts, and a build that counts."""

import collections
import os
import pathlib
import shutil
import struct
import subprocess

import pytest
from conftest import ROOT

SOURCES = ROOT / "tests" / "targets" / "cut_build"
# What may differ from a plain build: the records, the names of sections (there is one more), and the hash of all bytes.
OWN = {".debug.friday", ".shstrtab", ".note.gnu.build-id"}
WORDS = ["a", "longer", "word"]


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **options)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class Build:
    """A directory with the sources, in which a compiler runs."""

    def __init__(self, place, c, cxx):
        self.place, self.c, self.cxx = place, c, cxx
        shutil.copytree(SOURCES, place, dirs_exist_ok=True)

    def cc(self, *words):
        return run(*self.c, *words, cwd=self.place)

    def run(self, *words, **options):
        return run(*words, cwd=self.place, **options)


@pytest.fixture
def tool(build):
    path = build / "lib" / "friday-bitcode"
    if not path.exists():
        pytest.skip("machine: this build of Friday has no part for compilers (FRIDAY_CUT=OFF)")
    if not shutil.which("clang-19"):
        pytest.skip("machine: it has no clang-19")
    return path


@pytest.fixture
def kept(tool, friday, tmp_path):
    return Build(tmp_path / "one" / "b", [friday, "cc"], [friday, "c++"])


@pytest.fixture
def plain(tmp_path):
    return Build(tmp_path / "two" / "b", ["clang-19"], ["clang++-19"])


def sections(path):
    """Name to (type, flags, bytes); those of the same name are put together."""
    file = pathlib.Path(path).read_bytes()
    assert file[:4] == b"\x7fELF", path
    (start,), (count, names) = struct.unpack_from("<Q", file, 40), struct.unpack_from("<HH", file, 60)
    heads = [struct.unpack_from("<IIQQQQ", file, start + 64 * i) for i in range(count)]
    found = collections.defaultdict(list)
    for name, kind, flags, _, offset, size in heads:
        at = heads[names][4] + name
        found[file[at:file.index(b"\0", at)].decode()].append((kind, flags, b"" if kind == 8 else file[offset:offset + size]))
    return found


def symbols(found):
    """Of an object file: its symbols with the names of their sections, in their order."""
    names = found[".strtab"][0][2]
    order = list(found.items())
    assert all(len(parts) == 1 for _, parts in order)
    where = {index: name for index, (name, _) in enumerate(order)}
    entries = [struct.unpack_from("<IBBHQQ", found[".symtab"][0][2], at) for at in range(0, len(found[".symtab"][0][2]), 24)]
    return [(names[name:names.index(b"\0", name)], info, other, where.get(index, index), value, size)
            for name, info, other, index, value, size in entries]


def same_but_records(kept, plain, path):
    """Everything but the records is equal: code, data, symbols, debug information. Both were built in directories of one length."""
    ours, theirs = sections(kept.place / path), sections(plain.place / path)
    assert ".debug.friday" in ours and ".debug.friday" not in theirs
    assert not ours[".debug.friday"][0][1], "no segment loads the records"
    assert set(ours) - {".debug.friday"} == set(theirs), path
    own = OWN
    if path.endswith(".o"):  # LLVM keeps the names of sections and symbols in one table
        own = OWN | {".strtab", ".symtab", ".llvm_addrsig"}
        assert symbols(ours) == symbols(theirs), path
    for name, parts in theirs.items():
        if name in own:
            continue
        assert ours[name] == parts, f"{path}: {name} differs"


def modules(tool, build, *files):
    done = run(tool, "list", *files, cwd=build.place)
    return [line.split()[1] for line in done.stdout.splitlines() if "(in " in line], done.stdout


def facts(tool, build, *files):
    """The text of each module's facts, by its source."""
    place = build.place / "facts"
    shutil.rmtree(place, ignore_errors=True)
    run(tool, "facts", *files, "-o", place, cwd=build.place)
    return {path.name.split("-", 1)[1][:-len(".facts")]: run(tool, "show", path).stdout for path in sorted(place.iterdir())}


def build_steps(build, level, *options):
    for source in ("main", "words"):
        build.cc(level, *options, "-c", f"{source}.c", "-o", f"{source}.o")
    build.cc("-o", "main", "main.o", "words.o")


@pytest.mark.parametrize("options", [("-O0",), ("-O2",), ("-O2", "-g0", "-ffunction-sections"), ("-O1", "-fPIC", "-fcf-protection")])
def test_steps_as_make_has_them(kept, plain, tool, options):
    for build in (kept, plain):
        build_steps(build, *options)
    assert kept.run("./main", *WORDS).stdout == plain.run("./main", *WORDS).stdout
    for path in ("main", "main.o", "words.o"):
        same_but_records(kept, plain, path)
    names, text = modules(tool, kept, "main")
    assert names == ["main.c", "words.c"] and "libc.so.6" in text, text


def test_one_command_of_several_sources(kept, plain, tool):
    (kept.place / "words.rsp").write_text("-O2 'words.c'\n-DWITH_TWICE twice.S")
    (plain.place / "words.rsp").write_text("-O2 'words.c'\n-DWITH_TWICE twice.S")
    for build in (kept, plain):
        build.cc("-g0", "main.c", "@words.rsp", "-o", "out of place", "-Wl,--gc-sections")
    assert kept.run("./out of place", *WORDS).stdout == plain.run("./out of place", *WORDS).stdout
    same_but_records(kept, plain, "out of place")
    names, text = modules(tool, kept, "out of place")
    assert names == ["main.c", "words.c"]
    assert any("twice" in line and "assembler" in line for line in text.splitlines()), text


def test_what_is_no_compilation_passes_through(kept, plain):
    for command in (["-E", "main.c"], ["-E", "-dM", "words.c"], ["-MM", "main.c"], ["-fsyntax-only", "main.c"], ["--version"],
                    ["-print-prog-name=ld"], ["-dumpmachine"], ["-print-search-dirs"]):
        assert kept.cc(*command).stdout.replace("/one/", "/two/") == plain.cc(*command).stdout, command
    for build in (kept, plain):
        build.cc("-c", "twice.S", "-o", "twice.o")
        build.cc("-x", "c-header", "words.h", "-o", "words.h.pch")
        build.cc("-include-pch", "words.h.pch", "-c", "words.c", "-o", "pch.o")
    assert (kept.place / "twice.o").read_bytes() == (plain.place / "twice.o").read_bytes()
    same_but_records(kept, plain, "pch.o")


def test_assembler_text_and_bitcode_on_the_way(kept, tool):
    kept.cc("-O1", "-S", "words.c", "-o", "words.s")
    kept.cc("-c", "words.s", "-o", "words.o")
    kept.cc("-O1", "-emit-llvm", "-c", "main.c", "-o", "main.bc")
    kept.cc("-O1", "-x", "ir", "-c", "main.bc", "-o", "main.o")
    kept.cc("main.o", "words.o", "-o", "main")
    assert modules(tool, kept, "main")[0] == ["main.c", "words.c"]


def test_archives_shared_libraries_and_plugins(kept, plain, tool):
    for build in (kept, plain):
        for source in ("words", "main"):
            build.cc("-O2", "-fPIC", "-c", f"{source}.c")
        build.run("ar", "rcs", "libwords.a", "words.o")
        build.cc("main.o", "-L.", "-lwords", "-o", "with_archive")
        build.cc("-shared", "-Wl,-soname,libshared.so.1", "words.o", "-o", "libshared.so.1")
        build.cc("main.o", "libshared.so.1", "-Wl,-rpath,$ORIGIN", "-o", "with_library")
        build.cc("-O2", "-fPIC", "-shared", "plugin.c", "-o", "plugin.so")
        build.cc("-O2", "loader.c", "-o", "loader")
        build.cc("-r", "-nostdlib", "words.o", "main.o", "-o", "both.o")
        build.cc("both.o", "-o", "with_both")
    for program in ("with_archive", "with_library", "with_both"):
        assert kept.run(f"./{program}", *WORDS).stdout == plain.run(f"./{program}", *WORDS).stdout
        same_but_records(kept, plain, program)
    assert kept.run("./loader", "./plugin.so").stdout == plain.run("./loader", "./plugin.so").stdout == "answer 42\n"
    assert modules(tool, kept, "with_archive")[0] == ["main.c", "words.c"]
    assert modules(tool, kept, "with_both")[0] == ["words.c", "main.c"]
    names, text = modules(tool, kept, "with_library", "libshared.so.1")
    assert names == ["main.c", "words.c"] and "libshared.so.1: a shared object" in text
    assert modules(tool, kept, "loader", "plugin.so")[0] == ["loader.c", "plugin.c"]


def test_cplusplus(kept, plain, tool):
    for build in (kept, plain):
        build.run(*build.cxx, "-std=c++20", "-O1", "shapes.cc", "circle.cc", "-o", "shapes")
    assert kept.run("./shapes").stdout == plain.run("./shapes").stdout == "17.14\n"
    same_but_records(kept, plain, "shapes")
    assert modules(tool, kept, "shapes")[0] == ["shapes.cc", "circle.cc"]
    found = facts(tool, kept, "shapes")
    assert "_Z7roundedd weak" in found["shapes.cc"] and "_Z7roundedd weak" in found["circle.cc"]
    assert "started" in found["shapes.cc"], "a variable is initialised before main()"


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
def test_other_linkers(kept, plain, tool, linker):
    if linker != "lld" and not shutil.which(f"ld.{linker}"):
        pytest.skip(f"machine: it has no ld.{linker}")
    for build in (kept, plain):
        build.cc("-O2", f"-fuse-ld={linker}", "main.c", "words.c", "-o", "main")
    assert kept.run("./main", *WORDS).stdout == plain.run("./main", *WORDS).stdout
    same_but_records(kept, plain, "main")
    assert modules(tool, kept, "main")[0] == ["main.c", "words.c"]


def test_link_time_optimisation(kept, plain, tool):
    for build in (kept, plain):
        build.cc("-O2", "-flto", "-fuse-ld=lld", "main.c", "words.c", "-o", "main")
    assert kept.run("./main", *WORDS).stdout == plain.run("./main", *WORDS).stdout
    assert sorted(modules(tool, kept, "main")[0]) == ["main.c", "words.c"]


def test_cmake(kept, tool, friday):
    (kept.place / "CMakeLists.txt.in").rename(kept.place / "CMakeLists.txt")
    environment = {**os.environ, "CC": f"{friday} cc"}
    kept.run("cmake", "-S", ".", "-B", "out", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", env=environment)
    kept.run("cmake", "--build", "out")
    assert "longest longer" in kept.run("out/main", *WORDS).stdout
    assert modules(tool, kept, "out/main")[0] == [str(kept.place / "main.c"), str(kept.place / "words.c")]


def test_facts(kept, tool):
    kept.cc("-O2", "-g", "main.c", "words.c", "-o", "main")
    found = facts(tool, kept, "main")
    main, words = found["main.c"], found["words.c"]
    lines = words.splitlines()
    (call,) = [line for line in lines if "malloc(" in line]
    assert call.startswith("call add_word ") and call.endswith(":8"), call
    made = call.split("-> ")[1].split(":")[0]
    assert any(f"= {made} + 16" in line for line in lines), "word->text"
    assert sum("*p" in line and line.startswith("flow longest") for line in lines) >= 1, "each->next"
    assert "call add_word" in words and "*p" in words.split("call add_word")[-1], "words->added is called by its value"
    assert "object" in main and "stack main.words" in main and "function note internal" in " ".join(main.split()).replace(
        "function 0 note", "function note"), main
    assert "= &note" in main and "words_verbose declared" in main
    assert "words_verbose strong 4 bytes" in words
    # The same bitcode has the same facts, whoever takes them and when.
    assert facts(tool, kept, "main") == found


def counts(place):
    """Fingerprint to (blocks, lengths), all files added up: see core/cut/counts.h."""
    sums = {}
    for path in place.glob("*.counts"):
        file = path.read_bytes()
        magic, version, name, fingerprint, blocks, lengths = struct.unpack_from("<8sII32sQQ", file)
        assert (magic, version) == (b"FRIDCUTC", 1) and len(file) == 64 + (name + 7) // 8 * 8 + 8 * (blocks + lengths)
        numbers = struct.unpack_from(f"<{blocks + lengths}Q", file, 64 + (name + 7) // 8 * 8)
        known = sums.setdefault(fingerprint, [0] * len(numbers))
        sums[fingerprint] = [a + b for a, b in zip(known, numbers)]
    return sums


def counting(tool, build, *files):
    """Builds the files to count, and gives the environment in which they do."""
    run(tool, "counting", *files, "-o", "counting", cwd=build.place)
    place = build.place / "counts"
    place.mkdir()
    place.chmod(0o1777)
    return place, {**os.environ, "FRIDAY_COUNTS": str(place), "LD_LIBRARY_PATH": str(build.place / "counting")}


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_counts_of_all_processes(kept, tool, level):
    kept.cc(level, "-g", "forks.c", "-o", "forks")
    place, environment = counting(tool, kept, "forks")
    kept.run("counting/forks", env=environment)
    assert len(list(place.glob("*.counts"))) == 2, "one of the parent and its child, one of what was executed"
    (numbers,) = counts(place).values()
    assert 1110 in numbers, f"times that the loop ran, in a killed child, an executed one and the parent: {numbers}"
    assert 11 in numbers, f"bytes that memcpy moved: {numbers}"
    # Without the directory the program runs all the same.
    kept.run("counting/forks")


def test_profile_of_a_command(kept, tool, friday):
    if "profile" not in subprocess.run([friday, "cut", "--help"], capture_output=True, text=True).stdout:
        pytest.fail("`friday cut profile` is not registered")
    kept.cc("-O2", "forks.c", "-o", "forks")
    for runs in (1, 2):
        kept.run(friday, "cut", "profile", "-o", "counts", "--", "./forks")
        (numbers,) = counts(kept.place / "counts").values()
        assert 1110 * runs in numbers, "the counts of several runs add up"
    assert "missing" in refusal(friday, "cut", "profile", "-o", "counts", "--", "./missing", cwd=kept.place)


def test_counting_builds_of_what_is_linked_in_many_ways(kept, tool):
    for source in ("words", "main"):
        kept.cc("-O2", "-fPIC", "-DWITH_TWICE", "-c", f"{source}.c")
    kept.run("ar", "rcs", "libwords.a", "words.o")
    kept.cc("main.o", "twice.S", "-Wl,--whole-archive", "-L.", "-lwords", "-Wl,--no-whole-archive", "-o", "main")
    kept.cc("-shared", "words.o", "-o", "libshared.so")
    kept.cc("-DWITH_TWICE", "main.c", "twice.S", "libshared.so", "-o", "with_library")
    kept.run(*kept.cxx, "-std=c++20", "-O2", "shapes.cc", "circle.cc", "-o", "shapes")
    kept.cc("-O2", "-flto", "-fuse-ld=lld", "-DWITH_TWICE", "main.c", "words.c", "twice.S", "-o", "with_lto")
    wanted = kept.run("./main", *WORDS).stdout
    place, environment = counting(tool, kept, "main", "with_library", "libshared.so", "shapes", "with_lto")
    for program in ("main", "with_library", "with_lto"):
        assert kept.run(f"counting/{program}", *WORDS, env=environment).stdout == wanted
    assert kept.run("counting/shapes", env=environment).stdout == "17.14\n"
    assert all(any(numbers) for numbers in counts(place).values())


def test_accesses_are_where_the_analysis_predicts(kept, tool):
    kept.cc("-O1", "-fPIC", "-shared", "words.c", "-o", "libwords.so")
    kept.cc("-O2", "-g", "main.c", "libwords.so", "-o", "main")
    kept.cc("-O0", "forks.c", "-o", "forks")
    kept.cc("-O2", "loader.c", "-o", "loader")
    kept.cc("-O2", "-fPIC", "-shared", "plugin.c", "-o", "plugin.so")
    kept.run(*kept.cxx, "-std=c++20", "-O2", "-g", "shapes.cc", "circle.cc", "-o", "shapes")
    for number, (files, command) in enumerate(((["main", "libwords.so"], ["main", *WORDS]), (["forks"], ["forks"]),
                                               (["loader", "plugin.so"], ["loader", "checked/plugin.so"]), (["shapes"], ["shapes"]))):
        run(tool, "observing", *files, "-o", "checked", cwd=kept.place)
        place = kept.place / f"observed{number}"
        place.mkdir(mode=0o777)
        environment = {**os.environ, "FRIDAY_OBSERVED": str(place), "LD_LIBRARY_PATH": str(kept.place / "checked")}
        checked = kept.run(f"checked/{command[0]}", *command[1:], env=environment).stdout
        alone = {**os.environ, "LD_LIBRARY_PATH": str(kept.place)}
        assert checked == kept.run(f"./{command[0]}", *command[1:], env=alone).stdout
        text = run(tool, "compare", *files, "-d", place, cwd=kept.place).stdout
        assert int(text.split()[0]) > 0 and ", 0 not" in text, text


def test_an_address_that_the_analysis_misses_is_found(kept, tool):
    kept.cc("-O1", "-g", "hidden.c", "-o", "hidden")
    run(tool, "observing", "hidden", "-o", "checked", cwd=kept.place)
    place = kept.place / "observed"
    place.mkdir()
    kept.run("checked/hidden", env={**os.environ, "FRIDAY_OBSERVED": str(place)})
    done = subprocess.run([tool, "compare", "hidden", "-d", place], cwd=kept.place, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "main line 11 of" in done.stdout and "writes secret" in done.stdout, done
    assert "not sound" in done.stderr


def refusal(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 2, done
    return done.stderr


def test_what_cannot_be_done_is_explained(kept, plain, tool):
    build_steps(kept, "-O1")
    build_steps(plain, "-O1")
    kept.run("strip", "-o", "stripped", "main")
    assert "CC='friday cc'" in refusal(tool, "list", plain.place / "main")
    assert "do not strip it" in refusal(tool, "list", kept.place / "stripped")
    assert "main.c is no program" in refusal(tool, "facts", kept.place / "main.c", "-o", kept.place / "f")
    kept.run("clang-19", "main.o", "words.o", "-o", "by_others")
    assert "not linked by friday cc" in refusal(tool, "counting", kept.place / "by_others", "-o", kept.place / "c")
    damaged = bytearray((kept.place / "main").read_bytes())
    at = damaged.index(b"FRIDAYr1") + 200
    damaged[at:at + 400] = bytes(byte ^ 0x55 for byte in damaged[at:at + 400])
    (kept.place / "damaged").write_bytes(damaged)
    assert "damaged" in refusal(tool, "facts", kept.place / "damaged", "-o", kept.place / "f")
    assert "no observations" in refusal(tool, "compare", kept.place / "main", "-d", kept.place)
    (kept.place / "wrong.observed").write_text("a text")
    assert "no file of observations" in refusal(tool, "compare", kept.place / "main", "-d", kept.place)
    kept.cc("-c", "twice.S", "-o", "twice.o")
    kept.cc("-DWITH_TWICE", "main.c", "words.o", "twice.o", "-o", "with_twice")
    (kept.place / "twice.o").unlink()
    assert "leave its objects where they are" in refusal(tool, "counting", kept.place / "with_twice", "-o", kept.place / "c")


def test_errors_of_the_source_are_the_compilers(kept, plain):
    for build in (kept, plain):
        (build.place / "wrong.c").write_text("int main(void) { return missing(); }\n")
    ours, theirs = (subprocess.run([*map(str, build.c), "-Werror", "-O2", "wrong.c"], cwd=build.place, capture_output=True, text=True)
                    for build in (kept, plain))
    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr) and ours.returncode == 1
