"""Writes docs/evaluation.md and its figures from one run of the benchmark `evaluation`."""
from __future__ import annotations

import pathlib
from typing import Any, Mapping

import figures
from support import Key, Number, short

NOTES = "<!-- notes: begin -->", "<!-- notes: end -->"

HEAD = """# The paper's evaluation

"Friday: Global Comprehension for Distributed Replay" (NSDI 2007), section 5, on this machine: two cores of a virtual machine without performance
counters, {busy}. Written by one run of

    /usr/bin/python3 tests/bench/run.py evaluation{option}

## What was replayed

A ring of {nodes} nodes (`tests/apps/chord`), all on one machine. It came together in {together} s and was then recorded for {seconds} s, in which
{kills} nodes were killed (SIGKILL) and restarted under their name, id and port: {killed}. A client, not recorded, asks {rate:g} times a second.
The load, counted in the recording by watching every store:

| | at least | here |
|---|---|---|
| writes of the watched variable (`{watched}`), a node and second | 1 | {writes:.2f} |
| other writes of its page, to each of these | 3.7 | {others:.1f} |
| deliveries in the ring, a second | 10 | {deliveries:.1f} |

All replays are in `clock` sync: one total order of all events of all nodes, so each handler sees a consistent cut.

## Results

| key | what | paper | aim | measured |
|---|---|---|---|---|
"""

METHOD = """
Ratios are times of a replay with it / without, mean ± standard deviation over six periods of {period:g} s of the recording; each
period's time is the best of {replays} replays, with and without in turn. `_added_us` is the difference over all periods / hits, so false positives,
reads and Python are in it; setting stop points up and the time in which the ring comes together are not. `plain_speedup` counts the recorded seconds
of the same periods. The paper's replay was three times slower than real time (0.32), and its ratios are relative to that. Here the plain replay takes {plain_ms:.2f} ms for a recorded second of {nodes} nodes, so that the same
work at a hit is a larger ratio: compare the added microseconds.

{details}
## Figures

The paper's figure 5: how often the watches of a share of the nodes are hit, and how often a store beside them faults, in a second of the recording.

![Rates against the share of nodes watched](evaluation-rates.png)

Its figure 6: what that does to the speed of the replay.

![Slowdown against the share of nodes watched](evaluation-slowdown.png)
"""


def write(place: pathlib.Path, ring: Any, numbers: Mapping[str, Number], details: Mapping[str, Mapping[str, int]],
          shares: Mapping[str, Mapping[int, tuple[float, float]]], keys: Mapping[str, Key], paper: Mapping[str, str]) -> None:
    size = ring.size
    text = HEAD.format(nodes=size.nodes, together=size.together, seconds=size.seconds, kills=len(ring.killed), killed=", ".join(ring.killed), rate=size.rate,
                       watched="srv.unanswered", option=" --short" if size.seconds < 600 else "",
                       busy=f"at a load of {ring.busy:.1f} when it began", **ring.load)
    for key, about in keys.items():
        if key in numbers:
            number = numbers[key]
            value = short(number.value) + (f" ± {short(number.spread)}" if number.count > 1 else "") + (f" {about.unit}" if about.unit else "")
            text += f"| `{key}` | {about.meaning} | {paper.get(key, '')} | {about.aim} | {value} |\n"
    counted = "".join(f"- {name}: " + ", ".join(f"{value} {what}" for what, value in found.items()) + "\n" for name, found in details.items())
    text += METHOD.format(period=size.seconds / 6, replays=size.replays, nodes=size.nodes, plain_ms=1000 / numbers["plain_speedup"].value,
                          details="What was counted in the six periods (of predicates, in the whole replay):\n\n" + counted)
    page = place / "evaluation.md"
    page.write_text(text + "\n" + kept_notes(page))
    figures.lines(place / "evaluation-rates.png", {name: {share: rate for share, (rate, _) in points.items()} for name, points in shares.items()
                                                   if name in ("false_positive", "null")}, x="nodes watched, %", y="a recorded second")
    figures.lines(place / "evaluation-slowdown.png", {name: {share: slow for share, (_, slow) in points.items()} for name, points in shares.items()},
                  x="nodes watched, %", y="time of the replay / plain")


def kept_notes(page: pathlib.Path) -> str:
    """The notes on the results that people have written into the page. They are kept when the page is written again."""
    begin, end = NOTES
    old = page.read_text() if page.exists() else ""
    inside = old.split(begin, 1)[1].split(end, 1)[0] if begin in old and end in old else "\n"
    return begin + inside + end + "\n"
