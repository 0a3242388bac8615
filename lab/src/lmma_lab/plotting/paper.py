"""Drawing of the paper's figures: log-log panels, medians with quartile bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lmma._files import write
from lmma.output.plotting.style import COLOURS, assign_styles, save, style_axes
from lmma_lab.plotting.data import MAX_MARKED_POINTS, FigureData, Panel, Unreached

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(data: FigureData) -> Figure:
    """Return ``data`` as a figure, with one legend for all panels."""
    from matplotlib.figure import Figure  # not pyplot, which keeps global state
    from matplotlib.lines import Line2D

    columns = min(data.columns, max(1, len(data.panels)))
    rows = max(1, math.ceil(len(data.panels) / columns))
    width, height = (5.6, 4.2) if columns == 1 else (3.4 * columns, 2.75 * rows + 0.7)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    style = assign_styles(data.labels())
    for axes, panel in zip(grid.flat, data.panels, strict=False):
        same_x = [p for p in data.panels if p.x_label == panel.x_label and data.share_x]
        _panel(axes, panel, style, same_x or [panel])
    for axes in list(grid.flat)[len(data.panels) :]:
        axes.set_axis_off()
    handles = []
    for label, dashed, owner in _legend(data):
        colour, marker = style[owner]
        plain = _is_curve(data) and len(style) <= len(COLOURS)
        handles.append(
            Line2D([], [], color=colour, marker=None if plain else marker, markersize=4.5, linewidth=1.5,
                   linestyle="--" if dashed else "-", label=label)
        )  # fmt: skip
    if handles:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=min(len(handles), 4), frameon=False, fontsize=9
        )
    figure.suptitle(data.title, fontsize=11)
    return figure


def write_pictures(data: FigureData, folder: Path) -> bool:
    """Write ``data`` to ``folder`` as PNG and SVG; without matplotlib, write nothing and return False."""
    try:
        figure = draw(data)
    except ImportError:
        return False
    for suffix in (".png", ".svg"):
        write(folder / f"{data.name}{suffix}", lambda aside: save(figure, aside))
    return True


def _legend(data: FigureData) -> list[tuple[str, bool, str]]:
    seen: dict[str, tuple[bool, str]] = {}
    for panel in data.panels:
        for s in panel.series:
            seen.setdefault(s.label, (s.dashed, s.colour_of or s.label))
    order = data.labels()
    named = [(label, dashed, owner) for label, (dashed, owner) in seen.items()]
    return sorted(named, key=lambda item: (order.index(item[2]), item[1]))


def _is_curve(data: FigureData) -> bool:
    return any(len(s.x) > MAX_MARKED_POINTS for panel in data.panels for s in panel.series)


def _panel(axes: Axes, panel: Panel, style: dict[str, tuple[str, str]], same_x: Sequence[Panel]) -> None:
    axes.set_title(panel.title, fontsize=10)
    if not panel.measured():
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color("0.85")
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", va="center", color="0.5")
        return
    for s in panel.series:
        colour, marker = style[s.colour_of or s.label]
        curve = len(s.x) > MAX_MARKED_POINTS
        plain = curve and len(style) <= len(COLOURS)  # colours suffice to distinguish the series
        axes.plot(s.x, s.y, color=colour, marker=None if plain else marker, markersize=4.5, linewidth=1.5,
                  markevery=max(1, len(s.x) // 6) if curve else None,
                  linestyle="--" if s.dashed else "-", zorder=3)  # fmt: skip
        if s.lower and s.upper:
            axes.fill_between(s.x, s.lower, s.upper, color=colour, alpha=0.18, linewidth=0)
        for end in s.unreached:
            _arrow(axes, end, colour, marker)
    dims = sorted({x for p in same_x for x, _ in p.measured()})
    if panel.log_x:
        axes.set_xscale("log", base=2 if len(dims) <= MAX_MARKED_POINTS else 10)
        _plain_dimensions(axes, dims)
    else:
        axes.xaxis.set_major_formatter(_short)
    if panel.log_y:
        axes.set_yscale("log")
        _whole_decades(axes)
        _guides(axes, panel)
    else:
        axes.set_ylim(0, 1)
    if panel.target is not None:
        axes.axhline(panel.target, color="0.5", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.set_xlabel(panel.x_label, fontsize=9)
    axes.set_ylabel(panel.y_label, fontsize=9)
    style_axes(axes)


def _whole_decades(axes: Axes) -> None:
    """Widen the vertical axis until two powers of ten are labelled, so that it can be read."""
    from matplotlib.ticker import NullFormatter

    low, high = (math.log10(limit) for limit in axes.get_ylim())
    if math.floor(high) - math.ceil(low) < 1:
        low, high = min(low, math.floor(low + 0.3)), max(high, math.ceil(high - 0.3))
        if math.floor(high) - math.ceil(low) < 1:
            low, high = math.floor(low) - 0.05, math.ceil(high) + 0.05
        axes.set_ylim(10**low, 10**high)
    axes.yaxis.set_minor_formatter(NullFormatter())


def _arrow(axes: Axes, end: Unreached, colour: str, marker: str) -> None:
    """Mark where runs ended without reaching the target: an open marker with an upward arrow."""
    axes.scatter([end.x], [end.y], s=24, marker=marker, facecolors="white", edgecolors=colour, linewidths=1.2,
                 zorder=4)  # fmt: skip
    axes.annotate("", (end.x, end.y), xytext=(0, 15), textcoords="offset points",
                  arrowprops={"arrowstyle": "<|-", "color": colour, "linewidth": 1.2, "shrinkB": 3.5},
                  )  # fmt: skip


def _guides(axes: Axes, panel: Panel) -> None:
    """Draw thin reference lines of known growth, within the limits set by the points."""
    limits = axes.get_ylim()
    for name in panel.guides:
        x, y = panel.guide(name)
        if len(x) < 2:
            continue
        limits = (min(limits[0], 0.8 * y[0]), limits[1])
        axes.plot(x, y, color="0.55", linewidth=0.8, linestyle=(0, (1, 2)), zorder=1, label=f"_{name}")
        axes.annotate(name, (x[-1], y[-1]), xytext=(-2, -3), textcoords="offset points", fontsize=7,
                      color="0.4", ha="right", va="top")  # fmt: skip
    axes.set_ylim(*limits)


def _short(value: float, position: float = 0) -> str:
    """Format a number of evaluations with a unit, as a tick label."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _plain_dimensions(axes: Axes, values: Sequence[float]) -> None:
    """Label the measured dimensions with plain numbers instead of powers."""
    if len(values) > MAX_MARKED_POINTS:
        return
    shown = values if len(values) <= 5 else values[:: 2 if len(values) <= 10 else 3]
    axes.set_xticks(shown, [f"{value:g}" for value in shown])
    axes.minorticks_off()
    axes.set_xlim(values[0] / 1.25, values[-1] * 1.25)
