# Friday's commands inside gdb, loaded by MiSession at start. With them Friday gets what gdb knows about symbols and types in one
# round trip, as JSON. They need gdb 13 (gdb.MICommand, Breakpoint.locations).
#
# Each command except -friday-console answers ^done,json="..." with the JSON described here, or ^error with gdb's own message.
# Except for -friday-value and -friday-console, whose expressions may, none changes the program, its breakpoints, or the selected
# frame and thread.
#
# -friday-plan EXPR              how to evaluate EXPR, in the scope of the selected frame, without asking gdb again
#   {"kind": "agent",            by bytecode; or
#    "kind": "call",             by a call of a function that the core makes, and bytecode for what follows it: see gdb_calls.py; or
#    "kind": "gdb",              only by gdb (other calls, assignments, thread-local storage, values of floating-point
#                                arithmetic, frames above 0, ...): "reason" says why; besides it only "expression" and
#                                "scope" follow
#    "expression": EXPR,
#    "agent": HEX,               bytecode of gdb's agent expressions (gdb manual, "Bytecode Descriptions"), ending in
#                                `end` (0x27). It may contain absolute addresses of this process.
#    "movable": true,            whether all these addresses are known to be those of symbols, so that the bytecode can be
#    "addresses": [OFFSET...],   adjusted for a process with other addresses. "addresses" are their offsets in the bytecode,
#                                where each has eight bytes, big-endian. "place" has its own.
#    "steps": [...]              the steps that bytecode has no instruction for: see gdb_layouts.py
#    "result": "value",          the top of the stack is the value of a scalar: its low "size" bytes, read as the type
#                                says. Or
#    "result": "address",        the top of the stack is the address of an object of that type (floats, structs, unions,
#                                arrays, functions)
#    "place": null               if EXPR has no address (arithmetic, registers), else where it is in memory:
#             {"agent": HEX, "addresses": [...],   bytecode for the address of its first byte
#              "size": BYTES,    the number of whole bytes that it touches
#              "bit": B, "bits": N},   for a bit-field only: N bits from bit B of the first byte on (little-endian)
#    "lvalue": true,             whether "place" is not null
#    "registers": [6, ...],      numbers of the registers that the bytecode reads (gdb's remote numbers: 6 rbp, 7 rsp, 16 rip)
#    "frame": true,              whether it reads any: then the plan is valid at this pc only, since the frame and the
#                                variables in it may have another place at the next instruction. Otherwise it is valid in the
#                                whole block of "scope".
#    "verified": true,           whether the bytecode was evaluated here and agrees with gdb's own answer; false if memory
#                                that it needs cannot be read now (a null pointer on the way)
#    "fixed": true,              only in plans for one evaluation: the bytecode has the addresses and values that variables of the frame
#                                have now, since it cannot find them. Such a plan is not to be kept ("verified" is false)
#    "scope": {"function": NAME, "block": START, "block_end": END, "locals": [NAME...], "pc": PC, "level": FRAME},
#                                the first three may be null; "locals" are the variables of the block and of the blocks around it
#    "type": ID, "types": [...]} ID is an index into "types"
#
# An entry of "types": "name" as printed (typedef names kept), "plain", the name without typedefs, qualifiers and words like struct, "size" in
# bytes, and by "kind":
#   int      "signed", "char" (char, char8_t, char16_t, char32_t, wchar_t: character data)
#   bool     any value but 0 is true
#   enum     "signed", "values": [[NAME, NUMBER]...] as declared: the first name of a number is the one that is shown
#   float    "format": "ieee32", "ieee64", "ieee128" or "x87" (80 bits in 16 bytes)
#   pointer  "target" (name), "char" (to character data, of "target_size" bytes each), "function"
#   reference "target" (name); stored as a pointer. EXPR itself never has this type: a plan follows the reference.
#   array    "element" (ID), "count", "lower" (first index), "char" (of character data)
#   struct, union   "fields": [{"name" (null: anonymous), "type": ID, "offset": BYTES, "base": bool, "artificial": bool,
#            and for bit-fields "bit" and "bits" as above}]; classes are structs, static members are left out, the
#            offset of a virtual base is null, and what is in it can be read only by gdb. For containers and smart pointers
#            of libstdc++, "standard" is the name of the template ("vector"), and "item" (ID) the type that its allocator allocates;
#            "shift", if these are in nodes, their offset there, else null
#   function, void, other   "other": only gdb can print it (complex, decimal, pointers to members, ...)
#
# -friday-scope PC               the "scope" of an instruction, wherever the program stands
#
# -friday-check ADDRESS CONDITION   null; fails if the condition of a breakpoint at this address is no expression, or names a variable or
#                                member that does not exist there, wherever the program stands. What else may be wrong with it is not looked for.
#
# -friday-value EXPR             the value of any expression by gdb's own evaluation, including calls of functions of the program
#   {"bytes": HEX, "address": NUMBER or null, "type": ID, "types": [...]}
#
# -friday-console TEXT           a command of gdb's command line; expressions in it are in the program's language
import contextlib
import glob
import json
import re
import struct
import sys

import gdb

if not hasattr(gdb, "MICommand") or not hasattr(gdb, "BreakpointLocation"):
    raise gdb.GdbError("gdb %s is too old: Friday needs gdb 13 or later" % gdb.VERSION)

# An internal error of gdb shall end the command, not gdb itself (gdb 13 has one in `maint agent-eval` of a member of a virtual base).
# The backtrace is off because gdb aborts if it prints one while the output of a command is captured.
for setting in ("quit no", "corefile no", "backtrace off"):
    gdb.execute("maint set internal-error " + setting)


class JsonCommand(gdb.MICommand):
    """An MI command that answers with a JSON text, and whose errors are gdb's messages without Python's additions."""

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
    """Loads the pretty printers of libstdc++ and its operators on containers. A gdb of its own finds them through the path of the library,
    which is another one in a node's sysroot. Without them the containers print as plain structs."""
    sys.path.extend(glob.glob("/usr/share/gcc*/python"))
    try:
        from libstdcxx.v6 import register_libstdcxx_printers
    except ImportError:
        return
    register_libstdcxx_printers(None)
    for matcher in gdb.xmethods:
        matcher.match = named_only(matcher.match)


def named_only(match):
    """Wraps a matcher of libstdc++ so that it is not called for classes for which it fails: those without a name, such as lambdas, and
    those of libc++."""
    return lambda class_type, method: match(class_type, method) if class_type.tag and not class_type.tag.startswith("std::__1::") else None


def bare(type):
    return type.strip_typedefs().unqualified()


def plain_name(type):
    """The name of a type without typedefs and qualifiers, which is the same wherever in a program, and in C and C++, the type is named. A class
    without a name of its own has that of the innermost typedef."""
    type, named = type.unqualified(), None
    while type.code == gdb.TYPE_CODE_TYPEDEF:
        type, named = type.target().unqualified(), type
    return type.name or (named.name if named is not None and type.code in (*RECORDS, gdb.TYPE_CODE_ENUM) else str(type))


def is_character(type):
    return bare(type).code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR) and bare(type).name in CHARACTERS


def is_bitfield(field):
    return field.bitsize > 0 and (field.bitsize != 8 * field.type.sizeof or field.bitpos % 8 != 0)


STANDARD = re.compile(r"(?:std|__gnu_cxx)::(?:__\w+::)?(vector|deque|list|forward_list|(?:unordered_)?(?:multi)?(?:set|map)|basic_string|basic_string_view|"
                      r"array|tuple|optional|variant|unique_ptr|shared_ptr|weak_ptr|atomic|queue|stack|priority_queue|__aligned_(?:membuf|buffer))<")
OTHERS = re.compile(r"(?:boost|absl)::(?:\w+::)*(vector|small_vector|static_vector|flat_(?:multi)?(?:set|map)|array|optional|(?:shared|weak|scoped|intrusive)_ptr|"
                    r"InlinedVector|FixedArray|(?:flat|node)_hash_(?:set|map))<")


class TypeTable:
    """A table with the layout of each type, in the form described at the head of this file."""

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
        entry.update(plain=plain_name(type))
        return number

    def describe(self, entry, type):
        code = type.code
        if code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_RANGE):
            entry.update(kind="int", signed=type.is_signed, char=is_character(type))
        elif code == gdb.TYPE_CODE_BOOL:
            entry.update(kind="bool")
        elif code == gdb.TYPE_CODE_ENUM:
            # gdb gives large enumerators of an unsigned 64-bit type as negative numbers; it reads values by is_signed.
            values = [(field.name, field.enumval) for field in type.fields()]
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
            count = upper - lower + 1 if type.sizeof or not type.target().sizeof else 0  # gdb 13 says that a flexible array member has one element
            entry.update(kind="array", lower=lower, count=count, char=is_character(type.target()), element=self.add(type.target()))
        elif code in RECORDS:
            entry.update(kind="struct" if code == gdb.TYPE_CODE_STRUCT else "union",
                         fields=[self.describe_field(field) for field in type.fields() if hasattr(field, "bitpos")])
            standard = STANDARD.match(type.name or "") or (template_of(type) and OTHERS.match(type.name))
            if standard:
                entry.update(standard=standard[1])
                item = type.template_argument(0) if standard[1].startswith("__aligned_") else item_of(type, standard[1])
                if item is not None:
                    entry.update(item=self.add(item))
                entry.update(shift=shift_of(type, standard[1]))
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
        if field.bitpos is not None:  # None for a virtual base, which has no fixed place
            entry["offset"] = field.bitpos // 8
            if is_bitfield(field):
                entry.update(bit=field.bitpos % 8, bits=field.bitsize)
        return entry


@contextlib.contextmanager
def no_calls():
    """A context in which gdb calls no function of the program, neither one in an expression nor malloc for its own purposes."""
    if not gdb.parameter("may-call-functions"):
        yield
        return
    gdb.execute("set may-call-functions off", to_string=True)
    try:
        yield
    finally:
        gdb.execute("set may-call-functions on", to_string=True)


# ---- plans ----

class Place:
    """Where an expression is in memory: the code for the address of its first byte, its type, and for a bit-field its bits."""

    def __init__(self, code, type, bit=0, bits=0):
        self.code, self.type, self.bit, self.bits = code, type, bit, bits

    def size(self):
        return (self.bit + self.bits + 7) // 8 if self.bits else self.type.sizeof

    def is_folded(self):
        """Whether gdb 13 has wrongly evaluated an element behind a constant address to 0: the code reads nothing, and its address is in a
        page that cannot be mapped."""
        return not any(name == "reg" or name.startswith("ref") for name, _ in self.code.operations) and run(self.code) < LOWEST_PAGE

    def value(self):
        """The code for the value of a scalar that is not a bit-field."""
        kind = bare(self.type)
        bits = 8 * kind.sizeof
        code = self.code.plus(("ref%d" % bits, 0))
        signed_integer = kind.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_RANGE) and kind.is_signed
        return code.plus(("ext", bits)) if signed_integer else code

    def with_constant(self, register, value):
        return Place(self.code.with_constant(register, value), self.type, self.bit, self.bits)

    def described(self, addresses):
        entry = {"agent": self.code.bytes().hex(), "size": self.size(), "addresses": addresses}
        if self.bits:
            entry.update(bit=self.bit, bits=self.bits)
        return entry


def place_of(expression):
    """The place of an lvalue. Raises gdb.error or Unplannable if bytecode cannot compute it."""
    try:
        code = compile_expression("&(%s)" % expression)
    except (gdb.error, Unplannable):
        place = member_place(expression) or element_place(expression)
        if place is None:
            raise
        return place
    type = type_of(expression)
    if bare(type).code in REFERENCES:
        # gdb 13 translates a reference as the pointer by which it is stored.
        return Place(compile_expression(expression), bare(type).target())
    return Place(code, type)


def member_place(expression):
    """The place of BASE.member or BASE->member for those that gdb 13 cannot translate: bit-fields and members of anonymous unions."""
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
    """The place to which a pointer points; None for anything else."""
    held = bare(place.type)
    return Place(place.value(), held.target()) if held.code == gdb.TYPE_CODE_PTR else None


def element_place(expression):
    """The place of BASE[INDEX], where gdb 13 cannot translate BASE: a member of an anonymous union."""
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
    return Place(code.plus(index, ("const64", element.sizeof), ("mul", 0), ("add", 0)), element)


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
    """The index after the bracket that closes the one at `at`; -1 if there is none. Literals of C are skipped."""
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
    """The ends of the longer and longer paths that start at `at`: of a, a.b, a.b[1], ..."""
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
    """The end of the longest path (name, members, elements) that starts at `at`; -1 if none starts there."""
    end = -1
    for end in postfix_steps(text, at):
        pass
    return end


def typed_paths(expression, code):
    """(path, type) of all paths (name or parentheses, members, elements) in an expression, shorter paths first. `code`: the expression with
    blanks where no names must be found, that is in literals. A quoted name counts as a name."""
    for name in re.finditer(r"(?<![\w.>:])(?:(?:::)?[A-Za-z_]\w*|'[^']*'|[(])", code):
        for end in postfix_steps(code, name.start()):
            path = expression[name.start():end]
            try:
                yield path, bare(type_of(path))
            except gdb.error:
                pass  # the name of a type, a namespace, ...


def reads_reference(expression):
    """Whether a path in the expression goes through a reference. In arithmetic gdb 13 uses its pointer instead of its value."""
    code = re.sub(LITERAL + r"|__typeof__\(\$\w+\)|\$\w+", lambda literal: " " * len(literal[0]), expression)
    return any(type.code in REFERENCES for _, type in typed_paths(expression, code))


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


def is_unknown_name(problem):
    """Whether gdb has searched all symbols for a name in vain, so that other ways need not be tried; a search takes milliseconds. gdb
    translates in the scope of the innermost frame, so this is certain only if that frame is selected."""
    if not (str(problem).startswith("No symbol ") and str(problem).endswith(" in current context.")):
        return False
    try:
        return gdb.selected_frame() == gdb.newest_frame()
    except gdb.error:
        return True


def declared_as(symbol):
    """A key that is equal for two Python objects of one symbol: gdb 13 makes a new object each time and compares them by identity."""
    return symbol.print_name, symbol.line, symbol.symtab.filename


def refuse_other_frames(expression):
    """Raises Unplannable if an expression that reads registers refers to another frame than the innermost one, whose registers bytecode
    reads. A name FUNCTION::VARIABLE refers to the frame of FUNCTION, wherever that is."""
    if gdb.selected_frame().level() > 0:
        raise Unplannable("bytecode reads the registers of the innermost frame only")
    innermost = gdb.newest_frame().function()
    code = re.sub(LITERAL, "", expression)
    for name in re.findall(r"(?:::)?([A-Za-z_~][\w~]*(?:::[A-Za-z_~][\w~]*)+)", code):
        function = name.rpartition("::")[0]
        symbol = gdb.lookup_symbol(function)[0] or gdb.lookup_static_symbol(function)
        if symbol is None or not symbol.is_function:
            continue  # a member of a class or a namespace
        if innermost is None or declared_as(innermost) != declared_as(symbol):
            raise Unplannable("%s is a variable of the frame of %s, and bytecode reads the registers of the innermost frame only" % (name, function))


def present_variable(name):
    """(code, type, is_value) that gives a variable of the selected frame where it is now, or the value that it has now; None for other
    names. gdb finds variables that bytecode cannot: in outer frames, and those of which only what the caller has passed is known
    (DW_OP_entry_value, DWARF 5, section 2.5.1.7)."""
    try:
        symbol, is_member = gdb.lookup_symbol(name)
    except gdb.error:
        return None
    if not is_member and (symbol is None or not symbol.needs_frame):
        return None
    value = gdb.parse_and_eval(name)
    if bare(value.type).code in REFERENCES:
        value = value.referenced_value()
    if value.is_optimized_out:
        raise gdb.error("value has been optimized out")
    if value.address is not None:
        return Code([("const64", int(value.address) & MASK)]), value.type, False
    if bare(value.type).code not in INTEGERS:
        raise Unplannable("%s is neither in memory nor a number" % name)
    return Code([("const64", int(value) & MASK)]), value.type, True


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
        except Refused as problem:
            raise gdb.error(str(problem))
        except (gdb.error, Unplannable) as problem:
            if is_unknown_name(problem):
                raise
            for other in (call_plan, self.plan_now):
                try:
                    answer.update(other(expression))
                    return answer
                except Refused as refusal:
                    raise gdb.error(str(refusal))
                except (gdb.error, Unplannable):
                    pass
            try:
                gdb.execute("whatis " + expression, to_string=True)  # raises the error if the expression itself is wrong
            except gdb.MemoryError:
                pass  # gdb 13 follows references here, although it is to read nothing
            except gdb.error as refusal:
                if isinstance(problem, Unplannable) and re.match("Could(?: not|n't) find (?:operator|method)|No symbol \"(?:operator|get<|holds_alternative<)", str(refusal)):
                    raise gdb.error("%s, and %s" % (str(refusal).rstrip("."), problem))
                self.tell(refusal, expression)
            answer["reason"] = str(problem)
        return answer

    @staticmethod
    def tell(refusal, expression):
        """Raises the error if the expression itself is wrong. If only `whatis` refuses it, returns, so that gdb evaluates it later."""
        if is_refused_call(refusal):
            return
        if calls_by_name(expression):
            if str(refusal) == "Invalid cast.":  # gdb 13 takes a function written in assembler (getpid) to return void until it is called
                return
            if str(refusal).endswith("used as function") and calls_pointers(expression):
                return
            raise refusal
        try:  # if several things are wrong, evaluation may report another one than `whatis`
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

    def plan_now(self, expression):
        """A plan that is good for one evaluation, at once, with the variables of the frame where gdb finds them now. For expressions on
        objects of classes, for which gdb would call functions of the program."""
        if not may_use_operators(expression):
            raise Unplannable("gdb evaluates it without a call")
        return dict(self.plan(expression, present_variable), kind="agent", fixed=True, verified=False)

    def plan(self, expression, variables=None):
        table = TypeTable()
        rewriting = Rewriting(expression, variables)
        if variables and not rewriting.made:
            raise Unplannable("it has no operations on containers that are known here")
        try:
            place, code, type, scalar = rewriting.compiled(rewriting.text, table)
        except gdb.error as problem:
            missing = re.match(r"Couldn't find member named `(.+?)' in ", str(problem)) if rewriting.made else None
            if missing and not has_type(rewriting.text):  # otherwise it is a member of an anonymous union, which gdb does not translate
                raise Refused("There is no member named %s." % missing[1])
            raise
        if is_incomplete(bare(type)):
            raise Refused("%s is an incomplete type: it is declared here, and the debug information does not say what is in it" % type)
        registers = code.registers()
        if registers:
            refuse_other_frames(expression)
        known = static_addresses(expression)
        addresses, place_addresses = code.addresses(known), place.code.addresses(known) if place else []
        return {"agent": code.bytes().hex(), "movable": addresses is not None and place_addresses is not None,
                "addresses": addresses or [], "steps": rewriting.steps.entries, "result": "value" if scalar else "address",
                "place": place.described(place_addresses or []) if place else None, "lvalue": place is not None,
                "registers": registers, "frame": bool(registers), "verified": rewriting.verified,
                "type": table.add(type), "types": table.entries}

    @staticmethod
    def typed(expression, variables=None):
        """The type of what a plan yields."""
        rewriting = Rewriting(expression, variables)
        return rewriting.compiled(rewriting.text, TypeTable())[2]

    @classmethod
    def compiled(cls, expression, table):
        """(place or None, code, type, whether the code yields the value of a scalar instead of an address) of an expression."""
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
        if place is None:
            code, type = cls.value_without_place(expression)
            if table.entries[table.add(type)]["kind"] not in SCALARS or type.sizeof > 8:
                raise Unplannable("a value of type %s is more than bytecode can hold" % type)
            return None, code, type, True
        return cls.of_place(place, table, expression)

    @staticmethod
    def of_place(place, table, expression):
        """What compiled() returns for an expression that denotes this place."""
        scalar = table.entries[table.add(place.type)]["kind"] in SCALARS and place.type.sizeof in (1, 2, 4, 8)
        if not scalar:
            return place, place.code, place.type, False
        return place, compile_expression(expression) if place.bits else place.value(), place.type, True

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
        bits = 8 * type.sizeof
        by_address = place is not None and not place.bits
        try:
            value = gdb.parse_and_eval(expression)
            if bare(value.type).code in REFERENCES:
                value = value.referenced_value()
            if value.is_optimized_out:
                raise gdb.error("value has been optimized out")
            if by_address and value.address is None:  # gdb knows a value without an address here: the bytecode is that of another variable of this name
                raise Unplannable("gdb computes the value")
            expected = int(value.address) if by_address else int(value) & ((1 << bits) - 1)
        except gdb.MemoryError:
            return False
        try:
            got = run(place.code) if by_address else run(code) & ((1 << bits) - 1)
        except gdb.MemoryError:  # gdb translates a variable as if it were in memory of which the debug information alone knows the value
            raise Unplannable("gdb's translation reads memory that gdb itself does not read")
        if expected != got:
            raise Unplannable("gdb's translation gives %#x, gdb itself %#x" % (got, expected & MASK))
        return True


def show_value(format, address, data, expression):
    """Prints the value of an expression as gdb's `print` with this format (such as "/x") does, where the core has evaluated it: an object
    at the address or, if `data` is not empty, these bytes in hexadecimal digits."""
    def type_in_frame(text):
        try:
            return Plan.typed(text)
        except (gdb.error, Unplannable):
            return Plan.typed(text, present_variable)

    with no_calls():
        type = in_program(expression, type_in_frame)
    value = gdb.Value(bytes.fromhex(data), type) if data else gdb.Value(address).cast(type.pointer()).dereference()
    number = gdb.add_history(value)  # as `print` does: $N is the object itself
    gdb.write("$%d = " % number)
    with language_of_program():
        gdb.execute("output%s $%d" % (format, number), from_tty=True, to_string=False)
    gdb.write("\n")


class Check(JsonCommand):
    """-friday-check ADDRESS CONDITION"""

    NO_MEMBER = ("There is no member named ", "There is no member or method named ", "Attempt to extract a component of a value that is not a structure")
    NO_EXPRESSION = ("A syntax error in expression", "Invalid number ", "Invalid character ", "Unmatched single quote", "Unterminated ", "Junk after ")

    def answer(self, argv):
        address, condition = argv
        with no_calls():
            in_program(condition, lambda text: self.check(text, int(address, 0)))

    def check(self, condition, address):
        rewriting = None
        try:
            rewriting = Rewriting(condition, lambda name: self.declared(name, gdb.block_for_pc(address)))
            type_of(rewriting.text)
        except Refused as problem:
            raise gdb.error(str(problem))
        except Unplannable:
            pass
        except gdb.error as problem:
            if str(problem).startswith(self.NO_MEMBER):
                raise gdb.error(str(problem).rstrip(".") + self.members(rewriting))
        try:
            self.parse(condition, address)
        except gdb.error as problem:
            known = rewriting is not None and rewriting.made  # more than gdb's parser knows
            if re.match(r'No symbol ".+" in current context', str(problem)) or (str(problem).startswith(self.NO_EXPRESSION) and not known):
                raise

    @staticmethod
    def parse(condition, address):
        """Raises gdb.error if gdb would not take this condition for a breakpoint at the address."""
        breakpoint = gdb.Breakpoint("*%d" % address, internal=True)
        try:
            breakpoint.condition = condition
        finally:
            breakpoint.delete()

    @staticmethod
    def members(rewriting):
        """The members that there are instead of the one that is missing."""
        if rewriting is None or rewriting.base is None:
            return ""
        try:
            record = bare(type_of(rewriting.base))
            record = bare(record.target()) if record.code == gdb.TYPE_CODE_PTR else record
            names = [field.name for field in record.fields() if field.name and not field.is_base_class]
        except (gdb.error, TypeError):
            return ""
        return "; there are " + ", ".join(names[:12]) + (" and %d more" % (len(names) - 12) if len(names) > 12 else "")

    @staticmethod
    def declared(name, block):
        """(code, type, is_value) for an object of the type that a variable is declared with in the block, at no address; None for other
        names."""
        if block is None:
            symbol, is_member = gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name), False
        else:
            symbol, is_member = gdb.lookup_symbol(name, block)
        if is_member:
            found = find_member(bare(gdb.lookup_symbol("this", block)[0].type.target()), name)
            type = found[1].type if found else None
        else:
            type = symbol.type if symbol is not None and (symbol.is_variable or symbol.is_argument) else None
        if type is None:
            return None
        return Code([("const64", 0)]), bare(type).target() if bare(type).code in REFERENCES else type, False


class Console(gdb.MICommand):
    """-friday-console TEXT

    This is used instead of -interpreter-exec, with which gdb would read the body of a command from its standard input, where Friday's
    next commands are. Also, commands that evaluate expressions use the program's language.
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


load_standard_printers()
Plan("-friday-plan")
Scope("-friday-scope")
Check("-friday-check")
Console("-friday-console")
