"""What a figure shows, before anybody draws it: panels of series, for paper and for a page alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Numbers = tuple[float, ...]


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
