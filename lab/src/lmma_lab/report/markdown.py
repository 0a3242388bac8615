"""Reports as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lmma_lab.report.parts import Chart, Commands, Part, Picture, Prose, Table, no_picture_note
from lmma_lab.report.tables import markdown_table


def as_markdown(title: str, lead: str, parts: Iterable[Part]) -> str:
    """Return the report as a Markdown page; charts are links to their pictures."""
    blocks = [f"# {title}", lead]
    for part in parts:
        blocks += _block(part)
    return "\n\n".join(blocks) + "\n"


def _block(part: Part) -> list[str]:
    if isinstance(part, Prose):
        return [f"## {part.heading}", *part.paragraphs]
    if isinstance(part, Commands):
        return [f"## {part.heading}", *filter(None, [part.lead]), "```\n" + "\n".join(part.lines) + "\n```"]
    if isinstance(part, Chart):
        picture = [f"![{part.data.title}]({part.picture})"] if part.picture else [no_picture_note()]
        return [f"## {part.data.title}", *picture, part.data.caption]
    if isinstance(part, Picture):
        return [f"## {part.heading}", f"![{part.heading}]({part.name})", *filter(None, [part.caption])]
    return [f"## {part.heading}", *filter(None, [part.lead]), _table(part)]


def _table(table: Table) -> str:
    if not table.rows:
        return "(nothing yet)"
    columns = [column for column in table.rows[0] if column not in table.folded]
    return markdown_table(
        [columns, *([_cell(table, row, column) for column in columns] for row in table.rows)]
    )


def _cell(table: Table, row: Mapping[str, str], column: str) -> str:
    return f"**{row[column]}**" if column == table.verdict else row[column]
