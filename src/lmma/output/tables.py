"""Rows of cells as a table: aligned for a terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Rows = Sequence[Sequence[str]]  # the first is the heading


def text_table(rows: Rows, right: Iterable[int] = ()) -> str:
    """Return ``rows``, the first being the heading, in columns; those of index ``right`` flush right."""
    right = set(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (rows[0], ["-" * width for width in widths], *rows[1:])
    ]
    return "\n".join(line.rstrip() for line in lines)


def markdown_table(rows: Rows, right: Iterable[int] = ()) -> str:
    """Return ``rows``, the first being the heading, as Markdown; columns of index ``right`` flush right."""
    right = set(right)
    rule = "".join("---:|" if i in right else "---|" for i in range(len(rows[0])))
    head, *body = (f"| {' | '.join(map(_on_one_line, row))} |" for row in rows)
    return "\n".join([head, f"|{rule}", *body])


def _on_one_line(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def columns_of(rows: Sequence[Mapping[str, object]]) -> tuple[list[list[str]], list[int]]:
    """Return mappings of the same keys as rows with a heading, and the columns that hold numbers alone."""
    names = list(rows[0])
    numbers = [
        i
        for i, name in enumerate(names)
        if all(isinstance(r[name], int | float) or r[name] == "" for r in rows)
    ]
    return [names, *([_cell(row[name]) for name in names] for row in rows)], numbers


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
