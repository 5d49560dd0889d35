"""pyflakes over the Python files that standard input names, one a line; exits with 1 if it finds anything.

What it does not complain of: a line that says `# noqa`, a package's __init__.py that imports what the package offers, and
fixtures, which tests import by name and take as parameters of the same name. The parts of gdb's helper script
(core/mi/CMakeLists.txt) are read as the one script that gdb gets.

Beside that: what a file takes from a module in its folder (`module.name`) must be there.
"""

import ast
import functools
import pathlib
import re
import sys
from typing import Iterator

from pyflakes import checker, messages

ROOT = pathlib.Path(__file__).resolve().parents[1]


def helper_scripts() -> list[pathlib.Path]:
    """The parts of the helper script, in their order."""
    listed = re.search(r"set\(helper_scripts ([^)]*)\)", (ROOT / "core/mi/CMakeLists.txt").read_text())
    return [ROOT / "core/mi" / name for name in re.findall(r"/(\w+\.py)", listed[1])]


def parameters(tree: ast.AST) -> set[str]:
    """Names of parameters, and of the fixtures that marks name."""
    names = {argument.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for argument in node.args}
    marks = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "usefixtures"]
    return names | {argument.value for mark in marks for argument in mark.args if isinstance(argument, ast.Constant)}


@functools.cache
def offered(module: pathlib.Path) -> set[str] | None:
    """The names that the module's file binds; None if it imports all that another one has."""
    names = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return None if "*" in names or "__getattr__" in names else names


def missing(path: pathlib.Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, what is wrong there) for each name that a module in the same folder lacks."""
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    modules = {alias.asname or alias.name: path.with_name(alias.name + ".py") for alias in imports}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        module = modules.get(node.value.id)
        if module is None or not module.is_file() or node.attr.startswith("__"):
            continue
        names = offered(module)
        if names is not None and node.attr not in names:
            yield node.lineno, f"{module.name} has no {node.attr}"


def complaints(name: str, text: str, builtins: set[str] = frozenset()) -> list[tuple[int, str]]:
    """(line, what is wrong there) of one file."""
    try:
        tree = ast.parse(text, name)
    except SyntaxError as error:
        return [(error.lineno or 1, error.msg)]
    lines = text.split("\n")
    fixtures = parameters(tree) if "tests" in pathlib.Path(name).parts else set()
    found = []
    for message in checker.Checker(tree, filename=name, builtins=builtins).messages:
        if "# noqa" in lines[message.lineno - 1]:
            continue
        if isinstance(message, messages.UnusedImport):
            bound = message.message_args[0].rpartition(".")[2]
            if bound in fixtures or name.endswith("/__init__.py"):
                continue
        if isinstance(message, messages.RedefinedWhileUnused) and message.message_args[0] in fixtures:
            continue
        found.append((message.lineno, message.message % message.message_args))
    return sorted([*found, *missing(ROOT / name, tree)])


def main() -> int:
    parts = helper_scripts()
    count = 0

    def tell(name: str, line: int, text: str) -> None:
        nonlocal count
        count += 1
        print(f"{name}:{line}: {text}")

    for name in sys.stdin.read().split("\n"):
        path = ROOT / name
        if not name or path in parts:
            continue
        for line, text in complaints(name, path.read_text()):
            tell(name, line, text)
    texts = [part.read_text() for part in parts]
    places = [(part, line) for part, text in zip(parts, texts) for line in range(1, text.count("\n") + 1)]
    for line, text in complaints("core/mi/helper", "".join(texts), {"gdb"}):
        part, at = places[line - 1]
        tell(str(part.relative_to(ROOT)), at, text)
    return 1 if count else 0


sys.exit(main())
