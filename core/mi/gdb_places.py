# The part of Friday's helper for places in the code: of breakpoints, source lines and frames; and for the completion of names.
#
# -friday-locate LOCATION        the places at which a breakpoint at LOCATION would stand, including all inlined copies and overloads
#   [{"address", "function", "file", "full_name", "line"}]   the last four may be null
# -friday-locate -local FUNCTION NAME   the places at which a variable of a function begins to exist, in the same form: the function's
#                                entry, or the beginnings of the blocks that declare it
#
# -friday-source ADDRESS...      [{"addr", "function", "offset" (in the function), "file", "full_name", "line"}] for each address, null
#                                where unknown. "function" is the innermost one, which may be inlined.
#
# -friday-symbols PREFIX [LIMIT] {"candidates": [...], "truncated": bool}: the completions of an expression that ends in PREFIX
#
# -friday-frame                  the function of the innermost frame that is not inlined, and where it returns to
#   {"function", "frame": ADDRESS (the stack pointer after it has returned), "back": ADDRESS (the return address),
#    "pc", "sp", "bp"}         null if there is no outer frame
#
# -friday-selected               the selected thread, by the number that the target gives it, and the level of the selected frame:
#                                {"thread", "level"}; null if there is no thread
class Locate(JsonCommand):
    """-friday-locate LOCATION"""

    def answer(self, argv):
        if argv[0] == "-local":
            return self.local(*argv[1:])
        location = one_argument(argv, "-friday-locate LOCATION")
        rest, _ = gdb.decode_line(location)  # raises "Function ... not defined." where a breakpoint would be pending
        if rest:
            raise gdb.GdbError("Junk at end of location: " + rest)
        # Only a real breakpoint tells where gdb considers the prologue to end, and which inlined copies there are. An internal one
        # has a negative number, is not reported to front ends, and is not inserted as long as the program does not run.
        breakpoint = gdb.Breakpoint(location, internal=True)
        try:
            return [self.describe(each) for each in breakpoint.locations]
        finally:
            breakpoint.delete()

    def local(self, function, name):
        entries = self.answer([function])
        blocks = {}
        for entry in entries:
            outer = gdb.block_for_pc(entry["address"])
            while outer is not None and outer.function is None:
                outer = outer.superblock
            if outer is None or any(symbol.name == name for symbol in outer):
                return entries
            # gdb 13 cannot list the blocks within a block; they are found through the line table.
            for line in outer.function.symtab.linetable():
                block = gdb.block_for_pc(line.pc) if outer.start <= line.pc < outer.end else None
                while block is not None and block.start != outer.start and block.function is None:
                    if any(symbol.name == name for symbol in block):
                        blocks[block.start] = dict(entry, address=block.start, line=gdb.find_pc_line(block.start).line)
                    block = block.superblock
        if not blocks:
            raise gdb.GdbError('No symbol "%s" in function "%s".' % (name, function))
        return list(blocks.values())

    @staticmethod
    def describe(location):
        file, line = location.source or (None, None)
        function = location.function
        if function and function.startswith("_Z"):  # gdb 13 gives the mangled name here
            function = gdb.execute("demangle -l c++ -- " + function, to_string=True).strip()
        return {"address": location.address, "function": function, "file": file, "full_name": location.fullname,
                "line": line}


class Source(JsonCommand):
    """-friday-source ADDRESS..."""

    def answer(self, argv):
        return [self.describe(int(text, 0)) for text in argv]

    def describe(self, address):
        place = gdb.find_pc_line(address)
        function, offset = self.function_at(address)
        return {"addr": address, "function": function, "offset": offset,
                "file": place.symtab.filename if place.symtab else None,
                "full_name": place.symtab.fullname() if place.symtab else None,
                "line": place.line if place.symtab else None}

    @staticmethod
    def function_at(address):
        block = gdb.block_for_pc(address)
        while block is not None and block.function is None:
            block = block.superblock
        outer = around = block
        while around is not None:  # parts of a function may be inlined into itself
            if around.function is not None and around.function.print_name == block.function.print_name:
                outer = around
            around = around.superblock
        name, offset = Source.symbol_at(address)
        if block is None or (offset is not None and offset == address - outer.start):
            return name, offset  # the name in the symbol table, such as "write"; in the debug information it is __GI___libc_write
        return block.function.print_name, address - block.start

    @staticmethod
    def symbol_at(address):
        # gdb answers, for example: "memcpy + 12 in section .text of /lib/libc.so.6", or "No symbol matches ...".
        words = gdb.execute("info symbol %d" % address, to_string=True).split(" in section ")[0].strip()
        if words.startswith("No symbol matches"):
            return None, None
        name, plus, offset = words.rpartition(" + ")
        return (name, int(offset)) if plus else (words, 0)


class Frame(JsonCommand):
    """-friday-frame"""

    def answer(self, argv):
        frame = gdb.newest_frame()
        registers = {name: int(frame.read_register(name)) & MASK for name in ("rsp", "rbp")}
        pc = frame.pc()
        while frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        outer = frame.older()
        if outer is None:
            return None
        return {"function": frame.name(), "frame": int(outer.read_register("rsp")) & MASK, "back": outer.pc(), "pc": pc,
                "sp": registers["rsp"], "bp": registers["rbp"]}


class Selected(JsonCommand):
    """-friday-selected"""

    def answer(self, argv):
        thread = gdb.selected_thread()
        return {"thread": thread.ptid[1] or thread.ptid[2], "level": gdb.selected_frame().level()} if thread else None


class Symbols(JsonCommand):
    """-friday-symbols PREFIX [LIMIT]"""

    def answer(self, argv):
        if len(argv) not in (1, 2):
            raise gdb.GdbError("Usage: -friday-symbols PREFIX [LIMIT]")
        limit = int(argv[1]) if len(argv) == 2 else 200
        saved = gdb.parameter("max-completions")
        gdb.execute("set max-completions %d" % limit)
        try:
            lines = gdb.execute("complete print " + argv[0], to_string=True).splitlines()
        finally:
            gdb.execute("set max-completions %s" % ("unlimited" if saved is None or saved < 0 else saved))
        candidates = [line[len("print "):] for line in lines]
        truncated = bool(candidates) and "*** List may be truncated" in candidates[-1]
        if truncated:
            candidates.pop()
        return {"candidates": candidates, "truncated": truncated}


Locate("-friday-locate")
Source("-friday-source")
Symbols("-friday-symbols")
Frame("-friday-frame")
Selected("-friday-selected")
