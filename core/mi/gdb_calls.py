# The part of -friday-plan for calls of functions of the program: it describes how the core can make a call without gdb.
#
#   {"kind": "call", "expression", "scope", "registers", "frame", "movable", "type", "types" as in other plans,
#    "call": {"function": {"agent": HEX, "addresses": [...]},          bytecode for the function's address
#             "arguments": [{"agent", "addresses", "passing"}],        "passing": "integer" or "vector", the kind of register. A struct is an
#                                                                      argument for each of its eightbytes
#             "returned": {"at": ADDRESS, "size": BYTES,               what the function returns, and how: in the registers of "passing" (rax
#                          "passing": [...]}},                         and rdx for "integer", xmm0 and xmm1 for "vector"), eight bytes in each;
#                                                                      none for void; null if the caller passes a pointer to memory for it
#    "agent": HEX, "addresses", "result": as in other plans, for the value of the expression. While this bytecode runs, what the function
#                                has returned is at ADDRESS, where no process has memory.}
#
# An expression can be planned if the call is what it evaluates first and always: f(1), f(1).field, f(1).array[2], f(1).pointer->field,
# !f(1).field, f(1).field > limit && ready. Arguments and result are passed by the System V ABI (AMD64 supplement, section 3.2.3). What is
# rare, or what compilers have disagreed about, is left to gdb: see `eightbytes` and `refuse_own_copying`.
INTEGERS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_ENUM, gdb.TYPE_CODE_PTR)
FLOATS = {4: ("<f", "ref32"), 8: ("<d", "ref64")}
RETURNED_AT = 0x0F1D000000000000  # not a canonical address, so it is that of no memory
LARGEST_RESULT = 4096  # bytes that the core provides on the stack; gdb calls functions that return more
LARGEST_ALIGNMENT = 64  # of these bytes


class CallText:
    """An expression taken apart: operators before the call, the call itself, and what follows it. Raises Unplannable if the call is not
    what the expression evaluates first."""

    def __init__(self, expression):
        text = strip_parentheses(expression)
        match = re.match(r"([(!~*+\s-]*)((?:::)?[A-Za-z_]\w*(?:::\w+)*)\s*(?=\()", text)
        end = matching(text, match.end()) if match else -1
        if end < 0:
            raise Unplannable("it does not begin with a call of a function by its name")
        self.before, self.callee, self.after = match[1].rstrip(), match[2], text[end:].lstrip()
        self.arguments = split_arguments(text[match.end() + 1:end - 1])
        while self.before.endswith("(") and self.after.startswith(")"):
            self.before, self.after = self.before[:-1].rstrip(), self.after[1:].lstrip()
        if calls_by_name(self.after):
            raise Unplannable("it has several calls")

    def is_alone(self):
        return not self.before and not self.after


def split_arguments(inside):
    """The arguments between the parentheses of a call."""
    parts, start, depth = [], 0, 0
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[][(){},]', inside):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token[0], 0)
        if token[0] == "," and depth == 0:
            parts.append(inside[start:token.start()])
            start = token.end()
    parts.append(inside[start:])
    return [part.strip() for part in parts] if inside.strip() else []


def called_function(callee):
    """The function that a name denotes. Raises Unplannable if it may denote several, or has no debug information."""
    function = gdb.parse_and_eval(callee)
    if bare(function.type).code != gdb.TYPE_CODE_FUNC:
        raise Unplannable("%s is not a function with debug information" % callee)
    symbol = gdb.lookup_symbol(callee)[0] or gdb.lookup_static_symbol(callee)
    if symbol is None or "no debug info>" in str(function.type):
        raise Unplannable("%s has no debug information" % callee)
    if (symbol.linkage_name or "").startswith("_Z") and len(gdb.decode_line(callee)[1] or ()) != 1:
        raise Unplannable("%s may mean several functions" % callee)
    return function


def extended(code, type):
    """The code with its value extended to 64 bits, as a register holds a value of that type."""
    kind = bare(type)
    if kind.code == gdb.TYPE_CODE_BOOL:
        return code.plus(("log_not", 0), ("log_not", 0))
    signed_one = kind.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_ENUM) and kind.is_signed
    return code.plus(("ext" if signed_one else "zero_ext", 8 * kind.sizeof))


def number_bits(text, form):
    """The bits of a number literal of C in the format `form` of struct; None if the text is not a number."""
    try:
        return int.from_bytes(struct.pack(form, float(text.rstrip("fFlL"))), "little")
    except (ValueError, OverflowError):
        return None


# ---- how values are passed ----

def refuse_own_copying(record):
    """Raises Unplannable if a class may have its own way of being copied or destroyed. Its objects are not passed in registers, and may hold
    their own addresses. Also refuses classes whose declaration gdb cannot find by name. A class without a name has no constructors."""
    if record.name is None:
        return
    name = "%s %s" % ("union" if record.code == gdb.TYPE_CODE_UNION else "struct", record.name)
    if bare(gdb.parse_and_eval("(%s*)0" % name).type.target()) != record:
        raise Unplannable("there are several types %s" % record.name)
    own = re.escape(re.sub(r"<.*", "", record.name, flags=re.DOTALL).rpartition("::")[2])
    if re.search(r"~%s\(|\b%s\([^)]*&" % (own, own), gdb.execute("ptype/M " + name, to_string=True)):
        raise Unplannable("%s has constructors or a destructor of its own" % record.name)


def members_of(record):
    """(bit position, field) of each member and base of a struct, class or union whose objects are copied as bytes. Raises Unplannable."""
    refuse_own_copying(record)
    for field in record.fields():
        if not hasattr(field, "bitpos"):
            continue  # a static member
        if field.bitpos is None or field.artificial:
            raise Unplannable("%s has virtual functions or bases" % record)
        yield field.bitpos, field


def element_of(array):
    """(element type, count) of an array with a fixed size that is not a vector."""
    low, high = array.range()
    element = array.target()
    if "__attribute__" in str(array) or high < low or (high - low + 1) * element.sizeof != array.sizeof:
        raise Unplannable("%s is a vector or has no fixed size" % array)
    return element, high - low + 1


def refuse_vectors(type):
    """Raises Unplannable if an object larger than two eightbytes may not be passed in memory, or not be copied as bytes."""
    kind = bare(type)
    if kind.code in RECORDS:
        for _, field in members_of(kind):
            refuse_vectors(field.type)
    elif kind.code == gdb.TYPE_CODE_ARRAY:
        refuse_vectors(element_of(kind)[0])
    elif kind.code not in INTEGERS + REFERENCES + (gdb.TYPE_CODE_FLT,):
        raise Unplannable("%s is not passed in a way that is known here" % type)


def scalars_in(type, at):
    """(first byte, end, alignment, register) of each scalar in an object at byte `at`. A bit-field has the alignment 1."""
    kind = bare(type)
    if kind.code in RECORDS:
        for position, field in members_of(kind):
            if field.bitsize:
                first, last = 8 * at + position, 8 * at + position + field.bitsize - 1
                if first // 64 != last // 64:
                    raise Unplannable("a bit-field of %s is in two eightbytes" % type)
                yield first // 8, last // 8 + 1, 1, "integer"
            elif position % 8:
                raise Unplannable("a member of %s does not begin at a byte" % type)
            else:
                yield from scalars_in(field.type, at + position // 8)
    elif kind.code == gdb.TYPE_CODE_ARRAY:
        element, count = element_of(kind)
        for number in range(count):
            yield from scalars_in(element, at + number * element.sizeof)
    else:
        if kind.code in INTEGERS + REFERENCES and kind.sizeof in (1, 2, 4, 8, 16):
            register = "integer"
        elif kind.code == gdb.TYPE_CODE_FLT and kind.sizeof in FLOATS:
            register = "vector"
        else:
            raise Unplannable("%s is not passed in a way that is known here" % type)
        if at % kind.sizeof:
            raise Unplannable("a member of type %s is not aligned" % type)
        yield at, at + kind.sizeof, kind.sizeof, register


def refuse_hidden_members(type, scalars, low):
    """Raises Unplannable unless the bytes without a scalar in the eightbyte at `low` are there because of the alignment of what follows.
    There may be a bit-field without a name, which gdb does not know, and about which compilers disagree. One that fills the place before
    an aligned member cannot be told from padding, and gdb takes it for that, too."""
    size, end = bare(type).sizeof, low
    for first, last, alignment, _ in sorted(scalars):
        if low <= first < low + 8:
            if first > end:
                raise Unplannable("%s may have a bit-field without a name" % type)
            end = max(end, last)
        elif first >= low + 8:
            if end < low + 8 and (first != low + 8 or alignment < 8):
                raise Unplannable("%s may have a bit-field without a name" % type)
            return
    widest = max(alignment for _, _, alignment, _ in scalars)
    if -(-end // widest) * widest != size:
        raise Unplannable("%s may have a bit-field without a name" % type)


def eightbytes(type):
    """The kinds of registers in which an object of that type is passed, one for each of its eightbytes; None if it is passed in memory.
    Raises Unplannable where this is not certain."""
    size = bare(type).sizeof
    if size > 16:
        refuse_vectors(type)
        return None
    scalars = list(scalars_in(type, 0))
    registers = []
    for low in range(0, size, 8):
        found = {register for first, end, _, register in scalars if first < low + 8 and end > low}
        if not found:
            raise Unplannable("%s has an eightbyte without members" % type)
        if found == {"vector"}:
            refuse_hidden_members(type, scalars, low)
        registers.append("integer" if "integer" in found else "vector")
    if not registers:
        raise Unplannable("%s has no size" % type)
    return registers


def eightbyte_code(place, low):
    """The code for eight bytes of an object from byte `low` on, or for those that are left, which are the low ones."""
    size, at, code = min(8, bare(place.type).sizeof - low), 0, None
    for piece in (8, 4, 2, 1):
        while size - at >= piece:
            read = [("const32", low + at), ("add", 0), ("ref%d" % (8 * piece), 0)]
            if code is None:
                code = place.code.plus(("dup", 0), *read)
            else:
                code = code.plus(("pick", 1), *read, ("const8", 8 * at), ("lsh", 0), ("bit_or", 0))
            at += piece
    return code


def argument_codes(text, type):
    """[(code, passing)] for an argument that is passed to a parameter of that type, one for each register. Raises Unplannable."""
    kind = bare(type)
    if kind.code not in RECORDS:
        return [argument_code(text, type)]
    place = place_of(text)
    registers = eightbytes(type)
    if registers is None or place.bits or bare(place.type) != kind:
        raise Unplannable("%s cannot be passed in registers" % text)
    return [(eightbyte_code(place, 8 * number), register) for number, register in enumerate(registers)]


def argument_code(text, type):
    """(code, passing) for an argument that is passed to a parameter of that type. Raises Unplannable."""
    kind = bare(type)
    try:
        place = place_of(text)
    except (gdb.error, Unplannable):
        place = None
    if kind.code in REFERENCES:
        if place is None or place.bits or bare(place.type) != bare(kind.target()):
            raise Unplannable("%s cannot be passed by reference" % text)
        return place.code, "integer"
    if kind.code == gdb.TYPE_CODE_FLT and kind.sizeof in FLOATS:
        form, load = FLOATS[kind.sizeof]
        bits = number_bits(text, form)
        if bits is not None:
            return Code([("const64", bits)]), "vector"
        if place is None or bare(place.type) != kind:
            raise Unplannable("%s is not of type %s" % (text, kind))
        return place.code.plus((load, 0)), "vector"
    if kind.code not in INTEGERS or kind.sizeof > 8:
        raise Unplannable("an argument of type %s is not passed in a register" % type)
    if place is not None and not place.bits:
        given = bare(place.type)
        if given.code in (gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_FUNC):
            return place.code, "integer"
        if given.code not in INTEGERS:
            raise Unplannable("%s would have to be converted" % text)
        return extended(place.value(), kind), "integer"
    if place is not None:
        return extended(compile_expression(text), kind), "integer"
    code, given = Plan.value_without_place(text)
    if bare(given).code not in INTEGERS:
        raise Unplannable("%s would have to be converted" % text)
    return extended(code, kind), "integer"


def returned_by(function_type):
    """What a function returns, and how, as in "returned". Raises Unplannable."""
    given, type = function_type.target(), bare(function_type.target())
    if type.code == gdb.TYPE_CODE_VOID:
        return {"at": RETURNED_AT, "size": type.sizeof, "passing": []}  # for gdb it has a size
    registers = eightbytes(given)
    if registers is None and (type.code not in RECORDS or type.sizeof > LARGEST_RESULT or type.alignof > LARGEST_ALIGNMENT):
        raise Unplannable("a result of type %s is not returned in a way that is known here" % given)
    return {"at": RETURNED_AT, "size": type.sizeof, "passing": registers}


# ---- what follows a call ----

def refuse_temporary_arrays(call, text, after):
    """Raises Unplannable if gdb would not evaluate `after`, which follows an object that is only in registers, as if the object were in
    memory: it refuses elements outside an array, and to use an array as a pointer it copies it into memory of the program's malloc."""
    at = 0
    while True:
        type = type_of(text)
        if type.code in REFERENCES:
            return  # what follows is in memory
        kind, step = bare(type), STEP.match(after, at)
        if not step:
            break
        word = step[0].lstrip()
        end = step.end() if word else matching(after, step.end())
        if kind.code == gdb.TYPE_CODE_PTR and not word.startswith((".", "::")):
            return  # what it points to is in memory
        index = None if word else after[step.end() + 1:end - 1].strip()
        if index is not None and kind.code == gdb.TYPE_CODE_ARRAY and index.isdigit() and kind.range()[0] <= int(index, 0) <= kind.range()[1]:
            pass
        elif not word.startswith(".") or kind.code not in RECORDS:
            raise Unplannable("what %s returns has no address" % call.callee)
        text, at = text + after[at:end], end
    if (call.before or after[at:].strip()) and kind.code not in INTEGERS:
        raise Unplannable("what %s returns has no address" % call.callee)


def compiled_after(call, type, table):
    """(code, type number, whether the code yields the value) for an expression around a call whose result has that type. It is translated
    with a register that holds no variable in place of the result's address, which is known when the call has been made."""
    register = "$fs_base"
    number = translated(register).operations[0][1]
    reference = type.code in REFERENCES
    held = type.target().pointer() if reference else type
    base = "(*%s(%s*)%s)" % ("*" if reference else "", held, "%s")
    if register in call.before + call.after or type_of(base % register) != (type.target() if reference else type):
        raise Unplannable("the type %s has no name that gdb finds" % type)
    if not reference:
        refuse_temporary_arrays(call, base % register, call.after)
    text = call.before + base + call.after.replace("%", "%%")
    place, code, result, scalar = Plan.compiled(text % register, table)
    verify_somewhere(lambda at: (text % ("(char*)%d" % at), place and place.with_constant(number, at), code.with_constant(number, at)), result)
    return code.with_constant(number, RETURNED_AT), table.add(result), scalar


def verify_somewhere(made_for, type):
    """Verifies an expression about an object whose address is not known yet, with the bytes of the stack in place of the object: bytes
    with which gdb can evaluate it. Raises Unplannable if it finds none, or if gdb's translation is wrong."""
    stack = read_register(translated("$rsp").operations[0][1])
    for at in range(stack, stack + 1024, 8):
        try:
            if Plan.verify(*made_for(at), type):
                return
        except gdb.error:
            pass  # such as a division by zero
    raise Unplannable("gdb's translation cannot be verified here")


def call_plan(expression):
    call = CallText(expression)
    function = called_function(call.callee)
    type = bare(function.type)
    parameters = [field.type for field in type.fields()]
    if len(parameters) != len(call.arguments) or "..." in str(type):
        raise Unplannable("%s takes %d arguments" % (call.callee, len(parameters)))
    passed = [each for text, parameter in zip(call.arguments, parameters) for each in argument_codes(text, parameter)]
    returned, given = returned_by(type), type.target()
    general = sum(way == "integer" for _, way in passed) + (returned["passing"] is None)
    if general > 6 or sum(way != "integer" for _, way in passed) > 8:
        raise Unplannable("some arguments would be passed on the stack")
    table = TypeTable()
    if not call.is_alone():
        result, number, scalar = compiled_after(call, given, table)
    else:
        result, scalar = Code([("const64", RETURNED_AT)]), False
        reference = bare(given).code in REFERENCES
        if reference:
            result = result.plus(("ref64", 0))
        number = table.add(bare(given).target() if reference else given)
    known = static_addresses(expression) | {int(function.address)}
    codes = [result, Code([("const64", int(function.address))])] + [code for code, _ in passed]
    addresses = [code.addresses(known) for code in codes]
    registers = sorted({number for code in codes for number in code.registers()})
    if registers:
        refuse_other_frames(expression)
    described = [{"agent": code.bytes().hex(), "addresses": found or []} for code, found in zip(codes, addresses)]
    return {"kind": "call", "movable": None not in addresses, "registers": registers, "frame": bool(registers), "verified": True,
            **described[0], "result": "value" if scalar else "address", "type": number, "types": table.entries,
            "call": {"function": described[1], "returned": returned,
                     "arguments": [dict(code, passing=way) for code, (_, way) in zip(described[2:], passed)]}}
