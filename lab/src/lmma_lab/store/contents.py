"""Read-only summary of the contents of a store."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lmma._files import read_json
from lmma_lab.store.sqlite import APPLICATION, OUR_TABLES, StoreError, plain_sql

SAMPLED = 20_000  # records that are read to find methods and sizes
LONGEST = 1 << 22  # characters of such a record


@dataclass(frozen=True)
class Contents:
    """Counts of the records and claims in a store."""

    records: dict[str, int]  # by kind
    claims: int  # tasks in progress
    set_aside: int
    methods: dict[str, int]  # number of records by method
    sizes: tuple[int, ...]  # numbers of variables


def contents(path: str | os.PathLike[str]) -> Contents:
    """Return the contents of a store without changing or locking it; raise StoreError if it is invalid."""
    path = Path(path).absolute()
    # without a journal no process has the file open, and immutable=1 keeps SQLite from creating one
    mode = "mode=ro" if Path(f"{path}-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=5.0)) as db:
            db.execute("pragma trusted_schema = off")
            _check_is_store(db, path)
            return _contents(db)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        message = "".join(sign if sign.isprintable() else "?" for sign in str(error))
        raise StoreError(f"{path} cannot be read: {message}") from None


def _check_is_store(db: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError unless the file holds exactly the tables of a store; a view could run forever."""
    found = {plain_sql(sql) for (sql,) in db.execute("select sql from sqlite_master where sql is not null")}
    if db.execute("pragma application_id").fetchone()[0] != APPLICATION or found != OUR_TABLES:
        raise StoreError(f"{path} is a database but not an lmma store")


def _contents(db: sqlite3.Connection) -> Contents:
    kinds = {
        str(kind): int(count)
        for kind, count in db.execute("select kind, count(*) from records group by kind")
    }
    methods: dict[str, int] = {}
    sizes: set[int] = set()
    rows = db.execute("select record from records where length(record) < ? limit ?", (LONGEST, SAMPLED))
    for (text,) in rows:
        try:
            record = read_json(text)
        except (ValueError, TypeError):
            continue
        spec = record.get("spec") if isinstance(record, dict) else None
        if isinstance(spec, dict):
            if isinstance(spec.get("method"), str):
                methods[spec["method"]] = methods.get(spec["method"], 0) + 1
            if type(spec.get("n")) is int:
                sizes.add(spec["n"])
    claims, aside = (
        db.execute(f"select count(*) from {table}").fetchone()[0] for table in ("claims", "set_aside")
    )
    return Contents(kinds, claims, aside, methods, tuple(sorted(sizes)))
