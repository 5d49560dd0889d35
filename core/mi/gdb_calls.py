# The part of -friday-plan for calls of functions of the program: it describes how the core can make a call without gdb.
#
#   {"kind": "call", "expression", "scope", "registers", "frame", "movable", "type", "types" as in other plans,
#    "call": {"function": {"agent": HEX, "addresses": [...]},          bytecode for the function's address
#             "arguments": [{"agent", "addresses", "passing": "integer" | "float" | "double"}],
#             "result": "integer" | "float" | "double" | null (void),  "reference": true if it is the address of the value}}
#
# This is possible for functions whose arguments and result are scalars that are passed in registers. gdb itself calls the others.
INTEGERS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_ENUM, gdb.TYPE_CODE_PTR)
FLOATS = {4: ("float", "<f", "ref32"), 8: ("double", "<d", "ref64")}


def split_call(expression):
    """(callee, [argument, ...]) if the expression is FUNCTION(ARGUMENTS); else None."""
    text = strip_parentheses(expression)
    match = re.match(r"(?:::)?[A-Za-z_]\w*(?:::\w+)*\s*(?=\()", text)
    if not match or matching(text, match.end()) != len(text):
        return None
    inside, parts, start, depth = text[match.end() + 1:-1], [], 0, 0
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[][(){},]', inside):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token[0], 0)
        if token[0] == "," and depth == 0:
            parts.append(inside[start:token.start()])
            start = token.end()
    parts.append(inside[start:])
    return match[0].strip(), [] if parts == [""] or not inside.strip() else [part.strip() for part in parts]


def called_function(callee):
    """The function that a name denotes. Raises Unplannable if it may denote several, or has no debug information."""
    function = gdb.parse_and_eval(callee)
    if bare(function.type).code != gdb.TYPE_CODE_FUNC:
        raise Unplannable("%s is not a function with debug information" % callee)
    symbol = gdb.lookup_symbol(callee)[0] or gdb.lookup_static_symbol(callee)
    if symbol is None or "<" in str(function.type):
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
        name, form, load = FLOATS[kind.sizeof]
        bits = number_bits(text, form)
        if bits is not None:
            return Code([("const64", bits)]), name
        if place is None or bare(place.type) != kind:
            raise Unplannable("%s is not of type %s" % (text, kind))
        return place.code.plus((load, 0)), name
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


def call_plan(expression):
    parts = split_call(expression)
    if parts is None:
        raise Unplannable("this is not a call of a function by its name")
    callee, arguments = parts
    function = called_function(callee)
    type = bare(function.type)
    parameters = [field.type for field in type.fields()]
    if len(parameters) != len(arguments) or "..." in str(type):
        raise Unplannable("%s takes %d arguments" % (callee, len(parameters)))
    codes = [argument_code(text, parameter) for text, parameter in zip(arguments, parameters)]
    if sum(way == "integer" for _, way in codes) > 6 or sum(way != "integer" for _, way in codes) > 8:
        raise Unplannable("some arguments would be passed on the stack")
    result, given = bare(type.target()), type.target()
    way, reference = None, result.code in REFERENCES
    if result.code in INTEGERS or reference:
        way = "integer"
    elif result.code == gdb.TYPE_CODE_FLT and result.sizeof in FLOATS:
        way = FLOATS[result.sizeof][0]
    elif result.code != gdb.TYPE_CODE_VOID:
        raise Unplannable("a result of type %s is not returned in a register" % given)
    known = static_addresses(expression) | {int(function.address)}
    target = Code([("const64", int(function.address))])
    all_codes = [target] + [code for code, _ in codes]
    addresses = [code.addresses(known) for code in all_codes]
    registers = sorted({number for code in all_codes for number in code.registers()})
    if registers:
        refuse_other_frames(expression)
    table = TypeTable()
    number = table.add(result.target() if reference else given)
    described = [{"agent": code.bytes().hex(), "addresses": found or []} for code, found in zip(all_codes, addresses)]
    return {"kind": "call", "movable": None not in addresses, "registers": registers, "frame": bool(registers),
            "verified": True, "type": number, "types": table.entries,
            "call": {"function": described[0], "result": way, "reference": reference,
                     "arguments": [dict(code, passing=passed) for code, (_, passed) in zip(described[1:], codes)]}}
