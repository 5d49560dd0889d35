"""Where a node stands, as its gdb shows frames, and what of that is the program's own code."""
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Sequence

from .errors import Error

if TYPE_CHECKING:
    from .sessions import Session

_FRAME = re.compile(r"#\d+\s+(?:0x[0-9a-f]+ in )?")
_SYSROOT = re.compile(r"(?<= )/\S*/friday-session-\w+/\d+(?=/)")  # where gdb finds the recorded copies of libraries
_SOURCE = re.compile(r"\d+\t")
_PLACE = re.compile(r" at (\S+):(\d+)\Z")
_SYSTEM = ("/usr/include/", "/usr/lib/")  # where the sources of libraries' headers are
# Whether code is the program's own, which templates of a library's headers are not.
_IS_OWN = f"""
import gdb, os
def friday_of_system(symtab):
    return symtab.fullname().startswith({_SYSTEM})
def friday_is_own(symtab):
    return (symtab.objfile.owner or symtab.objfile).filename == gdb.current_progspace().filename
"""
# The number of the innermost frame in the program's own code, or else in code whose source file exists here: that of a library seldom does.
_OWN_FRAME = f"""{_IS_OWN}
def friday_own_frame():
    frame, number, own, here = gdb.newest_frame(), 0, "", ""
    while frame is not None and number < 20:
        symtab = frame.find_sal().symtab
        if symtab is not None:
            function = frame.function()
            of_system = friday_of_system(function.symtab if function else symtab)
            if friday_is_own(symtab) and not of_system:
                if not friday_of_system(symtab):
                    return number
                if own == "":  # its line is one of a header, or it is a template that is inlined
                    own = number
            if here == "" and not of_system and os.path.exists(symtab.fullname()):
                here = number
        frame, number = frame.older(), number + 1
    return here if own == "" else own
print(friday_own_frame())
"""
OWN_FRAME = f"python exec({_OWN_FRAME!r})"
_OWN_CODE = f"""{_IS_OWN}
def friday_own_code(addresses):
    return [friday_is_own_code(address, gdb.find_pc_line(address).symtab) for address in addresses]
def friday_is_own_code(address, symtab):
    if symtab is None:
        return gdb.solib_name(address) is None
    return friday_is_own(symtab) and not friday_of_system(symtab)
"""
_CALLER = re.compile(r"(.*?\S) \((?:\w+=.*)?\) at (\S+):(\d+)")


def frame_of(session: "Session", node: int) -> tuple[str, str]:
    """The place where a node stands, as gdb shows the frame but without its number, and the source line; each "" if unknown."""
    try:
        first, *rest = session.backend.gdb(node, "frame").splitlines() or [""]
    except Error:
        return "", ""
    while rest and not _SOURCE.match(rest[0]) and rest[0][:1] == " ":  # gdb breaks a long list of arguments into lines
        first += " " + rest.pop(0).strip()
    source = rest[0] if rest and _SOURCE.match(rest[0]) else ""
    place = _PLACE.search(first)
    if place and source in (f"{place[2]}\tin {place[1]}", f"{place[2]}\t{place[1]}: No such file or directory."):
        source = ""
    return _SYSROOT.sub("", _FRAME.sub("", first, count=1)), source


def is_of_system(place: str) -> bool:
    """Whether the source of a frame is that of a library's header."""
    file = _PLACE.search(place)
    return file is not None and file[1].startswith(_SYSTEM)


def caller_of(session: "Session", node: int) -> str:
    """The innermost frame in the program's own code, as gdb shows it; "" if there is none."""
    try:
        number = session.backend.gdb(node, OWN_FRAME).strip()
        frames = dict(re.findall(r"^#(\d+)\s+(.*(?:\n(?!#).*)*)", session.backend.gdb(node, "backtrace 20") if number else "", flags=re.M))
    except Error:
        return ""
    return " ".join(re.sub(r"^0x[0-9a-f]+ in ", "", frames.get(number, "")).split())


def own_code(session: "Session", node: int, addresses: Sequence[int]) -> list[bool]:
    """Which of these addresses are in the program's own code; all if gdb cannot tell."""
    script = f"{_OWN_CODE}print(*friday_own_code({list(addresses)}))"
    try:
        said = session.backend.gdb(node, f"python exec({script!r})").split()
    except Error:
        said = []
    return [word == "True" for word in said] if len(said) == len(addresses) else [True] * len(addresses)


def caller_place(session: "Session", node: int) -> str:
    """caller_of() without arguments and directories: "FUNCTION at FILE:LINE"."""
    found = _CALLER.fullmatch(caller_of(session, node))
    return f"{found[1]} at {os.path.basename(found[2])}:{found[3]}" if found else ""


def source_place(session: "Session", node: int) -> str:
    """FILE:LINE of the innermost frame outside of libraries if the frame where the node stands has no source; otherwise "", since
    gdb's own `list` shows the selected frame."""
    _, source = frame_of(session, node)
    found = None if source else _PLACE.search(caller_of(session, node))
    return f"{found[1]}:{found[2]}" if found else ""


def file_here(session: "Session", node: int) -> str:
    """The source file of the frame that is selected on a node, or if that has no source, of its innermost caller outside of libraries."""
    place, source = frame_of(session, node)
    found = _PLACE.search(place if source else caller_of(session, node))
    return found[1] if found else ""
