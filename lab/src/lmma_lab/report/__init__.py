"""Reports as one self-contained page of prose, interactive charts, tables and commands; HTML and Markdown."""

from lmma_lab.report.html import as_html
from lmma_lab.report.markdown import as_markdown
from lmma_lab.report.parts import Chart, Commands, Part, Picture, Prose, Table

__all__ = ["Chart", "Commands", "Part", "Picture", "Prose", "Table", "as_html", "as_markdown"]
