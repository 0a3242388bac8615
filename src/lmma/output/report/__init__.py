"""Records -> one self-contained page: prose, interactive charts, tables, commands; HTML and Markdown."""

from lmma.output.report.html import as_html
from lmma.output.report.markdown import as_markdown
from lmma.output.report.parts import Chart, Commands, Part, Picture, Prose, Table

__all__ = ["Chart", "Commands", "Part", "Picture", "Prose", "Table", "as_html", "as_markdown"]
