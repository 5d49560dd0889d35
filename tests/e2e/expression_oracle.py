"""The oracle of test_debug_oracle.py. It runs inside a plain gdb that stands at a node's endpoint: makes random expressions over what is
in scope there, from a seed, and writes what this gdb says of each, one line of JSON an expression:

    {"text": EXPRESSION, "bytes": HEX}              its value; of an object of class type as it is in memory
    {"text": EXPRESSION, "refused": WORDS}          gdb's error
"""
import json
import random

import gdb

for setting in ("quit no", "corefile no", "backtrace off"):
    gdb.execute("maint set internal-error " + setting)
RECORDS = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
WHOLE = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_ENUM)
REFERENCES = (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)
MASK = (1 << 64) - 1


def variables(block, function=""):
    """Texts of the variables of a block and those around it, up to the function."""
    found = []
    while block is not None and not block.is_static and not block.is_global:
        found += [function + symbol.name for symbol in block if (symbol.is_variable or symbol.is_argument) and symbol.name.isidentifier()]
        if block.function is not None:
            break
        block = block.superblock
    return found


def starts(frame, extra):
    """What expressions may begin with: locals of this frame, of frames further out by FUNC::LOCAL, and variables of the file."""
    inner, outer, around = [], [], []
    try:
        inner = variables(frame.block())
        for block in (frame.block().static_block, frame.block().global_block):
            around += [symbol.name for symbol in block if symbol.is_variable and symbol.name.isidentifier()]
    except RuntimeError:
        pass
    each, count = frame.older(), 0
    while each is not None and count < 5:
        try:
            if each.function() is not None:
                outer += variables(each.block(), each.function().print_name.partition("(")[0] + "::")
        except RuntimeError:
            pass
        each, count = each.older(), count + 1
    return [names for names in (inner, inner, outer, sorted(set(around)), list(extra)) if names] or [["no_such_name"]]


# No expression calls a function by name; what would have gdb call malloc (an array in registers, as a pointer) is refused by Friday too.
gdb.execute("set may-call-functions off")


class Maker:
    def __init__(self, seed, frame, extra):
        self.random, self.starts = random.Random(seed), starts(frame, extra)

    def static_type(self, text):
        try:
            type = gdb.parse_and_eval(text).type.strip_typedefs()
        except (gdb.error, RuntimeError):
            return None
        return type.target().strip_typedefs() if type.code in REFERENCES else type

    def path(self):
        """A variable and a way from it: members, elements, what pointers point to."""
        text = self.random.choice(self.random.choice(self.starts))
        for _ in range(self.random.randrange(4)):
            type = self.static_type(text)
            longer = None if type is None else self.longer(text, type)
            if longer is None:
                break
            text = longer
        return text

    def longer(self, text, type):
        choose = self.random.choice
        if type.code in RECORDS:
            names = [field.name for field in type.fields() if field.name and field.name.isidentifier() and not field.is_base_class]
            return "%s.%s" % (text, choose(names + ["nowhere"] * (self.random.random() < 0.05))) if names else None
        if type.code == gdb.TYPE_CODE_PTR:
            target = type.target().strip_typedefs()
            if target.code in RECORDS:
                names = [field.name for field in target.fields() if field.name and field.name.isidentifier() and not field.is_base_class]
                return choose(["(*%s)" % text] + ["%s->%s" % (text, name) for name in names])
            return choose(["(*%s)" % text, "%s[%d]" % (text, self.random.randrange(3))]) if target.sizeof and target.code != gdb.TYPE_CODE_FUNC else None
        if type.code == gdb.TYPE_CODE_ARRAY:
            return choose(["%s[%d]" % (text, self.random.randrange(3)), "(*%s)" % text])
        return None

    def whole(self):
        for _ in range(8):
            text = self.path()
            type = self.static_type(text)
            if type is not None and type.code in WHOLE:
                return text
        return str(self.random.randrange(100))

    def expression(self):
        choose, kind = self.random.choice, self.random.random()
        if kind < 0.5:
            return self.path()
        if kind < 0.6:
            return choose(["&%s", "sizeof(%s)", "!%s", "(long)%s", "%s == 0"]) % self.path()
        if kind < 0.75:
            return choose(["-%s", "~%s", "%s + 1", "%s * 3", "(char)%s", "(unsigned int)%s", "(short)%s - 1", "%s << 3", "%s > 2", "%s && 1"]) % self.whole()
        return "%s %s %s" % (self.whole(), choose("+ - * / % & | ^ < <= == != >= && ||".split()), self.whole())


def owned(text):
    """Of `!X` and `X == 0`, X: Friday compares smart pointers by themselves, and gdb finds no function that does so."""
    inner = text[1:] if text.startswith("!") else text.removesuffix(" == 0") if text.endswith(" == 0") else None
    if inner is None:
        return None
    value = gdb.parse_and_eval(inner)
    if value.type.strip_typedefs().code in REFERENCES:
        value = value.referenced_value()
    return value if str(value.type.strip_typedefs()).startswith("std::unique_ptr<") and value.address is not None else None


def answer(text):
    pointer = owned(text)
    if pointer is not None:
        return bytes([not any(bytes(gdb.selected_inferior().read_memory(int(pointer.address), 8)))])  # all that it is in memory
    value = gdb.parse_and_eval(text)
    if value.type.strip_typedefs().code in REFERENCES:
        value = value.referenced_value()
    if value.is_optimized_out:
        raise gdb.error("value has been optimized out")
    type = value.type.strip_typedefs()
    if type.code == gdb.TYPE_CODE_FUNC:
        return int(value.address).to_bytes(8, "little")  # in C a function stands for its address
    value.fetch_lazy()
    if type.code in WHOLE or type.code == gdb.TYPE_CODE_PTR:
        return (int(value) & ((1 << 8 * type.sizeof) - 1)).to_bytes(type.sizeof, "little")
    if value.address is None:
        return None  # in registers, or a temporary: gdb 13 gives no bytes of it
    return bytes(gdb.selected_inferior().read_memory(int(value.address), type.sizeof))


def choose_language():
    """As Friday says in docs/language.md: in C++, also where a program of C++ stands in a function of C."""
    gdb.execute("set language auto", to_string=True)
    main = gdb.lookup_global_symbol("main")
    if main is not None and "(" in main.name and "currently c++" not in gdb.execute("show language", to_string=True):
        gdb.execute("set language c++", to_string=True)


def ask(seed, count, thread, extra, path):
    """Writes the answers of `count` expressions to a file; `thread` is the number of the thread in whose innermost frame they are meant."""
    for each in gdb.selected_inferior().threads():
        if each.ptid[1] == thread:
            each.switch()
    gdb.newest_frame().select()
    choose_language()
    maker = Maker(seed, gdb.newest_frame(), extra)
    with open(path, "w") as out:
        for text in dict.fromkeys(maker.expression() for _ in range(count)):
            try:
                data = answer(text)
                line = None if data is None else {"text": text, "bytes": data.hex()}
            except KeyboardInterrupt:
                line = None  # an internal error of gdb 13 says nothing of the expression
            except (gdb.error, RuntimeError) as error:
                line = {"text": text, "refused": str(error)}
            if line:
                out.write(json.dumps(line) + "\n")
    print("asked", path)
