"""The rewriter of `@` syntax: forms, ambiguities, errors, and positions in the user's text."""
import ast
import pathlib
import sys
import traceback

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "pyext"))

from friday import at, tree  # noqa: E402


def plain(source: str) -> str:
    """The rewritten text with the hidden names shortened."""
    return at.rewrite(source).text.replace("__friday_", "").replace("__(", "(")


REWRITES = {
    # nodes
    "v = @(x)": "v = read(None, 'x')",
    "v = @4(x)": "v = read(4, 'x')",
    "v = @other(y)": "v = read(other, 'y')",
    "@nodes[i + 1](a->b)": "read(nodes[i + 1], 'a->b')",
    "@nodes[@(s->id)](x) == 3": "read(nodes[read(None, 's->id')], 'x') == 3",
    "@cfg.leader(y >= 3)": "read(cfg.leader, 'y >= 3')",
    "@cfg['a)'].b[0](y)": "read(cfg['a)'].b[0], 'y')",
    '@"redis-1"(x)': "read(\"redis-1\", 'x')",
    "@é(x)": "read(é, 'x')",
    # C text
    "k = @((char*)id)": "k = read(None, '(char*)id')",
    "@(tbl['\\''].name[\")(\"[0]])": "read(None, 'tbl[\\'\\\\\\'\\'].name[\")(\"[0]]')",
    "@( a  % b )": "read(None, 'a  % b')",
    "@(f(\"mail @4(x) # no comment\"))": "read(None, 'f(\"mail @4(x) # no comment\")')",
    "@(*p@3)": "read(None, '*p@3')",
    "@(*p@(n))": "read(None, '*p@(n)')",
    "@('file.c'::v)": "read(None, \"'file.c'::v\")",
    # assignment
    "@(x=5)": "write(None, 'x', '5')",
    "@4(load = 0.5 * (a==b))": "write(4, 'load', '0.5 * (a==b)')",
    "@(a[i=1])": "read(None, 'a[i=1]')",
    "@(a == b)": "read(None, 'a == b')",
    "@(a <= b)": "read(None, 'a <= b')",
    "@(a >= b)": "read(None, 'a >= b')",
    "@(a != b)": "read(None, 'a != b')",
    "@(x = a <= b)": "write(None, 'x', 'a <= b')",
    "@(c = '=')": "write(None, 'c', \"'='\")",
    "@(v.operator=(w))": "read(None, 'v.operator=(w)')",
    # placeholders
    "@(x=%(y)d)": "write(None, 'x', '%d', ((y), ), 'p')",
    "@(x[%(a[\")\"])5.2f])": "read(None, 'x[%5.2f]', ((a[\")\"]), ), 'p')",
    "@(f(\"%(d[\"k\"])s\", '%(c)c'))":
        "read(None, 'f(\"%s\", \\'%s\\')', (quote('%s', d[\"k\"]), quote('%c', c), ), 'qq')",
    "@(%(a)d %% %(b)d)": "read(None, '%d %%%% %d', ((a), (b), ), 'pp')",
    "@(a %%(b))": "read(None, 'a %(b)')",
    "@(f(%(@n(x))d))": "read(None, 'f(%d)', ((read(n, 'x')), ), 'p')",
    # nesting
    "@(f(@(p), %(n)d))": "read(None, 'f(%s, %d)', (read(None, 'p'), (n), ), 'np')",
    "@a(f(@b(g(@c(x)))))": "read(a, 'f(%s)', (read(b, 'g(%s)', (read(c, 'x'), ), 'n'), ), 'n')",
    "@(x = @(y))": "write(None, 'x', '%s', (read(None, 'y'), ), 'n')",
    # metavariables
    "@i(__REALCLOCK__)": "meta(i, '__REALCLOCK__')",
    "@(__VCLOCK__)": "meta(None, '__VCLOCK__')",
    "@(t - __REALCLOCK__)": "read(None, 't - %s', ('__REALCLOCK__', ), 'm')",
    # the table of ambiguities
    "z = a @ (b)": None,
    "z = a @(b) + @(c)": "z = a @(b) + read(None, 'c')",
    "z = m @f(b)": None,
    "z = m.T @(b)": None,
    "z = m[0] @(b)": None,
    "z = 'x' @(b)": None,
    "z = 4 @(b)": None,
    "z = None @(b)": None,
    "z @= (b)": None,
    "z = (a\n  @(b))": None,
    "z = (a,\n  @(b))": "z = (a,\n  read(None, 'b'))",
    "z = a\n@(b)": "z = a\nread(None, 'b')",
    "z = a \\\n  @(b)": None,
    "if not @(x): pass\nelse: @(y)": "if not read(None, 'x'): pass\nelse: read(None, 'y')",
    "assert @(x)": "assert read(None, 'x')",
    "w = lambda: @(q)": "w = lambda: read(None, 'q')",
    "match @(x):\n  case 1: pass": "match read(None, 'x'):\n  case 1: pass",
    "@deco(1)\ndef f(): return @(x)": "@deco(1)\ndef f(): return read(None, 'x')",
    "@deco(1)\n# c\n\n@two\nclass C: pass": None,
    "@a.b('(')\nasync def f(): pass": None,
    "@deco\ndef f(): pass": None,
    "@d(@(x))\ndef f(): pass": "@d(read(None, 'x'))\ndef f(): pass",
    "@other(y=1)\n@(x=2)\nf()": "write(other, 'y', '1')\nwrite(None, 'x', '2')\nf()",
    "@other(y=1)\n@third(x=2)\nf()": "write(other, 'y', '1')\nwrite(third, 'x', '2')\nf()",
    "@4(f())\ndef g(): pass": "read(4, 'f()')\ndef g(): pass",
    "@other(f()) + 1\ndef g(): pass": "read(other, 'f()') + 1\ndef g(): pass",
    "if c:\n  @other(f())\ndef g(): pass": "if c:\n  read(other, 'f()')\ndef g(): pass",
    # strings and comments
    "s = '@(x)' # @(y)": None,
    's = """\n@(x)\n"""': None,
    "s = rb'\\' + @(x)": None,
    'f"{@(x)} {{@(y)}} {z:@^5}"': 'f"{read(None, text__[0])} {{@(y)}} {z:@^5}"',
    # statements
    "x = 1; cont": "x = 1; cont()",
    "if x: cont # done": "if x: cont() # done",
    "cont = 4": None,
    "f(cont)": None,
    "d = {x: cont}": None,
    "gdb info threads": "gdb('info threads')",
    "x = 1; gdb print *p@3; cont": "x = 1; gdb('print *p@3'); cont()",
    "gdb x/%(n)dx $sp  # stack": "gdb('x/%dx $sp', ((n), ), 'p')# stack",
    "gdb print \";#\"": "gdb('print \";#\"')",
    "gdb = 3; gdb.x(); gdb in y": None,
    "safe @(f())": "read(None, 'f()')",
    "r = safe @(f()) + 1": "r = read(None, 'f()') + 1",
    "safe = 3; x = safe @ (y)": None,
    # suites
    "watchpoint([E], v=@(p))\n  cont": "with watchpoint([E], v=read(None, 'p')) as suite__:\n  cont()",
    "w = breakpoint(f(\n 1)): # c\n\n  cont\nx": "with breakpoint(f(\n 1)) as w: # c\n\n  cont()\nx",
    "watchpoint([E])\nx": None,
    "x = [watchpoint(e)]": None,
}


@pytest.mark.parametrize("source", REWRITES)
def test_rewrites(source):
    expected = REWRITES[source]
    assert plain(source) == (source if expected is None else expected)


@pytest.mark.parametrize("source", [s for s in REWRITES if REWRITES[s] and "rb'" not in s])
def test_result_is_python_with_the_same_lines(source):
    assert at.rewrite(source).text.count("\n") == source.count("\n")
    compile(tree.parse(source), "x", "exec") if "with" not in REWRITES[source] else tree.parse(source)


ERRORS = [
    ("@4(a += 1)", "compound assignment `+=`", 1, 6),
    ("@4(a <<= 1)", "compound assignment `<<=`", 1, 6),
    ("y = 1\n x = @(a=b=c)", "takes one assignment only", 2, 11),
    ("@(a %(b))", "without a format", 1, 5),
    ("@((p)@(n))", "ambiguous", 1, 6),
    ("@4 (x)", "with `(` right after the node", 1, 1),
    ("x = @foo", "with `(` right after the node", 1, 5),
    ("x = (\n  @(f(]))", "unbalanced `]`", 2, 7),
    ("@(x", "not closed", 1, 1),
    ("@(f(\"ab))", "C literal", 1, 5),
    ("@( )", "empty expression", 1, 1),
    ("@(=3)", "both sides", 1, 1),
    ("@(f(%(a", "not closed", 1, 5),
    ("@(f(%()d))", "empty placeholder", 1, 5),
    ("@(f(__ALL__))", "no value in C", 1, 5),
    ("x = 1; @(x) = 3", "put the `=` inside the parentheses", 1, 13),
    ("@4(x) <<= 3", "put the `=` inside the parentheses", 1, 7),
    ("print @(x)", "print is a function", 1, 1),
    ("__NODE__ = 3", "cannot be set", 1, 1),
]


@pytest.mark.parametrize("source,message,line,column", ERRORS)
def test_errors_have_a_place(source, message, line, column):
    with pytest.raises(at.AtError, match=message.replace("(", "\\(").replace("+", "\\+")) as caught:
        tree.parse(source)
    assert (caught.value.lineno, caught.value.offset) == (line, column)


def test_ambiguous_errors_name_both_readings():
    for source in ("@(a %(b))", "@((p)@(n))"):
        with pytest.raises(at.AtError) as caught:
            at.rewrite(source)
        assert len(caught.value.readings) == 2 and all(r in str(caught.value) for r in caught.value.readings)


def test_every_position_of_the_tree_is_in_the_users_text():
    source = 'é = 1\nx = f(@4(long_name->b), éé + @(f(%(a +\n  b)d)) - y)\n'
    found = {n.id: ast.get_source_segment(source, n) for n in ast.walk(tree.parse(source)) if isinstance(n, ast.Name)}
    assert all(found[name] == name for name in ("éé", "a", "b", "y", "f"))
    reads = [ast.get_source_segment(source, n) for n in ast.walk(tree.parse(source))
             if isinstance(n, ast.Call) and n.func.id == at.READ]
    assert reads == ["@4(long_name->b)", "@(f(%(a +\n  b)d))"]


def test_python_errors_point_into_the_users_text():
    with pytest.raises(SyntaxError) as caught:
        tree.parse("a = @4(some->thing); b = = 2\n", first_line=10)
    assert not isinstance(caught.value, at.AtError)
    assert (caught.value.lineno, caught.value.offset) == (10, 26)
    assert caught.value.text == "a = @4(some->thing); b = = 2"


def test_a_block_keeps_its_lines_and_columns():
    block = "\n  x = @(a)\n  if x:\n    1 / 0\n"
    code = compile(tree.parse(block, "<watch 1>", first_line=7), "<watch 1>", "exec")
    with pytest.raises(ZeroDivisionError) as caught:
        exec(code, {at.READ: lambda node, text: text})
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno, frame.colno) == ("<watch 1>", 10, 4)


def test_constants_of_f_strings_may_hold_quotes_and_backslashes():
    code = compile(tree.parse("s = f'''{@(a['\\n'])}{@(f('\"'))!r:>{@(w)}}'''"), "x", "exec")
    space = {at.READ: lambda node, text: 30 if text == "w" else text}
    exec(code, space)
    assert space["s"] == "a['\\n']" + repr("f('\"')").rjust(30)


def test_files_without_forms_are_left_alone():
    import typing
    source = pathlib.Path(typing.__file__).read_text()
    assert at.rewrite(source).text == source
