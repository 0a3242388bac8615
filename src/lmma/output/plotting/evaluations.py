"""Plot of the evaluations in an archive: values and failures in order, and the best points as lines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma._text import one_line
from lmma.output.plotting.style import COLOURS, style_axes, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lmma.output.plotting.figure import Figure

MOST_AXES = 20  # variables drawn as parallel coordinates
MOST_LABELS = 10  # texts on one axis
LONGEST_LABEL = 16  # characters


def evaluations(
    values: Sequence[float | None],
    best: Mapping[str, Sequence[Any]],
    ranges: Mapping[str, tuple[float, float]],
    log: Collection[str] = (),
    *,
    title: str = "",
) -> Figure:
    """Return a figure of the evaluations of an archive.

    Parameters
    ----------
    values : sequence
        Value of each evaluation in order; None for one that failed or is infeasible.
    best : mapping
        Variable -> its values at the best points, the best first.
    ranges : mapping
        Variable -> smallest and largest value in the archive; only for numbers.
    log : collection of str
        Variables with a logarithmic axis.
    title : str
        Title of the figure.
    """
    from lmma.output.plotting.figure import Figure

    figure = Figure(figsize=(9.0, 6.5), layout="constrained")
    above, below = figure.subplots(2, 1)
    _draw_values(above, values)
    _draw_best(below, best, ranges, log)
    figure.suptitle(title)
    return figure


def _draw_values(axes: Axes, values: Sequence[float | None]) -> None:
    heights = np.array([math.nan if value is None else value for value in values])
    places = np.arange(1, len(heights) + 1)
    known = np.isfinite(heights)
    axes.plot(places[known], heights[known], ".", color="0.6", markersize=3, label="values", rasterized=True)
    lowest = list(itertools.accumulate(np.where(known, heights, math.inf).tolist(), min))
    axes.plot(places, [y if math.isfinite(y) else math.nan for y in lowest], color=COLOURS[0], label="best")
    if not known.all():
        transform = axes.get_xaxis_transform()
        axes.plot(
            places[~known], np.zeros(np.count_nonzero(~known)), "|", color=COLOURS[1], markersize=8,
            transform=transform, clip_on=False, label="failed or infeasible",
        )  # fmt: skip
    if known.any() and heights[known].min() > 0 and heights[known].max() > 50 * heights[known].min():
        axes.set_yscale("log")
    axes.set_xlabel("evaluations")
    axes.set_ylabel("value")
    axes.xaxis.set_major_formatter(lambda value, _: thousands(value))
    axes.legend(frameon=False, loc="upper right", fontsize=8)
    style_axes(axes)


def _draw_best(
    axes: Axes,
    best: Mapping[str, Sequence[Any]],
    ranges: Mapping[str, tuple[float, float]],
    log: Collection[str],
) -> None:
    """Draw a line per point across one axis per variable, each scaled to the values in the archive."""
    names = list(best)[:MOST_AXES]
    scaled = [_positions(best[name], ranges.get(name), name in log) for name in names]
    count = len(scaled[0]) if scaled else 0
    for k in reversed(range(count)):
        colour, width = (COLOURS[0], 2.0) if k == 0 else ("0.7", 0.8)
        axes.plot(range(len(names)), [column[k] for column in scaled], color=colour, linewidth=width)
    for place, name in enumerate(names):
        axes.axvline(place, color="0.85", linewidth=0.8, zorder=0)
        for at, text in _labels(best[name], ranges.get(name)):
            align = "top" if at == 0.0 else "bottom" if at == 1.0 else "center"
            axes.annotate(text, (place, at), fontsize=6, ha="center", va=align, parse_math=False)
    axes.set_xticks(
        range(len(names)), names, rotation=30 if len(names) > 6 else 0, fontsize=8, parse_math=False
    )
    axes.set_ylim(-0.08, 1.08)
    axes.set_yticks([])
    more = f", the first {MOST_AXES} of {len(best):,} variables" if len(best) > MOST_AXES else ""
    axes.set_ylabel(f"the {count} best points{more}", fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _positions(values: Sequence[Any], limits: tuple[float, float] | None, log: bool) -> list[float]:
    """Return values scaled to [0, 1]; texts are spread evenly in alphabetical order."""
    if limits is None:
        known = _texts(values)
        return [known.index(str(value)) / max(1, len(known) - 1) for value in values]
    if log and limits[0] > 0:
        values, limits = [math.log(value) for value in values], (math.log(limits[0]), math.log(limits[1]))
    low, high = limits
    return [0.5 if high == low else (float(value) - low) / (high - low) for value in values]


def _labels(values: Sequence[Any], limits: tuple[float, float] | None) -> list[tuple[float, str]]:
    """Return the positions and texts of the labels of an axis: both ends, or each text."""
    if limits is not None:
        return [(at, f"{end:.3g}") for at, end in zip((0.0, 1.0), limits, strict=True)]
    known = _texts(values)
    if len(known) > MOST_LABELS:
        return []
    return [(k / max(1, len(known) - 1), one_line(text, LONGEST_LABEL)) for k, text in enumerate(known)]


def _texts(values: Sequence[Any]) -> list[str]:
    return sorted({str(value) for value in values})
