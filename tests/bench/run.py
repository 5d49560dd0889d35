#!/usr/bin/python3
"""Runs benchmarks and prints their numbers. It does not judge whether they are good.

    run.py [NAME...] [--json FILE] [--markdown docs/performance.md]

Names: record, fidelity, replay, stops, console, always, diagnose (without names, all of these), history and evaluation, each of which takes half an hour (with
--short some minutes); evaluation writes docs/evaluation.md. --json writes {"NAME": {"KEY": number}}. --markdown replaces the table between the
markers in that page; rows of benchmarks that did not run stay. The build in $FRIDAY_BUILD is used, by default build/release. The exit
code is 0 if every benchmark ran, and 1 if one could not.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time

sys.dont_write_bytecode = True

import always  # noqa: E402
import console  # noqa: E402
import diagnose  # noqa: E402
import evaluation  # noqa: E402
import fidelity  # noqa: E402
import history  # noqa: E402
import record  # noqa: E402
import replay  # noqa: E402
import stops  # noqa: E402
from support import Bench, Number, Unavailable, short  # noqa: E402

BENCHMARKS = {module.NAME: module for module in (record, fidelity, replay, stops, console, always, diagnose, history, evaluation)}
ASKED_FOR = (history.NAME, evaluation.NAME)  # take too long to run unless they are named
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def rows(name: str, numbers: dict[str, Number]) -> list[str]:
    lines = []
    for key, about in BENCHMARKS[name].KEYS.items():
        if key not in numbers:
            continue
        number = numbers[key]
        spread = f" ± {short(number.spread)}" if number.count > 1 else ""
        lines.append(f"| `{name}` | `{key}` | {short(number.value)}{spread} | {about.unit or 'ratio'} | {about.aim} | {about.meaning} |")
    return lines


def update_page(page: pathlib.Path, results: dict[str, dict[str, Number]]) -> None:
    """Replaces rows of the table between the markers in the page."""
    text = page.read_text()
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{page} has no lines `{BEGIN}` and `{END}`")
    head, rest = text.split(BEGIN, 1)
    old, tail = rest.split(END, 1)
    kept = [line for line in old.splitlines() if line.startswith("| `")]
    table = ["| benchmark | key | measured | unit | aim | what |", "|---|---|---|---|---|---|"]
    for name in BENCHMARKS:
        table += rows(name, results[name]) if name in results else [line for line in kept if line.startswith(f"| `{name}` ")]
    page.write_text(head + BEGIN + "\n" + "\n".join(table) + "\n" + END + tail)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Runs benchmarks; see the table in docs/performance.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)} (default: all but {', '.join(ASKED_FOR)})")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help='write {"NAME": {"KEY": number}}')
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="update the table of this page")
    parser.add_argument("--quick", action="store_true", help="short loops: shows that the benchmarks work, the numbers are worth little")
    parser.add_argument("--short", action="store_true", help="evaluation and history: one minute of the recording instead of ten")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    results: dict[str, dict[str, Number]] = {}
    failed = False
    for name in options.names or [name for name in BENCHMARKS if name not in ASKED_FOR]:
        started = time.monotonic()
        try:
            with Bench(quick=options.quick, short=options.short) as bench:
                try:
                    results[name] = BENCHMARKS[name].run(bench)
                finally:
                    for note in bench.notes:
                        print(f"  {note}")
        except Unavailable as error:
            print(f"{name}: not run: {error}", file=sys.stderr)
            failed = True
            continue
        for line in rows(name, results[name]):
            _, _, key, value, unit, *_ = (cell.strip(" `") for cell in line.split("|"))
            print(f"{name}.{key} = {value} {unit}")
        print(f"  ({name}: {time.monotonic() - started:.0f} s)", flush=True)
    if options.json:
        options.json.write_text(json.dumps({name: {key: number.value for key, number in numbers.items()} for name, numbers in results.items()}, indent=1) + "\n")
    if options.markdown:
        update_page(options.markdown, results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
