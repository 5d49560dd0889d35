"""pyflakes over the Python files that standard input names, one a line; exits with 1 if it finds anything.

What it does not complain of: a line that says `# noqa`, a package's __init__.py that imports what the package offers, and
fixtures, which tests import by name and take as parameters of the same name. The parts of gdb's helper script
(core/mi/CMakeLists.txt) are read as the one script that gdb gets.
"""

import ast
import pathlib
import re
import sys

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
    return sorted(found)


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
