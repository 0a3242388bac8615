"""Records -> one self-contained page: prose, interactive charts, tables, commands; HTML and Markdown."""

from lmma.report.html import as_html
from lmma.report.markdown import as_markdown
from lmma.report.parts import Chart, Commands, Part, Picture, Prose, Table

__all__ = ["Chart", "Commands", "Part", "Picture", "Prose", "Table", "as_html", "as_markdown"]
