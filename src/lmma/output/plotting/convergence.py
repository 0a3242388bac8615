"""Convergence plots of one or several runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from lmma.output.plotting import noisy_figures as noise
from lmma.output.plotting.style import COLOURS, assign_styles, draw_violation, style_axes, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lmma.output.plotting.figure import Figure

MOST = 80  # maximum number of variables in a figure

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

    If noise was found, the average of recent candidates is drawn with the best observed value, and two more
    panels show the rank quality and the noise treatment.

    Parameters
    ----------
    records : mapping
        One record, as :meth:`lmma.run.observers.Recorder.columns` gives it, or label -> record for several.
    target : float, optional
        Target value, drawn as a horizontal line.
    title : str
        Title of the figure.
    variables : sequence of (name, position, value)
        Variables for an additional panel, each with its position between its limits, 0 to 1.
    answer : (evaluations, value, standard error), optional
        Result of a noisy run.

    Notes
    -----
    The scale is logarithmic if all values are positive, otherwise linear. For noisy runs the averages decide:
    a best observed value that is not positive is then outside the figure.
    """
    from lmma.output.plotting.figure import Figure

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
    style = assign_styles(list(runs))
    lowest = min(
        (_draw(above, below, style[name], name, run) for name, run in runs.items()), default=math.inf
    )
    if 0 < lowest < math.inf:
        above.set_yscale("log")
    if lowest < math.inf:
        below.set_yscale("log")
    else:
        above.text(0.5, 0.5, "all evaluations failed", transform=above.transAxes, ha="center")
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
        style_axes(place)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw(above: Axes, below: Axes, style: tuple[str, str], label: str, columns: Columns) -> float:
    """Draw one run; return its lowest value (lowest average if noisy), or infinity if there is none."""
    points = [
        point
        for point in zip(columns["evaluations"], columns["best_fun"], columns["sigma"], strict=True)
        if math.isfinite(point[1])  # infinite before the first success
    ]
    draw_violation(below, columns["evaluations"], columns.get("violation", ()))
    if not points:
        return math.inf
    evaluations, values, sigmas = zip(*points, strict=True)
    colour, marker = style
    averaged = noise.averages(columns)
    # with a damped mean, sigma alternates between two values: a thick line would look like a band
    below.plot(evaluations, sigmas, color=colour, linewidth=0.6 if averaged else 1.2)
    if averaged:
        noise.draw_values(above, columns, averaged, style, label)
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
    """Draw rank quality and noise treatment in the lower panels, and the result in the upper one."""
    above, _, quality, treatment = axes
    labels = []
    for name, columns in runs.items():
        noise.draw_quality(quality, columns, style[name][0])
        labels.append(noise.draw_treatment(treatment, columns, style[name][0]))
    quality.set_ylabel("rank quality")
    treatment.set_ylabel(", ".join(dict.fromkeys(labels)))
    target, answer = marked
    if answer is not None:
        noise.mark_answer(above, *answer)
    if any(noise.averages(columns) for columns in runs.values()):
        above.set_ylabel("value" if "" in runs else "value (best observed dashed)")
        noise.fit_to_averages(above, runs.values(), [target, None if answer is None else answer[1]])


def _show(axes: Axes, variables: Sequence[tuple[str, float, str]], hidden: int) -> None:
    """Draw the position of each variable between its limits, with its name and value; the first on top."""
    places = range(len(variables), 0, -1)
    axes.hlines(places, 0, 1, color="0.88", linewidth=3)
    axes.plot([position for _, position, _ in variables], places, "o", color=COLOURS[0], markersize=4)
    small = 8 if len(variables) <= 30 else 6
    axes.set_yticks(list(places), [name for name, _, _ in variables], fontsize=small)
    for place, (_, _, value) in zip(places, variables, strict=True):
        axes.annotate(value, (1.03, place), va="center", fontsize=small, color="0.3", annotation_clip=False)
    axes.set(xlim=(-0.02, 1.02), ylim=(0.3, len(variables) + 0.7), xticks=(0, 1))
    axes.set_xticklabels(["low", "high"])
    axes.set_xlabel(f"best point ({hidden:,} more variables)" if hidden else "best point")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _mark(axes: Axes, target: float) -> None:
    """Draw a labelled line at the target."""
    axes.axhline(target, color="0.5", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.annotate(
        f"target {target:g}", (0, target), xycoords=("axes fraction", "data"), xytext=(4, 3),
        textcoords="offset points", va="bottom", color="0.4", fontsize=8,
    )  # fmt: skip
