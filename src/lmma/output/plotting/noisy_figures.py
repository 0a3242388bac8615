"""What figures of noisy runs have besides: averages beside lucky values, quality, treatment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Columns = Mapping[str, Sequence[Any]]

ROOM = 10.0  # below the lowest average, on a logarithmic scale: luck may reach any depth there
THIN = 0.9  # of the line of a lucky value


def is_noisy(columns: Columns) -> bool:
    """Return whether repeated rankings have ever differed."""
    return any(value is not None and value < 1 for value in columns.get("quality", ()))


def averages(columns: Columns) -> list[float]:
    """Return the averages of recent candidates, NaN where there was none; empty if there never was."""
    found = _numbers(columns.get("average_fun", ()))
    return found if any(map(math.isfinite, found)) else []


def treatment(columns: Columns) -> tuple[str, list[float]]:
    """Return what was done about the noise, in words for an axis, and how much of it over time."""
    repeats = _numbers(columns.get("repeats", ()))
    if max(repeats, default=1.0) > 1.0:
        return ("population / first" if _grows(columns) else "repeats"), repeats
    return "learning rate", _numbers(columns.get("rate", [1.0] * len(columns["evaluations"])))


def draw_values(
    axes: Axes, columns: Columns, averaged: Sequence[float], look: tuple[str, str], label: str = ""
) -> None:
    """Draw averages, and thin beside them the luckiest value; without a label both are named."""
    colour, sign = look
    lucky = _numbers(columns["best_fun"])
    fell = min(filter(math.isfinite, averaged)) > 0 >= min(filter(math.isfinite, lucky), default=0.0)
    luck = "luckiest value, later 0 or less" if fell else "luckiest value"
    ends = [k for k, value in enumerate(averaged) if math.isfinite(value)][-1:]
    axes.plot(columns["evaluations"], averaged, color=colour, linewidth=1.8, marker=sign, markevery=ends,
              markersize=5, label=label or "average of recent candidates", zorder=3)  # fmt: skip
    axes.plot(columns["evaluations"], lucky, color=colour, linewidth=THIN, linestyle=(0, (4, 1.5)),
              label="_" if label else luck)  # fmt: skip


def mark_answer(axes: Axes, evaluations: float, value: float, error: float) -> None:
    """Draw what a run returned, with its standard error."""
    axes.errorbar([evaluations], [value], yerr=[error], color="black", marker="D", markersize=4,
                  linewidth=1.2, capsize=3, linestyle="none", label=f"result, {value:.3g} ± {error:.2g}",
                  zorder=4)  # fmt: skip


def leave_luck_below(axes: Axes, runs: Iterable[Columns], marked: Iterable[float | None] = ()) -> None:
    """Let the averages and what is ``marked`` decide how far a logarithmic scale reaches down."""
    if axes.get_yscale() != "log":
        return
    kept = [value for columns in runs for value in averages(columns) or _numbers(columns["best_fun"])]
    lowest = min(value for value in kept if value > 0)
    low, _ = axes.get_ylim()
    axes.set_ylim(bottom=max(low, min([lowest, *(v for v in marked if v is not None and v > 0)]) / ROOM))


def draw_quality(axes: Axes, columns: Columns, colour: str) -> None:
    """Draw how well repeated rankings agree: 1 without noise, 0 by chance."""
    values = _numbers(columns["quality"])
    axes.plot(columns["evaluations"], values, color=colour, linewidth=1.2)
    lowest = min(filter(math.isfinite, [0.0, *values]))
    axes.set_ylim(min(lowest - 0.05, axes.get_ylim()[0]), 1.05)
    axes.set_yticks((0, 0.5, 1))


def draw_treatment(axes: Axes, columns: Columns, colour: str) -> str:
    """Draw what was done about the noise; return its name."""
    name, values = treatment(columns)
    axes.plot(columns["evaluations"], values, color=colour, linewidth=1.2)
    there = [value for value in values if 0 < value < math.inf]
    if there and max(there) > 10 * min(there):
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
