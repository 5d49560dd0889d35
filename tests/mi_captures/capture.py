#!/usr/bin/python3
"""Makes the captures of this folder anew, with the gdb that is installed.

    capture.py BIN [NAME...]

BIN holds the debuggees mi_types_O0 and mi_faults. For each NAME.cmds the first line says which interpreter and debuggee
to use; the other lines are MI commands, each sent when the one before was answered. `%stop` waits for a *stopped.
What gdb writes goes to NAME.mi, with the folder of the sources replaced by /src. NAME.expected is then written by
`FRIDAY_UPDATE_CAPTURES=1 friday_mi_test --gtest_filter='*capture*'` and must be read before it is committed.
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Gdb:
    def __init__(self, interpreter, program):
        self.output = b""
        self.read = 0
        self.process = subprocess.Popen(
            ["gdb", "-nx", "-q", "--interpreter=" + interpreter, "-iex", "set debuginfod enabled off", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE)

    def wait_for(self, pattern):
        """Reads lines up to the one that matches."""
        for line in self.process.stdout:
            self.output += line
            if re.match(pattern, line):
                return
        raise SystemExit("gdb ended before it wrote %r:\n%s" % (pattern, self.output.decode()))

    def send(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        self.wait_for(rb"%s\^" % re.match(r"\d+", command)[0].encode())


def capture(commands, binaries):
    lines = commands.read_text().splitlines()
    interpreter, program = lines[0].split()
    gdb = Gdb(interpreter, binaries / program)
    for line in lines[1:]:
        if line == "%stop":
            gdb.wait_for(rb"\*stopped")
        else:
            gdb.send(line)
    gdb.process.stdin.close()
    gdb.output += gdb.process.stdout.read()
    gdb.process.wait()
    text = gdb.output.replace(str(HERE.parent / "unit" / "mi_targets").encode(), b"/src")
    text = text.replace(str(binaries).encode(), b"/bin")
    commands.with_suffix(".mi").write_bytes(text)


def main():
    binaries = pathlib.Path(sys.argv[1]).resolve()
    for commands in sorted(HERE.glob("*.cmds")):
        if len(sys.argv) == 2 or commands.stem in sys.argv[2:]:
            capture(commands, binaries)


main()
