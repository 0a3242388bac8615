"""Time per sample over n: the paper's Figure 1 with other packages, from a record of `lmma bench cost`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lmma.output.plotting.style import assign_styles, style_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARE = ("NumPy's draw", "memory copy", "products of ma-es")  # operations, not methods
OURS = ("lm-ma-es", "d-lm-ma-es", "ma-es", "cma-es")


def time_per_sample(record: Mapping[str, Any]) -> Figure:
    """Return microseconds per sample over n: solid for lmma, dashed for peers, dotted for bare operations.

    Parameters
    ----------
    record : mapping
        The record that `lmma bench cost` writes to ``cost.json``.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot()
    seconds = record["seconds"]
    names = list(dict.fromkeys(name for row in seconds.values() for name in row))
    style = assign_styles([name for name in names if name not in BARE]) | {
        name: ("0.45", marker) for name, marker in zip(BARE, "osv", strict=True)
    }
    for name in names:
        kind = "bare" if name in BARE else "ours" if name.split(",")[0] in OURS else "peer"
        dims = [n for n in seconds if name in seconds[n]]
        micro = [seconds[n][name] / record["popsize"][n] * 1e6 for n in dims]
        line = {"bare": ":", "ours": "-", "peer": "--"}[kind]
        colour, marker = style[name]
        axes.loglog(
            [int(n) for n in dims], micro, line, color=colour, marker=marker,
            markersize=5, linewidth=1.8 if kind == "ours" else 1.1, label=name,
        )  # fmt: skip
    style_axes(axes)
    axes.set_xlabel("variables n")
    axes.set_ylabel("microseconds per sample, without the objective")
    figure.legend(fontsize=8, loc="outside right upper", frameon=False)
    return figure
