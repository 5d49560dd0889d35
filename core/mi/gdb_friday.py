# Friday's commands inside gdb, loaded by MiSession at start. They let Friday ask gdb's knowledge of symbols and types in
# one round trip, in a form made for programs. Needs gdb 13 (gdb.MICommand, Breakpoint.locations).
#
# Each command but -friday-console answers ^done,json="..." whose text is the JSON described here, or ^error with gdb's
# own words. None changes the program, its breakpoints, or the selected frame and thread.
#
# -friday-plan EXPR              how to evaluate EXPR, in the scope of the selected frame, without asking gdb again
#   {"kind": "agent",            bytecode can do it; or
#    "kind": "call",             a call of a function that the core can make: see gdb_calls.py; or
#    "kind": "gdb",              only gdb can (calls, assignments, thread-local storage, values of floating-point
#                                arithmetic, frames above 0, ...): "reason" says why in words; only "expression" and
#                                "scope" follow
#    "expression": EXPR,
#    "agent": HEX,               bytecode of gdb's agent expressions (gdb manual, "Bytecode Descriptions"), ending in
#                                `end` (27). Absolute addresses of this process are in it.
#    "movable": true,            all of them are known as those of symbols: where they stand in the bytecode (eight
#    "addresses": [OFFSET...],   big-endian bytes each). "place" has its own.
#    "result": "value",          the top of the stack is the value of a scalar: take the low "size" bytes of it as the
#                                type says. Or
#    "result": "address",        it is the address of an object of that type (floats, structs, unions, arrays, functions)
#    "place": null               EXPR has no address (arithmetic, registers), else where it is in memory:
#             {"agent": HEX, "addresses": [...],   computes the address of its first byte
#              "size": BYTES,    whole bytes it touches
#              "bit": B, "bits": N},   bit-fields only: N bits from bit B of the first byte on (little-endian)
#    "lvalue": true,             whether "place" is not null
#    "registers": [6, ...],      numbers of the registers the bytecode reads (gdb's remote numbers: 6 rbp, 7 rsp, 16 rip)
#    "frame": true,              whether there are any: then the plan holds at this pc only, since the place of a frame
#                                and of the variables in it may differ at the next instruction. Otherwise it holds in
#                                the whole block of "scope".
#    "verified": true,           the bytecode was run here and agrees with gdb's own answer; false: memory that it needs
#                                cannot be read now (a null pointer on the way), so it could not be compared
#    "scope": {"function": NAME, "block": START, "block_end": END, "locals": [NAME...], "pc": PC, "level": FRAME},
#                                the first three may be null; "locals" are the variables of the block and those around it
#    "type": ID, "types": [...]} ID indexes the list
#
# An entry of "types": "name" as printed (typedef names kept), "size" in bytes, and by "kind":
#   int      "signed", "char" (char, char8_t, char16_t, char32_t, wchar_t: character data)
#   bool     true when not 0
#   enum     "signed", "values": {NAME: NUMBER}
#   float    "format": "ieee32", "ieee64", "ieee128" or "x87" (80 bits in 16 bytes)
#   pointer  "target" (name), "char" (to character data, of "target_size" bytes each), "function"
#   reference "target" (name); held as a pointer. EXPR itself is never one: a plan reads through it.
#   array    "element" (ID), "count", "lower" (first index), "char" (of character data)
#   struct, union   "fields": [{"name" (null: anonymous), "type": ID, "offset": BYTES, "base": bool, "artificial": bool,
#            and for bit-fields "bit" and "bits" as above}]; classes are structs, static members are left out, the
#            offset of a virtual base is null: ask gdb for what is in it. Of a class of libstdc++ that holds other values,
#            "standard" is its template's name ("vector"), and "item" (ID) what its allocator allocates
#   function, void, other   "other" only gdb can print (complex, decimal, members' pointers, ...)
#
# -friday-scope PC               the "scope" of an instruction, wherever the program stands
#
# -friday-value EXPR             gdb's own evaluation, for what no plan can do: calls of functions of the program included
#   {"bytes": HEX, "address": NUMBER or null, "type": ID, "types": [...]}
#
# -friday-console TEXT           commands of gdb's command line, expressions in them in the program's language
import contextlib
import glob
import json
import re
import struct
import sys

import gdb

if not hasattr(gdb, "MICommand") or not hasattr(gdb, "BreakpointLocation"):
    raise gdb.GdbError("gdb %s is too old" % gdb.VERSION)

# An internal error of gdb (13: `maint agent-eval` of a member of a virtual base) ends the command, not gdb. The backtrace is
# off because gdb aborts when it prints one while the output of a command is captured.
for setting in ("quit no", "corefile no", "backtrace off"):
    gdb.execute("maint set internal-error " + setting)


class JsonCommand(gdb.MICommand):
    """An MI command whose answer is one JSON text, and whose errors have gdb's words only."""

    def invoke(self, argv):
        try:
            return {"json": json.dumps(self.answer(argv), separators=(",", ":"))}
        except gdb.error as error:
            raise gdb.GdbError(str(error))


def one_argument(argv, usage):
    if len(argv) != 1:
        raise gdb.GdbError("Usage: " + usage)
    return argv[0]


# ---- types ----

REFERENCES = (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)
RECORDS = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
SCALARS = ("int", "bool", "enum", "pointer")
CHARACTERS = ("char", "char8_t", "char16_t", "char32_t", "wchar_t")


def load_standard_printers():
    """libstdc++'s printers and its operators on containers, as the library's package has them. A gdb on its own finds them by the
    library's path, which a node's sysroot changes. Without the package values show as they are laid out."""
    sys.path.extend(glob.glob("/usr/share/gcc*/python"))
    try:
        from libstdcxx.v6 import register_libstdcxx_printers
    except ImportError:
        return
    register_libstdcxx_printers(None)
    for matcher in gdb.xmethods:
        matcher.match = named_only(matcher.match)


def named_only(match):
    """A matcher of operators that is not asked about classes without a name, as those of lambdas: libstdc++'s fail there."""
    return lambda class_type, method: match(class_type, method) if class_type.tag else None


def bare(type):
    return type.strip_typedefs().unqualified()


def is_character(type):
    return bare(type).code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR) and bare(type).name in CHARACTERS


def is_bitfield(field):
    return field.bitsize > 0 and (field.bitsize != 8 * field.type.sizeof or field.bitpos % 8 != 0)


STANDARD = re.compile(r"(?:std|__gnu_cxx)::(?:__\w+::)?(vector|deque|list|forward_list|(?:unordered_)?(?:multi)?(?:set|map)|basic_string|basic_string_view|"
                      r"array|tuple|optional|variant|unique_ptr|shared_ptr|weak_ptr|atomic|queue|stack|priority_queue|__aligned_(?:membuf|buffer))<")


SMART = re.compile(r"std::(?:__\w+::)?(?:unique_ptr|shared_ptr)<")


def allocated(type):
    """What a container is for: by the allocator among its template's arguments, or by the first one; None if neither says it."""
    if "::__aligned_" in type.name.partition("<")[0]:
        return type.template_argument(0)
    for number in range(8):
        try:
            argument = type.template_argument(number)
        except (RuntimeError, gdb.error):
            return None
        if isinstance(argument, gdb.Type) and re.match(r"std::(?:__\w+::)?allocator<", bare(argument).name or ""):
            return argument.template_argument(0)
    return None


class TypeTable:
    """Layouts of types, each once, in the form described at the head of this file."""

    def __init__(self):
        self.entries = []
        self.known = {}  # printed name -> [(type, id)]: different types may print alike

    def add(self, type):
        name = str(type)
        for other, number in self.known.get(name, ()):
            if other == type:
                return number
        number = len(self.entries)
        self.known.setdefault(name, []).append((type, number))
        entry = {"name": name, "kind": "other", "size": type.sizeof}
        self.entries.append(entry)
        self.describe(entry, bare(type))
        return number

    def describe(self, entry, type):
        code = type.code
        if code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_RANGE):
            entry.update(kind="int", signed=type.is_signed, char=is_character(type))
        elif code == gdb.TYPE_CODE_BOOL:
            entry.update(kind="bool")
        elif code == gdb.TYPE_CODE_ENUM:
            # gdb gives an enumerator of 64 bits without a sign as a negative one; is_signed is what it reads values by.
            values = {field.name: field.enumval for field in type.fields()}
            entry.update(kind="enum", signed=type.is_signed, values=values)
        elif code == gdb.TYPE_CODE_FLT:
            self.describe_float(entry, type)
        elif code == gdb.TYPE_CODE_PTR:
            target = type.target()
            character = is_character(target)
            entry.update(kind="pointer", target=str(target), char=character,
                         function=bare(target).code == gdb.TYPE_CODE_FUNC)
            if character:
                entry.update(target_size=target.sizeof)
        elif code in REFERENCES:
            entry.update(kind="reference", target=str(type.target()))
        elif code == gdb.TYPE_CODE_ARRAY:
            lower, upper = type.range()
            entry.update(kind="array", lower=lower, count=upper - lower + 1, char=is_character(type.target()),
                         element=self.add(type.target()))
        elif code in RECORDS:
            entry.update(kind="struct" if code == gdb.TYPE_CODE_STRUCT else "union",
                         fields=[self.describe_field(field) for field in type.fields() if hasattr(field, "bitpos")])
            standard = STANDARD.match(type.name or "")
            if standard:
                entry.update(standard=standard[1])
                item = allocated(type)
                if item is not None:
                    entry.update(item=self.add(item))
        elif code in (gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_VOID):
            entry.update(kind="function" if code == gdb.TYPE_CODE_FUNC else "void")

    @staticmethod
    def describe_float(entry, type):
        quad = "128" in (type.name or "")
        format = {4: "ieee32", 8: "ieee64", 16: "ieee128" if quad else "x87"}.get(type.sizeof)
        if format:
            entry.update(kind="float", format=format)

    def describe_field(self, field):
        entry = {"name": field.name or None, "type": self.add(field.type), "offset": None, "base": field.is_base_class,
                 "artificial": field.artificial}
        if field.bitpos is not None:  # a virtual base has no fixed place
            entry["offset"] = field.bitpos // 8
            if is_bitfield(field):
                entry.update(bit=field.bitpos % 8, bits=field.bitsize)
        return entry


@contextlib.contextmanager
def no_calls():
    """gdb calls no function of the program under it, neither one that an expression names nor malloc for what it wants to keep there."""
    allowed = gdb.parameter("may-call-functions")
    gdb.execute("set may-call-functions off", to_string=True)
    try:
        yield
    finally:
        gdb.execute("set may-call-functions %s" % ("on" if allowed else "off"), to_string=True)


def type_of(expression):
    """Static type of an expression without side effects; does not read the object itself."""
    try:
        return gdb.parse_and_eval(expression).type
    except gdb.MemoryError:
        # A pointer on the way is bad now. `whatis` does not follow it but gives words, which are read back.
        return type_named(gdb.execute("whatis/r " + expression, to_string=True).strip()[len("type = "):])


def type_named(words):
    text, array = re.fullmatch(r"(.*?)\s*((?:\[\d+\])*)", words).groups()
    stars = re.search(r"[*&\s]*$", text).group()
    type = gdb.lookup_type(text[:len(text) - len(stars)])
    for star in stars.replace(" ", ""):
        type = type.pointer() if star == "*" else type.reference()
    for count in reversed(re.findall(r"\d+", array)):
        type = type.array(int(count) - 1)
    return type


# ---- plans ----

class Place:
    """Where an expression is in memory: code for its first byte, its type, and for a bit-field its bits."""

    def __init__(self, code, type, bit=0, bits=0):
        self.code, self.type, self.bit, self.bits = code, type, bit, bits

    def size(self):
        return (self.bit + self.bits + 7) // 8 if self.bits else self.type.sizeof

    def is_folded(self):
        """Whether gdb 13 took an element of a constant address for 0 on the way: nothing is read, and no page can be there."""
        return not any(name == "reg" or name.startswith("ref") for name, _ in self.code.operations) and run(self.code) < LOWEST_PAGE

    def value(self):
        """Code for the value of a scalar that is no bit-field."""
        kind = bare(self.type)
        bits = 8 * kind.sizeof
        code = self.code.plus(("ref%d" % bits, 0))
        signed_integer = kind.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_RANGE) and kind.is_signed
        return code.plus(("ext", bits)) if signed_integer else code

    def described(self, addresses):
        entry = {"agent": self.code.bytes().hex(), "size": self.size(), "addresses": addresses}
        if self.bits:
            entry.update(bit=self.bit, bits=self.bits)
        return entry


def place_of(expression):
    """The place of an lvalue. Raises gdb.error or Unplannable when it has none that bytecode can compute."""
    try:
        code = compile_expression("&(%s)" % expression)
    except (gdb.error, Unplannable):
        place = member_place(expression) or pointed_place(expression) or element_place(expression)
        if place is None:
            raise
        return place
    type = type_of(expression)
    if bare(type).code in REFERENCES:
        # gdb 13 translates a reference as the pointer that it is held in.
        return Place(compile_expression(expression), bare(type).target())
    return Place(code, type)


def member_place(expression):
    """The place of BASE.member or BASE->member where gdb 13 cannot tell: bit-fields, members of anonymous unions."""
    match = re.fullmatch(r"(.*\S)\s*(\.|->)\s*(\w+)", strip_parentheses(expression), re.DOTALL)
    if not match or postfix_end(match[1], 0) != len(match[1]):
        return None
    base, arrow, name = match[1], match[2] == "->", match[3]
    place = place_of(base)
    record = bare(place.type)
    code = place.code
    if arrow:
        place = pointed_by(place)
        if place is None:
            return None
        record, code = bare(place.type), place.code
    found = find_member(record, name) if record.code in RECORDS else None
    if found is None:
        return None
    position, field = found
    if position // 8:
        code = code.plus(("const32", position // 8), ("add", 0))
    if bare(field.type).code in REFERENCES:
        return Place(code.plus(("ref64", 0)), bare(field.type).target())
    return Place(code, field.type, position % 8, field.bitsize) if is_bitfield(field) else Place(code, field.type)


def pointed_by(place):
    """The place that a pointer points to, or a smart pointer of libstdc++, whose -> and * are operators of C++; None of anything else."""
    held = bare(place.type)
    if held.code == gdb.TYPE_CODE_PTR:
        return Place(place.value(), held.target())
    found = held_pointer(held) if held.code in RECORDS and SMART.match(held.name or "") else None
    if found is None:
        return None
    offset, type = found
    code = place.code.plus(("const32", offset), ("add", 0)) if offset else place.code
    return Place(code.plus(("ref64", 0)), bare(type).target())


def held_pointer(record):
    """(offset in bytes, type) of the pointer in a smart pointer: of a unique_ptr the first of a tuple of it and what deletes."""
    for field in record.fields():
        if getattr(field, "bitpos", None) is None:
            continue
        type = bare(field.type)
        if not field.is_base_class and field.name == "_M_ptr" or type.code == gdb.TYPE_CODE_PTR and re.match(r"std::(?:__\w+::)?_Head_base<0[uUlL]*,", record.name or ""):
            return (field.bitpos // 8, type) if type.code == gdb.TYPE_CODE_PTR else None
        if type.code in RECORDS and field.name != "_M_refcount":
            found = held_pointer(type)
            if found:
                return field.bitpos // 8 + found[0], found[1]
    return None


def pointed_place(expression):
    """The place of *SMART_POINTER."""
    text = strip_parentheses(expression)
    base = text[1:].strip()
    if not text.startswith("*") or postfix_end(base, 0) != len(base):
        return None
    return pointed_by(place_of(base))


def element_place(expression):
    """The place of BASE[INDEX], where BASE lies behind a smart pointer."""
    text = strip_parentheses(expression)
    starts = [end for end in postfix_steps(text, 0) if text[end:].lstrip().startswith("[")]
    if not starts or matching(text, text.index("[", starts[-1])) != len(text):
        return None
    place = place_of(text[:starts[-1]])
    record = bare(place.type)
    if place.bits or record.code not in (gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_PTR):
        return None
    element = record.target()
    index = compile_expression(text[text.index("[", starts[-1]) + 1:-1])
    code = place.code if record.code == gdb.TYPE_CODE_ARRAY else place.value()
    if any(name in ("goto", "if_goto") for name, _ in index.operations):
        return None  # its jumps count from the start
    return Place(Code(code.operations + index.operations + [("const64", element.sizeof), ("mul", 0), ("add", 0)]), element)


def find_member(record, name):
    """(bit position, field) of a member, looked for in the record, its anonymous members and its bases."""
    inner = []
    for field in record.fields():
        if getattr(field, "bitpos", None) is None:
            continue
        if field.name == name and not field.is_base_class:
            return field.bitpos, field
        if (field.is_base_class or not field.name) and bare(field.type).code in RECORDS:
            inner.append(field)
    for field in inner:
        found = find_member(bare(field.type), name)
        if found:
            return field.bitpos + found[0], found[1]
    return None


def matching(text, at):
    """Index after the bracket that closes the one at `at`; -1 without one. C literals are skipped."""
    depth = 0
    for token in re.compile(LITERAL + "|[][()]", re.DOTALL).finditer(text, at):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return -1


def strip_parentheses(text):
    text = text.strip()
    while text.startswith("(") and matching(text, 0) == len(text):
        text = text[1:-1].strip()
    return text


STEP = re.compile(r"\s*(?:::|\.|->)\s*~?\w+|\s*(?=\[)")


def postfix_steps(text, at):
    """Ends of the ever longer paths that start at `at`: a, a.b, a.b[1], ..."""
    if text.startswith("(", at):
        at = matching(text, at)
    else:
        name = re.compile(r"(?:::)?[$A-Za-z_]\w*|'[^']*'").match(text, at)
        at = name.end() if name else -1
    while at >= 0:
        yield at
        step = STEP.match(text, at)
        at = -1 if not step else matching(text, step.end()) if step[0] == "" or step[0].isspace() else step.end()


def postfix_end(text, at):
    """End of the path (names, members, elements) that starts at `at`; -1 when none does."""
    end = -1
    for end in postfix_steps(text, at):
        pass
    return end


def types_on_paths(expression, code):
    """The types of all paths (names, members, elements) in an expression, of longer and longer ones. `code`: the expression, blank where no
    name is to be looked for; a name may stand in quotes there."""
    for name in re.finditer(r"(?<![\w.>:])(?:(?:::)?[A-Za-z_]\w*|'[^']*')", code):
        for end in postfix_steps(code, name.start()):
            try:
                yield bare(type_of(expression[name.start():end]))
            except gdb.error:
                pass  # the name of a type, a namespace, ...


def reads_reference(expression):
    """Whether a path in the expression goes through a reference: in arithmetic gdb 13 takes its pointer for its value."""
    code = re.sub(LITERAL, lambda literal: " " * len(literal[0]), expression)
    if re.search(r"[)]\s*(\.|->|\[)", code):
        return True  # of a computed base: not looked into
    return any(type.code in REFERENCES for type in types_on_paths(expression, code))


def scope_of(pc, block, function=None, level=0):
    scope = {"function": function, "block": None, "block_end": None, "locals": [], "pc": pc, "level": level}
    if block is None:
        return scope
    scope.update(block=block.start, block_end=block.end)
    while block is not None and not block.is_static and not block.is_global:
        scope["locals"] += [symbol.name for symbol in block if symbol.is_variable or symbol.is_argument]
        block = block.superblock
    return scope


class Scope(JsonCommand):
    """-friday-scope PC"""

    def answer(self, argv):
        pc = int(one_argument(argv, "-friday-scope PC"), 0)
        return scope_of(pc, gdb.block_for_pc(pc))


def with_unnamed(expression, work):
    """work(expression). gdb finds static variables of other files from anywhere, but those of an unnamed namespace only from their own
    file: where it knows no such symbol, they are named in full."""
    text = expression
    while True:
        try:
            return work(text)
        except gdb.error as error:
            unknown = re.match(r'No symbol "(\w+)" in current context', str(error))
            full = unknown and "(anonymous namespace)::" + unknown[1]
            if not full or "'%s'" % full in text or gdb.lookup_static_symbol(full) is None:
                raise
            text = re.sub(r"(?<![\w.>:'\"])%s(?![\w'\"]|::)" % unknown[1], "'%s'" % full, text)
            if "'%s'" % full not in text:
                raise


@contextlib.contextmanager
def language_of_program():
    """What runs under it is in C++ where a C++ program stands in a function of C, as in the C library. gdb takes the frame's language, and
    in C it knows neither the names of C++ nor the operators that libstdc++'s package evaluates: it would call them in the node."""
    main = gdb.lookup_global_symbol("main")
    as_said = gdb.execute("show language", to_string=True)
    if main is None or "(" not in main.name or not re.search('"auto; currently (?:c|asm|minimal)"', as_said):
        yield
        return
    gdb.execute("set language c++", to_string=True)
    try:
        yield
    finally:
        gdb.execute("set language auto", to_string=True)


def in_program(expression, work):
    """work(expression), in the program's language."""
    with language_of_program():
        return with_unnamed(expression, work)


def as_value(expression):
    """In C a function stands for its address."""
    if not re.fullmatch(r"[(*\s]*[A-Za-z_][\w:]*[\s)]*", expression):
        return expression
    try:
        return "&(%s)" % expression if bare(type_of(expression)).code == gdb.TYPE_CODE_FUNC else expression
    except gdb.error:
        return expression  # told when it is evaluated


def calls_by_name(expression):
    """Whether something stands before a parenthesis that may be a function. A cast to a pointer of an array or a function counts, too."""
    return re.search(r"[\w>]\s*\(", re.sub(LITERAL, "", expression)) is not None


def may_use_operators(expression):
    """Whether an operator of a class may be meant: a path in the expression leads to an object of one. A name may stand in quotes
    ('(anonymous namespace)::variable')."""
    if "c++" not in gdb.execute("show language", to_string=True):
        return False
    code = re.sub(r'"(?:\\.|[^"\\])*"', lambda literal: " " * len(literal[0]), expression)
    objects = (bare(type.target()) if type.code in REFERENCES else type for type in types_on_paths(expression, code))
    return any(type.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) for type in objects)


def is_refused_call(refusal):
    return "may-call-functions" in str(refusal)


def evaluated(expression):
    """gdb's own value. To compute with an array that lies in registers, gdb would copy it into memory that it has the program's malloc
    give: a program that is only read is not changed, so this is refused. Functions run where the expression calls them by name, or by an
    operator of C++."""
    if calls_by_name(expression):
        return gdb.parse_and_eval(expression)
    try:
        with no_calls():
            return gdb.parse_and_eval(expression)
    except gdb.error as refusal:
        if not is_refused_call(refusal):
            raise
        with no_calls():
            operators = may_use_operators(expression)
        if not operators:
            raise gdb.error("a part of it lies in registers, and gdb would have to copy it into memory that the program allocates")
    return gdb.parse_and_eval(expression)


def is_unknown_name(problem):
    """Whether nothing else need be tried: gdb has searched all symbols for a name in vain, which takes it milliseconds. It translates
    in the scope of the innermost frame, whichever is selected."""
    if not (str(problem).startswith("No symbol ") and str(problem).endswith(" in current context.")):
        return False
    try:
        return gdb.selected_frame() == gdb.newest_frame()
    except gdb.error:
        return True


def declared_as(symbol):
    """What two objects of one symbol have in common: gdb 13 makes a new one each time, and compares them by identity."""
    return symbol.print_name, symbol.line, symbol.symtab.filename


def refuse_other_frames(expression):
    """Raises Unplannable when an expression that reads registers is not about the innermost frame alone: bytecode has the registers of
    that one. A name FUNCTION::VARIABLE is about the frame of FUNCTION, wherever that is."""
    if gdb.selected_frame().level() > 0:
        raise Unplannable("bytecode reads the registers of the innermost frame only")
    innermost = gdb.newest_frame().function()
    code = re.sub(LITERAL, "", expression)
    for name in re.findall(r"(?:::)?([A-Za-z_~][\w~]*(?:::[A-Za-z_~][\w~]*)+)", code):
        function = name.rpartition("::")[0]
        symbol = gdb.lookup_symbol(function)[0] or gdb.lookup_static_symbol(function)
        if symbol is None or not symbol.is_function:
            continue  # of a class or a namespace
        if innermost is None or declared_as(innermost) != declared_as(symbol):
            raise Unplannable("%s is a variable of the frame of %s, and bytecode reads the registers of the innermost frame only" % (name, function))


class Plan(JsonCommand):
    """-friday-plan EXPR"""

    def answer(self, argv):
        expression = " ".join(argv).strip()
        if not expression:
            raise gdb.GdbError("Usage: -friday-plan EXPR")
        with no_calls():
            return dict(in_program(expression, self.planned), expression=expression)

    def planned(self, expression):
        expression = as_value(expression)
        answer = {"kind": "gdb", "expression": expression, "scope": self.scope()}
        try:
            answer.update(self.plan(expression))
            answer["kind"] = "agent"
        except (gdb.error, Unplannable) as problem:
            if is_unknown_name(problem):
                raise
            try:
                answer.update(call_plan(expression))
                return answer
            except (gdb.error, Unplannable):
                pass
            try:
                gdb.execute("whatis " + expression, to_string=True)  # an error of the expression itself is told as such
            except gdb.MemoryError:
                pass  # gdb 13 follows references here, although it is to read nothing
            except gdb.error as refusal:
                self.tell(refusal, expression)
            answer["reason"] = str(problem)
        return answer

    @staticmethod
    def tell(refusal, expression):
        """Raises what is wrong with the expression itself; what `whatis` refuses otherwise gdb is left to evaluate."""
        if is_refused_call(refusal):
            return
        if calls_by_name(expression):
            if str(refusal) == "Invalid cast.":  # to gdb 13 a function written in assembler (getpid) returns nothing, until it is called
                return
            raise refusal
        try:  # of several things that are wrong gdb says another one first when it evaluates
            gdb.parse_and_eval(expression)
        except gdb.error as said:
            if not is_refused_call(said):
                raise

    @staticmethod
    def scope():
        try:
            frame = gdb.selected_frame()
        except gdb.error:
            return scope_of(None, None)
        try:
            return scope_of(frame.pc(), frame.block(), frame.name(), frame.level())
        except RuntimeError:
            return scope_of(frame.pc(), None, frame.name(), frame.level())  # no debug information here

    def plan(self, expression):
        try:
            place = place_of(expression)
        except gdb.error as problem:
            if is_unknown_name(problem):
                raise
            place = None
        except Unplannable:
            place = None
        if place is not None and "[" in expression and place.is_folded():
            raise Unplannable("gdb does not translate elements of a constant address")
        table = TypeTable()
        if place is None:
            code, type = self.value_without_place(expression)
            number = table.add(type)
            if table.entries[number]["kind"] not in SCALARS or type.sizeof > 8:
                raise Unplannable("a value of type %s is more than bytecode can hold" % type)
        else:
            code, type = place.code, place.type
            number = table.add(type)
        scalar = table.entries[number]["kind"] in SCALARS and type.sizeof in (1, 2, 4, 8)
        if place is not None and scalar:
            code = compile_expression(expression) if place.bits else place.value()
        registers = code.registers()
        if registers:
            refuse_other_frames(expression)
        known = static_addresses(expression)
        addresses, place_addresses = code.addresses(known), place.code.addresses(known) if place else []
        return {"agent": code.bytes().hex(), "movable": addresses is not None and place_addresses is not None,
                "addresses": addresses or [], "result": "value" if place is None or scalar else "address",
                "place": place.described(place_addresses or []) if place else None, "lvalue": place is not None,
                "registers": registers, "frame": bool(registers), "verified": self.verify(expression, place, code, type),
                "type": number, "types": table.entries}

    @staticmethod
    def value_without_place(expression):
        code = compile_expression(expression)
        if re.search(r"\(\s*(?:const\s+)?(?:bool|_Bool)\s*\)", expression):
            raise Unplannable("gdb does not translate a cast to bool")
        if reads_reference(expression):
            raise Unplannable("gdb does not translate arithmetic on references")
        type = type_of(expression)
        if bare(type).code in REFERENCES:
            raise Unplannable("gdb does not translate this reference")
        return code, type

    @staticmethod
    def verify(expression, place, code, type):
        """Whether the bytecode could be compared with gdb's own evaluation. A difference is an error of gdb's translation."""
        try:
            value = gdb.parse_and_eval(expression)
            if bare(value.type).code in REFERENCES:
                value = value.referenced_value()
            if value.is_optimized_out:
                raise gdb.error("value has been optimized out")
            if place is not None and not place.bits:
                if value.address is None:  # in this frame gdb knows the value, the bytecode is that of another variable of this name
                    raise Unplannable("gdb computes the value")
                expected, got = int(value.address), run(place.code)
            else:
                bits = 8 * type.sizeof
                expected, got = int(value) & ((1 << bits) - 1), run(code) & ((1 << bits) - 1)
        except gdb.MemoryError:
            return False
        if expected != got:
            raise Unplannable("gdb's translation gives %#x, gdb itself %#x" % (got, expected & MASK))
        return True


class Console(gdb.MICommand):
    """-friday-console TEXT

    Through -interpreter-exec gdb would read the lines of a command with a body from its standard input, where Friday's next
    commands are; and what evaluates expressions is to do so in the program's language.
    """

    EVALUATES = re.compile(r"\s*(?:p|pri|prin|print|inspect|call|output|printf|x|ptype|whatis|explore)(?![\w-])")

    def invoke(self, argv):
        text = one_argument(argv, "-friday-console TEXT")
        try:
            if self.EVALUATES.match(text):
                in_program(text, self.execute)
            else:
                self.execute(text)
        except gdb.error as error:
            raise gdb.GdbError(str(error))
        except KeyboardInterrupt:
            raise gdb.GdbError("Quit")

    @staticmethod
    def execute(text):
        gdb.execute(text, from_tty=True, to_string=False)


class Value(JsonCommand):
    """-friday-value EXPR"""

    def answer(self, argv):
        value = in_program(" ".join(argv), lambda text: evaluated(as_value(text)))
        if value.is_optimized_out:
            raise gdb.error("value has been optimized out")
        if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
            value = value.referenced_value()
        table = TypeTable()
        number = table.add(value.type)
        address = None if value.address is None else int(value.address)
        if address is None:
            data = self.bytes_of(value)
        else:
            data = bytes(gdb.selected_inferior().read_memory(address, value.type.sizeof)) if value.type.sizeof else b""
            if bare(value.type).code in INTEGERS and data != self.bytes_of(value):
                address, data = None, self.bytes_of(value)  # a bit-field: gdb gives the address of what it is a part of
        return {"bytes": data.hex(), "address": address, "type": number, "types": table.entries}

    def bytes_of(self, value):
        """The bytes of a temporary, rebuilt from its parts: gdb 13 does not give them."""
        type = value.type.strip_typedefs()
        size = type.sizeof
        if type.code == gdb.TYPE_CODE_VOID:
            return b""
        if type.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            data = bytearray(size)
            for field in type.fields():
                if hasattr(field, "bitpos") and not field.bitsize:
                    part = self.bytes_of(value[field])
                    data[field.bitpos // 8:field.bitpos // 8 + len(part)] = part
            return bytes(data)
        if type.code == gdb.TYPE_CODE_ARRAY:
            low, high = type.range()
            return b"".join(self.bytes_of(value[i]) for i in range(low, high + 1))
        if type.code == gdb.TYPE_CODE_FLT:
            if size not in (4, 8):
                raise gdb.GdbError("a temporary of type %s cannot be copied; store it in a variable first" % value.type)
            return struct.pack("<f" if size == 4 else "<d", float(value))
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


load_standard_printers()
Plan("-friday-plan")
Scope("-friday-scope")
Value("-friday-value")
Console("-friday-console")
