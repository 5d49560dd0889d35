# The part of Friday's helper that evaluates expressions by gdb: in the language of the program, with names that gdb does not find by
# itself, and without calls of functions of the program that the expression does not contain. The commands that plan and print
# (gdb_friday.py) take from here how an expression is to be read.
#
# -friday-value EXPR             the value by gdb's own evaluation: see gdb_friday.py
def with_unnamed(expression, work):
    """Returns work(expression). gdb finds static variables of all files, but those in an unnamed namespace only while the program stands in
    their own file. If it does not know a name, the name in an unnamed namespace is tried."""
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
    """A context in which expressions are in C++ if a C++ program stands in a function of C, as in the C library. gdb would use C, the
    language of the frame, in which it knows neither the names of C++ nor the operators that libstdc++'s Python package evaluates without a
    call in the node."""
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
    """Returns work(expression), evaluated in the program's language."""
    with language_of_program():
        return with_unnamed(expression, work)


def type_of(expression):
    """The static type of an expression without side effects. The object itself is not read. Fails where gdb would have to copy an array
    out of registers into memory from the program's malloc."""
    try:
        with no_calls():
            return gdb.parse_and_eval(expression).type
    except gdb.MemoryError:
        pass  # a pointer on the way is invalid now
    try:
        return gdb.parse_and_eval("(__typeof__(&(%s)))0" % expression).type.target()  # gdb does not follow it for the type of an address
    except gdb.error:
        # Neither does `whatis`, which prints the type.
        return type_named(gdb.execute("whatis/r " + expression, to_string=True).strip()[len("type = "):])


def is_incomplete(type):
    """Whether a class is only declared. gdb takes it for an empty one of no size, as C has; only its printer, which reads nothing then, knows."""
    if type.code not in RECORDS or type.sizeof or type.fields():
        return False
    return gdb.Value(0).cast(type.pointer()).dereference().format_string(raw=True) == "<incomplete type>"


def has_type(expression):
    try:
        return type_of(expression) is not None
    except gdb.error:
        return False


def type_named(words):
    text, array = re.fullmatch(r"(.*?)\s*((?:\[\d+\])*)", words).groups()
    stars = re.search(r"[*&\s]*$", text).group()
    type = gdb.lookup_type(text[:len(text) - len(stars)])
    for star in stars.replace(" ", ""):
        type = type.pointer() if star == "*" else type.reference()
    for count in reversed(re.findall(r"\d+", array)):
        type = type.array(int(count) - 1)
    return type


def as_value(expression):
    """The expression, with & before it if it is a function: in C a function stands for its address."""
    if not re.fullmatch(r"[(*\s]*[A-Za-z_][\w:]*[\s)]*", expression):
        return expression
    try:
        return "&(%s)" % expression if bare(type_of(expression)).code == gdb.TYPE_CODE_FUNC else expression
    except gdb.error:
        return expression  # the error is reported when it is evaluated


def calls_by_name(expression):
    """Whether the expression may contain a call by name: a word before a parenthesis. Some casts look like this, too."""
    return re.search(r"[\w>]\s*\(", re.sub(LITERAL, "", expression)) is not None


def callees_before(code, at):
    """Where what the parenthesis at `at` calls may begin, as in `list[2].of->call(`: the longest first. What is in parentheses at its
    beginning may be a cast of it."""
    begins, begin = [], at
    while last := re.search(r"(?:\w+|[])])\s*$", code[:begin]):
        begin = last.start()
        depth = code[begin] in ")]"
        while depth and begin:
            begin -= 1
            depth += (code[begin] in ")]") - (code[begin] in "([")
        begins.insert(0, begin)
        joint = re.search(r"(?:\.|->|::)\s*$", code[:begin])
        if joint:
            begin = joint.start()
        elif code[begin] not in "([":
            break
    return begins


def calls_pointers(expression):
    """Whether gdb refuses the calls of the expression only since they are through pointers. Until it calls them, gdb 13 takes these for no
    functions."""
    code = re.sub(LITERAL, lambda literal: " " * len(literal[0]), expression)
    marks = []
    for parenthesis in re.finditer(r"\(", code):
        end = parenthesis.start()
        begin = next((each for each in callees_before(code, end) if is_function_pointer(expression[each:end])), None)
        if begin is not None:
            marks += [(begin, "(*("), (end, "))")]
    for place, mark in sorted(marks, reverse=True):
        expression = expression[:place] + mark + expression[place:]
    try:
        gdb.execute("whatis " + expression, to_string=True)
    except gdb.MemoryError:
        pass  # it follows references here
    except gdb.error:
        return False
    return True


def is_function_pointer(callee):
    try:
        pointer, target = (gdb.execute("whatis %s(%s)" % (star, callee), to_string=True).strip() for star in ("", "*"))
    except gdb.error:
        return False  # a cast, or the name of an operator
    is_function = pointer.endswith(")") and "(*" not in pointer
    return target.endswith(")") and not is_function


def may_use_operators(expression):
    """Whether the expression may use an operator of a class, since a path in it is an object of a class. A name may be quoted
    ('(anonymous namespace)::variable')."""
    if "c++" not in gdb.execute("show language", to_string=True):
        return False
    objects = (bare(type.target()) if type.code in REFERENCES else type for _, type in typed_paths(expression, without_strings(expression)))
    return any(type.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) for type in objects)


def without_strings(expression):
    return re.sub(r'"(?:\\.|[^"\\])*"', lambda literal: " " * len(literal[0]), expression)


def has_array_without_memory(expression):
    """Whether a path in the expression is an array that is in registers, or known to the debug information alone. To compute with it gdb
    copies it into memory from the program's malloc."""
    for path, type in typed_paths(expression, without_strings(expression)):
        if type.code != gdb.TYPE_CODE_ARRAY:
            continue
        try:
            if gdb.parse_and_eval(path).address is None:
                return True
        except gdb.error as refusal:
            if is_refused_call(refusal):
                return True
    return False


def is_refused_call(refusal):
    return "may-call-functions" in str(refusal)


def evaluated(expression):
    """The value by gdb's own evaluation. Functions of the program run only if the expression calls them by name or by an operator of C++.
    To compute with an array that is in registers, gdb would copy it into memory from the program's malloc; this is refused, since
    reading must not change the program."""
    if calls_by_name(expression):
        return gdb.parse_and_eval(expression)
    try:
        with no_calls():
            return gdb.parse_and_eval(expression)
    except gdb.error as refusal:
        if not is_refused_call(refusal):
            raise
        with no_calls():
            by_operator = may_use_operators(expression) and not has_array_without_memory(expression)
        if not by_operator:
            raise gdb.error("a part of it is in registers, and gdb would have to copy it into memory that the program allocates")
    return gdb.parse_and_eval(expression)


class Value(JsonCommand):
    """-friday-value EXPR"""

    def answer(self, argv):
        value = in_program(" ".join(argv), lambda text: evaluated(as_value(text)))
        with no_calls():  # to ask gdb for the address of an array in registers copies it into memory of the program
            return self.described(value)

    def described(self, value):
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
                address, data = None, self.bytes_of(value)  # a bit-field, for which gdb gives the address of the word around it
        return {"bytes": data.hex(), "address": address, "type": number, "types": table.entries}

    def bytes_of(self, value):
        """The bytes of a temporary value, assembled from its parts, since gdb 13 does not give them."""
        type = value.type.strip_typedefs()
        size = type.sizeof
        if type.code == gdb.TYPE_CODE_VOID:
            return b""
        if type.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            data = bytearray(size)
            for field in type.fields():
                if not hasattr(field, "bitpos"):
                    continue
                if is_bitfield(field):
                    bits = (int(value[field]) & ((1 << field.bitsize) - 1)) << field.bitpos
                    data = bytearray((int.from_bytes(data, "little") | bits).to_bytes(size, "little"))
                else:
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


Value("-friday-value")
