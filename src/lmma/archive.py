"""Archives of evaluations, for ``archive=``.

``minimize(..., archive="runs.db")`` keeps every evaluation as a row of an SQLite file, which pandas, a
spreadsheet or ``sqlite3`` can read. :class:`Archive` reads it as a table. A file that is damaged, or that
belongs to another objective, raises :class:`ArchiveError`.

Examples
--------
>>> import tempfile, lmma
>>> from pathlib import Path
>>> from lmma.archive import Archive
>>> def sphere(x):
...     return float(x @ x)
>>> with tempfile.TemporaryDirectory() as folder:
...     file = Path(folder) / "runs.db"
...     first = lmma.minimize(sphere, [1.0] * 5, 0.5, rng=1, maxfevals=60, archive=file)
...     longer = lmma.minimize(sphere, [1.0] * 5, 0.5, rng=1, maxfevals=400, archive=file)
...     rows = len(Archive(file))
>>> longer.nfev, longer.calls, rows
(95, 33, 90)
"""

from lmma.run.archive import Archive, ArchiveError

__all__ = ["Archive", "ArchiveError"]
