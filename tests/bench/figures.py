"""Draws figures of the benchmarks as small PNG files, with Debian's matplotlib (console/setup.sh --full)."""
from __future__ import annotations

import pathlib
from typing import Any, Mapping, Sequence

SIZE, DOTS = (6.4, 3.8), 80  # in inches, and dots per inch


def start() -> tuple[Any, Any]:
    """Makes a figure and its axes."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=SIZE, dpi=DOTS, layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, path: pathlib.Path) -> None:
    from matplotlib import pyplot
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)


def lines(path: pathlib.Path, series: Mapping[str, Mapping[float, float]], *, x: str, y: str, spread: Mapping[str, Sequence[float]] | None = None) -> None:
    """Draws a line for each name, through the points (x, y). `spread`: the lengths of the error bars."""
    figure, axes = start()
    for (name, points), mark in zip(series.items(), "os^Dv*"):
        axes.errorbar(list(points), list(points.values()), yerr=None if spread is None else spread[name], marker=mark, capsize=3, label=name)
    axes.set(xlabel=x, ylabel=y)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save(figure, path)


def stacks(path: pathlib.Path, bars: Mapping[str, Mapping[str, float]], *, y: str) -> None:
    """Draws a stacked bar for each name."""
    figure, axes = start()
    below = dict.fromkeys(bars, 0.0)
    for part in dict.fromkeys(part for parts in bars.values() for part in parts):
        heights = [bars[name].get(part, 0.0) for name in bars]
        axes.bar(list(bars), heights, bottom=list(below.values()), width=0.6, label=part)
        below = {name: below[name] + height for name, height in zip(bars, heights)}
    axes.set(ylabel=y)
    axes.legend(frameon=False)
    save(figure, path)


def rates_and_slowdown(path: pathlib.Path, found: Mapping[str, Mapping[int, tuple[float, float]]]) -> None:
    """Draws the slowdown of a replay over the share of nodes that are watched, and in grey the rates of hits and of false positives."""
    figure, axes = start()
    rates = axes.twinx()
    for name, style in (("false_positive", "--"), ("null", ":")):
        points = found[name]
        rates.plot(list(points), [rate for rate, _ in points.values()], style, color="grey", label=f"{name}, a second")
    for (name, points), mark in zip(found.items(), "os^D"):
        axes.plot(list(points), [slow for _, slow in points.values()], marker=mark, label=name)
    axes.set(xlabel="nodes watched, %", ylabel="time of the replay / plain")
    rates.set(ylabel="a recorded second (grey)")
    for each in (axes, rates):
        each.set_ylim(bottom=0)
    axes.legend(frameon=False)
    save(figure, path)
