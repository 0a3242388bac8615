"""What all figures share: colours, quiet axes, files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinct for colour-blind eyes and in grey print (Okabe and Ito)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A4B1E")
# A second sign beside colour, for grey print and for more methods than there are colours
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
FORMATS = (".png", ".svg", ".pdf")


def looks(labels: Sequence[str], signs: Sequence[str] = MARKERS) -> dict[str, tuple[str, str]]:
    """Return a colour and a sign for each label, no two labels with the same pair.

    This is the only place that decides it. Each turn through the colours shifts the signs by one, so that
    there are as many pairs as colours times signs.
    """
    pairs = {
        label: (COLOURS[i % len(COLOURS)], signs[(i % len(COLOURS) + i // len(COLOURS)) % len(signs)])
        for i, label in enumerate(labels)
    }
    if len(pairs) > len(COLOURS) * len(signs):
        raise ValueError(
            f"a figure can tell {len(COLOURS) * len(signs)} methods apart, got {len(pairs)}: draw fewer"
        )
    return pairs


def checked_path(path: str | Path) -> Path:
    """Return ``path``, or say which kinds of file a figure can be written to."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"path must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {path.name!r}")
    return path


def save(figure: Figure, path: str | Path) -> None:
    """Write ``figure`` to a .png, .svg or .pdf file, the same bytes for the same figure."""
    import matplotlib

    path = checked_path(path)
    undated: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.hashsalt": "lmma"}):  # ids of an SVG's parts are random otherwise
        figure.savefig(path, dpi=150, metadata=undated.get(path.suffix.lower()))


def thousands(value: float, position: int | None = None) -> str:
    """Return a number of evaluations as people read it, for a tick."""
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def draw_violation(axes: Axes, evaluations: Sequence[float], violations: Sequence[float | None]) -> None:
    """Draw how far the best point was from feasible, with gaps where it was feasible; nothing if always."""
    heights = [y if y is not None and 0 < y < math.inf else math.nan for y in violations]
    if all(map(math.isnan, heights)):
        return
    away = [math.nan, *heights, math.nan]
    alone = [k for k, y in enumerate(heights) if y == y and away[k] != away[k] and away[k + 2] != away[k + 2]]
    axes.plot(
        list(evaluations)[: len(heights)], heights, color="0.4", linewidth=1.2, linestyle=(0, (4, 3)),
        marker=".", markevery=alone, markersize=4, label="violation of the best",
    )  # fmt: skip
    axes.set_yscale("log")
    axes.legend(frameon=False, loc="upper right", fontsize=8)


def quieten(axes: Axes) -> None:
    """Leave what helps to read numbers, take the rest away."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)
