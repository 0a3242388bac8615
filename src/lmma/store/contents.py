"""What is in a store, read without changing a byte of it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lmma.store.sqlite import APPLICATION, OUR_TABLES, StoreError, plain_sql
from lmma.store.untrusted import read_json

SAMPLED = 20_000  # records that are read for what was run
LONGEST = 1 << 22  # characters of one of them


@dataclass(frozen=True)
class Contents:
    """How much of what a store holds."""

    records: dict[str, int]  # by kind
    claims: int  # pieces of work in flight
    set_aside: int
    methods: dict[str, int]  # records that name a method, by its name
    sizes: tuple[int, ...]  # the numbers of variables that occur


def contents(path: str | os.PathLike[str]) -> Contents:
    """Return what is in a store, or raise StoreError in words; nothing is written, mended or locked."""
    path = Path(path).absolute()
    # without a journal nobody has it open, and SQLite need not make one either
    mode = "mode=ro" if Path(f"{path}-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=5.0)) as db:
            db.execute("pragma trusted_schema = off")
            _refuse_what_is_not_ours(db, path)
            return _contents(db)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        words = "".join(sign if sign.isprintable() else "?" for sign in str(error))
        raise StoreError(f"{path} cannot be read: {words}") from None


def _refuse_what_is_not_ours(db: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError unless there are our tables and nothing else; a view could compute for ever."""
    made = {plain_sql(sql) for (sql,) in db.execute("select sql from sqlite_master where sql is not null")}
    if db.execute("pragma application_id").fetchone()[0] != APPLICATION or made != OUR_TABLES:
        raise StoreError(f"{path} is a database, but no store of lmma")


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
