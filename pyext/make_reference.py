"""Writes what is derived from the sources of the package friday: docs/python.md, the reference, and pyext/friday/__init__.pyi, the
public names with their types for editors and type checkers.

    /usr/bin/python3 pyext/make_reference.py            # after a change of a public name or its docstring
    /usr/bin/python3 pyext/make_reference.py --check    # says what is not current, exit code 1

The sources are parsed, so annotations and defaults are as they are written there. A type that is no public name becomes Any.
"""
from __future__ import annotations

import ast
import builtins
import inspect
import pathlib
import re
import sys
import typing
from dataclasses import dataclass, field
from types import ModuleType

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import friday  # noqa: E402
import friday.backend  # noqa: E402

PYI, PAGE = HERE / "friday" / "__init__.pyi", HERE.parent / "docs" / "python.md"

SECTIONS = {
    "Sessions": ["open", "Session", "StopPoint", "Hit", "Cost"],
    "Nodes": ["Node", "Nodes", "Thread", "Place"],
    "Messages": ["Message"],
    "Looks": ["look", "Look", "LookFrame", "Around"],
    "Recordings": ["Recording", "RecordedNode", "Event", "Transfer", "Channel", "Edge", "Step"],
    "Values": ["Snapshot", "Int", "Bool", "Char", "Enum", "Pointer", "Float", "Str", "Bytes", "Struct", "Array", "Items", "Map", "Raw"],
    "Violations": ["violation", "stop", "Violation", "Violated", "run_script"],
    "Errors": ["Error", "UsageError", "NoNode", "NoSymbol", "OutOfScope", "OptimizedOut", "BadExpression", "BadAddress", "NodeEnded", "NodeNotStarted",
               "CallFailed", "Divergence", "CodePlace", "NearEvent", "BadRecording", "ComponentDied", "Unsupported", "AtError"],
    "What the core tells": ["Stop", "LogicalTime", "NodeInfo", "Backend"],
}
ATTRIBUTES_HIDDEN = {"types", "plans", "decoders", "names", "listed", "aliases", "run", "purpose", "states", "tracer", "on_traced"}  # in __init__, of no use to a script
# Of the package itself, public by name only.
HIDDEN = {"note_ended", "set_block", "set_suite", "report_assertion", "declared", "at_end_functions", "stop_asked", "set_handler", "run_again", "origin_lines"}
MADE = {"Session", "Recording", "Violated"}  # by users: the page shows how
UNSHOWN = {"Backend"}  # in __init__.pyi only
ALIASES = {"Progress": "Callable[[float, float], None]"}
GENERIC = {"Sequence": "Sequence[Any]", "tuple": "tuple[Any, ...]"}  # bases without their types
KEPT_DUNDERS = {"__init__", "__new__", "__getitem__", "__getattr__", "__call__", "__iter__", "__len__", "__enter__", "__exit__", "__lt__", "__index__"}
_TYPING = {name for name in ("Any", "Callable", "Hashable", "Iterator", "Mapping", "Protocol", "Sequence", "TextIO")}

@dataclass
class Member:
    """A public function, property or attribute as __init__.pyi has it."""
    name: str
    node: ast.AST
    doc: str = ""
    kind: str = "function"  # "property", "attribute", "alias"


@dataclass
class Public:
    """A public class or function."""
    name: str
    node: ast.ClassDef | ast.FunctionDef
    bases: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)

    @property
    def doc(self) -> str:
        return ast.get_docstring(self.node) or ""


def public_names() -> dict[str, object]:
    """What `friday.NAME` offers, but for modules and the session."""
    return {name: value for name, value in vars(friday).items() if not name.startswith("_") and name != "session" and not isinstance(value, ModuleType)
            and getattr(value, "__module__", "").startswith("friday")}


_trees: dict[str, tuple[ast.Module, list[str]]] = {}


def source_of(module: str) -> tuple[ast.Module, list[str]]:
    if module not in _trees:
        text = inspect.getsource(sys.modules[module])
        _trees[module] = ast.parse(text), text.splitlines()
    return _trees[module]


def find(name: str, module: str) -> typing.Any:
    found = [node for node in source_of(module)[0].body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name]
    return found[0] if found else None


class _Annotations(ast.NodeTransformer):
    """Types that are no public names become Any."""

    def __init__(self, known: set[str]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in ALIASES:
            return ast.parse(ALIASES[node.id], mode="eval").body
        return node if node.id in self.known else ast.Name("Any", ast.Load())

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node if ast.unparse(node) == "os.PathLike" else ast.Name("Any", ast.Load())

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node


class Reader:
    """Collects the public names from the sources."""

    def __init__(self) -> None:
        self.names = public_names()
        self.known = {*self.names, *_TYPING, *(name for name, value in vars(builtins).items() if isinstance(value, type))}

    def annotation(self, node: ast.expr | None) -> ast.expr | None:
        return None if node is None else _Annotations(self.known).visit(ast.parse(ast.unparse(node), mode="eval").body)

    def read(self, name: str) -> Public:
        node = find(name, self.names[name].__module__)
        if isinstance(node, ast.FunctionDef):
            return Public(name, self.signature(node))
        bases: list[str] = []
        members = self.members(node, self.names[name].__module__, bases)
        inherited = {member.name for base in bases if base in self.names for member in self.read(base).members if member.kind == "attribute"}
        return Public(name, node, [GENERIC.get(base, base) for base in bases],
                      [member for member in members if member.kind != "property" or member.name not in inherited])

    def members(self, node: ast.ClassDef, module: str, bases: list[str]) -> list[Member]:
        """Those of a class and of its private bases; public bases are put into `bases`."""
        found: list[Member] = []
        for base in node.bases:
            text = ast.unparse(base)
            where = getattr(vars(sys.modules[module]).get(text), "__module__", "")  # it may be imported
            private = find(text, where) if where.startswith("friday") and text not in self.names else None
            if private is not None:
                found += self.members(private, where, bases)
            elif text.partition("[")[0] in self.known:
                bases.append(text)
        for statement, following in zip(node.body, [*node.body[1:], None]):
            own = self.member(statement, module)
            if isinstance(statement, ast.AnnAssign) and own and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                own[0].doc = inspect.cleandoc(following.value.value)
            found += [member for member in own if member.name not in HIDDEN]
        return list({member.name: member for member in found}.values())

    def member(self, statement: ast.stmt, module: str) -> list[Member]:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and not statement.target.id.startswith("_"):
            return [self.attribute(statement.target.id, self.annotation(statement.annotation), statement, module)]
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name) and not statement.targets[0].id.startswith("_") \
                and isinstance(statement.value, ast.Name):
            return [Member(statement.targets[0].id, statement, kind="alias")]
        if not isinstance(statement, ast.FunctionDef):
            return []
        own = self.assigned(statement, module) if statement.name == "__init__" else []
        if statement.name.startswith("_") and statement.name not in KEPT_DUNDERS:
            return own
        decorators = [ast.unparse(decorator) for decorator in statement.decorator_list]
        if any(decorator.endswith(".setter") for decorator in decorators):
            return [*own, Member(f"{statement.name}.setter", self.signature(statement))]
        return [*own, Member(statement.name, self.signature(statement), ast.get_docstring(statement) or "", "property" if "property" in decorators else "function")]

    def assigned(self, init: ast.FunctionDef, module: str) -> list[Member]:
        """The public attributes that __init__ sets."""
        parameters = {arg.arg: arg.annotation for arg in (*init.args.args, *init.args.kwonlyargs)}
        found = []
        for statement in init.body:
            if isinstance(statement, ast.AnnAssign):
                pairs: list[tuple[ast.expr, ast.expr | None]] = [(statement.target, statement.annotation)]
            elif isinstance(statement, ast.Assign):
                target, value = statement.targets[0], statement.value
                both = zip(target.elts, value.elts) if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else [(target, value)]
                pairs = [(each, self.type_of(source, parameters)) for each, source in both]
            else:
                continue
            for each, annotation in pairs:
                if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self" and not each.attr.startswith("_") and each.attr not in ATTRIBUTES_HIDDEN:
                    found.append(self.attribute(each.attr, self.annotation(annotation), statement, module))
        return list({member.name: member for member in found}.values())

    def type_of(self, value: ast.expr, parameters: dict[str, ast.expr | None]) -> ast.expr | None:
        """What the value of an attribute tells of its type."""
        if isinstance(value, ast.Constant) and value.value is not None:
            return ast.Name(type(value.value).__name__, ast.Load())
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in self.names:
            return value.func
        return parameters.get(value.id) if isinstance(value, ast.Name) else None

    def attribute(self, name: str, annotation: ast.expr | None, statement: ast.stmt, module: str) -> Member:
        comment = re.search(r"  # (?!type:|noqa)(.*)$", source_of(module)[1][statement.lineno - 1])
        node = ast.AnnAssign(ast.Name(name, ast.Store()), annotation or ast.Name("Any", ast.Load()), None, 1)
        return Member(name, node, comment[1] if comment else "", "attribute")

    def signature(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The function without its body and without types that nobody outside knows."""
        copy = ast.parse(ast.unparse(node)).body[0]
        assert isinstance(copy, ast.FunctionDef)
        arguments = copy.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))):
            argument.annotation = self.annotation(argument.annotation)
        copy.returns = self.annotation(copy.returns)
        return copy


# -- __init__.pyi -----------------------------------------------------------------------------------------------------
def pyi_function(node: ast.FunctionDef, indent: str = "") -> list[str]:
    head = ast.FunctionDef(node.name, node.args, [ast.Expr(ast.Constant(...))],
                           [each for each in node.decorator_list if not ast.unparse(each).startswith("_")], node.returns, None, lineno=1)
    *lines, end, _ = ast.unparse(ast.fix_missing_locations(head)).splitlines()
    return [indent + line for line in (*lines, end + " ...")]


def pyi_class(public: Public) -> list[str]:
    assert isinstance(public.node, ast.ClassDef)
    lines = [f"@{ast.unparse(decorator)}" for decorator in public.node.decorator_list]
    lines += [f"class {public.name}({', '.join(public.bases)}):" if public.bases else f"class {public.name}:"]
    for member in public.members:
        if member.kind in ("attribute", "alias"):
            lines.append("    " + ast.unparse(ast.fix_missing_locations(member.node)))
        else:
            assert isinstance(member.node, ast.FunctionDef)
            lines += pyi_function(member.node, "    ")
    return lines if public.members else [lines[0][:-1] + ": ..."] if len(lines) == 1 else [*lines, "    ..."]


def pyi(all_names: dict[str, Public]) -> str:
    lines = ['"""The public names of friday and their types; their docstrings are in docs/python.md. Written by pyext/make_reference.py."""', "import os", "from dataclasses import dataclass",
             f"from typing import {', '.join(sorted(_TYPING))}", "", "__version__: str", "session: Session | None", "state: Any"]
    for public in all_names.values():
        lines += ["", *(pyi_class(public) if isinstance(public.node, ast.ClassDef) else pyi_function(public.node))]
    return "\n".join(lines) + "\n"


# -- the page ---------------------------------------------------------------------------------------------------------
def shown(node: ast.FunctionDef, name: str, method: bool) -> str:
    """A signature as a person reads it."""
    def argument(arg: ast.arg, default: ast.expr | None = None, star: str = "") -> str:
        text = star + arg.arg + (f": {ast.unparse(arg.annotation)}" if arg.annotation else "")
        return text if default is None else f"{text}{' = ' if arg.annotation else '='}{ast.unparse(default)}"

    args = node.args
    positional = [*args.posonlyargs, *args.args]
    parts = [argument(arg, default) for arg, default in zip(positional, [*[None] * (len(positional) - len(args.defaults)), *args.defaults])][method:]
    parts += [argument(args.vararg, star="*")] if args.vararg else ["*"] if args.kwonlyargs else []
    parts += [argument(arg, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults)]
    parts += [argument(args.kwarg, star="**")] if args.kwarg else []
    returns = "" if node.returns is None or ast.unparse(node.returns) == "None" else f" -> {ast.unparse(node.returns)}"
    return f"{name}({', '.join(parts)}){returns}"


def page_class(public: Public) -> list[str]:
    init = next((member.node for member in public.members if member.name == "__init__"), None)
    made = public.name in MADE and isinstance(init, ast.FunctionDef)
    lines = [f"### {public.name}", "", *([f"`{shown(init, public.name, True)}`", ""] if made else []), public.doc, ""]
    attributes = [member for member in public.members if member.kind == "attribute" and member.doc]
    if attributes:
        lines += ["| attribute | type | |", "|---|---|---|"]
        for member in attributes:
            assert isinstance(member.node, ast.AnnAssign)
            cells = (f"`{member.name}`", f"`{ast.unparse(member.node.annotation)}`", " ".join(member.doc.split()))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    for member in public.members:
        if member.doc and member.kind == "property":
            assert isinstance(member.node, ast.FunctionDef)
            kind = f": {ast.unparse(member.node.returns)}" if member.node.returns else ""
            lines += [f"**`.{member.name}{kind}`** {member.doc}", ""]
        elif member.kind == "function" and member.doc and not member.name.startswith("__"):
            assert isinstance(member.node, ast.FunctionDef)
            lines += [f"**`.{shown(member.node, member.name, True)}`**", "", member.doc, ""]
        elif member.kind == "alias":
            assert isinstance(member.node, ast.Assign)
            lines += [f"**`.{member.name}`** is `.{ast.unparse(member.node.value)}`.", ""]
    return lines


def page(all_names: dict[str, Public]) -> str:
    from friday import containers, modules, values, recordings
    lines = ["# The Python package", "", "<!-- Written by pyext/make_reference.py from the docstrings: change those, and run it. -->", "",
             inspect.getdoc(friday) or "", "", "## Forms", "", "### Scripts", "", "`friday run SCRIPT.py REC...` runs scripts on recordings, in parallel, with exit codes and reports for "
             "CI: [commands.md](commands.md#friday-run). It says at the end how often their stop points were hit, and which never were. Ready "
             "predicates are in [predicates.md](predicates.md).", "", "### In a plain interpreter or a notebook", "",
             "`export PYTHONPATH=$(friday --python-path)`, then start `/usr/bin/python3`, or a notebook that uses it, and `import friday`. " + all_names["open"].doc, "",
             "### Without a replay", "", inspect.getdoc(recordings) or "", "",
             "### Modules with `@`", "", inspect.getdoc(modules) or "", "", "### pytest", "", plugin_doc(), ""]
    for section, names in SECTIONS.items():
        lines += [f"## {section}", ""]
        if section == "Values":
            lines += [(inspect.getdoc(values) or "").partition("\n\nTypes come as JSON")[0], "", inspect.getdoc(containers) or "", ""]
        for name in (name for name in names if name not in UNSHOWN):
            public = all_names[name]
            if isinstance(public.node, ast.ClassDef):
                lines += page_class(public)
            else:
                lines += [f"### friday.{name}", "", f"`{shown(public.node, name, False)}`", "", public.doc, ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def plugin_doc() -> str:
    """The docstring of the plugin. The file is parsed, not imported, since pytest may not be installed."""
    tree = ast.parse((HERE / "friday" / "pytest_plugin.py").read_text(encoding="utf-8"))
    return ast.get_docstring(tree) or ""


def derived() -> dict[pathlib.Path, str]:
    """The derived files, with the text that each must have."""
    reader = Reader()
    sorted_names = [name for names in SECTIONS.values() for name in names]
    if missing := set(reader.names) ^ set(sorted_names):
        raise SystemExit(f"SECTIONS and the names of the package differ: {', '.join(sorted(missing))}")
    all_names = {name: reader.read(name) for name in sorted_names}
    return {PYI: pyi(all_names), PAGE: page(all_names)}


def main() -> int:
    stale = [path for path, text in derived().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if sys.argv[1:] == ["--check"]:
        for path in stale:
            print(f"{path} is not current: run pyext/make_reference.py")
        return 1 if stale else 0
    for path in stale:
        path.write_text(derived()[path], encoding="utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
