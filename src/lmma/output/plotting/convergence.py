"""How a run, or several beside one another, came down."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from lmma.output.plotting.style import COLOURS, quieten, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = Mapping[str, Sequence[float]]  # as history.Recorder.columns() gives them


def convergence(
    records: Columns | Mapping[str, Columns],
    *,
    target: float | None = None,
    title: str = "",
) -> Figure:
    """Return a figure of the best value and, below it, the step size over evaluations.

    Parameters
    ----------
    records : mapping
        One record, as :meth:`lmma.run.observers.Recorder.columns` gives it, or label -> record for several.
    target : float, optional
        Where to draw the target.
    title : str
        What stands above the figure.

    Notes
    -----
    Values are shown on a logarithmic scale if all of them are positive, on a linear one otherwise.
    """
    from matplotlib.figure import Figure  # and not pyplot, which keeps global state

    one = "evaluations" in records
    runs = {"": cast(Columns, records)} if one else cast(Mapping[str, Columns], records)
    figure = Figure(figsize=(7.2, 5.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
    lowest = min((_draw(above, below, COLOURS[i % len(COLOURS)], *run) for i, run in enumerate(runs.items())),
                 default=math.inf)  # fmt: skip
    if 0 < lowest < math.inf:
        above.set_yscale("log")
    if lowest < math.inf:
        below.set_yscale("log")
    else:
        above.text(0.5, 0.5, "no evaluation gave a number", transform=above.transAxes, ha="center")
    if target is not None and (target > 0 or lowest <= 0):
        _mark(above, target)
    if not one and above.get_legend_handles_labels()[0]:
        above.legend(frameon=False, loc="upper right")
    above.set_ylabel("best value")
    below.set_ylabel(r"step size $\sigma$")
    below.set_xlabel("evaluations")
    below.xaxis.set_major_formatter(thousands)
    below.set_xlim(left=0)
    quieten(above)
    quieten(below)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw(above: Axes, below: Axes, colour: str, label: str, columns: Columns) -> float:
    """Draw one run; return its lowest value, infinity if it found none."""
    points = [
        point
        for point in zip(columns["evaluations"], columns["best_fun"], columns["sigma"], strict=True)
        if math.isfinite(point[1])  # nothing to show before the first number
    ]
    _draw_violation(below, columns)
    if not points:
        return math.inf
    evaluations, values, sigmas = zip(*points, strict=True)
    above.plot(evaluations, values, color=colour, linewidth=1.8, label=label)
    above.plot(evaluations[-1:], values[-1:], "o", color=colour, markersize=4)
    below.plot(evaluations, sigmas, color=colour, linewidth=1.2)
    return float(min(values))


def _draw_violation(axes: Axes, columns: Columns) -> None:
    """Draw how far the best point was from feasible, where there are constraints and it was not."""
    violations = columns.get("violation", ())
    points = [(x, y) for x, y in zip(columns["evaluations"], violations, strict=False) if 0 < y < math.inf]
    if points:
        x, y = zip(*points, strict=True)
        axes.plot(x, y, color="0.4", linewidth=1.2, linestyle=(0, (4, 3)), label="violation of the best")
        axes.set_yscale("log")
        axes.legend(frameon=False, loc="upper right", fontsize=8)


def _mark(axes: Axes, target: float) -> None:
    """Draw a line at the target and name it."""
    axes.axhline(target, color="0.5", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.annotate(
        f"target {target:g}", (0, target), xycoords=("axes fraction", "data"), xytext=(4, 3),
        textcoords="offset points", va="bottom", color="0.4", fontsize=8,
    )  # fmt: skip
