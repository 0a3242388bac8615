"""Learning curves: the reward of the mean policy over episodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from lmma.output.plotting.style import assign_styles, style_axes, thousands

if TYPE_CHECKING:
    from lmma.output.plotting.figure import Figure

Curve = Mapping[str, Sequence[float]]  # episodes, reward, error, ... of a TrainingResult


def learning_curve(
    curves: Curve | Mapping[str, Curve], *, solved: float | None = None, title: str = "", x: str = "episodes"
) -> Figure:
    """Return a figure of the mean policy's reward, with a band of one standard error.

    Parameters
    ----------
    curves : mapping
        One curve, or label -> curve for several.
    solved : float, optional
        Reward that solves the environment, drawn as a horizontal line.
    title : str
        Title of the figure.
    x : str
        Column of the horizontal axis: ``"episodes"``, ``"steps"`` or ``"evaluations"``.
    """
    from lmma.output.plotting.figure import Figure

    one = "reward" in curves
    runs = {"": cast(Curve, curves)} if one else cast(Mapping[str, Curve], curves)
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes: Any = figure.subplots()
    style = assign_styles(list(runs))
    for label, curve in runs.items():
        colour, marker = style[label]
        points = [
            (at, reward, error if math.isfinite(error) else 0.0)
            for at, reward, error in zip(curve[x], curve["reward"], curve["error"], strict=True)
            if math.isfinite(reward)  # not finite if all episodes failed
        ]
        if not points:
            continue
        places, rewards, errors = (list(column) for column in zip(*points, strict=True))
        low = [reward - error for reward, error in zip(rewards, errors, strict=True)]
        high = [reward + error for reward, error in zip(rewards, errors, strict=True)]
        axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            places,
            rewards,
            color=colour,
            linewidth=1.8,
            marker=marker,
            markevery=[-1],
            markersize=5,
            label=label,
        )
    if not axes.lines:
        axes.text(0.5, 0.5, "all episodes failed", transform=axes.transAxes, ha="center")
    if solved is not None:
        axes.axhline(solved, color="0.5", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        axes.annotate(
            f"solved {solved:g}", (0, solved), xycoords=("axes fraction", "data"), xytext=(4, 3),
            textcoords="offset points", va="bottom", color="0.4", fontsize=8,
        )  # fmt: skip
    if not one and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="lower right")
    axes.set_ylabel("reward of the mean policy (fresh episodes)")
    axes.set_xlabel(f"{x} of candidates" if x == "episodes" else x)
    axes.xaxis.set_major_formatter(thousands)
    axes.set_xlim(left=0)
    style_axes(axes)
    if title:
        axes.set_title(title, fontsize=11)
    return figure
