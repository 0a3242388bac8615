"""What a figure shows, before anybody draws it: panels of series, for paper and for a page alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Numbers = tuple[float, ...]
MANY = 25  # points of a curve, more than there are dimensions in a figure


@dataclass(frozen=True)
class Unreached:
    """Where a line would go on: no run reached the target there, or some ended before it."""

    x: float
    y: float  # what was spent
    note: str


@dataclass(frozen=True)
class Series:
    """One line: a label, points, and where known a band around them."""

    label: str
    x: Numbers
    y: Numbers
    lower: Numbers = ()
    upper: Numbers = ()
    notes: tuple[str, ...] = ()  # one for each point, shown when the mouse is over it
    dashed: bool = False
    colour_of: str = ""  # another label whose colour to share
    unreached: tuple[Unreached, ...] = ()  # drawn as open markers with an arrow

    def __repr__(self) -> str:
        return f"<series {self.label[:60]!r}: {len(self.x)} points>"


@dataclass(frozen=True)
class Panel:
    """One pair of axes, logarithmic both unless said otherwise."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = True
    log_y: bool = True  # otherwise y is a share, from 0 to 1
    target: float | None = None
    guides: tuple[str, ...] = ()  # of GROWTHS, drawn as thin lines to hold slopes against

    def __repr__(self) -> str:
        return f"<panel {self.title[:60]!r}: {len(self.series)} series>"

    def measured(self) -> list[tuple[float, float]]:
        """Return every point of every series, reached or not."""
        reached = [(x, y) for s in self.series for x, y in zip(s.x, s.y, strict=True)]
        return reached + [(end.x, end.y) for s in self.series for end in s.unreached]

    def guide(self, name: str) -> tuple[Numbers, Numbers]:
        """Return a line that grows as its name says, from below the first points as far as they go.

        It is empty where there are points in one dimension only: there is no slope to hold it against.
        """
        points = self.measured()
        dims = sorted({x for x, _ in points})
        if len(dims) < 2 or len(dims) > MANY:
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
    """Panels that belong together."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 3
    share_x: bool = True  # whether panels with the same x show the same range
    order: tuple[str, ...] = field(default=())  # labels in the order that fixes their colours

    def __repr__(self) -> str:
        return f"<figure {self.name[:60]!r}: {len(self.panels)} panels>"

    def labels(self) -> list[str]:
        """Return the labels of all series, in the order that fixes their colours."""
        found = {s.colour_of or s.label for panel in self.panels for s in panel.series}
        return [label for label in self.order if label in found] + sorted(found - set(self.order))

    def rows(self) -> Iterator[dict[str, object]]:
        """Return every point as a row of a table."""
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
