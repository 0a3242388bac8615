"""Data of a figure, independent of the renderer: panels of series for matplotlib and for plotly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Numbers = tuple[float, ...]
MAX_MARKED_POINTS = 25  # a longer series is a convergence curve, not values over a few dimensions


@dataclass(frozen=True)
class Unreached:
    """A marker for runs that ended without reaching the target."""

    x: float
    y: float  # effort spent
    note: str


@dataclass(frozen=True)
class Series:
    """One line: a label, points, and optionally a band around them."""

    label: str
    x: Numbers
    y: Numbers
    lower: Numbers = ()
    upper: Numbers = ()
    notes: tuple[str, ...] = ()  # one per point, shown on hover
    dashed: bool = False
    colour_of: str = ""  # label of another series with the same colour
    unreached: tuple[Unreached, ...] = ()  # drawn as open markers with an arrow

    def __repr__(self) -> str:
        return f"<series {self.label[:60]!r}: {len(self.x)} points>"


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series, labels and guide lines; logarithmic by default."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = True
    log_y: bool = True  # otherwise y is a share, from 0 to 1
    target: float | None = None
    guides: tuple[str, ...] = ()  # keys of GROWTHS, drawn as thin lines to compare slopes with

    def __repr__(self) -> str:
        return f"<panel {self.title[:60]!r}: {len(self.series)} series>"

    def measured(self) -> list[tuple[float, float]]:
        """Return every point of every series, reached or not."""
        reached = [(x, y) for s in self.series for x, y in zip(s.x, s.y, strict=True)]
        return reached + [(end.x, end.y) for s in self.series for end in s.unreached]

    def guide(self, name: str) -> tuple[Numbers, Numbers]:
        """Return a line with the growth called ``name``, from below the first points to the last.

        It is empty if all points are in one dimension, because then there is no slope to compare.
        """
        points = self.measured()
        dims = sorted({x for x, _ in points})
        if len(dims) < 2 or len(dims) > MAX_MARKED_POINTS:
            return (), ()
        first, last = dims[0], dims[-1]
        grows = GROWTHS[name]
        start = 0.6 * min(y for x, y in points if x == first)
        highest = max(y for _, y in points)
        x = [first * (last / first) ** (i / 48) for i in range(49)]
        y = [start * grows(value) / grows(first) for value in x]
        shown = [(a, b) for a, b in zip(x, y, strict=True) if b <= highest]
        return tuple(a for a, _ in shown), tuple(b for _, b in shown)


GROWTHS: dict[str, Callable[[float], float]] = {
    "n": lambda n: n,
    "n log n": lambda n: n * math.log(n),
    "n²": lambda n: n**2,
    "n³": lambda n: n**3,
}


@dataclass(frozen=True)
class FigureData:
    """The content of one figure: panels, title, caption, and the order of colours."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 3
    share_x: bool = True  # panels with the same x label show the same range
    order: tuple[str, ...] = field(default=())  # labels in the order that determines their colours

    def __repr__(self) -> str:
        return f"<figure {self.name[:60]!r}: {len(self.panels)} panels>"

    def labels(self) -> list[str]:
        """Return the labels of all series, in the order that determines their colours."""
        found = {s.colour_of or s.label for panel in self.panels for s in panel.series}
        return [label for label in self.order if label in found] + sorted(found - set(self.order))

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield every point as a row of a table."""
        for panel in self.panels:
            for s in panel.series:
                for i, (x, y) in enumerate(zip(s.x, s.y, strict=True)):
                    yield {
                        "panel": panel.title,
                        "series": s.label,
                        panel.x_label: x,
                        "y": panel.y_label,
                        "median": y,
                        "lower_quartile": s.lower[i] if s.lower else "",
                        "upper_quartile": s.upper[i] if s.upper else "",
                        "note": s.notes[i] if s.notes else "",
                    }
                for end in s.unreached:
                    yield {
                        "panel": panel.title,
                        "series": s.label,
                        panel.x_label: end.x,
                        "y": panel.y_label,
                        "median": "",
                        "lower_quartile": "",
                        "upper_quartile": "",
                        "note": end.note,
                    }
