# The part of Friday's helper for expressions that use containers and smart pointers: v[i].x, m.at(k), p->q, s == "abc". gdb would call
# functions of the program for them, or evaluate them by Python, which takes milliseconds each time. Here they become bytecode.
#
# An expression is parsed. Each operation on a container is taken out of it and translated by the container's layout (gdb_layouts.py); in its
# place stands an object, or a value, at the address that a register holds which no variable uses: `srv.log[srv.commit-1].term` becomes
# `(*(T*)$fs_base).term`. What is left is plain C, which gdb translates as always, and wherever its translation reads that register, the
# code of the operation is put in. So an operation can stand wherever C has an operand, at any depth, in a read, a condition or a watch.
PLACEHOLDERS = ("fs_base", "gs_base", "orig_rax", "fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop", "cs", "ss", "ds", "es", "fs", "gs")
TOKEN = re.compile(r"\s*(?:(?P<literal>" + LITERAL + r")|(?P<number>(?:\d[\w.]*|\.\d[\w.]*)(?:(?<=[eEpP])[+-]\w+)?)"
                   r"|(?P<name>(?:::\s*)?(?:[A-Za-z_$]\w*|'[^']*')(?:\s*::\s*~?[A-Za-z_]\w*)*)"
                   r"|(?P<sign>->|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^!~<>=?:.,()\[\]]))")
LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))


class NotParsed(Exception):
    """Raised for an expression that this parser does not know, so that it is left to gdb as it is."""


class Steps:
    """The steps of a plan that bytecode has no instruction for."""

    def __init__(self):
        self.entries = []

    def add(self, **entry):
        if entry not in self.entries:
            self.entries.append(entry)
        return "step", self.entries.index(entry)


class Term:
    """A part of an expression: its text, with placeholders; the text that the user wrote; and whether it is a path, which may be an object."""

    def __init__(self, text, shown, path=False):
        self.text, self.shown, self.path = text, shown, path
        self.followed = None  # for an iterator: makes the Term of the item, which fails with a message if there is none


class Rewriting:
    """An expression whose operations on containers are replaced by placeholders. Raises Unplannable if it has an operation that cannot be
    translated, and gdb.error."""

    def __init__(self, expression, variables=None):
        """variables: gives for the name of a variable (code, type, is_value) as in placeholder(), by which it is replaced; None to leave it."""
        self.expression, self.variables = expression, variables
        self.base = None  # the last object of which a member is left to gdb
        self.steps, self.verified = Steps(), True
        self.free = [name for name in PLACEHOLDERS if "$" + name not in expression]
        self.made = {}  # name of the register -> (its number, Code, type, whether the code yields the value instead of the address)
        self.text = expression
        if variables is None and "c++" not in gdb.execute("show language", to_string=True):
            return
        try:
            text = Parser(self, expression).whole()
        except NotParsed:
            self.made = {}
            return
        if self.made:
            self.text = text

    # ---- placeholders ----

    def placeholder(self, code, type, is_value=False):
        """The text that stands for an object of that type at the address that the code yields, or for the value that it yields."""
        if not self.free:
            raise Unplannable("it has more than %d operations on containers" % len(PLACEHOLDERS))
        register = self.free.pop(0)
        if is_value and bare(type).code == gdb.TYPE_CODE_BOOL:
            shown = gdb.lookup_type("int")  # to which C promotes it; gdb 13 translates no operators of bool
        else:
            shown = type if is_value else type.pointer()
        variable = "_friday_%d" % len(self.made)
        gdb.set_convenience_variable(variable, gdb.Value(0).cast(shown))
        number = translated("$" + register).operations[0][1]
        self.made[register] = number, code, type, is_value
        cast = "((__typeof__($%s))$%s)" % (variable, register)
        return cast if is_value else "(*%s)" % cast[1:-1]

    def alone(self, text):
        """What a text stands for that is a placeholder and nothing else: (code, type, is_value); None for other texts."""
        match = re.fullmatch(r"\*?\(__typeof__\(\$\w+\)\)\$(\w+)", strip_parentheses(text))
        return self.made[match[1]][1:] if match and match[1] in self.made else None

    def spliced(self, code):
        return code.with_codes({number: inner for number, inner, _, _ in self.made.values()})

    def with_numbers(self, text, numbers):
        for register, number in numbers.items():
            text = text.replace("$" + register, "(char*)%d" % number)
        return text

    # ---- what gdb translates ----

    def type_of(self, term):
        """The type of a path, without references; None if it has none that gdb can tell."""
        found = self.alone(term.text)
        if found:
            return bare(found[1])
        try:
            type = bare(type_of(term.text))
        except gdb.error as error:
            if is_unknown_name(error):
                raise
            return None
        return bare(type.target()) if type.code in REFERENCES else type

    def compiled(self, text, table):
        """As Plan.compiled() for an expression with placeholders, which are put in; verified where that is possible."""
        found = self.alone(text)
        if found:
            code, type, is_value = found
            if is_value:
                return None, code, type, True
            return Plan.of_place(Place(code, type), table, None)
        place, code, type, scalar = Plan.compiled(text, table)
        used = {register: made for register, made in self.made.items() if "$" + register in text}
        if used:
            self.verify(text, used, place, code, type)
        elif not Plan.verify(text, place, code, type):
            self.verified = False
        return place and Place(self.spliced(place.code), place.type, place.bit, place.bits), self.spliced(code), type, scalar

    def verify(self, text, used, place, code, type):
        """Compares gdb's translation with its evaluation, with numbers for the placeholders: those that they have now or, where these lead
        nowhere, addresses on the stack, of which a value has as many bits as it can hold without a sign."""
        stack = read_register(translated("$rsp").operations[0][1])
        most = {register: (1 << 8 * type.sizeof - 1) - 1 if is_value else MASK for register, (_, _, type, is_value) in used.items()}
        present = {}
        for register, (_, inner, _, _) in used.items():
            try:
                present[register] = run(inner, self.steps.entries)
            except (gdb.error, Unplannable):
                pass
        for start in range(stack, stack + 1024, 8):
            numbers = {register: present.get(register, start + 8 * count & most[register]) for count, register in enumerate(used)}
            constants = {used[register][0]: Code([("const64", number)]) for register, number in numbers.items()}
            at = place and Place(place.code.with_codes(constants), place.type, place.bit, place.bits)
            try:
                if Plan.verify(self.with_numbers(text, numbers), at, code.with_codes(constants), type):
                    return
            except gdb.error:
                pass  # such as a division by zero
            present = {}
        self.verified = False

    def place(self, term):
        """(code, type) of the object that a path denotes."""
        place, _, _, _ = self.compiled(term.text, TypeTable())
        if place is None or place.bits:
            raise Unplannable("%s has no address" % term.shown)
        return place.code, place.type

    def number(self, term):
        """The code for the value of an integer, an enumerator or a pointer, extended to 64 bits."""
        if re.fullmatch(r"0|[1-9]\d{0,8}", term.text):
            return Code([("const32", int(term.text))])
        _, code, type, scalar = self.compiled(term.text, TypeTable())
        if not scalar or bare(type).code not in INTEGERS:
            raise Unplannable("%s is no integer" % term.shown)
        return extended(code, type)

    def text_of(self, term):
        """(operations that put address and length of a text on the stack, None), or ([], the literal that it is, in hexadecimal digits)."""
        if term.text.startswith('"'):
            value = gdb.parse_and_eval(term.text)
            data = bytes(int(value[each]) & 255 for each in range(value.type.range()[1]))
            return [], data.partition(b"\0")[0].hex()
        record = self.type_of(term)
        if record is not None and record.code in RECORDS:
            layout = sequence_of(record, template_of(record))
            if layout is not None and layout.text and layout.item.sizeof == 1:
                return [self.place(term)[0], ("dup", 0), *layout.data, ("swap", 0), *layout.count(self.steps, term.shown)], None
        elif record is not None and record.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_ARRAY) and is_character(record.target()) and record.target().sizeof == 1:
            code = self.place(term)[0] if record.code == gdb.TYPE_CODE_ARRAY else self.number(term)
            return [code, ("dup", 0), self.steps.add(step="length", of=term.shown)], None
        raise Unplannable("%s is no text that is known here" % term.shown)

    def is_text(self, term):
        try:
            self.text_of(term)
            return True
        except UnknownLayout:
            raise
        except Unplannable:
            return False

    # ---- operations ----

    def layout(self, term):
        record = self.type_of(term)
        return Object(self, term, record) if record is not None and record.code in RECORDS else None


class Object:
    """An object of a class, and what can be asked of it. What is asked is given as a Term, or as None if it is not known here."""

    def __init__(self, rewriting, term, record):
        self.rewriting, self.term, self.record = rewriting, term, record
        self.template = template_of(record)
        self.of = term.shown
        if self.template in ("queue", "stack", "priority_queue"):  # what is asked of them is asked of the container within
            inner = members_within(record, "c")
            if inner:
                self.within, (offset, self.record) = self.template, inner
                self.term = Term(rewriting.placeholder(rewriting.place(term)[0].plus(*at(offset)), self.record), self.of, True)
                self.template = template_of(self.record)

    # ---- what is made of it ----

    def object(self, operations, type, shown):
        """An object at the address that the operations make of the address of this one."""
        code, _ = self.rewriting.place(self.term)
        return Term(self.rewriting.placeholder(code.plus(*operations), type), shown, True)

    def value(self, operations, type, shown):
        code, _ = self.rewriting.place(self.term)
        name = type if isinstance(type, gdb.Type) else gdb.lookup_type(type)
        return Term(self.rewriting.placeholder(code.plus(*operations), name, True), shown, True)

    def step(self, **entry):
        return self.rewriting.steps.add(**dict(entry, of=entry.get("of", self.of)))

    def required(self, text):
        return [("dup", 0), self.step(step="require", of=text)]

    # ---- items by index ----

    def sequence(self):
        return sequence_of(self.record, self.template)

    def index(self, index, shown):
        """OBJECT[INDEX]"""
        layout = self.sequence()
        if layout is not None:
            return self.item(layout, [self.rewriting.number(index)], shown)
        found = pointer_of(self.record, self.template)
        if found:
            to = [*times(found[1].target().sizeof), ("add", 0)]
            return self.object([*word(found[0]), *self.required("%s points to nothing" % self.of), self.rewriting.number(index), *to], found[1].target(), shown)
        return self.at_key(index, shown)

    def item(self, layout, index, shown):
        """The item of a sequence at the index that the operations yield, which find the address of the object below it on the stack."""
        operations = [("dup", 0), *layout.count(self.rewriting.steps, self.of), *index, ("swap", 0), self.step(step="bounds", end=layout.text), *layout.locate]
        return self.value(operations, layout.item, shown) if layout.bit else self.object(operations, layout.item, shown)

    def last(self, layout, shown):
        return self.item(layout, [("dup", 0), ("const8", 1), ("sub", 0)], shown)

    # ---- items by key ----

    def key_step(self, layout, key, counts):
        """(operations that put the key on the stack and search for it) in a container with keys."""
        if isinstance(layout.search, str):
            raise Unplannable("%s cannot be searched without a call: %s" % (self.of, layout.search))
        found = dict(layout.search, counts=counts)
        if template_of(layout.key) in ("basic_string", "basic_string_view", "string_view"):
            found["key"] = {"text": text_described(layout.key)}
            if found["key"]["text"] is None:
                raise Unplannable("keys of type %s are laid out in an unknown way" % layout.key)
            operations, literal = self.rewriting.text_of(key)
            more = {} if literal is None else {"left": literal}
        elif layout.key.code in INTEGERS and layout.key.sizeof <= 8:
            given = self.rewriting.type_of(key) if key.path or key.text.startswith(("(", '"')) else None
            if given is not None and given.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_ARRAY) and layout.key.code != gdb.TYPE_CODE_PTR:
                raise Refused("the keys of %s are no addresses or texts" % self.of)
            operations, more = [self.rewriting.number(key)], {}
            found["key"] = {"size": layout.key.sizeof, "signed": layout.key.code != gdb.TYPE_CODE_PTR and layout.key.code != gdb.TYPE_CODE_BOOL and layout.key.is_signed}
        else:
            raise Unplannable("keys of type %s cannot be compared without a call" % layout.key)
        return [*operations, self.step(step="find", found=found, **more)]

    def no_key(self, key):
        return self.required("%s has no item with the key %s" % (self.of, key.shown))

    def at_key(self, key, shown):
        """MAP[KEY], MAP.at(KEY)"""
        layout = linked_of(self.record, self.template)
        if layout is None or not layout.mapped or layout.repeated:
            return None
        offset, type = layout.mapped
        return self.object([*self.key_step(layout, key, False), *self.no_key(key), *at(offset)], type, shown)

    # ---- what a pointer, an iterator or an optional leads to ----

    def pointed(self, shown):
        """*OBJECT"""
        found = pointer_of(self.record, self.template)
        if found:
            return self.object([*word(found[0]), *self.required("%s points to nothing" % self.of)], found[1].target(), shown)
        found = optional_of(self.record, self.template)
        if found:
            flag, (offset, type) = found
            return self.object([("dup", 0), *at(flag), ("ref8", 0), self.step(step="require", of="%s holds no value" % self.of), *at(offset)], type, shown)
        found = node_of(self.record, self.template)
        if found:
            return self.object([*word(found[0]), *self.required("%s points to nothing" % self.of), *at(found[1])], found[2], shown)
        return None

    def plain(self, shown):
        """What stands for the object where C computes or compares: the address in a smart pointer or an iterator, the value in an atomic."""
        found = pointer_of(self.record, self.template)
        if found:
            return self.value(word(found[0]), found[1], shown)
        found = node_of(self.record, self.template)
        if found:
            return self.value([*word(found[0]), *at(found[1])], found[2].pointer(), shown)
        found = atomic_of(self.record, self.template)
        return self.object(at(found[0]), found[1], shown) if found else None

    def truth(self, shown):
        found = optional_of(self.record, self.template)
        if found:
            return self.value([*at(found[0]), ("ref8", 0)], "bool", shown)
        plain = self.plain(shown)
        return plain and Term("(%s != 0)" % plain.text, shown)

    # ---- functions ----

    def alternative(self, wanted, shown, only_asks=False):
        """std::get<WANTED>(OBJECT), or whether a variant holds that alternative. `wanted` is a number or the name of a type."""
        values, variant = values_of(self.record, self.template), alternatives_of(self.record, self.template)
        types = values if values is not None else variant and variant[1]
        if types is None:
            if self.template == "array" and wanted.isdigit() and not only_asks:
                return self.index(Term(wanted, wanted), shown)
            return None
        if wanted.isdigit():
            numbers = [int(wanted)] if int(wanted) < len(types) else []
        else:
            type = named_type(wanted)
            numbers = [number for number, (_, each) in enumerate(types) if bare(each) == type]
        if len(numbers) != 1:
            raise Refused("%s has no alternative %s, or several" % (self.of, wanted))
        offset, type = types[numbers[0]]
        if variant is None or values is not None:
            return None if only_asks else self.object(at(offset), type, shown)
        (place, size), _ = variant
        holds = [*at(place), ("ref%d" % (8 * size), 0), ("const32", numbers[0]), ("equal", 0)]
        if only_asks:
            return self.value(holds, "bool", shown)
        return self.object([("dup", 0), *holds, self.step(step="require", of="%s does not hold %s now" % (self.of, type)), *at(offset)], type, shown)

    def method(self, name, arguments, shown):
        """OBJECT.NAME(ARGUMENTS)"""
        for ask in (self.of_sequence, self.of_linked, self.of_one):
            found = ask(name, arguments, shown)
            if found is not None:
                return found
        return None

    def of_sequence(self, name, arguments, shown):
        layout = self.sequence()
        if layout is None:
            return None
        count = layout.count(self.rewriting.steps, self.of)
        if len(arguments) == 1:
            if name in ("at", "test"):
                return self.item(layout, [self.rewriting.number(arguments[0])], shown)
            if name in ("starts_with", "ends_with", "compare"):
                return None
            return None
        if arguments:
            return None
        on_top = getattr(self, "within", None)
        if name == "front" or (name == "top" and on_top == "priority_queue"):
            return self.item(layout, [("const8", 0)], shown)
        if name == "back" or (name == "top" and on_top == "stack"):
            return self.last(layout, shown)
        if name in ("size", "length"):
            return self.value(count, "unsigned long", shown)
        if name == "empty":
            return self.value([*count, ("log_not", 0)], "bool", shown)
        if name == "capacity" and layout.capacity:
            return self.value(layout.capacity(self.rewriting.steps, self.of), "unsigned long", shown)
        if layout.data is None:
            return None
        if name in ("data", "c_str", "begin", "cbegin"):
            return self.value(layout.data, layout.item.pointer(), shown)
        if name in ("end", "cend"):
            end = [("dup", 0), *count, *times(layout.item.sizeof), ("swap", 0), *layout.data, ("add", 0)]
            return self.value(end, layout.item.pointer(), shown)
        return None

    def of_linked(self, name, arguments, shown):
        layout = linked_of(self.record, self.template)
        if layout is None:
            return None
        item = layout.item.pointer()
        if len(arguments) == 1 and layout.search:
            if name in ("count", "contains"):
                found = self.key_step(layout, arguments[0], True)
                return self.value(found, "unsigned long", shown) if name == "count" else self.value([*found, ("log_not", 0), ("log_not", 0)], "bool", shown)
            if name == "at":
                return self.at_key(arguments[0], shown)
            if name == "find":
                found = Term(None, shown, True)
                found.followed = lambda: self.object([*self.key_step(layout, arguments[0], False), *self.no_key(arguments[0])], layout.item, shown)
                search = self.key_step(layout, arguments[0], False)
                end = [("swap", 0), ("pop", 0)]  # the object below the item
                missing = [("pop", 0), *layout.end, *at(layout.shift)]
                code = [("dup", 0), *search, branch([("dup", 0)], end, missing)]
                found.text = self.value(code, item, shown).text
                return found
        if arguments:
            return None
        if name == "size" and layout.count:
            return self.value(layout.count(self.rewriting.steps, self.of), "unsigned long", shown)
        if name == "empty":
            empty = [*layout.count(self.rewriting.steps, self.of), ("log_not", 0)] if layout.count else [*layout.first, ("log_not", 0)]
            return self.value(empty, "bool", shown)
        if name in ("end", "cend") and layout.end:
            return self.value([*layout.end, *at(layout.shift)], item, shown)
        place = layout.last if name in ("back", "rbegin", "crbegin") else layout.first if name in ("front", "begin", "cbegin") else None
        if place is None or (name in ("front", "back") and layout.search):
            return None
        full = [("dup", 0), *(layout.count(self.rewriting.steps, self.of) if layout.count else layout.first), self.step(step="require", of="%s is empty" % self.of)]

        def item_there():
            return self.object([*full, *place, *at(layout.shift)], layout.item, shown)
        if name in ("front", "back"):
            return item_there()
        found = self.value([*place, *at(layout.shift)], item, shown)
        found.followed = item_there
        return found

    def of_one(self, name, arguments, shown):
        pointer, optional = pointer_of(self.record, self.template), optional_of(self.record, self.template)
        if arguments:
            if name == "value_or" and optional and len(arguments) == 1:
                return Term("(%s ? %s : (%s))" % (self.truth(shown).text, self.pointed(shown).text, arguments[0].text), shown)
            return None
        if pointer and name == "get":
            return self.pointed(shown) if self.template == "reference_wrapper" else self.value(word(pointer[0]), pointer[1], shown)
        if pointer and name in ("use_count", "expired"):
            return self.owners(name, shown)
        if optional and name in ("value", "get"):
            return self.pointed(shown)
        if optional and name in ("has_value", "is_initialized"):
            return self.truth(shown)
        if self.template == "atomic" and name == "load":
            return self.plain(shown)
        if self.template == "variant" and name in ("index", "valueless_by_exception"):
            (place, size), _ = alternatives_of(self.record, self.template)
            index = [*at(place), ("ref%d" % (8 * size), 0), ("ext", 8 * size)]  # -1 if it holds nothing
            return self.value(index, "unsigned long", shown) if name == "index" else self.value([*index, ("const8", 1), ("add", 0), ("log_not", 0)], "bool", shown)
        if self.template == "duration" and name == "count":
            held = members_within(self.record, "__r", "__rep_")
            return held and self.object(at(held[0]), held[1], shown)
        return None

    def owners(self, name, shown):
        """The number of owners of what a shared_ptr or a weak_ptr points to."""
        control = members_within(self.record, "_M_pi", "__cntrl_")
        number = control and members_within(bare(control[1].target()), "_M_use_count", "__shared_owners_")
        if not number:
            return None
        size = number[1].sizeof  # libc++ counts the owners besides the first one in a long
        read = [*at(number[0]), ("ref%d" % (8 * size), 0), *([("const8", 1), ("add", 0)] if size == 8 else [])]
        count = [*word(control[0]), branch([("dup", 0)], read, [])]
        return self.value(count, "long", shown) if name == "use_count" else self.value([*count, ("log_not", 0)], "bool", shown)


def named_type(name):
    """A type by its name; gdb does not find those of the inline namespace std::__1 of libc++ without it."""
    try:
        return bare(gdb.lookup_type(name))
    except gdb.error:
        return bare(gdb.lookup_type(re.sub(r"\bstd::(?!__1::)", "std::__1::", name)))


def text_described(record):
    """Where a text has its address and length: see PlanStep::Text. None for characters that are not of one byte, or an unknown layout."""
    layout = sequence_of(record, template_of(record))
    if layout is None or not layout.text or layout.item.sizeof != 1:
        return None
    if hasattr(layout, "short"):
        return layout.short
    return {"data": part(record, "_M_p", "_M_str", "__data_", "__data")[0], "length": part(record, "_M_string_length", "_M_len", "__size_", "__size")[0], "size": record.sizeof}


class Operators:
    """What the operators of C++ do with objects that C has no operators for. Each is given as a Term; operands that are plain stay as they are."""

    NOTHING = ("nullptr", "NULL", "0", "std::nullopt", "nullopt")

    def __init__(self, rewriting):
        self.rewriting = rewriting

    def object(self, term):
        return self.rewriting.layout(term) if term.path and term.text not in self.NOTHING else None

    def truth(self, term):
        object = self.object(term)
        found = term if object is None else object.truth(term.shown)
        if found is None:
            raise NotParsed
        return found

    def binary(self, left, operator, right, shown):
        if operator in ("&&", "||"):
            return self.joined(self.truth(left), operator, self.truth(right), shown)
        compares = operator in ("==", "!=", "<", ">", "<=", ">=")
        objects = self.object(left), self.object(right)
        if objects == (None, None):
            return self.joined(left, operator, right, shown)
        if compares:
            found = self.compared(left, operator, right, objects, shown)
            if found is not None:
                return found
        plain = [term if object is None else object.plain(term.shown) for term, object in zip((left, right), objects)]
        if None in plain:
            raise NotParsed
        return self.joined(plain[0], operator, plain[1], shown)

    @staticmethod
    def joined(left, operator, right, shown):
        return Term("%s %s %s" % (left.text, operator, right.text), shown)

    def compared(self, left, operator, right, objects, shown):
        equal = operator in ("==", "!=")
        for term, object, other in ((left, objects[0], right), (right, objects[1], left)):
            if object is not None and equal and other.text in self.NOTHING:
                truth = object.truth(term.shown)
                return truth and Term(("!%s" if operator == "==" else "%s") % truth.text, shown)
        if self.rewriting.is_text(left) and self.rewriting.is_text(right):
            (before, first), (after, second) = self.rewriting.text_of(left), self.rewriting.text_of(right)
            literals = {side: literal for side, literal in (("left", first), ("right", second)) if literal is not None}
            of = left.shown if first is None else right.shown
            order = Code([]).plus(*before, *after, self.rewriting.steps.add(step="compare", of=of, only_equal=equal, **literals))
            text = self.rewriting.placeholder(order, gdb.lookup_type("long"), True)
            return Term("(%s %s 0)" % (text, operator), shown)
        for term, object, other in ((left, objects[0], right), (right, objects[1], left)):
            if object is not None and equal and optional_of(object.record, object.template) and not (objects[0] and objects[1]):
                held = self.binary(object.pointed(term.shown), operator, other, shown)
                return Term(("(%s && %s)" if operator == "==" else "(!%s || %s)") % (object.truth(term.shown).text, held.text), shown)
        return None


class Parser:
    """Parses the part of C++ in which expressions on data are written: operators, members, elements, casts and calls of members."""

    def __init__(self, rewriting, text):
        self.rewriting, self.source, self.tokens, at = rewriting, text, [], 0
        self.operators = Operators(rewriting)
        while text[at:].strip():
            token = TOKEN.match(text, at)
            if not token:
                raise NotParsed
            self.tokens.append((token.lastgroup, token[token.lastgroup], token.start(token.lastgroup), token.end()))
            at = token.end()
        self.at = 0

    def whole(self):
        term = self.ternary()
        if self.at != len(self.tokens):
            raise NotParsed
        return term.text

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def take(self, expected=None):
        if self.at == len(self.tokens) or expected not in (None, self.peek()):
            raise NotParsed
        self.at += 1
        return self.tokens[self.at - 1]

    def shown_from(self, start):
        """What the user wrote from the token at `start` to here."""
        return self.source[self.tokens[start][2]:self.tokens[self.at - 1][3]].strip()

    def ternary(self):
        start, test = self.at, self.binary(0)
        if self.peek() != "?":
            return test
        self.take()
        yes = self.ternary()
        self.take(":")
        no = self.ternary()
        return Term("%s ? %s : %s" % (self.operators.truth(test).text, yes.text, no.text), self.shown_from(start))

    def binary(self, level):
        if level == len(LEVELS):
            return self.unary()
        start, left = self.at, self.binary(level + 1)
        while self.peek() in LEVELS[level]:
            operator = self.take()[1]
            right = self.binary(level + 1)
            left = self.operators.binary(left, operator, right, self.shown_from(start))
        return left

    def unary(self):
        start = self.at
        if self.peek() in ("!", "~", "-", "+", "*", "&"):
            operator = self.take()[1]
            operand = self.unary()
            if operator == "!":
                operand = self.operators.truth(operand)
            object = self.operators.object(operand) if operator == "*" else None
            if object is not None:
                return self.pointed(object, start)
            if operator == "*" and operand.followed:
                return operand.followed()
            return Term(operator + (" " if operand.text.startswith(operator) else "") + operand.text, self.shown_from(start), operator == "*")
        if self.peek() == "(" and self.is_cast():
            close = self.closing(self.at)
            type = self.source[self.tokens[self.at][2]:self.tokens[close][3]]
            self.at = close + 1
            operand = self.unary()
            return Term(type + operand.text, self.shown_from(start))
        return self.postfix()

    def closing(self, at):
        depth = 0
        for index in range(at, len(self.tokens)):
            kind, text = self.tokens[index][:2]
            if kind == "sign":
                depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text, 0)
            if depth == 0:
                return index
        raise NotParsed

    def is_cast(self):
        """Whether the parenthesis here is a cast: what is in it is a type, and an operand follows."""
        close = self.closing(self.at)
        if close + 1 >= len(self.tokens):
            return False
        kind, text = self.tokens[close + 1][:2]
        if kind == "sign" and text not in ("(", "*", "&", "-", "+", "!", "~"):
            return False
        inside = self.source[self.tokens[self.at][3]:self.tokens[close][2]].strip()
        name = re.sub(r"[\s*&]+$|\(\*\)\[\d+\]$", "", re.sub(r"^(?:struct|class|union|enum|const|volatile)\b\s*", "", inside))
        if not re.fullmatch(r"[\w:\s<>,*&'()]+", name) or name == "this":
            return False
        try:
            gdb.lookup_type(name)
        except gdb.error:
            return name != inside and kind != "sign"
        return name != inside or not self.is_variable(name)

    @staticmethod
    def is_variable(name):
        try:
            symbol = gdb.lookup_symbol(name)[0]
        except gdb.error:
            return False
        return symbol is not None and (symbol.is_variable or symbol.is_argument)

    def postfix(self):
        start, term = self.at, self.primary()
        while True:
            sign = self.peek()
            if sign in (".", "->"):
                self.take()
                kind, name = self.take()[:2]
                if kind != "name":
                    raise NotParsed
                object = self.rewriting.layout(term) if sign == "->" else None
                if object is not None:
                    term, sign = self.pointed(object, start), "."
                elif sign == "->" and term.followed:
                    term, sign = term.followed(), "."
                if self.peek() == "(":
                    term = self.called(term if sign == "." else Term("(*%s)" % term.text, "(*%s)" % term.shown, True), name, start)
                else:
                    self.rewriting.base = term.text
                    term = Term(term.text + sign + name, self.shown_from(start), True)
            elif sign == "[":
                self.take()
                index = self.ternary()
                self.take("]")
                term = self.element(term, index, start)
            elif sign == "(" or sign in ("++", "--"):
                raise NotParsed
            else:
                return term

    def primary(self):
        start = self.at
        kind, text = self.take()[:2]
        if text == "(":
            inner = self.ternary()
            self.take(")")
            return Term("(%s)" % inner.text, self.shown_from(start), inner.path)
        if kind == "name" and re.fullmatch(r"(?:(?:std|absl|boost)\s*::\s*)?(?:get|holds_alternative)", text) and self.peek() == "<":
            return self.chosen(text, start)
        if kind == "name" and re.fullmatch(r"sizeof|_*alignof_*|_*typeof_*|decltype|\w+_cast|operator.*|new|delete", text):
            raise NotParsed
        if kind == "name" and self.rewriting.variables:
            replaced = self.rewriting.variables(text)
            if replaced:
                return Term(self.rewriting.placeholder(*replaced), text, True)
        if kind in ("name", "number", "literal"):
            return Term(text, text, kind == "name" or re.match(r"'[^\\]..", text) is not None)  # a name may be in quotes
        raise NotParsed

    def pointed(self, object, start):
        """What the operator -> of an object leads to."""
        found = object.pointed(self.shown_from(start))
        if found is None:
            raise NotParsed
        return found

    def chosen(self, function, start):
        """std::get<WHICH>(OBJECT), std::holds_alternative<WHICH>(OBJECT)"""
        opened = self.take("<")[3]
        depth = 1
        while depth:
            _, text, end, _ = self.take()
            depth += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
        which = self.source[opened:end + (text == ">>")].strip()
        self.take("(")
        term = self.ternary()
        self.take(")")
        object = self.rewriting.layout(term)
        found = object and object.alternative(which, self.shown_from(start), function.endswith("holds_alternative"))
        if found is None:
            raise NotParsed
        return found

    def called(self, term, name, start):
        self.take("(")
        arguments = []
        while self.peek() != ")":
            arguments.append(self.ternary())
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        object = self.rewriting.layout(term)
        found = object and object.method(name, arguments, self.shown_from(start))
        if found is None:
            raise NotParsed
        return found

    def element(self, term, index, start):
        object = self.rewriting.layout(term)
        if object is None:
            return Term("%s[%s]" % (term.text, index.text), self.shown_from(start), True)
        found = object.index(index, self.shown_from(start))
        if found is None:
            raise NotParsed
        return found
