"""What is derived from the package's sources is current, and says of every public name what is true of it."""
import ast
import inspect
import pathlib
import subprocess
import sys

import pytest
from fake_backend import FakeBackend

import friday

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "pyext"))
import make_reference  # noqa: E402

PYI = {node.name: node for node in ast.parse(make_reference.PYI.read_text()).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
CLASSES = {name: getattr(friday, name) for name, node in PYI.items() if isinstance(node, ast.ClassDef)}


def functions(node):
    return {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}


def test_the_types_and_the_page_are_current():
    stale = [path.name for path, text in make_reference.derived().items() if path.read_text() != text]
    assert stale == [], "run pyext/make_reference.py"


def test_every_public_name_has_its_types():
    assert PYI.keys() == make_reference.public_names().keys()
    for name, kind in CLASSES.items():
        public = {key for key, value in vars(kind).items() if not key.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))}
        written = {item.name for item in PYI[name].body if isinstance(item, ast.FunctionDef)} | {
            target.id for item in PYI[name].body if isinstance(item, (ast.AnnAssign, ast.Assign)) for target in [getattr(item, "target", None) or item.targets[0]]}
        assert public - make_reference.HIDDEN - {"bytes"} <= written, name


def test_signatures_with_types_are_those_of_the_code():
    checked = 0
    for name, node in PYI.items():
        pairs = [(getattr(friday, name), node)] if isinstance(node, ast.FunctionDef) else [
            (inspect.unwrap(getattr(CLASSES[name], key)), item) for key, item in functions(node).items() if not isinstance(inspect.getattr_static(CLASSES[name], key), property)]
        for function, item in pairs:
            found = inspect.signature(function).parameters.values()
            arguments = item.args
            assert [p.name for p in found] == [a.arg for a in (*arguments.posonlyargs, *arguments.args, *filter(None, [arguments.vararg]), *arguments.kwonlyargs, *filter(None, [arguments.kwarg]))]
            assert [p.name for p in found if p.kind is p.KEYWORD_ONLY] == [a.arg for a in arguments.kwonlyargs], (name, item.name)
            defaults = [ast.literal_eval(d) for d in (*arguments.defaults, *filter(None, arguments.kw_defaults))]
            assert defaults == [p.default for p in found if p.default is not p.empty], (name, item.name)
            checked += 1
    assert checked > 100


def test_attributes_with_types_exist():
    session = friday.Session(FakeBackend())
    point = session.breakpoint("f")
    for thing in (session, point, session.nodes[0], friday.Error("x"), friday.Divergence("x")):
        names = [item.target.id for item in PYI[type(thing).__name__].body if isinstance(item, ast.AnnAssign)]
        assert names and all(hasattr(thing, name) for name in names), type(thing)


def test_what_the_public_methods_say():
    """Each has a docstring."""
    silent = [f"{name}.{item.name}" for name, node in PYI.items() if name not in ("Backend", "AtError") and isinstance(node, ast.ClassDef) for item in functions(node).values()
              if not item.name.startswith("__") and not inspect.getdoc(inspect.getattr_static(CLASSES[name], item.name))]
    assert silent == []


# What a type checker makes of scripts.
GOOD = """
import friday

with friday.open("REC", nodes="0-3") as session:
    @session.watch("srv.successor", nodes=[1, "n2"])
    def changed(hit: friday.Hit) -> None:
        node: friday.Node = hit.node
        print(node.read("x"), hit.old, [thread.name for thread in node.threads()], node.symbols("s*")["srv"][0].line)
    @session.every(seconds=0.5)
    def tick() -> None:
        friday.violation("p", nodes=session.nodes["n1"], message="m", x=1)
    session.node, session.call_timeout = session.nodes[1], 0.5
    stop: friday.Stop = session.run(progress=lambda part, rate: None)
    for message in session.messages(src="n1"):
        if message.target is not None and message.target_event is not None:
            session.goto(message.target_event, node=message.target)
    print(stop.kind, session.points[1].hits, session.violations[0].after)
"""
BAD = ["session.every(0.5)", "session.watch('x', node=1)", "session.nodes['a'].read(1)", "session.run(0.2)", "friday.open()", "session.logical_clock",
       "friday.violation()", "session.hit = None", "session.messages('n1')", "session.breakpoint('f').ignore('3')"]


@pytest.mark.full
def test_a_type_checker_understands_scripts(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text("import friday\nsession = friday.open('REC')\n" + "\n".join(BAD) + "\n")
    done = subprocess.run(["/usr/bin/mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), "--hide-error-context", str(ROOT / "pyext" / "_friday.pyi"),
                           str(make_reference.PYI), "good.py", "bad.py"], cwd=tmp_path, capture_output=True, text=True, timeout=110,
                          env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(ROOT / "pyext")})
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if line.startswith("bad.py") and ": error:" in line}
    others = [line for line in done.stdout.splitlines() if not line.startswith("bad.py") and ": note: " not in line]
    assert not others and lines == set(range(3, 3 + len(BAD))), done.stdout + done.stderr
