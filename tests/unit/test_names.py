"""The demo's build, which a new user makes first, compiles several sources of a folder as one (CMakePresets.json). A name that two of them hide in
unnamed namespaces is then declared twice. Here the names are read from the sources; `tests/run.sh --full` compiles them."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
# The shim is left out of that: its CMakeLists.txt says so.
FOLDERS = sorted({path.parent for room in ("core", "console", "pyext") for path in (ROOT / room).rglob("*.cc")} - {ROOT / "core/shim"})
UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
# What begins in the first column: a type, another name of a type, a variable or a function with its parameters.
DECLARED = re.compile(
    r"^(?:template <[^\n]*>\n?)?(?:(?:struct|class|union|enum class|enum) (?P<type>\w+)(?= *[:{;]| final)|using (?P<alias>\w+ = [^;]*);|"
    r"(?!using|struct|class|union|enum|namespace|template|static_assert|return)[A-Za-z_][^\n=;{}()]*?[ &*>](?P<name>\w+)"
    r"(?:\[[^\n]*?\])?(?: = |\{|;|\((?P<parameters>[^{;]*?)\)))", re.MULTILINE)


def hidden_names(text: str) -> set[str]:
    """What the unnamed namespaces of a source declare; functions with their parameters, since they may be overloaded."""
    names = set()
    for body in UNNAMED.findall(re.sub("//[^\n]*", "", text)):
        for found in DECLARED.finditer(body):
            if found["alias"]:
                continue  # the same may be said twice
            parameters = "" if found["parameters"] is None else f"({' '.join(found['parameters'].split())})"
            names.add((found["type"] or found["name"]) + parameters)
    return names


def declared_twice(sources: dict[str, str]) -> list[str]:
    seen, twice = {}, []
    for source, text in sources.items():
        for name in sorted(hidden_names(text)):
            if seen.setdefault(name, source) != source:
                twice.append(f"{name} stands in {seen[name]} and in {source}")
    return twice


def test_no_name_is_hidden_twice_in_a_folder():
    for folder in FOLDERS:
        assert not declared_twice({path.name: path.read_text() for path in sorted(folder.glob("*.cc"))}), folder


def test_each_kind_of_name_is_seen():
    def source(text):
        return f"namespace friday {{\nnamespace {{\n{text}\n}}  // namespace\n}}\n"

    for text in ("struct RefusedCall {\n  int x;\n};", "enum class Way { a };", "constexpr Named kRows[] = {\n  {1},\n};", "constexpr int kMost = 3;",
                 "constexpr std::byte int3{0xcc};", "uint32_t guard;", "int f(int a,\n      int b) {\n  return a;\n}", "std::string name_of(NodeId node) { return {}; }",
                 "template <typename T>\nstd::vector<T> all(T x) {\n  return {};\n}", "class Finder final : public Base {\n};"):
        one = source(text)
        assert declared_twice({"a.cc": one, "b.cc": one}), text
        assert not declared_twice({"a.cc": one, "b.cc": source("int other;")}), text
    assert not declared_twice({"a.cc": source("int f(int a) {\n}"), "b.cc": source("int f(long a) {\n}")})
    assert not declared_twice({"a.cc": source("using How = int;"), "b.cc": source("using How = int;")})
