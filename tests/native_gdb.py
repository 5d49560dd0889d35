"""What a plain gdb can do on this machine, for tests that compare Friday with it."""

import functools
import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ.get("FRIDAY_BUILD", pathlib.Path(__file__).resolve().parents[1] / "build" / "release"))


@functools.cache
def no_calls():
    """Why a plain gdb cannot call functions of a program on this machine; "" if it can. gdb 13 cannot write back the registers of a
    processor whose extended state has a component that it does not know (AMX)."""
    done = subprocess.run(["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", "-ex", "break main", "-ex", "run", "-ex", "print square(12)",
                           BUILD / "targets" / "debug_session_O0"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return "" if "$1 = 144" in done.stdout else f"machine: its gdb calls no function of a native program: {(done.stderr.splitlines() or ['?'])[-1]}"
