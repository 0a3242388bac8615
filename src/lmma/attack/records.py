"""What is known of each attacked image afterwards, and a durable place to keep it.

A store is any object with ``done(image) -> bool``, ``put(record)`` and ``records()``; `RecordStore`
keeps records in one SQLite file, each committed before `put` returns, so that a killed campaign loses
only the images it was working on.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Record", "RecordStore", "Store", "fingerprint"]


@dataclass(frozen=True, eq=False)
class Record:
    """The outcome of one attack.

    Attributes
    ----------
    image : int
        Which image: its number in the data set.
    label, found : int
        Column of the true class, and of the class given to `adversarial` (equal without success).
    success : bool
    start, value : float
        Objective at the original image, and the lowest one met.
    l2, linf : float
        Distances of `adversarial` from the original; 0 without success.
    queries, first_success : int
        Queries spent on candidates, and how many of them up to the end of the generation in which the
        first adversarial was met (0: none was).
    curve : (generations + 1,) float64
        Lowest objective so far: at the start and after each generation.
    adversarial : (n,) float32 or uint8
        The closest adversarial met, as the classifier saw it; the best candidate without success.
    """

    image: int
    label: int
    found: int
    success: bool
    start: float
    value: float
    l2: float
    linf: float
    queries: int
    first_success: int
    curve: NDArray[np.float64]
    adversarial: NDArray[Any]

    def numbers(self) -> dict[str, Any]:
        """Return all fields but the arrays, ready for JSON."""
        arrays = ("curve", "adversarial")
        return {name: value for name, value in self.__dict__.items() if name not in arrays}


class Store(Protocol):
    """Where a campaign puts its records and asks which images it may skip."""

    def done(self, image: int) -> bool:
        """Return whether the record of `image` is there."""

    def put(self, record: Record) -> None:
        """Keep a record; it is durable afterwards. May be called from several threads."""

    def records(self) -> list[Record]:
        """Return all records kept, by image."""


def fingerprint(*parts: Any) -> str:
    """Return a short digest of arrays, numbers, strings and dictionaries: equal input, equal digest."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.view(np.uint8).data if array.size else b"")
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()[:16]


class RecordStore:
    """Records of one campaign in a SQLite file that several campaigns may share.

    Parameters
    ----------
    path : path
        The file; made if it does not exist.
    settings : dict
        All that the records depend on (method, seed, step size, model, data ...). Only records of
        equal settings are seen, so that a changed campaign never picks up stale results.
    """

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self.settings = settings
        self.key = fingerprint(settings)
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS campaigns (key TEXT PRIMARY KEY, settings TEXT)")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS records (key TEXT, image INTEGER, numbers TEXT, curve BLOB,"
                " kind TEXT, adversarial BLOB, PRIMARY KEY (key, image)) WITHOUT ROWID"
            )
            self._db.execute(
                "INSERT OR IGNORE INTO campaigns VALUES (?, ?)", (self.key, json.dumps(settings))
            )
            rows = self._db.execute("SELECT image FROM records WHERE key = ?", (self.key,))
            self._done = {int(image) for (image,) in rows}
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} cannot be used as a store of records: {error}") from None

    def done(self, image: int) -> bool:
        """Return whether the record of `image` is there."""
        return image in self._done

    def put(self, record: Record) -> None:
        """Keep a record; it is durable afterwards."""
        row = (
            self.key,
            record.image,
            json.dumps(record.numbers()),
            record.curve.astype("<f8").tobytes(),
            record.adversarial.dtype.newbyteorder("<").str,
            record.adversarial.tobytes(),
        )
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?)", row)
            self._done.add(record.image)

    def records(self) -> list[Record]:
        """Return all records kept, by image."""
        with self._lock:
            rows = self._db.execute(
                "SELECT numbers, curve, kind, adversarial FROM records WHERE key = ? ORDER BY image",
                (self.key,),
            ).fetchall()
        return [
            Record(
                **json.loads(numbers),
                curve=np.frombuffer(curve, "<f8"),
                adversarial=np.frombuffer(adversarial, np.dtype(kind)),
            )
            for numbers, curve, kind, adversarial in rows
        ]

    def close(self) -> None:
        """Close the file; everything put is in it."""
        self._db.close()

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
