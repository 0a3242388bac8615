"""Files that are whole or not there: written aside, then moved into place."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


class OutputError(OSError):
    """A file could not be written; the message says which, why and what to do."""


def write(path: Path, save: Callable[[Path], None]) -> None:
    """Let ``save`` write beside ``path``, then move the result there."""
    aside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(aside)
        os.replace(aside, path)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}; free some space or give another --out. "
            "Finished runs are safe in the store"
        ) from error
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path``."""
    write(path, lambda aside: _put(aside, text))


def _put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV, with the columns of all of them in order of appearance."""
    rows = list(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
