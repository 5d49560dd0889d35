"""refuse_calls.py NUMBER[=FIRST-ARGUMENT]... -- COMMAND...: runs COMMAND under a seccomp filter that answers these x86-64 system
calls with EPERM, as a container's profile would."""

import ctypes
import os
import struct
import sys

LOAD, EQUAL, ANSWER = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
ALLOW, EPERM = 0x7FFF0000, 0x00050001
NUMBER, ARGUMENT = 0, 16  # in struct seccomp_data


def filter_of(words):
    program = []
    for word in words:
        number, _, argument = word.partition("=")
        program.append((LOAD, 0, 0, NUMBER))
        if argument:
            program += [(EQUAL, 0, 3, int(number)), (LOAD, 0, 0, ARGUMENT), (EQUAL, 0, 1, int(argument))]
        else:
            program += [(EQUAL, 0, 1, int(number))]
        program.append((ANSWER, 0, 0, EPERM))
    program.append((ANSWER, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in program), len(program)


def main():
    split = sys.argv.index("--")
    code, count = filter_of(sys.argv[1:split])
    buffer = ctypes.create_string_buffer(code, len(code))
    libc = ctypes.CDLL(None, use_errno=True)
    program = struct.pack("<HxxxxxxQ", count, ctypes.addressof(buffer))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
        sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[split + 1], sys.argv[split + 1:])


main()
