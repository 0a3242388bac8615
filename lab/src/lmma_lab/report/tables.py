"""Tables of a report, written as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmma._text import Rows


def markdown_table(rows: Rows, right: Iterable[int] = ()) -> str:
    """Return ``rows`` as a Markdown table with the first as heading; right-align the columns ``right``."""
    right = set(right)
    rule = "".join("---:|" if i in right else "---|" for i in range(len(rows[0])))
    head, *body = (f"| {' | '.join(map(_escaped, row))} |" for row in rows)
    return "\n".join([head, f"|{rule}", *body])


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def columns_of(rows: Sequence[Mapping[str, object]]) -> tuple[list[list[str]], list[int]]:
    """Convert mappings to rows with a heading; also return the columns that only hold numbers."""
    names = list(rows[0])
    numbers = [
        i
        for i, name in enumerate(names)
        if all(isinstance(r[name], int | float) or r[name] == "" for r in rows)
    ]
    return [names, *([_cell(row[name]) for name in names] for row in rows)], numbers


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV, with all columns in order of appearance."""
    rows = list(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
