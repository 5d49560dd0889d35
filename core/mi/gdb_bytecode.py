# The part of Friday's helper in gdb for bytecode: it has gdb translate an expression, works around cases in which gdb 13 gives no
# translation or a wrong one, and evaluates bytecode, by which plans are verified.

# Each mnemonic with its opcode and the number of bytes of its operand.
OPCODES = {
    "float": (0x01, 0), "add": (0x02, 0), "sub": (0x03, 0), "mul": (0x04, 0), "div_signed": (0x05, 0),
    "div_unsigned": (0x06, 0), "rem_signed": (0x07, 0), "rem_unsigned": (0x08, 0), "lsh": (0x09, 0),
    "rsh_signed": (0x0A, 0), "rsh_unsigned": (0x0B, 0), "trace": (0x0C, 0), "trace_quick": (0x0D, 1),
    "log_not": (0x0E, 0), "bit_and": (0x0F, 0), "bit_or": (0x10, 0), "bit_xor": (0x11, 0), "bit_not": (0x12, 0),
    "equal": (0x13, 0), "less_signed": (0x14, 0), "less_unsigned": (0x15, 0), "ext": (0x16, 1), "ref8": (0x17, 0),
    "ref16": (0x18, 0), "ref32": (0x19, 0), "ref64": (0x1A, 0), "if_goto": (0x20, 2), "goto": (0x21, 2),
    "const8": (0x22, 1), "const16": (0x23, 2), "const32": (0x24, 4), "const64": (0x25, 8), "reg": (0x26, 2),
    "end": (0x27, 0), "dup": (0x28, 0), "pop": (0x29, 0), "zero_ext": (0x2A, 1), "swap": (0x2B, 0), "pick": (0x32, 1),
    "rot": (0x33, 0), "step": (0x80, 2),  # the last one is Friday's own: see gdb_layouts.py
}
LITERAL = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\''  # a string or character literal of C
# A literal, or a variable with its members and elements, including stars before it if they dereference it. It has no calls and no
# side effects. In place of the variable there may be an object at the address that a register holds.
OPERAND = re.compile(LITERAL + r"|(?<![\w.$])(?<!->)(?P<operand>(?:(?<![\w)\]])(?<![\w)\]]\s)\*+\s*)?(?:(?!__typeof__)(?:::)?[A-Za-z_]\w*(?:::\w+)*|\(\*+\((?:[^()]*\*|__typeof__\(\$\w+\))\)\$\w+\))"
                     r"(?:\s*(?:->|\.)\s*\w+|\s*\[[\w\s*]*\])*)(?!\s*\()")
MASK = (1 << 64) - 1
LOWEST_PAGE = 1 << 16  # the kernel maps nothing below it (vm.mmap_min_addr)
LOWEST_MOVED = 1 << 40  # no position-independent code is loaded below it
WORKSPACE = 0x180000000000  # the address of Friday's workspace, the same in all nodes (core/shim/shim_abi.h)


class Unplannable(Exception):
    """Raised if bytecode cannot evaluate an expression. The message says why."""


class Refused(Exception):
    """Raised if an expression has no meaning, whoever evaluates it. The message says why."""


class Code:
    """A sequence of (mnemonic, operand), without the final `end`. The operand of a jump is the offset of its target in bytes."""

    def __init__(self, operations):
        self.operations = operations

    def plus(self, *parts):
        """This code followed by operations, which must not jump, and by other code."""
        code = Code(list(self.operations))
        for part in parts:
            moved = code.size()
            code.operations += [part] if isinstance(part, tuple) else [jump_moved(each, lambda at: at + moved) for each in part.operations]
        return code

    def size(self):
        return sum(1 + OPCODES[name][1] for name, _ in self.operations)

    def bytes(self):
        parts = []
        for name, operand in self.operations + [("end", 0)]:
            opcode, size = OPCODES[name]
            parts.append(bytes([opcode]) + (operand & ((1 << 8 * size) - 1)).to_bytes(size, "big"))
        return b"".join(parts)

    def with_constant(self, register, value):
        """The code with each read of a register replaced by a constant."""
        return self.with_codes({register: Code([("const64", value)])})

    def with_codes(self, codes):
        """The code with each read of one of these registers replaced by the code of another value; jumps are adjusted. `codes`: by number
        of the register. gdb extends a register to 64 bits after it has read it, which is left out."""
        moved, old, parts, extends = {}, 0, [], False
        for name, operand in self.operations:
            moved[old] = sum(part.size() for part in parts)
            old += 1 + OPCODES[name][1]
            inner = codes.get(operand) if name == "reg" else None
            if not (extends and name == "ext" and operand in (32, 64)):
                parts.append(Code([(name, operand)]) if inner is None else inner)
            extends = inner is not None
        moved[old] = sum(part.size() for part in parts)
        code = Code([])
        for part in parts:
            outer = len(part.operations) == 1 and part.operations[0][0] in ("goto", "if_goto")
            code = code.plus(Code([jump_moved(part.operations[0], lambda target: moved[target] - code.size())]) if outer else part)
        return code

    def registers(self):
        return sorted({operand for name, operand in self.operations if name == "reg"})

    def addresses(self, known):
        """The offsets of the operands that are among the known addresses. None if an operand may be another address."""
        at, found = 0, []
        for name, operand in self.operations:
            if name == "const64" and operand & MASK in known:
                found.append(at + 1)
            elif name == "const64" and LOWEST_MOVED <= operand & MASK < 1 << 47 and operand >> 20 != WORKSPACE >> 20:
                return None
            at += 1 + OPCODES[name][1]
        return found


def jump_moved(operation, place):
    """The operation, with the target of a jump replaced by place(target)."""
    name, operand = operation
    return (name, place(operand)) if name in ("goto", "if_goto") else operation


def compile_expression(expression):
    """The bytecode of an expression. It has no side effects, since gdb does not translate expressions that have any."""
    try:
        return translated(expression)
    except gdb.error as refusal:
        untyped = re.match(r"'(\w+)' has unknown type; cast it to its declared type", str(refusal))
        code = with_address_of(untyped[1], expression) if untyped else with_integers(expression)
        if code is None:
            raise
        return code


def with_integers(expression):
    """The bytecode of an expression after its enumerations and booleans are cast to the integers that they are promoted to, and its
    character literals are replaced by numbers, because gdb 13 translates no operators for these types. None if the expression has none of them, or
    cannot be translated even so."""
    if re.search(r"\b(?:sizeof|\w*alignof|\w*typeof\w*(?!\(\$_friday_)|decltype)\b", expression, re.IGNORECASE):
        return None

    def cast(found):
        operand = found["operand"]
        try:
            if found[0].startswith("'"):
                return str(int(gdb.parse_and_eval(found[0])))
            type = operand and bare(type_of(operand))
            if type and type.code in REFERENCES:
                type = bare(type.target())
        except (gdb.error, RuntimeError, ValueError):
            return found[0]  # the name of a type or a function
        if not operand or type.code not in (gdb.TYPE_CODE_ENUM, gdb.TYPE_CODE_BOOL):
            return found[0]
        promoted = "long" if type.sizeof > 4 else "int"
        if type.sizeof >= 4 and not type.is_signed:
            promoted = "unsigned " + promoted
        return "((%s)(%s))" % (promoted, operand)

    known = OPERAND.sub(cast, expression)
    if known == expression:
        return None
    try:
        return translated(known)
    except (gdb.error, Unplannable):
        return None


def with_address_of(name, expression):
    """The bytecode of an expression with `&NAME`, where NAME has no debug information: gdb 13 does not translate it although it knows
    the address. None if the expression cannot be translated even so. The expression is translated with a register that holds no variable
    in place of `&NAME`, and the register is replaced by the address afterwards. (With the address as a number in the expression, gdb 13
    would evaluate each element behind it to 0.)"""
    address = untyped_address(name)
    register = next((each for each in ("$fs_base", "$gs_base") if each not in expression), None)
    taken = re.compile(LITERAL + r"|(&\s*%s\b(?!\s*(?:\[|\(|\.|->)))" % name)
    known = taken.sub(lambda found: "((char*)%s)" % register if found[1] else found[0], expression)
    if address is None or register is None or known == expression:
        return None
    try:
        number = translated(register).operations[0][1]
        return compile_expression(known).with_constant(number, address)
    except (gdb.error, Unplannable):
        return None


def untyped_address(name):
    """The address of a variable that has no debug information; None for anything else."""
    try:
        pointer = gdb.parse_and_eval("&" + name)
        return int(pointer) if pointer.type.target().code == gdb.TYPE_CODE_ERROR else None
    except (gdb.error, RuntimeError):
        return None


def translated(expression):
    """The bytecode that `maint agent-eval` prints for an expression. Raises gdb.error and Unplannable."""
    try:
        listing = gdb.execute("maint agent-eval " + expression, to_string=True)
    except KeyboardInterrupt as stop:
        if str(stop).startswith("Command aborted"):
            raise Unplannable("gdb failed internally to translate this expression") from None
        raise
    operations = []
    at = 0
    for offset, name, operand in re.findall(r"^ *(\d+)  (\w+)(?: (-?\d+))?$", listing, re.MULTILINE):
        if name not in OPCODES or int(offset) != at:
            raise Unplannable("unknown bytecode %s in gdb's translation" % name)
        operations.append((name, int(operand or 0)))
        at += 1 + OPCODES[name][1]
    if not operations or operations.pop()[0] != "end":
        raise Unplannable("gdb's translation has no end")
    return Code(operations)


def static_addresses(expression):
    """The addresses of the functions and static variables that the expression names; empty if it also contains numbers that may be
    addresses."""
    code = re.sub(LITERAL, "", expression)
    numbers = re.findall(r"\b0[xX][0-9a-fA-F]{10,}|\b[0-9]{13,}", code)
    if any(int(number, 0) >> 20 != WORKSPACE >> 20 for number in numbers):
        return set()
    found = set()
    for name in set(re.findall(r"(?<![\w.])(?<!->)(?:::)?[A-Za-z_]\w*(?:::\w+)*", code)):  # no members, for which gdb would search all symbols
        try:
            symbol = gdb.lookup_symbol(name)[0] or gdb.lookup_static_symbol(name)
            if symbol and symbol.addr_class in (gdb.SYMBOL_LOC_STATIC, gdb.SYMBOL_LOC_BLOCK, gdb.SYMBOL_LOC_UNRESOLVED):
                found.add(int(symbol.value().address))
            elif symbol is None and untyped_address(name) is not None:
                found.add(untyped_address(name))
        except (gdb.error, TypeError):
            pass  # the name of a type, a member, ...
    return found


def signed(value, bits=64):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def divide(a, b, remainder=False):
    if b == 0:
        raise gdb.error("Division by zero")
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a - b * quotient if remainder else quotient


BINARY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div_signed": lambda a, b: divide(signed(a), signed(b)), "div_unsigned": divide,
    "rem_signed": lambda a, b: divide(signed(a), signed(b), True), "rem_unsigned": lambda a, b: divide(a, b, True),
    "lsh": lambda a, b: a << b if b < 64 else 0, "rsh_signed": lambda a, b: signed(a) >> min(b, 63),
    "rsh_unsigned": lambda a, b: a >> b, "bit_and": lambda a, b: a & b, "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b, "equal": lambda a, b: int(a == b),
    "less_signed": lambda a, b: int(signed(a) < signed(b)), "less_unsigned": lambda a, b: int(a < b),
}
UNARY = {
    "log_not": lambda a, _: int(a == 0), "bit_not": lambda a, _: ~a, "ext": signed,
    "zero_ext": lambda a, bits: a & ((1 << bits) - 1),
}


def run(code, steps=()):
    """The value that the bytecode has in the present state of the program, with the steps that it refers to. Raises gdb.MemoryError where
    gdb would, and where a step fails."""
    stack = []
    program = {}
    at = 0
    for name, operand in code.operations:
        size = 1 + OPCODES[name][1]
        program[at] = (name, operand, at + size)
        at += size
    end, at = at, 0
    while at != end:
        name, operand, at = program[at]
        if name in BINARY:
            right = stack.pop()
            stack.append(BINARY[name](stack.pop(), right) & MASK)
        elif name in UNARY:
            stack.append(UNARY[name](stack.pop(), operand) & MASK)
        elif name.startswith("const"):
            stack.append(operand & MASK)
        elif name.startswith("ref"):
            stack.append(read_memory(stack.pop(), int(name[3:]) // 8))
        elif name == "reg":
            stack.append(read_register(operand))
        elif name == "goto" or (name == "if_goto" and stack.pop()):
            at = operand
        elif name == "dup":
            stack.append(stack[-1])
        elif name == "pop":
            stack.pop()
        elif name == "swap":
            stack[-2:] = stack[:-3:-1]
        elif name == "pick":
            stack.append(stack[-1 - operand])
        elif name == "rot":
            stack[-3:] = [stack[-1], stack[-3], stack[-2]]
        elif name == "step":
            take_step(steps[operand], stack)
        elif name != "if_goto":
            raise Unplannable("bytecode %s has no value" % name)
    return stack[-1]


def take_step(step, stack):
    """Executes a step on the stack, as core/stop/steps.cc does. Those that search are not known here, as plans are verified without them."""
    kind, top = step["step"], stack.pop()
    if kind == "span":
        size = stack.pop() - top
        good, result = size >= 0 and size % step["size"] == 0, [size // step["size"]]
    elif kind == "sane":
        good, result = top <= step["most"], [top]
    elif kind == "bounds":
        good, result = stack[-1] < top + step["end"], []
    elif kind == "require":
        good, result = top != 0, []
    else:
        raise Unplannable("the step %s is not executed here" % kind)
    if not good:
        raise gdb.MemoryError("the step %s fails" % kind)
    stack += result


def read_memory(address, size):
    return int.from_bytes(gdb.selected_inferior().read_memory(address, size).tobytes(), "little")


def read_register(number):
    frame = gdb.newest_frame()
    for index, register in enumerate(frame.architecture().registers()):
        if index == number:
            return int(frame.read_register(register.name)) & MASK
    raise Unplannable("register %d has no name" % number)
