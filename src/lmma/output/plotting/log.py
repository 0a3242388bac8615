"""A run in four panels: value, step size, step lengths, speed; under noise also quality and treatment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lmma.output.plotting.style import COLOURS, quieten, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = Mapping[str, Sequence[float | None]]


def panels(columns: Columns, *, title: str = "") -> Figure:
    """Return a figure of the records of a log; a vertical line marks each restart.

    Parameters
    ----------
    columns : mapping
        ``evaluations, best_fun, sigma, step, seconds, restarts``, one list each, None where a number is
        not finite; ``quality, rate, repeats`` where noise was looked for.
    title : str
        What stands above the figure.
    """
    from matplotlib.figure import Figure  # and not pyplot, which keeps global state

    noisy = any(value is not None and value < 1 for value in columns.get("quality", ()))
    figure = Figure(figsize=(9.0, 9.0 if noisy else 6.0), layout="constrained")
    axes = figure.subplots(3 if noisy else 2, 2, sharex=True)
    rates = _rates(columns)
    evaluations = [float(value or 0) for value in columns["evaluations"]]
    shown = [
        (axes[0, 0], "best value", columns["best_fun"], COLOURS[0]),
        (axes[0, 1], r"step size $\sigma$", columns["sigma"], COLOURS[1]),
        (axes[1, 0], "step length a coordinate", columns["step"], COLOURS[2]),
        (axes[1, 1], "evaluations a second", rates, COLOURS[3]),
    ]
    if noisy:
        shown.append((axes[2, 0], "agreement of repeated ranks", columns["quality"], COLOURS[0]))
        shown.append((axes[2, 1], "learning rate of the mean", columns["rate"], COLOURS[1]))
    for place, label, values, colour in shown:
        linear = values is rates or (noisy and values is columns["quality"])
        _draw(place, evaluations, values, colour, linear=linear)
        place.set_ylabel(label)
        for at in _changes(evaluations, columns.get("restarts", ())):
            place.axvline(at, color="0.7", linewidth=0.8, zorder=0)
        quieten(place)
    axes[1, 1].set_ylim(bottom=0)
    if noisy and max(float(value or 1) for value in columns["repeats"]) > 1:
        _draw(axes[2, 1], evaluations, columns["repeats"], COLOURS[2], linear=False)
        axes[2, 1].set_ylabel("learning rate of the mean; repeats")
    for place in axes[-1]:
        place.set_xlabel("evaluations")
        place.xaxis.set_major_formatter(thousands)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw(
    axes: Axes, evaluations: Sequence[float], values: Sequence[float | None], colour: str, *, linear: bool
) -> None:
    points = [(x, y) for x, y in zip(evaluations, values, strict=True) if y is not None and math.isfinite(y)]
    if not points:
        axes.text(0.5, 0.5, "nothing yet", transform=axes.transAxes, ha="center", color="0.5")
        return
    x, y = zip(*points, strict=True)
    axes.plot(x, y, color=colour, linewidth=1.4, marker="o" if len(x) == 1 else None, markersize=4)
    if not linear and min(y) > 0 and max(y) > 20 * min(y):
        axes.set_yscale("log")


def _rates(columns: Columns) -> list[float | None]:
    """Return evaluations per second between each record and the one before."""
    rates: list[float | None] = []
    before = (0.0, 0.0)
    for count, seconds in zip(columns["evaluations"], columns["seconds"], strict=True):
        here = (float(count or 0), float(seconds or 0))
        rates.append((here[0] - before[0]) / (here[1] - before[1]) if here[1] > before[1] else None)
        before = here
    return rates


def _changes(evaluations: Sequence[float], restarts: Sequence[float | None]) -> list[float]:
    """Return where the number of restarts grew."""
    return [x for x, a, b in zip(evaluations[1:], restarts, restarts[1:], strict=False) if a != b]
