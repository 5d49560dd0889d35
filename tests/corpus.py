"""A corpus of recordings by the versions of their formats: an old recording must replay, or be refused by name.

    /usr/bin/python3 tests/corpus.py make [--build DIR]    # records the programs of PROGRAMS, unless the corpus has them of that version
    /usr/bin/python3 tests/corpus.py check [--build DIR]   # verifies every recording in the corpus with the present build

The repository contains no recordings, so the corpus grows where it is kept: in $FRIDAY_CORPUS, or ~/.cache/friday/corpus. Whoever changes
a version (kVersion in core/shim/trace_format.h, kAbiVersion in shim_abi.h, kRecordingFormat in core/trace/recording.cc) runs `make`
before and behind the change. `--build` names another build, for instance of an older commit in a work tree of its own, whose recordings
are added.

`check` accepts two answers of `friday verify`: that the recording repeats, and for another version than its own, a refusal that names the
version. All else is a failure: a divergence, a crash, a refusal that gives another reason.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Targets that together use most kinds of records: threads, shared memory, forks, sockets, signals, mapped files, vector registers.
PROGRAMS = {name: [name] for name in ("threads", "processes", "shared_turns", "sockets_tcp", "pipes", "signals_threads", "map_shared", "timers", "files")}
NAMED = re.compile(r"recording format \d+|trace format version \d+|version \d+ of the shim|features 0x[0-9a-f]+ that this Friday does not know")


def folder():
    return pathlib.Path(os.environ.get("FRIDAY_CORPUS") or pathlib.Path.home() / ".cache" / "friday" / "corpus")


def version_of(recording):
    """"RECORDING-TRACE-ABI", the versions of a recording's formats: of recording.json, of its traces, and of the shim in their images."""
    form = json.loads((recording / "recording.json").read_text())["format"]
    header = next(header_of(node) for node in sorted((recording / "nodes").iterdir()))
    magic, trace, _, _, _, abi = struct.unpack_from("<8sIIQII", header)
    assert magic == b"FRIDAYT1", f"{recording} has no trace"
    return f"{form}-{trace}-{abi}"


def header_of(node):
    """The first bytes of a node's trace, whose header page stands uncompressed in either form (docs/trace-format.md)."""
    for name in ("trace", "trace.zst"):
        if (node / name).exists():
            found = (node / name).read_bytes()
            at = found.find(b"FRIDAYT1")
            if at >= 0:
                return found[at:at + 4096]
    raise FileNotFoundError(f"{node} has no trace")


def make(build, corpus):
    """Records the programs with a build. Returns where the recordings are."""
    corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=corpus) as scratch:
        for name, (program, *arguments) in PROGRAMS.items():
            done = subprocess.run([build / "bin" / "friday", "record", "-q", "-o", f"{scratch}/{name}", "--", build / "targets" / program, *arguments],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, cwd=scratch)
            if done.returncode:
                sys.exit(f"corpus: {name} was not recorded: {done.stderr.strip()}")
        version = version_of(pathlib.Path(scratch) / next(iter(PROGRAMS)))
        place = corpus / version
        if not place.exists():
            place.mkdir()
            for name in PROGRAMS:
                shutil.move(f"{scratch}/{name}", place / name)
    return place


def check(build, corpus):
    """Verifies each recording of the corpus. Returns the lines of a report, and how many recordings were answered wrongly."""
    lines, wrong = [], 0
    for version in sorted(path for path in corpus.iterdir() if re.fullmatch(r"\d+-\d+-\d+", path.name)):
        answers = {}
        for recording in sorted(version.iterdir()):
            try:
                done = subprocess.run([build / "bin" / "friday", "verify", recording], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
                refused = done.returncode == 2 and NAMED.search(done.stderr)
                answer = "repeats" if done.returncode == 0 else f"is refused: {refused[0]}" if refused else f"WRONG, exit code {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
            except subprocess.TimeoutExpired:
                answer = "WRONG, it does not end"
            wrong += answer.startswith("WRONG")
            answers.setdefault(answer, []).append(recording.name)
        lines += [f"version {version.name}: {', '.join(names)}: {answer}" for answer, names in answers.items()]
    return lines, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "check"))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("FRIDAY_BUILD", ROOT / "build" / "release")))
    arguments = parser.parse_args()
    if arguments.what == "make":
        print(make(arguments.build.resolve(), folder()))
        return 0
    if not folder().is_dir():
        sys.exit(f"corpus: there is no {folder()}: `tests/corpus.py make` begins it")
    lines, wrong = check(arguments.build.resolve(), folder())
    print("\n".join(lines))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
