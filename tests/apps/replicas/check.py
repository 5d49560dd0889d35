#!/usr/bin/python3
"""check.py DIRECTORY: whether the store of tests/apps/replicas still has what it acknowledged.

Reads client.out, what the client printed, and log-0, log-1, ..., the logs that the nodes wrote when they were stopped. Exits with 1, and
says which, if a value that was acknowledged is in the logs of less than a majority; with 2 if a file is missing."""

import pathlib
import re
import sys


def main(directory: pathlib.Path) -> int:
    try:
        said = (directory / "client.out").read_text()
        logs = {f"n{path.name[4:]}": set(path.read_text().splitlines()[1:]) for path in sorted(directory.glob("log-*"))}
    except OSError as error:
        print(f"check.py: {error}", file=sys.stderr)
        return 2
    acknowledged = re.findall(r"^acknowledged (\d+) as entry (\d+) by (n\d+)$", said, re.M)
    if not acknowledged or len(logs) < 2:
        print(f"check.py: {directory} has {len(acknowledged)} acknowledgements and {len(logs)} logs: nothing to compare", file=sys.stderr)
        return 2
    lost = 0
    for value, entry, node in acknowledged:
        holders = [name for name, log in logs.items() if value in log]
        if 2 * len(holders) <= len(logs):
            lost += 1
            print(f"lost: {node} acknowledged {value} as entry {entry}, and {', '.join(holders) or 'no node'} has it")
    print(f"{len(acknowledged)} acknowledged, {lost} lost")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
