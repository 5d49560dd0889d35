"""`friday report`: what is needed to report a replay that diverges, in one JSON file that its owner can read before handing it on.

The recording itself holds whatever the programs saw, and cannot be made harmless without becoming useless. So the report is not made
from it by leaving things out: it is built of the fields that are named here, which are numbers and names of code. Whatever else a
recording or a later version of it contains does not get in.
"""
from __future__ import annotations

import collections
import hashlib
import json
import os
import re
import secrets
import subprocess
import sys
from typing import Any, Callable, Iterable, Mapping

from .answers import counted, printable
from .errors import Error
from .recordings import Recording

_BEFORE, _BEHIND = 2000, 50  # events of the node before and behind the one that differs
_RUNS = ("clock", "clock", "causal")  # the orders in which it is replayed; twice in one order shows whether it always differs there
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_PATH = re.compile(r"(?<![\w.])/[^\s:,;()\"']+")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-fA-F:.]+\](?::\d+)?|(?<![\w:])[0-9a-f]{0,4}(?::[0-9a-f]{0,4})*::[0-9a-f:]*")

CONTENTS = """\
The report contains
  - the version of Friday, and what `friday doctor` says of this machine: kernel, processor, what is allowed here
  - of each node: its number, its name, the names of the programs' files without directories, build ids, numbers of events and threads, how it ended
  - where the replay differs: node, thread, event, time since the start, kind of difference, and the call sites as function, file name and line
  - of the node that differs, the events up to {before} before and {behind} behind that place: which call, its arguments as numbers (addresses, sizes,
    descriptors, flags), its result, its times, and how many bytes it moved
  - hashes of contents only as marks that are good within this report: equal contents have equal marks, and nobody can try out a guess
It does not contain
  - bytes of messages, files or memory, strings among arguments, paths, addresses of peers, host names, users
  - command lines, environment, file copies, debug information, source text
"""


def _harmless(text: str) -> str:
    """The text without strings, paths and addresses of peers."""
    text = _QUOTED.sub(lambda found: f'"({len(found[0]) - 2} characters)"', text)
    return _ADDRESS.sub("(address)", _PATH.sub(lambda found: f"(path)/{found[0].rpartition('/')[2]}" if ".so" in found[0] else "(path)", text))


def _chosen(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


class _Marks:
    """Replaces hashes by marks that depend on a secret which is not kept."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(16)

    def __call__(self, hash_: Any) -> str:
        if str(hash_).strip("0") == "":
            return ""  # nothing was read
        return hashlib.blake2b(str(hash_).encode(), key=self._secret, digest_size=5).hexdigest()


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    kept = _chosen(node, ("id", "name", "alias", "build_id", "events", "trace_bytes", "threads", "call_sites", "calls_caught", "messages", "parent", "spawned_by",
                          "replaces", "continues", "seconds"))
    return kept | {"program": _file_name(node["program"])} | {key: _harmless(node[key]) for key in ("ended", "notice", "problem") if key in node}


def _divergence(found: Mapping[str, Any]) -> dict[str, Any]:
    kept = _chosen(found, ("node", "name", "thread", "event", "kind", "call", "logical_time"))
    return kept | {
        "expected": _harmless(found["expected"]), "actual": _harmless(found["actual"]), "causes": [_harmless(cause) for cause in found["causes"]],
        "chain": [_chosen(place, ("function", "offset", "module_offset", "line"))
                  | {"module": _file_name(place["module"]), "file": _file_name(place["file"])} for place in found["chain"]],
        "near": [_chosen(near, ("index", "differs")) | {"text": _harmless(near["text"])} for near in found["events"]]}


def _verdict(found: Mapping[str, Any]) -> dict[str, Any]:
    kept = _chosen(found, ("held", "sync", "events", "seconds"))
    kept["nodes"] = [_chosen(node, ("id", "events", "end", "detail", "hash")) for node in found.get("nodes", ())]
    if "divergence" in found:
        kept["divergence"] = _divergence(found["divergence"])
    return kept | {key: _harmless(str(found[key])) for key in ("failed",) if key in found}


def _event(event: Mapping[str, Any], mark: _Marks) -> dict[str, Any]:
    kept = _chosen(event, ("event", "seconds", "thread", "type", "call", "signal", "entry_ticks", "return_ticks", "result", "arguments"))
    if text := mark(event["input_hash"]):
        kept["input"] = text
    parts = []
    for part in event["parts"]:
        one = _chosen(part, ("kind", "size", "address", "channel", "offset", "length", "true_length", "direction", "flags", "object", "change", "stack_bytes",
                             "memory_bytes", "pid", "status", "thread"))
        if "hash" in part and (text := mark(part["hash"])):
            one["mark"] = text
        parts.append(one)
    if parts:
        kept["parts"] = parts
    return kept


def _events(path: str, node: int, at: int) -> dict[str, Any]:
    recording, mark = Recording(path), _Marks()
    near = [_event(event.to_json(), mark) for event in recording.events(node, first=max(at - _BEFORE, 0), last=at + _BEHIND)]
    channels = [{"number": each.number, "kind": each.kind, "descriptor": each.descriptor, "event": each.event} for each in recording.channels(node)]
    return {"node": node, "events": near, "channels": channels, "calls": dict(collections.Counter(event.get("call", event["type"]) for event in near).most_common())}


def make(path: str, friday: str, *, tell: Callable[[str], Any] = lambda text: None) -> dict[str, Any]:
    """The report on a recording. friday: the path of the command; tell: called with what is being done. Raises Error."""
    def asked(*arguments: str) -> Any:
        done = subprocess.run([friday, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, errors="replace", check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            lines = (done.stderr.strip() or f"it ended with {done.returncode}").splitlines()
            raise Error(f"`friday {' '.join(arguments)}` gave no answer: {lines[-1].removeprefix('friday ')}") from None

    info, machine = asked("info", "--json", path), asked("doctor", "--json", os.path.dirname(os.path.abspath(path)) or ".")
    report: dict[str, Any] = {
        "report": 1, "friday": subprocess.run([friday, "--version"], capture_output=True, text=True, check=False).stdout.strip(),
        "machine": machine["machine"] | {"checks": [_chosen(check, ("name", "works", "needed_for")) for check in machine["checks"]]},
        "nodes": [_node(node) for node in info["nodes"]], **_chosen(info, ("matched", "contradictions", "events")), "replays": []}
    differs: dict[str, Any] | None = None
    for number, sync in enumerate(_RUNS):
        if number and differs is None:
            break  # it repeats
        tell(f"replaying in {sync} order ({number + 1} of {len(_RUNS)})")
        found = asked("verify", "--json", "--sync", sync, path)
        report["replays"].append(_verdict(found))
        differs = differs or found.get("divergence")
    if differs is not None:
        report["near"] = _events(path, differs["node"], differs["event"])
    return report


def _summary(report: Mapping[str, Any]) -> list[str]:
    lines = []
    for replay in report["replays"]:
        if found := replay.get("divergence"):
            lines.append(f"in {replay['sync']} order the replay differs: node {found['node']} ({found['name']}), event {found['event']}, {found['kind']}")
        else:
            lines.append(f"in {replay['sync']} order the replay {'failed' if 'failed' in replay else 'repeats the recording'}")
    if "near" in report:
        lines.append(f"{counted(len(report['near']['events']), 'event')} of node {report['near']['node']}, {counted(len(report['nodes']), 'node')}")
    return lines


def main(path: str, *, output: str, yes: bool, executable: str) -> int:
    """`friday report`: makes the report, says what is in it, and writes it if the user agrees. Returns the exit code."""
    say = lambda text: print(printable(text), file=sys.stderr, flush=True)  # noqa: E731
    output = output or f"{path.rstrip('/')}-report.json"
    if os.path.exists(output):
        say(f"friday report: {output} exists already: name another file with -o")
        return 2
    try:
        report = make(path, executable, tell=lambda text: say(f"friday report: {text}"))
    except Error as error:
        say(f"friday report: {error}")
        return 2
    text = json.dumps(report, indent=1) + "\n"
    say(CONTENTS.format(before=_BEFORE, behind=_BEHIND).rstrip())
    for line in _summary(report):
        say(f"  {line}")
    if not yes:
        if not sys.stdin.isatty():
            say("friday report: nothing was written: with --yes it does not ask")
            return 2
        try:
            answer = input(f"Write {counted(len(text), 'byte')} to {printable(output)}? [y/N] ")
        except EOFError:
            answer = ""
        if answer.strip().lower() not in ("y", "yes"):
            say("nothing was written")
            return 1
    try:
        with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        say(f"friday report: cannot write {output}: {error.strerror}")
        return 2
    say(f"wrote {output}; read it before you hand it on: docs/contributing.md says where to")
    return 0
