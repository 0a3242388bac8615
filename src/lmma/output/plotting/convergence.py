"""How a run, or several beside one another, came down."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from lmma.output.plotting import noisy_figures as noise
from lmma.output.plotting.style import COLOURS, draw_violation, looks, quieten, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 80  # variables that a figure has room for

Columns = Mapping[str, Sequence[float]]  # as history.Recorder.columns() gives them


def convergence(
    records: Columns | Mapping[str, Columns],
    *,
    target: float | None = None,
    title: str = "",
    variables: Sequence[tuple[str, float, str]] = (),
    answer: tuple[float, float, float] | None = None,
) -> Figure:
    """Return a figure of the best value and, below it, the step size over evaluations.

    Where noise was found, the average of recent candidates is drawn beside the luckiest value, and below the
    step size how far ranks can be trusted and what was done about it.

    Parameters
    ----------
    records : mapping
        One record, as :meth:`lmma.run.observers.Recorder.columns` gives it, or label -> record for several.
    target : float, optional
        Where to draw the target.
    title : str
        What stands above the figure.
    variables : sequence of (name, position, value)
        Variables to show beside it, each at its position between its limits, 0 to 1.
    answer : (evaluations, value, standard error), optional
        What a noisy run returned.

    Notes
    -----
    Values are shown on a logarithmic scale if all of them are positive, on a linear one otherwise. Under
    noise the averages decide that: a lucky value that is not positive is then below the figure.
    """
    from matplotlib.figure import Figure  # and not pyplot, which keeps global state

    one = "evaluations" in records
    runs = {"": cast(Columns, records)} if one else cast(Mapping[str, Columns], records)
    shown = variables[:MOST]
    noisy = [name for name, run in runs.items() if noise.is_noisy(run)]
    height = 7.4 if noisy else 5.0
    size = (11.0, max(height, 1.0 + 0.17 * len(shown))) if shown else (7.2, height)
    figure = Figure(figsize=size, layout="constrained")
    left: Any = figure
    if shown:
        left, right = cast(Any, figure.subfigures(1, 2, width_ratios=(1.25, 1)))
        _show(right.subplots(), shown, len(variables) - len(shown))
    ratios = (2.2, 1, 1, 1) if noisy else (2.2, 1)
    axes = left.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
    above, below = axes[:2]
    style = looks(list(runs))
    lowest = min(
        (_draw(above, below, style[name], name, run) for name, run in runs.items()), default=math.inf
    )
    if 0 < lowest < math.inf:
        above.set_yscale("log")
    if lowest < math.inf:
        below.set_yscale("log")
    else:
        above.text(0.5, 0.5, "no evaluation gave a number", transform=above.transAxes, ha="center")
    if target is not None and (target > 0 or lowest <= 0):
        _mark(above, target)
    above.set_ylabel("best value")
    below.set_ylabel(r"step size $\sigma$")
    if noisy:
        _show_noise(axes, {name: runs[name] for name in noisy}, style, (target, answer))
    if (noisy or not one) and above.get_legend_handles_labels()[0]:
        above.legend(frameon=False, loc="upper right")
    axes[-1].set_xlabel("evaluations")
    axes[-1].xaxis.set_major_formatter(thousands)
    axes[-1].set_xlim(left=0)
    for place in axes:
        quieten(place)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw(above: Axes, below: Axes, look: tuple[str, str], label: str, columns: Columns) -> float:
    """Draw one run; return its lowest value, under noise its lowest average; infinity if it found none."""
    points = [
        point
        for point in zip(columns["evaluations"], columns["best_fun"], columns["sigma"], strict=True)
        if math.isfinite(point[1])  # nothing to show before the first number
    ]
    draw_violation(below, columns["evaluations"], columns.get("violation", ()))
    if not points:
        return math.inf
    evaluations, values, sigmas = zip(*points, strict=True)
    colour, marker = look
    averaged = noise.averages(columns)
    # Two step sizes take turns where the mean is damped: a thick line of them would be a band
    below.plot(evaluations, sigmas, color=colour, linewidth=0.6 if averaged else 1.2)
    if averaged:
        noise.draw_values(above, columns, averaged, look, label)
        return min(value for value in averaged if math.isfinite(value))
    above.plot(evaluations, values, color=colour, linewidth=1.8, marker=marker, markevery=[-1], markersize=5,
               label=label)  # fmt: skip
    return float(min(values))


def _show_noise(
    axes: Sequence[Axes],
    runs: Mapping[str, Columns],
    style: Mapping[str, tuple[str, str]],
    marked: tuple[float | None, tuple[float, float, float] | None],
) -> None:
    """Draw quality and treatment below, and name what there is above."""
    above, _, quality, treatment = axes
    done = []
    for name, columns in runs.items():
        noise.draw_quality(quality, columns, style[name][0])
        done.append(noise.draw_treatment(treatment, columns, style[name][0]))
    quality.set_ylabel("quality")
    treatment.set_ylabel(", ".join(dict.fromkeys(done)))
    target, answer = marked
    if answer is not None:
        noise.mark_answer(above, *answer)
    if any(noise.averages(columns) for columns in runs.values()):
        above.set_ylabel("value" if "" in runs else "value, luckiest dashed")
        noise.leave_luck_below(above, runs.values(), [target, None if answer is None else answer[1]])


def _show(axes: Axes, variables: Sequence[tuple[str, float, str]], hidden: int) -> None:
    """Draw where each variable lies between its limits, the first on top, with its name and its value."""
    places = range(len(variables), 0, -1)
    axes.hlines(places, 0, 1, color="0.88", linewidth=3)
    axes.plot([position for _, position, _ in variables], places, "o", color=COLOURS[0], markersize=4)
    small = 8 if len(variables) <= 30 else 6
    axes.set_yticks(list(places), [name for name, _, _ in variables], fontsize=small)
    for place, (_, _, value) in zip(places, variables, strict=True):
        axes.annotate(value, (1.03, place), va="center", fontsize=small, color="0.3", annotation_clip=False)
    axes.set(xlim=(-0.02, 1.02), ylim=(0.3, len(variables) + 0.7), xticks=(0, 1))
    axes.set_xticklabels(["low", "high"])
    axes.set_xlabel(f"best so far, and {hidden:,} more" if hidden else "best so far")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _mark(axes: Axes, target: float) -> None:
    """Draw a line at the target and name it."""
    axes.axhline(target, color="0.5", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.annotate(
        f"target {target:g}", (0, target), xycoords=("axes fraction", "data"), xytext=(4, 3),
        textcoords="offset points", va="bottom", color="0.4", fontsize=8,
    )  # fmt: skip
