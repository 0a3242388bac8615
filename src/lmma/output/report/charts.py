"""Figures as plotly.js understands them: plain data, built without the Python side of plotly.

plotly.js is made for this: hover, a legend that toggles, logarithmic axes, and one script file that works
from a page without a network.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

from lmma.output.plotting.data import FigureData, Panel, Series
from lmma.output.plotting.style import COLOURS, looks

SYMBOLS = (  # plotly's names of MARKERS
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "triangle-left",
    "triangle-right", "star", "pentagon", "hexagon",
)  # fmt: skip
PANEL_HEIGHT, GAP, ABOVE, BELOW = 230, 85, 60, 95  # pixels


def plotly_script() -> str | None:
    """Return the text of plotly.js, or None where the package plotly is not installed."""
    try:
        script: str = import_module("plotly.offline").get_plotlyjs()
    except ImportError:
        return None
    return script


def chart(data: FigureData) -> dict[str, Any]:
    """Return data and layout of a plotly chart with one legend entry per label for all panels."""
    columns = min(data.columns, max(1, len(data.panels)))
    rows = max(1, math.ceil(len(data.panels) / columns))
    inner = rows * PANEL_HEIGHT + (rows - 1) * GAP
    style = looks(data.labels(), SYMBOLS)
    layout: dict[str, Any] = {
        "height": inner + ABOVE + BELOW,
        "margin": {"l": 60, "r": 15, "t": ABOVE, "b": BELOW},
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": -50 / inner,
            "yanchor": "top",
            "groupclick": "togglegroup",
        },
        "hovermode": "closest",
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "annotations": [],
        "shapes": [],
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "colorway": list(COLOURS),
    }
    traces: list[dict[str, Any]] = []
    shown: set[str] = set()
    for index, panel in enumerate(data.panels):
        _axes(layout, panel, index, columns, rows)
        for s in panel.series:
            traces += _traces(s, style, index, s.label not in shown)
            shown.add(s.label)
    layout["updatemenus"] = [_scales({i: p.log_x for i, p in enumerate(data.panels) if _has_points(p)})]
    return {"data": traces, "layout": layout}


def _suffix(index: int) -> str:
    return "" if index == 0 else str(index + 1)


def _axes(layout: dict[str, Any], panel: Panel, index: int, columns: int, rows: int) -> None:
    row, column = divmod(index, columns)
    wide, high = 0.075, GAP / (rows * PANEL_HEIGHT + (rows - 1) * GAP)  # gaps, as shares of the whole
    width = (1 - wide * (columns - 1)) / columns
    height = (1 - high * (rows - 1)) / rows
    left, top = column * (width + wide), 1 - row * (height + high)
    title = panel.title if _has_points(panel) else f"{panel.title}: not run"
    layout["annotations"].append(
        {"text": title, "x": left + width / 2, "y": top, "xref": "paper", "yref": "paper",
         "showarrow": False, "xanchor": "center", "yanchor": "bottom", "font": {"size": 13}}
    )  # fmt: skip
    if not _has_points(panel):
        return  # plotly.js knows no axes without points, and stumbles when told of them
    suffix = _suffix(index)
    common = {
        "showline": True,
        "linecolor": "#999",
        "gridcolor": "#eee",
        "zeroline": False,
        "tickfont": {"size": 11},
    }
    values = sorted({x for s in panel.series for x in s.x})
    x_axis: dict[str, Any] = {
        **common, "domain": [left, left + width], "anchor": f"y{suffix}",
        "type": "log" if panel.log_x else "linear",
        "title": {"text": panel.x_label, "font": {"size": 11}, "standoff": 4},
    }  # fmt: skip
    if panel.log_x and 0 < len(values) <= 25:
        few = values if len(values) <= 6 else values[:: 2 if len(values) <= 10 else 3]
        x_axis |= {"tickvals": few, "ticktext": [f"{value:g}" for value in few]}
    layout[f"xaxis{suffix}"] = x_axis
    layout[f"yaxis{suffix}"] = {
        **common, "domain": [top - height, top], "anchor": f"x{suffix}", "type": "log",
        "exponentformat": "power", "nticks": 4,
        "title": {"text": panel.y_label, "font": {"size": 11}, "standoff": 4},
    }  # fmt: skip
    if panel.target is not None:
        layout["shapes"].append(
            {"type": "line", "xref": f"x{suffix} domain", "yref": f"y{suffix}", "x0": 0, "x1": 1,
             "y0": panel.target, "y1": panel.target, "line": {"color": "#888", "width": 1, "dash": "dash"}}
        )  # fmt: skip


def _traces(s: Series, style: dict[str, tuple[str, str]], index: int, first: bool) -> list[dict[str, Any]]:
    colour, symbol = style[s.colour_of or s.label]
    suffix = _suffix(index)
    curve = len(s.x) > 25
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
    traces.append({
        **shared, "name": s.label, "x": list(s.x), "y": list(s.y), "line": line,
        "mode": "lines" if curve else "lines+markers",
        "marker": {"symbol": symbol, "size": 7, "color": colour}, "showlegend": first,
        "text": notes, "hovertemplate": "%{x:,}: %{y:,.4g}%{text}<extra>" + s.label + "</extra>",
    })  # fmt: skip
    return traces


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


def _has_points(panel: Panel) -> bool:
    return any(s.y for s in panel.series)


def _scales(log_x: dict[int, bool]) -> dict[str, Any]:
    """Return two buttons: logarithmic axes as drawn, or linear ones."""
    x_names, y_names = ([f"{axis}axis{_suffix(i)}.type" for i in log_x] for axis in "xy")
    drawn = {name: "log" if log else "linear" for name, log in zip(x_names, log_x.values(), strict=True)}
    buttons = [
        {"label": "log", "method": "relayout", "args": [drawn | dict.fromkeys(y_names, "log")]},
        {"label": "linear", "method": "relayout", "args": [dict.fromkeys([*x_names, *y_names], "linear")]},
    ]
    return {
        "type": "buttons", "direction": "right", "buttons": buttons, "x": 0, "xanchor": "left", "y": 1,
        "yanchor": "bottom", "pad": {"b": 22, "t": 0}, "font": {"size": 11}, "showactive": True,
    }  # fmt: skip
