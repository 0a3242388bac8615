"""Records of a log as columns for a page; whatever a line holds, only numbers and short texts stay."""

from __future__ import annotations

import json
import math
from typing import Any

LONGEST = 1 << 20  # bytes of a line; what is longer is no record
DRAWN = (
    "evaluations", "best_fun", "median_fun", "sigma", "step", "axis_ratio", "seconds", "failures", "late",
    "restarts", "popsize", "violation", "quality", "repeats", "rate", "average_fun",
)  # fmt: skip
QUANTILES = 5  # of the steps: shortest, a quarter, half, three quarters, longest
NAMES = 8  # coordinates whose mean and step are drawn
VARIABLES = 60  # of the best point that are listed
TEXT = 80  # signs of a name or value


class Columns:
    """Rows of numbers, None for what is none, and the texts of the last record."""

    def __init__(self) -> None:
        self.names: list[str] = []  # of the coordinates that are drawn
        self._rows: list[list[float | None]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, line: bytes) -> bool:
        """Take a line; return whether it is a record."""
        record = _record(line)
        if record is None:
            return False
        self._rows.append(self._row(record))
        return True

    def amend(self, line: bytes) -> bool:
        """Return whether a line is a record; it is the last one, with more to say."""
        return _record(line) is not None

    def thin(self) -> None:
        """Drop every second row."""
        self._rows = self._rows[::2]

    def _row(self, record: dict[str, Any]) -> list[float | None]:
        row = [_number(record.get(name)) for name in DRAWN]
        steps = record.get("steps")
        row += _row_of(steps, QUANTILES)
        found = record.get("coordinates")
        coordinates = found if isinstance(found, dict) else {}
        if not self.names:
            self.names = list(coordinates)[:NAMES]
        for name in self.names:
            row += _row_of(coordinates.get(name), 2)
        return row

    def data(self, last: bytes) -> dict[str, Any]:
        """Return columns, names and the texts of the ``last`` line, for JSON."""
        rows = list(self._rows)
        record = _record(last) or {}
        if record:
            row = self._row(record)
            if not rows or rows[-1] != row:
                rows.append(row)
        width = len(DRAWN) + QUANTILES
        rows = [row + [None] * (width + 2 * len(self.names) - len(row)) for row in rows]
        place = {name: number for number, name in enumerate(DRAWN)}
        return {
            "columns": {name: [row[at] for row in rows] for name, at in place.items()},
            "steps": [[row[len(DRAWN) + k] for row in rows] for k in range(QUANTILES)],
            "names": [name[:TEXT] for name in self.names],
            "means": [[row[width + 2 * k] for row in rows] for k in range(len(self.names))],
            "deviations": [[row[width + 2 * k + 1] for row in rows] for k in range(len(self.names))],
            "shortest": _numbers(record.get("shortest")),
            "longest": _numbers(record.get("longest")),
            "best": _texts(record.get("x")),
            "reason": str(record.get("reason", ""))[:TEXT],
        }


def is_likely(line: bytes) -> bool:
    """Return whether a line looks like a record as runs write them, without looking into it."""
    return line.startswith(b'{"evaluations": ') and line.endswith(b"}") and len(line) <= LONGEST


def _record(line: bytes) -> dict[str, Any] | None:
    """Return a line as a record; None for no record."""
    if len(line) > LONGEST:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or _number(found.get("evaluations")) is None:
        return None
    return found


def _number(value: Any) -> float | None:
    if type(value) not in (int, float) or not -1e308 < value < 1e308:
        return None
    if not math.isfinite(value):
        return None
    return value if type(value) is int else float(f"{value:.7g}")


def _row_of(found: Any, size: int) -> list[float | None]:
    """Return a list of ``size`` numbers, all None where it is none."""
    if not isinstance(found, list) or len(found) != size:
        return [None] * size
    return [_number(value) for value in found]


def _numbers(found: Any) -> list[tuple[str, float]]:
    pairs = found.items() if isinstance(found, dict) else ()
    numbers = [(str(name)[:TEXT], _number(value)) for name, value in list(pairs)[:NAMES]]
    return [(name, value) for name, value in numbers if value is not None]


def _texts(found: Any) -> list[tuple[str, str]]:
    pairs = found.items() if isinstance(found, dict) else ()
    return [(str(name)[:TEXT], _text(value)) for name, value in list(pairs)[:VARIABLES]]


def _text(value: Any) -> str:
    text = f"{value:.7g}" if type(value) is float else str(value)
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"
