"""Shared style of all figures: colours, markers, axes, file formats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable with colour blindness and in greyscale (Okabe and Ito)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A4B1E")
# Markers distinguish lines in greyscale, and if there are more methods than colours
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
FORMATS = (".png", ".svg", ".pdf")


def assign_styles(labels: Sequence[str], signs: Sequence[str] = MARKERS) -> dict[str, tuple[str, str]]:
    """Assign a unique pair of colour and sign to each label.

    Each pass through the colours shifts the signs by one, so that the number of pairs is the number of
    colours times the number of signs.
    """
    pairs = {
        label: (COLOURS[i % len(COLOURS)], signs[(i % len(COLOURS) + i // len(COLOURS)) % len(signs)])
        for i, label in enumerate(labels)
    }
    if len(pairs) > len(COLOURS) * len(signs):
        raise ValueError(
            f"a figure can show at most {len(COLOURS) * len(signs)} methods, got {len(pairs)}: select fewer"
        )
    return pairs


def checked_path(path: str | Path) -> Path:
    """Return ``path``, or raise ValueError if its suffix is not a supported format."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"path must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {path.name!r}")
    return path


def save(figure: Figure, path: str | Path) -> None:
    """Write ``figure`` to a .png, .svg or .pdf file; the same figure gives the same bytes."""
    import matplotlib

    path = checked_path(path)
    undated: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.hashsalt": "lmma"}):  # otherwise element ids of an SVG are random
        figure.savefig(path, dpi=150, metadata=undated.get(path.suffix.lower()))


def thousands(value: float, position: int | None = None) -> str:
    """Format a number of evaluations for a tick label."""
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def draw_violation(axes: Axes, evaluations: Sequence[float], violations: Sequence[float | None]) -> None:
    """Draw the constraint violation of the best point, if any, with gaps where the point is feasible."""
    heights = [y if y is not None and 0 < y < math.inf else math.nan for y in violations]
    if all(map(math.isnan, heights)):
        return
    away = [math.nan, *heights, math.nan]
    alone = [k for k, y in enumerate(heights) if y == y and away[k] != away[k] and away[k + 2] != away[k + 2]]
    axes.plot(
        list(evaluations)[: len(heights)], heights, color="0.4", linewidth=1.2, linestyle=(0, (4, 3)),
        marker=".", markevery=alone, markersize=4, label="violation of the best point",
    )  # fmt: skip
    axes.set_yscale("log")
    axes.legend(frameon=False, loc="upper right", fontsize=8)


def style_axes(axes: Axes) -> None:
    """Remove the top and right spines and add a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)
