"""Bar charts of named shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lmma.output.plotting.style import COLOURS, style_axes

if TYPE_CHECKING:
    from lmma.output.plotting.figure import Figure


def bars(rows: Sequence[tuple[str, float]], *, label: str = "", title: str = "", others: int = 0) -> Figure:
    """Return a figure with one horizontal bar per (name, share), the first on top.

    ``others`` is the number of names that are not shown.
    """
    from lmma.output.plotting.figure import Figure

    figure = Figure(figsize=(7.2, max(1.8, 0.9 + 0.26 * len(rows))), layout="constrained")
    axes: Any = figure.subplots()
    places = range(len(rows), 0, -1)
    axes.barh(list(places), [share for _, share in rows], color=COLOURS[0], height=0.7)
    axes.set_yticks(list(places), [name for name, _ in rows])
    for place, (_, share) in zip(places, rows, strict=True):
        axes.annotate(f"{share:.1%}", (share, place), xytext=(4, 0), textcoords="offset points", va="center",
                      fontsize=8, color="0.3")  # fmt: skip
    style_axes(axes)
    axes.set_xlim(left=0, right=1.12 * max((share for _, share in rows), default=1.0) or 1.0)
    axes.set_xlabel(label + (f" ({others:,} more variables)" if others else ""))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if title:
        figure.suptitle(title, fontsize=11)
    return figure
