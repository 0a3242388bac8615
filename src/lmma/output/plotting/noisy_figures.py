"""Additional elements in figures of noisy runs: averages, rank quality, noise treatment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Columns = Mapping[str, Sequence[Any]]

ROOM = 10.0  # factor below the lowest average on a logarithmic scale: best observed values can be far lower
THIN = 0.9  # line width of the best observed value


def is_noisy(columns: Columns) -> bool:
    """Return whether repeated rankings ever differed."""
    return any(value is not None and value < 1 for value in columns.get("quality", ()))


def averages(columns: Columns) -> list[float]:
    """Return the average value of recent candidates per record, NaN if missing; empty without any."""
    found = _numbers(columns.get("average_fun", ()))
    return found if any(map(math.isfinite, found)) else []


def treatment(columns: Columns) -> tuple[str, list[float]]:
    """Return the noise treatment: its axis label and its strength over time."""
    repeats = _numbers(columns.get("repeats", ()))
    if max(repeats, default=1.0) > 1.0:
        return ("population / initial" if _grows(columns) else "repeats"), repeats
    return "learning rate", _numbers(columns.get("rate", [1.0] * len(columns["evaluations"])))


def draw_values(
    axes: Axes, columns: Columns, averaged: Sequence[float], style: tuple[str, str], label: str = ""
) -> None:
    """Draw the averages and, as a thin line, the best observed value; ``label`` replaces both labels."""
    colour, marker = style
    best_observed = _numbers(columns["best_fun"])
    fell = min(filter(math.isfinite, averaged)) > 0 >= min(filter(math.isfinite, best_observed), default=0.0)
    name = "best observed value, later 0 or less" if fell else "best observed value"
    ends = [k for k, value in enumerate(averaged) if math.isfinite(value)][-1:]
    axes.plot(columns["evaluations"], averaged, color=colour, linewidth=1.8, marker=marker, markevery=ends,
              markersize=5, label=label or "average of recent candidates", zorder=3)  # fmt: skip
    axes.plot(columns["evaluations"], best_observed, color=colour, linewidth=THIN, linestyle=(0, (4, 1.5)),
              label="_" if label else name)  # fmt: skip


def mark_answer(axes: Axes, evaluations: float, value: float, error: float) -> None:
    """Draw the result of a run with its standard error."""
    axes.errorbar([evaluations], [value], yerr=[error], color="black", marker="D", markersize=4,
                  linewidth=1.2, capsize=3, linestyle="none", label=f"result, {value:.3g} ± {error:.2g}",
                  zorder=4)  # fmt: skip


def fit_to_averages(axes: Axes, runs: Iterable[Columns], marked: Iterable[float | None] = ()) -> None:
    """Raise the lower limit of a logarithmic scale to just below the averages and ``marked`` values.

    Under noise, the best observed values are far below the averages and would take most of the scale.
    """
    if axes.get_yscale() != "log":
        return
    kept = [value for columns in runs for value in averages(columns) or _numbers(columns["best_fun"])]
    lowest = min(value for value in kept if value > 0)
    low, _ = axes.get_ylim()
    axes.set_ylim(bottom=max(low, min([lowest, *(v for v in marked if v is not None and v > 0)]) / ROOM))


def draw_quality(axes: Axes, columns: Columns, colour: str) -> None:
    """Draw the rank quality, the agreement of repeated rankings: 1 without noise, 0 for random order."""
    values = _numbers(columns["quality"])
    axes.plot(columns["evaluations"], values, color=colour, linewidth=1.2)
    lowest = min(filter(math.isfinite, [0.0, *values]))
    axes.set_ylim(min(lowest - 0.05, axes.get_ylim()[0]), 1.05)
    axes.set_yticks((0, 0.5, 1))


def draw_treatment(axes: Axes, columns: Columns, colour: str) -> str:
    """Draw the noise treatment; return its axis label."""
    name, values = treatment(columns)
    axes.plot(columns["evaluations"], values, color=colour, linewidth=1.2)
    positive = [value for value in values if 0 < value < math.inf]
    if positive and max(positive) > 10 * min(positive):
        axes.set_yscale("log")
    return name


def _numbers(values: Iterable[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def _grows(columns: Columns) -> bool:
    """Return whether the population changes other than at restarts."""
    sizes = columns.get("popsize", ())
    restarts = columns.get("restarts", [0] * len(sizes))
    return any(
        size != next_size and restart == next_restart
        for (size, restart), (next_size, next_restart) in pairwise(zip(sizes, restarts, strict=True))
    )
