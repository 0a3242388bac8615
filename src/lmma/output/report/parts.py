"""What a report is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmma.kernels.install import how_to_install
from lmma.output.plotting.data import FigureData


@dataclass(frozen=True)
class Prose:
    """Paragraphs under a heading."""

    heading: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Chart:
    """A figure: interactive on a page, a picture in Markdown and where no script library is there."""

    data: FigureData
    picture: str = ""  # address of a PNG or SVG beside the report
    svg: str = ""  # the same as text, for a page that must stand alone


@dataclass(frozen=True)
class Picture:
    """A picture of pixels under a heading."""

    heading: str
    png: bytes
    name: str  # address of the same picture beside the report
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under a heading; all rows have the columns of the first."""

    heading: str
    rows: tuple[Mapping[str, str], ...]
    lead: str = ""
    verdict: str = ""  # the column, if any, that holds "holds", "fails" or "not enough data"
    folded: tuple[str, ...] = ()  # columns shown below the row's first cell when it is opened
    named: tuple[str, ...] = ()  # columns whose name is shown before a cell where a row becomes a card


@dataclass(frozen=True)
class Commands:
    """Lines for a terminal under a heading."""

    heading: str
    lines: tuple[str, ...]
    lead: str = ""


Part = Prose | Chart | Picture | Table | Commands


def no_picture() -> str:
    """Return why a chart has no picture, and what to type to have one."""
    return f"(no picture: neither plotly nor matplotlib is installed here; {how_to_install('report')})"
