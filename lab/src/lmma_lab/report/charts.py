"""Figures as input of plotly.js: plain data, built without plotly's Python classes.

plotly.js offers hover texts, a clickable legend, logarithmic axes, and a single script file that works
without a network. Each chart has two layouts, for wide pages and for telephones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from lmma.output.plotting.style import COLOURS, assign_styles
from lmma_lab.plotting.data import MAX_MARKED_POINTS, FigureData, Panel, Series

SYMBOLS = (  # plotly's names of MARKERS
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "triangle-left",
    "triangle-right", "star", "pentagon", "hexagon",
)  # fmt: skip
PANEL_HEIGHT, GAP, ABOVE, BELOW = 230, 85, 60, 95  # pixels
NARROW = 640  # pixels; narrower pages have one column of panels with the legend above
LINE = 21  # pixels per line of the legend, which holds about two entries on a narrow page
ARROW = 26  # pixels


def plotly_script() -> str | None:
    """Return the text of plotly.js, or None if the package plotly is not installed."""
    try:
        script: str = import_module("plotly.offline").get_plotlyjs()
    except ImportError:
        return None
    return script


def chart(data: FigureData) -> dict[str, Any]:
    """Return data and layouts of a plotly chart, with one legend for all panels."""
    style = assign_styles(data.labels(), SYMBOLS)
    traces: list[dict[str, Any]] = []
    shown: set[str] = set()
    for index, panel in enumerate(data.panels):
        traces += _guides(panel, index)
        for s in panel.series:
            traces += _traces(s, style, index, s.label not in shown)
            shown.add(s.label)
    return {
        "data": traces,
        "layout": _layout(data, style, min(data.columns, max(1, len(data.panels))), len(shown), narrow=False),
        "narrow": _layout(data, style, 1, len(shown), narrow=True),
    }


def _layout(
    data: FigureData, style: dict[str, tuple[str, str]], columns: int, labels: int, *, narrow: bool
) -> dict[str, Any]:
    rows = max(1, math.ceil(len(data.panels) / columns))
    inner = rows * PANEL_HEIGHT + (rows - 1) * GAP
    legend_height = LINE * (math.ceil(labels / 2) + 1) if narrow else 0
    above, below = (ABOVE + legend_height, 50) if narrow else (ABOVE, BELOW)
    legend = {"orientation": "h", "x": 0, "yanchor": "top", "groupclick": "togglegroup"}
    layout: dict[str, Any] = {
        "height": inner + above + below,
        "margin": {"l": 58, "r": 12, "t": above, "b": below},
        "legend": legend | {"y": 1 + (above - 4) / inner if narrow else -50 / inner},
        "hovermode": "closest",
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "annotations": [],
        "shapes": [],
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "colorway": list(COLOURS),
    }
    for index, panel in enumerate(data.panels):
        same_x = [p for p in data.panels if p.x_label == panel.x_label] if data.share_x else [panel]
        _axes(layout, panel, index, columns, rows, same_x)
        layout["annotations"] += _arrows(panel, style, index)
        layout["annotations"] += _guide_names(panel, index)
    layout["updatemenus"] = [_scales(layout, data.panels)]
    return layout


def _suffix(index: int) -> str:
    return "" if index == 0 else str(index + 1)


def _axes(
    layout: dict[str, Any], panel: Panel, index: int, columns: int, rows: int, same_x: Sequence[Panel]
) -> None:
    row, column = divmod(index, columns)
    wide, high = 0.075, GAP / (rows * PANEL_HEIGHT + (rows - 1) * GAP)  # gaps, as fractions of the total
    width = (1 - wide * (columns - 1)) / columns
    height = (1 - high * (rows - 1)) / rows
    left, top = column * (width + wide), 1 - row * (height + high)
    title = panel.title if _has_points(panel) else f"{panel.title}: not run"
    layout["annotations"].append(
        {"text": title, "x": left + width / 2, "y": top, "xref": "paper", "yref": "paper",
         "showarrow": False, "xanchor": "center", "yanchor": "bottom", "font": {"size": 13}}
    )  # fmt: skip
    if not _has_points(panel):
        return  # plotly.js fails on axes without points
    suffix = _suffix(index)
    common = {
        "showline": True,
        "linecolor": "#999",
        "gridcolor": "#eee",
        "zeroline": False,
        "tickfont": {"size": 11},
    }
    layout[f"xaxis{suffix}"] = {
        **common, "domain": [left, left + width], "anchor": f"y{suffix}",
        "type": "log" if panel.log_x else "linear",
        "title": {"text": panel.x_label, "font": {"size": 11}, "standoff": 4},
        **_dimensions(panel, same_x),
    }  # fmt: skip
    layout[f"yaxis{suffix}"] = {
        **common, "domain": [top - height, top], "anchor": f"x{suffix}", "type": "log",
        "title": {"text": panel.y_label, "font": {"size": 11}, "standoff": 4}, **_decades(panel),
    }  # fmt: skip
    if panel.target is not None:
        layout["shapes"].append(
            {"type": "line", "xref": f"x{suffix} domain", "yref": f"y{suffix}", "x0": 0, "x1": 1,
             "y0": panel.target, "y1": panel.target, "line": {"color": "#888", "width": 1, "dash": "dash"}}
        )  # fmt: skip


def _dimensions(panel: Panel, same_x: Sequence[Panel]) -> dict[str, Any]:
    """Return ticks at the measured dimensions, and the common range of panels with the same x label."""
    values = sorted({x for p in same_x for x, _ in p.measured()})
    if not panel.log_x or not 0 < len(values) <= MAX_MARKED_POINTS:
        return {}
    ticks = values if len(values) <= 6 else values[:: 2 if len(values) <= 10 else 3]
    ends = [math.log10(values[0] / 1.25), math.log10(values[-1] * 1.25)]
    return {
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": [f"{value:g}" for value in ticks],
        "range": ends,
    }


def _decades(panel: Panel) -> dict[str, Any]:
    """Return ticks at powers of ten and a range that shows at least two of them."""
    values = [y for _, y in panel.measured() if y > 0]
    values += [y for s in panel.series for y in (*s.lower, *s.upper) if y > 0]
    values += [y for name in panel.guides for y in panel.guide(name)[1][:1]]
    if panel.target is not None:
        values.append(panel.target)
    if not values:
        return {}
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.06, 0.06 * (high - low)) + (0.25 if any(s.unreached for s in panel.series) else 0.0)
    low, high = low - 0.06 * max(1.0, high - low), high + room
    if math.floor(high) - math.ceil(low) < 1:
        low, high = min(low, math.floor(low + 0.5)), max(high, math.ceil(high - 0.5))
    if math.floor(high) - math.ceil(low) < 1:
        low, high = math.floor(low) - 0.02, math.ceil(high) + 0.02
    step = max(1, math.ceil((high - low) / 6))
    powers = [k for k in range(math.ceil(low), math.floor(high) + 1) if k % step == 0]
    return {
        "range": [low, high], "tickmode": "array", "tickvals": [float(f"1e{k}") for k in powers],
        "ticktext": [_power(k) for k in powers],
    }  # fmt: skip


def _power(k: int) -> str:
    return {-1: "0.1", 0: "1", 1: "10", 2: "100"}.get(k, f"10<sup>{k}</sup>")


def _guides(panel: Panel, index: int) -> list[dict[str, Any]]:
    suffix = _suffix(index)
    lines = [panel.guide(name) for name in panel.guides if _has_points(panel)]
    return [
        {"x": list(x), "y": list(y), "xaxis": f"x{suffix}", "yaxis": f"y{suffix}", "type": "scatter",
         "mode": "lines", "line": {"color": "#999", "width": 1, "dash": "dot"}, "hoverinfo": "skip",
         "showlegend": False}
        for x, y in lines
        if len(x) > 1
    ]  # fmt: skip


def _guide_names(panel: Panel, index: int) -> list[dict[str, Any]]:
    suffix = _suffix(index)
    ends = [(name, *panel.guide(name)) for name in panel.guides if _has_points(panel)]
    return [
        {"text": name, "x": math.log10(x[-1]), "y": math.log10(y[-1]), "xref": f"x{suffix}",
         "yref": f"y{suffix}", "showarrow": False, "xanchor": "right", "yanchor": "top",
         "font": {"size": 10, "color": "#777"}}
        for name, x, y in ends
        if len(x) > 1
    ]  # fmt: skip


def _arrows(panel: Panel, style: dict[str, tuple[str, str]], index: int) -> list[dict[str, Any]]:
    """Return an upward arrow from every marker of runs that missed the target."""
    suffix = _suffix(index)
    return [
        {"text": "", "x": math.log10(end.x), "y": math.log10(end.y), "xref": f"x{suffix}",
         "yref": f"y{suffix}", "ax": 0, "ay": -ARROW, "showarrow": True, "arrowside": "start",
         "startarrowhead": 2, "startarrowsize": 1, "arrowwidth": 1.5, "standoff": 5,
         "arrowcolor": style[s.colour_of or s.label][0]}
        for s in panel.series
        for end in s.unreached
    ]  # fmt: skip


def _traces(s: Series, style: dict[str, tuple[str, str]], index: int, first: bool) -> list[dict[str, Any]]:
    colour, symbol = style[s.colour_of or s.label]
    suffix = _suffix(index)
    curve = len(s.x) > MAX_MARKED_POINTS
    shared = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}", "legendgroup": s.label, "type": "scatter"}
    traces: list[dict[str, Any]] = []
    if s.lower and s.upper:
        traces.append({
            **shared, "x": [*s.x, *reversed(s.x)], "y": [*s.upper, *reversed(s.lower)], "fill": "toself",
            "mode": "lines", "line": {"width": 0}, "fillcolor": _faint(colour), "hoverinfo": "skip",
            "showlegend": False,
        })  # fmt: skip
    line = {"color": colour, "width": 2, "dash": "dash" if s.dashed else "solid"}
    notes = [f"<br>{note}" for note in s.notes] or [""] * len(s.x)
    # plotly omits a line without points from the legend
    x, y = (list(s.x), list(s.y)) if s.x or not s.unreached else ([s.unreached[0].x], [None])
    traces.append({
        **shared, "name": s.label, "x": x, "y": y, "line": line,
        "mode": "lines" if curve else "lines+markers",
        "marker": {"symbol": symbol, "size": 7, "color": colour}, "showlegend": first,
        "text": notes, "hovertemplate": "%{x:,}: %{y:,.4g}%{text}<extra>" + s.label + "</extra>",
    })  # fmt: skip
    if s.unreached:
        traces.append({
            **shared, "x": [end.x for end in s.unreached], "y": [end.y for end in s.unreached],
            "mode": "markers", "showlegend": False, "text": [end.note for end in s.unreached],
            "marker": {"symbol": f"{symbol}-open", "size": 8, "color": colour, "line": {"width": 1.5}},
            "hovertemplate": "%{x:,}: %{text}<extra>" + s.label + "</extra>",
        })  # fmt: skip
    return traces


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


def _has_points(panel: Panel) -> bool:
    return bool(panel.measured())


def _scales(layout: dict[str, Any], panels: Sequence[Panel]) -> dict[str, Any]:
    """Return two buttons: logarithmic axes as drawn, or linear axes without arrows and slope labels."""

    drawn: dict[str, Any] = {"annotations": layout["annotations"]}
    titles = [note for note in layout["annotations"] if note["xref"] == "paper"]
    linear: dict[str, Any] = {"annotations": titles}
    for i in (i for i, panel in enumerate(panels) if _has_points(panel)):
        for name in (f"xaxis{_suffix(i)}", f"yaxis{_suffix(i)}"):
            axis = layout[name]
            drawn |= {f"{name}.type": axis["type"], f"{name}.tickmode": axis.get("tickmode", "auto")}
            drawn |= {f"{name}.range": axis["range"]} if "range" in axis else {f"{name}.autorange": True}
            linear |= {f"{name}.type": "linear", f"{name}.tickmode": "auto", f"{name}.autorange": True}
    buttons = [
        {"label": "log", "method": "relayout", "args": [drawn]},
        {"label": "linear", "method": "relayout", "args": [linear]},
    ]
    return {
        "type": "buttons", "direction": "right", "buttons": buttons, "x": 0, "xanchor": "left", "y": 1,
        "yanchor": "bottom", "pad": {"b": 22, "t": 0}, "font": {"size": 11}, "showactive": True,
    }  # fmt: skip
