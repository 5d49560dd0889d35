"""Compiles handlers and scripts from the syntax trees of tree.py.

A handler's block becomes a function over the session's namespace:

    def __friday_factory__(np):            its parameters are the captured values
        count = None; del count            the handler's own names, which have no value yet
        def __friday_handler__():
            nonlocal np, count             so that its own names keep their values between hits
            global total                   names that the session has set are the session's
            ... block ...                  `cont` is `return __friday_cont__`; in a nested function it raises
        return __friday_handler__

A `with __friday_watchpoint__(...)` (see at.py) with its suite becomes such a factory at that place, which is called with the
captured values when the statement runs. Sources are registered with linecache, so that tracebacks show the user's lines.
"""
from __future__ import annotations

import ast
import linecache
from types import CodeType, FunctionType
from typing import Any, Callable, Collection, Iterable

from . import at
from .tree import parse

FACTORY = "__friday_factory__"
HANDLER = "__friday_handler__"
SET_SUITE = "__friday_set_suite__"

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Continue(BaseException):
    """Raised by `cont` in a function that a handler calls, where it cannot be a return. Ends the handler."""


def cont() -> None:
    """The statement `cont` outside of a handler's own lines."""
    raise Continue("`cont` ends a handler: it has no meaning outside of one")


def register_source(filename: str, source: str, first_line: int = 1) -> None:
    """Makes tracebacks show the lines of a source that is not in a file."""
    lines = [""] * (first_line - 1) + source.splitlines(True)
    linecache.cache[filename] = (len(source), None, lines, filename)


def _suite_call(node: ast.With) -> ast.Call | None:
    """The call of watchpoint or breakpoint that owns the block of this `with`."""
    call = node.items[0].context_expr
    owner = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in (at.WATCHPOINT,
                                                                                               at.BREAKPOINT)
    return call if owner else None


class _Bindings(ast.NodeVisitor):
    """Collects the names that statements bind in their own scope, in order, and those that they declare global or nonlocal."""

    def __init__(self) -> None:
        self.names: dict[str, ast.AST] = {}
        self.declared: set[str] = set()
        self.yields: ast.AST | None = None
        self._in_comprehension = 0

    def _bind(self, name: "str | None", node: ast.AST) -> None:
        if name is not None:
            self.names.setdefault(name, node)

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._bind(node.name, node)
                outside = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
                return self._visit_all(outside)
            case ast.With() if _suite_call(node):
                return self._visit_all(node.items)  # the names in the block belong to the handler that it becomes
            case ast.Lambda():
                return self._visit_all([*node.args.defaults, *filter(None, node.args.kw_defaults)])
            case ast.ClassDef():
                self._bind(node.name, node)
                return self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
            case ast.Name(ctx=ast.Store() | ast.Del()) if not self._in_comprehension:
                self._bind(node.id, node)
            case ast.NamedExpr():
                self._bind(node.target.id, node)
            case ast.alias():
                self._bind((node.asname or node.name).partition(".")[0] if node.name != "*" else None, node)
            case ast.ExceptHandler() | ast.MatchStar() | ast.MatchAs():
                self._bind(node.name, node)
            case ast.MatchMapping():
                self._bind(node.rest, node)
            case ast.Global() | ast.Nonlocal():
                self.declared.update(node.names)
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                self.yields = self.yields or node
        if isinstance(node, _COMPREHENSIONS):
            self._in_comprehension += 1
            self.generic_visit(node)
            self._in_comprehension -= 1
        else:
            self.generic_visit(node)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def bound_names(body: list[ast.stmt]) -> dict[str, ast.AST]:
    """The names that the statements bind in their own scope, without those declared global or nonlocal."""
    bindings = _Bindings()
    bindings._visit_all(body)
    return {name: node for name, node in bindings.names.items() if name not in bindings.declared}


class _Cont(ast.NodeTransformer):
    """Turns `cont` in a handler's own lines into a return, and removes annotations, which Python does not allow for nonlocal
    names."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        match node.value:
            case ast.Call(func=ast.Name(id=at.CONT) as name, args=[]):
                return ast.copy_location(ast.Return(ast.copy_location(ast.Name(name.id, ast.Load()), name)), node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_FunctionDef(self, node: ast.AST) -> ast.AST:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef


class _Suites(ast.NodeTransformer):
    """Turns the suites of watchpoint(...) and breakpoint(...) into factories and a call that sets the stop point."""

    def __init__(self, declared: Collection[str], filename: str) -> None:
        self.declared = declared
        self.filename = filename
        self.count = 0

    def visit_With(self, node: ast.With) -> Any:
        call = _suite_call(node)
        if call is None:
            self.generic_visit(node)
            return node
        for keyword in call.keywords:
            if keyword.arg is None:
                raise _error("captured values are given as NAME=VALUE", call, self.filename)
        self.count += 1
        name = f"__friday_suite_{self.count}__"
        restricting = [keyword for keyword in call.keywords if keyword.arg in ("nodes", "condition")]  # parameters of Session.set_suite
        values = [keyword for keyword in call.keywords if keyword not in restricting]
        captured = [keyword.arg for keyword in values]
        factory = make_factory(name, captured, node.body, self.declared, self.filename, node, self)
        make = ast.Call(ast.Name(name, ast.Load()), [], values)
        arguments = [ast.Constant("watch" if call.func.id == at.WATCHPOINT else "breakpoint"), make, *call.args]
        setting = ast.Call(ast.Name(SET_SUITE, ast.Load()), arguments, restricting)
        target = node.items[0].optional_vars
        statement: ast.stmt = ast.Expr(setting)
        if isinstance(target, ast.Name) and target.id != at.SUITE:
            statement = ast.Assign([target], setting)
        return [factory, _place(statement, call)]


def _place(node: Any, where: ast.AST) -> Any:
    """Gives the nodes of a tree that have no place in the source the place of another node."""
    for inner in ast.walk(node):
        if "lineno" not in inner.__dict__ and hasattr(type(inner), "_attributes") and "lineno" in inner._attributes:
            ast.copy_location(inner, where)
    return node


def _error(message: str, node: ast.AST, filename: str) -> at.AtError:
    return at.AtError(message, filename=filename, lineno=node.lineno, offset=node.col_offset + 1)


def make_factory(name: str, captured: list[str], body: list[ast.stmt], declared: Collection[str], filename: str,
                 where: ast.AST, suites: _Suites) -> ast.FunctionDef:
    """The function that makes the handler of a block; see the head of this file."""
    bindings = _Bindings()
    bindings._visit_all(body)
    if bindings.yields is not None:
        raise _error("a handler cannot yield or await", bindings.yields, filename)
    assigned = [n for n in bindings.names if n not in bindings.declared and n != at.SUITE]
    own = [n for n in assigned if n not in declared and n not in captured]
    shared = [n for n in assigned if n in declared and n not in captured]
    text = f"def {name}({', '.join(captured)}):\n"
    text += "".join(f" {n} = None\n del {n}\n" for n in own)
    text += f" def {HANDLER}():\n"
    text += f"  nonlocal {', '.join(own + captured)}\n" if own or captured else ""
    text += f"  global {', '.join(shared)}\n" if shared else ""
    text += f"  pass\n return {HANDLER}\n"
    factory = ast.parse(text).body[0]
    for node in ast.walk(factory):
        if hasattr(node, "lineno"):
            ast.copy_location(node, where)
            node.end_lineno, node.end_col_offset = where.lineno, where.col_offset
    handler = next(node for node in factory.body if isinstance(node, ast.FunctionDef))
    block = [suites.visit(statement) for statement in body]
    flat = [s for part in block for s in (part if isinstance(part, list) else [part])]
    handler.body[-1:] = [_Cont().visit(statement) for statement in flat]
    return factory


class Handler:
    """A block compiled over a namespace. `run` is called at each hit; it returns `cont` if the block executed `cont`.

    `own` are the names that are the handler's and persist; `values` what they hold now. When the session declares one
    of them later, `declare` hands it over."""

    def __init__(self, source: str, namespace: dict[str, Any], declared: Collection[str], *, filename: str,
                 first_line: int = 1, label: str = "handler") -> None:
        """Raises AtError and SyntaxError with the line of the block (counted from first_line)."""
        self.source = source
        self.filename = filename
        self.first_line = first_line
        self.label = label
        self._namespace = namespace
        if filename.startswith("<"):  # otherwise it is a file, which linecache finds
            register_source(filename, source, first_line)
        self.run: Any = self._compile(declared)

    def _compile(self, declared: Collection[str]) -> FunctionType:
        module = parse(self.source, self.filename, first_line=self.first_line)
        where = module.body[0] if module.body else ast.Pass(lineno=self.first_line, col_offset=0,
                                                            end_lineno=self.first_line, end_col_offset=0)
        suites = _Suites(declared, self.filename)
        factory = make_factory(FACTORY, [], module.body or [where], declared, self.filename, where, suites)
        module.body = [factory]
        exec(compile(module, self.filename, "exec", dont_inherit=True), self._namespace)
        function: FunctionType = self._namespace.pop(FACTORY)()
        function.__code__ = function.__code__.replace(co_name=self.label, co_qualname=self.label)
        return function

    @property
    def own(self) -> tuple[str, ...]:
        return self.run.__code__.co_freevars

    @property
    def values(self) -> dict[str, Any]:
        """The handler's own names that have a value."""
        return cell_values(self.run)

    def declare(self, declared: Collection[str]) -> None:
        """Compiles again if some of the handler's own names have become the session's. The others keep their values and their cells, which
        are what goes back in time (states.py)."""
        if not any(name in declared for name in self.own):
            return
        cells = dict(zip(self.own, self.run.__closure__ or ()))
        made = self._compile(declared)
        closure = tuple(cells.get(name, cell) for name, cell in zip(made.__code__.co_freevars, made.__closure__ or ()))
        self.run = FunctionType(made.__code__, made.__globals__, made.__name__, None, closure)


def cell_values(function: Callable[..., Any]) -> dict[str, Any]:
    """The values of those free variables of a function that have one."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            pass
    return found


def script_tree(source: str, filename: str, *, first_line: int = 1, declared: Collection[str] = (), mode: str = "exec") -> ast.AST:
    """The tree of a script, a `py` statement or (mode "eval") an expression, as Python can compile it. Names that it binds at its top
    level count as declared by the session for the suites in it. Raises AtError and SyntaxError."""
    module = parse(source, filename, mode, first_line)
    if mode == "exec":
        top = {*declared, *bound_names(module.body)}
        module = _Suites(top, filename).visit(module)
    elif mode == "single":
        module = _Suites(declared, filename).visit(module)
    return module


def compile_tree(tree: ast.AST, filename: str, mode: str = "exec") -> CodeType:
    """The code of a script_tree."""
    return compile(tree, filename, mode, dont_inherit=True)


def compile_condition(expression: str, command: str, namespace: dict[str, Any]) -> Callable[[], Any]:
    """A function that evaluates a Python expression which was typed behind a command. Raises AtError and SyntaxError."""
    name = f"<{command} {expression}>"
    register_source(name, expression)
    code = compile_script(expression, name, mode="eval")

    def condition() -> Any:
        return eval(code, namespace)
    condition.condition = code  # type: ignore[attr-defined]
    return condition


def compile_script(source: str, filename: str, *, first_line: int = 1, declared: Collection[str] = (),
                   mode: str = "exec") -> CodeType:
    """The code of a script, a `py` statement or (mode "eval") an expression; see script_tree."""
    return compile_tree(script_tree(source, filename, first_line=first_line, declared=declared, mode=mode), filename, mode)
