# Friday's commands inside gdb, loaded by MiSession at start. They let Friday ask gdb's knowledge of symbols and types in
# one round trip and in a form that is made for programs. Needs gdb 13 (gdb.MICommand, Breakpoint.locations).
#
# Each command answers ^done,json="..." whose text is JSON, or ^error with gdb's own words. None changes the program, its
# breakpoints or the selected frame.
import json

import gdb


class JsonCommand(gdb.MICommand):
    """An MI command whose answer is one JSON text."""

    def invoke(self, argv):
        return {"json": json.dumps(self.answer(argv), separators=(",", ":"))}


def one_argument(argv, usage):
    if len(argv) != 1:
        raise gdb.GdbError("Usage: " + usage)
    return argv[0]


class Locate(JsonCommand):
    """-friday-locate LOCATION: where a breakpoint at LOCATION would stand."""

    def answer(self, argv):
        location = one_argument(argv, "-friday-locate LOCATION")
        rest, _ = gdb.decode_line(location)  # raises "Function ... not defined." where a breakpoint would be pending
        if rest:
            raise gdb.GdbError("Junk at end of location: " + rest)
        # Internal: it has a negative number, is announced to nobody, and is never inserted while the program is stopped.
        # Only a real breakpoint knows where gdb ends the prologue and which inlined copies there are.
        breakpoint = gdb.Breakpoint(location, internal=True)
        try:
            return [self.describe(each) for each in breakpoint.locations]
        finally:
            breakpoint.delete()

    @staticmethod
    def describe(location):
        file, line = location.source or (None, None)
        return {"address": location.address, "function": location.function, "file": file, "full_name": location.fullname,
                "line": line}


class Source(JsonCommand):
    """-friday-source ADDRESS...: function, file and line of each address."""

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
        if block is not None:
            return block.function.print_name, address - block.entry_pc
        # No debug information: "memcpy + 12 in section .text of /lib/libc.so.6", or "No symbol matches ...".
        words = gdb.execute("info symbol %d" % address, to_string=True).split(" in section ")[0].strip()
        if words.startswith("No symbol matches"):
            return None, None
        name, plus, offset = words.rpartition(" + ")
        return (name, int(offset)) if plus else (words, 0)


class Symbols(JsonCommand):
    """-friday-symbols PREFIX [LIMIT]: completions of an expression that ends in PREFIX."""

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


class Console(gdb.MICommand):
    """-friday-console TEXT: commands of gdb's command line that have lines of their own (while, define, python, ...).

    Through -interpreter-exec gdb would read those lines from its standard input, where Friday's next commands are.
    """

    def invoke(self, argv):
        try:
            gdb.execute(one_argument(argv, "-friday-console TEXT"), from_tty=False, to_string=False)
        except gdb.error as error:
            raise gdb.GdbError(str(error))
        except KeyboardInterrupt:
            raise gdb.GdbError("Quit")


Console("-friday-console")
Locate("-friday-locate")
Source("-friday-source")
Symbols("-friday-symbols")
