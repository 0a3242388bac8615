"""Archives as tables: read, exported and searched for their best points."""

from __future__ import annotations

import csv
import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma._files import write
from lmma._plain import finite
from lmma._text import how_to_install, shown
from lmma.run.archive.columns import Columns
from lmma.run.archive.database import (
    AFTER,
    BEFORE,
    ArchiveError,
    DamagedArchive,
    Database,
    error_of,
    is_intact,
    key_of,
    quoted,
    translated_errors,
    variable_columns,
)

Values = npt.NDArray[np.float64]
EXPORTS = (".csv", ".json", ".parquet", ".db")  # formats of :meth:`Archive.export`
CHUNK = 1000  # rows written at once
BEST = (  # feasible points by value, then the others by violation
    "status = 'ok' order by case when coalesce(violation, 0) <= {tol!r} then 0 else violation end, value, id"
)


@final
class Archive:
    """The evaluations of an archive as a table, one row per evaluation.

    Parameters
    ----------
    path : str or Path
        A file written by ``minimize(..., archive=path)``. A run may still be writing to it.

    Attributes
    ----------
    path : Path
        The file.
    variables : list of str
        The names of the columns of variables.
    units : dict
        Column -> unit, for columns with a unit.
    log_variables : list of str
        The names of the variables that are searched on a logarithmic scale.

    Raises
    ------
    ArchiveError
        If the file does not exist, is not an archive, or is damaged.

    Examples
    --------
    >>> import tempfile, lmma
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "runs.db"
    ...     result = lmma.minimize(lambda x: float(x @ x), [1.0] * 3, 0.5, rng=1, maxfevals=70, archive=file)
    ...     best = result.archive.best()[0]
    >>> best["status"], best["value"] == result.fun, best["x0"] == float(result.x[0])
    ('ok', True, True)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        with self._opened() as database:
            columns = database.columns
            assert columns is not None
            self._tolerance = database.info.get("feasibility_tol", 0.0)
            self._columns = columns
            self.info: dict[str, Any] = dict(database.info)
        if not isinstance(self._tolerance, int | float):
            raise error_of(self.path, ValueError("feasibility_tol"))
        self._in_file = variable_columns(columns)
        self.variables = self._in_file or columns.names
        labels = dict(zip(columns.names, self.variables, strict=True))
        self.log_variables = [self.variables[column] for column in columns.log]
        self.units = {labels[label]: unit for label, unit in columns.units.items() if label in labels}

    @contextmanager
    def _opened(self, *, check: bool = True) -> Iterator[Database]:
        database = Database(self.path, check=check)
        try:
            if database.columns is None:
                raise ArchiveError(f"archive {self.path} is empty: no run has written to it yet")
            with translated_errors(self.path):
                yield database
        finally:
            database.close()

    def __len__(self) -> int:
        return int(self._scalar("select count(*) from evaluations"))

    def __repr__(self) -> str:
        return f"Archive({str(self.path)!r})"

    def _scalar(self, query: str) -> Any:
        with self._opened() as database:
            return database.db.execute(query).fetchone()[0]

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [*BEFORE, *self.variables, *AFTER]

    def rows(self, best: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield the rows in the order of :attr:`columns`, or only the ``best`` ones, the best first."""
        names = [*BEFORE, *(self._in_file or ["vector"]), *AFTER, "key", "checksum"]
        query = f"select {', '.join(map(quoted, names))} from evaluations" + self._condition(best)
        at, end = len(BEFORE), -len(AFTER) - 2
        outcome = [
            names.index(name) for name in ("key", "value", "constraints", "status", "reason", "checksum")
        ]
        with self._opened() as database:
            for row in database.db.execute(query):
                if not is_intact(*(row[place] for place in outcome)):
                    raise error_of(self.path, ValueError(f"row {row[0]} does not match its checksum"))
                if self._in_file:
                    yield row[:-2]
                else:
                    yield (*row[:at], *self._columns.cells(self._vector(row[at])), *row[end:-2])

    def _condition(self, best: float | None) -> str:
        if best is None:
            return " order by id"
        if best == math.inf:
            return f" where {BEST.format(tol=float(self._tolerance))}"
        if isinstance(best, bool) or not isinstance(best, int | np.integer) or best < 1:
            raise ValueError(f"best must be a positive number of rows, or None for all; got {shown(best)}")
        return f" where {BEST.format(tol=float(self._tolerance))} limit {int(best)}"

    def _vector(self, data: Any) -> Values:
        if not isinstance(data, bytes) or len(data) != 8 * self._columns.n:
            raise error_of(self.path, ValueError("a vector has the wrong length"))
        return np.frombuffer(data, np.float64)

    def best(self, count: int = 1) -> list[dict[str, Any]]:
        """Return the best evaluations as dicts, the best first; feasible points precede others."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows(count)]

    def best_vectors(self, count: int, accepts: Callable[[Values], bool] | None = None) -> Values:
        """Return distinct points as encoded vectors, (rows, n), the best first.

        Points for which ``accepts`` returns False are omitted.
        """
        exact = self._columns.exact
        names = ["key", *(self._in_file if exact else ["vector"])]
        query = f"select {', '.join(map(quoted, names))} from evaluations" + self._condition(math.inf)
        found: dict[bytes, Values] = {}
        with self._opened() as database:
            for key, *data in database.db.execute(query):
                x = np.array(data, dtype=np.float64) if exact else self._vector(data[0])
                if key is not None and key != key_of(x):
                    raise error_of(self.path, ValueError("a point does not match its key"))
                if accepts is None or accepts(x):
                    found.setdefault(x.tobytes(), x)
                if len(found) == count:
                    break
        return np.array(list(found.values())).reshape(-1, self._columns.n)

    def values(self) -> list[float | None]:
        """Return the value of each evaluation in order; None if it failed or is infeasible."""
        feasible = f"status = 'ok' and coalesce(violation, 0) <= {float(self._tolerance)!r}"
        query = f"select case when {feasible} then value end from evaluations order by id"
        with self._opened() as database:
            return [value for (value,) in database.db.execute(query)]

    def is_current(self) -> bool:
        """Return whether the file is still the one that was opened, and not another under its name."""
        with self._opened(check=False) as database:
            return database.info == self.info

    def since(self, row: int) -> list[tuple[int, float | None, str, str | None]]:
        """Return id, value, status and time of the rows after ``row``; None is the value if infeasible."""
        feasible = f"status = 'ok' and coalesce(violation, 0) <= {float(self._tolerance)!r}"
        value = f"case when {feasible} then value end"
        with self._opened(check=False) as database:
            return database.db.execute(
                f"select id, {value}, status, time from evaluations where id > ? order by id", (row,)
            ).fetchall()

    def positions(self, best: list[dict[str, Any]], most: int) -> list[tuple[str, str, str, list[float]]]:
        """Return name, labels of both ends, and positions in [0, 1] of points, for ``most`` variables.

        Ends are the limits of a variable if it has limits, otherwise the extremes of the points.
        """
        try:
            return self._positions(best, most)
        except (TypeError, ValueError) as error:
            raise error_of(self.path, error) from None

    def _positions(self, best: list[dict[str, Any]], most: int) -> list[tuple[str, str, str, list[float]]]:
        limits = {int(column): (low, high) for column, low, high in self._columns.limits}
        found = []
        for column, name in enumerate(self.variables[:most]):
            cells = [row[name] for row in best]
            if (values := self._columns.choices.get(column)) is not None:
                ends, cells = (0.0, float(len(values) - 1)), [values.index(cell) for cell in cells]
                labels = str(values[0]), str(values[-1])
            else:
                ends = limits.get(column) or (min(cells), max(cells))
                labels = f"{ends[0]:.3g}", f"{ends[1]:.3g}"
                if column in self._columns.log:
                    ends, cells = (math.log(ends[0]), math.log(ends[1])), list(map(math.log, cells))
            low, width = ends[0], (ends[1] - ends[0]) or 1.0
            found.append((name, *labels, [(cell - low) / width for cell in cells]))
        return found

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Return the smallest and the largest value of each numeric variable that has a column."""
        numbers = [name for name, kind in self._kinds().items() if kind is not str and name in self._in_file]
        with self._opened() as database:
            found = {}
            for name in numbers:
                ends = f"select min({quoted(name)}), max({quoted(name)}) from evaluations"
                low, high = database.db.execute(ends).fetchone()
                if isinstance(low, int | float) and isinstance(high, int | float):
                    found[name] = float(low), float(high)
        return found

    def summary(self) -> dict[str, Any]:
        """Return counts: ``evaluations``, ``failed``, ``timeout``, ``runs``, ``first`` and ``last`` times."""
        query = (
            "select count(*), coalesce(sum(status = 'failed'), 0), coalesce(sum(status = 'timeout'), 0), "
            "min(time), max(time), sum(seconds) from evaluations"
        )
        names = ("evaluations", "failed", "timeout", "first", "last", "seconds")
        with self._opened() as database:
            found = dict(zip(names, database.db.execute(query).fetchone(), strict=True))
            found["runs"] = database.db.execute("select count(*) from runs").fetchone()[0]
            reason = "select reason from evaluations where status <> 'ok' order by id limit 1"
            found["reason"] = (database.db.execute(reason).fetchone() or (None,))[0]
        return found

    # Export

    def to_frame(self, best: int | None = None) -> Any:
        """Return a ``pandas.DataFrame`` of all rows, or the ``best`` ones; units are in ``frame.attrs``."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                f"to_frame() requires pandas: {how_to_install('pandas')}; to_csv() does not"
            ) from None
        frame = pandas.DataFrame.from_records(list(self.rows(best)), columns=self.columns)
        frame.attrs["units"] = dict(self.units)
        return frame

    def to_csv(self, path: str | os.PathLike[str], best: int | None = None) -> None:
        """Write all rows, or the ``best`` ones, as CSV; a unit follows the name, as in ``flow [kg/s]``."""

        def save(aside: Path) -> None:
            with open(aside, "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow([self._heading(name) for name in self.columns])
                writer.writerows(self.rows(best))

        write(Path(path), save)

    def _heading(self, name: str) -> str:
        return f"{name} [{self.units[name]}]" if name in self.units else name

    def to_json(self, path: str | os.PathLike[str], best: int | None = None) -> None:
        """Write all rows, or the ``best`` ones, as JSON: ``units``, and ``evaluations`` as objects."""

        def save(aside: Path) -> None:
            with open(aside, "w", encoding="utf-8") as file:
                file.write(f'{{"units": {json.dumps(self.units)}, "evaluations": [')
                for number, row in enumerate(self.rows(best)):
                    record = dict(zip(self.columns, map(finite, row), strict=True))
                    if record["constraints"] is not None:
                        record["constraints"] = finite(json.loads(record["constraints"]))
                    file.write(("," if number else "") + "\n" + json.dumps(record, ensure_ascii=False))
                file.write("\n]}\n")

        write(Path(path), save)

    def to_parquet(self, path: str | os.PathLike[str], best: int | None = None) -> None:
        """Write all rows, or the ``best`` ones, as Parquet; units are metadata of the columns."""
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise ImportError(
                f"to_parquet() requires pyarrow: {how_to_install('pyarrow')}; to_csv() does not"
            ) from None
        kinds = self._kinds()
        types = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
        schema = pyarrow.schema([
            pyarrow.field(
                name, types[kinds[name]], metadata={"unit": self.units[name]} if name in self.units else None
            )
            for name in self.columns
        ])  # fmt: skip

        def save(aside: Path) -> None:
            with parquet.ParquetWriter(aside, schema) as writer:
                for rows in _chunks(self.rows(best)):
                    columns = [
                        [None if cell is None else kinds[name](cell) for cell in column]
                        for name, column in zip(self.columns, zip(*rows, strict=True), strict=True)
                    ]
                    arrays = [
                        pyarrow.array(column, each.type) for column, each in zip(columns, schema, strict=True)
                    ]
                    writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))

        write(Path(path), save)

    def _kinds(self) -> dict[str, type]:
        """Return the type of each column; a choice is text if any of its values is."""
        kinds: dict[str, type] = dict.fromkeys(self.columns, str)
        kinds |= dict.fromkeys(BEFORE, int) | dict.fromkeys(("value", "violation", "seconds"), float)
        for column, name in enumerate(self.variables):
            values = self._columns.choices.get(column)
            if values is None:
                kinds[name] = int if column in self._columns.integers else float
            elif not any(isinstance(value, str) for value in values):
                kinds[name] = int if all(isinstance(value, int) for value in values) else float
        return kinds

    def export(self, path: str | os.PathLike[str], best: int | None = None) -> None:
        """Write a table in the format of the suffix of ``path``: .csv, .json or .parquet."""
        writers: dict[str, Callable[..., None]] = {
            ".csv": self.to_csv, ".json": self.to_json, ".parquet": self.to_parquet,
        }  # fmt: skip
        suffix = Path(path).suffix.lower()
        if suffix not in writers:
            raise ValueError(f"path must end in .csv, .json or .parquet, got {shown(os.fspath(path))}")
        writers[suffix](path, best)


def _chunks(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    held: list[tuple[Any, ...]] = []
    for row in rows:
        held.append(row)
        if len(held) == CHUNK:
            yield held
            held = []
    if held:
        yield held


def copy_readable(path: Path, output: Path) -> int:
    """Copy an archive, or the readable rows of a damaged one, to ``output``; return the number of rows."""
    if output.exists():
        raise ArchiveError(f"{output} already exists: choose another name")
    try:
        archive = Archive(path)
        count = len(archive)

        def save(aside: Path) -> None:
            source, copy = Database(path), sqlite3.connect(aside)
            try:
                with translated_errors(path):
                    source.db.backup(copy)
            finally:
                source.close()
                copy.close()

        for _ in archive.rows():  # read all rows: opening checks only part of the file
            pass
        archive.best_vectors(count + 1)
        write(output, save)
        return count
    except DamagedArchive:
        from lmma.run.archive.rescue import rescue

        return rescue(path, output)


__all__ = ["EXPORTS", "Archive", "Columns", "copy_readable"]
