"""Building blocks of a report: prose, charts, pictures, tables and commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmma_lab.install import how_to_install
from lmma_lab.plotting.data import FigureData


@dataclass(frozen=True)
class Prose:
    """Paragraphs under a heading."""

    heading: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Chart:
    """A figure: interactive in HTML if plotly is installed, otherwise and in Markdown a picture."""

    data: FigureData
    picture: str = ""  # file name of a PNG or SVG in the folder of the report
    svg: str = ""  # the picture as SVG text, embedded in the self-contained page


@dataclass(frozen=True)
class Picture:
    """A PNG picture under a heading."""

    heading: str
    png: bytes
    name: str  # file name of the picture in the folder of the report
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under a heading; all rows have the columns of the first."""

    heading: str
    rows: tuple[Mapping[str, str], ...]
    lead: str = ""
    verdict: str = ""  # column, if any, with "holds", "fails" or "not enough data"
    folded: tuple[str, ...] = ()  # columns shown below the first cell when the row is expanded
    named: tuple[str, ...] = ()  # columns whose name precedes the cell on a narrow screen


@dataclass(frozen=True)
class Commands:
    """Command lines under a heading."""

    heading: str
    lines: tuple[str, ...]
    lead: str = ""


Part = Prose | Chart | Picture | Table | Commands


def no_picture_note() -> str:
    """Return a note that explains why a chart has no picture, with the command that installs plotly."""
    return f"(no picture: neither plotly nor matplotlib is installed; {how_to_install('report')})"
