"""Plot of a log in four panels: value, step size, step length, speed; two more for noisy runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from lmma.output.plotting import noisy_figures as noise
from lmma.output.plotting.style import COLOURS, draw_violation, style_axes, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lmma.output.plotting.figure import Figure

Columns = Mapping[str, Sequence[Any]]
NAMED = 12  # maximum number of variables drawn
PERIOD = 0.2  # seconds; records of the first generations are closer to one another
QUANTILES = 5  # of the steps: minimum, quartiles, maximum


def panels(columns: Columns, *, title: str = "") -> Figure:
    """Return a figure of the records of a log; a vertical line marks each restart.

    Parameters
    ----------
    columns : mapping
        ``evaluations, best_fun, sigma, step, seconds, restarts``, one list each, with None for numbers that
        are not finite; for noisy runs also ``quality, rate, repeats, average_fun``. If there are
        ``positions``, dicts of name: position between limits, a panel shows the variables that moved most.
    title : str
        Title of the figure.
    """
    from lmma.output.plotting.figure import Figure

    named = [positions or {} for positions in columns.get("positions", ())]
    noisy = noise.is_noisy(columns)
    rows = 3 if noisy else 2
    figure = Figure(figsize=(9.0, 3.0 * (rows + any(named))), layout="constrained")
    above: Any = figure
    if any(named):
        above, below = cast(Any, figure.subfigures(2, 1, height_ratios=(rows, 1)))
        _draw_variables(below.subplots(), [float(value or 0) for value in columns["evaluations"]], named)
    axes = above.subplots(rows, 2, sharex=True)
    rates = _rates(columns)
    evaluations = [float(value or 0) for value in columns["evaluations"]]
    relative = _relative_steps(columns)
    shown = [
        (axes[0, 0], "best value", columns["best_fun"], COLOURS[0]),
        (axes[0, 1], r"step size $\sigma$", columns["sigma"], COLOURS[1]),
        (axes[1, 0], "step length per coordinate", columns["step"], COLOURS[2])
        if relative is None
        else (axes[1, 0], "median step / width of the bounds", relative, COLOURS[2]),
        (axes[1, 1], "evaluations/s", rates, COLOURS[3]),
    ]
    for place, label, values, colour in shown:
        _draw(place, evaluations, values, colour, linear=values is rates)
        place.set_ylabel(label)
        if values is columns["sigma"]:
            draw_violation(place, evaluations, columns.get("violation", ()))
    if noisy:
        _show_noise(axes, columns)
    for place in axes.flat:
        for at in _changes(evaluations, columns.get("restarts", ())):
            place.axvline(at, color="0.7", linewidth=0.8, zorder=0)
        style_axes(place)
    axes[1, 1].set_ylim(bottom=0)
    for place in axes[-1]:
        place.set_xlabel("evaluations")
        place.xaxis.set_major_formatter(thousands)
        if noisy:
            place.locator_params(axis="x", nbins=6)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _relative_steps(columns: Columns) -> list[float | None] | None:
    """Return the median steps relative to the bounds; None if lengths are in the units of the variables."""
    if not any(isinstance(run, dict) and run.get("relative") is True for run in columns.get("run", ())):
        return None
    medians = [
        steps[2] if isinstance(steps, list) and len(steps) == QUANTILES else None
        for steps in columns.get("steps", ())
    ]
    numbers = [float(value) if isinstance(value, int | float) else None for value in medians]
    return numbers if any(value is not None for value in numbers) else None


def _show_noise(axes: Any, columns: Columns) -> None:
    """Draw rank quality and noise treatment in two more panels, and averages instead of the best value."""
    noise.draw_quality(axes[2, 0], columns, COLOURS[4])
    axes[2, 0].set_ylabel("rank quality")
    axes[2, 1].set_ylabel(noise.draw_treatment(axes[2, 1], columns, COLOURS[5]))
    if averaged := noise.averages(columns):
        place = axes[0, 0]
        place.clear()
        noise.draw_values(place, columns, averaged, (COLOURS[0], "o"))
        if min(filter(math.isfinite, averaged)) > 0:
            place.set_yscale("log")
        noise.fit_to_averages(place, [columns])
        place.set_ylabel("value")
        place.legend(frameon=False, fontsize=8, loc="upper right")


def _draw(
    axes: Axes, evaluations: Sequence[float], values: Sequence[float | None], colour: str, *, linear: bool
) -> None:
    points = [(x, y) for x, y in zip(evaluations, values, strict=True) if y is not None and math.isfinite(y)]
    if not points:
        axes.text(0.5, 0.5, "no data yet", transform=axes.transAxes, ha="center", color="0.5")
        return
    x, y = zip(*points, strict=True)
    axes.plot(x, y, color=colour, linewidth=1.4, marker="o" if len(x) == 1 else None, markersize=4)
    if not linear and min(y) > 0 and max(y) > 20 * min(y):
        axes.set_yscale("log")


def _draw_variables(axes: Any, evaluations: Sequence[float], named: Sequence[Mapping[str, Any]]) -> None:
    """Draw the positions of the best point's variables between their limits, for those that moved most."""
    tracks = {
        name: [(x, y) for x, at in zip(evaluations, named, strict=True) if (y := at.get(name)) is not None]
        for name in dict.fromkeys(name for at in named for name in at)
    }
    moved = {
        name: max(y for _, y in track) - min(y for _, y in track) for name, track in tracks.items() if track
    }
    shown = sorted(moved, key=lambda name: -moved[name])[:NAMED]
    for number, name in enumerate(name for name in moved if name in shown):
        places, heights = [x for x, _ in tracks[name]], [y for _, y in tracks[name]]
        axes.step(places, heights, where="post", color=COLOURS[number % len(COLOURS)], linewidth=1.2,
                  linestyle="-" if number < len(COLOURS) else "--", label=name)  # fmt: skip
    more = len(moved) - len(shown)
    axes.set(ylim=(-0.03, 1.03), yticks=(0, 1), xlabel="evaluations")
    axes.set_yticklabels(["low", "high"])
    axes.set_ylabel(f"best point ({more:,} more variables)" if more > 0 else "best point")
    axes.xaxis.set_major_formatter(lambda value, _: thousands(value))
    style_axes(axes)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _rates(columns: Columns) -> list[float | None]:
    """Return the evaluations per second before each record, over at least ``PERIOD`` seconds if possible."""
    rates: list[float | None] = []
    earlier = [(0.0, 0.0)]
    first = 0
    for count, seconds in zip(columns["evaluations"], columns["seconds"], strict=True):
        here = (float(count or 0), float(seconds or 0))
        while first + 1 < len(earlier) and here[1] - earlier[first + 1][1] >= PERIOD:
            first += 1
        before = earlier[first]
        rates.append((here[0] - before[0]) / (here[1] - before[1]) if here[1] > before[1] else None)
        earlier.append(here)
    return rates


def _changes(evaluations: Sequence[float], restarts: Sequence[float | None]) -> list[float]:
    """Return the evaluations at which the number of restarts changed."""
    return [x for x, a, b in zip(evaluations[1:], restarts, restarts[1:], strict=False) if a != b]
