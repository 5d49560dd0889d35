"""Studies of the bugs that are planted in the services of tests/apps/planted, and at which place of a comparison they are found."""
from __future__ import annotations

import json
import pathlib
import random
import re
import shutil
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SERVICES = ROOT / "tests" / "apps" / "planted" / "services.py"
BUGS = sorted(path.stem for path in SERVICES.parent.glob("*.toml"))
CONTENT = {"bad_value", "unknown_word"}  # depend on what a message says, not on order


def truth(bug: str) -> dict:
    return tomllib.loads((SERVICES.parent / f"{bug}.toml").read_text())


def study(friday: pathlib.Path, bug: str, place: pathlib.Path, runs: int = 50, failures: int = 8, pings: int = 0) -> pathlib.Path:
    """Makes a study of a bug in PLACE/study: so many runs, or more, at most three times as many, until so many have failed.
    pings: how often a client asks for something else, in the place of the one that does so at random."""
    clients = [each for each in truth(bug)["clients"] if not pings or each != "noise"] + (["pinger"] if pings else [])
    python = f'"/usr/bin/python3", "{SERVICES}", "{bug}"'
    nodes = [f'[[node]]\nname = "server"\ncommand = [{python}, "server", "{{port:server}}", "{len(clients)}"]\nready = "output listening"\nstdout = "server.out"\n']
    nodes += [f'[[node]]\nname = "{name}"\ncommand = [{python}, "{name}", "{{port:server}}"]\nafter = ["server"]\n' for name in clients]
    if pings:
        nodes[-1] = nodes[-1].replace('"{port:server}"]', f'"{{port:server}}", "{pings}"]')
    (place / "group.toml").write_text('[group]\ntimeout = 60\nstop_when_ends = "server"\n' + "".join(nodes))
    for most in (runs, 2 * runs, 3 * runs):
        subprocess.run([friday, "diagnose", "-q", "-o", place / "study", "--group", place / "group.toml", "-n", str(most), "--schedule", "--keep", "0"],
                       check=True, capture_output=True, timeout=600)
        if (place / "study" / "runs.jsonl").read_text().count('"FAILED"') >= failures:
            break
    return place / "study"


def compared(friday: pathlib.Path, directory: pathlib.Path) -> dict:
    return json.loads(subprocess.run([friday, "compare", directory, "--json"], check=True, capture_output=True, timeout=120).stdout)


def place_of(bug: str, answer: dict) -> int:
    """The place of the bug among the findings, from 1; 0 if it is not there, or is claimed to be what it is not."""
    if answer["verdict"] != ("content" if bug in CONTENT else "order"):
        return 0
    wanted = [[tuple(message) for message in order] for order in truth(bug)["orders"]]
    for place, finding in enumerate(answer["contents" if bug in CONTENT else "orders"], 1):
        if [_shown(message) for message in finding["messages"]] in wanted:
            return place
    return 0


def _shown(message: dict) -> tuple[str, str]:
    """Who sends what, with every number as "#"."""
    sender = message["role"] if message["sent"] else message["partner"] or "outside"
    return _without_numbers(sender), _without_numbers(message["text"])


def _without_numbers(text: str) -> str:
    return re.sub(r"#?\d+", "#", text)


def shuffled(directory: pathlib.Path, place: pathlib.Path, seed: int) -> pathlib.Path:
    """The same runs with the failures dealt out at random: nothing goes along with them."""
    rows = [json.loads(line) for line in (directory / "runs.jsonl").read_text().splitlines()]
    results = [(row["result"], row["why"], row["code"]) for row in rows]
    random.Random(seed).shuffle(results)
    shutil.copytree(directory / "messages", place / "messages")
    for row, (result, why, code) in zip(rows, results):
        row.update(result=result, why=why, code=code)
    (place / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place
