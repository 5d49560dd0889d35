"""Runs inside a gdb (looking.py sends it there): the frames of the current thread with deep copies of their variables, as JSON.

A value is {"text": as gdb shows it on a line, "type": its type} and where it has parts, "parts": [[NAME, VALUE]...]. A pointer has what it
points to as its part "*", unless that was shown already: then "again" is the path at which it was. "cut" says that there is more.
No function of the program is called.
"""
import json
import re

import gdb

MOST_PARTS, MOST_VALUES, MOST_TEXT, MOST_LEVELS = 64, 4000, 200, 12
RECORDS = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
REFERENCES = (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)


class Copier:
    """Copies values; what pointers lead to is followed `depth` times in succession, and each object is copied once."""

    def __init__(self, depth):
        self.depth = depth
        self.left = MOST_VALUES
        self.seen = {}

    def copy(self, path, value, depth=None, level=0):
        """A value that cannot be read says so in its text."""
        self.left -= 1
        depth = self.depth if depth is None else depth
        try:
            out = {"type": str(value.type)}
            if value.is_optimized_out:
                return {**out, "text": "<optimized out>"}
            return {**out, **self.contents(path, value, depth, level)}
        except Exception as error:  # a pretty printer of somebody else's may raise anything
            return {"type": str(value.type), "text": "<%s>" % error}

    def contents(self, path, value, depth, level):
        type = value.type.strip_typedefs()
        if type.code in RECORDS and type.unqualified() != type:  # some printers do not know types that are const
            type = type.unqualified()
            value = value.cast(type)
        if type.code in REFERENCES:
            return self.contents(path, value.referenced_value(), depth, level)
        if type.code == gdb.TYPE_CODE_PTR:
            return self.pointer(path, value, type.target().strip_typedefs(), depth, level)
        printer = gdb.default_visualizer(value)
        parts = None
        if printer is not None:
            text = self.printed(printer)
            if hasattr(printer, "children"):
                hint = printer.display_hint() if hasattr(printer, "display_hint") else None
                parts = pairs(printer.children()) if hint == "map" else printer.children()
        elif type.code in RECORDS:
            self.seen.setdefault((int(value.address), str(type)) if value.address is not None else None, path)
            text, parts = "{...}", members(value, type)
        elif type.code == gdb.TYPE_CODE_ARRAY and not is_text(type):
            first, last = type.range()
            text, parts = "[%d]" % (last - first + 1), (("[%d]" % i, value[i]) for i in range(first, last + 1))
        else:
            return {"text": cut(value.format_string(max_elements=MOST_TEXT))}
        out = {"text": text}
        if parts is not None:
            self.add_parts(out, path, parts, depth, level)
        return out

    def add_parts(self, out, path, parts, depth, level):
        if level >= MOST_LEVELS:
            out["cut"] = True
            return
        found = []
        for name, part in parts:
            if len(found) >= MOST_PARTS or self.left <= 0:
                out["cut"] = True
                break
            if not isinstance(part, gdb.Value):
                found.append([name, {"type": "", "text": cut(str(part))}])
                continue
            found.append([name, self.copy(join(path, name), part, depth, level + 1)])
        out["parts"] = found

    def pointer(self, path, value, target, depth, level):
        address = int(value)
        if address == 0:
            return {"text": "0x0"}
        out = {"text": hex(address), "pointer": True}
        if target.code == gdb.TYPE_CODE_FUNC or is_character(target):
            # what gdb shows behind the address: the function, the text
            return {"text": cut(value.format_string(max_elements=MOST_TEXT)).partition(" ")[2] or hex(address)}
        if target.code == gdb.TYPE_CODE_VOID:
            return out
        known = self.seen.get((address, str(target)))
        if known is not None:
            return {**out, "again": known}
        if depth <= 0 or target.sizeof == 0:
            return {**out, "cut": True}
        self.seen[address, str(target)] = path + "->*"
        pointed = value.dereference()
        pointed.fetch_lazy()
        self.add_parts(out, path, (("*", each) for each in [pointed]), depth - 1, level)
        return out

    @staticmethod
    def printed(printer):
        text = printer.to_string() if hasattr(printer, "to_string") else None
        if isinstance(text, gdb.Value):
            return cut(text.format_string(max_elements=MOST_TEXT))
        if hasattr(text, "lazy_string"):  # older printers
            text = text.value().string()
        if hasattr(text, "value") and hasattr(text, "address"):  # gdb.LazyString
            text = json.dumps(text.value().string(length=min(max(text.length, 0), MOST_TEXT)) if text.length >= 0 else text.value().string())
        return "{...}" if text is None else cut(str(text))


def pairs(children):
    """The keys of a map as the names of its values."""
    children = iter(children)
    for _, key in children:
        value = next(children, None)
        if value is None:
            return
        shown = key.format_string(max_elements=40) if isinstance(key, gdb.Value) else str(key)
        yield "[%s]" % shown, value[1]


def members(value, type):
    for field in type.fields():
        if not hasattr(field, "bitpos") or field.artificial:  # static, or the compiler's own
            continue
        yield (field.name or "<anonymous>"), value[field]


def join(path, name):
    if name == "*":
        return path + "->*"
    return path + name if name.startswith("[") else path + "." + name


def is_character(type):
    return type.code == gdb.TYPE_CODE_CHAR or (type.code == gdb.TYPE_CODE_INT and type.sizeof == 1 and "char" in str(type))


def is_text(type):
    return is_character(type.target().strip_typedefs())


def cut(text):
    text = " ".join(text.split("\n"))
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT - 4] + " ..."


def variables(frame, depth):
    """The arguments and the local variables of a frame: of the blocks around its instruction, the innermost of a name."""
    try:
        block = frame.block()
    except RuntimeError:
        return [], []
    frame.select()  # pretty printers look types up in the language of the selected frame
    copier, arguments, locals, known = Copier(depth), [], [], set()
    while block is not None and not block.is_global and not block.is_static:
        for symbol in block:
            if symbol.name in known or not (symbol.is_argument or symbol.is_variable):
                continue
            known.add(symbol.name)
            try:
                value = copier.copy(symbol.name, symbol.value(frame))
            except (gdb.error, gdb.MemoryError, TypeError) as error:
                value = {"type": str(symbol.type), "text": "<%s>" % error}
            (arguments if symbol.is_argument else locals).append([symbol.name, value])
        if block.function is not None:
            break
        block = block.superblock
    return arguments, locals


def library_of(address):
    """The file of the shared library that has code at the address; "" in the program itself. The loader may be in no list of libraries."""
    found = re.search(r" in section \S+ of (\S+)\s*$", gdb.execute("info symbol %d" % address, to_string=True))
    library = gdb.solib_name(address) or (found[1] if found else "")
    return "" if library == gdb.current_progspace().filename else library


def friday_frames(count, depth):
    """The innermost frames. depth None: without their variables."""
    selected = gdb.selected_frame()
    try:
        return frames_from(gdb.newest_frame(), count, depth)
    finally:
        selected.select()


def frames_from(frame, count, depth):
    found = []
    while frame is not None and len(found) < count:
        place = frame.find_sal()
        one = {"function": frame.name() or hex(frame.pc()), "library": library_of(frame.pc())}
        if place.symtab is not None:
            one["file"], one["line"] = place.symtab.filename, place.line
        if depth is not None:
            one["arguments"], one["locals"] = variables(frame, depth)
        found.append(one)
        try:
            frame = frame.older()
        except gdb.error:
            break
    return found


def friday_value(expression, level, depth):
    """The value of an expression in the frame `level`, 0 for the innermost one."""
    selected, frame = gdb.selected_frame(), gdb.newest_frame()
    for _ in range(level):
        frame = frame.older()
    frame.select()
    try:
        return Copier(depth).copy(expression, gdb.parse_and_eval(expression))
    finally:
        selected.select()


def friday_tell(what):
    """Prints the result of what() as JSON, or {"error": gdb's message}, without calls of the program's functions."""
    calls = gdb.parameter("may-call-functions")
    gdb.execute("set may-call-functions off", to_string=True)
    try:
        print(json.dumps(what()))
    except gdb.error as error:
        print(json.dumps({"error": str(error)}))
    finally:
        gdb.execute("set may-call-functions " + ("on" if calls else "off"), to_string=True)
